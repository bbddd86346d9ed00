"""`drillmaster mark`: one line for the timeline, by hand or from a shell script."""

import difflib
import os
import re
import sys
from pathlib import Path

import click

from drillmaster.errors import Problem

__all__ = ["command", "parse_field"]

_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?", re.ASCII)
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_READ = (
    "user_request", "model_ok", "fallback_engaged", "unhandled_exception", "fault_injected", "fault_lifted",
    "alert_fired", "alert_acked", "note", "drill_started", "drill_ended", "phase_started",
)  # fmt: skip  # words, a line at a time
"""Events that a reader of the timeline looks for; others are kept, and nobody asks for them."""
_ALWAYS_TEXT = frozenset({"id", "path", "phase", "kind", "text", "by", "rule", "severity"})
_TIMES = frozenset({"seen_at"})


def parse_field(argument: str) -> tuple[str, str | int | float | bool | None]:
    """Read `key=value`: a plain number, true, false or null is that; all else, and the frozen text fields, is text.

    curl's `status=000`, no connection, is the number 0.
    """
    from drillmaster.clock import parse_rfc3339

    key, equals, text = argument.partition("=")
    if not equals or not key:
        raise Problem(
            "mark", found=f'"{argument}"', wanted="key=value", remedy="drillmaster mark user_request id=r1 status=502"
        )
    if key in ("t", "event", "ns"):
        raise Problem(
            f"mark: {key}",
            found="a field of that name",
            wanted="the time of writing, which the clock says, and the event in front",
            remedy="for a time you saw, write seen_at=2026-11-29T12:00:00Z",
        )
    if key in _TIMES and parse_rfc3339(text) is None:
        raise Problem(
            f"mark: {key}",
            found=f'"{text}"',
            wanted="an RFC 3339 time with a zone",
            remedy=f"{key}=2026-11-29T12:00:00Z",
        )
    if key in _ALWAYS_TEXT or key in _TIMES:
        return key, text
    if key == "status" and text == "000":
        return key, 0
    if text in _WORDS:
        return key, _WORDS[text]
    if _NUMBER.fullmatch(text):
        return key, float(text) if "." in text else int(text)
    return key, text


@click.command("mark")
@click.argument("event")
@click.argument("fields", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--log", type=click.Path(path_type=Path), help="The timeline; by default the file DRILL_LOG names.")
def command(event: str, fields: tuple[str, ...], log: Path | None) -> None:
    """Write one line to the drill's timeline, and exit 0 when it is there.

    The clock stamps the line. 502, 1.5, true, false and null are values, all else is text; id, path, phase, kind, text,
    by, rule and severity are text whatever they look like.

    \b
    Examples:
      drillmaster mark fallback_engaged id=r-17 path=fallback
      drillmaster mark user_request id=r-17 phase=end status=200 ms=412.5
      drillmaster mark note kind=first_fallback_seen text="answers are shorter" by=Sam seen_at=2026-11-29T12:01:07Z
      drillmaster mark alert_fired rule=HighErrorRate severity=page --log runs/ID/timeline.jsonl
    """
    from drillmaster.clock import SystemClock
    from drillmaster.timeline import append

    if not event.strip() or "=" in event:
        raise Problem(
            "mark", found=f'"{event}"', wanted="an event, then fields", remedy="drillmaster mark fallback_engaged id=r1"
        )
    parsed: dict[str, object] = {}
    for argument in fields:
        key, value = parse_field(argument)
        if key in parsed:
            raise Problem(f"mark: {key}", found="it twice", wanted="each field once", remedy=f"write one {key}=")
        parsed[key] = value
    path = log if log is not None else os.environ.get("DRILL_LOG") or None
    if path is None:
        raise Problem(
            "mark",
            found="no DRILL_LOG",
            wanted="a timeline to write to",
            remedy="export DRILL_LOG=/path/of/timeline.jsonl, or add --log FILE",
        )
    try:
        append(path, event, parsed, clock=SystemClock())
    except UnicodeEncodeError:
        raise Problem("mark", found="bytes that are not UTF-8", wanted="text", remedy="write it in UTF-8") from None
    if event not in _READ and (near := difflib.get_close_matches(event.lower().replace("-", "_"), _READ, 1, 0.8)):
        click.echo(f"drillmaster mark: {event} is written, and no gate asks for it; did you mean {near[0]}?", err=True)
    if log is not None and sys.stderr.isatty():
        click.echo(f"{event} -> {path}", err=True)
