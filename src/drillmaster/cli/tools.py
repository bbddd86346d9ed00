"""`drillmaster tools`: the allow-list of the tools that an agent may call."""

import sys

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem, one_line

__all__ = ["command"]


@click.group("tools", cls=Verb)
def command() -> None:
    """Write the allow-list of the tools that an agent may call; `drillmaster gate tools` judges it.

    \b
    Examples:
      drillmaster tools pin files=answer.json --into tools.allow.json
      drillmaster gate tools tools.allow.json
    """


@command.command("pin")
@click.argument("offered", metavar="[SERVER=]FILE...", nargs=-1, shell_complete=completions.files)
@click.option(
    "--into",
    metavar="LIST",
    help="Bring this allow-list up to date instead of printing a new one.",
    shell_complete=completions.files,
)
def pin(offered: tuple[str, ...], into: str | None) -> None:
    """Pin tools by the JSON that their servers offer.

    Each FILE is a server's answer to tools/list, called after the server or named SERVER=FILE. What comes out has a contract for
    each tool, closed and pinned, with origin, signed_by and privileges blank: those are a person's to fill in.

    \b
    Examples:
      drillmaster tools pin tools.offered/files.json > tools.allow.json
      drillmaster tools pin files=answer.json --into tools.allow.json
    """
    import json
    from pathlib import Path

    from drillmaster import strict
    from drillmaster.gates.tools import Listing
    from drillmaster.intake import is_there, read_bytes
    from drillmaster.intake.mcp_files import CAP_BYTES
    from drillmaster.intake.tool_pins import pinned
    from drillmaster.intake.tools import offered_at
    from drillmaster.intake.written import write_whole

    if not offered:
        raise Problem(
            "tools pin",
            found="no file",
            wanted="what a server offers: its answer to tools/list",
            remedy="drillmaster tools pin tools.offered/SERVER.json",
        )
    old = None
    if into is not None and is_there(into):
        value = strict.load(read_bytes(into, CAP_BYTES), place=into, fmt="json", cap_bytes=CAP_BYTES)
        old = Listing(place=into, value=value)
        if not old.ours:
            raise Problem(
                into,
                found="the article's form, which has no place for pins",
                wanted="a list of kind tool-allowlist",
                remedy="print a new one, and move the contracts over: drillmaster tools pin FILE > NEW",
            )
    made, said = pinned([one for file in offered for one in offered_at(file)], old)
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if into is None:
        click.echo(text, nl=False)
    else:
        write_whole(Path(into), text)
    for line in said:
        print(one_line(line), file=sys.stderr)
