"""Faults: the contract of a fault's script, and the catalogue by name. One file an entry.

1. A fault is a script: a generator that yields what happens (`Action`) and is sent what came of it (`Event`). It owns no
   clock and no socket, so it can neither hang nor leak; the driver owns both, and bounds every hold and every buffer
   whatever a script says.
2. The tag a user types is the file's name: `cut_stream.py` is `cut-stream`; a tag of three digits is the file
   `status_NNN.py`. Listing reads names; only the entry that is asked for is imported.
3. Without a `Read(side="upstream")` or a `Pass` the upstream is never dialled.
4. When the client is gone the generator is closed. At a lift, or when the fault's deadline passed unrenewed, `Lifted` is
   thrown in; a script that catches it may go on for at most the plan's `linger_s`, then the driver cuts.
5. A script that returns has no more to say: an answer it began is ended, and one it did not begin is passed through.
6. The fault has *met* a request, and the evidence says so, at the first action that a client could feel: `Send`, `Wait`,
   `Close` or `Refuse`. What a script sends on as the upstream said it (`Send(relayed=True)`) is no such action.
7. A file that begins with an underscore is no entry: it holds what several entries share.
"""

import difflib
import functools
import importlib
import pkgutil
import random
import re
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Literal

import msgspec

from drillmaster.dialects import CONDITIONS, Dialect
from drillmaster.dialects import load as load_dialect
from drillmaster.dialects import names as dialect_names
from drillmaster.errors import Problem
from drillmaster.faults._unfolding import Unfolding, coding_of
from drillmaster.http1 import Answer, RequestHead, answer_head

__all__ = [
    "NEEDS",
    "SEEN_BYTES",
    "Action",
    "Beginning",
    "Close",
    "Cx",
    "Data",
    "Dialect",
    "End",
    "Event",
    "Fault",
    "Frame",
    "Group",
    "Head",
    "Late",
    "Lifted",
    "Lost",
    "Need",
    "Pass",
    "Passed",
    "Raw",
    "Read",
    "Refuse",
    "Script",
    "Seen",
    "Send",
    "Unfolding",
    "Wait",
    "answer_error",
    "closing_head",
    "coding_of",
    "load",
    "make",
    "names",
    "read_request_whole",
    "relay_body",
    "request_id",
    "send_answer",
    "with_fields",
]

Side = Literal["client", "upstream"]
Scope = Literal["port", "connection", "exchange"]
Proof = Literal["bytes", "connections", "probe"]
Group = Literal["connection", "time", "status", "quota", "credentials", "content", "stream", "tools", "other"]
"""What fails, for people who look for a fault; `quota` is money too, `tools` includes MCP."""
Need = Literal["stream", "whole", "tools", "model", "mcp", "listing"]
"""What a request must be, or the fault lets it pass: answered by a stream, answered whole, one that offers tools, one to a
model's API, a call of MCP, MCP's `tools/list`."""
NEEDS: dict[str, str] = {
    "stream": "streamed answers",
    "whole": "whole answers",
    "tools": "requests that offer tools",
    "model": "calls of a model's API",
    "mcp": "calls of MCP",
    "listing": "MCP's tools/list",
}
"""What `Fault.needs` says, in words."""
Seen = Literal[
    "refused",
    "unanswered",
    "reset",
    "closed",
    "silent",
    "stalled",
    "broken",
    "status",
    "redirect",
    "complete",
    "incomplete",
    "cut",
    "error",
]
"""What a plain client is left with. No answer: the port refused, the connect was not answered, a RST, a FIN, silence. Half
of one: silence behind its head (`stalled`), or an end, a framing, a coding or a JSON text that cannot be read (`broken`). A
whole one: an error status, a redirect, or else how it ended in the API's terms, `error` being one inside a 200."""

SEEN_BYTES = 65_536


# What a script says and hears. `Head`, `Data`, `Frame` and `End` go both ways: heard from a Read, said by a Send.


