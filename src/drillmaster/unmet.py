"""Why a fault met nobody: what came through the proxy while it was on, against what the fault strikes.

Words alone, and never a status. What the attempts' lines do not tell (tools, MCP's method) is not guessed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from drillmaster.errors import Problem
from drillmaster.faults import NEEDS, Fault, load
from drillmaster.outcomes import Attempt, Run, Window
from drillmaster.targeting import Rule, could_fit

__all__ = ["Unmet", "came", "nobody", "spared", "strikes_only"]

_MCP = "mcp"


class Came(Protocol):
    """What is looked at of an attempt."""

    @property
    def dialect(self) -> str: ...

    @property
    def model(self) -> str | None: ...

    @property
    def stream(self) -> bool | None: ...


class Unmet(NamedTuple):
    why: str
    remedy: str


def came(run: Run, window: Window) -> list[Attempt]:
    """List the attempts that reached the proxy while the fault was on."""
    end_ns = run.lifted_or_end_ns(window)
    return [a for a in run.attempts if window.injected_ns <= a.start_ns < end_ns]


def nobody(run: Run, window: Window) -> Unmet:
    """Say why an injection acted on nothing."""
    if window.rules:
        return Unmet(f"none of its {len(window.rules)} rules met anybody", "mend what `rules` names, and run again")
    seen = came(run, window)
    if not seen:
        before = sum(a.start_ns < window.injected_ns for a in run.attempts)
        if not before:
            return Unmet(
                "no attempt came through the proxy, neither before it nor while it was on",
                "point the agent's model base URL at the proxy (see proxy_started in events/proxy.jsonl) and run again",
            )
        return Unmet(
            f"no attempt came through the proxy while it was on; {before} had come before",
            "see why the agent asked nothing of its endpoint then (a breaker that was open, a cache, another base URL), and run "
            "again",
        )
    known = spared(window.fault, seen)
    if known is not None:
        return known
    only = strikes_only(window.fault)
    return Unmet(
        f"{_many(len(seen))} came through the proxy while it was on, and {window.fault} let every one pass"
        + (f": it strikes only {only}" if only else ""),
        f"see whom it strikes (drillmaster fault show {window.fault}), correct fault.params or take another fault, and run again",
    )


def spared(
    tag: str, attempts: Sequence[Came], rule: Rule | None = None, *, when: str = "while it was on"
) -> Unmet | None:
    """Say what the fault strikes and none of these attempts was; None: by their lines it could have struck one.

    With `rule`, only those are looked at that could fit it. `when`: they came.
    """
    if rule is not None:
        attempts = [a for a in attempts if could_fit(rule.when, dialect=a.dialect, model=a.model)]
    kind = _kind(tag)
    if kind is None or not attempts:
        return None
    seen = f"{_many(len(attempts))} came through the proxy {when}"
    models = [a for a in attempts if a.dialect not in ("plain", _MCP)]
    streams = sum(a.stream is True for a in attempts)
    needs = kind.needs
    if _MCP in needs and not any(a.dialect == _MCP for a in attempts):
        return Unmet(
            f"{tag} strikes calls of MCP alone: {seen}, and none was one ({_dialects(attempts)})",
            "let the agent reach its MCP server through the proxy, or take mode: hang, and run again",
        )
    if "model" in needs and not models:
        return Unmet(
            f"{tag} strikes calls of a model's API alone: {seen}, and none was known for one ({_dialects(attempts)})",
            "name the API in proxy.dialect of the plan, or take mode: reset, and run again",
        )
    if any(a.dialect == _MCP for a in attempts):
        return None  # whether MCP answers by a stream is its server's choice
    if "stream" in needs and not streams:
        return Unmet(
            f"{tag} strikes streamed answers alone, and this agent asks for whole ones: {seen}, none for a stream",
            "take a fault that strikes whole answers (mode: cut-body, or reset, 503, hang), or let the agent stream, and run "
            "again",
        )
    if "whole" in needs and streams == len(attempts):
        return Unmet(
            f"{tag} strikes whole answers alone, and this agent asks for streams: {seen}, each for a stream",
            "take a fault that strikes streams (mode: clean-end, or reset, 503, hang), or let the agent ask for whole answers, "
            "and run again",
        )
    return None


def strikes_only(tag: str) -> str:
    """Name in words what the fault strikes; empty where it strikes all, or nobody knows it."""
    kind = _kind(tag)
    return "" if kind is None else ", ".join(NEEDS[need] for need in kind.needs)


def _kind(tag: str) -> type[Fault] | None:
    try:
        return load(tag)
    except Problem:  # evidence of another version
        return None


def _many(n: int) -> str:
    return f"{n} attempt{'' if n == 1 else 's'}"


def _dialects(attempts: Sequence[Came]) -> str:
    return ", ".join(
        f"{n} of {name or 'no known API'}" for name, n in Counter(a.dialect for a in attempts).most_common(3)
    )
