"""Runs as evidence: a sealed folder, or one bare file through the other door.

1. A run folder is read to its sealed end and no further. What was written behind it is counted as late.
2. A folder without a seal, or whose sealed prefix changed, is still read, so that the refusal can say what there is.
3. A bare file is read whole. It is UNSEALED and UNPROVEN, whatever it holds.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
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
    names = sorted(p.relative_to(path).as_posix() for p in (path / "events").glob("*.jsonl"))
    if not (path / "seal.json").exists():
        lines = _lines(path, dict.fromkeys(("timeline.jsonl", *names)))
        return join(manifest, lines, seal_problems=("not sealed",))
    report = timeline.verify_run(path)
    sealed = {name: file.bytes for name, file in report.files.items() if name.endswith(".jsonl")}
    return join(
        manifest,
        _lines(path, sealed),  # a file that came after the seal is not read: the report names it
        seal_problems=[f"{c.file}{f':{c.line}' if c.line else ''} {c.kind}: {c.what}" for c in report.changes],
        late=sum(file.late_lines for file in report.files.values()),
        digest=report.head,
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


def _lines(path: Path, sealed_bytes: Mapping[str, int | None]) -> Iterator[Row | Defect]:
    for name, limit_bytes in sealed_bytes.items():
        if (path / name).is_file():
            yield from rows(timeline.chunks(path / name, limit_bytes=limit_bytes), file=name)
