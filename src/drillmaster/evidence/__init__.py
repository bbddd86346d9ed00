"""Evidence as it lies in a run folder: what a line is, what a manifest says, what a seal covers. Bytes in, values out.

1. A timeline is one JSON object a line, UTF-8. `t` (RFC 3339 with a zone) and `event` are required.
2. A line that is torn, foreign, undated or says a thing twice is a defect with its number. It never disappears. Blank
   lines are no lines: a careful writer begins with a newline. Numbers count every newline, so an editor finds them.
3. Order is by time, not by place in the file. No field overrides the clock: `t` is the time, and in our own files `ns`
   (nanoseconds of the monotonic clock since the run began, the same for every process of the machine) is the span.
4. A seal covers a prefix of each file: bytes, lines and digests. What was written behind it is late, not tampering, in
   files that are appended to (`*.jsonl`); in any other file it is a change.
5. Digests prove, line checks point. A sha256 over the prefix and one per 256 lines say whether, and in which block, a
   file changed; a CRC-32 per line says which line, also where lines were dropped, put in or moved.
"""

from drillmaster.evidence.lines import LINE_CAP_BYTES, OrderWatch, by_time, rows
from drillmaster.evidence.sealing import BLOCK_LINES, SealBuilder, check_file, make_seal, seal_head
from drillmaster.evidence.shapes import (
    Change,
    ChangeKind,
    Defect,
    DefectKind,
    FileCheck,
    FileReport,
    Manifest,
    Row,
    Seal,
    SealedFile,
    SealReport,
    Signature,
)

__all__ = [
    "BLOCK_LINES",
    "LINE_CAP_BYTES",
    "Change",
    "ChangeKind",
    "Defect",
    "DefectKind",
    "FileCheck",
    "FileReport",
    "Manifest",
    "OrderWatch",
    "Row",
    "Seal",
    "SealBuilder",
    "SealReport",
    "SealedFile",
    "Signature",
    "by_time",
    "check_file",
    "make_seal",
    "rows",
    "seal_head",
]
