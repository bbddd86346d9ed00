"""A ledger of what a free tier cost: incidents, hours and red flags, in lines that are only ever added.

1. One JSON object a line, each with the digest of the line before it. What was taken out, changed, put in between or cut off
   breaks the chain, and is found where it is next read. That the last lines are missing nobody can see: keep it in git.
2. A line says when it was written and by whom, and when that was which it tells. Neither is in the future, and no line is older
   than the one before.
3. Nothing is corrected in place. An incident whose cause was not known is settled by another line, once.
4. Writers take turns (`intake.turns`), a line is one write at the end of the file, and is on the disk before anybody is told so.
5. "Nothing happened" is a line too: a ledger that nobody writes into says nothing.
"""

import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.gates.free_tier import Flag, Incident, Spent
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.turns import open_in_turn
from drillmaster.timeline.opening import complaint, open_append

__all__ = [
    "LEDGER_CAP_BYTES",
    "Flagged",
    "Happened",
    "Hours",
    "Ledger",
    "Line",
    "Nothing",
    "Opened",
    "add",
    "open_new",
    "read_ledger",
]

LEDGER_CAP_BYTES = 16 << 20
_FIRST = "0" * 64
_SKEW_NS = 60 * 10**9
_LINE_CAP_BYTES = 4096

_Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Cause = Literal["capacity", "code", "unknown"]


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    written_at: str
    """RFC 3339."""
    by: _Name
    before: str
    """SHA-256 of the line before, without its newline; zeros for the first."""


class Opened(_Line, frozen=True, kw_only=True, tag="opened"):
    """The first line: of which job it is."""

    version: Literal[1]
    job: _Name


class Happened(_Line, frozen=True, kw_only=True, tag="incident"):
    """An incident; with `settles`, the cause of one whose cause was not known, by its line."""

    at: str
    cause: Cause
    note: _Text = ""
    settles: Annotated[int, msgspec.Meta(ge=2)] | None = None


class Hours(_Line, frozen=True, kw_only=True, tag="hours"):
    """Hours that one engineer spent on the endpoint."""

    at: str
    hours: Annotated[float, msgspec.Meta(gt=0, le=744)]
    note: _Text = ""


class Flagged(_Line, frozen=True, kw_only=True, tag="flag"):
    """A red flag that stands from now on, or does no more."""

    flag: Flag
    stands: bool
    note: _Text = ""


class Nothing(_Line, frozen=True, kw_only=True, tag="nothing"):
    """Somebody looked, and nothing had happened since the line before."""

    note: _Text = ""


