"""A verdict in its forms: text for people, and what machines and code hosts read."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from drillmaster.verdict import Verdict

__all__ = ["FORMS", "Says", "rendered", "summarise"]

FORMS = ("text", "json", "junit", "sarif", "github", "markdown")


class Says(NamedTuple):
    """How a verdict is told. `outputs` are forms with the files they go to; `mapped`: exit as the article's script did."""

    form: str
    outputs: tuple[tuple[str, Path], ...]
    now_ns: int
    mapped: bool
    quiet: bool = False
    """In text: no line of a check that passed."""


def rendered(
    verdict: "Verdict", form: str, closing: tuple[str, ...] = (), *, colour: bool = False, quiet: bool = False
) -> str:
    """Write a verdict in one form; `closing` lines stand above the last line of the text."""
    from drillmaster import reports
    from drillmaster.errors import one_line

    if form != "text":
        text: str = reports.form(form).render(verdict)
        return text
    text = reports.form("text").render(verdict, colour=colour, quiet=quiet)
    above, _, last = text.rstrip("\n").rpartition("\n")
    return "\n".join([*([above] if above else []), *map(one_line, closing), last, ""])


def summarise(card: str) -> None:
    """Add a card to the step's summary, which other steps write too. The host drops what is past 1 MiB without a word."""
    from drillmaster.reports.markdown import MOST_BYTES

    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("ab") as file:
            if file.tell() + len(card.encode()) > MOST_BYTES:
                card = "The summary is full; the log has the verdict.\n"
            file.write(card.encode("utf-8", "backslashreplace"))
    except OSError as error:  # a summary is a courtesy: the verdict stands in the log and in the exit code
        print(f"drillmaster: no step summary: {error.strerror}", file=sys.stderr)
