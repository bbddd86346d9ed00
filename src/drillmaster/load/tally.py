"""Records folded step by step: latencies, kinds of failure, how late the client was and how many calls it held.

1. Good is an answer that its API calls finished, `short` ones (a token limit) included. Its latency counts from when it was due.
2. A call that was cut at its time limit, or by the end of the run, took "at least" so long. One that was due and never sent,
   since too many were in flight, had no answer within the time limit either: at least that.
3. The client's own lateness is from due to sent, less the connection's set-up, which is the endpoint's.
4. What is held counts from the first call to the last one that began: after that the callers run out of calls. A batch counts
   from its start, since all of it was due then.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from drillmaster.evidence.samples import OUTCOMES, RECORD
from drillmaster.stats import quantile
from drillmaster.verdict import AtLeast, Exact

__all__ = ["Call", "Figures", "StepTally", "Tail", "batches"]

_SHORT = OUTCOMES.index("short")
assert OUTCOMES[: _SHORT + 1] == ("ok", "short")
_CUT = frozenset({OUTCOMES.index("timeout"), OUTCOMES.index("stopped"), OUTCOMES.index("dropped")})
_STATUS = frozenset({OUTCOMES.index("http_3xx"), OUTCOMES.index("http_4xx"), OUTCOMES.index("http_5xx")})
_FIELDS = Struct("<qq16xqqq12xi4xHhBx")
"""Of `RECORD`, what is folded here: there may be a hundred thousand a second of them beside the engine that makes them."""
assert _FIELDS.size == RECORD.size

Figures = dict[str, float]
"""`p50_s`, `p95_s`, `max_s`, `error_rate`."""


class Call(NamedTuple):
    """What is looked at of one record."""

    due_ns: int
    sent_ns: int
    end_ns: int
    connect_ns: int
    tls_ns: int
    tokens: int
    stage: int
    status: int
    outcome: int


class StepTally:
    """One step."""

    def __init__(self, time_limit_s: float, *, batch: bool = False) -> None:
        self._limit_ns = round(time_limit_s * 1e9)
        self._batch = batch
        self._due = array("q")
        self._end = array("q")
        self._bad: dict[int, bool] = {}
        """Place of each call that is no good one -> whether it was cut."""
        self._late = array("q")
        self._unsent = 0
        self.failed: Counter[str] = Counter()
        self.tokens = 0
        self.first_status = -1
        """Of the call that was the first to end."""

    def add(self, calls: Iterable[tuple[int, ...]]) -> None:
        """Take records, as `batches` gives them."""
        due_append, end_append = self._due.append, self._end.append
        at = len(self._due)
        unsent = tokens_sum = 0
        for due_ns, sent_ns, end_ns, connect_ns, tls_ns, tokens, _, status, outcome in calls:
            due_append(due_ns)
            end_append(end_ns)
            if sent_ns - due_ns > connect_ns + tls_ns:
                self._late.append(sent_ns - due_ns - connect_ns - tls_ns)
            if tokens > 0:
                tokens_sum += tokens
            if outcome > _SHORT:
                unsent += not sent_ns
                self._bad[at] = outcome in _CUT
                self.failed[f"http_{status}" if outcome in _STATUS else OUTCOMES[outcome]] += 1
            if not at:
                self.first_status = status
            at += 1
        self.tokens += tokens_sum
        self._unsent += unsent

    @property
    def n(self) -> int:
        return len(self._due)

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    @property
    def seconds(self) -> float:
        """From the first call to the last end."""
        return (max(self._end) - min(self._due)) / 1e9 if self._due else 0.0

    def _took_s(self, places: Iterable[int]) -> tuple[float, ...]:
        since_ns = min(self._due) if self._batch and self._due else None
        due, end, limit_ns = self._due, self._end, self._limit_ns
        found = []
        for at in places:
            took_ns = end[at] - (due[at] if since_ns is None else since_ns)
            found.append((took_ns if took_ns > 0 else limit_ns) / 1e9)  # else: never sent
        return tuple(found)

    def ok_s(self) -> tuple[float, ...]:
        bad = self._bad
        return self._took_s(at for at in range(self.n) if at not in bad)

    def cut_s(self) -> tuple[float, ...]:
        return self._took_s(at for at, cut in self._bad.items() if cut)

    def figures(self) -> Figures | None:
        """What the article's row says. Where no call was answered, the times after which they failed; None: no call."""
        if not self.n:
            return None
        ok_s, cut_s = self.ok_s(), self.cut_s()
        if not ok_s and not cut_s:
            ok_s = self._took_s(self._bad)
        found: Figures = {}
        for name, q in (("p50_s", 0.5), ("p95_s", 0.95), ("max_s", 1.0)):
            measure = quantile(ok_s, q, censored=cut_s)
            assert isinstance(measure, Exact | AtLeast)
            found[name] = round(measure.value, 6)
        found["error_rate"] = self.failures / self.n
        return found

    def p95_s(self, last: int = 1_000) -> float | None:
        """The 95th percentile of the good ones among the last calls: for a person who looks on."""
        found = self._took_s(at for at in range(max(0, self.n - last), self.n) if at not in self._bad)
        measure = quantile(found, 0.95) if found else None
        return measure.value if isinstance(measure, Exact) else None

    def late_s(self, q: float) -> float:
        """How late the client was: a quantile over all that was sent; 0 where nothing was."""
        on_time = self.n - self._unsent - len(self._late)
        found = [0.0] * on_time + [ns / 1e9 for ns in self._late]
        measure = quantile(found, q) if found else None
        return measure.value if isinstance(measure, Exact) else 0.0

    def held(self) -> float:
        """How many calls were in flight, on average over the time until the last one began."""
        if not self._due:
            return 0.0
        from_ns, until_ns = min(self._due), max(self._due)
        if until_ns - from_ns < 1_000_000:  # all began at once
            return float(self.n)
        busy_ns = sum(
            max(0, min(end_ns, until_ns) - due_ns) for due_ns, end_ns in zip(self._due, self._end, strict=True)
        )
        return busy_ns / (until_ns - from_ns)

    def held_overall(self) -> float:
        """The same until the last answer: what is below `held` is the step emptying."""
        span_s = self.seconds
        busy_ns = sum(max(0, end_ns - due_ns) for due_ns, end_ns in zip(self._due, self._end, strict=True))
        return busy_ns / 1e9 / span_s if span_s > 0 else float(self.n)


