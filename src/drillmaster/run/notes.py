"""The Scribe's lines: what may be said, how much of it, and which the gate will ask for."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.conduct import State
from drillmaster.errors import Refused
from drillmaster.screen import screen_text
from drillmaster.timeline import Writer

__all__ = ["MAX_NAME_CHARS", "MAX_NOTE_CHARS", "Notes", "Scene", "Scribe", "shown"]

MAX_NOTES = 500
MAX_NOTE_CHARS = 1_000
MAX_NAME_CHARS = 100


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What a stand-in Scribe sees, once a second: the state, and what users got since the injection, by word."""

    state: State
    since_injection: Mapping[str, int]
    run_dir: Path


Note = Callable[[str, str], None]
"""Write a Scribe's line: kind, text."""
Scribe = Callable[[Scene, Note], None]


class Notes:
    """One drill's, in a file of their own."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._kinds: set[str] = set()
        self._count = 0

    def write(self, kind: str, text: str, by: str, seen_at: str) -> str:
        """Write a line; what was written, as it is shown. Raises Refused for what is too long, and what the writer does."""
        for what, found, at_most in (("text", text, MAX_NOTE_CHARS), ("--by", by, MAX_NAME_CHARS)):
            if len(found) > at_most:
                raise Refused(
                    f"note {what}",
                    found=f"{len(found)} characters",
                    wanted=f"at most {at_most}",
                    remedy="say it in fewer words",
                )
        if seen_at and (len(seen_at) > MAX_NAME_CHARS or parse_rfc3339(seen_at) is None):
            raise Refused(
                "note --seen-at",
                found=shown(seen_at[:MAX_NAME_CHARS]),
                wanted="RFC 3339 with a zone",
                remedy="write 2026-11-29T15:40:20Z",
            )
        self._count += 1
        if self._count > MAX_NOTES:
            raise Refused("note", found=f"{MAX_NOTES} notes", wanted="fewer", remedy="say it in fewer lines")
        said = {"kind": kind, "text": shown(text), "by": shown(by)} | ({"seen_at": seen_at} if seen_at else {})
        self._writer.write("note", **said)
        self._kinds.add(kind)
        return f"note  {kind}  {said['text']}".rstrip()

    def missing(self) -> list[str]:
        """What the gate will ask for and nobody has said yet."""
        missing = [kind for kind in ("injection_seen", "window_ended") if kind not in self._kinds]
        if not self._kinds & {"first_fallback_seen", "no_fallback_seen"}:
            missing.insert(1 if "injection_seen" in missing else 0, "first_fallback_seen (or no_fallback_seen)")
        return missing


def shown(text: str) -> str:
    """What somebody wrote, on one line, screened, and without a character that a terminal would obey."""
    return screen_text("".join(char if char.isprintable() else " " for char in text))
