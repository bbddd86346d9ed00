"""One mission under way: from its first request to its last answer, over one connection of its own.

1. A step is due when the one before has ended and the user has thought; its time counts from there, connecting included. The
   mission's own time counts from when the mission was due.
2. One connection a mission, kept between steps. A server that closed it between two steps is connected to again.
3. The time limit is of waiting, in all steps together: a mission that is thinking is not late. Beyond it the mission is cut.
4. No redirect is followed, no cookie is kept, no request is sent twice: a retry is the agent's own affair, or another step.
5. A connection is closed with a reset once the answer is whole, so that thousands of missions leave no port waiting.
"""

import asyncio
import errno
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from drillmaster import http1
from drillmaster.friday.templates import Unfit
from drillmaster.missions.flows import Drawn, MissionPlans, StepPlan
from drillmaster.missions.ledger import Ledger
from drillmaster.wire import Address, Wire

__all__ = ["HttpMission", "Keeper", "Line", "Mission"]

MACHINE_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What is wrong with this machine, and no outcome of the agent's."""
_UNREACHED = frozenset({"refused", "reset", "tls"})


class Line(Protocol):
    """Where missions are connected to."""

    authority: str
    prefix: str
    addresses: tuple[Address, ...]
    max_body_bytes: int

    def dial(self, owner: "HttpMission", nth: int) -> Wire:
        """Begin to connect to the address that is the nth. Raises OSError."""


class Keeper(Protocol):
    """Who holds missions in flight, and is told what becomes of them."""

    ledger: Ledger
    line: Line
    plans: MissionPlans
    loop: asyncio.AbstractEventLoop

    def rests(self, mission: "Mission") -> None:
        """It begins to think, and is not in flight."""

    def flies(self, mission: "Mission") -> None:
        """It is in flight again."""

    def ended(self, mission: "Mission", result: str, *, unreached: bool) -> None:
        """It is over; `unreached`: no byte of an answer ever came."""

    def broken(self, error: OSError) -> None:
        """This machine cannot go on."""


