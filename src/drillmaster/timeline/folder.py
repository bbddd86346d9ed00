"""A run's folder: sealed once, and looked at as often as anybody likes."""

import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from drillmaster.clock import Clock, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.evidence import (
    Change,
    Defect,
    DefectKind,
    FileReport,
    Seal,
    SealBuilder,
    SealedFile,
    SealReport,
    Signature,
    check_file,
    make_seal,
    rows,
    seal_head,
)
from drillmaster.signing import fits
from drillmaster.strict import load_as, name_fault
from drillmaster.timeline.opening import Unwritable, chunks, complaint, open_evidence, read_whole
from drillmaster.timeline.writer import sync_folder

__all__ = ["SEAL", "is_evidence", "read_seal", "seal_run", "verify_run"]

SEAL = "seal.json"
SEAL_CAP_BYTES = 64 << 20
LATE_CAP_BYTES = 64 << 20
"""How far behind its sealed end a file is read, to count late lines and to find sealed ones that moved."""
_INPUTS = frozenset({"plan.yaml", "policy.yaml"})
_MADE_LATER = frozenset({"seal", "verdict", "card", "report"})
_SAFE_NAME = re.compile(r"(events/|transcripts/)?[^/\0]+")
_INSIDE = ("events", "transcripts")
_APPENDED = (".jsonl", ".ndjson")
_FIRST_DEFECTS = 20


def is_evidence(name: str) -> bool:
    """Say whether a file of a run folder is sealed.

    All of `events/` and `transcripts/` is, and of the folder itself all that is not made from the seal (`seal`, `verdict`,
    `card`, `report`) and does not begin with a dot.
    """
    folder, _, base = name.rpartition("/")
    if base.startswith(".") or base.endswith(".sig"):
        return False
    return folder in _INSIDE or (folder == "" and base.partition(".")[0] not in _MADE_LATER)


def evidence_files(run_dir: Path) -> Iterator[str]:
    """List a run's files of evidence, in order, whatever kind of file they are. Raises Problem where there is no run."""
    try:
        here = sorted(entry.name for entry in os.scandir(run_dir) if not entry.is_dir(follow_symlinks=False))
        inside: list[str] = []
        for name in _INSIDE:
            folder = run_dir / name
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise Problem(
                    os.fspath(folder), found="no folder", wanted="the run's own folder", remedy="put the folder back"
                )
            if folder.exists():
                inside += sorted(f"{name}/{entry.name}" for entry in os.scandir(folder))
    except OSError as error:
        found, remedy = complaint(error)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            remedy = "name one, such as runs/<id>"
        raise Problem(
            os.fsdecode(error.filename or run_dir), found=found, wanted="a run's folder", remedy=remedy
        ) from None
    yield from (name for name in [*inside, *here] if is_evidence(name))


def seal_run(run_dir: Path, clock: Clock) -> Seal:
    """Put everything on the disk, digest it, and write `seal.json`, whole or not at all.

    A run that is sealed and unchanged keeps its seal, which is returned. Raises Refused where it has changed since,
    Problem where the folder is no run or holds a file of a name that no seal can say, Unwritable where the seal cannot be
    written.
    """
    # A FIFO or a link that somebody put in the place of lines does not keep the rest from being sealed: it is no evidence,
    # and whoever verifies the run is told of it, as of what came later.
    names = [name for name in evidence_files(run_dir) if not name.endswith(_APPENDED) or _is_file(run_dir / name)]
    if "manifest.json" not in names:
        raise Problem(
            os.fspath(run_dir), found="no manifest.json", wanted="a run's folder", remedy="name one, such as runs/<id>"
        )
    if (run_dir / SEAL).exists():
        report = verify_run(run_dir)
        if report.changes:
            raise Refused(
                os.fspath(run_dir),
                found=f"a seal of {report.sealed_at} and files that changed since",
                wanted="a run that is sealed once",
                remedy=f"drillmaster verify {shlex.quote(os.fspath(run_dir))}",
            )
        return read_seal(run_dir)
    for name in names:
        fault = name_fault(name)
        if fault is not None:  # such a seal would be written, and refused by whoever reads it
            raise Problem(
                os.fspath(run_dir / name),
                found=fault,
                wanted="names that a seal can hold",
                remedy="move that file out of the run's folder (`ls -b` shows its name), then: "
                f"drillmaster seal {shlex.quote(os.fspath(run_dir))}",
            )
    seal = make_seal({name: _digest(run_dir / name) for name in names}, sealed_at=rfc3339(clock.wall_ns()))
    for folder in (run_dir / name for name in _INSIDE):
        if folder.is_dir():
            try:
                sync_folder(folder)
            except OSError as error:
                raise _unwritable(folder, error) from error
    data = msgspec.json.format(msgspec.json.encode(seal), indent=1) + b"\n"
    if not _write_once(run_dir, SEAL, data):
        return seal_run(run_dir, clock)  # somebody was quicker; what they sealed is the seal
    return seal


def read_seal(run_dir: Path) -> Seal:
    """Read `seal.json`. Raises Refused where the run is not sealed, Problem where the file is no seal."""
    return _as_seal(run_dir, _seal_bytes(run_dir))


