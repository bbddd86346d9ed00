"""`drillmaster gate interview`: judge one load interview."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, change_options, end
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.command("interview")
@click.argument("evidence", metavar="RUN", required=False, shell_complete=completions.files)
@click.argument("thresholds", metavar="[THRESHOLDS]", required=False, shell_complete=completions.files)
@click.option(
    "--policy",
    metavar="FILE",
    help="THRESHOLDS, said by name: the article's gate.json, or a policy of ours.",
    shell_complete=completions.files,
)
@click.option("--unsealed", is_flag=True, help="RUN is one interview.json; the verdict is UNSEALED, UNPROVEN.")
@click.option("--no-record", is_flag=True, help="Do not write verdict.json into the run folder.")
@change_options
def command(
    evidence: str | None,
    thresholds: str | None,
    unsealed: bool,
    no_record: bool,
    asked: "Asked",
    says: Says,
) -> None:
    """Judge one load interview by thresholds that somebody signed.

    RUN is the folder of a sealed interview, or with --unsealed one interview.json. THRESHOLDS, or --policy, are the numbers
    that it is held to, and have no default. The line `BREACH: none`, or what is over its limit, is printed as the article's
    script does; a refusal prints neither.

    \b
    Examples:
      drillmaster gate interview runs/20261130T080000Z-1a2b --policy gate.json
      drillmaster gate interview interview.json gate.json --unsealed
      drillmaster gate interview interview.json --unsealed --policy gate.json --json
    """
    from drillmaster.intake.interviews import judge_interview_file, open_interview_file, read_thresholds

    if thresholds is not None and asked.policy is not None:
        raise Problem(
            "gate interview",
            found=f"thresholds twice, {thresholds} and --policy {asked.policy}",
            wanted="one file of them",
            remedy="drop one of the two",
        )
    policy_path = asked.policy or thresholds
    if evidence is None or policy_path is None:
        raise Problem(
            "gate interview",
            found="no file" if evidence is None else "no thresholds",
            wanted="a file to judge, and the thresholds; they have no default",
            remedy=f"drillmaster gate interview {evidence or 'interview.json'} {policy_path or 'gate.json'} --unsealed",
        )
    path = Path(evidence)
    if unsealed:
        limits = read_thresholds(Path(policy_path))
        verdict = judge_interview_file(open_interview_file(path), limits, now_ns=says.now_ns)
    else:
        verdict = _judge_interview(path, msgspec.structs.replace(asked, policy=policy_path), record=not no_record)
    from drillmaster.gates import find

    end(verdict, find("interview"), says)


def _judge_interview(path: Path, asked: "Asked", *, record: bool) -> "Verdict":
    from drillmaster.intake import is_there
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.upholding import upheld
    from drillmaster.intake.verdicts import keep
    from drillmaster.load.showing import keep_thresholds
    from drillmaster.passports import judge_run

    if is_there(path) and not path.is_dir():
        raise Problem(
            "gate interview",
            found=f"{path}, one file that anybody can have written",
            wanted="the folder of a sealed run, or --unsealed, which says so in the verdict",
            remedy=f"drillmaster gate interview {path} {asked.policy} --unsealed",
        )
    path = find_run(path)

    def judge(policy: Path, lies_at: Path) -> "Verdict":
        judged = judge_run(path, policy, now_ns=asked.now_ns, lies_at=lies_at)
        if record:
            keep_thresholds(policy, path, judged.changed)
        return judged.verdict

    said = upheld("interview", asked, None, judge)
    if record:
        keep(said.kept, path)
    return said.told
