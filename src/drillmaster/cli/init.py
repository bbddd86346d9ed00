"""`drillmaster init`: the files that a drill of one's own service, or the gates of one's own repository, begin with."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._init_asking import Questions, asked_for, wrong

__all__ = ["command"]

_QUESTIONS: Questions = (
    ("/service", "What is the service called?"),
    ("/target/url", "Which URL do its users call?"),
    ("/proxy/upstream", "Which model endpoint does it use (no key)?"),
    ("/seats/lead", "Who is the Lead (injects)?"),
    ("/seats/scribe", "Who is the Scribe (writes down)?"),
    ("/seats/verifier", "Who is the Verifier (judges)?"),
)
_INTERVIEW_QUESTIONS: Questions = (
    ("/job", "Which one job is this about?"),
    ("/target/url", "Which URL does it call (no key)?"),
    ("/target/dialect", "Whose API is it?"),
    ("/target/model", "Which model does it ask for?"),
    ("/seats/driver", "Who is the Driver (runs it)?"),
    ("/seats/reader", "Who is the Reader (signs)?"),
    ("/seats/recorder", "Who is the Recorder (writes the page)?"),
    ("/measured_from", "Where does the load come from?"),
)


class _Init(Verb):
    """The verbs of `init`; whoever names a gate or a guard in their place is told the line that writes its files."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands:
            from drillmaster import gates as of_gates
            from drillmaster import guards as of_guards

            kinds = [
                kind for kind, names in (("gate", of_gates.names()), ("guard", of_guards.names())) if name in names
            ]
            if kinds:
                lines = " or ".join(f"drillmaster init {kind}s --{kind} {name}" for kind in kinds)
                raise click.UsageError(f"No such command {name!r}. It is a {' and a '.join(kinds)}: {lines}", ctx)
        return super().resolve_command(ctx, args)