class Head(msgspec.Struct, frozen=True, gc=False):
    """The head of an answer. Without a Content-Length among `headers` the driver frames the body itself."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    reason: str | None = None


class Data(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a body, unframed."""

    body: bytes


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One server-sent event, with its blank line."""

    body: bytes


class End(msgspec.Struct, frozen=True, gc=False):
    """The message is whole."""


class Raw(msgspec.Struct, frozen=True, gc=False):
    """Bytes as they are, framed by nobody: header drip, malformed chunks. The connection ends after such an answer."""

    wire: bytes
    status: int | None = None
    """For the evidence: the status of the head that ends with these bytes; None where none does."""


class Lost(msgspec.Struct, frozen=True, gc=False):
    """That side is gone: `cut`, `reset`, `refused`, `timeout`, `too large`, or what TLS said."""

    why: str


class Late(msgspec.Struct, frozen=True, gc=False):
    """Nothing came `within_s`."""


class Passed(msgspec.Struct, frozen=True, gc=False):
    """What came of a Pass: bytes of body that went to the client, and whether that was all of the answer."""

    body_bytes: int
    whole: bool


class Read(msgspec.Struct, frozen=True, gc=False):
    """Wait for the next event of one side.

    From the client: `Data`, then `End` (its head is `cx.request`; with connection scope `Data` are raw bytes). From the
    upstream, which is dialled by the first such Read and given the whole request: `Head`, then `Data` or, `by` frames,
    `Frame`, then `End`. `Lost` when that side breaks, `Late` when nothing came `within_s`.
    """

    side: Side
    within_s: float | None = None
    by: Literal["data", "frame"] = "data"


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send towards the client. Resumes once the client has taken enough of what was sent before."""

    part: Head | Data | Frame | Raw | End
    relayed: bool = False
    """The upstream's own, unchanged and in its time: by this alone the fault has met nobody."""


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Let time pass, both sides open. None: for as long as the driver allows."""

    seconds: float | None = None


class Pass(msgspec.Struct, frozen=True, gc=False):
    """Relay the exchange to and from the upstream until this many bytes of the answer's body went through; None: all.

    `fields` go into the answer's head in place of the upstream's own fields of these names, if it has not been sent yet.
    """

    until_bytes: int | None = None
    fields: tuple[tuple[str, str], ...] = ()


class Close(msgspec.Struct, frozen=True, gc=False):
    """End it: `rst`, `fin`, or `half` (end our sending side, go on reading). `stream` is the connection in HTTP/1.1."""

    how: Literal["fin", "rst", "half"]
    scope: Literal["stream", "connection"] = "connection"


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Port scope: nobody listens until the lift.

    `refused`: a connection attempt is answered with a RST. `silent`: it is not answered at all (a SYN black hole).
    """

    how: Literal["refused", "silent"] = "refused"


Action = Read | Send | Wait | Pass | Close | Refuse
Event = Head | Data | Frame | End | Lost | Late | Passed | None
Script = Generator[Action, Any, None]


class Lifted(Exception):
    """Thrown into a running script when its fault was lifted or has expired."""


class Cx:
    """What a script knows. Nothing in it moves by itself."""

    __slots__ = (
        "_make_rng",
        "_rng",
        "cell",
        "conn",
        "dialect",
        "injected_ns",
        "key_first_ns",
        "key_hash",
        "keys_since_ns",
        "now_ns",
        "nth",
        "request",
        "wall_ns",
    )

    def __init__(
        self,
        *,
        request: RequestHead | None,
        conn: int,
        nth: int,
        dialect: Dialect,
        make_rng: Callable[[], random.Random],
        now_ns: Callable[[], int],
        cell: Callable[[str], dict[str, Any]],
        wall_ns: Callable[[], int] = lambda: 0,
        injected_ns: int = 0,
        key_hash: str | None = None,
        key_first_ns: int | None = None,
        keys_since_ns: int | None = None,
    ) -> None:
        self.request = request
        """None with connection and port scope: no head has been read."""
        self.conn = conn
        self.nth = nth
        """Which request on this connection, from 1; 0 with connection scope."""
        self.dialect = dialect
        self.now_ns = now_ns
        """CLOCK_MONOTONIC, to read and not to wait on."""
        self.cell = cell
        """State of this window that outlives the request, by key: buckets, first-N counters, dead credentials."""
        self.wall_ns = wall_ns
        """UTC in ns since 1970, for what is written on the wire."""
        self.injected_ns = injected_ns
        """When the fault was put on, on the clock of `now_ns`."""
        self.key_hash = key_hash
        """The credential, by the first 16 hex digits of its sha256; None: the request carries none."""
        self.key_first_ns = key_first_ns
        """When this proxy first saw that credential, on the clock of `now_ns`."""
        self.keys_since_ns = keys_since_ns
        """When it first saw any credential; None: it has seen none."""
        self._make_rng = make_rng
        self._rng: random.Random | None = None

    @property
    def rng(self) -> random.Random:
        """Seeded by run, window, connection and request. Made when first asked for: its state is 2.5 kB."""
        if self._rng is None:
            self._rng = self._make_rng()
        return self._rng


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to fail. A subclass is one entry: its docstring is its page, its fields are its parameters."""

    scope: ClassVar[Scope] = "exchange"
    proof: ClassVar[Proof] = "bytes"
    """What shows that it met somebody: bytes that a client sent, connections, or the injector's own probe."""
    hands_on: ClassVar[bool] = True
    """False: of what it strikes (`needs`) nothing is left for a rule behind it, since it answers, relays or ends it itself."""
    asks_upstream: ClassVar[bool] = True
    """False: no path through the script reads from the upstream or passes, so what it reads of a body is not kept."""
    reads_answer: ClassVar[bool] = False
    """True: the script has to understand the upstream's answer, which is asked for without a content coding."""
    words: ClassVar[str] = ""
    """What it says in the API's place, where that is a text that an agent can take for the model's and hand on."""
    leads_to: ClassVar[str] = ""
    """A path of its own that it leads clients to: who aims it lets it meet that too, or they are led to the real endpoint."""
    rewrites: ClassVar[bool] = False
    """True: an answer that it altered ends as the API's own, and its words are no longer those of the model."""
    group: ClassVar[Group] = "other"
    seen: ClassVar[tuple[Seen, ...]] = ()
    """What a plain client may be left with once it was met; which of several depends on parameters, API and time limit."""
    needs: ClassVar[tuple[Need, ...]] = ()

    def first_met(self) -> int | None:
        """Which request of a client, on one connection and with one key, it meets first. None: the requests decide."""
        return 1

    def script(self, cx: Cx) -> Script:
        """What happens to one exchange (one connection, one port: see `scope`)."""
        raise NotImplementedError