Line = Opened | Happened | Hours | Flagged | Nothing


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger, read and found whole."""

    lines: tuple[Line, ...]
    last: str
    """Digest of its last line."""
    digest: str

    @property
    def job(self) -> str:
        first = self.lines[0]
        return first.job if isinstance(first, Opened) else ""

    @property
    def kept_ns(self) -> int:
        """When its last line was written."""
        return parse_rfc3339(self.lines[-1].written_at) or 0

    def incidents(self) -> tuple[Incident, ...]:
        """Incidents with the cause that was found in the end."""
        settled = {one.settles: one.cause for one in self.lines if isinstance(one, Happened) and one.settles}
        return tuple(
            Incident(at_ns=parse_rfc3339(one.at) or 0, cause=settled.get(number, one.cause), line=number)
            for number, one in enumerate(self.lines, 1)
            if isinstance(one, Happened) and one.settles is None
        )

    def spent(self) -> tuple[Spent, ...]:
        return tuple(
            Spent(at_ns=parse_rfc3339(one.at) or 0, hours=one.hours, line=number)
            for number, one in enumerate(self.lines, 1)
            if isinstance(one, Hours)
        )

    def flags(self) -> tuple[str, ...]:
        """Those that stand."""
        last = {one.flag: one.stands for one in self.lines if isinstance(one, Flagged)}
        return tuple(sorted(flag for flag, stands in last.items() if stands))


def read_ledger(path: Path) -> Ledger:
    """Read a ledger whole. Raises Problem where it is none, and where a line does not follow the one before."""
    place = str(path)
    if not is_there(path):
        raise Problem(
            place,
            found="nothing",
            wanted="a ledger",
            remedy=f'drillmaster ledger open --ledger {one_line(place)} --job "JOB" --by NAME',
        )
    data = read_bytes(path, LEDGER_CAP_BYTES)
    return _whole(data, place)


def open_new(path: Path, *, job: str, by: str, now_ns: int) -> None:
    """Begin a ledger. Raises Problem where something of that name is there already."""
    if is_there(path) and not (path.is_file() and not path.stat().st_size):  # one that was killed leaves an empty file
        raise Problem(
            str(path),
            found="something of that name",
            wanted="nothing yet: a ledger is opened once",
            remedy=f"add to it: drillmaster ledger add nothing --ledger {one_line(str(path))} --by NAME",
        )
    fields = {"kind": "opened", "version": 1, "job": job, "by": by}
    _whole(_line(fields, now_ns, _FIRST, str(path)), str(path))  # before a file is made
    _append(path, fields, now_ns, first=True)


def add(path: Path, fields: dict[str, Any], *, now_ns: int) -> int:
    """Add a line, dated now; give its number. Raises Problem, and then nothing was added."""
    return _append(path, fields, now_ns, first=False)


def _append(path: Path, fields: dict[str, Any], now_ns: int, *, first: bool) -> int:
    place = str(path)
    if not first and not is_there(path):
        read_ledger(path)
    try:
        descriptor = open_in_turn(path, lambda: open_append(os.fspath(path), readable=True))
    except OSError as error:
        raise _unwritable(place, error) from None
    try:
        data = _content(descriptor)
        if first and data:
            raise Refused(
                place, found="a ledger that somebody else has just opened", wanted="one", remedy="add to that one"
            )
        ledger = None if first else _whole(data, place)
        raw = _line(fields, now_ns, _FIRST if ledger is None else ledger.last, place)
        # As it will be read: a line that no reader takes must never be written.
        _whole(data + raw, place)
        try:
            if os.write(descriptor, raw) != len(raw):
                raise OSError(errno.ENOSPC, "No space left on device")
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, len(data))  # nobody was told that it is there
            raise
    except OSError as error:
        raise _unwritable(place, error) from None
    finally:
        os.close(descriptor)
    return 1 if ledger is None else len(ledger.lines) + 1


def _line(fields: dict[str, Any], now_ns: int, before: str, place: str) -> bytes:
    raw = strict.canonical({**fields, "written_at": rfc3339(now_ns, digits=0), "before": before}) + b"\n"
    if len(raw) > _LINE_CAP_BYTES:
        raise Problem(
            place, found=f"a line of {len(raw):,} bytes", wanted="4 kB at most", remedy="write a shorter note"
        )
    return raw


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, min(size, LEDGER_CAP_BYTES + 1), 0) if size else b""


def _whole(data: bytes, place: str) -> Ledger:
    raws = data.split(b"\n")
    if raws.pop() != b"" or len(data) > LEDGER_CAP_BYTES:
        raise _broken(place, len(raws) + 1, "a line that was cut off")
    lines: list[Line] = []
    before, last_ns = _FIRST, 0
    for number, raw in enumerate(raws, 1):
        loaded = strict.load(raw, place=f"{place}:{number}", fmt="json")
        line: Line = strict.as_type(loaded, Line, place=f"{place}:{number}")  # type: ignore[arg-type]  # a union is no type to mypy
        if line.before != before:
            raise _broken(place, number, "a line that does not follow the one before it")
        last_ns = _dated(line, place, number, last_ns)
        _fits(line, lines, place, number)
        lines.append(line)
        before = hashlib.sha256(raw).hexdigest()
    if not lines:
        raise _broken(place, 1, "an empty file")
    return Ledger(lines=tuple(lines), last=before, digest=strict.digest_bytes(data))


def _dated(line: Line, place: str, number: int, last_ns: int) -> int:
    written_ns = parse_rfc3339(line.written_at)
    if written_ns is None:
        raise _broken(place, number, f"written_at {strict.shown(line.written_at)}")
    if written_ns < last_ns - _SKEW_NS:
        raise _broken(place, number, f"a line of {line.written_at}, older than the one before it")
    if isinstance(line, Happened | Hours):
        at_ns = parse_rfc3339(line.at)
        if at_ns is None or at_ns > written_ns + _SKEW_NS:
            raise Problem(
                f"{place}:{number}: /at",
                found=strict.shown(line.at),
                wanted=f"when it was, RFC 3339 with a zone, not after {line.written_at}",
                remedy="write --at 2026-11-30T15:30:00Z",
            )
    return max(written_ns, last_ns)


def _fits(line: Line, before: Sequence[Line], place: str, number: int) -> None:
    """Refuse a line that does not go with those before it."""
    if isinstance(line, Opened) == bool(before):
        raise _broken(place, number, "no first line" if not before else "a second first line")
    for name in (line.by, line.job if isinstance(line, Opened) else "x"):
        if not name.strip() or one_line(name) != name:
            raise Problem(f"{place}:{number}: /by", found=strict.shown(name), wanted="a name", remedy="write --by NAME")
    if isinstance(line, Happened) and line.settles is not None:
        meant = before[line.settles - 1] if line.settles <= len(before) else None
        done = any(isinstance(one, Happened) and one.settles == line.settles for one in before)
        open_ = isinstance(meant, Happened) and meant.settles is None and meant.cause == "unknown" and not done
        if not open_ or line.cause == "unknown":
            raise Refused(
                f"{place}:{number}: /settles",
                found=f"line {line.settles}, " + ("to no cause" if open_ else "which is no incident of unknown cause"),
                wanted="an incident whose cause was not known, and its cause",
                remedy="drillmaster ledger show",
            )


def _broken(place: str, number: int, found: str) -> Problem:
    return Problem(
        f"{place}:{number}",
        found=found,
        wanted="a ledger to which lines were only ever added",
        remedy=f"restore it from its last copy: git checkout -- {one_line(place)}",
    )


def _unwritable(place: str, error: OSError) -> Problem:
    found, remedy = complaint(error)
    return Problem(place, found=found, wanted="a ledger that can be written", remedy=remedy)
