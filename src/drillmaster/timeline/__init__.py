"""The only writer and opener of evidence files.

1. A line is one `write` on a descriptor opened with O_APPEND: between living writers nothing tears. A writer that is
   killed, or a disk that is full, leaves a torn line; so a line of `mark` begins with a newline, and so does ours where
   the file does not end with one.
2. A worker's `mark` never raises, never waits for a thread, and says each kind of trouble once. Our own `Writer` always
   raises: a drill that cannot write its evidence lifts its faults and aborts.
3. A path that is no regular file (a FIFO, a folder, a link, a device) is refused, never waited for.
4. Nothing of ours is longer than 4 kB a line.

A worker that imports `mark` pays for `mark`: the rest is imported when it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drillmaster.timeline.folder import is_evidence, read_seal, seal_run, verify_run
    from drillmaster.timeline.marks import mark
    from drillmaster.timeline.opening import Unwritable, chunks, open_evidence
    from drillmaster.timeline.writer import Writer, append

__all__ = [
    "Unwritable",
    "Writer",
    "append",
    "chunks",
    "is_evidence",
    "mark",
    "open_evidence",
    "read_seal",
    "seal_run",
    "verify_run",
]

_LATER = {
    "Unwritable": "opening",
    "Writer": "writer",
    "append": "writer",
    "chunks": "opening",
    "is_evidence": "folder",
    "mark": "marks",
    "open_evidence": "opening",
    "read_seal": "folder",
    "seal_run": "folder",
    "verify_run": "folder",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"drillmaster.timeline.{_LATER[name]}"), name)
    raise AttributeError(f"module 'drillmaster.timeline' has no attribute {name!r}")
