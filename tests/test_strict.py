"""The contract of the loader, case by case, in all three formats; `tests/strict/` has its parts."""

import json
import re
import subprocess
import sys
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.strict import (
    CAP_BYTES,
    MAX_DEPTH,
    Format,
    Malformed,
    as_type,
    canonical,
    load,
    load_as,
    object_pairs,
    strict_json,
)

FORMATS: tuple[Format, ...] = ("json", "yaml", "toml")


def problem(data: bytes | str, fmt: Format, type_: object = None) -> Problem:
    raw = data.encode() if isinstance(data, str) else data
    with pytest.raises(Problem) as caught:
        if type_ is None:
            load(raw, place=f"f.{fmt}", fmt=fmt)
        else:
            load_as(raw, type_, place=f"f.{fmt}", fmt=fmt)
    return caught.value


# place, then words of `found`; the rest of a message is read by people, in test_messages below
REFUSED: list[tuple[Format, bytes | str, str, str]] = [
    # encodings
    ("json", b'{"a":"\xe9"}', "f.json:1:7", "byte 0xe9"),
    ("yaml", b"a: 1\nb: \xe9\n", "f.yaml:2:4", "byte 0xe9"),
    ("toml", b'a = "\xe9"', "f.toml:1:6", "byte 0xe9"),
    ("json", b"\xef\xbb\xbf{}", "f.json:1:1", "byte order mark"),
    ("yaml", b"\xef\xbb\xbfa: 1", "f.yaml:1:1", "byte order mark"),
    ("toml", b"\xef\xbb\xbfa = 1", "f.toml:1:1", "byte order mark"),
    ("json", "{}".encode("utf-16"), "f.json:1:1", "UTF-16"),
    ("yaml", "a: 1".encode("utf-16-le"), "f.yaml:1:1", "UTF-16LE"),
    ("toml", "a = 1".encode("utf-16-be"), "f.toml:1:1", "UTF-16BE"),
    ("json", b'"\xed\xa0\x80"', "f.json:1:2", "byte 0xed"),  # a surrogate in the bytes themselves
    # nothing, torn, trailing
    ("json", b"", "f.json", "an empty file"),
    ("yaml", b"", "f.yaml", "an empty file"),
    ("toml", b"", "f.toml", "an empty file"),
    ("json", b" \n", "f.json", "nothing but space"),
    ("yaml", b"# only this\n", "f.yaml:1", "nothing but comments"),
    ("toml", b"# only this\n", "f.toml:1", "nothing but comments"),
    ("json", b'{"a": [1,\n 2', "f.json:2:3: /a", "end of the file inside the list that began in line 1"),
    ("json", b'{"a": "b', "f.json:1:9: /a", "end of the file inside the text"),
    ("json", b'{"a": tru', "f.json:1:10: /a", "end of the file"),
    ("json", b'{"a": "\\u12', "f.json:1:12: /a", "end of the file"),
    ("yaml", b'a: "b', "f.yaml:1:4", "end of the file inside quotes"),
    ("toml", b"a = [1,", "f.toml:1", "end of the file where a value belongs"),
    ("json", b'{"a":1} x', "f.json:1:9", "x after the end"),
    ("json", b'{"a":1}\n{"b":2}', "f.json:2:1", "a second value"),
    ("yaml", b"a: 1\n---\nb: 2", "f.yaml:2", "a second document"),
    ("toml", b"a = 1 2", "f.toml:1:7", "more after the value"),
    # a name twice
    ("json", b'{"a":1,\n"a":2}', "f.json:2:1: /a", 'the name "a" a second time (first in line 1)'),
    ("json", b'{"x":[{"y/z":{"a":1,"a":1}}]}', "f.json:1:21: /x/0/y~1z/a", "second time"),
    ("json", b'{"a":1,"\\u0061":2}', "f.json:1:8: /a", "second time"),
    ("yaml", b"x:\n  - a: 1\n    b: 2\n    a: 3\n", "f.yaml:4: /x/0/a", "second time (first in line 2)"),
    ("yaml", b"{a: 1, 'a': 2}", "f.yaml:1: /a", "second time"),
    ("toml", b"[t]\na = 1\na = 2", "f.toml:3: /t/a", "second time"),
    ("toml", b"[[t]]\na = 1\n[[t]]\na = 1\na = 2", "f.toml:5: /t/1/a", "second time"),
    ("toml", b"[t.u]\na = 1\n[t.u]\nb = 2", "f.toml:3:5: /t/u", "second time"),
    # numbers
    ("json", b"[NaN]", "f.json:1:2: /0", "NaN"),
    ("json", b"[-Infinity]", "f.json:1:2: /0", "-Infinity"),
    ("json", b"[1e999]", "f.json:1:2: /0", "1e999"),
    ("json", b"[1e-999]", "f.json:1:2: /0", "1e-999"),
    ("json", b"[9007199254740992]", "f.json:1:2: /0", "9007199254740992"),
    ("json", b"[-9007199254740992]", "f.json:1:2: /0", "-9007199254740992"),
    ("json", b"[1e20]", "f.json:1:2: /0", "1e20"),  # canonical form 100000000000000000000
    ("json", b"[" + b"1" * 5000 + b"]", "f.json:1:2: /0", "1111"),
    ("json", b'{"status":000000}', "f.json:1:11: /status", "000000"),
    ("json", b"[+5]", "f.json:1:2: /0", "+5"),
    ("json", b"[.5]", "f.json:1:2: /0", ".5"),
    ("json", b"[0x1F]", "f.json:1:2: /0", "0x1F"),
    ("yaml", b"a: .nan", "f.yaml:1: /a", ".nan"),
    ("yaml", b"a: -.inf", "f.yaml:1: /a", "-.inf"),
    ("yaml", b"a: 1e999", "f.yaml:1: /a", "1e999"),
    ("yaml", b"a: 9007199254740992", "f.yaml:1: /a", "9007199254740992"),
    ("yaml", b"a: 0503", "f.yaml:1: /a", "0503"),
    ("yaml", b"a: 0o17", "f.yaml:1: /a", "0o17"),
    ("yaml", b"a: 0x1F", "f.yaml:1: /a", "0x1F"),
    ("toml", b"a = nan", "f.toml: /a", "nan"),
    ("toml", b"a = -inf", "f.toml: /a", "-inf"),
    ("toml", b"a = 1e999", "f.toml: /a", "1e999"),
    ("toml", b"a = [0, 9007199254740992]", "f.toml: /a/1", "9007199254740992"),
    ("toml", b"a = " + b"1" * 5000, "f.toml", "thousands of digits"),
    ("toml", b"a = 0x" + b"f" * 5000, "f.toml: /a", "0xfff"),
    ("toml", b"a = 0503", "f.toml:1:6", "more after the value"),
    # text and names
    ("json", b'{"a":"\\ud800"}', "f.json:1:7: /a", "\\ud800, half of a character"),
    ("json", b'{"a":"\\ude00\\ud83d"}', "f.json:1:7: /a", "\\ude00"),
    ("json", b'{"a":"\\\\ud83d\\ude00"}', "f.json:1:14: /a", "\\ude00"),  # the first is behind an escaped backslash
    ("yaml", b'a: "\\ud800"', "f.yaml:1: /a", "\\ud800, half"),
    ("toml", b'a = "\\ud800"', "f.toml:1:12", "TOML parser"),
    ("json", '{"e\u0301":1}', "f.json:1:2: /e\u0301", "NFC"),
    ("yaml", "e\u0301: 1", "f.yaml:1: /e\u0301", "NFC"),
    ("toml", '"e\u0301" = 1', "f.toml: /e\u0301", "NFC"),
    ("json", b'{"a\\u0000":1}', "f.json:1:2: /a\\u0000", "\\u0000, a character that cannot be seen"),
    ("json", '{"a\u200b":1}', "f.json:1:2: /a\\u200b", "\\u200b"),
    ("json", '{"\u2028":1}', "f.json:1:2: /\\u2028", "\\u2028"),
    ("yaml", "a\u200b: 1", "f.yaml:1: /a\\u200b", "\\u200b"),
    ("toml", '"a\u200b" = 1', "f.toml: /a\\u200b", "\\u200b"),
    ("json", b'{"a\tb":1}', "f.json:1:4", "a tab inside text"),
    ("yaml", b"a: \x07", "f.yaml:1", "\\u0007"),
    ("yaml", "a: 'x\u2028y'", "f.yaml:1", "\\u2028"),
    # depth
    ("json", b"[" * 100_000, "f.json:1:101: /0/0/0", "more than 100"),
    ("json", b'{"a":' * 100_000, "f.json:1:501: /a/a/a", "more than 100"),
    ("json", b"[" * 101 + b"]" * 101, "f.json:1:101: /0/0/0", "more than 100"),
    ("yaml", b"[" * 100_000, "f.yaml:1: /0/0/0", "more than 100"),
    ("yaml", b"- " * 100_000, "f.yaml:1: /0/0/0", "more than 100"),
    ("toml", b"a = " + b"[" * 100_000, "f.toml", "more than 100"),
    ("toml", b"a = " + b"[" * 120 + b"]" * 120, "f.toml: /a/0/0", "more than 100"),
    ("toml", b"a." * 100_000 + b"a = 1", "f.toml:1", "more than 100"),
    # what YAML and TOML have and we do not
    ("yaml", b"a: &x 1", "f.yaml:1: /a", "the anchor &x"),
    ("yaml", b"a: *x", "f.yaml:1: /a", "the alias *x"),
    ("yaml", b"a: 1\n<<: {b: 2}", "f.yaml:2", "the merge key"),
    ("yaml", b"a: !!int 3", "f.yaml:1: /a", "the tag"),
    ("yaml", b"a: !x 3", "f.yaml:1: /a", "the tag"),
    ("yaml", b"&x a: 3", "f.yaml:1", "the anchor"),
    ("yaml", b"1: a", "f.yaml:1: /1", '"1" as a name'),
    ("yaml", b"true: a", "f.yaml:1: /true", '"true" as a name'),
    ("yaml", b"~: a", "f.yaml:1: /~0", '"~" as a name'),
    ("yaml", b": a", "f.yaml:1: /", "nothing as a name"),
    ("yaml", b"? [a]\n: b", "f.yaml:1", "a list or object as a name"),
    ("yaml", b"%YAML 1.1\n---\na: 1", "f.yaml:2", "directive"),
    ("yaml", b"\ta: 1", "f.yaml:1:1", "a tab"),
    ("toml", b"a = 12:30:00", "f.toml: /a", "the time 12:30:00"),
    ("toml", b"a = 2026-11-29", "f.toml: /a", "the date"),
    # syntax
    ("json", b"{'a':1}", "f.json:1:2", "a single quote"),
    ("json", b'{"a":1,}', "f.json:1:7", "a comma with nothing after it"),
    ("json", b"[1,]", "f.json:1:3", "a comma with nothing after it"),
    ("json", b'{"a":True}', "f.json:1:6: /a", "True"),
    ("json", b'{a:1}', "f.json:1:2", "the name a without quotes"),
    ("json", b'{"a":1 // x\n}', "f.json:1:8", "a comment"),
    ("json", b'{"a" 1}', "f.json:1:6: /a", "1"),
    ("json", b"[1 2]", "f.json:1:4", "2"),
    ("json", b'["a\nb"]', "f.json:1:4: /0", "a line break inside text"),
    ("json", b'["\\x"]', "f.json:1:3: /0", "\\x inside text"),
    ("json", b"[nul]", "f.json:1:2: /0", "nul without quotes"),
    ("json", b"a: 1", "f.json:1:1", "a without quotes"),
    ("yaml", b"a: b: c", "f.yaml:1:5", "a colon"),
    ("yaml", b"a\nb: 1", "f.yaml:2:2", "a colon where none can be"),
    ("toml", b"a = b", "f.toml:1:5", "no value of TOML"),
    ("toml", b"a: b", "f.toml:1:2", "without an ="),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "data", "place", "found"), REFUSED)
