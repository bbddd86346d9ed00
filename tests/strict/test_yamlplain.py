"""The quick pass over YAML takes nothing for what the parser does not take it for, and takes what people write."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drillmaster.strict.malformed import Malformed
from drillmaster.strict.yamlplain import plain_yaml
from drillmaster.strict.yamltext import strict_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("src/drillmaster/kits", "tests/golden", "docs") for path in (ROOT / folder).rglob("*.yaml")
)
BLOCKS = [
    block
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text("utf-8"), re.M | re.S)
]


def agree(text: str) -> bool:
    """Whether the quick pass took it; where it did, the parser says the same, to the types and the lines."""
    read = plain_yaml(text)
    if read is None:
        return False
    value, lines = strict_yaml(text)
    assert (repr(read[0]), read[1]) == (repr(value), lines)
    return True


SCALARS = [
    "word", "two words", "a-b_c/d.e", "http://127.0.0.1:8090/v1", "p95 < 2.5 s", "x: y", "x:", "a #b", "a#b", "a  b", "it's",
    "true", "True", "no", "off", "null", "~", "", "NULL", "nullable", "0", "-0", "7", "007", "1.5", "-0.0", "1.", ".5", "1e3",
    "0x1f", "12 apples", "9007199254740993", "123456789012345.6", "0.0000000000000001", '"quoted: #text"', "'it''s'",
    "'one'", '"a\\n"', '"open', "[a, b]", "[]", "[a b]", "[1, -2.5, true, null, 'x']", "[a, ]", "[ a ]", "[a,b]", "[a: b]",
    "{a: 1, b: [x, y]}", "{}", "{a: 1, a: 2}", "{true: 1}", "{a: {b: {c: d}}}", "{a}", "[[a], {b: c}]", "[a] # said", "word # said",
    "word #", "# said", "&a word", "*a", "!!str 5", "| text", "> text", "@at", "%x", "`x`", "- a", "? a", "key: [a", "a]", "a, b",
    "50 %", "<<", "=", "a = b", "(x)", "$HOME", "${X}", "/etc/x", "é", "a\tb", "on: off", "Infinity", ".inf", "a:b", "a: ",
    "2027-01-31", "2027-01-31 x", "15s", "15s,", "1d2", "127.0.0.1", "127.0.0.1:80", "1.2.3.4.5", "0127.0.0.1",
]  # fmt: skip  # by kind
NAMES = ["a", "b", "key", "two-words", "x_1", "true", "null", "on", "1", "é", '"q"', "a b", "<<", "-a", "a" * 120]
LINE = st.one_of(
    st.builds(lambda name, value: f"{name}: {value}", st.sampled_from(NAMES), st.sampled_from(SCALARS)),
    st.builds(lambda name: f"{name}:", st.sampled_from(NAMES)),
    st.builds(lambda name, value: f"- {name}: {value}", st.sampled_from(NAMES), st.sampled_from(SCALARS)),
    st.builds(lambda value: f"- {value}", st.sampled_from(SCALARS)),
    st.sampled_from(["", "# said", "---", "...", "-", "- ", "word", "  ", "%YAML 1.2", "- - a", "? a", ": b"]),
)
TEXTS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 6]), LINE), min_size=1, max_size=9).map(
    lambda rows: "".join(" " * indent + line + "\n" for indent, line in rows)
)
TIDY = st.recursive(
    st.sampled_from(["word", "two words", "7", "-1.5", "true", "null", "'x: y'", "[a, 1]", "{a: b}"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c-d", "e_1"]), inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def written(value: Any, indent: int, *, flush: bool) -> list[str]:
    """Write a tree as people do; `flush` puts a list as far left as its name."""
    pad = " " * indent
    if isinstance(value, dict):
        lines = []
        for name, inner in value.items():
            if isinstance(inner, str):
                lines.append(f"{pad}{name}: {inner}")
            else:
                deeper = indent if flush and isinstance(inner, list) else indent + 2
                lines += [f"{pad}{name}:  # said", *written(inner, deeper, flush=flush)]
        return lines
    lines = []
    for inner in value:
        below = [inner] if isinstance(inner, str) else written(inner, indent + 2, flush=flush)
        lines += [f"{pad}- {below[0].lstrip()}", *below[1:]]
    return lines


@settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
@example("a: b\n  c: d\n")
@example("a: b\n  more words\n")
@example("- a\n  - b\n")
@example("- a: 1\n  - b\n")
@example("a:\n- b\nc: d\n")
@example("a:\n  b: 1\n c: 2\n")
@example("a: 1\na: 2\n")
@example("a:\n    b: 1\n  c: 2\n")
@example("- a: 1\n  b:\n  - c\n- d\n")
def test_what_it_takes_the_parser_takes_for_the_same(text: str) -> None:
    agree(text)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TIDY.filter(lambda value: not isinstance(value, str)), st.booleans())
def test_blocks_that_line_up_are_taken(value: Any, flush: bool) -> None:
    text = "\n".join(written(value, 0, flush=flush)) + "\n"
    taken = agree(text)
    assert taken or "- - " in text


@pytest.mark.parametrize("value", SCALARS)
@pytest.mark.parametrize(
    "form", ["a: {}\n", "- {}\n", "a:\n  - {}\nb: 1\n", "- a: {}\n", "a: [{}]\n", "a: {{b: {}}}\n"]
)
def test_each_value_in_each_place_is_the_parsers_or_left_to_it(form: str, value: str) -> None:
    agree(form.format(value))


def test_files_and_pages_that_come_along_are_read_alike() -> None:
    texts = [*(path.read_text("utf-8") for path in FILES), *BLOCKS]
    assert len(texts) > 60
    taken = 0
    for text in texts:
        try:
            strict_yaml(text)
        except Malformed:
            assert plain_yaml(text) is None
        else:
            taken += agree(text)
    assert taken > len(texts) // 3


def test_a_roster_and_a_policy_need_no_parser() -> None:
    assert agree(
        "kind: roster\nversion: 1\npeople:\n  - {identity: ada, emails: [ada@example.com], logins: [ada-l]}\n"
        "  - identity: bot\n    kind: bot\n    emails: []\n"
    )
    assert agree((ROOT / "src/drillmaster/kits/contract/policy.yaml").read_text("utf-8"))
