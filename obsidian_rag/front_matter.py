"""The properties at the top of a note.

YAML is composed by PyYAML and turned into values here, by the types of YAML 1.2: `yes` and `12:30` are
texts, dates stay as written. What comes out can be stored as JSON as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from obsidian_rag.counts import choose

_BLOCK = re.compile(r"---[ \t]*\n(?:(.*?)\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
# Beyond this a number loses digits in most programs that read JSON; an identifier should not.
_EXACT = 2**53
# A scalar without a tag of its own, and the tags that ask for a type in spite of quotes.
_PLAIN = "plain"
_TYPED = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
# YAML 1.1 ends a line at these, YAML 1.2 does not: they are carried through the parser as something else.
_LINE_ENDS = {"\x85": "\U000ffff0", "\u2028": "\U000ffff1", "\u2029": "\U000ffff2"}
_HIDE_LINE_ENDS = str.maketrans(_LINE_ENDS)
_SHOW_LINE_ENDS = str.maketrans({hidden: shown for shown, hidden in _LINE_ENDS.items()})
_UNREADABLE = re.compile("[^\t\n -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A character written as `json.dumps` writes it.
_SURROGATE_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# What the parser was at when something is not closed or not followed by its colon.
_LEFT_OPEN = {
    "while scanning a quoted scalar": "a quote is not closed",
    "while scanning a simple key": "a line has no colon after its name",
    "while parsing a flow sequence": "a list is not closed, or lacks a comma",
    "while parsing a flow mapping": "a { is not closed, or lacks a comma",
}
# Words of the parser that say little to who writes notes.
_PLAIN_WORDS = {
    "mapping values are not allowed in this context": "a colon too many, or a wrong indentation",
    "found character that cannot start any token": "a tab, or a value whose first sign needs quotes",
    "did not find expected key": "a wrong indentation, or text after closing quotes or brackets",
}

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 50
TOO_DEEP = f"they are nested deeper than {MAX_DEPTH} levels"
MAX_VALUES = 50_000
"""How many values properties may have once every alias (`*name`) is replaced by what it stands for."""
MAX_EXPANDED = 4 * MAX_CHARACTERS
"""How many characters those values and their full keys may have."""


@dataclass(frozen=True, slots=True)
class Property:
    """A value as it was written: `key` is `rel.0` in a list; `line` is the line of the file."""

    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the top of a note says. `body_start` is 0 where there is no block of properties.

    `texts` are the texts and numbers as they were written, in order. `refused` says that Obsidian takes none
    of the properties, though some could be read.
    """

    body_start: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    texts: tuple[Property, ...] = ()
    refused: bool = False
    warnings: tuple[str, ...] = ()


class _Refused(Exception):
    """The block cannot be read as properties; the text says why."""


def find_body(text: str) -> int:
    """Where the text after the properties begins; 0 where there are none."""
    match = _BLOCK.match(text)
    return match.end() if match else 0


def read_front_matter(text: str) -> FrontMatter:
    """The properties of a note's text. Never raises: a block that cannot be read gives a warning."""
    match = _BLOCK.match(text)
    if match is None:
        return FrontMatter()
    source = match.group(1) or ""
    try:
        reader = _read_yaml(source)
    except _Refused as refusal:
        warning = f"The properties cannot be read: {refusal}."
        return FrontMatter(match.end(), refused=True, warnings=(warning,))
    if reader is None:
        return FrontMatter(match.end())
    refused = bool(reader.duplicates)
    warnings = (_describe_duplicates(reader.duplicates),) if refused else ()
    return FrontMatter(match.end(), reader.values, tuple(reader.texts), refused, warnings)


def _describe_duplicates(duplicates: list[tuple[str, int]]) -> str:
    named = ", ".join(f'"{key}" (line {line})' for key, line in duplicates[:5])
    more = f" and {len(duplicates) - 5} more" if len(duplicates) > 5 else ""
    given = choose(len(duplicates), "A property is", "Properties are")
    return (
        f"{given} given twice: {named}{more}. The last one counts here; "
        "Obsidian takes none of this note's properties."
    )


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's composer without its types, which are those of YAML 1.1."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        return _PLAIN


