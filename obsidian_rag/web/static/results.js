// The list of what was found: title, why it is there, the passage with the words marked.
import { address, count, make, mark } from "/static/dom.js";

const RETRIEVERS = { vector: "meaning", keyword: "words", names: "names", links: "links", expansion: "other wording", dates: "dates" };

export function countResults({ results, query, seconds }) {
  const found = results.length ? count(results.length, "note") : "Nothing found";
  return `${found} for “${query}” · ${seconds < 0.1 ? "under 0.1" : seconds.toFixed(1)} s`;
}

export function showResults(results, state) {
  return results.map((result) => {
    const [best, ...others] = result.passages;
    return make("li", { class: "result" },
      make("a", { class: "open", href: link(result, best, state), "data-note": result.path, "data-first": best.first, "data-last": best.last },
        make("span", { class: "title", dir: "auto" }, mark(result.title)),
        make("span", { class: "folder", dir: "auto" }, [result.folder, result.date].filter(Boolean).join(" · ")),
        heading(best),
        make("span", { class: "text", dir: "auto" }, mark(best.text))),
      result.way.map(showStep),
      others.map((passage) => make("a", { class: "also", href: link(result, passage, state), "data-note": result.path, "data-first": passage.first, "data-last": passage.last },
        "also ", heading(passage), make("span", { class: "text", dir: "auto" }, mark(passage.text)))),
      make("p", { class: "why" },
        make("span", { class: `reason ${result.evidence}` }, result.why),
        Object.entries(result.ranks).map(([name, rank]) => make("span", { class: "rank", title: `Place ${rank} in the list by ${RETRIEVERS[name] || name}` }, `${RETRIEVERS[name] || name} #${rank}`)),
        make("a", { class: "outside", href: result.url, "aria-label": `Open ${result.path} in Obsidian` }, "Obsidian")));
  });
}

export function countNotes({ total, notes }) {
  return `${count(total, "note")}${total > notes.length ? `, the newest ${notes.length} of them` : ", newest first"}. Write what to look for in them.`;
}

export function showNotes(notes) {
  return notes.map((note) => make("li", { class: "result brief" },
    make("a", { class: "open", href: address({ note: note.path }), "data-note": note.path },
      make("span", { class: "title", dir: "auto" }, note.title),
      make("span", { class: "folder", dir: "auto" }, [note.folder, note.date].filter(Boolean).join(" · ")))));
}

function link(result, passage, state) {
  return address({ ...state, view: "", depth: "", at: "", note: result.path, first: passage.first, last: passage.last });
}

function heading({ heading: parts, first, last }) {
  const lines = first === null ? "" : first === last ? `line ${first}` : `lines ${first}–${last}`;
  return make("span", { class: "heading", dir: "auto" }, mark(parts), parts.length && lines ? " · " : "", lines);
}

// A step of the way by links from what the query names: Acme – invested in → Ann “…”
function showStep({ from, to, relation, directed, sentence }) {
  return make("p", { class: "way", dir: "auto" }, make("b", {}, from), ` – ${(relation || "linked").replaceAll("_", " ")} ${directed ? "→" : "–"} `,
    make("b", {}, to), sentence ? ` “${sentence}”` : "");
}
