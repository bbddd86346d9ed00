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
from collections.abc import Iterator

from drillmaster.evidence.samples import OUTCOMES, RECORD
from drillmaster.stats import quantile
from drillmaster.verdict import AtLeast, Exact

__all__ = ["Figures", "StepTally", "Tail", "records"]

_OK, _SHORT = OUTCOMES.index("ok"), OUTCOMES.index("short")
_DROPPED = OUTCOMES.index("dropped")
_CUT = frozenset({OUTCOMES.index("timeout"), OUTCOMES.index("stopped")})
_STATUS = frozenset({OUTCOMES.index("http_3xx"), OUTCOMES.index("http_4xx"), OUTCOMES.index("http_5xx")})
_READ_BYTES = 4_096 * RECORD.size

Record = tuple[int, ...]
Figures = dict[str, float]
"""`p50_s`, `p95_s`, `max_s`, `error_rate`."""


class StepTally:
    """One step."""

    def __init__(self, time_limit_s: float, *, batch: bool = False) -> None:
        self._limit_ns = round(time_limit_s * 1e9)
        self._batch = batch
        self._due = array("q")
        self._end = array("q")
        self._ok = array("q")
        self._cut = array("q")
        self._failed_ns = array("q")
        self._late = array("q")
        self._first_due_ns: int | None = None
        self.failed: Counter[str] = Counter()
        self.n = 0
        self.tokens = 0
        self.first: Record | None = None

    def add(self, row: Record) -> None:
        """Take one record, as `RECORD` unpacks it."""
        due_ns, sent_ns, _, _, end_ns, connect_ns, tls_ns = row[:7]
        outcome = row[14]
        self.n += 1
        if self.first is None:
            self.first = row
        if self._first_due_ns is None or due_ns < self._first_due_ns:
            self._first_due_ns = due_ns
        self._due.append(due_ns)
        self._end.append(end_ns)
        if row[10] > 0:
            self.tokens += row[10]
        if sent_ns:
            self._late.append(max(0, sent_ns - due_ns - connect_ns - tls_ns))
        if outcome in (_OK, _SHORT):
            self._ok.append(len(self._end) - 1)
            return
        name = OUTCOMES[outcome]
        self.failed[f"http_{row[13]}" if outcome in _STATUS else name] += 1
        if outcome in _CUT or outcome == _DROPPED:
            self._cut.append(len(self._end) - 1)
        else:
            self._failed_ns.append(len(self._end) - 1)

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    @property
    def seconds(self) -> float:
        """From the first call to the last end."""
        return 0.0 if self._first_due_ns is None else (max(self._end) - self._first_due_ns) / 1e9

    def _took_s(self, at: int) -> float:
        since_ns = self._first_due_ns if self._batch and self._first_due_ns is not None else self._due[at]
        took_ns = self._end[at] - since_ns
        if took_ns <= 0:  # never sent
            took_ns = self._limit_ns
        return took_ns / 1e9

    def ok_s(self) -> tuple[float, ...]:
        return tuple(self._took_s(at) for at in self._ok)

    def cut_s(self) -> tuple[float, ...]:
        return tuple(self._took_s(at) for at in self._cut)

    def figures(self) -> Figures | None:
        """What the article's row says. Where no call was answered, the times after which they failed; None: no call."""
        if not self.n:
            return None
        ok_s, cut_s = self.ok_s(), self.cut_s()
        if not ok_s and not cut_s:
            ok_s = tuple(self._took_s(at) for at in self._failed_ns)
        found: Figures = {}
        for name, q in (("p50_s", 0.5), ("p95_s", 0.95), ("max_s", 1.0)):
            measure = quantile(ok_s, q, censored=cut_s)
            assert isinstance(measure, Exact | AtLeast)
            found[name] = round(measure.value, 6)
        found["error_rate"] = self.failures / self.n
        return found

    def p95_s(self, last: int = 2_000) -> float | None:
        """The 95th percentile of the last good calls: for a person who looks on."""
        if not self._ok:
            return None
        measure = quantile([self._took_s(at) for at in self._ok[-last:]], 0.95)
        return measure.value if isinstance(measure, Exact) else None

    def late_s(self, q: float) -> float:
        """How late the client was: a quantile over all that was sent; 0 where nothing was."""
        measure = quantile([ns / 1e9 for ns in self._late], q) if self._late else None
        return measure.value if isinstance(measure, Exact) else 0.0

    def held(self) -> float:
        """How many calls were in flight, on average over the time until the last one began."""
        if self._first_due_ns is None:
            return 0.0
        from_ns, until_ns = self._first_due_ns, max(self._due)
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


def records(chunks: Iterator[bytes]) -> Iterator[Record]:
    """The whole records of a samples file whose bytes come in chunks of any size; its header is left out."""
    rest = b""
    headed = False
    for chunk in chunks:
        rest += chunk
        if not headed:
            end = rest.find(b"\n") + 1
            if not end:
                continue
            rest, headed = rest[end:], True
        whole = len(rest) - len(rest) % RECORD.size
        yield from RECORD.iter_unpack(rest[:whole])
        rest = rest[whole:]


class Tail:
    """A samples file that an engine is writing: what has come since the last look."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._rest = b""
        self._headed = False

    def new(self) -> Iterator[Record]:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - looked into four times a second
                file.seek(self._at)
                data = file.read()
        except OSError:
            return
        self._at += len(data)
        self._rest += data
        if not self._headed:
            end = self._rest.find(b"\n") + 1
            if not end:
                return
            self._rest, self._headed = self._rest[end:], True
        whole = len(self._rest) - len(self._rest) % RECORD.size
        yield from RECORD.iter_unpack(self._rest[:whole])
        self._rest = self._rest[whole:]
