"""A trial as text, much as curl shows a transfer: `> ` sent, `< ` received, `* ` what happened, pieces of a body with their time.

1. All of it is screened. A secret that arrives in two pieces is screened all the same, so that a piece is shown once its line
   is whole; what came after it waits, and the order stays that of the wire.
2. Tiny pieces in a row (a drip) share a line that says how many they are. A long line is cut, and says by how much.
"""

from collections import deque
from collections.abc import Callable, Iterator

from drillmaster.errors import one_line
from drillmaster.screen import Screener, screen_headers, screen_text
from drillmaster.targeting import named
from drillmaster.trying import Met, Tried
from drillmaster.trying.client import Event
from drillmaster.trying.reading import sentence

__all__ = ["Teller", "summary"]

TINY_BYTES = 16
DRIP_BYTES = 64
LINE_CHARS = 600
LOOKED_AT_BYTES = 65_536
"""Of a request's body: what is shown of it is far less."""
MAX_LINES = 400
"""Of a body; the rest is counted. A piece may have many."""
_DIM, _BOLD, _RED, _GREEN, _OFF = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


class Teller:
    """Turns what is sent and received into lines. Feed it events, `finish` it at the end of a trial."""

    def __init__(self, write: Callable[[str], object], *, colour: bool = False) -> None:
        """`write` is given one line at a time, without its end."""
        self._write = write
        self._colour = colour
        self._screener = Screener(keep_length=True)
        self._queue: deque[Event | tuple[float, int]] = deque()
        """Pieces of a body as their time and length, and what came behind them."""
        self._clear = b""
        self._drip: list[tuple[float, bytes]] = []
        self._shown = self._hidden = 0
        self._head: list[str] = []

    def tell(self, event: Event) -> None:
        """Show it, or keep it until what is before it can be shown."""
        if event.kind != "body":
            if event.kind in "<>":
                self._flush()
            self._queue.append(event)
        elif event.text:
            self._queue.append((event.at_ms or 0.0, len(event.text)))
            self._clear += self._screener.feed(event.text)
        self._drain()

    def finish(self) -> None:
        """Show what is left."""
        self._flush()
        if self._hidden:
            lines = "line" if self._hidden == 1 else "lines"
            self._write(
                self._dim(f"* {self._hidden:,} more {lines} of bodies {'is' if self._hidden == 1 else 'are'} not shown")
            )
        self._shown = self._hidden = 0

    def _flush(self) -> None:
        self._clear += self._screener.close()
        self._drain()
        self._drop_drip()

    def _drain(self) -> None:
        while self._queue:
            first = self._queue[0]
            if isinstance(first, Event):
                self._queue.popleft()
                self._drop_drip()
                self._line(first)
                continue
            at_ms, size = first
            if len(self._clear) < size:
                return
            self._queue.popleft()
            piece, self._clear = self._clear[:size], self._clear[size:]
            if size <= TINY_BYTES:
                self._drip.append((at_ms, piece))
                if sum(len(one) for _, one in self._drip) >= DRIP_BYTES:
                    self._drop_drip()
            else:
                self._drop_drip()
                self._piece(f"{at_ms:.0f} ms", piece)

    def _drop_drip(self) -> None:
        drip, self._drip = self._drip, []
        if len(drip) == 1:
            self._piece(f"{drip[0][0]:.0f} ms", drip[0][1])
        elif drip:
            self._piece(f"{drip[0][0]:.0f}-{drip[-1][0]:.0f} ms, {len(drip)} pieces", b"".join(one for _, one in drip))

    def _piece(self, when: str, piece: bytes) -> None:
        lines = [line for line in piece.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
        for number, line in enumerate(lines or ["(a line end)"]):
            if self._shown == MAX_LINES:
                self._hidden += 1
                continue
            self._shown += 1
            stamp = when if number == 0 else ""
            self._write(f"{self._dim(f'{stamp:>10}')}  {_cut(one_line(line))}")

    def _line(self, event: Event) -> None:
        text = event.text[:LOOKED_AT_BYTES].decode("utf-8", "backslashreplace")
        more = len(event.text) - LOOKED_AT_BYTES
        if more > 0:
            self._write(f"> {_cut(one_line(screen_text(text)))} and {more} bytes more")
        elif event.kind == "*":
            when = "" if event.at_ms is None else f"{event.at_ms:.0f} ms: "
            self._write(self._dim(f"* {when}{one_line(screen_text(text))}"))
        else:
            shown = self._bold(_screened_line(text)) if _is_first(text) else _screened_line(text)
            self._write(f"{event.kind} {shown}".rstrip())

    def _dim(self, text: str) -> str:
        return f"{_DIM}{text}{_OFF}" if self._colour else text

    def _bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_OFF}" if self._colour else text


def _is_first(text: str) -> bool:
    return text.startswith("HTTP/1.") or text.endswith(" HTTP/1.1")


def _screened_line(text: str) -> str:
    """A line of a head, or a request's body, without secrets."""
    name, colon, value = text.partition(": ")
    if colon and name.replace("-", "").replace("_", "").isalnum():
        ((_, kept),) = screen_headers([(name, value)])
        return _cut(one_line(f"{name}: {kept}"))
    return _cut(one_line(screen_text(text)))


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}… (+{len(text) - LINE_CHARS} characters)"


def summary(tried: Tried, *, colour: bool = False) -> Iterator[str]:
    """What came of it, and what code with a fallback would have to go by."""
    for number, one in enumerate(tried.requests, 1):
        which = f"request {number}: " if len(tried.requests) > 1 else ""
        yield f"{which}{_facts(one)}"
    struck = [one for one in tried.requests if one.met] or [tried.requests[-1]]
    for seen in dict.fromkeys(one.outcome.seen for one in struck):
        yield f"a fallback sees{f' ({seen})' if len({one.outcome.seen for one in struck}) > 1 else ''}: {sentence(seen)}"
    good = tried.met and tried.as_described
    odd = next((one for one in struck if one.met and not one.as_described), struck[-1])
    leaves = _leaves(odd)
    if good:
        took = {name for one in struck for name in one.by}
        idle = [name for rule in named(tried.rules) if (name := rule.name) and name not in took]
        if idle and len(tried.rules) > 1:
            yield f"took none of these requests: {', '.join(idle)}"
        said = f"met as described: {'; '.join(dict.fromkeys(map(_leaves, struck)))}"
    elif tried.met:
        said = f"met, and NOT as described: {leaves}, and this one was left with {odd.outcome.seen}"
    else:
        said = f"NOT met: {one_line(screen_text(tried.why_not))}"
    yield f"{_GREEN if good else _RED}{said}{_OFF}" if colour else said


def _leaves(one: Met) -> str:
    return f"{' + '.join(one.by)} leaves a client with {' or '.join(one.described) or 'something'}"


def _facts(one: Met) -> str:
    came = one.outcome
    parts = [f"left with: {came.seen}"]
    if came.status is not None:
        said = "" if came.ending == came.seen else f", ending: {came.ending}"
        parts.append(f"status {came.status}{said}, {'finished' if came.finished else 'not finished'}")
        parts.append(f"{came.body_bytes} bytes of body in {came.pieces} piece{'' if came.pieces == 1 else 's'}")
    if came.why and not came.why.startswith("status "):
        parts.append(one_line(screen_text(came.why)))
    parts.append(f"{came.end_ms:.0f} ms")
    parts.append(f"met by {' + '.join(one.by)}" if one.met else "not met by the fault")
    return "; ".join(parts)
