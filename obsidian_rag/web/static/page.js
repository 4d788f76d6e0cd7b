// The page's state is its address: what is asked, which note is open. Everything shown follows from it.
import { address, ask, make, showFailure, showNotices } from "/static/dom.js";
import { showNote } from "/static/note.js";
import { countNotes, countResults, showNotes, showResults } from "/static/results.js";
import { showFreshness, showStart } from "/static/start.js";

const FIELDS = ["q", "mode", "folder", "tag", "after", "before"];
const NAMES = [...FIELDS, "note", "first", "last", "at", "view", "depth"];
const CLOSED = { note: "", first: "", last: "", at: "", view: "", depth: "" };
const PATIENCE = 180; // milliseconds without a key before it is searched

const [form, list, results, said, start, counted, note, filters, more, fresh] =
  ["search", "list", "results", "said", "start", "count", "note", "filters", "more", "fresh"].map((id) => document.getElementById(id));
const box = form.elements.q;
let shown = {}; // the state that is on the page
let searching = new AbortController();
let reading = new AbortController();

function read() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.map((name) => [name, given.get(name) || ""]));
}

function go(changes, { replace = false, typed = false } = {}) {
  const next = { ...read(), ...changes };
  if (address(next) !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address(next));
  show(typed);
}

function show(typed = false) {
  const state = read();
  const differs = (names) => names.some((name) => state[name] !== shown[name]);
  const ask = differs(FIELDS);
  const open = differs(Object.keys(CLOSED)); // its marks stay while further words are typed
  const wasOpen = shown.note;
  shown = state;
  for (const name of FIELDS) if (!typed && form.elements[name].value.trim() !== state[name]) form.elements[name].value = state[name];
  const set = FIELDS.slice(1).filter((name) => state[name]).length;
  document.getElementById("set").textContent = set ? ` ${set}` : "";
  if (set) expand(true);
  document.body.classList.toggle("reading", Boolean(state.note));
  if (!state.note) {
    reading.abort();
    note.hidden = true;
    note.dataset.path = "";
    note.replaceChildren();
    document.title = state.q ? `${state.q} – obsidian-rag` : "obsidian-rag";
    if (wasOpen) find(wasOpen)?.focus();
  } else if (open) {
    reading.abort();
    reading = new AbortController();
    const stays = wasOpen === state.note || document.activeElement === box;
    const { signal } = reading;
    showNote(note, state, signal).then(() => signal.aborted || stays || document.getElementById("title")?.focus({ preventScroll: true }));
  }
  if (ask) search(state);
  point(state.note);
}

async function search(state) {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  list.setAttribute("aria-busy", "true");
  try {
    const filtered = ["folder", "tag", "after", "before"].some((name) => state[name]);
    if (!state.q.trim() && filtered) {
      const answer = await ask("notes", fieldsOf(state), signal);
      fill({ found: showNotes(answer.notes), words: countNotes(answer) });
      point(state.note);
    } else if (!state.q.trim()) {
      const [topics, status] = await Promise.all([ask("topics", {}, signal), ask("status", {}, signal)]);
      fill({ parts: showStart(topics, status) });
      suggest(topics);
      showFreshness(fresh, status);
    } else {
      const answer = await ask("search", fieldsOf(state), signal);
      fill({ said: showNotices(answer.notices), found: showResults(answer.results, state), words: countResults(answer) });
      point(state.note);
    }
  } catch (failure) {
    if (failure.name === "AbortError") return; // a newer question is under way
    fill({ said: showFailure(failure) });
    if (!state.q) showFreshness(fresh, null);
  }
  list.removeAttribute("aria-busy");
}

const look = () => ask("status").then((status) => showFreshness(fresh, status), () => showFreshness(fresh, null));

function fill({ parts = [], said: words = null, found = [], words: counts = "" }) {
  counted.textContent = counts;
  said.replaceChildren(...(words ? [words] : []));
  results.replaceChildren(...found);
  start.replaceChildren(...parts);
}

function suggest({ folders, tags }) {
  const fillList = (id, values) => document.getElementById(id).replaceChildren(...values.map((value) => make("option", { value })));
  fillList("folders", folders);
  fillList("tags", tags);
}

// The result that leads to a note.
const find = (path) => [...results.querySelectorAll("a.open")].find((link) => link.dataset.note === path);

function point(path) {
  for (const link of results.querySelectorAll("a.open")) {
    if (link.dataset.note === path) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function expand(isOpen) {
  filters.hidden = !isOpen;
  more.setAttribute("aria-expanded", String(isOpen));
}

const fieldsOf = (state) => Object.fromEntries(FIELDS.map((name) => [name, state[name]]));
const fields = () => Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value.trim()]));
let timer = 0;
function later() {
  clearTimeout(timer);
  timer = setTimeout(() => go({ ...fields(), ...(document.body.classList.contains("reading") && innerWidth < 900 ? CLOSED : {}) }, { replace: true, typed: true }), PATIENCE);
}
form.addEventListener("input", (event) => event.isComposing || later());
form.addEventListener("compositionend", later);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  if (address(fields()) === address(fieldsOf(read()))) results.querySelector("a.open")?.click();
  else go(fields());
});
more.addEventListener("click", () => expand(filters.hidden));
document.getElementById("clear").addEventListener("click", () => {
  for (const name of FIELDS.slice(1)) form.elements[name].value = "";
  go(fields());
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  const { note: path, first = "", last = "", view, depth, at, folder, tag } = link.dataset;
  const change =
    path !== undefined ? { ...CLOSED, note: path, first, last } :
    view !== undefined ? { view, depth: "" } :
    depth !== undefined ? { depth } :
    at !== undefined ? { at } :
    folder !== undefined ? { ...CLOSED, folder } :
    tag !== undefined ? { ...CLOSED, tag } :
    link.dataset.close !== undefined ? CLOSED :
    link.dataset.home !== undefined ? Object.fromEntries(NAMES.map((name) => [name, ""])) : null;
  if (!change) return;
  event.preventDefault();
  go(change);
  if (folder !== undefined || tag !== undefined || link.dataset.home !== undefined) box.focus();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const isTyping = event.target.matches("input, select");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape") {
    leave(event);
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    move(event);
  }
});

// From a note to its result, from a result to the words, from the words to none.
function leave(event) {
  event.preventDefault();
  if (read().note) go(CLOSED);
  else if (document.activeElement !== box) box.focus();
  else if (box.value) {
    box.value = "";
    go(fields(), { replace: true });
  }
}

function move(event) {
  const links = [...list.querySelectorAll("#results a.open, #start a")];
  const at = links.indexOf(document.activeElement);
  if (at < 0 && document.activeElement !== box) return;
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  if (next >= links.length || (at < 0 && next < 0)) return;
  event.preventDefault();
  (links[next] || box).focus();
}

// A note chosen in the picture, which is a page of its own that may do nothing but say so.
addEventListener("message", (event) => {
  const frame = note.querySelector("iframe");
  if (frame && event.source === frame.contentWindow && typeof event.data?.note === "string") go({ ...CLOSED, note: event.data.note });
});
addEventListener("popstate", () => show());
addEventListener("visibilitychange", () => document.hidden || look());

if (!read().note) box.focus();
show();
if (address(fieldsOf(read())) !== "/") { // else it was asked for already
  ask("topics").then(suggest, () => {});
  look();
}