class Beginning:
    """The first `SEEN_BYTES` of a request's body, as they were before it was compressed."""

    __slots__ = ("_unfolding", "body", "body_bytes")

    def __init__(self, head: RequestHead | None) -> None:
        self._unfolding = Unfolding(coding_of(head))
        self.body = bytearray()
        self.body_bytes = 0
        """How long all of it is that was taken and could be unfolded."""

    @property
    def full(self) -> bool:
        return len(self.body) >= SEEN_BYTES

    def take(self, data: bytes) -> None:
        for piece in self._unfolding.feed(data):
            self.body_bytes += len(piece)
            self.body += piece[: SEEN_BYTES - len(self.body)]


def read_request_whole(seen: Beginning | None = None) -> Generator[Action, Any, bool]:
    """Read the client's request to its end, any size; False when it broke off."""
    while True:
        event = yield Read("client")
        if isinstance(event, End):
            return True
        if isinstance(event, Lost):
            return False
        if seen is not None and isinstance(event, Data) and not seen.full:
            seen.take(event.body)


def closing_head(head: Head, *, without: tuple[str, ...] = ()) -> bytes:
    """Write the head of an answer that ends with its connection: without these fields, and without a trailer's."""
    gone = ("trailer", *without)
    fields = tuple(field for field in head.headers if field[0].lower() not in gone)
    return answer_head(head.status, (*fields, ("connection", "close")), head.reason)


def relay_body() -> Generator[Action, Any, bool]:
    """Send on what the upstream sends of its body, through a lift too; False when it broke off before its end."""
    event: object = None
    while True:
        try:
            event = yield Read("upstream")
            if isinstance(event, Data):
                yield Send(event, relayed=True)
        except Lifted:
            continue  # told once; a piece that was being sent has been sent
        if isinstance(event, End):
            return True
        if isinstance(event, Lost):
            return False


def send_answer(answer: Answer) -> Script:
    """Send a whole, well-formed answer; the connection stays usable."""
    length = ("content-length", str(len(answer.body)))
    yield Send(Head(answer.status, (*answer.headers, length)))
    yield Send(Data(answer.body))
    yield Send(End())


def request_id(cx: Cx) -> str:
    """An id as providers give one to each request."""
    return f"req_{cx.rng.getrandbits(96):024x}"


def answer_error(
    cx: Cx,
    status: int | None,
    condition: str | None = None,
    *,
    retry_after_s: float | None = None,
    put: Callable[[Answer], Answer] = lambda answer: answer,
    seen: Beginning | None = None,
) -> Script:
    """Read the request to its end, then answer with the dialect's own error; `put` may change it on its way.

    An answer before the end of a large body makes the kernel reset the connection: that is another fault. `seen` is what
    was read of the body already.
    """
    seen = Beginning(cx.request) if seen is None else seen
    if (yield from read_request_whole(seen)):
        answer = cx.dialect.error(
            status,
            condition,
            request_id=request_id(cx),
            retry_after_s=retry_after_s,
            path="" if cx.request is None else cx.request.origin_form.decode("latin-1"),
            asked=bytes(seen.body),
        )
        yield from send_answer(put(answer))


def with_fields(answer: Answer, *fields: tuple[str, str], without: tuple[str, ...] = ()) -> Answer:
    """The answer with these fields in place of its own of the same names, and without those of the names `without`."""
    gone = {name.lower() for name, _ in fields} | {name.lower() for name in without}
    kept = tuple(field for field in answer.headers if field[0].lower() not in gone)
    return msgspec.structs.replace(answer, headers=(*kept, *fields))