def _seal_bytes(run_dir: Path) -> bytes:
    path = run_dir / SEAL
    try:
        os.lstat(path)
    except FileNotFoundError:
        if not run_dir.is_dir():
            raise Problem(
                os.fspath(run_dir), found="no folder", wanted="a run's folder", remedy="name one, such as runs/<id>"
            ) from None
        remedy = f"drillmaster seal {shlex.quote(os.fspath(run_dir))}"
        raise Refused(os.fspath(run_dir), found="no seal.json", wanted="a sealed run", remedy=remedy) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        found, remedy = complaint(error) if isinstance(error, OSError) else ("a path with a NUL", "mend the path")
        raise Problem(os.fspath(run_dir), found=found, wanted="a run's folder", remedy=remedy) from None
    return read_whole(path, cap_bytes=SEAL_CAP_BYTES)


def _as_seal(run_dir: Path, data: bytes) -> Seal:
    return load_as(data, Seal, place=os.fspath(run_dir / SEAL), fmt="json", cap_bytes=SEAL_CAP_BYTES)


def verify_run(run_dir: Path, *, read_lines: bool = True) -> SealReport:
    """Compare a run with its seal, and name every file and line that changed. Raises like `read_seal`.

    `read_lines` False: what sealed lines say is left to whoever reads them anyway, and no defects are counted.
    """
    said = _seal_bytes(run_dir)
    seal = _as_seal(run_dir, said)
    changes: list[Change] = []
    files: dict[str, FileReport] = {}
    if seal_head(seal) != seal.head:
        changes.append(Change(SEAL, 0, 0, "seal", "the seal's head is not the digest of what it says"))
    if "manifest.json" not in seal.files:
        changes.append(Change(SEAL, 0, 0, "seal", "it does not cover manifest.json, without which nothing is a run"))
    signed: Signature = fits(run_dir / SEAL, said)
    if signed == "stale":
        what = "the signature beside the seal is not one of this seal: the run was sealed again, or the signature is no such"
        changes.append(Change(f"{SEAL}.sig", 0, 0, "altered", what))
    for name, sealed in seal.files.items():
        if _SAFE_NAME.fullmatch(name) is None or not is_evidence(name):
            changes.append(Change(SEAL, 0, 0, "seal", "it names a file that no run has"))
            continue
        changed, files[name] = _verify_file(run_dir / name, name, sealed, read_lines)
        changes.extend(changed)
    for name in evidence_files(run_dir):
        # Another kind of file in the folder, a person's notes, or the transcripts of a worker that goes on, is read by nobody;
        # these would be.
        if name in seal.files:
            continue
        if name in _INPUTS or name.startswith(("events/", "samples.")) or name.endswith(".jsonl"):
            changes.append(Change(name, 0, 0, "added", "it was not there when the run was sealed"))
    return SealReport(
        run=run_dir.resolve().name,
        sealed_at=seal.sealed_at,
        head=seal.head,
        files=files,
        changes=tuple(changes),
        signed=signed,
    )


def _verify_file(path: Path, name: str, sealed: SealedFile, read_lines: bool) -> tuple[tuple[Change, ...], FileReport]:
    appended = name.endswith(_APPENDED)
    kinds: dict[DefectKind, int] = {}
    first: list[Defect] = []
    late_lines = late_bytes = 0
    try:
        # However much a worker has written behind the seal, or made a file of holes: what is behind the cap is only sized.
        said = chunks(path, limit_bytes=sealed.bytes + LATE_CAP_BYTES)
        check = check_file(sealed, said, file=name, appended=appended)
        changes, late_lines, late_bytes = check.changes, check.late_lines, check.late_bytes
        if late_bytes >= LATE_CAP_BYTES:
            late_bytes = max(late_bytes, os.stat(path, follow_symlinks=False).st_size - sealed.bytes)  # noqa: PTH116 - one call
        if name.endswith(".jsonl") and read_lines:
            for row in rows(chunks(path, limit_bytes=sealed.bytes), file=name):
                if isinstance(row, Defect):
                    kinds[row.kind] = kinds.get(row.kind, 0) + 1
                    if len(first) < _FIRST_DEFECTS:
                        first.append(row)
    except Problem as problem:
        missing = _is_gone(path)
        what = "the sealed file is gone" if missing else f"in its place is {problem.found}"
        changes = (Change(name, 0, 0, "missing" if missing else "altered", what),)
    except OSError as error:
        changes = (Change(name, 0, 0, "altered", f"it cannot be read: {complaint(error)[0]}"),)
    return changes, FileReport(sealed.lines, sealed.bytes, late_lines, late_bytes, kinds, tuple(first))


def _is_gone(path: Path) -> bool:
    """Whether nothing is there; what may not be looked at is there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return True  # whoever opens it says what is wrong


def _digest(path: Path) -> SealedFile:
    """Sync and digest a file as long as it is now; what is written meanwhile is late."""
    fd = open_evidence(path)
    try:
        os.fsync(fd)
        size = os.fstat(fd).st_size
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        os.close(fd)
    builder = SealBuilder()
    for chunk in chunks(path, limit_bytes=size):
        builder.feed(chunk)
    return builder.finish()


def _write_once(folder: Path, name: str, data: bytes) -> bool:
    """Write a file that appears whole and synced, or not at all. False when there is one already."""
    draft = folder / f".drillmaster-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(draft, folder / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unwritable(folder / name, error) from error
    return True


def _unwritable(path: Path, error: OSError) -> Unwritable:
    found, remedy = complaint(error)
    return Unwritable(os.fspath(path), found=found, wanted="a file that is written whole", remedy=remedy)
