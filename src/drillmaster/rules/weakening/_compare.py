"""Two versions of all tests of a change, held against each other: what is asserted less than before."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from drillmaster.rules.weakening._shapes import Assertion, Suite, Test

__all__ = ["KINDS", "Kind", "Pair", "Weakening", "compare"]

Kind = Literal[
    "fewer-asserts",
    "test-removed",
    "skipped",
    "tolerance",
    "tautology",
    "loosened",
    "swallowed",
    "rows-dropped",
    "snapshot",
    "config",
    "mock",
    "no-product",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]  # the words of a Literal

_SHOWN = 120
_EACH = ("skip: before", "skip: test.before")
_STAND_IN = r"(?:^|[._/-])(?:fakes?|mocks?|stubs?|dumm(?:y|ies)|doubles?|__mocks__|conftest|testing|tests?|testutils?)(?:[._/-]|$)"
_WORD = re.compile(r"[^\W\d]\w*")


def _stands_in(module: str) -> bool:
    return re.search(_STAND_IN, module, re.IGNORECASE) is not None


class Weakening(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is asserted less. `line` is of the new version, or of the old one where the test is gone."""

    kind: Kind
    path: str
    test: str
    line: int
    was: str
    now: str

    def __str__(self) -> str:
        where = f" {self.test}" if self.test else ""
        was = f": {_cut(self.was)}" if self.was else ""
        return f"{self.path}:{self.line}{where}{was}{' -> ' if self.was else ': '}{_cut(self.now)}"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One path before and after; None: it was not there, or holds no tests that can be read."""

    path: str
    before: Suite | None
    after: Suite | None


class _Held:
    """One test in both versions, with what of its assertions has no counterpart yet."""

    def __init__(self, path: str, before: Test | None, after: Test | None) -> None:
        self.path = path
        self.before = before
        self.after = after
        was = list(before.asserts) if before is not None else []
        now = list(after.asserts) if after is not None else []
        self.lost, self.gained = _unmatched(was, now)


def compare(pairs: Iterable[Pair]) -> Iterator[Weakening]:
    """Find what is asserted less in all of a change. A test that moved, was renamed or split is not lost."""
    pairs = tuple(pairs)
    held, gone, new = _matched(pairs)
    every = [*held, *(_Held(path, test, None) for path, test in gone), *(_Held(path, None, test) for path, test in new)]
    surplus = Counter(
        one.text
        for row in every
        if row.after is not None and row.after.live
        for one in row.gained
        if one.counts and not one.conditional
    )
    rows_over = _rows_over(every)
    helpers = {
        name: Counter(said) for pair in pairs if pair.after is not None for name, said in pair.after.helpers.items()
    }
    for row in every:
        if row.before is None:
            yield from _of_new(row)
        elif row.after is None:
            yield from _of_gone(row, surplus)
        else:
            yield from _of_held(row, surplus, rows_over, helpers)
    for pair in pairs:
        yield from _of_suite(pair)


def _matched(pairs: tuple[Pair, ...]) -> tuple[list[_Held], list[tuple[str, Test]], list[tuple[str, Test]]]:
    """Say which test of the old version is which of the new one: by name, then by what it does, here or in another file."""
    held: list[_Held] = []
    gone: list[tuple[str, Test]] = []
    new: list[tuple[str, Test]] = []
    for pair in pairs:
        was = pair.before.named() if pair.before is not None else {}
        now = pair.after.named() if pair.after is not None else {}
        held += [_Held(pair.path, was[name], now[name]) for name in was if name in now]
        gone += [(pair.path, was[name]) for name in was if name not in now]
        new += [(pair.path, now[name]) for name in now if name not in was]
    for key in _KEYS:
        waiting: dict[object, list[int]] = {}
        for number in range(len(new) - 1, -1, -1):
            if (word := key(new[number][1])) is not None:
                waiting.setdefault(word, []).append(number)
        taken: set[int] = set()
        left = []
        for path, test in gone:
            numbers = waiting.get(key(test)) if key(test) is not None else None
            if numbers:
                number = numbers.pop()
                taken.add(number)
                held.append(_Held(new[number][0], test, new[number][1]))
            else:
                left.append((path, test))
        gone = left
        new = [one for number, one in enumerate(new) if number not in taken]
    return held, gone, new


def _leaf(name: str) -> str:
    return name.replace(" > ", "::").rpartition("::")[2]


_KEYS: tuple[Callable[[Test], object], ...] = (
    lambda test: test.name,
    lambda test: test.body if test.body not in ("", "pass") else None,
    lambda test: _leaf(test.name),
    lambda test: tuple(sorted(one.text for one in test.asserts)) or None,
)
"""What two tests have in common that are one, the surest sign first."""


def _unmatched(was: list[Assertion], now: list[Assertion]) -> tuple[list[Assertion], list[Assertion]]:
    """Take away what stands in both, counting only what is as sure to fail as it was."""

    def key(one: Assertion) -> tuple[object, ...]:
        return one.text, one.swallowed, one.conditional, one.tautology, one.tolerance

    left = Counter(key(one) for one in now)
    lost = []
    for one in was:
        if left[key(one)]:
            left[key(one)] -= 1
        else:
            lost.append(one)
    before = Counter(key(one) for one in was)
    gained = []
    for one in now:
        if before[key(one)]:
            before[key(one)] -= 1
        else:
            gained.append(one)
    return [one for one in lost if one.counts], gained


def _of_held(
    row: _Held, surplus: Counter[str], rows_over: Counter[str], helpers: dict[str, Counter[str]]
) -> Iterator[Weakening]:
    assert row.before is not None and row.after is not None
    before, after = row.before, row.after

    def found(kind: Kind, was: str, now: str, line: int | None = None) -> Weakening:
        return Weakening(kind=kind, path=row.path, test=after.name, line=line or after.line, was=was, now=now)

    for mark in after.marks:
        if mark not in before.marks:
            yield found("skipped", "", mark)
    yield from _rows(row, rows_over)
    for was_s, now_s in zip(before.timeouts, after.timeouts, strict=False):
        if now_s > was_s and len(before.timeouts) == len(after.timeouts):
            yield found("tolerance", f"timeout {was_s:g}", f"timeout {now_s:g}")
    if before.limit_s is not None and (after.limit_s is None or after.limit_s > before.limit_s):
        now = "none" if after.limit_s is None else f"{after.limit_s:g}"
        yield found("tolerance", f"time limit {before.limit_s:g}", now)
    if _mocks(after) > _mocks(before):
        bad = next(one for one in reversed(after.asserts) if one.own_mock)
        yield found("mock", "", f"asserts its own stand-in: {bad.text}", bad.line)
    lost, gained = list(row.lost), list(row.gained)
    if lost:
        # A helper that moved to another file of the change still asserts, where the test calls it.
        words = set(_WORD.findall(after.body))
        there: Counter[str] = Counter()
        for name in words & helpers.keys():
            there |= Counter({text: n * after.body.count(name) for text, n in helpers[name].items()})
        lost = [one for one in lost if not _taken(there, one.within or one.text)]
    for one in list(lost):  # what stands elsewhere now is not lost
        own = next(
            (other for other in gained if other.text == one.text and other.counts and not other.conditional), None
        )
        if own is not None and _no_wider(one, own):
            gained.remove(own)
            lost.remove(one)
            surplus[one.text] -= 1
        elif own is None and surplus[one.text] > 0:
            surplus[one.text] -= 1
            lost.remove(one)
    for one in list(gained):
        old = next((other for other in lost if other.text == one.text), None)
        if old is None:
            continue
        if one.swallowed:
            yield found("swallowed", one.text, "its failure is caught and dropped", one.line)
        elif one.conditional and not old.conditional:
            yield found("loosened", one.text, "only under a condition", one.line)
        elif _wider(old, one):
            yield found("tolerance", f"within {_number(old.tolerance)}", f"within {_number(one.tolerance)}", one.line)
        else:
            continue
        lost.remove(old)
        gained.remove(one)
    for one in [one for one in gained if one.tautology]:
        yield found("tautology", lost[0].text if lost else "", one.text, one.line)
        lost = lost[1:]
        gained.remove(one)
    for one in [one for one in gained if one.swallowed]:
        if lost:
            yield found("swallowed", lost[0].text, f"{one.text}, whose failure is dropped", one.line)
            lost = lost[1:]
        gained.remove(one)
    rows = Counter(after.rows or ()) - Counter(before.rows or ())
    yield from _pairs(lost, gained, found, rows)


def _taken(held: Counter[str], text: str) -> bool:
    if held[text] < 1:
        return False
    held[text] -= 1
    return True


def _without_rows(lost: list[Assertion], gained: list[Assertion], rows: Counter[str]) -> list[Assertion]:
    """Leave out what a row of a table asserts now: one that has all of its values, under an assertion as sharp."""
    able = [one for one in gained if one.counts and not one.conditional]
    sharpest = max(able, key=lambda one: one.strength, default=None)
    left = []
    for one in lost:
        values = _values(one.text)
        row = next((row for row, n in rows.items() if n > 0 and values and values <= _values(f"({row})")), None)
        if row is None or sharpest is None or one.strength > sharpest.strength:
            left.append(one)
        else:
            rows[row] -= 1
    if len(left) < len(lost) and sharpest is not None:
        gained.remove(sharpest)  # it stands for those, and for no other
    return left


def _values(text: str) -> set[str]:
    import ast  # of use where a table came to be, which is seldom

    try:
        return {ast.dump(node) for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Constant)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _pairs(lost: list[Assertion], gained: list[Assertion], found: object, rows: Counter[str]) -> Iterator[Weakening]:
    """Hold what was against what came in its place: by what is looked at, then by how much it leaves open."""
    assert callable(found)
    for one in list(lost):
        match = next((other for other in gained if other.subject == one.subject), None)
        if match is None:
            continue
        lost.remove(one)
        gained.remove(match)
        yield from _weaker(one, match, found)
    if len(lost) > len(gained):
        lost = _without_rows(lost, gained, rows)
    lost.sort(key=lambda one: -one.strength)
    gained.sort(key=lambda one: -one.strength)
    for one, match in zip(lost, gained, strict=False):
        yield from _weaker(one, match, found)
    for one in lost[len(gained) :]:
        yield found("fewer-asserts", one.text, "no such assertion", None)


def _weaker(one: Assertion, match: Assertion, found: object) -> Iterator[Weakening]:
    assert callable(found)
    if match.strength < one.strength:
        yield found("loosened", one.text, match.text, match.line)
    elif match.conditional and not one.conditional:
        yield found("loosened", one.text, f"{match.text}, only under a condition", match.line)
    elif _wider(one, match):
        yield found("tolerance", one.text, match.text, match.line)
    elif one.inline_snapshot and match.inline_snapshot:
        yield found("snapshot", one.text, match.text, match.line)


def _wider(old: Assertion, new: Assertion) -> bool:
    if old.tolerance is not None and (new.tolerance is None or new.tolerance > old.tolerance * (1 + 1e-9)):
        return new.strength == old.strength
    if old.bound is not None and new.bound is not None and old.subject == new.subject and old.bound[0] == new.bound[0]:
        sign, limit = old.bound
        return new.bound[1] > limit if sign == "<" else new.bound[1] < limit
    return False


def _no_wider(old: Assertion, new: Assertion) -> bool:
    return not _wider(old, new)


def _of_gone(row: _Held, surplus: Counter[str]) -> Iterator[Weakening]:
    assert row.before is not None
    wanted = Counter(one.text for one in row.before.asserts if one.counts)
    if wanted and all(surplus[text] >= n for text, n in wanted.items()):
        surplus.subtract(wanted)
        return
    if row.before.marks and not wanted:
        return
    counted = sum(wanted.values())
    yield Weakening(
        kind="test-removed",
        path=row.path,
        test=row.before.name,
        line=row.before.line,
        was=f"{counted} assertion{'s' * (counted != 1)}",
        now="the test is gone, or has a name that no runner collects",
    )


def _of_new(row: _Held) -> Iterator[Weakening]:
    """Look at a test that is new: it weakens nothing, but may be none."""
    assert row.after is not None

    def found(kind: Kind, now: str, line: int) -> Weakening:
        return Weakening(kind=kind, path=row.path, test=row.after.name if row.after else "", line=line, was="", now=now)

    for one in row.after.asserts:
        if one.tautology:
            yield found("tautology", one.text, one.line)
        elif one.swallowed:
            yield found("swallowed", f"{one.text}, whose failure is dropped", one.line)
        elif one.own_mock:
            yield found("mock", f"asserts its own stand-in: {one.text}", one.line)


def _of_suite(pair: Pair) -> Iterator[Weakening]:
    if pair.after is None:
        return
    before = pair.before.settings if pair.before is not None else ()
    for text in pair.after.settings:
        if pair.before is None and text.startswith(_EACH):
            continue  # a new file's tests may ask for what they need
        if text not in before:
            kind: Kind = "skipped" if text.startswith(("only: ", "skip: ")) else "config"
            yield Weakening(kind=kind, path=pair.path, test="", line=1, was="", now=text)
    for name, module in pair.after.imports.items():
        old = pair.before.imports.get(name) if pair.before is not None else None
        if old is not None and old != module and _stands_in(module) and not _stands_in(old):
            said = f"{name} comes from {module}"
            yield Weakening(kind="mock", path=pair.path, test="", line=1, was=f"{name} from {old}", now=said)
    had = pair.before is None or pair.before.reaches_product or not pair.before.tests
    if had and not pair.after.reaches_product and any(test.asserts for test in pair.after.tests):
        what = "no test here calls the product: what it asserts, it holds itself"
        yield Weakening(kind="no-product", path=pair.path, test="", line=1, was="", now=what)


def _rows(row: _Held, over: Counter[str]) -> Iterator[Weakening]:
    assert row.before is not None and row.after is not None
    was, now = row.before.rows, row.after.rows
    said = ""
    if was and now is None:
        said = "rows that cannot be counted"
    elif was and now is not None and (len(now) < len(was) or len(set(now)) < len(set(was))):
        missing = Counter(was) - Counter(now)
        left = missing - over
        over -= missing
        said = f"{len(now)} rows; gone: {', '.join(list(left)[:3])}" if left else ""
    if said:
        yield Weakening(
            kind="rows-dropped",
            path=row.path,
            test=row.after.name,
            line=row.after.line,
            was=f"{len(was or ())} rows",
            now=said,
        )
    asked, asks = row.before.examples, row.after.examples
    if asked is not None and asks is not None and asks < asked:
        yield Weakening(
            kind="rows-dropped",
            path=row.path,
            test=row.after.name,
            line=row.after.line,
            was=f"{asked:g} examples",
            now=f"{asks:g} examples",
        )


def _rows_over(rows: list[_Held]) -> Counter[str]:
    """Count the rows that came to be somewhere: one that moved is not dropped."""
    over: Counter[str] = Counter()
    for row in rows:
        if row.after is not None and row.after.live and row.after.rows:
            over += Counter(row.after.rows) - Counter((row.before.rows or ()) if row.before is not None else ())
    return over


def _mocks(test: Test) -> int:
    return sum(one.own_mock for one in test.asserts)


def _number(value: float | None) -> str:
    return "what cannot be told here" if value is None else f"{value:g}"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else flat[: _SHOWN - 1] + "…"