_DIGITS_FILE = re.compile(r"status_([0-9]{3})")
_STATUS = re.compile("[1-9][0-9]{2}")
_AT = re.compile(r"(?:Expected (.+?)(?:, got .+)?|Invalid enum value .+) - at `\$\.(\w+)`", re.S)
_MISSING = re.compile("Object missing required field `([^`]+)`")


@functools.cache
def names() -> tuple[str, ...]:
    """The tags of the catalogue, without importing an entry."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        digits = _DIGITS_FILE.fullmatch(module.name)
        found.append(digits[1] if digits else module.name.replace("_", "-"))
    return tuple(sorted(found))


def load(tag: str) -> type[Fault]:
    """The entry of this tag. Raises Problem for a tag that is not in the catalogue."""
    if tag not in names():
        near = difflib.get_close_matches(tag.lower(), names(), 1)
        remedy = f"did you mean {near[0]}?" if near else "see: drillmaster fault list"
        if _STATUS.fullmatch(tag):
            remedy = f"any status is the fault `status`, with the parameter status={tag}"
        raise Problem("fault", found=repr(tag[:40]), wanted="a tag of `drillmaster fault list`", remedy=remedy)
    module = importlib.import_module(
        f"{__name__}.status_{tag}" if tag.isdigit() else f"{__name__}.{tag.replace('-', '_')}"
    )
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Fault) and value.__module__ == module.__name__:
            if value.__struct_config__.tag != tag:
                raise RuntimeError(f"{module.__name__} says tag {value.__struct_config__.tag!r}, its file says {tag!r}")
            return value
    raise RuntimeError(f"{module.__name__} holds no Fault")


def make(tag: str, params: dict[str, Any] | None = None) -> Fault:
    """The fault of this tag with these parameters. Raises Problem for an unknown tag, a missing or a wrong parameter."""
    kind = load(tag)
    if params and "type" in params:  # the tag's own place
        raise Problem(
            f"fault {tag}",
            found="a parameter `type`",
            wanted="its parameters: " + (", ".join(kind.__struct_fields__) or "none"),
            remedy=f"see: drillmaster fault show {tag}",
        )
    try:
        fault = msgspec.convert({**(params or {}), "type": tag}, kind)
    except msgspec.ValidationError as error:
        found, _, wanted = str(error).partition(", wanted ")  # what an entry says of several of its parameters together
        missing = _MISSING.fullmatch(found)
        if missing is not None:
            found, wanted = f"no {missing[1]}", f"{missing[1]}, which has no default"
        off = _AT.fullmatch(found)
        if off is not None:
            found, wanted = (
                f"{off[2]}={(params or {}).get(off[2])!r}"[:80],
                f"{off[2]} as {off[1] or _choices(kind, off[2])}",
            )
        fields = ", ".join(kind.__struct_fields__) or "none"
        raise Problem(
            f"fault {tag}",
            found=found,
            wanted=wanted or f"its parameters: {fields}",
            remedy=f"see: drillmaster fault show {tag}",
        ) from None
    for field, usual in (("condition", CONDITIONS), ("shape", ())):
        word = getattr(fault, field, None)
        # An API that lacks it says its usual one, so that a set of APIs can be asked; what none has is a slip of the pen.
        if word is not None and word not in usual and word not in _api_words(field):
            near = difflib.get_close_matches(word, sorted(_api_words(field)), 1)
            raise Problem(
                f"fault {tag}",
                found=f"{field}={word!r}",
                wanted=f"a {field} that some API has",
                remedy=f"did you mean {near[0]}?" if near else "see docs/reference/dialects.md, or leave it out",
            )
    return fault


def _choices(kind: type[Fault], name: str) -> str:
    """The words that a parameter is one of."""
    struct = msgspec.inspect.type_info(kind)
    assert isinstance(struct, msgspec.inspect.StructType)
    todo: list[msgspec.inspect.Type] = [field.type for field in struct.fields if field.name == name]
    words: list[str] = []
    for one in todo:
        match one:
            case msgspec.inspect.Metadata(type=inner):
                todo.append(inner)
            case msgspec.inspect.UnionType(types=inner):
                todo += inner
            case msgspec.inspect.LiteralType(values=values):
                words += map(str, values)
    return "one of " + ", ".join(words)


@functools.cache
def _api_words(field: str) -> frozenset[str]:
    """The names of all conditions, or of all shapes, of all APIs."""
    every = [load_dialect(name) for name in dialect_names()]
    if field == "shape":
        return frozenset(shape.name for dialect in every for shape in dialect.shapes)
    return frozenset(CONDITIONS) | {row.name for dialect in every for row in dialect.table}
