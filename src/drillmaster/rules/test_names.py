"""Which paths are tests, in whatever language: by the names that runners collect, and by the folders people keep them in.

1. A name is taken apart at `_`, `-`, `.` and where case changes; a word is compared whole. So `ContestTest.java` is a test,
   `testimonials.py`, `latest.go` and `attest.ts` are none.
2. Everything in a folder called `test`, `tests`, `__tests__`, `e2e`, `testdata` and so on belongs to tests. In `spec` and
   `specs` only code does: such folders also hold schemas.
3. What configures a runner, and snapshots, belong to tests.
"""

import re

__all__ = ["is_snapshot", "is_test", "is_test_config"]

_FOLDERS = frozenset({
    "test", "tests", "__tests__", "__mocks__", "__fixtures__", "__snapshots__", "e2e", "testdata", "test-data",
    "test_data", "testcases",
    "cypress", "androidtest", "integrationtest", "unittest", "unittests", "integration-tests", "integration_tests",
    "testthat",
    "functional-tests", "acceptance-tests", "playwright",
})  # fmt: skip  # words
_SPEC_FOLDERS = frozenset({"spec", "specs", "features", "t", "xt"})
_CODE = frozenset({
    "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "go", "rb", "rs", "java",
    "kt", "kts", "scala", "groovy", "cs",
    "fs", "vb", "php", "swift", "m", "mm", "c", "cc", "cpp", "cxx", "h", "hpp", "ex", "exs", "erl", "hs", "clj",
    "cljs", "cljc", "dart", "lua",
    "pl", "t", "r", "jl", "sh", "bash", "bats", "ps1", "sql", "rego", "tf", "hcl", "nix", "zig", "nim", "ml",
    "elm", "sol", "proto",
    "feature", "robot", "ipynb", "coffee", "star", "bzl", "yaml", "yml",
})  # fmt: skip  # words
_DATA_ALIKE = frozenset({"proto", "yaml", "yml", "sql"})
_ALWAYS = frozenset({"feature", "robot", "bats", "snap", "ambr"})
_NAMES = frozenset(
    {"conftest.py", "tests.py", "test.py", "runtests.jl", "tests.rs", "test.rs", "test.js", "test.ts", "spec.rb"}
)
_FIRST = frozenset({"test", "tests", "unittest"})
_LAST = frozenset(
    {"test", "tests", "spec", "specs", "unittest", "unittests", "cy", "it", "itest", "tester", "testcase", "steps"}
)
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|[^\W_]+")
_CONFIG = re.compile(
    r"(?:\.?pytest\.(?:ini|toml)|tox\.ini|noxfile\.py|setup\.cfg|pyproject\.toml|package\.json|\.coveragerc|\.mocharc(?:\.\w+)?|"
    r"(?:jest|vitest|playwright|cypress|karma|ava|wdio|nightwatch|protractor)(?:\.[\w-]+)*\.conf(?:ig)?\.\w+|"
    r"(?:vitest\.workspace\.\w+|phpunit\.xml(?:\.dist)?|\.rspec|stryker\.conf(?:ig)?\.\w+|codecov\.ya?ml|\.nycrc(?:\.\w+)?))",
    re.IGNORECASE,
)
_SHARED_CONFIG = frozenset({"pyproject.toml", "setup.cfg", "package.json", "tox.ini"})
_SNAPSHOT = re.compile(
    r"(?:^|/)(?:__snapshots__|__image_snapshots__|snapshots|golden|goldens|approvals)/|\.(?:snap|ambr|golden|approved\.\w+)$|-snapshots/",
    re.IGNORECASE,
)


def is_test(path: str) -> bool:
    """Whether a path belongs to tests, by the rules above."""
    *folders, name = path.split("/")
    low = name.casefold()
    stem, _, suffix = low.rpartition(".")
    if any(folder.casefold() in _FOLDERS or folder.endswith((".Tests", ".Test")) for folder in folders):
        return True
    if low in _NAMES or suffix in _ALWAYS or is_snapshot(path):
        return True
    if is_test_config(path):
        return low not in _SHARED_CONFIG
    if not stem or suffix not in _CODE:
        return False
    if any(folder.casefold() in _SPEC_FOLDERS for folder in folders) and suffix not in _DATA_ALIKE:
        # `t/` is a folder of tests for one language alone.
        return not {folder.casefold() for folder in folders} <= {"t", "xt"} or suffix in ("t", "pl")
    words = [word.casefold() for word in _WORDS.findall(name[: len(stem)])]
    if len(words) < 2:
        return words == ["unittest"]
    if suffix in _DATA_ALIKE:
        return words[0] in _FIRST or words[-1] in ("test", "tests")
    return (words[0] in _FIRST and _parted(name, words[0])) or (words[-1] in _LAST and _ended(name, words[-1]))


def _parted(name: str, word: str) -> bool:
    """Whether a name that begins with `test` goes on as runners want it: `test_x`, `test-x`, `test.x`, `TestX`."""
    after = name[len(word) : len(word) + 1]
    return after in "_-." or (name[:1].isupper() and after.isupper())


def _ended(name: str, word: str) -> bool:
    """Whether a name ends as runners want it: `x_test`, `x.spec`, `XTest`, `XIT`."""
    stem = name.rpartition(".")[0]
    before = stem[: -len(word)]
    if word == "it" and not stem.endswith(("IT", "_it", ".it")):
        return False
    if word in ("cy", "steps"):
        return before.endswith((".", "_"))
    return before.endswith(("_", "-", ".")) or stem[len(before) : len(before) + 1].isupper()


def is_test_config(path: str) -> bool:
    """Whether a file says what a runner collects and how strict it is."""
    return _CONFIG.fullmatch(path.rpartition("/")[2]) is not None


def is_snapshot(path: str) -> bool:
    """Whether a file holds what a run once gave, kept to be compared with."""
    return _SNAPSHOT.search(path) is not None