def test_it_is_refused_with_its_place_and_what_was_found(
    fmt: Format, data: bytes | str, place: str, found: str
) -> None:
    raised = problem(data, fmt)
    assert raised.place == place
    assert found in raised.found
    assert raised.wanted
    assert raised.remedy
    assert str(raised).isprintable()
    assert len(str(raised)) < 400


@pytest.mark.parametrize(
    ("fmt", "data", "value"),
    [
        ("json", b'{"a":[1,2.5,-0.0,true,null,"\\ud83d\\ude00"]}', {"a": [1, 2.5, -0.0, True, None, "😀"]}),
        ("json", b"9007199254740991", 9007199254740991),
        ("json", b"1E30", 1e30),
        ("json", b"5e-324", 5e-324),
        ("json", b'"\\\\ud800"', "\\ud800"),
        ("json", b"[" * 100 + b"]" * 100, None),
        ("json", '{"é":"e\u0301\u200b"}', {"é": "e\u0301\u200b"}),  # rule 2 is about names
        # 1.1 would read false, true, 45000, 1000, a date
        ("yaml", b"[off, no, on, yes, y, 12:30:00, 1_000, 2026-11-29]",
         ["off", "no", "on", "yes", "y", "12:30:00", "1_000", "2026-11-29"]),
        ("yaml", b"no: x\non: y", {"no": "x", "on": "y"}),
        ("yaml", b"[1, -5, +5, 0, 2.5, .5, 5., 1e3, 0.5e-3]", [1, -5, 5, 0, 2.5, 0.5, 5.0, 1000.0, 0.0005]),
        ("yaml", b"[true, False, ~, null, '', '5', \"true\"]", [True, False, None, None, "", "5", "true"]),
        ("yaml", b"a:\nb: |\n  x\n  y\nc: >-\n  x\n  y\n", {"a": None, "b": "x\ny\n", "c": "x y"}),
        ("yaml", b"%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("yaml", b"'1': x\n\"true\": y", {"1": "x", "true": "y"}),
        ("toml", b"a.b = 1\n[[t]]\nc = 'x'\n", {"a": {"b": 1}, "t": [{"c": "x"}]}),
        ("toml", b"a = 0x1F\nb = 1_000\nc = 1e3", {"a": 31, "b": 1000, "c": 1000.0}),
    ],
)  # fmt: skip
def test_it_is_read_as_it_stands(fmt: Format, data: bytes | str, value: object) -> None:
    raw = data.encode() if isinstance(data, str) else data
    got = load(raw, place="f", fmt=fmt)
    if value is not None:
        assert got == value
        assert repr(got) == repr(value)  # 1 == True == 1.0


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_file_over_the_cap_is_refused_before_it_is_read(fmt: Format) -> None:
    raised = problem(b"a" * (CAP_BYTES[fmt] + 1), fmt)
    assert f"{CAP_BYTES[fmt] + 1:,} bytes" in raised.found
    with pytest.raises(Problem, match="found 8 bytes, wanted at most 7 bytes"):
        load(b"12345678", place="f", fmt=fmt, cap_bytes=7)