class Mission:
    """What all missions have in common, whatever they speak."""

    def __init__(self, keeper: Keeper, drawn: Drawn, due_ns: int) -> None:
        self._keeper = keeper
        self._loop = keeper.loop
        self.drawn = drawn
        self.id = drawn.id
        self.due_ns = due_ns
        self.thinking = False
        self.over = False
        self._nth = 0
        self._plan: StepPlan = drawn.plan.steps[0]
        self._bodies: tuple[str | None, ...] = ()
        self._used_ns = 0
        self._thought_ns = 0
        self._step_due_ns = due_ns
        self._sent_ns: int | None = None
        self._first_ns: int | None = None
        self._status: int | None = None
        self._heard = False
        self._timer: asyncio.TimerHandle | None = None

    # The course

    def begin(self, bodies: tuple[str | None, ...]) -> None:
        """Set out; `bodies` are the steps' bodies as recorded. It is in flight already."""
        self._bodies = bodies
        self._reach(self.due_ns)

    def _reach(self, now_ns: int) -> None:
        """Come to the next step, and think before it."""
        self._plan = self.drawn.plan.steps[self._nth]
        think_ns = self._keeper.plans.think_ns(self.drawn, self._nth)
        self._sent_ns = self._first_ns = self._status = None
        self._step_due_ns = now_ns + think_ns
        if not think_ns:
            self._try()
            return
        self.thinking = True
        self._thought_ns += think_ns
        self._keeper.rests(self)
        self._timer = self._loop.call_at(self._step_due_ns / 1e9, self._woke)

    def _woke(self) -> None:
        if self.over:
            return
        self.thinking = False
        self._keeper.flies(self)
        self._try()

    def _try(self) -> None:
        left_ns = self.drawn.plan.limit_ns - self._used_ns
        self._timer = self._loop.call_at((self._step_due_ns + left_ns) / 1e9, self._late)
        try:
            self._ask()
        except Unfit as unfit:
            self._step_over("template", unfit.why)

    def _ask(self) -> None:
        """Send the step. Raises Unfit for a value that cannot stand where its template has it."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Give the connection up."""
        raise NotImplementedError

    def _late(self) -> None:
        if not self.over:
            self._step_over("timeout", "no answer" if self._first_ns is None else "half an answer")

    def cut(self, why: str) -> None:
        """End it where it is: the drill is over."""
        if self.over:
            return
        if self.thinking:
            self.thinking = False
            self._keeper.flies(self)
            self._end("cut", why, monotonic_ns())
        else:
            self._step_over("ended", why)

    def _body(self) -> str | None:
        plan = self._plan
        if plan.late and plan.body is not None:
            return plan.body.fill(self.drawn.values)
        return self._bodies[self._nth]

    def _answered(self, body: bytes) -> None:
        result, why, captured = self._plan.judge.judge(self._status, body)
        if captured:
            self.drawn.values.update(captured)
        self._step_over(result, why)

    def _step_over(self, result: str, why: str) -> None:
        if self.over:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ns = monotonic_ns()
        self._used_ns += now_ns - self._step_due_ns
        self._heard = self._heard or self._first_ns is not None
        zero_ns = self._keeper.ledger.mono0_ns
        fields = {
            "mission": self.id,
            "step": self._nth,
            "name": self._plan.name,
            "status": self._status,
            "result": result,
            "due_ns": self._step_due_ns - zero_ns,
            "sent_ns": None if self._sent_ns is None else self._sent_ns - zero_ns,
            "first_ns": None if self._first_ns is None else self._first_ns - zero_ns,
            "end_ns": now_ns - zero_ns,
        }
        if why:
            fields["why"] = why
        self._keeper.ledger.write_known("step_ended", fields)
        self._nth += 1
        if result != "ok":
            cut = result in ("timeout", "ended")
            self._end("cut" if cut else "failed", f"{result}: {why}" if why else result, now_ns, result in _UNREACHED)
        elif self._nth == len(self.drawn.plan.steps):
            self._end("ok", "", now_ns)
        else:
            self._reach(now_ns)

    def _end(self, result: str, why: str, now_ns: int, unreached: bool = False) -> None:
        if self.over:
            return
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        self._drop()
        zero_ns = self._keeper.ledger.mono0_ns
        flow = self.drawn.plan.flow
        fields = {
            "mission": self.id,
            "flow": flow.name,
            "entry": flow.entry,
            "result": result,
            "why": why,
            "due_ns": self.due_ns - zero_ns,
            "end_ns": now_ns - zero_ns,
            "thought_ns": self._thought_ns,
            "steps": self._nth,
        }
        self._keeper.ledger.write_known("mission_ended", fields)
        self._keeper.ended(self, result, unreached=unreached and not self._heard)

    def trace_fields(self) -> str:
        """The header fields that tell the agent, and whoever stands between, which mission and step of which run this is."""
        span = self._keeper.plans.span(self.drawn, self._nth)
        run = self._keeper.plans.run
        return f"X-Drill-Mission: {self.id}\r\nX-Drill-Run: {run}\r\ntraceparent: 00-{self.drawn.trace}-{span}-01\r\n"


