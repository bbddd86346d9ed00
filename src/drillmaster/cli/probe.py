"""`drillmaster probe`: one minute in CI that says whether a job may stay on its endpoint."""

import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli._interview_asks import nothing_beside
from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from drillmaster.ladder import InterviewPlan
    from drillmaster.load.probing import Budgets

__all__ = ["command"]

KEY = "FREE_TIER_KEY"
_PROMPT = "Answer with the one word: pong"
_OPTIONS = {
    "/target/url": "--endpoint",
    "/target/model": "--model",
    "/target/dialect": "--dialect",
    "/target/headers": "--key-env",
    "/target/prompt": "--prompt",
    "/target/max_tokens": "--max-tokens",
    "/levels": "--concurrency",
    "/warm": "--requests",
    "/idle_s": "--idle",
    "/timeout_s": "--timeout",
}
_OF_A_PLAN = ("endpoint", "model", "dialect", "key_env", "no_key", "prompt", "max_tokens")


class _Span(click.ParamType[float]):
    """A span with its unit, such as 30m; 0 is none."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(s|m|min|h)?", str(value).strip(), re.ASCII)
        if match is None or (match[2] is None and float(match[1]) != 0):
            self.fail(f"found {value!r}, wanted a span with its unit, such as 90s or 30m", param, ctx)
        return float(match[1]) * {None: 0, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]


@click.command("probe")
@click.option("--endpoint", metavar="URL", help="The whole URL that the job calls.")
@click.option("--model", metavar="NAME", help="The model's name, where the API is asked by one.")
@click.option(
    "--plan",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take endpoint, payload, keys and permission from the plan of an interview.",
)
@click.option("--requests", type=int, default=200, show_default=True, help="Calls that are judged.")
@click.option("--concurrency", type=int, default=8, show_default=True, help="Callers at once, as the job has them.")
@click.option("--timeout", type=float, default=30.0, show_default=True, metavar="S", help="When one call is cut.")
@click.option("--p95-budget-ms", type=float, metavar="MS", help="Required: 95 of 100 answers may take this long.")
@click.option(
    "--error-budget", type=float, metavar="RATIO", help="Required: share of calls that may fail, such as 0.02."
)
@click.option("--cold-budget-ms", type=float, metavar="MS", help="What the first call after silence may take.")
@click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Thresholds of an interview, of which block_s alone is taken: p95 is bounded by blocks of time too, and what was seen "
    "decides.",
)
@click.option("--idle", type=_Span(), default="0", show_default=True, help="Silence before the cold call, such as 30m.")
@click.option(
    "--least-idle",
    type=_Span(),
    default="30m",
    show_default=True,
    help="The silence after which a call counts as cold.",
)
@click.option(
    "--dialect",
    default="openai_chat",
    show_default=True,
    help="Whose API it is.",
    shell_complete=completions.asked_dialects,
)
@click.option("--prompt", default=_PROMPT, show_default=True, help="What is asked.")
@click.option(
    "--max-tokens", type=int, default=16, show_default=True, metavar="N", help="The most one answer may have."
)
@click.option("--key-env", default=KEY, show_default=True, metavar="NAME", help="The variable that holds the key.")
@click.option("--no-key", is_flag=True, help="The endpoint wants no key.")
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("runs"),
    show_default=True,
    help="Where run folders go, and where a cold start is looked for.",
)
@click.option("--json", "as_json", is_flag=True, help="On one line. The result is JSON either way.")
def command(
    endpoint: str | None,
    model: str | None,
    plan: Path | None,
    requests: int,
    concurrency: int,
    timeout: float,
    p95_budget_ms: float | None,
    error_budget: float | None,
    cold_budget_ms: float | None,
    policy: Path | None,
    idle: float,
    least_idle: float,
    dialect: str,
    prompt: str,
    max_tokens: int,
    key_env: str,
    no_key: bool,
    permit_host: str | None,
    runs: Path,
    as_json: bool,
) -> None:
    """Probe an endpoint for CI, in about a minute: `verdict` pass (0), exit (1) or refused (2), as JSON.

    It is an interview of one level: so many calls by so many callers, each made once, sealed as a run. pass: the job may stay.
    exit: it is over a budget, begin to move. refused: nothing can be said, and why. Both budgets are required. The key comes from
    the environment. Another host than loopback needs a --plan that says who permitted the load.

    \b
    Examples:
      drillmaster probe --endpoint http://127.0.0.1:9000/v1/chat/completions --model small --p95-budget-ms 6000 --error-budget 0.02
      drillmaster probe --plan interview-plan.yaml --permit-host api.example.com --p95-budget-ms 6000 --error-budget 0.02
      drillmaster probe --plan interview-plan.yaml --p95-budget-ms 6000 --error-budget 0.02 --cold-budget-ms 20000 --idle 30m
      drillmaster probe --plan interview-plan.yaml --p95-budget-ms 6000 --error-budget 0.02 --policy interview-policy.yaml
    """
    import msgspec

    from drillmaster.ladder import NoRetry, Think
    from drillmaster.ladder.checking import Place
    from drillmaster.load.probing import probe
    from drillmaster.run.progress import progress_for

    try:
        budgets = _budgets(p95_budget_ms, error_budget, cold_budget_ms, least_idle)
        asked, base = _asked(endpoint, model, plan, dialect, prompt, max_tokens, key_env, no_key)
        asked = msgspec.structs.replace(
            asked,
            levels=(concurrency,),
            warm=requests,
            idle_s=idle,
            timeout_s=timeout,
            open=(),
            drain=None,
            think=Think(),
            retry=NoRetry(),
        )
        probed, code = probe(
            asked,
            Place(str(plan or "probe"), _OPTIONS),
            budgets,
            runs=runs,
            base=base,
            permit_host=permit_host,
            progress=progress_for(),
            environ=os.environ,
            block_s=None if policy is None else _block_s(policy),
        )
    except Problem as problem:
        _refused(problem, as_json=as_json)
    _say(msgspec.to_builtins(probed), as_json=as_json)
    for why in probed.why:
        click.echo(f"{probed.verdict}: {why}", err=True)
    sys.exit(code)


def _budgets(p95_ms: float | None, errors: float | None, cold_ms: float | None, least_idle_s: float) -> "Budgets":
    from drillmaster.load.probing import Budgets

    for option, value, most, wanted in (
        ("--p95-budget-ms", p95_ms, math.inf, "milliseconds over 0"),
        ("--error-budget", errors, 1.0, "a share from 0 to under 1: 0.02, not 2"),
        ("--cold-budget-ms", cold_ms, math.inf, "milliseconds over 0"),
    ):
        if value is None:
            if option == "--cold-budget-ms":
                continue
            example = "6000" if option == "--p95-budget-ms" else "0.02"
            raise Problem(
                option, found="nothing", wanted=f"{wanted}; budgets have no default", remedy=f"{option} {example}"
            )
        least_ok = value >= 0 if option == "--error-budget" else value > 0
        if not (math.isfinite(value) and least_ok and value < most):
            raise Problem(option, found=f"{value:g}", wanted=wanted, remedy="give what the job can bear")
    assert p95_ms is not None and errors is not None
    return Budgets(p95_ms=p95_ms, error_rate=errors, cold_ms=cold_ms, least_idle_s=least_idle_s)


def _block_s(policy: Path) -> float:
    """How long a block of time is. Raises Problem where the thresholds do not say."""
    import msgspec

    from drillmaster.intake.interviews import read_thresholds

    block_s = read_thresholds(policy).gate.block_s
    if block_s is msgspec.UNSET:
        raise Problem(
            f"--policy {policy}",
            found="no block_s beside `decide`",
            wanted="seconds, several times as long as a stall of the endpoint",
            remedy=f"write block_s: 5 into gate interview of {policy}, or leave out --policy: nothing else of it is taken",
        )
    return block_s


def _asked(
    endpoint: str | None,
    model: str | None,
    plan: Path | None,
    dialect: str,
    prompt: str,
    max_tokens: int,
    key_env: str,
    no_key: bool,
) -> tuple["InterviewPlan", Path]:
    """The plan, and where its relative paths begin. Raises Problem."""
    from drillmaster.intake import read_strict
    from drillmaster.ladder import Asked, InterviewPlan

    if plan is not None:
        nothing_beside(plan, _OF_A_PLAN, called="--plan")
        return read_strict(plan, InterviewPlan), plan.parent
    if endpoint is None:
        raise Problem(
            "--endpoint",
            found="nothing",
            wanted="the whole URL that the job calls, or a --plan",
            remedy="--endpoint http://127.0.0.1:9000/v1/chat/completions",
        )
    headers = {}
    if not no_key:
        if not os.environ.get(key_env, "").strip():
            raise Problem(
                key_env,
                found="nothing in the environment",
                wanted="the key; it stands on no command line and in no file",
                remedy=f"export {key_env}=..., or --no-key for an endpoint that wants none",
            )
        headers["Authorization"] = f"Bearer ${{{key_env}}}"
    target = Asked(
        url=endpoint,
        dialect=dialect.strip().lower().replace("-", "_"),
        model=model,
        max_tokens=max_tokens,
        headers=headers,
        prompt=prompt,
    )
    return InterviewPlan(kind="plan", drill="interview", job="probe", target=target), Path()


def _say(said: dict[str, object], *, as_json: bool) -> None:
    import msgspec

    from drillmaster.cli import say_json

    if as_json:
        say_json(said)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(said), indent=2).decode())


def _refused(problem: Problem, *, as_json: bool) -> NoReturn:
    """One document with a verdict, whatever went wrong; ends the process."""
    from drillmaster.cli import error_json

    _say({"verdict": "refused", "why": [str(problem)], **error_json(problem)}, as_json=as_json)
    click.echo(f"drillmaster: {problem}", err=True)
    sys.exit(int(Exit(problem.exit)))
