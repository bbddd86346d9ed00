"""`drillmaster note`: the Scribe's line in the record."""

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem

__all__ = ["command"]


@click.command("note")
@click.argument("kind", shell_complete=completions.notes)
@click.argument("text", nargs=-1)
@click.option(
    "--run",
    metavar="RUN",
    help="The live run's id or folder. Default: the only live one.",
    shell_complete=completions.runs_going_on,
)
@click.option("--by", default="", help="Who saw it. Default: the plan's Scribe.")
@click.option("--seen-at", default="", metavar="TIME", help="When it was seen (RFC 3339), if not just now.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="The Scribe's token. Default: the one in the state folder.",
    shell_complete=completions.files,
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    kind: str, text: tuple[str, ...], run: str | None, by: str, seen_at: str, token_file: str | None, as_json: bool
) -> None:
    """Write down what you see, as you see it.

    KIND is injection_seen, first_fallback_seen, no_fallback_seen, window_ended or other. The gate asks for the first, one of
    the next two, and the end of the window.

    \b
    Examples:
      drillmaster note injection_seen "the Lead said 15:40:02"
      drillmaster note first_fallback_seen "answers are short now" --seen-at 2026-11-29T15:40:20Z
      drillmaster note other "support asks what is going on"
    """
    from drillmaster import strict
    from drillmaster.cli import say_json
    from drillmaster.clock import parse_rfc3339
    from drillmaster.conduct import NOTE_KINDS, Role
    from drillmaster.run.verbs import give_order

    if kind not in NOTE_KINDS:
        near = strict.near(kind, NOTE_KINDS)
        raise Problem(
            "note",
            found=strict.shown(kind),
            wanted=f"one of {', '.join(NOTE_KINDS)}",
            remedy=f"Did you mean {near}?" if near else "write `other`",
        )
    if seen_at and parse_rfc3339(seen_at) is None:
        raise Problem(
            "--seen-at", found=strict.shown(seen_at), wanted="RFC 3339 with a zone", remedy="write 2026-11-29T15:40:20Z"
        )
    words = " ".join(text)
    if len(words) > 1000:
        raise Problem("note", found=f"{len(words)} characters", wanted="at most 1,000", remedy="say it in fewer words")
    name, told = give_order(
        "note", run=run, token_file=token_file, seat=Role.SCRIBE, kind=kind, text=words, by=by, seen_at=seen_at
    )
    if as_json:
        say_json({"run": name, "state": told.state, "text": told.text})
    else:
        click.echo(f"{told.text}  run {name}")
