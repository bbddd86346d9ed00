"""What the flag server's lines tell of: injections, what workers saw of them, kills."""

from collections.abc import Mapping
from typing import Any

import msgspec

from drillmaster.fridays import Chaos, FlagOn, Killed, Sight
from drillmaster.verdict import Cite

__all__ = ["Kill", "Window", "Worker", "Wrong", "chaos", "flag_on", "killed", "revision_of", "sights"]


class Wrong(Exception):
    """A line of ours without what it has to say."""


class Kill(msgspec.Struct):
    capability: str
    tools: tuple[str, ...]
    killed_ns: int
    cite: Cite
    restored_ns: int | None = None
    last_end_ns: int | None = None
    refused: int = 0
    ran: int = 0
    drained: dict[str, float] = {}
    durable: bool = True
    """Not the flag of a window: of that no worker says when it held it."""


class Window(msgspec.Struct):
    id: str
    injected_ns: int
    flags: tuple[FlagOn, ...]
    cite: Cite
    lifted_ns: int | None = None
    why: str = ""
    gone: bool | None = None
    off: dict[str, int] = {}
    """When each of its flags went off, where a line says so."""
    on: tuple[str, int] | None = None
    """The revision that turned its flags on: the server's mark, and the number."""


class Worker(msgspec.Struct):
    spans: list[list[int | None]] = []
    """From when to when it was there; None: to the end."""
    reads: list[tuple[int, str, int]] = []
    """When, mark and number of each revision that it came to hold."""
    lost: list[int] = []


def sights(
    window: Window, workers: Mapping[str, Worker], met_by: Mapping[tuple[str, str, str], int], last_ns: int
) -> list[Sight]:
    """What each worker that was there saw of one injection."""
    lifted_ns = last_ns if window.lifted_ns is None else window.lifted_ns
    found = []
    for name, worker in sorted(workers.items()):
        there = [
            (begin_ns, over_ns)
            for begin_ns, over_ns in worker.spans
            if begin_ns is not None and begin_ns < lifted_ns and (over_ns is None or over_ns > window.injected_ns)
        ]
        if not there:
            continue
        seen_ns = next(
            (
                at_ns
                for at_ns, mark, number in worker.reads
                if window.on is not None and mark == window.on[0] and number >= window.on[1] and at_ns <= lifted_ns
            ),
            None,
        )
        met = {flag: n for (who, where, flag), n in met_by.items() if who == name and where == window.id}
        if seen_ns is None and met and any(met.values()):
            seen_ns = lifted_ns  # who met a flag held it; when it came to hold it nobody says
        lost = any(window.injected_ns <= at_ns <= lifted_ns for at_ns in worker.lost)
        back = any(begin_ns > max(worker.lost, default=0) for begin_ns, _ in there)
        found.append(
            Sight(
                worker=name,
                window=window.id,
                seen_s=None if seen_ns is None else seen_ns / 1e9,
                met=met,
                lost=lost and not back,
            )
        )
    return found


def killed(kill: Kill, workers: Mapping[str, Worker], last_ns: int) -> Killed:
    """One kill, with the workers that were there and never held it."""
    there = {
        name
        for name, worker in workers.items()
        if any(over is None or over > kill.killed_ns for _, over in worker.spans)
    }
    over_ns = last_ns if kill.restored_ns is None else kill.restored_ns
    return Killed(
        capability=kill.capability,
        tools=kill.tools,
        killed_s=kill.killed_ns / 1e9,
        restored_s=None if kill.restored_ns is None else kill.restored_ns / 1e9,
        last_end_s=None if kill.last_end_ns is None else kill.last_end_ns / 1e9,
        refused=kill.refused,
        ran=kill.ran,
        drained_s=kill.drained,
        undrained=tuple(sorted(there - kill.drained.keys())) if kill.durable or kill.drained else (),
        over_s=(over_ns - kill.killed_ns) / 1e9,
        cite=kill.cite,
    )


def flag_on(said: dict[str, Any]) -> FlagOn:
    flag = said.get("flag")
    if type(flag) is not str or not flag:
        raise Wrong("a flag without a name")

    def number(name: str) -> Any:
        value = said.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    first, every = number("first"), number("every")
    return FlagOn(
        flag=flag,
        kind=str(said.get("kind", "")),
        share=number("share"),
        first=None if first is None else int(first),
        every=None if every is None else int(every),
    )


def revision_of(said: object) -> tuple[str, int] | None:
    """A revision as the flag server writes it, `MARK-N`; a bare number is one of a server without a mark."""
    if type(said) is int:
        return ("", said)
    if type(said) is not str:
        return None
    mark, _, count = said.rpartition("-")
    return (mark, int(count)) if count.isascii() and count.isdigit() and len(count) <= 15 else None


def chaos(one: Window) -> Chaos:
    return Chaos(
        id=one.id,
        injected_s=one.injected_ns / 1e9,
        lifted_s=None if one.lifted_ns is None else one.lifted_ns / 1e9,
        why=one.why,
        flags=one.flags,
        off_s={flag: ns / 1e9 for flag, ns in one.off.items()},
        gone=one.gone,
        cite=one.cite,
    )
