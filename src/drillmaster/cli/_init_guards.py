"""`drillmaster init guards`: a guards file with blanks, some of them asked for."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

__all__ = ["write_guards_file"]

FILE = "guards.yaml"
QUESTIONS = (
    ("/source", "Which document do the limits come from?"),
    ("/owner", "Who answers for them?"),
    ("/review_by", "Until which day do they hold?"),
)


def write_guards_file(folder: Path, tags: Sequence[str], *, as_json: bool) -> None:
    """Write it, or leave the one that is there as it is; say what is open and what to type next."""
    from drillmaster.cli import say_json
    from drillmaster.clock import parse_rfc3339
    from drillmaster.intake import read_bytes
    from drillmaster.intake.guards_files import kind_of
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import write_new
    from drillmaster.scaffold import blanks, fill
    from drillmaster.scaffold.guards_file import guards_template

    tags = tuple(dict.fromkeys(tags))
    path = folder / FILE
    text = guards_template(tags)
    if not as_json and sys.stdin.isatty() and sys.stderr.isatty() and not path.exists():
        examples, answers = blanks(text), {}
        click.echo("An empty answer leaves the blank for later.", err=True)
        for pointer, question in QUESTIONS:
            while answer := click.prompt(
                f"{question} [such as {examples[pointer]}]", default="", show_default=False, err=True
            ).strip():
                if pointer != "/review_by" or parse_rfc3339(f"{answer}T00:00:00Z") is not None:
                    answers[pointer] = answer
                    break
                click.echo("  a day such as 2027-02-28", err=True)
        text = fill(text, answers)
    new = write_new(path, text)
    left = list(blanks(text if new else read_bytes(path, 1 << 20).decode("utf-8", "replace")))
    if as_json:
        said = {"written": [str(path)] if new else [], "kept": [] if new else [str(path)], "blanks": {str(path): left}}
        say_json(said)
        return
    state = "written" if new else "was there and is left as it is"
    click.echo(f"{path}: {state}, {f'{len(left)} blanks to fill in' if left else 'no blank left'}")
    if left:
        click.echo(f"  {' '.join(left)}")
    shown = short(path)
    click.echo(f"next: {'fill in the blanks, then ' if left else ''}drillmaster guard check {shown}")
    counted = [tag for tag in tags if kind_of(tag).by_law]
    if counted:
        click.echo(
            f"{' and '.join(counted)} count{'s' if len(counted) == 1 else ''} in a store that workers share, "
            "which is prepared once: drillmaster store prepare sqlite:guards.db"
        )
