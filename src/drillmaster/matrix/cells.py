"""Which cells there are: the chosen faults, each in every API and way of asking that the agent was heard to speak."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_type_hints

import msgspec

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.faults import Fault
from drillmaster.matrix.shapes import Cell, LeftOut, Pair, Wanted
from drillmaster.outcomes import Attempt
from drillmaster.plan import Matrix, Pick
from drillmaster.targeting import Rule, When

__all__ = ["GROUPS", "MAX_CELLS", "USUAL", "choose", "heard", "lay_out", "rules_of", "why_not"]

USUAL = (
    "reset",
    "503",
    "hang",
    "rate-limit",
    "quota-spent",
    "key-expired",
    "context-length",
    "empty-200",
    "html-200",
    "error-in-200",
    "cut-answer",
    "clean-end",
    "cut-stream",
    "stall",
    "error-event",
    "missing-terminal",
)
"""What is chosen where nobody chooses: one of each kind of end that clients are known to tell apart, or not to."""
GROUPS = ("connection", "time", "status", "quota", "credentials", "content", "stream", "tools", "other")
MAX_CELLS = 400

_SHOWN: dict[str, dict[str, Any]] = {
    "body-drip": {"bytes_per_s": 20},
    "cut-body": {"after_bytes": 60},
    "daily-quota": {"requests": 1},
    "first-byte-delay": {"delay_ms": 3_000},
    "header-drip": {"bytes_per_s": 20},
    "rate-limit": {"retry_after_s": 1},
    "requests-per-minute": {"requests": 1},
    "slow-close": {"delay_ms": 3_000},
    "slow-tokens": {"per_s": 5},
    "status": {"status": 500},
    "throttle": {"bytes_per_s": 200},
    "tokens-per-minute": {"tokens": 1},
}
"""Parameters for entries that must be given some, where their own examples would show less within a short window."""


def choose(
    matrix: Matrix, *, tags: Sequence[str] = (), groups: Sequence[str] = (), everything: bool = False
) -> tuple[Wanted, ...]:
    """The faults to try: the command line's, else the plan's, else the usual ones. Raises Problem for what is none."""
    picks: list[str | int | Pick] = [*tags]
    wanted_groups = [*groups]
    if not picks and not wanted_groups and not everything:
        picks, wanted_groups = [*matrix.faults], [*matrix.groups]
    for group in wanted_groups:
        if group not in GROUPS:
            raise Problem(
                "group", found=repr(group[:40]), wanted=f"one of {', '.join(GROUPS)}", remedy="name one of these"
            )
    if everything or wanted_groups:
        named = {str(pick.mode) if isinstance(pick, Pick) else str(pick) for pick in picks}
        more = [t for t in faults.names() if t not in named and (everything or faults.load(t).group in wanted_groups)]
        picks += more
    found = [_wanted(pick) for pick in picks or USUAL]
    return tuple({one.label: one for one in found}.values())


def _wanted(pick: str | int | Pick) -> Wanted:
    tag = str(pick.mode if isinstance(pick, Pick) else pick)
    params = dict(pick.params) if isinstance(pick, Pick) else {}
    kind = faults.load(tag)
    for name, value in (*_SHOWN.get(tag, {}).items(), *_examples(kind)):
        params.setdefault(name, value)
    faults.make(tag, params)
    said = (
        " ".join(f"{name}={value}" for name, value in params.items()) if isinstance(pick, Pick) and pick.params else ""
    )
    return Wanted(label=f"{tag} {said}".rstrip(), tag=tag, params=params)


def _examples(kind: type[Fault]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        if field.required:
            for meta in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(meta, msgspec.Meta) and meta.examples:
                    yield field.name, meta.examples[0]


def heard(attempts: Iterable[Attempt], *, until_ns: int | None = None) -> tuple[Pair, ...]:
    """Which APIs the agent was heard to speak before anything was injected, streamed or not; the most frequent first."""
    counts: dict[tuple[str, bool], int] = {}
    for attempt in attempts:
        if until_ns is None or attempt.start_ns < until_ns:
            key = attempt.dialect, bool(attempt.stream)
            counts[key] = counts.get(key, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Pair(dialect=dialect, stream=stream, attempts=n) for (dialect, stream), n in ordered)


def lay_out(wanted: Sequence[Wanted], spoken: Sequence[Pair]) -> tuple[tuple[Cell, ...], tuple[LeftOut, ...]]:
    """Lay the cells out, fault by fault, and say of each that is left out why."""
    cells: list[Cell] = []
    left_out: list[LeftOut] = []
    dialects = list(dict.fromkeys(pair.dialect for pair in spoken))
    pairs = {(pair.dialect, pair.stream) for pair in spoken}
    for one in wanted:
        fault = faults.make(one.tag, one.params)
        if fault.scope != "exchange":
            if spoken:
                cells.append(_cell(one, None, None, len(cells)))
            else:
                left_out.append(LeftOut(label=one.label, dialect=None, stream=None, why="the agent asked for nothing"))
            continue
        if not dialects:
            left_out.append(LeftOut(label=one.label, dialect=None, stream=None, why="the agent asked for nothing"))
        elif "mcp" in fault.needs and "mcp" not in dialects:
            why = "it strikes calls of MCP alone, and this agent made none in the baseline"
            left_out.append(LeftOut(label=one.label, dialect=None, stream=None, why=why))
        else:
            for dialect in dialects:
                for stream in (False, True):
                    why_left = why_not(fault, dialect, stream=stream)
                    if why_left is None and (dialect, stream) not in pairs:
                        asked = "streams" if stream else "whole answers"
                        why_left = f"this agent asked {dialect} for no {asked} in the baseline"
                    if why_left is None:
                        cells.append(_cell(one, dialect, stream, len(cells)))
                    else:
                        left_out.append(LeftOut(label=one.label, dialect=dialect, stream=stream, why=why_left))
    past = cells[MAX_CELLS:]
    left_out += (
        LeftOut(label=c.label, dialect=c.dialect, stream=c.stream, why=f"over {MAX_CELLS} cells") for c in past
    )
    return tuple(cells[:MAX_CELLS]), tuple(left_out)


def _cell(one: Wanted, dialect: str | None, stream: bool | None, before: int) -> Cell:
    return Cell(
        cell=f"w{before + 1}", label=one.label, fault=one.tag, params=one.params, dialect=dialect, stream=stream
    )


def why_not(fault: Fault, dialect: str, *, stream: bool) -> str | None:
    """Why this fault lets such requests pass, whoever asks; None: it strikes them."""
    needs = fault.needs
    if "mcp" in needs and dialect != "mcp":
        return "it strikes calls of MCP alone"
    if dialect == "mcp" and {"model", "tools"} & set(needs):
        return "it strikes calls of a model's API, and MCP is none"
    if "stream" in needs and not stream:
        return "it strikes streamed answers alone"
    if "whole" in needs and stream:
        return "it strikes whole answers alone"
    if dialect == "plain" and {"model", "tools"} & set(needs):
        return "it has to know whose API it is, and plain HTTP does not say"
    if dialect == "plain" and "stream" in needs and getattr(fault, "after_events", 0) is None:
        return "plain HTTP has no last word to strike before; give it after_events in the plan"
    return None


def rules_of(cell: Cell) -> tuple[Rule, ...]:
    """What is injected for a cell: the fault, aimed at its API and way of asking; one of port or connection meets all.

    A fault that leads clients elsewhere meets them there too, however they ask: they no longer speak the API.
    """
    if cell.dialect is None:
        return (Rule(mode=cell.fault, params=cell.params),)
    aimed = Rule(mode=cell.fault, params=cell.params, name="cell", when=When(dialect=cell.dialect, stream=cell.stream))
    page = faults.load(cell.fault).leads_to
    if not page:
        return (aimed,)
    return aimed, Rule(mode=cell.fault, params=cell.params, name="page", when=When(path=page))