class _Reader:
    """Turns YAML nodes into values that JSON can hold."""

    def __init__(self, shown: dict[int, str]) -> None:
        """`shown` turns the characters that stood in for line ends back."""
        self._shown = shown
        self.values: dict[str, Any] = {}
        self.texts: list[Property] = []
        self.duplicates: list[tuple[str, int]] = []
        self.size = 0

    def read(self, node: yaml.MappingNode) -> None:
        if _count_values(node, {}) > MAX_VALUES:
            raise _Refused(f"they hold more than {MAX_VALUES} values")
        self.values = self._read_mapping(node, "", 0)

    def _read_node(self, node: yaml.Node, key: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _Refused(TOO_DEEP)
        self.size += len(key) + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self.size > MAX_EXPANDED:
            raise _Refused(f"they hold more than {MAX_EXPANDED} characters")
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, key, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._read_node(item, f"{key}.{i}", depth + 1) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        value = _read_scalar(node)
        if value is not None:
            if isinstance(value, str) and self._shown:
                value = value.translate(self._shown)
            text = value if isinstance(value, str) else node.value
            self.texts.append(Property(key, text, node.start_mark.line + 2))
        return value

    def _read_mapping(self, node: yaml.MappingNode, key: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = _read_key(key_node).translate(self._shown)
            if name in values:
                self.duplicates.append((name, key_node.start_mark.line + 2))
            values[name] = self._read_node(value_node, f"{key}.{name}" if key else name, depth + 1)
        return values


def _read_yaml(source: str) -> _Reader | None:
    if len(source) > MAX_CHARACTERS:
        raise _Refused(f"they are longer than {MAX_CHARACTERS} characters")
    if _nests_too_deep(source):
        raise _Refused(TOO_DEEP)
    try:
        has_line_ends = any(end in source for end in _LINE_ENDS)
        node = yaml.compose(_prepare(source.translate(_HIDE_LINE_ENDS) if has_line_ends else source), _Loader)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            raise _Refused("they are not a list of names with values")
        reader = _Reader(_SHOW_LINE_ENDS if has_line_ends else {})
        reader.read(node)
    except yaml.MarkedYAMLError as error:
        raise _Refused(_describe_fault(error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _Refused(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return reader


def _describe_fault(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, and in which line of the file. What is left open is noticed further down than it begins;
    both are told.
    """
    noticed, begun, context = error.problem_mark, error.context_mark, error.context or ""
    if noticed is None or begun is None or context not in _LEFT_OPEN:
        problem, mark = error.problem or context, noticed or begun
        return f"{_PLAIN_WORDS.get(problem, problem)}{f' (line {mark.line + 2})' if mark else ''}"
    further = f", noticed in line {noticed.line + 2}" if noticed.line != begun.line else ""
    return f"{_LEFT_OPEN[context]} (line {begun.line + 2}{further})"


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node has with all that its aliases stand for, each counted but once."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    count = known.get(id(node))
    if count is None:
        known[id(node)] = -1
        items = (item[1] if isinstance(item, tuple) else item for item in node.value)
        count = known[id(node)] = 1 + sum(_count_values(item, known) for item in items)
    if count < 0:
        raise _Refused(TOO_DEEP)  # a value that holds itself
    return count


def _prepare(source: str) -> str:
    """The source without what YAML 1.2 and Obsidian take and PyYAML refuses."""
    source = _UNREADABLE.sub("\ufffd", source)
    if "\\u" in source:
        source = _SURROGATE_PAIR.sub(_join_surrogates, source)
    return source


def _join_surrogates(match: re.Match[str]) -> str:
    high, low = (int(part, 16) for part in match.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _nests_too_deep(source: str) -> bool:
    """Whether the parser, which calls itself for every level, should not be given this.

    Counts openers that stand one after the other or are never closed, so it may refuse what would parse;
    no person writes hundreds of either.
    """
    limit = 10 * MAX_DEPTH
    depth = 0
    for match in re.finditer(r"[\[\]{}]", source):
        depth = depth + 1 if match.group() in "[{" else max(0, depth - 1)
        if depth > limit:
            return True
    for line in source.split("\n"):
        if len(line) > limit:
            indent = len(line) - len(line.lstrip(" "))
            if indent > limit or line.count("- ") > limit or line.count("? ") > limit:
                return True
    return False


def _read_scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    is_plain = not node.style and node.tag == _PLAIN
    if is_plain or node.tag in _TYPED:
        if text in _NULL:
            return None
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if _INT.fullmatch(text):
            return _read_int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            return number if abs(number) != float("inf") else text
    return _clean(text)


def _read_int(text: str) -> int | str:
    if len(text) > 18:
        return text
    number = int(text, 0) if text.startswith(("0o", "0x")) else int(text)
    return number if abs(number) <= _EXACT else text


def _read_key(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return _clean(node.value)
    # `{{title}}`, as a template has it, is a mapping as the key of a mapping: kept as it was written.
    if node.start_mark.buffer is not None:
        return _clean(node.start_mark.buffer[node.start_mark.pointer : node.end_mark.pointer])
    return _clean(_describe(node))


def _describe(node: yaml.Node, depth: int = 0) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if depth > 2:
        return "…"  # aliases make this as long as they like, or endless
    parts = []
    for item in node.value[:20]:
        key, value = item if isinstance(item, tuple) else (item, None)
        part = _describe(key, depth + 1)
        parts.append(part if value is None or value.value == "" else f"{part}: {_describe(value, depth + 1)}")
    return ("{%s}" if isinstance(node, yaml.MappingNode) else "[%s]") % ", ".join(parts)


def _clean(text: str) -> str:
    if text.isprintable():
        return text
    return _UNSTORABLE.sub("\ufffd", text)