@click.group("init", cls=_Init, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Write the files that a drill of your own service, or the gates of your repository, begin with.

    Without a word behind it, it looks at the repository here and writes what its gates need: `drillmaster init gates`.

    \b
    Examples:
      drillmaster init
      drillmaster init eviction
      drillmaster init gates --gate contract --gate oracle
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(gates)


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


@command.command("friday")
@click.option("--ci", type=click.Choice(["github", "gitlab"]), help="Write the weekly pipeline too.")
@click.option("--cron", metavar="'M H D M W'", help="When it runs, in UTC. Default: Fridays at 9:17.")
@click.option("--load-examples", is_flag=True, help="Write locustfile.py and artillery.yml too.")
@_DIR
@_JSON
def friday(ci: str | None, cron: str | None, load_examples: bool, folder: Path, as_json: bool) -> None:
    """Write friday-plan.yaml and drill-matrix.yaml with blanks, flags.yaml and missions.yaml, each explained where it stands.

    Files that are already there are left as they are. On a terminal a few blanks are asked for; an empty answer leaves one
    open. Objectives are never asked for and have no defaults: they come from your SLO document.

    \b
    Examples:
      drillmaster init friday
      drillmaster init friday --dir drills/ --ci github
      drillmaster init friday --load-examples --json
    """
    from drillmaster.cli._init_friday import write_friday

    if cron is not None and ci != "github":
        raise click.UsageError("--cron goes with --ci github: GitLab's schedules are made in its own pages")
    write_friday(folder, ci=ci, cron=cron, load_examples=load_examples, as_json=as_json)  # type: ignore[arg-type]  # click's choice


@command.command("interview")
@click.option("--job", metavar="NAME", help="The one recurring job that this is about.")
@click.option("--url", metavar="URL", help="The endpoint's whole URL, as the job calls it, without a key.")
@click.option("--dialect", metavar="NAME", help="Whose API it is: openai_chat, anthropic, ..., or plain.")
@click.option("--model", metavar="NAME", help="The model's name, where the API is asked by one.")
@click.option("--driver", metavar="NAME", help="Who runs it.")
@click.option("--reader", metavar="NAME", help="Who keeps the thresholds and signs.")
@click.option("--recorder", metavar="NAME", help="Who writes the page.")
@click.option("--from", "measured_from", metavar="TEXT", help='Where the load comes from: "CI runner, Frankfurt".')
@_DIR
@_JSON
def interview(
    job: str | None,
    url: str | None,
    dialect: str | None,
    model: str | None,
    driver: str | None,
    reader: str | None,
    recorder: str | None,
    measured_from: str | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Write interview-plan.yaml, interview-policy.yaml and a job for CI, with blanks, each explained where it stands.

    What options say is filled in. On a terminal the rest of the plan is asked for; an empty answer leaves a blank open. Limits are
    never asked for and have no defaults: they are agreed on and written down before anybody sees a number. Files that are already
    there are left as they are.

    \b
    Examples:
      drillmaster init interview
      drillmaster init interview --dir interviews/
      drillmaster init interview --job "diff summary" --url http://127.0.0.1:9000/v1/chat --dialect plain
    """
    given = {
        "/job": job,
        "/target/url": url,
        "/target/dialect": dialect,
        "/target/model": model,
        "/seats/driver": driver,
        "/seats/reader": reader,
        "/seats/recorder": recorder,
        "/measured_from": measured_from,
    }
    answers = _given({pointer: text for pointer, text in given.items() if text is not None})
    _make_kit("interview", folder, as_json=as_json, then="", questions=_INTERVIEW_QUESTIONS, answers=answers)


@command.command("gates")
@click.option(
    "--gate",
    "named",
    metavar="NAME",
    multiple=True,
    help="A gate to write for; can be given again.",
    shell_complete=completions.gates,
)
@click.option("--workflow/--no-workflow", default=None, help="Write a workflow for GitHub. Default: where .github is.")
@_DIR
@_JSON
def gates(
    named: tuple[str, ...] = (), workflow: bool | None = None, folder: Path = Path(), as_json: bool = False
) -> None:
    """Look at a repository, and write the policies and lists of the gates that it has a use for.

    Contracts, migrations, tests, fixtures, MCP configurations and an agent's memory are known by their names; nothing is read.
    Files that are already there are left as they are, and no limit is filled in.

    \b
    Examples:
      drillmaster init gates
      drillmaster init gates --gate contract --dir ../service --json
    """
    from drillmaster.cli._init_repository import write_gates

    write_gates(folder, named, as_json=as_json, workflow=workflow)


@command.command("guards")
@click.option(
    "--guard",
    "named",
    metavar="NAME",
    multiple=True,
    required=True,
    help="A guard to write for; can be given again.",
    shell_complete=completions.guards,
)
@_DIR
@_JSON
def guards(named: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Write guards.yaml: the limits of guards that your workers go by, with blanks, each explained where it stands.

    On a terminal document, owner and day for review are asked for; an empty answer leaves one open. Limits are never asked for and
    have no defaults: they come from your contracts and runbooks. A file that is already there is left as it is.

    \b
    Examples:
      drillmaster init guards --guard quota --guard retry
      drillmaster init guards --guard webhook --dir config/ --json
    """
    from drillmaster.cli._init_guards import write_guards_file

    write_guards_file(folder, named, as_json=as_json)


def _make_kit(
    kit: str,
    folder: Path,
    *,
    as_json: bool,
    then: str,
    questions: Questions = _QUESTIONS,
    answers: Mapping[str, str] | None = None,
) -> None:
    """Write a kit's files, ask on a terminal for a few of the blanks, and say what is left and what to type next."""
    from drillmaster.cli import say_json
    from drillmaster.intake import read_bytes
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import write_new
    from drillmaster.scaffold import blanks, fill, template

    texts = template(kit)
    plan_name = next(iter(texts))
    known = dict(answers or {})
    if (folder / plan_name).exists() and known:
        click.echo(f"{folder / plan_name} is there: what the options say is not written into it", err=True)
    elif not as_json and sys.stdin.isatty() and sys.stderr.isatty() and not (folder / plan_name).exists():
        known |= asked_for(blanks(texts[plan_name]), questions, known)
    texts[plan_name] = fill(texts[plan_name], known)
    if "/job" in known and f"{kit}-ci.yaml" in texts:
        texts[f"{kit}-ci.yaml"] = fill(texts[f"{kit}-ci.yaml"], {"/env/JOB": known["/job"]})
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
    if kit == "interview":
        _then_interview(folder, open_blanks)
        return
    first = "fill in the blanks, then " if any(open_blanks.values()) else ""
    plan = short(folder / plan_name)
    click.echo(f"next: {first}drillmaster run {kit} {plan} {then}")


def _then_interview(folder: Path, open_blanks: Mapping[str, list[str]]) -> None:
    """Say what to type next: the interview wants its plan alone, and thresholds are signed before its numbers are seen."""
    from drillmaster.intake import read_strict
    from drillmaster.intake.blanks import may_stay_open
    from drillmaster.intake.runs import short
    from drillmaster.sanity import is_loopback, split_url

    plan_name, policy_name, ci_name = (f"interview-{part}.yaml" for part in ("plan", "policy", "ci"))
    plan, policy = short(folder / plan_name), short(folder / policy_name)
    waiting = [pointer for pointer in open_blanks[plan_name] if not may_stay_open(pointer)]
    host = ""
    if not waiting:
        said = read_strict(folder / plan_name, dict)
        url = str((said.get("target") or {}).get("url", ""))
        parts = split_url(url)
        host = parts.hostname or "" if parts is not None else ""
    permit = ""
    if host and not is_loopback(host):
        permit = f" --permit-host {host}"
        click.echo(
            f"{host} is not loopback: take `permit:` of the plan into use, with who allowed the load, and how much"
        )
    if open_blanks[policy_name]:
        click.echo(f"limits: agree on them and fill in {policy} before anybody sees a number")
        if any((above / ".git").exists() for above in folder.absolute().parents) or (folder / ".git").exists():
            click.echo(f"git: the Reader commits it alone: git add {policy} && git commit -m thresholds -- {policy}")
    click.echo(f"ci: copy {short(folder / ci_name)} to where your CI looks for jobs")
    # With its thresholds the interview says before any load what they take, and refuses blanks in them while nobody has waited.
    where = {(True, True): "both", (True, False): "the plan", (False, True): "the policy"}
    todo = where.get((bool(waiting), bool(open_blanks[policy_name])))
    first = f"fill in the blanks of {todo}, then " if todo else ""
    click.echo(f"next: {first}drillmaster interview {plan}{permit} --policy {policy}")
    click.echo(f"then: drillmaster gate interview RUN --policy {policy}")


def _given(answers: Mapping[str, str]) -> dict[str, str]:
    """What options say, held against the same rules as what a person types. Raises UsageError."""
    known: dict[str, str] = {}
    for pointer, answer in answers.items():
        found = wrong(pointer, answer.strip(), known) if answer.strip() else "an empty one: leave the option out"
        if found is not None:
            option = {"/measured_from": "from"}.get(pointer, pointer.rpartition("/")[2])
            raise click.UsageError(f"--{option} {answer!r}: {found}")
        known[pointer] = answer.strip()
    return known
