"""Decisions of guards, written down and counted: names, numbers and reasons, and nothing that was in a call.

1. One decision is one line `guard_decision` of the timeline, as `drillmaster.timeline.mark` writes it: one write, screened, at most
   4 kB, so that many processes share a file. A disk that is full or slow changes no decision.
2. A denial is always written. Allowed ones may be left out, or sampled; each line then says which share of them is written
   (`sampled`), a denial too: where none is written nothing else would tell.
3. Of the facts only those of `FACTS` are written, and of them numbers, booleans and texts that are names. A key, a path, a tool's
   name or an identity is none of them: it may be of a model's wording, or worth hiding. A reason or a limit that is no name, in a
   decision that a worker made itself, is none either: it is counted as `unlisted-reason`.
4. Counters are by entry, guard, reason and allowed. They are counted whatever is written.
"""

import os
import re
import sys
import threading
from collections import Counter
from typing import Any

from drillmaster.errors import Problem
from drillmaster.guards import Decision
from drillmaster.timeline import mark
from drillmaster.timeline.marks import Marks

__all__ = ["COUNTER", "FACTS", "Recorder", "label"]

COUNTER = "drillmaster_guard_decisions"
_SAID = "Decisions of guards, by reason."
_LABELS = ("entry", "guard", "reason", "allowed")
FACTS = (
    "attempt", "caller", "code", "lane", "method", "partner", "protocol", "requests", "retry", "route", "tokens",
)  # fmt: skip  # words
"""What of a guard's facts may be written, where it has facts of these names."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", re.ASCII)
_MOST = 2**53 - 1

_Key = tuple[str, str, str, bool]


class Recorder:
    """Where decisions are written and counted; one for a process. Its methods never raise and never wait for a disk."""

    def __init__(self, log: str | os.PathLike[str] | None = None, *, allowed_share: float = 1.0) -> None:
        """`log` None: the file that DRILL_LOG names at each decision, and none without one.

        `allowed_share` is the share of allowed decisions that is written, from 0 to 1; denials are all written.
        """
        if not 0 <= allowed_share <= 1:
            raise ValueError(f"allowed_share from 0 to 1: found {allowed_share}")
        self._path = None if log is None else os.fsencode(os.path.abspath(log))  # noqa: PTH100  # bytes, as marks take it
        self._marks = None if log is None else Marks()
        self._share = allowed_share
        self._counters: list[Any] = []
        self._broken = False
        self._fresh()
        os.register_at_fork(after_in_child=self._fresh)

    def _fresh(self) -> None:
        """Begin anew in a forked child: what the parent counted is the parent's, and nobody waits for a lock of its threads."""
        self._owed = 0.0
        self._lock = threading.RLock()
        self._counts: Counter[_Key] = Counter()

    def record(self, entry: str, tag: str, facts: object, decision: Decision, *, route: str = "") -> None:
        """Write a decision down, and count it. `entry` is what the guards file calls the guard, `tag` which guard it is."""
        try:
            key = (entry, tag, _reason(decision), decision.allowed is True)
            with self._lock:
                self._counts[key] += 1
                writes = not key[3] or self._is_due()
            for counter in self._counters:
                counter.labels(entry, tag, key[2], _flag(key[3])).inc()
            if writes:
                self._write(self._fields(entry, tag, facts, decision, route))
        except Exception as error:  # noqa: BLE001 - whatever it is, the decision stands without its line
            self._complain(error)

    def counts(self) -> dict[_Key, int]:
        """Give what was counted: (entry, guard, reason, allowed) and how often."""
        with self._lock:
            return dict(self._counts)

    def count_in(self, registry: Any = None) -> None:
        """Count with `prometheus_client` as well, in `registry`; None: its own. Raises Problem where the library is not there."""
        try:
            import prometheus_client
        except ImportError:
            raise Problem(
                "count_in",
                found="no prometheus_client",
                wanted="the library",
                remedy="pip install 'drillmaster[prometheus]'",
            ) from None

        registry = prometheus_client.REGISTRY if registry is None else registry
        self._counters.append(prometheus_client.Counter(COUNTER, _SAID, _LABELS, registry=registry))

    def exposition(self) -> str:
        """Give the counters as Prometheus reads them (text format 0.0.4), without a library."""
        lines = [f"# HELP {COUNTER}_total {_SAID}", f"# TYPE {COUNTER}_total counter"]
        for (entry, tag, reason, allowed), count in sorted(self.counts().items()):
            values = (entry, tag, reason, _flag(allowed))
            named = ",".join(f'{name}="{label(value)}"' for name, value in zip(_LABELS, values, strict=True))
            lines.append(f"{COUNTER}_total{{{named}}} {count}")
        return "\n".join(lines) + "\n"

    def _is_due(self) -> bool:
        """Say whether this allowed one is written: evenly, so that the share holds over any stretch."""
        self._owed += self._share
        if self._owed < 1 - 1e-9:
            return False
        self._owed = max(0.0, self._owed - 1)
        return True

    def _fields(self, entry: str, tag: str, facts: object, decision: Decision, route: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"guard": tag, "allowed": decision.allowed is True, "reason": _reason(decision)}
        if entry != tag:
            fields["entry"] = entry
        if decision.wait_ms:
            fields["wait_ms"] = decision.wait_ms
        if decision.left is not None:
            fields["left"] = decision.left
        limit = getattr(decision, "limit", None)
        if type(limit) is str and _PLAIN.fullmatch(limit):
            fields["limit"] = limit
        for name in FACTS:
            value: Any = getattr(facts, name, None)
            kind = type(value)
            if kind is bool or (kind is int and abs(value) <= _MOST) or (kind is str and _PLAIN.fullmatch(value)):
                fields[name] = value
        if _PLAIN.fullmatch(route):
            fields["route"] = route
        if self._share < 1:
            fields["sampled"] = self._share
        return fields

    def _write(self, fields: dict[str, Any]) -> None:
        if self._marks is None or self._path is None:
            mark("guard_decision", **fields)
            return
        self._marks.take(self._path, "guard_decision", (), fields)

    def _complain(self, error: Exception) -> None:
        if not self._broken:
            self._broken = True
            print(f"drillmaster: decisions are not recorded: {type(error).__name__}", file=sys.stderr)


def _reason(decision: Decision) -> str:
    """Give the reason where it is a name, as every guard's own is."""
    reason: object = decision.reason
    return reason if type(reason) is str and _PLAIN.fullmatch(reason) else "unlisted-reason"


def label(value: str) -> str:
    """Write a label's value as Prometheus reads it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _flag(allowed: bool) -> str:
    return "true" if allowed else "false"