def test_depth_up_to_the_cap_is_read_in_each_format() -> None:
    deep = MAX_DEPTH - 1
    assert load(b'{"a":' + b"[" * deep + b"]" * deep + b"}", place="f", fmt="json")
    assert load(b"a: " + b"[" * deep + b"]" * deep, place="f", fmt="yaml")
    assert load(b"a = " + b"[" * deep + b"]" * deep, place="f", fmt="toml")


# ------------------------------------------------------------------------------------------------------------- messages


class Eviction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="gate", tag="eviction"):
    max_fallback_s: Annotated[float, msgspec.Meta(gt=0)]
    window: Literal["fault", "run"]
    strict: bool = False


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["policy"]
    owner: str
    gates: tuple[Eviction, ...]


POLICY = """\
kind: policy
owner: me
gates:
  - gate: eviction
    max_fallback_s: 60
    window: fault
"""


def test_a_good_file_becomes_its_type() -> None:
    policy = load_as(POLICY.encode(), Policy, place="f", fmt="yaml")
    assert policy == Policy(kind="policy", owner="me", gates=(Eviction(max_fallback_s=60.0, window="fault"),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_fallback_s", "max_falback_s",
         'eviction.yaml:5: /gates/0/max_falback_s: found the unknown field "max_falback_s", '
         "wanted only gate, max_fallback_s, window, strict; Did you mean max_fallback_s?"),
        ("    max_fallback_s: 60\n", "",
         "eviction.yaml:4: /gates/0/max_fallback_s: found nothing, wanted a number > 0 (seconds); add max_fallback_s"),
        (": 60", ":", "eviction.yaml:5: /gates/0/max_fallback_s: found nothing (null), wanted a number > 0 (seconds); "
         "give max_fallback_s a value"),
        ("60", "60s", 'eviction.yaml:5: /gates/0/max_fallback_s: found text "60s", wanted a number > 0 (seconds); '
         "write 60: the unit is in the name"),
        ("60", "0503", "eviction.yaml:5: /gates/0/max_fallback_s: found 0503, wanted a number that does not begin with 0; "
         'write 503, or "0503" in quotes if it is text'),
        ("window: fault", "window: falt",
         'eviction.yaml:6: /gates/0/window: found text "falt", wanted one of fault, run; Did you mean fault?'),
        ("window: fault", "window: fault\n    strict: off",
         'eviction.yaml:7: /gates/0/strict: found text "off", wanted true or false; write false, without quotes'),
        ("owner: me", "owner: 5", 'eviction.yaml:2: /owner: found 5, wanted text; put it in double quotes: "5"'),
        ("owner: me", "owner: me\nowner: you", 'eviction.yaml:3: /owner: found the name "owner" a second time '
         "(first in line 2), wanted each name once; delete one of the two, and keep the value that is meant"),
    ],
)  # fmt: skip
def test_messages(old: str, new: str, message: str) -> None:
    with pytest.raises(Problem) as caught:
        load_as(POLICY.replace(old, new).encode(), Policy, place="eviction.yaml", fmt="yaml")
    assert str(caught.value) == message


