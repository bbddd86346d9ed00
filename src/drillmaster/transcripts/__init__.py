"""Transcripts: what was said in a mission, line by line, and nothing that is a secret.

1. The law of lines, parts and whole transcripts is in `rules/transcripts.py`. Here they are written and read.
2. What is written has been screened before, with its length kept: a secret becomes as many `*` as it had bytes. Text that comes
   in pieces (chunks, events of a stream, frames of a WebSocket) is screened as one text, so that no cut hides a secret.
3. A record is written when it is over: what streams is kept until its end, with the time of each piece, and at most
   `RECORD_CAP_BYTES` of it. The rest is counted (`clipped_bytes`).
4. Bytes that are no UTF-8 are written in base64, after they were screened.
5. Who reads a run reads what is sealed of it, no more.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drillmaster.transcripts.composing import Composer, Piece, Record
    from drillmaster.transcripts.reading import Entry, Transcript, read_census, read_folder, read_mission, read_started
    from drillmaster.transcripts.redacting import redact, redact_headers, redact_text, redact_url

__all__ = [
    "Composer",
    "Entry",
    "Piece",
    "Record",
    "Transcript",
    "read_census",
    "read_folder",
    "read_mission",
    "read_started",
    "redact",
    "redact_headers",
    "redact_text",
    "redact_url",
]

_LATER = {
    "Composer": "composing",
    "Piece": "composing",
    "Record": "composing",
    "Entry": "reading",
    "Transcript": "reading",
    "read_census": "reading",
    "read_folder": "reading",
    "read_mission": "reading",
    "read_started": "reading",
    "redact": "redacting",
    "redact_headers": "redacting",
    "redact_text": "redacting",
    "redact_url": "redacting",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"drillmaster.transcripts.{_LATER[name]}"), name)
    raise AttributeError(f"module 'drillmaster.transcripts' has no attribute {name!r}")
