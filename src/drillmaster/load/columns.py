"""The calls of each level, column by column, from a run's records: what a gate may ask any time of.

1. `latency`, `ttfb` and `ttft` count from when a call was due, as its caller waits; `service` from when it was sent.
2. A time that did not come is NaN. One that a cut call was still waiting for is "at least" what had passed: it is negative. A
   failed call has no such times, whatever came of it: errors lower no latency.
3. `tpot` is a call's mean gap between words, from its first word to its last. `gaps` are the real ones, of all good and cut calls;
   of a cut stream the wait for the word that did not come is one more, at least so long.
4. The set-up of a connection is timed where a call was its first. `late` is the client's own: from due to sent, less that set-up.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drillmaster.evidence.samples import MAX_HEADER_BYTES, OUTCOMES, read_header
from drillmaster.interviews import Calls

__all__ = ["calls_of"]

_SHORT = OUTCOMES.index("short")
_CUT = frozenset({OUTCOMES.index("timeout"), OUTCOMES.index("stopped")})
_DROPPED = OUTCOMES.index("dropped")
_STATUS = frozenset({OUTCOMES.index("http_3xx"), OUTCOMES.index("http_4xx"), OUTCOMES.index("http_5xx")})
_NAMES = ("latency", "service", "ttfb", "ttft", "tpot", "connect", "tls", "late")
_LEAST_S = 1e-9
"""A cut time is negative, and so never 0."""


class _Level:
    def __init__(self, batch: bool, limit_s: float) -> None:
        self._batch = batch
        self._limit_s = limit_s
        self.due = array("d")
        self.outcome = array("b")
        self.kind: list[str] = []
        self.times = {name: array("d") for name in _NAMES}
        self.tokens = array("q")
        self.attempts = array("q")
        self.gaps = array("d")
        self.gap_at = array("d")
        self.end = array("d")

    def add(self, row: tuple[int, ...], gaps_us: "array[int] | None") -> None:
        due, sent, first, word, end, connect, tls, _, _, _, tokens, _, _, status, outcome, _, *more = row
        good, cut, dropped = outcome <= _SHORT, outcome in _CUT, outcome == _DROPPED
        self.due.append(due / 1e9)
        self.end.append(end / 1e9)
        self.outcome.append(0 if good else 1 if cut or dropped else 2)
        self.kind.append("" if good else f"http_{status}" if outcome in _STATUS else OUTCOMES[outcome])
        self.tokens.append(tokens)
        self.attempts.append(more[4] if more else int(bool(sent)))
        late = (sent - due - connect - tls) / 1e9 if sent else math.nan
        latency = service = ttfb = ttft = tpot = connect_s = tls_s = math.nan
        if dropped:  # due and never sent: no answer within its time limit either
            latency = -self._limit_s
        elif good or cut:
            sign = 1 if good else -1
            latency = sign * max(end - due, 1) / 1e9
            service = sign * max(end - sent, 1) / 1e9 if sent else math.nan
            ttfb = (first - due) / 1e9 if first else sign * max(end - due, 1) / 1e9
            ttft = (word - due) / 1e9 if word else -max(end - due, 1) / 1e9
            connect_s = connect / 1e9 if connect else math.nan
            tls_s = tls / 1e9 if tls else math.nan
            passed_us = sum(gaps_us) if gaps_us else 0
            if gaps_us:
                tpot = sign * max(passed_us * 1e-6 / len(gaps_us), _LEAST_S)
                at = word / 1e9
                for gap_us in gaps_us:
                    at += gap_us * 1e-6
                    self.gaps.append(gap_us * 1e-6)
                    self.gap_at.append(at)
            if cut and word:
                self.gaps.append(-max((end - word) / 1e9 - passed_us * 1e-6, _LEAST_S))
                self.gap_at.append(end / 1e9)
        for name, value in zip(
            _NAMES,
            (latency, service, ttfb, ttft, tpot, connect_s, tls_s, max(late, 0.0) if sent else late),
            strict=True,
        ):
            self.times[name].append(value)

    def calls(self) -> Calls:
        if self._batch and self.due:  # all of it was due at its start
            since = min(self.due)
            self.times["latency"] = array(
                "d",
                [
                    value if math.isnan(value) or end <= due else math.copysign(end - since, value)
                    for value, due, end in zip(self.times["latency"], self.due, self.end, strict=True)
                ],
            )
        streams = any(value > 0 for value in self.times["ttft"])
        if not streams:  # nobody waited for a word that answers in one piece do not have
            self.times["ttft"] = array("d", [math.nan]) * len(self.due)
        return Calls(
            due_s=self.due,
            end_s=self.end,
            outcome=self.outcome,
            kind=self.kind,
            times=self.times,
            gaps_s=self.gaps,
            gap_at_s=self.gap_at,
            tokens=self.tokens,
            attempts=self.attempts,
        )


def calls_of(
    files: Iterable[tuple[Iterable[bytes], Iterable[bytes] | None, Sequence[str]]],
    steps: Mapping[str, Mapping[str, Any]],
    *,
    time_limit_s: float,
) -> dict[str, Calls]:
    """Read records and gaps, file by file with the labels of their stages, into the calls of each step."""
    found = {label: _Level(step["kind"] == "drain", time_limit_s) for label, step in steps.items()}
    for samples, gaps, labels in files:
        levels = [found[label] for label in labels]
        waiting = array("I")
        if gaps is not None:
            data = b"".join(gaps)
            waiting.frombytes(data[: len(data) - len(data) % waiting.itemsize])
        at = 0
        for row in _rows(samples):
            mine = None
            if row[9] > 1 and gaps is not None:
                mine = waiting[at : at + row[9] - 1]
                at += row[9] - 1
            levels[row[12]].add(row, mine)
    return {label: level.calls() for label, level in found.items()}


def _rows(chunks: Iterable[bytes]) -> Iterable[tuple[int, ...]]:
    rest, record = b"", None
    for chunk in chunks:
        rest += chunk
        if record is None:
            end = rest.find(b"\n", 0, MAX_HEADER_BYTES)
            if end < 0:
                continue
            _, record = read_header(rest[:end])
            rest = rest[end + 1 :]
        whole = len(rest) - len(rest) % record.size
        yield from record.iter_unpack(memoryview(rest)[:whole])
        rest = rest[whole:]