def test_a_value_of_the_wrong_type_in_json_has_its_line_too() -> None:
    text = '{"kind":"policy",\n"owner":"me",\n"gates":[\n{"gate":"eviction","window":"run",\n"max_fallback_s":"60"}]}'
    assert problem(text, "json", Policy).place == "f.json:5: /gates/0/max_fallback_s"


@pytest.mark.parametrize(
    ("fmt", "data"), [("json", b"[1]"), ("yaml", b"- 1"), ("json", b'"a"'), ("yaml", b"a"), ("yaml", b"--- ")]
)
def test_a_top_level_that_is_no_object_is_named_as_what_it_is(fmt: Format, data: bytes) -> None:
    assert problem(data, fmt, Policy).wanted == "an object with kind, owner, gates"


def test_the_remedy_names_the_file_as_a_shell_takes_it() -> None:
    with pytest.raises(Problem, match=re.escape("git checkout -- 'my plan.yaml'")):
        load(b"", place="my plan.yaml", fmt="yaml")
    with pytest.raises(Problem) as told:
        load(b'{"a": 1', place="standard input", fmt="json")
    assert "git" not in told.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"sk-ant-api03-abcdefghijklmnop1234"}',
        '{"kind":"https://user:hunter2hunter2@h/"}',
        '{"kind":"policy","owner":"me","gates":[],"sk-ant-api03-abcdefghijklmnop1234":1}',
        '{"sk-ant-api03-abcdefghijklmnop1234":1,"sk-ant-api03-abcdefghijklmnop1234":1}',
        '{"kind":sk-ant-api03-abcdefghijklmnop1234}',
    ],
)
def test_no_error_repeats_what_could_be_a_credential(text: str) -> None:
    message = str(problem(text, "json", Policy))
    assert "api03" not in message
    assert "hunter2" not in message


