"""`drillmaster passport`: what a sealed interview earned a job, as a file that CI asks before the job runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.deciding import KINDS
from drillmaster.errors import Problem, Refused, one_line

if TYPE_CHECKING:
    from drillmaster.deciding import BudgetNote, JobKind

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group("passport", cls=Verb)
def command() -> None:
    """Say which job may run on an endpoint, until when, and on what evidence.

    A passport is made from a sealed interview and holds for 30 days. In CI `check` lets a job pass (0), keeps it elsewhere (1), or
    refuses where nothing valid says so (2).

    \b
    Examples:
      drillmaster passport write runs/20261130T120000Z-1a2b --job "diff summary" --policy interview-policy.yaml
      drillmaster passport check "diff summary"
    """


def _facts(function: F) -> F:
    """Options of what no run records: where the load came from, and what the operator allows."""
    for option in (
        click.option("--terms", metavar="URL", default="", help="Where the allowance was read."),
        click.option("--read-on", metavar="DAY", default="", help="The day it was read, such as 2026-11-29."),
        click.option(
            "--allowance", metavar="TEXT", default="", help='What the operator allows: "10 million tokens a month".'
        ),
        click.option(
            "--from",
            "measured_from",
            metavar="TEXT",
            default="",
            help='Where the load came from: "CI runner, Frankfurt".',
        ),
        click.option(
            "--policy",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Thresholds: gate.json, or a policy of ours.",
        ),
    ):
        function = option(function)
    return function


_FOLDER = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("passports"),
    show_default=True,
    help="The folder of passports.",
)


@command.command("write")
@click.argument("run", metavar="RUN_OR_VERDICT", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option("--job", metavar="NAME", help="The job; refused where another was interviewed. Default: the run's.")
@click.option("--kind", type=click.Choice(KINDS), help="What kind of job it is, where the policy has a decision part.")
@_facts
@_FOLDER
@click.option("--sign", "key", metavar="KEY", type=click.Path(path_type=Path), help="The Reader's SSH key.")
@click.option("--rehearsal", is_flag=True, help="Make one of a rehearsal, which only `check --rehearsal` takes.")
@click.option("--now", metavar="TIME", help="Judge as of this RFC 3339 time instead of now.")
@click.option("--json", "as_json", is_flag=True, help="Print the passport as JSON.")
def write(
    run: Path,
    job: str | None,
    kind: "JobKind | None",
    policy: Path | None,
    measured_from: str,
    allowance: str,
    read_on: str,
    terms: str,
    folder: Path,
    key: Path | None,
    rehearsal: bool,
    now: str | None,
    as_json: bool,
) -> None:
    """Judge a sealed interview again and write the passport of its job.

    RUN_OR_VERDICT is a run's folder or id, or the verdict.json in it. The exit code is the verdict: 0 pass, 1 fail (the passport
    says no). A refused verdict, and a file that no seal covers, make none.

    \b
    Examples:
      drillmaster passport write runs/20261130T120000Z-1a2b --job "diff summary" --policy interview-policy.yaml --kind summary
      drillmaster passport write runs/20261130T120000Z-1a2b --policy gate.json --sign ~/.ssh/id_ed25519
    """
    import msgspec

    from drillmaster import passports
    from drillmaster.cli import say_json

    if job is not None:
        passports.file_of(job, folder)
    run = _run(run, job or "NAME")
    judged = passports.judge_run(
        run,
        _thresholds(policy, f"passport write {one_line(str(run))}"),
        now_ns=_now_ns(now),
        measured_from=measured_from,
        budget=_note(allowance, read_on, terms),
    )
    job = judged.page.job if job is None else job
    passport = passports.issue(judged, job=job, kind=kind, trial=rehearsal)
    path, signature = passports.write(passport, folder, key=key)
    if as_json:
        said: dict[str, Any] = {"passport": str(path), "signature": str(signature) if signature else None}
        say_json({**said, "exit": int(judged.verdict.exit), "content": msgspec.to_builtins(passport)})
    else:
        from drillmaster.deciding import kind_text

        allowed = "the interviewed job alone" if passport.job_alone else ""
        allowed = allowed or ", ".join(kind_text(one) for one in passport.allowed) or "nothing"
        click.echo(f"{passport.status.upper()} {job}: allowed on {passport.url}: {allowed}")
        if passport.job_kind is not None and passport.job_kind not in passport.allowed:
            click.echo(
                f"this job must not run there, and passport check exits 1: it is of the kind {passport.job_kind}"
            )
        click.echo(f"why: {one_line(passport.why)}")
        click.echo(f"valid until {passport.review_on}, UTC; measured {passport.measured_at} by {passport.n} calls")
        click.echo(f"budget note: {one_line(passport.budget)}")
        click.echo(f"passport: {one_line(str(path))}" + (f", signed: {one_line(str(signature))}" if signature else ""))
    sys.exit(int(judged.verdict.exit))


@command.command("check")
@click.argument("job", metavar="JOB")
@_FOLDER
@click.option(
    "--signer",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Demand a signature: of this public key, or by this allowed_signers file.",
)
@click.option("--identity", metavar="NAME", help="Whose signature it has to be, for an allowed_signers file.")
@click.option("--rehearsal", is_flag=True, help="Take the passport of a rehearsal too.")
@click.option("--now", metavar="TIME", help="Check as of this RFC 3339 time instead of now.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def check(
    job: str,
    folder: Path,
    signer: Path | None,
    identity: str | None,
    rehearsal: bool,
    now: str | None,
    as_json: bool,
) -> None:
    """Ask in CI whether a job may run: 0 it may, 1 it stays elsewhere, 2 nothing valid says so.

    Refused are a passport that is missing, past its review day, edited, of a rehearsal, or not signed by whom --signer names.

    \b
    Examples:
      drillmaster passport check "diff summary"
      drillmaster passport check "diff summary" --signer .github/reader.pub
      drillmaster passport check "diff summary" --dir ci/passports --json
    """
    from drillmaster import passports
    from drillmaster.cli import say_json

    if identity is not None and signer is None:
        raise Problem(
            "--identity",
            found="it, and no --signer",
            wanted="the allowed_signers file in which that name stands",
            remedy=f"--signer FILE --identity {identity}",
        )
    found = passports.check(job, folder, now_ns=_now_ns(now), trial=rehearsal, signer=signer, identity=identity)
    passport, code = found.passport, 0 if found.status == "pass" else 1
    if as_json:
        say_json(
            {
                "job": passport.job,
                "status": found.status,
                "exit": code,
                "why": found.why,
                "url": passport.url,
                "run": passport.run,
                "review_on": passport.review_on,
                "days_left": found.days_left,
                "signed_by": found.signed_by or None,
                "stamps": passport.verdict["stamps"],
            }
        )
        sys.exit(code)
    stamps = f" [{', '.join(passport.verdict['stamps'])}]" if passport.verdict["stamps"] else ""
    may = "may run" if code == 0 else "must not run"
    click.echo(one_line(f"{found.status.upper()} {job}: {may} on {passport.url}: {found.why}{stamps}"))
    left = {0: "today is the last day", 1: "1 day left"}.get(found.days_left, f"{found.days_left} days left")
    signed = f"signed by {found.signed_by}" if found.signed_by else "signature not asked for: --signer FILE does"
    click.echo(
        one_line(
            f"valid until {passport.review_on}, UTC ({left}); from run {passport.run} of {passport.n} calls; {signed}"
        )
    )
    sys.exit(code)


@command.command("page")
@click.argument("evidence", metavar="RUN|FILE", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option("--job", metavar="NAME", help="With --unsealed: the job, which the file does not say.")
@_facts
@click.option("--unsealed", is_flag=True, help="FILE is one interview.json; the page is UNSEALED, UNPROVEN.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write it there too.")
@click.option("--now", metavar="TIME", help="Judge as of this RFC 3339 time instead of now.")
def page(
    evidence: Path,
    job: str | None,
    policy: Path | None,
    measured_from: str,
    allowance: str,
    read_on: str,
    terms: str,
    unsealed: bool,
    out: Path | None,
    now: str | None,
) -> None:
    """Print the wiki page of an interview: gate output, decision, budget note, review date.

    The exit code is the verdict, as with `gate interview`.

    \b
    Examples:
      drillmaster passport page runs/20261130T120000Z-1a2b --policy gate.json --from "CI runner, Frankfurt"
      drillmaster passport page interview.json --unsealed --job "diff summary" --policy gate.json --out wiki/interview.md
    """
    from drillmaster import passports
    from drillmaster.intake.written import write_whole
    from drillmaster.reports import form

    note = _note(allowance, read_on, terms)
    thresholds = _thresholds(policy, f"passport page {one_line(str(evidence))}")
    if unsealed:
        judged = passports.judge_file(
            evidence, thresholds, job=job or "", now_ns=_now_ns(now), measured_from=measured_from, budget=note
        )
    else:
        judged = passports.judge_run(
            _run(evidence, job or "NAME"), thresholds, now_ns=_now_ns(now), measured_from=measured_from, budget=note
        )
        if job is not None and job != judged.page.job:
            raise Refused(
                "--job",
                found=f"{job!r}, and the run asked for {judged.page.job!r}",
                wanted="the job that was interviewed",
                remedy="leave out --job: the run says it",
            )
    text: str = form("interview").render(judged.verdict, judged.page, judged.decision)
    click.echo(text, nl=False)
    if out is not None:
        click.echo(f"page: {one_line(str(write_whole(out, text)))}", err=True)
    sys.exit(int(judged.verdict.exit))


def _run(named: Path, job: str) -> Path:
    """The run's folder, also for a file that lies in one. Raises Refused for a file that lies in none."""
    import shlex

    from drillmaster.intake.runs import find_run

    path = find_run(named)
    if not path.is_file():
        return path
    if (path.parent / "manifest.json").is_file():
        return path.parent
    raise Refused(
        str(path),
        found="one file, UNSEALED: anybody can have written it",
        wanted="a sealed run, or the verdict.json in its folder",
        remedy=f"drillmaster passport write RUN --job {shlex.quote(job)} --policy FILE, with the run's folder; "
        "its page alone: drillmaster passport page FILE --unsealed",
    )


def _thresholds(policy: Path | None, words: str) -> Path:
    if policy is None:
        raise Problem(
            "--policy",
            found="nothing",
            wanted="the thresholds; they have no default",
            remedy=f"drillmaster {words} --policy gate.json",
        )
    return policy


def _note(allowance: str, read_on: str, terms: str) -> "BudgetNote | None":
    from drillmaster.deciding import BudgetNote

    return BudgetNote(allowance=allowance, read_on=read_on, url=terms) if allowance or read_on or terms else None


def _now_ns(now: str | None) -> int:
    from drillmaster.clock import SystemClock, parse_rfc3339

    given = SystemClock().wall_ns() if now is None else parse_rfc3339(now)
    if given is None:
        raise Problem(
            "--now", found=repr(now), wanted="RFC 3339 with a zone", remedy="write it as 2026-11-29T15:30:00Z"
        )
    return given
