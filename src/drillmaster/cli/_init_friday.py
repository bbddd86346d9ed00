"""`drillmaster init friday`: the files of a Friday drill, and the pipeline that runs it."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import click

from drillmaster.cli import say_json
from drillmaster.cli._init_asking import asked_for
from drillmaster.intake import read_bytes
from drillmaster.intake.runs import short
from drillmaster.intake.written import write_new
from drillmaster.scaffold import blanks, fill, template
from drillmaster.scaffold.friday import examples, flags_file, missions_file
from drillmaster.scaffold.pipeline import GITHUB, gitlab, workflow

__all__ = ["write_friday"]

_QUESTIONS = (
    ("/service", "What is the service called?"),
    ("/target/url", "What is the agent's base URL?"),
    ("/seats/lead", "Who is the Lead (starts and stops)?"),
    ("/seats/scribe", "Who is the Scribe (keeps the record)?"),
    ("/seats/verifier", "Who is the Verifier (judges)?"),
)
_PLAN, _MATRIX = "friday-plan.yaml", "drill-matrix.yaml"
_GITLAB = "friday.gitlab-ci.yml"
_PIPELINES = (GITHUB, _GITLAB)


def write_friday(
    folder: Path, *, ci: Literal["github", "gitlab"] | None, cron: str | None, load_examples: bool, as_json: bool
) -> None:
    """Write what is not there yet, ask on a terminal for a few of the blanks, and say what is left and what to type next."""
    texts = template("friday")
    known: dict[str, str] = {}
    if not as_json and sys.stdin.isatty() and sys.stderr.isatty() and not (folder / _PLAN).exists():
        known = asked_for(blanks(texts[_PLAN]), _QUESTIONS)
    texts[_PLAN] = fill(texts[_PLAN], known)
    service = known.get("/service")
    if service is not None:
        texts[_MATRIX] = fill(texts[_MATRIX], {"/service": service})
    texts["flags.yaml"] = flags_file(
        service="" if service is None else json.dumps(service), today=datetime.now(UTC).date()
    )
    texts["missions.yaml"] = missions_file()
    if load_examples:
        texts |= examples()
    if ci == "github":
        texts[GITHUB] = workflow(cron=cron)
    elif ci == "gitlab":
        texts[_GITLAB] = gitlab()
    written = {name: write_new(folder / name, text) for name, text in texts.items()}
    open_blanks = {
        name: list(blanks(text if written[name] else read_bytes(folder / name, 1 << 20).decode("utf-8", "replace")))
        for name, text in texts.items()
        if name in (_PLAN, _MATRIX, "flags.yaml")
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
        left = open_blanks.get(name, [])
        state = "written" if new else "was there and is left as it is"
        said_left = f", {len(left)} blank{'s' if len(left) != 1 else ''} to fill in" if left else ", no blank left"
        if name in _PIPELINES:
            said_left = "; how staging starts and stops is yours to write, and keys and wheel too: docs/howto/friday-pipeline.md"
        click.echo(f"{folder / name}: {state}{said_left}")
        if left:
            click.echo(f"  {' '.join(left)}")
    plan = short(folder / _PLAN)
    first = "fill in the blanks, then " if any(open_blanks.values()) else ""
    click.echo("secret of the alert's sender: export DRILL_ALERT_TOKEN=$(openssl rand -hex 24)")
    click.echo(f"next: {first}drillmaster run friday {plan} --rehearsal --compress max")
