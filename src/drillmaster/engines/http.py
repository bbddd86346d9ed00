"""The HTTP/1.1 engine: closed and open loop, plain and TLS, whole answers and streams, every call on record.

1. One epoll, no event loop: a readiness is one dictionary lookup and one call. A request is one `send`, an answer that came in
   one piece one `recv`. A turn reads all that is ready, then lets callers go on: no answer waits for another one's next call,
   and calls that are sent one right after the other wake a server once, where each by itself would do it again.
2. Heads are read by `http1`, once each, and of a head that is like the last one only what differs, as a date or an id does. What an
   answer means that came twice in one piece, byte for byte, is remembered.
3. What an answer is worth is asked of its dialect at its end, and remembered for small bodies that come again. Of `plain` nothing
   is known; but who asks in JSON and gets a page of HTML, or an object with an `error`, has no answer.
4. A connection that was kept alive and turns out to have been closed before the call came there is replaced once.
5. An open loop opens as many connections as it takes, up to the stage's level. A call that is due beyond that is dropped:
   recorded as due and never sent.
6. Sessions, pauses, and waits that the endpoint asks for are `turns`' affair; where a plan has none, nothing of them is passed.
7. Calls are put on record (`records`) between turns, and what could not be written ends the run.
"""

import contextlib
import heapq
import itertools
import re
import resource
import select
import ssl
import sys
from array import array
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Any

from drillmaster.dialects import Dialect, Ending, load, output_tokens
from drillmaster.engines import Spec, Stage
from drillmaster.engines.answers import is_no_answer
from drillmaster.engines.conn import CODE, Conn, Head
from drillmaster.engines.pacing import Timer, arrivals
from drillmaster.engines.records import Records
from drillmaster.engines.run_delay import LOOK_NS, RunDelay
from drillmaster.engines.shots import Shots, ShuffledShots
from drillmaster.engines.starting import Starter
from drillmaster.engines.turns import TurnConn, Turns
from drillmaster.engines.websocket import Dialogue, MessageShots, ShuffledMessages, WebSocketConn
from drillmaster.errors import Problem
from drillmaster.evidence.samples import OUTCOMES, header, pack
from drillmaster.http1 import HeadReader
from drillmaster.proxy.means import raise_descriptors

__all__ = ["LONGEST_WAIT_S", "Engine", "as_said", "turn_at"]

LONGEST_WAIT_S = 0.05
_LONGEST_WAIT_NS = round(LONGEST_WAIT_S * 1e9)
SWEEP_NS = 50_000_000
TELL_NS = 250_000_000
LONG_TURN_NS = 1_000_000
"""Turns over this are kept one by one; there are no more of them than milliseconds."""
_OVERSLEPT_NS = _LONGEST_WAIT_NS + LONG_TURN_NS
SPARE_DESCRIPTORS = 24
"""Of this process, that are no connections: standard streams, records, poll, timer, what the interpreter opens."""
MEMO_BODIES = 256
MEMO_BODY_BYTES = 4_096
_OK, _SHORT, _EMPTY, _ERROR_BODY, _UNFINISHED, _HTTP_3XX, _HTTP_4XX, _HTTP_5XX = range(8)
assert OUTCOMES[:8] == ("ok", "short", "empty", "error_body", "unfinished", "http_3xx", "http_4xx", "http_5xx")
_OF_ENDING = {
    Ending.COMPLETE: _OK,
    Ending.INCOMPLETE: _SHORT,
    Ending.ERROR: _ERROR_BODY,
    Ending.CUT: _UNFINISHED,
}


