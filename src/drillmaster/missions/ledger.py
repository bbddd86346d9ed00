"""What is written of missions: `events/missions.jsonl`, and the requests themselves in `payloads.ndjson`.

1. Each line is written when it became true and before anything else is done: a driver that is killed has lost nothing that it
   measured. What was under way then has a start and no end.
2. Nothing of an agent's answer is written, but its status, its times and what was wrong with it in our own words.
3. How many were in flight is integrated over time, not sampled: `held` says the mean, the least and the most of its second.
"""

import os
from hashlib import sha256
from typing import Any

import msgspec

from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.missions.flows import Drawn, Request
from drillmaster.timeline.opening import complaint, open_append
from drillmaster.timeline.writer import Writer
from drillmaster.transcripts.covering import cover_line

__all__ = ["Flying", "Ledger"]

PAYLOAD_CAP_BYTES = 1 << 20
_CLEAN_KEPT = 4_096
_encode = msgspec.json.Encoder().encode


class Flying:
    """How many are in flight, over time."""

    __slots__ = ("_area", "_at_ns", "_from_ns", "high", "low", "now")

    def __init__(self, at_ns: int) -> None:
        self.now = self.low = self.high = 0
        self._area = 0
        self._at_ns = self._from_ns = at_ns

    def change(self, by: int, at_ns: int) -> None:
        """So many more, or fewer, from that moment on."""
        self._area += self.now * (at_ns - self._at_ns)
        self._at_ns = at_ns
        self.now += by
        if self.now > self.high:
            self.high = self.now
        elif self.now < self.low:
            self.low = self.now

    def told(self, at_ns: int) -> dict[str, Any]:
        """What was held since this was last asked."""
        self.change(0, at_ns)
        span_ns = at_ns - self._from_ns
        said = {
            "in_flight": self.now,
            "mean": round(self._area / span_ns, 3) if span_ns > 0 else float(self.now),
            "low": self.low,
            "high": self.high,
            "span_ns": span_ns,
        }
        self._area, self._from_ns = 0, at_ns
        self.low = self.high = self.now
        return said


class Ledger:
    """The driver's own evidence. What it raises (Unwritable, which is a Problem) ends the drive."""

    def __init__(self, events: str, payloads: str | None, mono0_ns: int) -> None:
        self._writer = Writer(events, SystemClock(), mono0_ns)
        self.mono0_ns = mono0_ns
        self._payloads_path = payloads
        self._payloads_fd = -1 if payloads is None else open_append(payloads)
        self._digest = sha256()
        self._clean: set[tuple[Any, ...]] = set()
        """What was spelled, by flow and texts, in a line that had nothing to cover."""

    def write(self, event: str, /, **fields: Any) -> None:
        self._writer.write(event, **fields)

    def write_known(self, event: str, fields: dict[str, Any]) -> None:
        """The same of fields that are our own words, numbers and names of the book: none is looked at for secrets."""
        self._writer.write_encoded(event, _encode(fields))

    def payload(self, drawn: Drawn, requests: tuple[Request, ...]) -> str:
        """Record what a mission sends; its digest. Missions are recorded in the order in which they begin."""
        body = _encode(requests)
        digest = sha256(body)
        self._digest.update(digest.digest())
        short = digest.hexdigest()[:16]
        if self._payloads_fd >= 0:
            if len(body) > PAYLOAD_CAP_BYTES:
                body = b'"over %d bytes: draw it again from the book"' % PAYLOAD_CAP_BYTES
            flow = drawn.plan.flow
            said = {"mission": drawn.id, "number": drawn.number, "flow": flow.name, "entry": flow.entry}
            head = _encode({**said, "trace": drawn.trace})
            line = head[:-1] + b',"sha256":"%b","requests":' % short.encode() + body + b"}\n"
            self._put(self._covered(line, (flow.name, *[drawn.values[name] for name in drawn.plan.spelled])))
        return short

    def _covered(self, line: bytes, spelled: tuple[Any, ...]) -> bytes:
        """Cover what templates and tables may have put together, and no file says.

        Between missions that differ in identifiers and numbers alone, that is looked for once: it costs a quarter of a mission.
        """
        if spelled in self._clean:
            return line
        covered = cover_line(line)
        if covered == line:
            if len(self._clean) >= _CLEAN_KEPT:
                self._clean.clear()
            self._clean.add(spelled)
        return covered

    def _put(self, line: bytes) -> None:
        try:
            if os.write(self._payloads_fd, line) != len(line):
                raise OSError(28, "No space left on device")
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem(
                self._payloads_path or "", found=found, wanted="a file that takes one more line", remedy=remedy
            ) from error

    @property
    def payload_digest(self) -> str:
        """Of all payloads so far, in the order in which missions began."""
        return self._digest.hexdigest()

    def close(self) -> None:
        self._writer.sync()
        self._writer.close()
        if self._payloads_fd >= 0:
            fd, self._payloads_fd = self._payloads_fd, -1
            os.fdatasync(fd)
            os.close(fd)