def batches(chunks: Iterable[bytes]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """A samples file whose bytes come in chunks of any size: step after step, its calls, some at a time.

    Its header and a torn end are left out.
    """
    cutter = _Cutter()
    for chunk in chunks:
        yield from cutter.cut(chunk)


class _Cutter:
    def __init__(self) -> None:
        self._rest = b""
        self._headed = False

    def cut(self, chunk: bytes) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
        rest = self._rest + chunk
        if not self._headed:
            end = rest.find(b"\n") + 1
            if not end:
                self._rest = rest
                return
            rest, self._headed = rest[end:], True
        whole = len(rest) - len(rest) % RECORD.size
        self._rest = rest[whole:]
        calls = list(_FIELDS.iter_unpack(memoryview(rest)[:whole]))
        while calls:  # one step's records end before the next one's begin
            stage = calls[0][6]
            if calls[-1][6] == stage:
                yield stage, calls
                return
            mine = [call for call in calls if call[6] == stage]
            calls = [call for call in calls if call[6] != stage]
            yield stage, mine


class Tail:
    """A samples file that an engine is writing: what has come since the last look."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._cutter = _Cutter()

    def new(self) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - looked into four times a second
                file.seek(self._at)
                data = file.read()
        except OSError:
            return
        self._at += len(data)
        yield from self._cutter.cut(data)
