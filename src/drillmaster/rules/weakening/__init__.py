"""Weakened tests: what two versions of all tests of a change assert, and what the new one asserts less.

1. Tests are compared by what they assert, not by their text. Formatting, the names of local variables, the order of tests
   and of files, a helper taken out or put back, a test split in two or moved: none of these is a weakening.
2. Less is: a test that is gone or that no runner collects any more; a test that is skipped, expected to fail, tried again, or
   left out because another one runs `only`; fewer assertions in one test; one that holds whatever happens; one that a
   handler catches, or that stands behind a condition now; one that leaves more open (`==` to `in`, to "is there", to any
   value); a wider tolerance, bound or time limit; rows that are not run any more; a kept snapshot written again; settings
   that collect less; a stand-in of the thing under test whose own answer is asserted; tests that call nothing but themselves.
3. What cannot be read is not passed: a file that does not parse, a language without its reader, content that is not there.
4. An assertion is compared by its canonical text, what it looks at, and how much it leaves open. Whether an expected value
   that changed is the right one nobody can see here; somebody who owns it has to.

Python is read by `ast`, JavaScript and TypeScript by tree-sitter, an extra of this package. Other languages are told by
their names alone (`rules.test_names`), and their changes are listed as not compared.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from drillmaster.rules.weakening import _config as config
from drillmaster.rules.weakening._compare import KINDS, Kind, Pair, Weakening, compare
from drillmaster.rules.weakening._shapes import Suite, Unparsed

__all__ = ["KINDS", "Compared", "Kind", "Version", "Weakening", "compared", "is_compared", "is_settings"]

is_settings = config.is_settings
_PYTHON = (".py", ".pyi")
_SCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One file in both versions. None: not there; `missing`: it is there, and its content is not to be had."""

    path: str
    before: bytes | None
    after: bytes | None
    missing: bool = False


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `unread` are (path, what was found, what mends it)."""

    weakenings: tuple[Weakening, ...]
    unread: tuple[tuple[str, str, str], ...]
    tests: int
    """How many tests of both versions were looked at."""
    not_compared: tuple[str, ...] = ()
    """Tests in languages that are told by name alone."""
    not_followed: tuple[str, ...] = ()
    """Decorators of other files that a test has now and had not before."""


def is_compared(path: str) -> bool:
    """Whether a file's language is read here, if it is a file of tests."""
    return path.lower().endswith((*_PYTHON, *_SCRIPT)) or config.is_settings(path)


def compared(versions: Iterable[Version], *, progress: Callable[[int], None] | None = None) -> Compared:
    """Compare all test files of a change."""
    pairs: list[Pair] = []
    found: list[Weakening] = []
    unread: list[tuple[str, str, str]] = []
    others: list[str] = []
    for number, one in enumerate(versions, 1):
        if progress is not None:
            progress(number)
        if not is_compared(one.path):
            others.append(one.path)
            continue
        if one.missing:
            unread.append((one.path, "content that is not to be had, or too long", "git fetch --refetch origin"))
            continue
        if one.before == one.after:
            continue
        try:
            found += config.weakened(one.path, one.before, one.after)
            if config.is_settings(one.path) and not one.path.lower().endswith((*_PYTHON, *_SCRIPT)):
                continue
            before, after = _read(one.path, one.before, one.after)
            pairs.append(Pair(path=one.path, before=before, after=after))
        except Unparsed as fault:
            unread.append((one.path, fault.found, fault.remedy))
    found += compare(pairs)
    return Compared(
        weakenings=tuple(found),
        unread=tuple(unread),
        tests=sum(len(suite.tests) for pair in pairs for suite in (pair.before, pair.after) if suite is not None),
        not_compared=tuple(others),
        not_followed=tuple(_not_followed(pairs)),
    )


def _not_followed(pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        before = {} if pair.before is None else pair.before.named()
        for test in () if pair.after is None else pair.after.tests:
            if test.name in before:
                new = sorted({*test.decorated} - {*before[test.name].decorated})
                yield from (f"{pair.path}:{test.line} {test.name} {one}" for one in new)


def _read(path: str, before: bytes | None, after: bytes | None) -> tuple[Suite | None, Suite | None]:
    if path.lower().endswith(_PYTHON):
        from drillmaster.rules.weakening._python import read as read_python

        return read_python(before, after)
    from drillmaster.rules.weakening._script import read as read_script

    return read_script(before, after, path)
