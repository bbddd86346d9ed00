"""The table for a terminal: one line a cell, what is behind it below, what was not run and why, and what that leaves open."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from drillmaster.errors import one_line
from drillmaster.matrix.reading import exit_of, open_cells
from drillmaster.matrix.shapes import BAD, GOOD, LeftOut, Result, Table
from drillmaster.policy import seconds_text, share_text
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure

__all__ = [
    "UNPROVEN",
    "asked",
    "attempts_text",
    "grouped",
    "headline",
    "lines",
    "measure_text",
    "on_the_wire",
    "summary",
]

_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_RED, _GREEN, _YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"

CLOCK_GRAIN_S = 0.1
"""Steps of the wall clock under this are not told: clocks are slewed that much."""

UNPROVEN = (
    "That an answer was good: it had the form that the plan expects, and no more is asked of it.",
    "What a fault does that goes on for longer than its window, or two at once.",
    "How much load the fallback bears: traffic was steady and small.",
    "Anything about faults that are listed as not run, and about APIs and ways of asking that the baseline did not hear.",
)
"""What a matrix does not prove."""


def asked(dialect: str | None, stream: bool | None) -> str:
    """An API and a way of asking in words."""
    if dialect is None:
        return "all that come"
    return f"{dialect} {'streamed' if stream else 'whole'}"


def measure_text(measure: Measure) -> str:
    match measure:
        case Exact(value=value):
            return f"{value:.3g}"
        case AtLeast(value=value):
            return f"at least {value:.3g}"
        case AtMost(value=value):
            return f"at most {value:.3g}"
        case Absent():
            return "not known"


def headline(table: Table) -> str:
    """The matrix in one line: how many of its cells were survived, failed, settled nothing, were not run."""
    good = sum(r.word in GOOD for r in table.results)
    bad = sum(r.word in BAD for r in table.results)
    open_ones = len(table.results) - good - bad
    parts = [f"{good} survived", f"{bad} failed users"]
    parts += [f"{open_ones} settled nothing"] if open_ones else []
    should = sum(entry.should for entry in table.not_run)
    parts += [f"{should} not run that should"] if should else []
    return f"{len(table.results)} cells run: {', '.join(parts)}; {len(table.not_run) - should} left out with a reason"


def summary(table: Table) -> list[str]:
    """What the exit code says, in words, worst first."""
    code = exit_of(table)
    said = [f"REFUSED {problem}" for problem in table.problems]
    if table.ended:
        said.insert(0 if code == 3 else len(said), f"STOPPED {table.ended}")
    share = None if table.max_failed_ratio is None else share_text(table.max_failed_ratio)
    failed = [r for r in table.results if r.failed]
    if share is None:
        said.append("measured; there is no policy, and nothing is judged")
    elif failed:
        some = f"{len(failed)} cells failed" if len(failed) > 1 else f"{failed[0].label} failed"
        said.append(f"FAIL {some} more than {share} of the users that met {'them' if len(failed) > 1 else 'it'}")
    elif code == 0:
        said.append(f"PASS no cell failed more than {share} of the users that met it")
    if code == 2 and not table.problems:
        nothing = open_cells(table)
        if not any(r.word in GOOD | BAD for r in table.results):
            said.append("REFUSED no cell settled anything")
        elif any(entry.should for entry in table.not_run):
            said.append("REFUSED cells that should have been run were not")
        else:
            said.append(
                f"REFUSED {len(nothing)} cells settled nothing, or too little for a share: {', '.join(nothing[:10])}"
            )
    if blind := sum(mostly_nobodys(r) for r in table.results):
        said.append(
            f"note: in {blind} {'cell' if blind == 1 else 'cells'} most attempts found no user, since several may have waited at "
            "once: pass traceparent on, or put {nonce} into the prompt (target.url, target.body)"
        )
    return said


def lines(table: Table, *, colour: bool, columns: int | None = None) -> Iterator[str]:
    """Write the table. `columns`: how wide the terminal is; None: what reads it does not mind."""

    def paint(text: str, code: str) -> str:
        return f"{code}{text}{_OFF}" if colour else text

    stamps = f" [{', '.join(table.stamps)}]" if table.stamps else ""
    yield paint(f"fault matrix: {one_line(table.service)}, run {table.run}{stamps}", _BOLD)
    heard = ", ".join(f"{asked(p.dialect, p.stream)} ({p.attempts})" for p in table.spoken)
    yield f"heard in the baseline: {heard or 'nothing'}; {table.baseline}"
    if table.clock_step_s >= CLOCK_GRAIN_S:
        moved = seconds_text(round(table.clock_step_s, 1))
        yield f"the wall clock moved by {moved}: a mark without an id may have been taken for another request's"
    yield ""
    if table.results:
        labels = max(len(r.label) for r in table.results)
        ways = max(len(asked(r.dialect, r.stream)) for r in table.results)
        words = max(len(r.word) for r in table.results)
        for r in table.results:
            code = _GREEN if r.word in GOOD else _RED if r.word in BAD else _YELLOW
            word = paint(f"{r.word:{words}}", code)
            row, why = f"{r.cell:>4}  {r.label:{labels}}  {asked(r.dialect, r.stream):{ways}}  {word}", one_line(r.why)
            fits = columns is None or 10 + labels + ways + words + len(why) <= columns
            yield f"{row}  {why}".rstrip() if fits else row.rstrip()
            yield from () if fits else _wrapped(why, 8 + labels, columns)
            for row in _wrapped(one_line(behind(r)), 8 + labels, columns):
                yield paint(row, _DIM)
        yield ""
    if table.not_run:
        yield paint("not run", _BOLD)
        for why, which in grouped(table.not_run):
            yield f"  {one_line(why)}:"
            yield from _wrapped(one_line("; ".join(which)), 6, columns)
        yield ""
    yield paint(headline(table), _BOLD)
    yield from summary(table)


def behind(r: Result) -> str:
    """What wire, worker and clock say of a cell."""
    parts = [f"wire: {on_the_wire(r)}"]
    if r.fallbacks:
        parts.append(f"fallback: {_counted(r.fallbacks)}")
    elif r.users.get("ok_fallback") and r.word in GOOD:
        parts.append("fallback: an answer without the primary, by no mark")
    if r.first_good_s is not None:
        parts.append(f"first good answer after {seconds_text(round(r.first_good_s, 3))}")
    if r.wire and not isinstance(r.attempts_each, Absent):
        parts.append(f"attempts a request: {attempts_text(r)}")
    if r.wire and not isinstance(r.storm, Absent):
        parts.append(f"storm factor {measure_text(r.storm)}")
    if r.exceptions:
        parts.append(f"escaped: {_counted(r.exceptions)}")
    if r.deaths:
        parts.append("its process ended by itself" + (f", {r.deaths} times" if r.deaths > 1 else ""))
    if r.cut_short:
        parts.append(f"{r.cut_short} ended by the lift, not judged")
    if r.back_s is not None:
        parts.append(f"back {seconds_text(round(r.back_s, 2))} after the lift")
    if r.not_back:
        parts.append(f"NOT BACK: {r.not_back}" + ("; it was started anew" if r.restarted else ""))
    return "; ".join(parts)


def attempts_text(r: Result) -> str:
    """How many attempts a request became; a floor under one, which is no news, is not told as a number."""
    if mostly_nobodys(r):
        return "not known, most of them found no user"
    return f"{measure_text(r.attempts_each)}, the most {measure_text(r.most_attempts)}"


def mostly_nobodys(r: Result) -> bool:
    """Whether attempts met the fault and most of them are not known to belong to any request."""
    return bool(r.wire) and isinstance(r.attempts_each, AtLeast) and r.attempts_each.value < 0.5


def on_the_wire(r: Result) -> str:
    """Which branches the wire saw."""
    if r.wire:
        return _counted(r.wire)
    return "below HTTP, before a request could be read" if r.dialect is None else "no attempt met it"


def grouped(not_run: Iterable[LeftOut]) -> list[tuple[str, list[str]]]:
    """What was not run by why, one text a way of asking: what should have been first, then the reason that left most out."""
    found: dict[str, dict[str, list[str]]] = {}
    should: dict[str, bool] = {}
    for entry in not_run:
        way = f" ({asked(entry.dialect, entry.stream)})" if entry.dialect is not None else ""
        found.setdefault(entry.why, {}).setdefault(way, []).append(entry.label)
        should[entry.why] = should.get(entry.why, False) or entry.should
    ranked = sorted(found, key=lambda why: (not should[why], -sum(map(len, found[why].values()))))
    return [(why, [f"{', '.join(labels)}{way}" for way, labels in found[why].items()]) for why in ranked]


def _wrapped(text: str, indent: int, columns: int | None) -> list[str]:
    """Break text at blanks so that it fits, each line this far from the edge."""
    if columns is None:
        return [f"{' ' * indent}{text}"]
    left = " " * (indent if columns >= indent + 30 else 6)
    return textwrap.wrap(text, max(columns, 20), initial_indent=left, subsequent_indent=left, break_on_hyphens=False)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} x {what}" for what, n in counts.items())
