"""Records folded step by step: latencies, kinds of failure, how late the client was and how many calls it held.

1. Good is an answer that its API calls finished, `short` ones (a token limit) included. Its latency counts from when it was due.
2. A call that was cut at its time limit, or by the end of the run, took "at least" so long. One that was due and never sent,
   since too many were in flight, had no answer within the time limit either: at least that.
3. The client's own lateness is from due to sent, less the connection's set-up, which is the endpoint's.
4. What is held counts from the first call to the last one that began: after that the callers run out of calls. A batch counts
   from its start, since all of it was due then. A caller who pauses between two calls, as the plan says, is held; and one whose
   calls are turns of sessions runs out of them when the last session was taken, which is before the pause that comes first.
5. A wait that the endpoint asked for is a part of its call's latency, and counted beside it: how many calls waited, how long in
   all, and how many requests were sent. A turn that was never sent, since its session had failed, is a failure by that name
   and no latency.
6. A call that was made again on a new connection, since the kept one turned out to have been closed, is one call and one request:
   nobody there had taken it. It is counted, for its latency holds both.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import SEEK_END
from struct import Struct
from typing import NamedTuple

from drillmaster.errors import Problem
from drillmaster.evidence.samples import LONG_RECORD, MAX_HEADER_BYTES, OUTCOMES, RECORD, read_header
from drillmaster.stats import quantile
from drillmaster.verdict import AtLeast, Exact

__all__ = ["Batches", "Call", "Figures", "Recent", "StepTally", "Tail", "batches"]

_SHORT = OUTCOMES.index("short")
assert OUTCOMES[: _SHORT + 1] == ("ok", "short")
_KNOWN = len(OUTCOMES)
_CUT = frozenset({OUTCOMES.index("timeout"), OUTCOMES.index("stopped"), OUTCOMES.index("dropped")})
_STATUS = frozenset({OUTCOMES.index("http_3xx"), OUTCOMES.index("http_4xx"), OUTCOMES.index("http_5xx")})
_UNSENT_TURN = OUTCOMES.index("unsent_turn")
_FIELDS = Struct("<qq16xqqq12xi4xHhBB")
"""Of `RECORD`, what is folded here: there may be a hundred thousand a second of them beside the engine that makes them."""
_LONG_FIELDS = Struct(_FIELDS.format + "qqIHB")
_FEW = 10
"""So many fields has a call of the first format."""
assert (_FIELDS.size, _LONG_FIELDS.size) == (RECORD.size, LONG_RECORD.size)

RECENT = 1_000
"""So many of the last calls are looked at for a person who looks on."""
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
    again: int
    waited_ns: int = 0
    """From here on: of the second format alone."""
    paused_ns: int = 0
    session: int = 0
    turn: int = 0
    attempts: int = 1


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
        self._paused = array("q")
        self._turn = array("H")
        """Both: of each call, or of none, where the records do not say."""
        self._sessions: set[int] = set()
        self._last_session_ns: int | None = None
        self.unsent_turns = 0
        self.waits = 0
        """Calls that waited because the endpoint asked them to."""
        self.waited_s = 0.0
        """All of them together."""
        self._more_attempts = 0
        self.made_again = 0
        """Calls made once more on a new connection, since the kept one turned out to have been closed."""
        self.failed: Counter[str] = Counter()
        self.tokens = 0
        self.first_status = -1
        """Of the call that was the first to end."""

    def add(self, calls: Sequence[tuple[int, ...]]) -> None:
        """Take records, as `batches` gives them."""
        if calls and len(calls[0]) > _FEW:
            calls = self._more_of(calls)
        due_append, end_append = self._due.append, self._end.append
        at = len(self._due)
        unsent = tokens_sum = 0
        for due_ns, sent_ns, end_ns, connect_ns, tls_ns, tokens, _, status, outcome, again in calls:
            due_append(due_ns)
            end_append(end_ns)
            if sent_ns - due_ns > connect_ns + tls_ns:
                self._late.append(sent_ns - due_ns - connect_ns - tls_ns)
            if tokens > 0:
                tokens_sum += tokens
            if again:
                self.made_again += 1
            if outcome > _SHORT:
                if outcome >= _KNOWN:
                    raise Problem(
                        "records of calls",
                        found=f"outcome {outcome}",
                        wanted=f"one of {_KNOWN}, counted from 0",
                        remedy="read it with the version that wrote it",
                    )
                unsent += not sent_ns
                self._bad[at] = outcome in _CUT
                self.failed[f"http_{status}" if outcome in _STATUS else OUTCOMES[outcome]] += 1
            if not at:
                self.first_status = status
            at += 1
        self.tokens += tokens_sum
        self._unsent += unsent

    def _more_of(self, calls: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Take what records of the second format have more; the calls that were due, without that."""
        due = []
        for call in calls:
            due_ns, _, _, _, _, _, _, _, outcome, _, waited_ns, paused_ns, session, turn, attempts = call
            if outcome == _UNSENT_TURN:
                self.unsent_turns += 1
                self.failed["unsent_turn"] += 1
                continue
            if waited_ns or attempts > 1:
                self.waits += 1
                self.waited_s += waited_ns / 1e9
                self._more_attempts += max(0, attempts - 1)
            if session not in self._sessions:  # its first turn is over before any other
                self._sessions.add(session)
                taken_ns = due_ns - paused_ns
                self._last_session_ns = max(taken_ns, self._last_session_ns or taken_ns)
            self._paused.append(paused_ns)
            self._turn.append(turn)
            due.append(call[:_FEW])
        return due

    @property
    def n(self) -> int:
        """Calls of the step, turns that were never sent among them."""
        return len(self._due) + self.unsent_turns

    @property
    def sessions(self) -> int:
        """Sessions that were begun; 0 where the records do not say."""
        return len(self._sessions)

    @property
    def requests(self) -> int:
        """How often something was sent."""
        return len(self._due) - self._unsent + self._more_attempts

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    @property
    def span_ns(self) -> tuple[int, int]:
        """When the first call was due and the last one ended; of no call 0 and 0."""
        return (min(self._due), max(self._end)) if self._due else (0, 0)

    @property
    def backwards(self) -> bool:
        """Whether a call ended before it was due."""
        return any(end_ns < due_ns for due_ns, end_ns in zip(self._due, self._end, strict=True))

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
        return self._took_s(at for at in range(len(self._due)) if at not in bad)

    def ok_by_turn_s(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """The same, of first turns and of later ones; None where all calls stood on their own."""
        if not any(self._turn):
            return None
        good = [at for at in range(len(self._due)) if at not in self._bad]
        first, later = ([at for at in good if bool(self._turn[at]) is is_later] for is_later in (False, True))
        return self._took_s(first), self._took_s(later)

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

    def p95_s(self, last: int = RECENT) -> float | None:
        """The 95th percentile of the good ones among the last calls: for a person who looks on."""
        n = len(self._due)
        found = self._took_s(at for at in range(max(0, n - last), n) if at not in self._bad)
        measure = quantile(found, 0.95) if found else None
        return measure.value if isinstance(measure, Exact) else None

    def late_s(self, q: float) -> float:
        """How late the client was: a quantile over all that was sent; 0 where nothing was."""
        on_time = len(self._due) - self._unsent - len(self._late)
        found = [0.0] * on_time + [ns / 1e9 for ns in self._late]
        measure = quantile(found, q) if found else None
        return measure.value if isinstance(measure, Exact) else 0.0

    def held(self) -> float:
        """How many calls were in flight, or their callers pausing, on average over the time until the last one began."""
        if not self._due:
            return 0.0
        from_ns = min(self._due)
        until_ns = max(self._due) if self._last_session_ns is None else self._last_session_ns
        if until_ns - from_ns < 1_000_000:  # all began at once
            return float(len(self._sessions) or len(self._due))
        return self._occupied_ns(until_ns) / (until_ns - from_ns)

    def held_overall(self) -> float:
        """The same until the last answer: what is below `held` is the step emptying."""
        span_s = self.seconds
        return self._occupied_ns(max(self._end)) / 1e9 / span_s if span_s > 0 else float(len(self._due))

    def _occupied_ns(self, until_ns: int) -> int:
        """Times of all calls and of the pauses before them, until then."""
        busy_ns = sum(
            max(0, min(end_ns, until_ns) - due_ns) for due_ns, end_ns in zip(self._due, self._end, strict=True)
        )
        for due_ns, paused_ns in zip(self._due, self._paused, strict=False):
            if paused_ns:
                busy_ns += max(0, min(due_ns, until_ns) - (due_ns - paused_ns))
        return busy_ns


class Batches:
    """A samples file whose bytes come in chunks of any size: step after step, its calls, some at a time.

    Its header and a torn end are left out; how long that is, is known when all has been read. Raises Problem for a file of
    another format.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._cutter = _Cutter()

    def __iter__(self) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
        for chunk in self._chunks:
            yield from self._cutter.cut(chunk)

    @property
    def torn_bytes(self) -> int:
        return self._cutter.torn_bytes


batches = Batches


class _Cutter:
    def __init__(self) -> None:
        self._rest = b""
        self._size = 0
        """Of a record; 0: the header has not been read."""
        self._fields = _FIELDS

    @property
    def torn_bytes(self) -> int:
        return len(self._rest) if self._size else 0

    def cut(self, chunk: bytes) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
        rest = self._rest + chunk
        if not self._size:
            end = rest.find(b"\n", 0, MAX_HEADER_BYTES) + 1
            if not end and len(rest) < MAX_HEADER_BYTES:
                self._rest = rest
                return
            self._read_header(rest[:end])
            rest = rest[end:]
        whole = len(rest) - len(rest) % self._size
        self._rest = rest[whole:]
        calls = list(self._fields.iter_unpack(memoryview(rest)[:whole]))
        while calls:  # one step's records end before the next one's begin
            stage = calls[0][6]
            if calls[-1][6] == stage:
                yield stage, calls
                return
            mine = [call for call in calls if call[6] == stage]
            calls = [call for call in calls if call[6] != stage]
            yield stage, mine

    def _read_header(self, line: bytes) -> None:
        try:
            _, record = read_header(line)
        except ValueError as error:
            raise Problem(
                "records of calls",
                found=str(error),
                wanted="a samples file that this version knows",
                remedy="read it with the version that wrote it",
            ) from None
        self._size = record.size
        self._fields = _LONG_FIELDS if record is LONG_RECORD else _FIELDS


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


class Recent:
    """The last calls of a samples file that an engine is writing: for a person who looks on, where records come later."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin = 0
        """Of the first record; 0: the header has not been read."""
        self._record: Struct = RECORD

    def p95_s(self, stage: int, *, since_ns: int | None = None) -> float | None:
        """The 95th percentile of the good ones of that step; None: there is none. `since_ns`: all were due then, as a batch is."""
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - looked into four times a second
                if not self._begin:
                    line = file.readline(MAX_HEADER_BYTES)
                    if not line.endswith(b"\n"):
                        return None
                    _, self._record = read_header(line)
                    self._begin = len(line)
                size = self._record.size
                whole = (file.seek(0, SEEK_END) - self._begin) // size
                first = max(0, whole - RECENT)
                file.seek(self._begin + first * size)
                data = file.read((whole - first) * size)
        except (OSError, ValueError):
            return None
        fields = _LONG_FIELDS if self._record is LONG_RECORD else _FIELDS
        calls = (Call(*row) for row in fields.iter_unpack(data[: len(data) - len(data) % size]))
        took_s = [
            (call.end_ns - (call.due_ns if since_ns is None else since_ns)) / 1e9
            for call in calls
            if call.stage == stage and call.outcome <= _SHORT
        ]
        measure = quantile(took_s, 0.95) if took_s else None
        return measure.value if isinstance(measure, Exact) else None
