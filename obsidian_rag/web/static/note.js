// One note: its text with the passage marked, or its links as a picture and as words.
import { address, ask, count, make, showFailure, showNotices } from "/static/dom.js";

export async function showNote(place, state, signal) {
  const isNew = place.dataset.path !== state.note;
  if (isNew) place.replaceChildren(toolbar(state, null), make("p", { class: "wait" }, "Reading …"));
  place.hidden = false;
  let note;
  try {
    const { note: path, q, first, last, at } = state;
    note = await ask("note", { path, q, first, last, at }, signal);
  } catch (failure) {
    if (failure.name === "AbortError") return;
    place.dataset.path = "";
    place.replaceChildren(toolbar(state, null), showFailure(failure));
    return;
  }
  place.dataset.path = state.note;
  const body = state.view === "links" ? await showLinks(state, signal) : showText(note, state);
  if (signal.aborted) return;
  place.replaceChildren(toolbar(state, note), title(note), ...body);
  document.title = `${note.title} – obsidian-rag`;
  place.scrollTop = 0;
  const passage = document.getElementById("passage");
  if (passage) passage.scrollIntoView({ block: "center" });
}

function toolbar(state, note) {
  const tab = (view, label) => make("a", {
    href: address({ ...state, view, depth: "" }), "data-view": view, class: "tab", "aria-current": (state.view || "") === view ? "page" : null,
  }, label);
  return make("nav", { "aria-label": "Note" },
    make("a", { class: "close", href: address({ ...state, note: "", first: "", last: "", view: "", depth: "", at: "" }), "data-close": true }, make("span", { "aria-hidden": "true" }, "← "), state.q ? "Results" : "Start"),
    tab("", "Text"), tab("links", "Links"),
    note ? make("a", { class: "outside", href: note.url }, "Open in Obsidian") : null);
}

function title(note) {
  const edited = new Date(note.modified_at).toLocaleDateString("en", { dateStyle: "medium" });
  return make("div", { class: "head" },
    make("h2", { tabindex: "-1", id: "title", dir: "auto" }, note.title),
    make("p", { class: "path", dir: "auto" }, `${note.path} · edited ${edited}`));
}

function showText(note, state) {
  const text = make("div", { class: "text", dir: "auto" });
  // The server has escaped all that the note holds and made every tag itself; the page's policy runs no
  // script in it, whatever it may be.
  text.innerHTML = note.html || "<p class='wait'>This note has no text.</p>";
  const rest = make("p", { class: "part" });
  if (note.earlier || note.later) {
    rest.append(`Lines ${note.first}–${note.last} of ${note.lines.toLocaleString("en")}. `);
    if (note.earlier) rest.append(turn(state, note.first - 1, "Earlier"), " ");
    if (note.later) rest.append(turn(state, note.last + 1, "Later"));
  }
  return [properties(note), rest.childNodes.length ? rest : "", text, rest.childNodes.length ? rest.cloneNode(true) : ""];
}

function turn(state, at, label) {
  return make("a", { href: address({ ...state, at }), "data-at": at }, label);
}

function properties(note) {
  const entries = Object.entries(note.properties);
  if (!entries.length && !note.tags.length) return "";
  const shown = entries.filter(([name]) => name !== "tags").map(([name, value]) => [make("dt", { dir: "auto" }, name), make("dd", { dir: "auto" }, write(value))]);
  const tags = note.tags.map((tag) => [make("a", { class: "tag", href: address({ tag }), "data-tag": tag }, `#${tag}`), " "]);
  return make("dl", { class: "properties" }, shown, tags.length ? [make("dt", {}, "tags"), make("dd", {}, tags)] : []);
}

function write(value) {
  if (Array.isArray(value)) return value.map(write).join(", ");
  return value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

async function showLinks(state, signal) {
  const depth = state.depth || "1";
  let found;
  try {
    found = await ask("links", { path: state.note, depth }, signal);
  } catch (failure) {
    return failure.name === "AbortError" ? [] : [showFailure(failure)];
  }
  const far = make("p", { class: "depth" }, "Links away: ", ["1", "2", "3"].map((away) => make("a", {
    href: address({ ...state, depth: away }), "data-depth": away, class: "tab", "aria-current": away === depth ? "true" : null,
  }, away)));
  const frame = make("iframe", {
    class: "picture", title: "The links of this note as a picture; the list below says the same",
    src: address({ path: state.note, depth }, "/picture"), sandbox: "allow-scripts allow-top-navigation-to-custom-protocols",
  });
  const list = make("ul", { class: "links" }, found.links.map((one) => make("li", {},
    make("span", { class: "way-sign", title: one.direction === "out" ? "links there" : "links here" }, one.direction === "out" ? "→" : "←"), " ",
    make("a", { href: address({ note: one.path }), "data-note": one.path, dir: "auto" }, one.title),
    one.relation ? make("span", { class: "relation" }, ` ${one.relation.replaceAll("_", " ")}`) : "",
    one.hop > 1 ? make("span", { class: "hop" }, ` ${one.hop} links away, by ${one.from}`) : "",
    one.sentence ? make("p", { dir: "auto" }, one.sentence) : "")));
  return [far, found.total ? frame : "", showNotices(found.notices) || "", make("h3", {}, count(found.total, "note") + (depth === "1" ? " linked" : " around it")), list];
}