class Engine:
    """One run of a `Spec`."""

    def __init__(self, spec: Spec, tell: Callable[[dict[str, Any]], None]) -> None:
        """`tell` is given progress as it comes. Raises Problem."""
        self.spec = spec
        _enough_descriptors(spec)
        self.dialect: Dialect = load(spec.shot.dialect)
        self._tell = tell
        self.epoll = select.epoll()
        self.calls: dict[int, Callable[[int], None]] = {}
        self.busy: dict[Conn, None] = {}
        self.idle: list[Conn] = []
        self.ended: list[Conn] = []
        """Whose call is over and whose caller has not gone on."""
        self.open_conns = 0
        self.rows: list[bytes] = []
        self.gaps = array("I")
        self.heads = HeadReader(response=True)
        self._last_head: Head | None = None
        self._last_worth: tuple[tuple[int, bytes, bytes] | None, tuple[int, int]] = (None, (_OK, -1))
        """What came last comes again most often, and to compare costs less than to look up: that hashes all of it."""
        self._last_whole = b""
        self.known_answer: bytes | None = None
        """An answer that came twice in one piece, and leaves its connection open: most often it comes again."""
        self.its_meaning = _OK, 0, -1, 0
        """Its outcome, status and tokens, and the bytes of its body."""
        self.worth: dict[tuple[int, bytes, bytes], tuple[int, int]] = {}
        asked_in = next((value for name, value in spec.shot.headers.items() if name.lower() == "content-type"), "")
        self._asks_json = self.dialect.name == "plain" and asked_in.lower().startswith("application/json")
        self.carries = re.compile(self.dialect.carries).search if self.dialect.carries is not None else None
        self.shots: Shots
        self.new_turn = TurnConn if spec.shot.websocket is None else WebSocketConn
        self.dialogue: Dialogue | None = None
        if spec.shot.websocket is None:
            self.shots = ShuffledShots(spec.shot, spec.seed) if spec.shot.shuffled else Shots(spec.shot)
        else:
            self.shots = ShuffledMessages(spec.shot, spec.seed) if spec.shot.shuffled else MessageShots(spec.shot)
            self.dialogue = Dialogue(spec.shot)
        self.turns = Turns(self) if spec.long else None
        self.agenda: list[tuple[int, int, Callable[[int], None]]] = []
        """A heap of what is to be done later: when, which of those of one instant, what."""
        self._appointments = 0
        self.mono0_ns = spec.mono0_ns
        self.limit_ns = round(spec.time_limit_s * 1e9)
        self.stage = 0
        self.number = spec.first_call
        self.stride = 1
        """From one call's number to the next one's."""
        self.starter = Starter(self, sys.stdin.fileno()) if spec.together else None
        self.failed = 0
        self.stopping = False
        self.tls = _context(spec.ca_file) if spec.tls else None
        self.tls_failed = ""
        """Why the last TLS handshake that failed in this stage did."""
        self._records = Records(spec.samples, spec.gaps)
        self.go_on: Callable[[list[Conn]], None] = self._keep
        """Given those whose call is over, has their callers go on."""
        self._sweep_ns = self._told_ns = 0
        self._longest_turn_ns = 0
        self._long_turns_ns = array("q")
        self._run_delay = RunDelay()
        self._look_ns = 0

    # The run

    @property
    def done(self) -> int:
        """How many calls are on record."""
        return self._records.calls + len(self.rows)

    def run(self) -> int:
        """All stages; the exit code: 0, or 3 where it was stopped. Raises Problem where a record cannot be written."""
        try:
            self._records.begin(header(long=self.spec.long, stages=[stage.label for stage in self.spec.stages]))
            for number, stage in enumerate(self.spec.stages):
                if not self.stopping:
                    self.stage = number
                    self._run_stage(stage, None if self.starter is None else self.starter.wait(stage))
        finally:
            for conn in (*self.busy, *self.idle):
                conn.drop()
            self.flush()
            self._records.close()
            self.epoll.close()
            self._run_delay.close()
        return 3 if self.stopping else 0

    def stop(self, *_: object) -> None:
        """End as soon as may be: nothing more begins, what is under way is recorded as stopped."""
        self.stopping = True

    def _run_stage(self, stage: Stage, start_ns: int | None) -> None:
        """One stage. What is due counts from `start_ns`, where several engines were told to begin then."""
        if self.stopping:
            return
        begun_ns = monotonic_ns()
        if stage.first_call is not None:
            self.number = stage.first_call
        self.stride = stage.of
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._longest_turn_ns = 0
        self._long_turns_ns = array("q")
        self._run_delay.begin()
        self.say("stage_started", stage, begun_ns)
        turns = self.turns
        if turns is not None:
            turns.enter(stage)
        elif stage.first_call is None:
            self.number = self.shots.aligned(self.number)
        if stage.kind == "open":
            self._open(stage, begun_ns if start_ns is None else start_ns, turns)
        elif turns is None:
            self._closed(stage, begun_ns)
        else:
            turns.closed(begun_ns)
        self._end_stage()
        ended_ns = monotonic_ns()
        delay = self._run_delay
        delay.look()
        delay_p99_ns = min(delay.longest_ns, turn_at(0.99, delay.long_ns, ended_ns - begun_ns))
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.flush()
        cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        self.say(
            "stage_ended",
            stage,
            ended_ns,
            wall_s=(ended_ns - begun_ns) / 1e9,
            cpu_s=cpu_s,
            longest_turn_ms=self._longest_turn_ns / 1e6,
            turn_p99_ms=min(self._longest_turn_ns, turn_at(0.99, self._long_turns_ns, ended_ns - begun_ns)) / 1e6,
            run_delay_s=delay.whole_ns / 1e9,
            long_delay_s=sum(delay.long_ns) / 1e9,
            run_delay_counted=delay.is_counted,
            longest_delay_ms=delay.longest_ns / 1e6,
            delay_p99_ms=delay_p99_ns / 1e6,
            **({"tls_failed": self.tls_failed} if self.tls_failed else {}),
        )
        self.tls_failed = ""

    def say_trouble(self, trouble: Problem) -> None:
        """Tell why the run is over."""
        self.say("error", self.spec.stages[self.stage], monotonic_ns(), **as_said(trouble))

    def say(self, event: str, stage: Stage, now_ns: int, **more: Any) -> None:
        self._tell(
            {
                "event": event,
                "stage": stage.label,
                "ns": now_ns - self.mono0_ns,
                "in_flight": len(self.busy),
                "connections": self.open_conns,
                "done": self.done,
                "failed": self.failed,
                **more,
            }
        )

    # What is done later

    def later(self, at_ns: int, what: Callable[[int], None]) -> None:
        """Have something done then, or as soon after as may be, and in this stage: it is given the time."""
        self._appointments += 1
        heapq.heappush(self.agenda, (at_ns, self._appointments, what))

    def wake(self, now_ns: int) -> None:
        """Do what is to be done by now."""
        if not self.agenda or self.agenda[0][0] > now_ns:
            return
        begun_ns = now_ns
        while self.agenda and self.agenda[0][0] <= now_ns:
            _, _, what = heapq.heappop(self.agenda)
            what(now_ns)
            now_ns = monotonic_ns()
        self._took(now_ns - begun_ns)

    def _took(self, turn_ns: int) -> None:
        if turn_ns > LONG_TURN_NS:
            self._long_turns_ns.append(turn_ns)
        if turn_ns > self._longest_turn_ns:
            self._longest_turn_ns = turn_ns

    @contextlib.contextmanager
    def timed(self) -> Iterator[Timer]:
        """Lend a timer that ends a turn's wait."""
        timer = Timer()
        self.epoll.register(timer.fd, select.EPOLLIN)
        self.calls[timer.fd] = lambda _: timer.heard()
        try:
            yield timer
        finally:
            del self.calls[timer.fd]
            self.epoll.unregister(timer.fd)
            timer.close()

    # Closed loop

    def _closed(self, stage: Stage, begun_ns: int) -> None:
        left = stage.calls if stage.calls is not None else 1 << 62
        until_ns = begun_ns + round(stage.seconds * 1e9) if stage.seconds is not None else 1 << 62
        take, stride = self.shots.take, self.stride

        def go_on(conns: list[Conn]) -> None:
            nonlocal left
            for conn in conns:
                now_ns = monotonic_ns()
                if left <= 0 or now_ns >= until_ns or self.stopping:
                    self.keep(conn)
                    continue
                left -= 1
                number = self.number
                self.number = number + stride
                conn.begin(now_ns, take(number), now_ns)

        self.go_on = go_on
        go_on([self.idle.pop() if self.idle else Conn(self) for _ in range(min(stage.level, left))])
        while (self.busy or self.ended) and not self.stopping:
            self.turn(LONGEST_WAIT_S, stage)

    # Open loop

    def _open(self, stage: Stage, begun_ns: int, turns: Turns | None) -> None:
        arrive = self._arrive if turns is None else turns.arrive
        self.go_on = self._keep
        due = itertools.islice(arrivals(stage, begun_ns, self.spec.seed), stage.nth, None, stage.of)
        agenda = self.agenda
        with self.timed() as timer:
            next_ns = next(due, None)
            while (next_ns is not None or self.busy or self.ended) and not self.stopping:
                now_ns = monotonic_ns()
                while next_ns is not None and next_ns <= now_ns:
                    arrive(stage, next_ns, now_ns)
                    next_ns = next(due, None)
                    now_ns = monotonic_ns()
                wake_ns = next_ns
                if agenda:
                    self.wake(now_ns)
                    if agenda and (next_ns is None or agenda[0][0] < next_ns):
                        wake_ns = agenda[0][0]
                if wake_ns is not None:
                    timer.arm(wake_ns - now_ns)
                self.turn(LONGEST_WAIT_S, stage)

    def _arrive(self, stage: Stage, due_ns: int, now_ns: int) -> None:
        if len(self.busy) >= stage.level:
            number = self.number
            self.number = number + self.stride
            at_ns = due_ns - self.mono0_ns
            payload = self.shots.place(number)
            self.record_unsent(
                pack(at_ns, 0, 0, 0, at_ns, 0, 0, 0, 0, 0, -1, payload, self.stage, -1, CODE["dropped"], 0)
            )
            return
        number = self.number
        self.number = number + self.stride
        conn = self.idle.pop() if self.idle else Conn(self)
        conn.begin(due_ns, self.shots.take(number), now_ns)

    def keep(self, conn: Conn) -> None:
        """Have what a call leaves behind ready for the next one."""
        if conn.is_open:
            self.idle.append(conn)

    def _keep(self, conns: list[Conn]) -> None:
        self.idle += [conn for conn in conns if conn.is_open]

    # One turn

    def turn(self, wait_s: float, stage: Stage) -> int:
        """Do what is ready, after a wait of at most so long, and of `LONGEST_WAIT_S`; when it is over."""
        asked_ns = monotonic_ns()
        events = self.epoll.poll(0 if self.ended else wait_s, 512)
        begun_ns = monotonic_ns()
        if begun_ns >= self._look_ns:
            self._look_ns = begun_ns + LOOK_NS
            self._run_delay.look()
        if begun_ns - asked_ns > _OVERSLEPT_NS:  # the machine let us not run: whatever came meanwhile waited for us
            self._took(begun_ns - asked_ns - _LONGEST_WAIT_NS)
        calls = self.calls
        for fd, event in events:
            call = calls.get(fd)
            if call is not None:
                call(event)
        now_ns = monotonic_ns()
        sweeps = now_ns > self._sweep_ns
        if sweeps:
            self._sweep_ns = now_ns + SWEEP_NS
            since_ns = now_ns - self.limit_ns
            for conn in [conn for conn in self.busy if conn.since_ns <= since_ns]:
                conn.fail("timeout", now_ns)
        if self.ended:
            ended, self.ended = self.ended, []
            self.go_on(ended)
            now_ns = monotonic_ns()
        took_ns = now_ns - begun_ns
        if took_ns > LONG_TURN_NS or took_ns > self._longest_turn_ns:
            self._took(took_ns)
        if sweeps and now_ns - self._told_ns > TELL_NS:
            self._told_ns = now_ns
            self.flush()
            self.say("progress", stage, now_ns)
            self._took(monotonic_ns() - now_ns)  # a disk, or whoever hears, may take its time
        return now_ns

    def _end_stage(self) -> None:
        """Whatever is left is stopped; nothing of this stage reaches into the next."""
        self.agenda.clear()
        now_ns = monotonic_ns()
        for conn in tuple(self.busy):
            conn.fail("stopped", now_ns)
        self.ended.clear()

    def record_unsent(self, row: bytes) -> None:
        """Take down one call that was never sent."""
        self.rows.append(row)
        self.failed += 1

    def flush(self) -> None:
        """Put what is recorded into the files. Raises Problem."""
        rows, self.rows = self.rows, []
        gaps, self.gaps = self.gaps, array("I")
        self._records.put(rows, gaps)

    def read_head(self, data: bytes) -> Head:
        """What a head says. Raises Malformed."""
        last = self._last_head
        if last is None:
            head = Head(self.heads.response(data), self.spec.shot.method)
        elif data == last.resp.raw:
            return last
        else:
            head = Head(self.heads.response(data, last.resp), self.spec.shot.method)
        self._last_head = head
        return head

    def saw_whole(self, answer: bytes, head: Head, tail: bytes) -> None:
        """An answer came in one piece: where it is the same as the last, keep what it means. `tail` is the end of its body."""
        if answer != self._last_whole:
            self._last_whole = answer
            return
        size = head.whole_bytes
        # What is asked to wait, and who closes, is looked at each time.
        if size is not None and size <= MEMO_BODY_BYTES and head.keep_alive and 200 <= head.status < 300:
            outcome, tokens = self.worth_of(head, tail, size)
            self.known_answer = answer
            self.its_meaning = outcome, head.status, tokens, size

    def worth_of(self, head: Head, tail: bytes, size: int) -> tuple[int, int]:
        """Outcome and output tokens of an answer whose framing is whole; `tail` is the end of its body."""
        status = head.status
        if not 200 <= status < 300:
            return _HTTP_5XX if status >= 500 else _HTTP_4XX if status >= 400 else _HTTP_3XX, -1
        if not size:
            return _EMPTY, -1
        content_type = head.resp.content_type
        key = (status, content_type, tail)
        last, worth = self._last_worth
        if key == last and size <= MEMO_BODY_BYTES:
            return worth
        known = self.worth.get(key)
        if known is None:
            tokens = output_tokens(tail)
            outcome = _OF_ENDING[self.dialect.ending(status, content_type, tail, True)]
            if self._asks_json and outcome == _OK and is_no_answer(content_type, tail, whole=size == len(tail)):
                outcome = _ERROR_BODY
            known = outcome, -1 if tokens is None else tokens
            if size <= MEMO_BODY_BYTES:
                if len(self.worth) >= MEMO_BODIES:
                    self.worth.clear()
                self.worth[key] = known
        if size <= MEMO_BODY_BYTES:
            self._last_worth = key, known
        return known