def test_a_value_under_a_secret_name_is_not_shown_at_all() -> None:
    class Keys(msgspec.Struct):
        api_key: int

    assert "abc" not in str(problem('{"api_key":"abc"}', "json", Keys))
    assert "abc" not in str(problem("api_key: abc", "yaml", Keys))


def test_a_part_of_a_value_is_fitted_with_its_place_in_the_whole() -> None:
    with pytest.raises(Problem) as caught:
        as_type({"gate": "eviction", "window": "run"}, Eviction, place="p.yaml", path=("gates", 3))
    assert caught.value.place == "p.yaml: /gates/3/max_fallback_s"


# -------------------------------------------------------------------------------------------------------- one line, fast


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"a":1,"a":1}', "duplicate-key"),
        (b'{"a":NaN}', "not-finite"),
        (b'{"a":12345678901234567890}', "out-of-range"),
        (b'{"a":1', "torn"),
        (b"", "empty"),
        (b'{"a":1}{', "trailing"),
        (b"\xff", "not-utf8"),
        (b"[" * 100_000, "too-deep"),
        (b'{"a":"\\udc00"}', "surrogate"),
        (b'{"\\u0007":1}', "bad-name"),
        (b"hello", "not-json"),
    ],
)
def test_a_single_text_of_json_names_the_kind_of_its_fault(raw: bytes, kind: str) -> None:
    with pytest.raises(Malformed) as caught:
        strict_json(raw)
    assert caught.value.kind == kind
    assert caught.value.line == 1


