"""Runs as evidence: a sealed folder, or one bare file through the other door.

1. A run folder is read to its sealed end and no further. What was written behind it is counted as late.
2. A folder without a seal, or whose sealed prefix changed, is still read, so that the refusal can say what there is.
3. A bare file is read whole. It is UNSEALED and UNPROVEN, whatever it holds.
4. Names of files go into verdicts, which are text: a byte of theirs that is no UTF-8, or would move a cursor, is an escape.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from drillmaster import strict, timeline
from drillmaster.errors import Problem, one_line
from drillmaster.evidence import Defect, Manifest, Row, rows
from drillmaster.intake import is_there, read_bytes
from drillmaster.outcomes import Run, join, join_bare

__all__ = ["open_bare", "open_run"]

MANIFEST_CAP_BYTES = 16 << 20
_FOLDER_HINT = "name a run folder (runs/ID), or judge one file with --unsealed"


def open_run(path: Path) -> Run:
    """Read a run folder. Raises Problem when it is none."""
    manifest_path = path / "manifest.json"
    if not is_there(path) or not path.is_dir():
        found = "a file" if is_there(path) else "nothing"
        remedy = f"drillmaster gate eviction {path} --unsealed ..." if is_there(path) else _FOLDER_HINT
        raise Problem(str(path), found=found, wanted="a run folder", remedy=remedy)
    if not is_there(manifest_path):
        raise Problem(str(path), found="no manifest.json", wanted="a run folder", remedy=_FOLDER_HINT)
    raw = read_bytes(manifest_path, MANIFEST_CAP_BYTES)
    try:
        manifest = strict.load_as(raw, Manifest, place=str(manifest_path), fmt="json")
    except Problem as problem:
        raise _of_an_interview(path, raw) or problem from None
    if not is_there(path / "seal.json"):
        names = sorted(p.relative_to(path).as_posix() for p in (path / "events").glob("*.jsonl"))
        there = [name for name in ("timeline.jsonl", *names) if (path / name).is_file()]
        lines = _lines(path, dict.fromkeys(there), {})
        return join(manifest, lines, place=one_line(str(path)), seal_problems=("not sealed",))
    report = timeline.verify_run(path, read_lines=False)
    sealed = timeline.read_seal(path).files
    problems = [f"{one_line(c.file)}{f':{c.line}' if c.line else ''} {c.kind}: {c.what}" for c in report.changes]
    # A file that came after the seal is not read: the report names it.
    limits = {n: file.bytes for n, file in sealed.items() if n.endswith(".jsonl") and (path / n).is_file()}
    digests = {"manifest.json": hashlib.sha256(raw).hexdigest()}
    run = join(
        manifest,
        _lines(path, limits, digests),
        place=one_line(str(path)),
        seal_problems=problems,
        late=sum(file.late_lines for file in report.files.values()),
        digest=report.head,
    )
    # What was read must be what was verified: between the two anybody may have written.
    moved = [name for name, sha256 in digests.items() if name not in sealed or sealed[name].sha256 != sha256]
    if moved and not problems:
        problems = [f"{name} changed while it was read" for name in moved]
        run = msgspec.structs.replace(run, seal_problems=tuple(problems))
    return run


def _of_an_interview(path: Path, raw: bytes) -> Problem | None:
    """What to say of a manifest that is no drill's because it is an interview's; None for any other."""
    with contextlib.suppress(msgspec.DecodeError):
        said = msgspec.json.decode(raw)
        if isinstance(said, dict) and said.get("drill") == "interview":
            place = one_line(str(path))
            return Problem(
                place,
                found="the run of a load interview",
                wanted="the run of a drill with faults",
                remedy=f"drillmaster gate interview {place} --policy gate.json",
            )
    return None


def open_bare(path: Path) -> Run:
    """Read one timeline file, as anybody's four-line helper writes it. Raises Problem when it is no regular file."""
    digests: dict[str, str] = {}
    found = list(_lines(path.parent, {path.name: None}, digests))
    return join_bare(one_line(path.name), found, place=one_line(str(path)), digest=f"sha256:{digests[path.name]}")


def _lines(folder: Path, limits_bytes: Mapping[str, int | None], digests: dict[str, str]) -> Iterator[Row | Defect]:
    """Read files up to their limits, one pass, and leave the digest of what was read in `digests`."""
    for name, limit_bytes in limits_bytes.items():
        sha256 = hashlib.sha256()
        yield from rows(_hashed(timeline.chunks(folder / name, limit_bytes=limit_bytes), sha256), file=one_line(name))
        digests[name] = sha256.hexdigest()


def _hashed(chunks: Iterable[bytes], sha256: "hashlib._Hash") -> Iterator[bytes]:
    for chunk in chunks:
        sha256.update(chunk)
        yield chunk
