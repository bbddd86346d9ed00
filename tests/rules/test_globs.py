"""Patterns of paths: what fits, what does not, and what is no pattern."""

import time

import pytest

from drillmaster.rules._globs import Dialect, Globs, folded, pattern_fault


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("contracts/*.openapi.json", "contracts/pay.openapi.json", True),
        ("contracts/*.openapi.json", "services/pay/contracts/a.openapi.json", True),  # from the right, as the script
        ("contracts/*.openapi.json", "contracts/v1/pay.openapi.json", False),
        ("/contracts/*.json", "contracts/a.json", True),
        ("/contracts/*.json", "x/contracts/a.json", False),
        ("fixtures/http/*.json", "fixtures/http/é.json", True),
        ("fixtures/http/*.json", 'fixtures/http/a "q"\n.json', True),
        ("fixtures/http", "fixtures/http/deep/er/a.json", True),
        ("fixtures/http/", "fixtures/http/a.json", True),
        ("fixtures/http/", "fixtures/http", False),
        ("fixtures/**", "fixtures/a/b/c.json", True),
        ("fixtures/**", "fixtures", False),
        ("fixtures/**/*.json", "fixtures/a.json", True),
        ("fixtures/**/*.json", "fixtures/a/b/c.json", True),
        ("fixtures/**/x/**/*.json", "fixtures/a/x/c.json", True),
        ("fixtures/**/x/**/*.json", "fixtures/a/y/c.json", False),
        ("*.snap", "a/b/c.snap", True),
        ("*.snap", "a/b/c.snapshot", False),
        ("tests/oracle/test_?.py", "tests/oracle/test_a.py", True),
        ("tests/oracle/test_?.py", "tests/oracle/test_ab.py", False),
        ("fixtures/[a-c]*.json", "fixtures/b1.json", True),
        ("fixtures/[!a-c]*.json", "fixtures/b1.json", False),
        ("fixtures/[!a-c]*.json", "fixtures/z.json", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "axb", False),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "axxbyycd", False),
        ("a*bc", "abcbc", True),
        ("fixtures/http/*.json", "fixtures/https/a.json", False),
        ("oracle", "tests/oracles/a.py", False),
    ],
)
def test_a_pattern_of_the_owners_file_fits(pattern: str, path: str, fits: bool) -> None:
    assert Globs([pattern]).any(path) is fits


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*", "a/b.py", True),
        ("*.js", "a/b.js", True),
        ("/build/logs/", "build/logs/a/b", True),
        ("/build/logs/", "x/build/logs/a", False),
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/build/a.md", False),  # said so by the host's own page
        ("docs/*", "x/docs/a.md", False),
        ("apps/", "x/apps/a/b", True),
        ("/docs/", "docs/a", True),
        ("/apps/github", "apps/github/a", True),
        ("**/logs", "a/b/logs/c", True),
        ("/scripts/*", "scripts/a/b", False),
    ],
)
def test_a_pattern_of_codeowners_fits(pattern: str, path: str, fits: bool) -> None:
    assert Globs([pattern], "codeowners").any(path) is fits


@pytest.mark.parametrize("pattern", ["", "!a", "a//b", "../a", "./a", "a/../b", "x**", "{a,b}.json", "[a", "[z-a]", "a\x00", "a\\",
                                     "e\u0301.json", "a\u202eb", "x" * 501,
                                     "*", "**", "**/*", "/**/", "a/**/**/b"])  # fmt: skip  # one list
def test_what_is_no_pattern_is_named(pattern: str) -> None:
    assert pattern_fault(pattern, "owners")


@pytest.mark.parametrize(("pattern", "dialect"), [("*.py", "owners"), ("[a-z].py", "owners"), ("a{b}", "codeowners")])
def test_a_pattern_is_left_alone(pattern: str, dialect: Dialect) -> None:
    assert pattern_fault(pattern, dialect) == ""


@pytest.mark.parametrize(
    "path", ["Fixtures/HTTP/a.json", "ﬁxtures/http/a.json", "fix\u200btures/http/a.json", "fixtures./http/A.JSON"]
)
def test_names_that_look_alike_are_one_when_folded(path: str) -> None:
    assert not Globs(["fixtures/http/*.json"]).any(path)
    assert Globs(["fixtures/http/*.json"], fold=True).any(path)


@pytest.mark.parametrize("pattern", ["fixtures/［x.json", "fixtures/［z-a］.json", "a\\*b", "fixtures/＊＊x"])
def test_a_pattern_that_folds_into_none_is_still_one(pattern: str) -> None:
    assert pattern_fault(pattern, "owners") == ""
    assert not Globs([pattern], fold=True).any("src/x.py")


def test_folding_keeps_what_differs_apart() -> None:
    assert folded("src/fixture.py") != folded("src/fixtures.py")


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    pattern = "/".join(["**", "*a*a*a*a*a*a*b"] * 6)
    begun = time.process_time()
    assert not Globs([pattern]).any("/".join(["a" * 200] * 60))
    assert time.process_time() - begun < 1.0


def test_all_patterns_that_fit_are_given() -> None:
    assert Globs(["a/*", "*.py", "b"]).fitting("a/x.py") == (0, 1)