def test_the_hook_for_other_decoders_refuses_a_name_twice() -> None:
    with pytest.raises(Malformed) as caught:
        json.loads('{"x":{"a":1,"a":2}}', object_pairs_hook=object_pairs)
    assert (caught.value.kind, caught.value.path) == ("duplicate-key", ("a",))


# ------------------------------------------------------------------------------------------------------------ properties

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé_ ./~😀", max_size=4), inner, max_size=4),
    max_leaves=12,
)

WHOLE = {
    "json": [b'{"kind":"policy","x":[1,2.5,{"a":null}],"t":"\\u00e9\\ud83d\\ude00"}'],
    "yaml": [POLICY.encode(), b"a: |\n  x\nb: [1, {c: 'd'}]\n? e\n: \"\\x41\"\n"],
    "toml": [b'kind = "policy"\na.b = [1, {c = 2}]\n[[t]]\ns = """x\ny"""\nl = \'z\'\n'],
}
SCRAPS = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"\n", b" ", b"- ", b"&a ", b"*a", b"!!x ", b"|", b"%", b"\\u", b"\\ud800",
          b"\x00", b"\xff", b"\xef\xbb\xbf", b"1e999", b".inf", b"<<: ", b"---\n", b"=", b'"""', b"\t"]  # fmt: skip


def answer(data: bytes, fmt: Format) -> None:
    """A value that can be written and read again to the same bytes, or a `Problem`: there is nothing else."""
    try:
        value = load(data, place="f", fmt=fmt)
    except Problem as raised:
        assert str(raised).isprintable()
        return
    written = canonical(value)
    again = load(written, place="f", fmt="json")
    assert canonical(again) == written


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.binary(max_size=80))
@example(data=b"\x00")
@example(data=b"\xef\xbb\xbf")
def test_any_bytes_are_a_value_or_a_problem(fmt: Format, data: bytes) -> None:
    answer(data, fmt)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.text(st.sampled_from("{}[]:,\"'\\-+.e0159 \n\t#&*!|>?%@=auéNn\u0301\u2028😀"), max_size=40))
def test_any_text_of_the_formats_own_characters_is_a_value_or_a_problem(fmt: Format, data: str) -> None:
    answer(data.encode(), fmt)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_a_valid_file_with_damage_is_a_value_or_a_problem(fmt: Format, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(WHOLE[fmt]))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.sampled_from([b"", *SCRAPS])) + text[at + cut :]
    answer(text, fmt)


@given(values)
def test_what_is_written_canonically_is_read_back_as_the_same_bytes(value: object) -> None:
    written = canonical(value)
    try:
        again = load(written, place="f", fmt="json")
    except Problem as raised:  # a double that ECMAScript writes as a whole number beyond 2^53, which rule 3 refuses
        assert "9007199254740991" in raised.wanted
    else:
        assert canonical(again) == written


@given(values)
def test_yaml_reads_json_as_json_does_or_refuses_it(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    try:
        as_json, as_yaml = load(text, place="f", fmt="json"), load(text, place="f", fmt="yaml")
    except Problem:
        return
    assert canonical(as_yaml) == canonical(as_json)


# -------------------------------------------------------------------------------------------------------------- start-up


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("line", "loaded", "unloaded"),
    [
        ("load(b'{}', place='f', fmt='json')", "json", "ruamel tomllib difflib shlex asyncio ssl socket"),
        ("load(b'a: 1', place='f', fmt='yaml')", "drillmaster", "ruamel tomllib difflib shlex asyncio ssl socket"),
        ("load(b'a: >\\n  1', place='f', fmt='yaml')", "ruamel", "tomllib asyncio ssl socket"),
        ("load(b'a = 1', place='f', fmt='toml')", "tomllib", "ruamel asyncio ssl socket"),
    ],
)
def test_a_parser_is_imported_only_by_whoever_has_such_a_file(line: str, loaded: str, unloaded: str) -> None:
    code = f"import sys\nfrom drillmaster.strict import load\n{line}\nprint(*{{m.split('.')[0] for m in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    modules = set(run.stdout.split())
    assert loaded in modules
    assert not modules & set(unloaded.split())
