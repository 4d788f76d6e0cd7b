"""What nobody would write, as hypothesis strategies: notes, properties, names of files, queries, arguments.

`strange_notes` are mixtures of Markdown, Obsidian's syntax, control characters and bytes; some are a piece
repeated many times, which is what makes a slow expression slow.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

LARGEST = 60_000  # characters of a repeated piece

# What the parsers look for, whole and in halves.
SIGNS = (
    "[[", "]]", "![[", "[", "]", "](", "(", ")", "|", "#", "^", "`", "``", "```", "~~~", "$", "$$", "%%",
    "==", "<!--", "-->", "<", ">", "> ", "> [!note]- ", "- ", "* ", "+ ", "- [ ] ", "1. ", "| ", "|---|",
    "---", "===", "***", "__", "~~", "\\", "::", ": ", "; ", ", ", ". ", "? ", "(", "&amp;", "<div>",
    "</b>", "<a b='", "[^a]", "[^a]: ", "[a]: <", "%41", "%", "../", "./", "/", "@", "://", "{{", "}}",
    "{", "}", "!", '"', "'", "”", "…",
)  # fmt: skip
SPACES = (
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "  ",
    "    ",
    "\t",
    "\f",
    "\v",
    "\x85",
    "\u2028",
    "\u2029",
    "\xa0",
    "\u3000",
)
# Control characters, writing from right to left, invisible ones, marks in an order that must be mended,
# what folds to several letters, joined emoji, halves of one, private use, the last character there is.
ODDITIES = (
    "\0", "\x07", "\x08", "\x1b[2J", "\x7f", "\u200b", "\u200d", "\u202e", "\u2066", "\u2069", "\ufeff",
    "\ufffd", "\u0301\u0316", "e\u0301", "ﷺ", "ß", "İ", "ǅ", "ſ", "🏳️‍🌈", "🇩🇪", "👨‍👩‍👧", "\ud83d",
    "\udc80", "\ue000", "\U0010ffff", "日本語", "カタカナ", "한국어", "ไทย", "עברית", "العربية", "हिन्दी", "𝕬",
    "①",
)  # fmt: skip
WORDS = (
    "Ann", "Acme", "Bob Lee", "note", "note", "Home/Pump", "index", "founded by", "invested in",
    "works at", "and", "author", "the", "2024-02-30", "January 2024", "last week", "v1.2.3",
    "snake_case", "CamelCase", "C++", "a@b.c", "aaaaaaaaaaaaaaaaaaaa", "x", "0", "-1", "1e999", "NaN",
    "null", "true", "who", "which company",
)  # fmt: skip

pieces = st.one_of(
    st.sampled_from(SIGNS),
    st.sampled_from(WORDS),
    st.sampled_from(SPACES),
    st.sampled_from(ODDITIES),
    st.text(max_size=8),
)
lines = st.lists(pieces, max_size=12).map("".join)


def _repeat(unit: str, times: int) -> str:
    return unit * min(times, LARGEST // max(1, len(unit)))


repeated = st.builds(_repeat, lines, st.sampled_from((2, 20, 300, 5_000, LARGEST)))


def _nest(opener: str, depth: int, text: str) -> str:
    return opener * depth + text


links = st.builds("[[{}]]".format, lines) | st.builds("[{}]({})".format, lines, lines)
blocks = st.one_of(
    lines,
    links,
    st.builds("{} {}".format, st.sampled_from(("#", "##", "######")), lines),
    st.builds("{}{}".format, st.sampled_from(("- ", "1. ", "> ", "- [x] ", "\t- ")), lines),
    st.builds("{0}\n{1}\n{0}".format, st.sampled_from(("```", "~~~~", "$$", "%%", "---")), lines),
    st.builds("| {0} | {1} |\n|---|---|\n| {1} | {0} |".format, lines, lines),
    st.builds("<!-- {} -->\n<{}>".format, lines, lines),
    st.builds("{}:: {}".format, lines, links),
    st.builds("| {} |\n{}".format, links, lines),
    st.builds(
        _nest, st.sampled_from(("> ", "- ", "> - ", "[", "(", "![[", "  ")), st.integers(1, 300), lines
    ),
    repeated,
)
bodies = st.lists(blocks, max_size=8).map("\n".join)

keys = st.one_of(
    st.sampled_from(("aliases", "tags", "title", "date", "type", "a", "excalidraw-plugin")), lines
)
scalars = st.one_of(
    lines,
    st.sampled_from(
        ("*a", "&a x", "!!python/object:os.system x", "!!int x", "|", ">", "<<: *a", "~", "- - - x")
    ),
    st.builds("[{}]".format, st.lists(lines, max_size=4).map(", ".join)),
    st.builds("{{{}}}".format, st.lists(st.builds("{}: {}".format, lines, lines), max_size=3).map(", ".join)),
    st.builds('"{}"'.format, lines),
    st.integers().map(str),
    st.floats().map(str),
)
bombs = st.one_of(
    st.builds(lambda n, deep: "a0: &a0 [" + "x," * n + "]\n" + "".join(
        f"a{i}: &a{i} [" + f"*a{i - 1}," * n + "]\n" for i in range(1, deep)
    ), st.integers(2, 12), st.integers(2, 12)),
    st.builds(lambda n: "a: " + "[" * n, st.integers(1, 5000)),
    st.builds(lambda n: "a: &a [*a]\n" * n, st.integers(1, 50)),
    st.builds(lambda n: "".join(" " * i + "k:\n" for i in range(n)), st.integers(1, 200)),
    st.builds(lambda n, m: "k" * n + ": [" + "1, " * m + "]", st.integers(1, 2000), st.integers(1, 5000)),
)  # fmt: skip
property_lines = st.builds("{}: {}".format, keys, scalars)
properties = st.one_of(st.lists(property_lines, max_size=6).map("\n".join), bombs, bodies)
front_matter = st.builds("---\n{}\n---\n{}".format, properties, lines)
texts = st.one_of(bodies, front_matter, st.builds("---\n{}\n---\n{}".format, properties, bodies))


def _encode(text: str, encoding: str) -> bytes:
    data = text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")
    return data


def _damage(data: bytes, at: int, inserted: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + inserted + data[at:]


encoded = st.builds(
    _encode, texts, st.sampled_from(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"))
)
strange_notes = st.one_of(
    encoded, encoded, st.builds(_damage, encoded, st.integers(0), st.binary(max_size=6))
)
any_bytes = st.binary(max_size=400)

# A name as a file system takes it: no slash and no NUL, up to 255 bytes; a dot at its front would hide it.
names = st.one_of(
    st.sampled_from(("note", "Note", "NOTE", "note ", " note", "a_b", "a b", "..x", "CON")), lines
)


def make_file_name(name: str) -> str:
    """A name of a note that can be written to a disk."""
    cleaned = name.replace("/", "_").replace("\0", "_").lstrip(".")
    data = cleaned.encode("utf-8", "surrogateescape" if _is_escaped(cleaned) else "replace")[:250]
    return data.decode("utf-8", "ignore") + ".md"


def _is_escaped(text: str) -> bool:
    return all(not 0xD800 <= ord(c) <= 0xDFFF or 0xDC80 <= ord(c) <= 0xDCFF for c in text)


file_names = names.map(make_file_name)
paths = st.one_of(
    file_names,
    st.builds("{}/{}".format, st.sampled_from(("Home", "home", "Ho me", "a/b/c/d")), file_names),
)

OPERATORS = ('"', "-", "OR", "AND", "(", ")", "*", ":*", "&", "|", "!", "<->", "%", "_")
queries = st.one_of(
    lines,
    bodies.map(lambda text: text[:5000]),
    repeated.map(lambda text: text[:4500]),
    st.lists(st.sampled_from((*WORDS, *OPERATORS)), max_size=400).map(" ".join),
    st.sampled_from((
        "'; DROP TABLE notes; --", "\\", "%s %(x)s {} $1", "a" * 4000, '"' * 4000, "-" * 4000,
        "(a+)+$" * 600, "x OR " * 700, "-a " * 1300, '"a b" ' * 600, "\u0301\u0316" * 1900, "日" * 4000,
        "👍" * 1000, "a-" * 2000, "Who invested in the company that Ann founded? " * 80,
        "Ann and Bob Lee at Acme, " * 150,
    )),
)  # fmt: skip
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | lines,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(lines, inner, max_size=4),
    max_leaves=12,
)
note_paths = st.one_of(
    st.sampled_from(
        ("note", "Home/Pump.md", "../note", "/etc/passwd", "..", "./", "[[note]]", "a" * 5000, "%", "\\")
    ),
    paths,
    lines,
)
ARGUMENTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "search_notes": {
        "query": queries,
        "limit": st.integers(-2, 60),
        "mode": st.sampled_from(("hybrid", "keyword", "vector", "x")),
        "folder": lines,
        "tags": st.lists(lines, max_size=3),
        "properties": st.lists(st.builds("{}={}".format, lines, lines) | lines, max_size=3),
        "after": st.dates().map(str) | lines,
        "before": st.dates().map(str) | lines,
        "intent": st.sampled_from(("exact", "entity", "question", "temporal", "general", "x")),
        "boosts": st.lists(st.builds("{}={}".format, lines, st.floats()) | lines, max_size=3),
        "include_excluded": st.booleans(),
    },
    "graph_search": {
        "file_path": note_paths,
        "depth": st.integers(-1, 5),
        "include_content": st.booleans(),
        "relation": st.lists(lines, max_size=3) | lines,
        "direction": st.sampled_from(("both", "in", "out", "x")),
    },
    "get_note": {"file_path": note_paths},
    "list_topics": {},
}


@st.composite
def tool_calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A tool with arguments: mostly those it takes, some of any other kind or name."""
    tool = draw(st.sampled_from(tuple(ARGUMENTS)))
    arguments = {name: draw(values) for name, values in ARGUMENTS[tool].items() if draw(st.integers(0, 2))}
    if not draw(st.integers(0, 3)):
        arguments |= draw(
            st.dictionaries(
                st.sampled_from(tuple(ARGUMENTS[tool]) or ("x",)) | lines, json_values, max_size=2
            )
        )
    return tool, arguments


@st.composite
def searches(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A search with a hostile query."""
    mode = draw(st.sampled_from(("hybrid", "hybrid", "keyword", "vector")))
    return "search_notes", {"query": draw(queries), "mode": mode, "limit": draw(st.integers(1, 50))}
