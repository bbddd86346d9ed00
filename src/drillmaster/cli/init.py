"""`drillmaster init`: a plan and a policy for one's own service."""

import sys
from pathlib import Path

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]

_QUESTIONS = (
    ("/service", "What is the service called?"),
    ("/target/url", "Which URL do its users call?"),
    ("/proxy/upstream", "Which model endpoint does it use (no key)?"),
    ("/seats/lead", "Who is the Lead (injects)?"),
    ("/seats/scribe", "Who is the Scribe (writes down)?"),
    ("/seats/verifier", "Who is the Verifier (judges)?"),
)


@click.group("init")
def command() -> None:
    """Write the files a drill of your own service begins with."""


_DIR = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where to. Default: here.",
    shell_complete=completions.folders,
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print files and open blanks as JSON, and ask nothing.")


@command.command("eviction")
@_DIR
@_JSON
def eviction(folder: Path, as_json: bool) -> None:
    """Write eviction-plan.yaml and eviction-policy.yaml with blanks, each explained where it stands.

    Files that are already there are left as they are. On a terminal a few blanks are asked for; an empty answer leaves
    one open. Limits are never asked for and have no defaults: they come from your runbook.

    \b
    Examples:
      drillmaster init eviction
      drillmaster init eviction --dir drills/
    """
    _make_kit("eviction", folder, as_json=as_json, then="--rehearsal --compress max")


@command.command("matrix")
@_DIR
@_JSON
def matrix(folder: Path, as_json: bool) -> None:
    """Write matrix-plan.yaml with blanks, each explained where it stands.

    Who has a plan of an eviction drill needs none: `drillmaster run matrix eviction-plan.yaml` takes that. A file that is already
    there is left as it is. Limits are those of an eviction drill's policy, which `drillmaster init eviction` writes.

    \b
    Examples:
      drillmaster init matrix
      drillmaster init matrix --dir drills/
    """
    _make_kit("matrix", folder, as_json=as_json, then="--rehearsal --faults reset,503")


def _make_kit(kit: str, folder: Path, *, as_json: bool, then: str) -> None:
    """Write a kit's files, ask on a terminal for a few of the blanks, and say what is left and what to type next."""
    from drillmaster.cli import say_json
    from drillmaster.intake import read_bytes
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import write_new
    from drillmaster.scaffold import blanks, fill, template

    texts = template(kit)
    plan_name = next(iter(texts))
    if not as_json and sys.stdin.isatty() and sys.stderr.isatty() and not (folder / plan_name).exists():
        answers = _asked(blanks(texts[plan_name]))
        texts[plan_name] = fill(texts[plan_name], answers)
    written = {name: write_new(folder / name, text) for name, text in texts.items()}
    open_blanks = {
        name: list(blanks(text if written[name] else read_bytes(folder / name, 1 << 20).decode("utf-8", "replace")))
        for name, text in texts.items()
    }
    if as_json:
        said = {
            "written": [str(folder / name) for name, new in written.items() if new],
            "kept": [str(folder / name) for name, new in written.items() if not new],
            "blanks": {str(folder / name): pointers for name, pointers in open_blanks.items()},
        }
        say_json(said)
        return
    for name, new in written.items():
        state = "written" if new else "was there and is left as it is"
        left = len(open_blanks[name])
        said_left = f", {left} blank{'s' if left != 1 else ''} to fill in" if left else ", no blank left"
        click.echo(f"{folder / name}: {state}{said_left}")
        if left:
            click.echo(f"  {' '.join(open_blanks[name])}")
    first = "fill in the blanks, then " if any(open_blanks.values()) else ""
    plan = short(folder / plan_name)
    click.echo(f"next: {first}drillmaster run {kit} {plan} {then}")


def _asked(examples: dict[str, str]) -> dict[str, str]:
    """Ask for a few blanks; an empty answer leaves one as it is, one that cannot be is asked for again."""
    from drillmaster.sanity import answer_problem

    answers: dict[str, str] = {}
    click.echo("An empty answer leaves the blank for later.", err=True)
    for pointer, question in _QUESTIONS:
        hint = f" [such as {examples[pointer]}]" if examples.get(pointer) else ""
        while answer := click.prompt(f"{question}{hint}", default="", show_default=False, err=True).strip():
            wrong = answer_problem(pointer, answer)
            taken = next((other for other, name in answers.items() if "/seats/" in other and name == answer), None)
            if "/seats/" in pointer and taken:
                wrong = f"{answer} is the {taken.rpartition('/')[2].capitalize()} already: one person, one seat"
            if wrong is None:
                answers[pointer] = answer
                break
            click.echo(f"  {wrong}", err=True)
    return answers