class HttpMission(Mission):
    """A mission that speaks HTTP/1.1."""

    heads = http1.HeadReader(response=True)

    def __init__(self, keeper: Keeper, drawn: Drawn, due_ns: int) -> None:
        super().__init__(keeper, drawn, due_ns)
        self._wire: Wire | None = None
        self._opened = False
        self._address = 0
        self._request = b""
        self._buf = b""
        self._reader: http1.Body | None = None
        self._keep = False
        self._inflate: Callable[[bytes], bytes] | None = None
        self._content: list[bytes] = []
        self._size = 0
        self._waiting = False
        """Whether an answer is owed."""

    def _ask(self) -> None:
        plan, values = self._plan, self.drawn.values
        body = self._body()
        content = b"" if body is None else body.encode()
        line = self._keeper.line
        fields = "".join([f"{name}: {header.fill(values)}\r\n" for name, header in plan.headers])
        low = fields.lower()
        if body is not None:
            if "content-type:" not in low:
                kind = "application/json" if plan.as_json else "text/plain; charset=utf-8"
                fields += f"Content-Type: {kind}\r\n"
            fields += f"Content-Length: {len(content)}\r\n"
        elif plan.method in ("POST", "PUT", "PATCH"):
            fields += "Content-Length: 0\r\n"
        if "user-agent:" not in low:
            fields += "User-Agent: drillmaster\r\n"
        if "accept:" not in low:
            fields += "Accept: */*\r\n"
        self._request = (
            f"{plan.method} {line.prefix}{plan.path.fill(values)} HTTP/1.1\r\nHost: {line.authority}\r\n"
            f"Accept-Encoding: identity\r\n{fields}{self.trace_fields()}\r\n"
        ).encode("latin-1") + content
        self._buf = b""
        self._reader = None
        self._content = []
        self._size = 0
        self._waiting = True
        if self._wire is not None and self._opened and not self._wire.closed:
            self._send(self._request)
        else:
            self._connect()

    def _connect(self) -> None:
        self._opened = False
        try:
            self._wire = self._keeper.line.dial(self, self._address)
        except OSError as error:
            self._wire = None
            if error.errno in MACHINE_ERRNOS:
                self._keeper.broken(error)
            else:
                self._loop.call_soon(self._unreached, "refused")

    def _unreached(self, why: str) -> None:
        if self.over or not self._waiting:
            return
        self._address += 1
        if self._address < len(self._keeper.line.addresses):
            self._connect()
        else:
            self._address = 0
            self._lost(why)

    def _send(self, data: bytes) -> None:
        assert self._wire is not None
        self._sent_ns = monotonic_ns()
        self._wire.send_soon(data)

    # What the wire calls

    def on_open(self) -> None:
        self._opened = True
        self._send(self._request)

    def on_bytes(self, data: bytes) -> None:
        if not self._waiting:
            self._drop()  # what a server says unasked is nothing that a client can use
            return
        if self._first_ns is None:
            self._first_ns = monotonic_ns()
        try:
            self._take(data)
        except http1.Malformed as bad:
            self._fail("protocol", bad.why)

    def _take(self, data: bytes) -> None:
        reader = self._reader
        while reader is None:
            data = self._buf + data
            size = http1.cut_head(data)
            if not size:
                self._buf = data
                return
            head = self.heads.response(data[:size])
            data, self._buf = data[size:], b""
            if 100 <= head.status < 200 and head.status != 101:
                if not data:
                    return
                continue
            self._status = head.status
            self._keep = head.keep_alive
            self._inflate = http1.inflater(head.content_encoding, self._keeper.line.max_body_bytes)
            reader = self._reader = http1.response_body(head, self._plan.method)
        if data and not reader.done:
            piece = reader.feed(data)
            if self._inflate is not None:
                piece = self._inflate(piece)
            self._size += len(piece)
            if self._size > self._keeper.line.max_body_bytes:
                self._fail("too_large", f"a body over {self._keeper.line.max_body_bytes} bytes")
                return
            self._content.append(piece)
        if reader.done:
            self._whole(keep=self._keep and not reader.rest)

    def _whole(self, *, keep: bool) -> None:
        self._waiting = False
        body = b"".join(self._content)
        self._content = []
        if not keep:
            self._drop()
        self._answered(body)

    def on_end(self) -> None:
        if not self._waiting:
            self._drop()
        elif self._reader is not None and self._reader.end():
            self._whole(keep=False)
        else:
            self._fail("cut", "closed without an answer" if self._status is None else "closed inside the body")

    def on_lost(self, why: str) -> None:
        self._wire = None
        if not self._waiting:
            return
        if not self._opened:
            self._unreached(why)
        else:
            self._lost(why)

    def on_drained(self) -> None:
        """Requests are small beside what a wire keeps."""

    def _lost(self, why: str) -> None:
        if why.startswith("tls"):
            self._fail("tls", why)
        elif why in ("refused", "reset", "cut"):
            self._fail(why, "" if self._opened else "connecting")
        elif self._opened:
            self._fail("reset", why)
        else:
            self._fail("refused", why)

    def _fail(self, result: str, why: str) -> None:
        self._waiting = False
        self._drop()
        self._step_over(result, why)

    def _drop(self) -> None:
        self._waiting = False
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()
