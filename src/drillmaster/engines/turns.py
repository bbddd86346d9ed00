"""Calls that may be more than one request: turns of a session, pauses of a caller, waits that the endpoint asks for.

A plan that has none of these does not come by here.

1. A caller has one connection. It has its sessions on it one after the other, turn by turn, each turn when the answer before it
   is whole and the pause is over. A turn is due then, and its latency counts from there.
2. A turn without a good answer ends its session. The turns that it still had are recorded as unsent, and the caller goes on
   with its next session.
3. A number of calls is that of turns: of the last session of a step as many turns are made as are left. Where a step has a
   length of time, no turn begins after it; what that leaves of a session was not planned, and is no failure.
4. A 429 or 503 that says how long to wait (`rules.retry_after`) is no end where the plan has patience: the call waits, from when
   that answer was whole, and is sent again. It is under way all the time, so that it counts among those in flight, and
   arrivals by the clock come meanwhile as they are due. Each request has the whole time limit.
5. Sent and connection times are those of the first request, so that lateness is the client's own; status, words and bytes are
   those of the last answer.
"""

import math
import time
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from time import monotonic_ns
from typing import TYPE_CHECKING

from drillmaster.engines import Stage
from drillmaster.engines.conn import CODE, SHORT, Conn, Head
from drillmaster.engines.pacing import pause_ns
from drillmaster.engines.shots import Deck
from drillmaster.evidence.samples import MORE, pack
from drillmaster.http1 import CloseBody
from drillmaster.rules.retry_after import Told, read

__all__ = ["TurnConn", "Turns"]

if TYPE_CHECKING:  # they know each other; only one of them can import the other
    from drillmaster.engines.http import Engine

_ASKING = frozenset({429, 503})
_NEVER = 1 << 62


class TurnConn(Conn):
    """One caller's connection, and the turn that is under way on it."""

    __slots__ = (
        "_attempts",
        "_counted",
        "_first_sent",
        "_paused_ns",
        "_waited_ns",
        "_waiting",
        "first",
        "outcome",
        "session",
        "turn",
        "turns",
    )

    def __init__(self, engine: "Engine") -> None:
        super().__init__(engine)
        self.session = self.turn = self.turns = self.first = 0
        self.outcome = 0
        self._paused_ns = self._waited_ns = self._attempts = 0
        self._counted = False
        self._first_sent: tuple[int, int, int] | None = None
        """Of the first of several requests: when it was sent, what connection and TLS took."""
        self._waiting: tuple[int, int] | None = None
        """From when until when."""

    def ask(self, due_ns: int, paused_ns: int, now_ns: int) -> None:
        """Make the call that is `turn` of `session`, whose payloads begin at `first`."""
        self._paused_ns = paused_ns
        self._waited_ns = self._attempts = 0
        self._first_sent = None
        self._counted = False
        self.begin(due_ns, self._engine.shots.ready(self.first + self.turn, self.session), now_ns)

    def _shoot(self, now_ns: int) -> None:
        if not self._counted:  # what is sent twice since a kept connection had been closed was never seen there
            self._counted = True
            self._attempts += 1
        super()._shoot(now_ns)

    # Waits

    def _answered(self, head: Head, now_ns: int, tail: bytes, rest: bytes) -> None:
        patience = self._engine.spec.patience
        if patience is None or head.status not in _ASKING:
            super()._answered(head, now_ns, tail, rest)
            return
        body = tail if self._down == len(tail) else b""
        told = read(_fields(head.resp.raw), body, now_s=time.time())
        if not isinstance(told, Told):
            super()._answered(head, now_ns, tail, rest)
            return
        if rest or not head.keep_alive or self._out or isinstance(self._body, CloseBody):
            self._close()
        wait_ns = math.ceil(told.wait_s * 1e9)  # nobody may come too early
        if self._attempts >= patience.max_attempts:
            self._over(CODE["attempts_spent"], now_ns, head.status, -1)
        elif self._waited_ns + wait_ns > patience.max_wait_s * 1e9:
            self._over(CODE["wait_over_cap"], now_ns, head.status, -1)
        else:
            until_ns = now_ns + wait_ns
            if self._first_sent is None:
                self._first_sent = self._sent_ns, self._connect_ns, self._tls_ns
            self._waiting = now_ns, until_ns
            self.since_ns = until_ns
            self._engine.later(until_ns, self._send_again)

    def _send_again(self, now_ns: int) -> None:
        self._end_wait(now_ns)
        self._counted = False
        self._clear()
        if self.is_open:
            self._shoot(now_ns)
        else:
            self._uses = 0
            self._connect(now_ns)

    def _end_wait(self, now_ns: int) -> None:
        assert self._waiting is not None
        since_ns, until_ns = self._waiting
        self._waiting = None
        self._waited_ns += min(now_ns, until_ns) - since_ns

    def _take(self, data: bytes, now_ns: int) -> None:
        if self._waiting is not None:  # nothing was asked
            self._close()
            return
        super()._take(data, now_ns)

    def _lost(self, how: str, now_ns: int) -> None:
        if self._waiting is not None:
            self._close()
            return
        super()._lost(how, now_ns)

    # Its end

    def _over(self, outcome: int, now_ns: int, status: int, tokens: int) -> None:
        if self._waiting is not None:
            self._end_wait(now_ns)
        if self._first_sent is not None:
            self._sent_ns, self._connect_ns, self._tls_ns = self._first_sent
        self._more = MORE.pack(self._waited_ns, self._paused_ns, self.session, self.turn, self._attempts)
        self.outcome = outcome
        super()._over(outcome, now_ns, status, tokens)


