// Elements whose text is always text, and questions to the server.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Text in parts, [text, whether it is marked].
export function mark(parts) {
  return parts.map(([text, marked]) => (marked ? make("mark", {}, text) : text));
}

export class Failure extends Error {
  constructor({ message, mend, nearest = [] }) {
    super(message);
    this.mend = mend;
    this.nearest = nearest;
  }
}

// The address of this page in another state; what is empty is left out.
export function address(parameters, base = "/") {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return query ? `${base}?${query}` : base;
}

export async function ask(name, parameters = {}, signal = undefined) {
  let response;
  try {
    response = await fetch(address(parameters, `/api/${name}`), { signal });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Failure({ message: "The program behind this page does not answer", mend: "Start it again: obsidian-rag web" });
  }
  const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
  if (!isJson) throw new Failure({ message: await response.text(), mend: "" });
  const answer = await response.json();
  signal?.throwIfAborted(); // an answer that came before it was given up is out of date all the same
  if (answer.error) throw new Failure(answer.error);
  return answer;
}

// What failed and what mends it, in full; paths that were perhaps meant as links.
export function showFailure(failure) {
  const nearest = failure.nearest || [];
  const stop = /[.!?]$/.test(failure.message) ? "" : ".";
  return make("div", { class: "failure", role: "alert" },
    make("p", { dir: "auto" }, make("strong", {}, `${failure.message}${stop}`)),
    nearest.length ? make("p", {}, "The nearest there are:") : failure.mend ? make("p", { dir: "auto" }, failure.mend) : null,
    nearest.map((path) => make("p", {}, make("a", { href: address({ note: path }), "data-note": path, dir: "auto" }, path))));
}

export function showNotices(notices) {
  return notices.length ? make("ul", { class: "notices" }, notices.map((text) => make("li", { dir: "auto" }, text))) : null;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// A length of time in its largest unit: 40 seconds, 12 minutes, 30 hours, 9 days.
export function age(seconds) {
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  const [size, unit] = units.find(([length]) => seconds >= 2 * length) || [1, "second"];
  return count(Math.round(seconds / size), unit);
}
