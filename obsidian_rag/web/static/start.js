// What is shown where nothing is asked: topics, and how the index stands.
import { address, age, count, make, showNotices } from "/static/dom.js";

export function showFreshness(place, status) {
  const isWell = Boolean(status) && !status.notices.length;
  place.className = isWell ? "well" : "unwell";
  if (!status) {
    place.replaceChildren(make("i", { "aria-hidden": "true" }), "The index cannot be read");
    return;
  }
  const when = status.age_seconds === null ? "not indexed yet" : `indexed ${age(status.age_seconds)} ago`;
  place.replaceChildren(make("i", { "aria-hidden": "true" }), isWell ? `${count(status.notes, "note")}, ${when}` : "The index needs a look");
}

export function showStart(topics, status) {
  const parts = [];
  if (topics.topics.length) {
    parts.push(make("h2", {}, "Topics"), make("ul", { class: "topics" }, topics.topics.map(({ name, notes }) => make("li", {},
      name ? make("a", { href: address({ folder: name }), "data-folder": name, dir: "auto" }, name) : make("span", {}, "in no folder"),
      make("span", {}, count(notes, "note"))))));
  }
  const rows = [
    ["Vault", status.vaults.join(", ") || "–"],
    ["Holds", `${count(status.notes, "note")} in ${count(status.chunks, "passage")}, ${count(status.links, "link")}${status.broken_links ? ` (${status.broken_links.toLocaleString("en")} lead nowhere)` : ""}`],
    ["Indexed", status.age_seconds === null ? "not yet" : `${age(status.age_seconds)} ago`],
    ["Meaning by", status.embed_model ? `${status.embed_model} (${status.embedder})` : "–"],
  ];
  parts.push(make("h2", {}, "The index"), showNotices(status.notices) || "",
    make("dl", { class: "status" }, rows.map(([name, value]) => [make("dt", {}, name), make("dd", { dir: "auto" }, value)])));
  if (status.failures.length) {
    parts.push(make("h3", {}, "Notes that could not be indexed"), make("ul", { class: "failures" },
      status.failures.map(({ file_path: path, error }) => make("li", { dir: "auto" }, make("b", {}, path), ` ${error}`))));
  }
  return parts;
}
