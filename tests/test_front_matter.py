"""Properties: where they are, which values they have, and what refuses them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from obsidian_rag import front_matter as module
from obsidian_rag.front_matter import read_front_matter


def values(source: str) -> dict[str, Any]:
    front = read_front_matter(f"---\n{source}\n---\n")
    assert front.warnings == ()
    return front.values


@pytest.mark.parametrize(
    ("text", "body_start"),
    [
        ("---\n---\nx", 8),
        ("---\na: b\n---", 12),
        ("---  \na: b\n---\t\nx", 16),
        ("--- x\na: b\n---\n", 0),
        ("----\na: b\n----\n", 0),
        ("\n---\na: b\n---\n", 0),
        (" ---\na: b\n---\n", 0),
        ("---\na: b\n", 0),
        ("---\na: |\n  ---\n  x\n---\ny", 23),
        ("---", 0),
        ("", 0),
    ],
)
def test_properties_are_a_block_between_dashes_from_the_first_line_on(text: str, body_start: int) -> None:
    assert read_front_matter(text).body_start == body_start


def test_values_have_the_types_of_yaml_1_2() -> None:
    source = (
        "yes: yes\noff: off\ntime: 12:30\ndate: 2024-01-15\nhex: 0x1F\noct: 0o17\nplain: 010\n"
        "number: 1_000\nfloat: .5\nexp: 1e3\nt: true\nf: FALSE\nn: ~\ne:\nq: '5'\ns: !!str 5\ni: !!int '5'"
    )
    assert values(source) == {
        "yes": "yes",
        "off": "off",
        "time": "12:30",
        "date": "2024-01-15",
        "hex": 31,
        "oct": 15,
        "plain": 10,
        "number": "1_000",
        "float": 0.5,
        "exp": 1000.0,
        "t": True,
        "f": False,
        "n": None,
        "e": None,
        "q": "5",
        "s": "5",
        "i": 5,
    }


def test_what_json_cannot_hold_stays_as_written() -> None:
    assert values("a: .nan\nb: -.inf\nc: 1e999\nd: 12345678901234567890\ne: 9007199254740993") == {
        "a": ".nan",
        "b": "-.inf",
        "c": "1e999",
        "d": "12345678901234567890",
        "e": "9007199254740993",
    }


def test_keys_are_texts_whatever_they_were() -> None:
    assert values("1: a\ntrue: b\nnull: c\n{{title}}: d\n? [x, y]\n: e") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "{{title}}": "d",
        "[x, y]": "e",
    }


def test_a_key_made_of_aliases_is_shortened() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(3)]
    (key,) = [key for key in values("\n".join([*lines, "? *d", ": y"])) if len(key) > 1]
    assert key.startswith("[[[…, …,")


def test_a_template_s_placeholders_are_read() -> None:
    assert values("a: {{title}}\nb: {{date:YYYY-MM-DD}}\nc: <% tp.file.title %>") == {
        "a": {"{title}": None},
        "b": {"{date:YYYY-MM-DD}": None},
        "c": "<% tp.file.title %>",
    }


@pytest.mark.parametrize("indent", [None, 1, "\t"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_json_is_read_however_it_is_laid_out(indent: int | str | None, separators: tuple[str, str]) -> None:
    given_values = {"tags": ["x"], "url": "http://e.org/a:b", "n": [1, None, True, 'é😀\u2028\x01 "/']}
    assert values(json.dumps(given_values, indent=indent, separators=separators)) == given_values


def test_characters_that_pyyaml_refuses_are_read() -> None:
    assert values('a: x\u2028y\nb: x\x85y\nc: x\x01y\nd: "\\ud83d\\ude00"') == {
        "a": "x\u2028y",
        "b": "x\x85y",
        "c": "x\ufffdy",
        "d": "😀",
    }


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("- a\n- b", "not a list of names with values"),
        ("text", "not a list of names with values"),
        ("a: b\na b", "no colon after its name (line 3"),
        ("a: 'b", "a quote is not closed (line 2"),
        ("a: b: c", "a colon too many, or a wrong indentation (line 2)"),
        ("a: [b] c", "text after closing quotes or brackets (line 2)"),
        ("a: @b", "a value whose first sign needs quotes (line 2)"),
        ("&x {*x : 1, b: *x}", "nested deeper than 50 levels"),
        ("a: &x [*x]", "nested deeper than 50 levels"),
        ("a: " + "[" * 60 + "]" * 60, "nested deeper than 50 levels"),
        ("a: " + "[" * 100_000, "nested deeper than 50 levels"),
        ("- " * 100_000, "nested deeper than 50 levels"),
        ("? " * 100_000, "nested deeper than 50 levels"),
        ("a: '" + "x" * 1_000_000 + "'", "longer than 1000000 characters"),
        ('a: "\\ud800"', "(line 2)"),
    ],
)
def test_a_block_that_cannot_be_read_says_why(source: str, reason: str) -> None:
    front = read_front_matter(f"---\n{source}\n---\n")
    assert (front.values, front.refused) == ({}, True)
    (warning,) = front.warnings
    assert reason in warning


def test_a_key_given_twice_counts_the_last_time_and_says_so() -> None:
    front = read_front_matter("---\na: 1\nb: {c: 1, c: 2}\na: 2\n---\n")
    assert front.values == {"a": 2, "b": {"c": 2}}
    assert front.refused
    (warning,) = front.warnings
    assert warning.startswith('Properties are given twice: "c" (line 3), "a" (line 4). ')
    many = "".join(f"k: {number}\n" for number in range(20))
    assert '"k" (line 7) and 14 more.' in read_front_matter(f"---\n{many}---\n").warnings[0]


storable = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ('a: 1\nb: "open\nc: 2\nd: 3', "(line 3, noticed in line 5)"),
        ("a: 1\nb: 'open\nc: 2", "(line 3, noticed in line 4)"),
        ('a:\n  - x\n  - "open\n  - y\nb: 2', "(line 4, noticed in line 6)"),
        ("a: 1\ntags: [x, y\nc: 2\nd: 3", "(line 3, noticed in line 4)"),
        ("a: 1\ntags: [x,\n  y,\n  z\nc: 2", "(line 3, noticed in line 6)"),
        ("a: 1\nb: {x: 1, y: 2\nc: 2", "(line 3, noticed in line 4)"),
        ("a: 1\nno colon\n\n\nc: 2", "(line 3, noticed in line 6)"),
        ("a: 1\nb: x: y\nc: 2", "(line 3)"),
        ("a: 1\nb:\n\tc: 1\nd: 2", "(line 4)"),
        ("a:\n    b: 1\n  c: 2\nd: 3", "(line 4)"),
        ("a: 1\nb: @home\nc: 2", "(line 3)"),
        ("a: 1\nb: *nowhere\nc: 2", "(line 3)"),
        ('a: 1\nb: "x\n  \\q"\nc: 2', "(line 4)"),
        ("a: 1\nb: [[X]] and [[Y]]\nc: 2", "(line 3)"),
    ],
)
def test_a_warning_names_the_line_of_the_file_where_the_fault_is(source: str, where: str) -> None:
    (warning,) = read_front_matter(f"---\n{source}\n---\nBody\n").warnings
    assert warning.endswith(f" {where}."), warning


@given(
    st.dictionaries(
        st.text("abcXYZ äß", min_size=1),
        st.recursive(
            st.one_of(st.text(storable, max_size=20), st.integers(-1000, 1000), st.booleans(), st.none()),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4), st.dictionaries(st.text("ab", min_size=1), inner)
            ),
            max_leaves=8,
        ),
        min_size=1,
    )
)
@settings(max_examples=200, deadline=None)
def test_what_yaml_writes_is_read_back(given_values: dict[str, Any]) -> None:
    source = yaml.safe_dump(given_values, allow_unicode=False, default_style='"', default_flow_style=True)
    front = read_front_matter(f"---\n{source}---\n")
    assert front.warnings == ()
    assert front.values == given_values


@given(st.text("ab:-[]{}#&*!|>'\"%@`, \n", max_size=40))
@settings(max_examples=300, deadline=None)
def test_the_slow_parser_agrees_with_the_fast_one(source: str) -> None:
    text = f"---\n{source}\n---\n"
    fast = read_front_matter(text)

    class Slow(yaml.SafeLoader):
        resolve = module._Loader.resolve

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_Loader", Slow)
        slow = read_front_matter(text)
    assert slow.body_start == fast.body_start
    if not fast.refused and not slow.refused:
        assert slow.values == fast.values
