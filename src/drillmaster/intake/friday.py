"""The sealed folder of a Friday drill as a gate looks at it.

1. A run folder is read to its sealed end and no further; what was written behind it is counted as late. A folder without a seal,
   or whose sealed prefix changed, is still read, so that the refusal can say what there is.
2. A line of ours that lacks what it has to say is as unreadable as a torn one: both are counted, and refuse. A torn line of a
   worker is counted where it may be one that a row needs.
3. A mission is one id. One that was begun and has no end is open; one that has an end alone was due when that says.
4. Revisions of flags have an order within one server. A server that was started again counts anew, and what workers held of the
   one before is of that one.
5. What a file does not say is not there: a folder without `events/flags.jsonl` is a drill without chaos, and is judged so.
"""

import contextlib
import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import drillmaster
from drillmaster import strict, timeline
from drillmaster.errors import Problem, one_line
from drillmaster.evidence import Defect, Manifest, Row, Seal, rows
from drillmaster.fridays import Friday
from drillmaster.intake import format_of, is_there, read_bytes
from drillmaster.intake._friday_lines import Lines
from drillmaster.judge import judge
from drillmaster.reports import screened
from drillmaster.rules.alerts import Wanted
from drillmaster.rules.tool_recovery import ATTEMPTED, FINISHED, Recovery, recovery
from drillmaster.slo import DrillMatrix, gate_of, load_matrix
from drillmaster.transcripts import read_census
from drillmaster.verdict import Verdict

__all__ = ["Heard", "judge_friday", "judge_seen", "open_friday", "read_manifest", "tools_of"]

Heard = Callable[[int, int], None]
"""Told how many files were begun and how many bytes were read."""

_MANIFEST_CAP_BYTES = 16 << 20
_MATRIX_CAP_BYTES = 1 << 20
_TIMELINE = "timeline.jsonl"
_OURS = ("conductor", "flags", "missions", "detectors")
_TRANSCRIPTS = "transcripts/"
_TOOLS = frozenset({ATTEMPTED, FINISHED})


def judge_friday(
    run_dir: Path, policy: Path, *, now_ns: int, version: str | None = None, heard: Heard | None = None
) -> Verdict:
    """Judge a run folder by a drill matrix. `heard` is told of files and bytes as they are read. Raises Problem."""
    matrix, digest = load_matrix(
        read_bytes(policy, _MATRIX_CAP_BYTES), place=one_line(str(policy)), fmt=format_of(str(policy))
    )
    seen = open_friday(run_dir, tools=tools_of(matrix), heard=heard)
    return judge_seen(run_dir, seen, matrix, digest, now_ns=now_ns, version=version)


def tools_of(matrix: DrillMatrix) -> tuple[str, ...]:
    """Name the tools that rows ask for by name."""
    return tuple(dict.fromkeys(row.tool for row in matrix.rows if row.tool is not msgspec.UNSET))


def judge_seen(
    run_dir: Path, seen: Friday, matrix: DrillMatrix, digest: str, *, now_ns: int, version: str | None = None
) -> Verdict:
    """Judge what was read of a run folder, with the tools that the matrix asks for. Raises Problem."""
    now_ns -= now_ns % 1_000_000_000
    manifest, _ = read_manifest(run_dir)
    friday = seen.as_of(now_ns)
    return screened(
        judge(
            gate_of(matrix),
            friday,
            name="matrix",
            subject=f"{friday.service}, run {friday.run}",
            stamps=friday.stamps,
            pin=matrix.pin,
            policy_digest=digest,
            policy_expected=manifest.policy_sha256,
            evidence_digest=friday.digest,
            evidence_end_ns=friday.started_wall_ns + friday.end_ns,
            counts=dict(friday.examined),
            now_ns=now_ns,
            version=drillmaster.__version__ if version is None else version,
        )
    )


