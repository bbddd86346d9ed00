"""Read the transcripts of a run: the census over all of them, or one mission's from beginning to end."""

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.evidence import Defect, Row, Seal, rows
from drillmaster.rules import transcripts as law
from drillmaster.timeline.opening import chunks, complaint

__all__ = [
    "FOLDER",
    "Entry",
    "PartRead",
    "Transcript",
    "read_census",
    "read_folder",
    "read_mission",
    "read_started",
    "transcript_files",
]

FOLDER = "transcripts"
MISSIONS = "events/missions.jsonl"
_OF_MISSIONS = frozenset({"mission_started", "step_ended", "mission_ended"})
_MOST_BYTES = 64 << 20
"""Of one mission."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One record, its lines put together again."""

    kind: str
    t: str
    seq: int
    line: int
    fields: dict[str, Any]
    """All that the law does not name."""
    body: bytes | None
    """What came whole, or the pieces put together; None: the record carries nothing."""
    pieces: tuple[tuple[float, bytes], ...]
    """What came bit by bit: milliseconds since its beginning, and bytes."""

    @property
    def text(self) -> str:
        return (self.body or b"").decode("utf-8", "replace")


class PartRead(msgspec.Struct, frozen=True, kw_only=True):
    """One part: who wrote it, and what."""

    file: str
    part: str
    entries: tuple[Entry, ...]
    ended: bool
    ok: bool

    @property
    def by_proxy(self) -> bool:
        """Whether a proxy recorded it, between the agent and a model."""
        return self.entries[0].fields.get("entry") == "proxy"


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """One mission, its parts in the order of time. `defects`: what is wrong with it, in words; empty: nothing that can be seen."""

    mission: str
    run: str
    parts: tuple[PartRead, ...]
    defects: tuple[str, ...]

    @property
    def entries(self) -> Iterator[Entry]:
        for part in self.parts:
            yield from part.entries


def transcript_files(run_dir: Path, seal: Seal | None) -> Iterator[tuple[str, Iterator[bytes]]]:
    """List the files and their bytes: what is sealed of them; without a seal as much as there is now. Raises Problem."""
    if seal is None:
        yield from _loose(run_dir / FOLDER, f"{FOLDER}/")
        return
    for name, sealed in sorted(seal.files.items()):
        if name.startswith(f"{FOLDER}/") and name.endswith(".ndjson"):
            yield name, chunks(run_dir / name, limit_bytes=sealed.bytes)


def _loose(folder: Path, front: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".ndjson"))
    except FileNotFoundError:
        return
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(os.fspath(folder), found=found, wanted="a folder of transcripts", remedy=remedy) from None
    for name in names:
        yield f"{front}{name}", chunks(folder / name)


def _started_rows(run_dir: Path, seal: Seal | None) -> Iterator[Row]:
    path = run_dir / MISSIONS
    sealed = None if seal is None else seal.files.get(MISSIONS)
    if not path.exists() or (seal is not None and sealed is None):
        return
    for row in rows(chunks(path, limit_bytes=None if sealed is None else sealed.bytes), file=MISSIONS):
        if not isinstance(row, Defect) and row.event in _OF_MISSIONS and isinstance(row.fields.get("mission"), str):
            yield row


def read_started(run_dir: Path, seal: Seal | None) -> dict[str, int]:
    """Read which missions the driver started, each with the number of its steps that were sent. Raises Problem."""
    started: dict[str, int] = {}
    for row in _started_rows(run_dir, seal):
        mission = row.fields["mission"]
        sent = row.event == "step_ended" and row.fields.get("sent_ns") is not None
        started[mission] = started.get(mission, 0) + sent
    return started


def _traces(run_dir: Path, seal: Seal | None) -> dict[str, str]:
    """Read which mission was started with which trace."""
    return {
        row.fields["trace"]: row.fields["mission"]
        for row in _started_rows(run_dir, seal)
        if row.event == "mission_started" and isinstance(row.fields.get("trace"), str)
    }


def read_census(
    run_dir: Path,
    seal: Seal | None,
    started: Mapping[str, int],
    *,
    run: str,
    passing: Callable[[Iterable[bytes]], Iterable[bytes]] = iter,
) -> law.Census:
    """Hold all transcripts of a run against its missions, each with the number of its steps that were sent. Raises Problem.

    What is read goes through `passing`, which may count it.
    """
    files = ((name, passing(data)) for name, data in transcript_files(run_dir, seal))
    found = law.collect(files, run=run)
    by_trace = any(mission.startswith("t.") for mission in found.parts)
    return law.census(found, started, run=run, traces=_traces(run_dir, seal) if by_trace else None)


def read_mission(run_dir: Path, seal: Seal | None, mission: str, *, run: str) -> Transcript | None:
    """Read one mission's transcript; None where no line is of it. Raises Problem."""
    trace = next((trace for trace, named in _traces(run_dir, seal).items() if named == mission), None)
    names = (mission,) if trace is None else (mission, f"t.{trace}")
    return _read(transcript_files(run_dir, seal), run_dir, names, run)