def _fields(raw: bytes) -> Iterator[tuple[str, str]]:
    for line in raw.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            yield name.decode("latin-1"), value.decode("latin-1")


class Turns:
    """The calls of one engine, where they are like these; it enters one stage after the other."""

    def __init__(self, engine: "Engine") -> None:
        """Lay out the set, once: that of a large one takes longer than a stage may be late."""
        self._engine = engine
        shot = engine.spec.shot
        self._lengths = shot.turns or (1,) * len(shot.payloads)
        self._starts = [0, *accumulate(self._lengths[:-1])]
        self._session_of = [at for at, length in enumerate(self._lengths) for _ in range(length)]
        seed = engine.spec.seed if shot.shuffled else None
        self._sessions = Deck(len(self._lengths), seed)
        self._bodies = Deck(len(shot.payloads), seed)

    def enter(self, stage: Stage) -> None:
        """Begin with this stage's draws."""
        self._stage = stage
        self._alone = stage.takes == "turns" or not self._engine.spec.shot.turns
        self._deck = self._bodies if self._alone else self._sessions
        if stage.first_call is None:
            self._engine.number = self._deck.aligned(self._engine.number)

    def _drawn(self, conn: TurnConn, number: int) -> int:
        """Set a connection to what the draw of this number is; how many turns that has."""
        at = self._deck.place(number)
        conn.session = number
        conn.turn = 0
        if self._alone:
            conn.first = self._starts[self._session_of[at]]
            conn.turn = at - conn.first
            conn.turns = conn.turn + 1
            return 1
        conn.first = self._starts[at]
        conn.turns = self._lengths[at] if self._stage.takes == "sessions" else 1
        return conn.turns

    # Closed loop

    def closed(self, begun_ns: int) -> None:
        """All callers, until all calls are made or the time is over."""
        engine, stage = self._engine, self._stage
        self._left = stage.calls if stage.calls is not None else _NEVER
        self._until_ns = begun_ns + round(stage.seconds * 1e9) if stage.seconds is not None else _NEVER
        engine.go_on = self._after
        armed_ns = 0
        with engine.timed() as timer:
            for _ in range(stage.level):
                if self._left > 0:
                    conn = engine.idle.pop() if engine.idle else engine.new_turn(engine)
                    assert isinstance(conn, TurnConn)
                    self._next_session(conn, monotonic_ns(), at_once=True)
            while (engine.busy or engine.ended or engine.agenda) and not engine.stopping:
                if engine.agenda and engine.agenda[0][0] != armed_ns:
                    armed_ns = engine.agenda[0][0]
                    timer.arm(armed_ns - monotonic_ns())
                engine.wake(engine.turn(0.05, stage))

    def _next_session(self, conn: TurnConn, now_ns: int, *, at_once: bool = False) -> None:
        engine = self._engine
        number = engine.number
        paused_ns = 0 if at_once else self._pause_ns(number, 0)
        if self._left <= 0 or engine.stopping or now_ns + paused_ns >= self._until_ns:
            engine.keep(conn)
            return
        engine.number = number + engine.stride
        turns = min(self._drawn(conn, number), self._left)
        conn.turns = conn.turn + turns
        self._left -= turns
        self._ask(conn, paused_ns, now_ns)

    def _after(self, conns: list[Conn]) -> None:
        for conn in conns:
            assert isinstance(conn, TurnConn)
            self._go_on(conn, monotonic_ns())

    def _go_on(self, conn: TurnConn, now_ns: int) -> None:
        if conn.outcome > SHORT:
            for turn in range(conn.turn + 1, conn.turns):
                self._unsent(conn, turn, "unsent_turn", conn.ended_ns)
        elif conn.turn + 1 < conn.turns:
            paused_ns = self._pause_ns(conn.session, conn.turn + 1)
            if now_ns + paused_ns < self._until_ns:
                conn.turn += 1
                self._ask(conn, paused_ns, now_ns)
                return
        self._next_session(conn, now_ns)

    def _ask(self, conn: TurnConn, paused_ns: int, now_ns: int) -> None:
        if paused_ns:
            due_ns = conn.ended_ns + paused_ns
            self._engine.later(due_ns, partial(conn.ask, due_ns, paused_ns))
        else:
            conn.ask(now_ns, 0, now_ns)

    def _pause_ns(self, session: int, turn: int) -> int:
        """How long the caller pauses before that turn: a function of seed, session and turn alone."""
        pauses = self._stage.pauses
        if pauses is None:
            return 0
        mean_s = pauses.turn_s if turn else pauses.session_s
        return pause_ns(mean_s, f"{self._engine.spec.seed}/{session}/{turn}" if pauses.exponential else None)

    # Open loop

    def arrive(self, stage: Stage, due_ns: int, now_ns: int) -> None:
        """One call is due: sent, or recorded as dropped."""
        engine = self._engine
        number = engine.number
        engine.number = number + engine.stride
        conn = engine.idle.pop() if engine.idle else engine.new_turn(engine)
        assert isinstance(conn, TurnConn)
        self._drawn(conn, number)
        if len(engine.busy) >= stage.level:
            self._unsent(conn, conn.turn, "dropped", due_ns)
            engine.keep(conn)
            return
        conn.ask(due_ns, 0, now_ns)

    def _unsent(self, conn: TurnConn, turn: int, outcome: str, at_ns: int) -> None:
        engine = self._engine
        at_ns -= engine.mono0_ns
        payload = conn.first + turn
        engine.record_unsent(
            pack(at_ns, 0, 0, 0, at_ns, 0, 0, 0, 0, 0, -1, payload, engine.stage, -1, CODE[outcome], 0)
            + MORE.pack(0, 0, conn.session, turn, 0)
        )
