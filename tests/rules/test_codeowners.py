"""CODEOWNERS: last match wins, sections, and lines that a host would skip without a word."""

import pytest

from drillmaster.rules.codeowners import read_codeowners


@pytest.mark.parametrize(
    ("text", "path", "owners"),
    [
        ("* @a\n/fixtures/ @b @org/c\n", "fixtures/x.json", ("@b", "@org/c")),
        ("/fixtures/ @b\n* @a\n", "fixtures/x.json", ("@a",)),  # the last one decides
        ("* @a\n/fixtures/\n", "fixtures/x.json", ()),  # and can take owners away
        ("* @a # everybody\n", "x", ("@a",)),
        ("* ada@example.com\n", "x", ("ada@example.com",)),
        ("docs/* @a\n", "docs/b/c.md", ()),
        ("a\\ b.txt @a\n", "a b.txt", ("@a",)),
        ("[Pay]\n/pay/ @a\n[Docs] @d\n/docs/\n/pay/docs/\n", "pay/docs/x", ("@a", "@d")),
        ("[Pay] @d\n/pay/\n", "pay/x", ("@d",)),
        ("^[Pay][2] @d\n/pay/ @e\n", "pay/x", ("@e",)),
        ("[Pay]\n/pay/ @a\n!/pay/gen/\n", "pay/gen/x", ()),
        ("[Pay]\n/a/ @a\n[pay]\n/a/ @b\n", "a/x", ("@b",)),  # one section, whatever its case
        ("# c\r\n* @a\r\n", "x", ("@a",)),
        ("\ufeff* @a\n", "x", ("@a",)),
    ],
)
def test_who_is_asked(text: str, path: str, owners: tuple[str, ...]) -> None:
    read = read_codeowners(text.encode())
    assert read.defects == ()
    assert read.of(path) == owners


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"* @a\n!/gen/ @b\n", "negated"),
        (b"* @a\n!/gen/\n", "negated"),
        (b"/a/[b].py @a\n", "range"),
        (b"* not-an-owner\n", "no owner"),
        (b"\\#a @a\n", "escaped #"),
        (b"", "no line"),
        (b"# x\n", "no line"),
        (b"* @\xff\n", "no UTF-8"),
        (b"* @a\x1b[31m\n", "control"),
        ("* @a\u202e\n".encode(), "control or format"),
        (b"x" * (3 << 20) + b"y", "hosts do not read"),
        (b"a//b @a\n", "empty name"),
        (b"[Pay] nobody\n/pay/\n", "no owner"),
    ],
)
def test_a_line_that_would_be_skipped_is_a_defect(data: bytes, said: str) -> None:
    assert any(said in what for _, what in read_codeowners(data).defects)