def read_folder(folder: Path, mission: str) -> Transcript | None:
    """Read one mission out of a folder that is no run's, whatever run its lines name. Raises Problem."""
    return _read(_loose(folder, ""), folder, (mission,), None)


def _read(
    files: Iterable[tuple[str, Iterable[bytes]]], place: Path, names: tuple[str, ...], run: str | None
) -> Transcript | None:
    parts: list[PartRead] = []
    defects: list[str] = []
    wanted = [name.encode() for name in names]
    left = _MOST_BYTES
    for file, data in files:
        reader = _Reader(file, run)
        for number, _, line in law.lines_of(data):
            if line is None or not any(name in line for name in wanted):
                continue
            left -= len(line)
            if left < 0:
                raise Problem(
                    os.fspath(place / file),
                    found=f"more than {_MOST_BYTES >> 20} MB of mission {names[0]}",
                    wanted="a mission that a person can read",
                    remedy="look at the file itself",
                )
            reader.take(number, line, names)
        parts += reader.done()
        defects += reader.defects
    if not parts:
        return None
    parts.sort(key=lambda part: parse_rfc3339(part.entries[0].t) or 0)
    return Transcript(mission=names[0], run=run or "", parts=tuple(parts), defects=tuple(defects))


_LAW_FIELDS = frozenset({"t", "mission", "run", "seq", "kind", "part", "more", "chunks", "body", "body_b64"})


class _Reader:
    """Puts the lines of one mission in one file together."""

    def __init__(self, file: str, run: str | None) -> None:
        self.defects: list[str] = []
        self._file = file
        self._run = run
        self._open: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._parts: list[PartRead] = []

    def take(self, number: int, line: bytes, names: tuple[str, ...]) -> None:
        try:
            found = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.defects.append(f"{self._file}:{number}: no JSON object, or half of one")
            return
        if found.get("mission") not in names or not law.is_line(line):
            return
        if self._run is not None and found.get("run") != self._run:
            self.defects.append(f"{self._file}:{number}: a line of another run")
        part = found.get("part", "")
        if found["kind"] == "started" and found["seq"] == 0 and self._open.get(part):
            self._close(part)
        lines = self._open.setdefault(part, [])
        if found["seq"] != len(lines):
            self.defects.append(f"{self._file}:{number}: seq {found['seq']} where {len(lines)} belongs")
        lines.append((number, found))
        if found["kind"] == "ended":
            if found.get("lines") != len(lines):
                self.defects.append(
                    f"{self._file}:{number}: an end that counts {found.get('lines')} of {len(lines)} lines"
                )
            self._close(part)

    def done(self) -> list[PartRead]:
        for part in list(self._open):
            self._close(part)
        return self._parts

    def _close(self, part: str) -> None:
        lines = self._open.pop(part)
        if not lines:
            return
        last = lines[-1][1]
        ended = last["kind"] == "ended"
        if not ended:
            self.defects.append(f"{self._file}:{lines[-1][0]}: a part that was begun and never ended")
        entries = tuple(self._entries(lines))
        self._parts.append(
            PartRead(file=self._file, part=part, entries=entries, ended=ended, ok=ended and last.get("ok") is True)
        )

    def _entries(self, lines: list[tuple[int, dict[str, Any]]]) -> Iterator[Entry]:
        at = 0
        while at < len(lines):
            number, first = lines[at]
            body: list[bytes] = []
            pieces: list[tuple[float, bytes]] = []
            carries = False
            while True:
                found = lines[at][1]
                carries = carries or not {"body", "body_b64", "chunks"}.isdisjoint(found)
                try:
                    body += _body(found)
                    pieces += _pieces(found)
                except (ValueError, TypeError, binascii.Error):
                    self.defects.append(f"{self._file}:{lines[at][0]}: a body or chunks that are none")
                at += 1
                if found.get("more") is not True or at >= len(lines) or lines[at][1]["kind"] != first["kind"]:
                    break
            yield Entry(
                kind=first["kind"],
                t=first["t"],
                seq=first["seq"],
                line=number,
                fields={name: value for name, value in first.items() if name not in _LAW_FIELDS},
                body=b"".join([*body, *(data for _, data in pieces)]) if carries else None,
                pieces=tuple(pieces),
            )


def _body(found: dict[str, Any]) -> list[bytes]:
    text, encoded = found.get("body"), found.get("body_b64")
    if isinstance(encoded, str):
        return [base64.b64decode(encoded, validate=True)]
    if text is None:
        return []
    # Whoever writes in another language may put a value there as it is.
    return [text.encode() if isinstance(text, str) else msgspec.json.encode(text)]


def _pieces(found: dict[str, Any]) -> list[tuple[float, bytes]]:
    said = []
    for one in found.get("chunks", ()):
        at_ms, text = float(one[0]), one[1]
        if text is not None and not isinstance(text, str):
            raise TypeError
        said.append((at_ms, text.encode() if text is not None else base64.b64decode(one[2], validate=True)))
    return said
