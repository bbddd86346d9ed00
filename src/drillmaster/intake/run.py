"""Runs as evidence: a sealed folder, or one bare file through the other door.

1. A run folder is read to its sealed end and no further. What was written behind it is counted as late.
2. A folder without a seal, or whose sealed prefix changed, is still read, so that the refusal can say what there is.
3. A bare file is read whole. It is UNSEALED and UNPROVEN, whatever it holds.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from drillmaster import strict, timeline
from drillmaster.errors import Problem
from drillmaster.evidence import Defect, Manifest, Row, rows
from drillmaster.outcomes import Run, join, join_bare

__all__ = ["open_bare", "open_run"]

_FOLDER_HINT = "name a run folder (runs/ID), or judge one file with --unsealed"


def open_run(path: Path) -> Run:
    """Read a run folder. Raises Problem when it is none."""
    manifest_path = path / "manifest.json"
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        remedy = f"drillmaster gate eviction {path} --unsealed ..." if path.is_file() else _FOLDER_HINT
        raise Problem(str(path), found=found, wanted="a run folder", remedy=remedy)
    if not manifest_path.exists():
        raise Problem(str(path), found="no manifest.json", wanted="a run folder", remedy=_FOLDER_HINT)
    raw = b"".join(timeline.chunks(manifest_path))
    manifest = strict.load_as(raw, Manifest, place=str(manifest_path), fmt="json")
    report = timeline.verify_run(path)
    limits = {name: sealed.bytes for name, sealed in report.seal.files.items()} if report.seal else {}
    problems = [f"{c.file}{f':{c.line}' if c.line else ''} {c.what}" for c in report.changes]
    if report.seal is None:
        problems = ["not sealed"]
    names = sorted(p.relative_to(path).as_posix() for p in (path / "events").glob("*.jsonl"))
    return join(
        manifest,
        _lines(path, ["timeline.jsonl", *names], limits if report.seal else None),
        seal_problems=problems,
        late=report.late_lines,
        digest=report.seal.head if report.seal else "",
        signed_by="",
    )


def open_bare(path: Path) -> Run:
    """Read one timeline file, as anybody's four-line helper writes it. Raises Problem when it is no regular file."""
    sha256 = hashlib.sha256()

    def hashed(chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            sha256.update(chunk)
            yield chunk

    found = list(rows(hashed(timeline.chunks(path)), file=path.name))
    return join_bare(path.name, found, digest=f"sha256:{sha256.hexdigest()}")


def _lines(path: Path, names: list[str], limits: dict[str, int] | None) -> Iterator[Row | Defect]:
    for name in names:
        if limits is not None and name not in limits:
            continue  # came after the seal: verify_run names it
        if (path / name).exists():
            yield from rows(timeline.chunks(path / name, limit_bytes=limits[name] if limits else None), file=name)
