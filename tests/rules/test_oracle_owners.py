"""`.oracle-owners`: what it says, and every way in which it says nothing."""

import pytest

from drillmaster.rules.oracle_owners import Oracles, read_oracle_owners

GOOD = (
    b"# format: glob<TAB>owner<TAB>source\n"
    b"contracts/*.openapi.json\tpayments-oncall\tgit-pin\n"
    b"fixtures/http/*.json\tpayments-oncall\tstaging-record\n"
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no line that names an oracle"),
        (b"# only words\n\n", "no line that names an oracle"),
        (b"contracts/*.openapi.json    payments-oncall    git-pin\n", "spaces where tabs belong"),
        (b"fixtures/*\t\tgit-pin\n", "an empty owner"),
        (b"fixtures/*\t  \tgit-pin\n", "an empty owner"),
        (b"\tada\tgit-pin\n", "an empty glob"),
        (b"fixtures/*\tada\t\n", "an empty source"),
        (b"fixtures/*\tada\n", "2 fields"),
        (b"fixtures/*\tada\tgit-pin\tmore\n", "4 fields"),
        (b"fixtures/*\tada \tgit-pin\n", "spaces around the owner"),
        (b"fixtures/*\tada bob\tgit-pin\n", "of several words"),
        (b"fixtures/*\tada\tmodel\n", "the source 'model'"),
        (b"fixtures/*\tada\tGit-Pin\n", "the source 'Git-Pin'"),
        (b"*\tada\tgit-pin\n", "takes in every file"),
        (b"!fixtures/*\tada\tgit-pin\n", "negated"),
        (b"../fixtures/*\tada\tgit-pin\n", "`..`"),
        (b"fixtures/*\tada\tgit-pin\nfixtures/*\tbob\tgit-pin\n", "a second time"),
        (b"\xef\xbb\xbffixtures/*\tada\tgit-pin\n", "byte order mark"),
        (b"fixtures/*\tad\xe9\tgit-pin\n", "no UTF-8"),
        ("fixtures/*\tad\u200ba\tgit-pin\n".encode(), "format character"),
        (b"fixtures/*\tad\x1ba\tgit-pin\n", "control"),
        (b"fixtures/*\x00\tada\tgit-pin\n", "control"),
        ("fixtures/e\u0301\tada\tgit-pin\n".encode(), "normal form C"),
        (b"fixtures/*\xe2\x80\xa8\tada\tgit-pin\n", "format character"),
        ("fixtures/*\tada\tgit-pin\n".encode("utf-16"), "no UTF-8"),
    ],
)
def test_a_list_that_cannot_be_used_says_why(data: bytes, said: str) -> None:
    _, defects = read_oracle_owners(data)
    assert any(said in one.what for one in defects), defects
    assert all(one.mend for one in defects)


def test_the_article_s_list_with_tabs_is_read_as_it_is() -> None:
    rows, defects = read_oracle_owners(GOOD.replace(b"\n", b"\r\n"))
    assert not defects
    assert [(row.glob, row.owner, row.source, row.line) for row in rows] == [
        ("contracts/*.openapi.json", "payments-oncall", "git-pin", 2),
        ("fixtures/http/*.json", "payments-oncall", "staging-record", 3),
    ]


def test_every_owner_whose_glob_fits_answers() -> None:
    rows, _ = read_oracle_owners(b"fixtures/**\tada\tgit-pin\n*.json\tbob\tgit-pin\n")
    assert [row.owner for row in Oracles(rows).of("fixtures/a.json")] == ["ada", "bob"]


def test_what_only_looks_like_an_oracle_is_told() -> None:
    oracles = Oracles(read_oracle_owners(GOOD)[0])
    assert oracles.alike("Fixtures/HTTP/a.json") and not oracles.of("Fixtures/HTTP/a.json")
    assert not oracles.alike("fixtures/http/a.json") and not oracles.alike("src/a.json")