def open_friday(path: Path, *, tools: Iterable[str] = (), heard: Heard | None = None) -> Friday:
    """Read a run's folder. `tools` are counted on their own too. Raises Problem where it is none of a Friday drill."""
    counted = _Counted(heard)
    manifest, raw = read_manifest(path)
    digests = {"manifest.json": hashlib.sha256(raw).hexdigest()}
    seal, problems, late, head = _sealed(path)
    limits: dict[str, int | None] = {}
    if seal is None:
        limits = dict.fromkeys(_named(path))
    else:
        limits = {name: seal.files[name].bytes for name in _named(path) if name in seal.files}
    lines = Lines(manifest)
    with _uncollected():
        for name, limit in limits.items():
            if name != _TIMELINE:
                for row in _rows(path, name, limit, digests, counted):
                    lines.take(row)
        lines.close()
        limit = limits.get(_TIMELINE)
        found = _tools(path, limit, digests, lines, counted) if _TIMELINE in limits else None
        census = _census(path, seal, manifest, lines, counted)
    by_tool = {}
    for tool in tools if _TIMELINE in limits else ():
        rows_of = (
            row
            for row in _rows(path, _TIMELINE, limit, {}, counted)
            if isinstance(row, Row) and row.fields.get("tool") == tool
        )
        by_tool[tool] = recovery(rows_of, started=lines.ids)
    if seal is not None and not problems:
        moved = [
            name for name, sha256 in digests.items() if name not in seal.files or seal.files[name].sha256 != sha256
        ]
        problems = [f"{name} changed while it was read" for name in moved]
    return lines.friday(
        service=manifest.service,
        found=found,
        by_tool=by_tool,
        census=census,
        wanted=_wanted(path),
        late=late,
        seal_problems=tuple(problems),
        digest=head,
    )


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Read without the collector of cycles: of millions of rows none is in one, and to look for some is a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_manifest(path: Path) -> tuple[Manifest, bytes]:
    """Read what a folder says of itself, with its bytes. Raises Problem where it is no run of a Friday drill."""
    place = one_line(str(path))
    if not is_there(path) or not path.is_dir() or not is_there(path / "manifest.json"):
        found = "nothing" if not is_there(path) else "no manifest.json" if path.is_dir() else "a file"
        raise Problem(
            place,
            found=found,
            wanted="the run folder of a Friday drill",
            remedy="name one (runs/ID), as drillmaster run friday leaves it",
        )
    raw = read_bytes(path / "manifest.json", _MANIFEST_CAP_BYTES)
    loaded = strict.load(raw, place=f"{place}/manifest.json", fmt="json")
    drill = loaded.get("drill") if isinstance(loaded, dict) else None
    if drill != "friday":
        raise Problem(
            f"{place}/manifest.json: /drill",
            found=strict.shown(drill),
            wanted='"friday"',
            remedy=f"drillmaster gate {drill} {place} --policy FILE"
            if drill in ("eviction", "interview")
            else "name the run of a Friday drill; see drillmaster gate list",
        )
    return strict.as_type(loaded, Manifest, place=f"{place}/manifest.json"), raw


def _sealed(path: Path) -> tuple[Seal | None, list[str], int, str]:
    if not is_there(path / "seal.json"):
        return None, ["not sealed"], 0, ""
    report = timeline.verify_run(path, read_lines=False)
    problems = [f"{one_line(c.file)}{f':{c.line}' if c.line else ''} {c.kind}: {c.what}" for c in report.changes]
    late = sum(file.late_lines for file in report.files.values())
    return timeline.read_seal(path), problems, late, report.head


def _named(path: Path) -> list[str]:
    """Files that a Friday is read from, the timeline last; a link or a pipe in the place of one is the seal's to name."""
    wanted = [*(f"events/{name}.jsonl" for name in _OURS), _TIMELINE]
    return [name for name in wanted if (path / name).is_file() and not (path / name).is_symlink()]


class _Counted:
    """Counts what is read, and tells somebody."""

    def __init__(self, heard: Heard | None) -> None:
        self._heard = heard
        self._files = self._bytes = 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        self._files += 1
        for chunk in chunks:
            self._bytes += len(chunk)
            if self._heard is not None:
                self._heard(self._files, self._bytes)
            yield chunk


def _rows(
    path: Path, name: str, limit: int | None, digests: dict[str, str], counted: _Counted
) -> Iterator[Row | Defect]:
    sha256 = hashlib.sha256()

    def hashed() -> Iterator[bytes]:
        for chunk in counted.of(timeline.chunks(path / name, limit_bytes=limit)):
            sha256.update(chunk)
            yield chunk

    yield from rows(hashed(), file=name)
    digests[name] = sha256.hexdigest()


def _tools(path: Path, limit: int | None, digests: dict[str, str], lines: Lines, counted: _Counted) -> Recovery:
    """Read the workers' timeline once: tools go to their law, the rest is taken on the way."""

    probe = (
        f"probe-{lines.manifest.run[-4:]}"  # of the mission that the pre-flight sends to see whether the agent is there
    )

    def passing() -> Iterator[Row]:
        for row in _rows(path, _TIMELINE, limit, digests, counted):
            lines.take_worker(row)
            if isinstance(row, Row) and row.event in _TOOLS and row.fields.get("mission") != probe:
                yield row

    return recovery(passing(), started=lines.ids)


def _census(path: Path, seal: Seal | None, manifest: Manifest, lines: Lines, counted: _Counted) -> Any:
    there = (
        any(name.startswith(_TRANSCRIPTS) for name in seal.files)
        if seal is not None
        else (path / _TRANSCRIPTS).is_dir()
    )
    if not there:
        return None
    try:
        return read_census(path, seal, lines.sent, run=manifest.run, passing=counted.of)
    except Problem:
        if seal is None:
            raise
        return None  # a sealed file that is gone, or is none any more: the seal has named it


def _wanted(path: Path) -> tuple[Wanted, ...]:
    """The alerts that the matrix in the folder asks for; none where there is no such matrix, which refuses nothing here."""
    place = path / "policy.yaml"
    if not is_there(place):
        return ()
    try:
        matrix, _ = load_matrix(read_bytes(place, _MATRIX_CAP_BYTES), place=str(place), fmt="yaml")
    except Problem:
        return ()
    found = [row.alert for row in matrix.rows if row.alert is not msgspec.UNSET]
    return tuple(one for at, one in enumerate(found) if one not in found[:at])