def turn_at(share: float, long_turns_ns: "array[int]", wall_ns: int) -> int:
    """So large a share of all moments lies in turns no longer than this, or between turns; at least `LONG_TURN_NS`.

    By moments, not by turns: a long one delays as many answers as come in its time, however many short ones there are beside it.
    """
    left_ns = (1 - share) * wall_ns
    for turn_ns in sorted(long_turns_ns, reverse=True):
        left_ns -= turn_ns
        if left_ns < 0:
            return turn_ns
    return LONG_TURN_NS


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise Problem(
                ca_file,
                found=error.strerror or str(error),
                wanted="a PEM file of certificates",
                remedy="give the file of the authority that signed the endpoint's certificate",
            ) from None
    return context


def _enough_descriptors(spec: Spec) -> None:
    """A caller that gets no connection is no caller. Raises Problem."""
    most = raise_descriptors() - SPARE_DESCRIPTORS
    for stage in spec.stages:
        if stage.kind == "closed" and stage.level > most:
            raise Problem(
                f"stage {stage.label}",
                found=f"{stage.level:,} callers",
                wanted=f"at most {most:,}, as many as this process may open connections",
                remedy=f"raise the limit (ulimit -Hn {stage.level + SPARE_DESCRIPTORS}) or share the stage among engines",
            )


def as_said(trouble: Problem) -> dict[str, str]:
    """Give the four parts of a problem, for whoever started us."""
    return {"place": trouble.place, "found": trouble.found, "wanted": trouble.wanted, "remedy": trouble.remedy}
