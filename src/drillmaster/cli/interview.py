"""`drillmaster interview`: in what shape does an endpoint answer, cold, warm and by the number of callers."""

import base64
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlsplit

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli._interview_asks import NAMES, PLACES, arrivals, asking, drain, fields, nothing_beside, retry, think
from drillmaster.cli._interview_policy import wanted
from drillmaster.cli._quantities import factor_of
from drillmaster.errors import Exit, Problem, Refused

if TYPE_CHECKING:
    from drillmaster.adapters.drill.locust_team import LocustTeam
    from drillmaster.ladder import InterviewPlan
    from drillmaster.load.conducting import LoadResult

__all__ = ["command"]

_OPTIONS = {
    "/target/url": "URL",
    "/target/prompt": "--prompt",
    "/target/dialect": "--dialect",
    "/target/websocket": "--until",
    "/target/websocket/until": "--until",
    "/target/model": "--model",
    "/target/stream": "--stream",
    "/target/headers": "--header",
    "/target/payloads": "--payloads",
    "/target/max_tokens": "--max-tokens",
    "/levels": "--levels",
    "/warm": "--warm",
    "/seconds": "--seconds",
    "/idle_s": "--idle",
    "/timeout_s": "--timeout",
    "/job": "--job",
    "/processes": "--processes",
    **PLACES,
}
_OF_A_PLAN = (
    "url_option", "prompt", "dialect", "model", "stream", "until", "max_tokens", "headers", "levels", "warm", "seconds", "idle",
    "timeout", "job", "processes", *NAMES,
)  # fmt: skip  # words of options


@click.command("interview")
@click.argument("what", metavar="URL|PLAN", required=False, type=click.Path())
@click.option("--url", "url_option", metavar="URL", help="The endpoint, for URL.")
@click.option("--prompt", default="Summarize this diff in one sentence.", show_default=True, help="What is asked.")
@click.option("--levels", default="1,4,8", show_default=True, metavar="N,N", help="Callers at once, level by level.")
@click.option("--warm", type=int, default=10, show_default=True, help="Calls of each level.")
@click.option(
    "--seconds",
    type=float,
    metavar="S",
    help="How long each level makes calls, up to --warm of them or, where that is not given, 100,000.",
)
@click.option("--idle", type=float, default=120.0, show_default=True, metavar="S", help="Silence before the cold call.")
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="S", help="When one call is cut.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The rows as one file of JSON; it must not be there. Default: interview.json, or one with the run's id.",
)
@click.option(
    "--dialect",
    default="plain",
    show_default=True,
    help='Whose API it is; plain sends {"prompt": ...}.',
    shell_complete=completions.asked_dialects,
)
@click.option("--model", help="The model's name, where the API is asked by one.")
@click.option("--stream", is_flag=True, help="Ask for streams: first word and gaps are timed too.")
@click.option("--until", metavar="REGEX", help="Of a ws:// URL: the message that ends an answer. Default: the first.")
@click.option("--max-tokens", type=int, metavar="N", help="The most that one answer may have.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=ENV_VAR",
    help="A header whose value is in that variable of the environment, such as a key. "
    "A key without a scheme in Authorization becomes Bearer.",
)
@asking
@click.option("--job", metavar="NAME", help="The job that this is about. Default: the URL's path.")
@click.option(
    "--processes",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Engine processes that share each step, for what one core cannot hold.",
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "locust"]),
    default="processes",
    show_default=True,
    help="Where engines run: as processes here, or one in each Locust worker (drillmaster locust-worker).",
)
@click.option("--workers", type=click.IntRange(1, 1_000), metavar="N", help="How many Locust workers share each step.")
@click.option(
    "--bind", metavar="HOST:PORT", help="Where workers find the Locust master. Default: 127.0.0.1:5557; port 0 is any."
)
@click.option(
    "--runs", type=click.Path(), metavar="DIR", default="runs", show_default=True, help="Where run folders go."
)
@click.option("--compress", metavar="5x", help="Divide the idle time and open stages by a factor. Stamped COMPRESSED.")
@click.option("--rehearsal", is_flag=True, help="One person may hold all seats. Stamped REHEARSAL.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The Reader's thresholds: before any load it is said how long their bounds take, and refused what cannot meet them.",
)
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")
@click.option("--yes", is_flag=True, help="Do not ask before the first call.")
@click.option(
    "--self-test",
    is_flag=True,
    help="Interview a built-in server of known law: how many callers this machine can hold.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def command(
    what: str | None,
    out: Path | None,
    runs: str,
    compress: str | None,
    rehearsal: bool,
    policy: Path | None,
    permit_host: str | None,
    yes: bool,
    self_test: bool,
    as_json: bool,
    engine: str,
    workers: int | None,
    bind: str | None,
    **asked: Any,
) -> None:
    """Interview an endpoint: idle, one cold call, then more callers level by level; every call is on record.

    URL is the whole URL that the job calls; a PLAN is a YAML file with all of it (`kind: plan`, `drill: interview`), which
    another host than loopback needs: it says who permitted the load. Everything is checked before anything is sent. The run
    lies sealed in its folder, the rows in --out too. What its numbers are worth the gate says: drillmaster gate interview.
    Ends with 0 when all was measured, 3 when it was stopped, 2 when it was refused.

    \b
    Examples:
      drillmaster interview http://127.0.0.1:8000/v1/chat --levels 1,4,8 --warm 60
      drillmaster interview http://127.0.0.1:9000/v1/chat/completions --dialect openai_chat --model standin-large --idle 5
      drillmaster interview --url http://127.0.0.1:8000/v1/chat --open 20:60 --drain 200 --out interview-2026-12-01.json
      drillmaster interview http://127.0.0.1:8000/v1/chat --levels 64,200 --warm 2000 --think exp:2 --retry-after 3:60
      drillmaster interview http://127.0.0.1:8000/v1/chat --payloads issues.csv --prompt 'Summarize: {text}' --shuffle
      drillmaster interview http://127.0.0.1:8000/search --query 'q={prompt}' --payloads words.jsonl --open 20:60 --poisson
      drillmaster interview http://127.0.0.1:8000/v1/chat --levels 1,4 --seconds 300 --policy interview-policy.yaml
      drillmaster interview interview-plan.yaml --permit-host api.example.com
      drillmaster interview --self-test --levels 8,64,200
      drillmaster interview http://127.0.0.1:8000/v1/chat --levels 64,512 --warm 5120 --processes 4
      drillmaster interview interview-plan.yaml --engine locust --workers 3 --bind 192.0.2.7:5557
    """
    from drillmaster.ladder.checking import Place, compressed
    from drillmaster.load.conducting import conduct
    from drillmaster.load.preparing import LoadOptions
    from drillmaster.run.progress import Terminal, progress_for

    if self_test:
        if what is not None or asked["url_option"] is not None:
            raise click.UsageError("--self-test has a server of its own: give no URL and no plan")
        if engine != "processes":
            raise click.UsageError("--self-test is of this machine: run it on each worker's, without --engine locust")
        _self_test(_levels(asked["levels"]), asked["processes"], as_json=as_json)
    url, path = _which(what, asked["url_option"])
    if path is not None and path.suffix in (".py", ".js"):
        raise _foreign(path)
    more: dict[str, str] = {}
    if path is not None:
        nothing_beside(path, _OF_A_PLAN, called="a plan")
        plan, place, base = _read(path, policy), Place(str(path)), path.parent
    else:
        assert url is not None
        plan, more = _plan(url, asked)
        place, base = Place("interview", _OPTIONS), Path()
    team = _team(engine, workers, bind, plan.processes, more)
    stamps: tuple[str, ...] = ()
    if compress is not None:
        factor = factor_of(compress)
        plan, stamps = compressed(plan, factor), (f"COMPRESSED {factor:g}x",)
    host = _host_and_path(plan.target.http_url)[0]

    progress = progress_for()
    asks = not yes and sys.stdin.isatty() and sys.stderr.isatty()

    def begin() -> None:
        """The last thing before a host that somebody permitted is called: what this machine can hold, and a yes."""
        if team is None:
            _say_what_it_holds(plan, progress.line)
        if asks and not click.confirm(f"Begin? Load goes to {host}", err=True):
            raise Problem(
                "interview", found="a no", wanted="a yes", remedy="start it when you are ready; --yes does not ask"
            )

    def say(text: str) -> None:
        if isinstance(progress, Terminal):  # whose status line stands where stdout goes on
            click.echo("\r\x1b[K", nl=False, err=True)
        click.echo(text)

    result = conduct(
        plan,
        place,
        LoadOptions(
            runs=Path(runs),
            out=out,
            base=base,
            plan_file=path,
            rehearsal=rehearsal,
            permit_host=permit_host,
            stamps=stamps,
            more_headers=more,
            progress=progress,
            say=None if as_json else say,
            confirm=begin if plan.target.permit is not None else None,
            wanted=wanted(policy, plan, base=base, rehearsal=rehearsal),
        ),
        team=team,
    )
    _close(result, as_json=as_json, policy=_thresholds(path) if policy is None else policy)


def _team(
    engine: str, workers: int | None, bind: str | None, processes: int, more_headers: dict[str, str]
) -> "LocustTeam | None":
    """The workers of a Locust master, where they were asked for. Raises Problem."""
    if engine != "locust":
        for option, value in (("--workers", workers), ("--bind", bind)):
            if value is not None:
                raise click.UsageError(f"{option} belongs to --engine locust; engine processes here are --processes")
        return None
    if workers is None:
        raise click.UsageError("--engine locust needs --workers N: so many are waited for")
    if processes != 1:
        raise click.UsageError("--engine locust has one engine a worker: start more workers instead of --processes")
    if more_headers:
        raise Problem(
            "URL",
            found="a user or password in it, and workers elsewhere",
            wanted="a name: no key goes over the channel",
            remedy="give it on each worker by a variable, and here --header Authorization=NAME_OF_THE_VARIABLE",
        )
    from drillmaster.adapters.drill.locust_team import LocustTeam
    from drillmaster.adapters.drill.meeting import parse_address

    return LocustTeam(parse_address(bind or "127.0.0.1", place="--bind"), workers)


def _foreign(path: Path) -> Problem:
    """Somebody else's script opens its own sockets: a plan's permission would bind nobody."""
    tool, run = (
        ("Locust", f"locust -f {path} --host http://127.0.0.1:8081")
        if path.suffix == ".py"
        else ("k6", f"k6 run -e BASE_URL=http://127.0.0.1:8081 {path}")
    )
    return Refused(
        "interview",
        found=f"{path}, a script of {tool}'s, which opens its own sockets",
        wanted="a plan, or the endpoint's URL: what a script calls is bound by no plan's permission",
        remedy=f"run it behind the proxy: drillmaster proxy --upstream URL, then {run}; "
        "docs/howto/load-past-one-machine.md says how a network namespace holds it there",
    )


def _self_test(levels: tuple[int, ...], processes: int, *, as_json: bool) -> NoReturn:
    """Say what this machine can hold; ends the process: 0 where it held every level, 2 where it did not."""
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.load.fitness import LAW_MS, self_test

    found = self_test(levels, processes=processes)
    code = Exit.REFUSED if any(level.void for level in found) else Exit.PASS
    if as_json:
        say_json({"law_ms": LAW_MS, "levels": [msgspec.to_builtins(level) for level in found], "exit": int(code)})
        sys.exit(code)
    click.echo(f"a server that takes {LAW_MS:g} ms for each call, on this machine:")
    for level in found:
        click.echo(level.said)
    sys.exit(code)


def _say_what_it_holds(plan: "InterviewPlan", line: Callable[[str], None]) -> None:
    """Try this machine on the built-in server, so that a level it cannot hold is known before half an hour has gone by.

    It refuses nothing: what the client did in the run itself is evidence, and voids a level where it shows.
    """
    from drillmaster.load.fitness import LAW_MS, self_test

    line(f"this machine first, on a built-in server that takes {LAW_MS:g} ms a call; nothing leaves it")
    for level in self_test(plan.levels, processes=plan.processes):
        line(level.said)


def _close(result: "LoadResult", *, as_json: bool, policy: Path) -> None:
    """Say what came of it, and what to type next; ends the process."""
    from drillmaster.cli import say_json
    from drillmaster.intake.runs import short
    from drillmaster.load.knee import LEAST_LEVELS, knee_text
    from drillmaster.load.reading import open_interview_run
    from drillmaster.load.rows import row_said

    stopped = result.exit is Exit.ABORTED
    voids: dict[str, tuple[str, ...]] = {}
    knee = None
    try:
        run_read = open_interview_run(result.run_dir)
        voids = {level.label: level.void for level in run_read.interview.levels if level.void}
        knee = run_read.knee()
    except Problem as problem:
        if not stopped:
            raise
        click.echo(f"drillmaster: {problem}", err=True)
    if as_json:
        say_json(
            {
                "run": str(result.run_dir),
                "exit": int(result.exit),
                "why": result.why,
                "partial": stopped,
                "results": [row_said(row) for row in result.rows],
                "void": voids,
                "knee": knee,
                "out": None if result.out is None else str(result.out),
            }
        )
        sys.exit(result.exit)
    for label, why in voids.items():
        click.echo(f"VOID {label}: {'; '.join(why)}")
    if knee is not None and len(result.rows) > LEAST_LEVELS:
        click.echo(knee_text(knee))
    run = short(result.run_dir)
    click.echo(f"STOPPED {run}: partial: {result.why}" if stopped else f"SEALED {run}")
    if not stopped:
        judged = f"drillmaster gate interview {run} --policy {short(policy)}"
        if os.path.lexists(policy):
            click.echo(f"next: {judged}")
        else:
            click.echo(
                f"no thresholds yet: drillmaster init interview writes {short(policy)}, whose blanks you fill in"
            )
            click.echo(f"then: {judged}")
    sys.exit(result.exit)


def _thresholds(plan: Path | None) -> Path:
    """The thresholds of `init interview`, beside the plan or here, or the article's `gate.json` where that is what there is."""
    name, article = "interview-policy.yaml", Path("gate.json")
    ours = Path(name) if plan is None else plan.with_name(name)
    return article if article.is_file() and (plan is None or not ours.is_file()) else ours


def _which(what: str | None, url_option: str | None) -> tuple[str | None, Path | None]:
    """A URL or a plan's path."""
    if what is not None and url_option is not None:
        raise click.UsageError("--url and URL|PLAN are the same thing: give one of them")
    text = url_option if what is None else what
    if text is None:
        raise click.UsageError("Missing argument 'URL|PLAN': the endpoint's whole URL, or a plan's file")
    if (
        url_option is None
        and "://" not in text
        and (text.endswith((".yaml", ".yml", ".json", ".toml", ".py", ".js")) or os.path.lexists(text))
    ):
        return None, Path(text)
    return text, None


def _read(path: Path, policy: Path | None) -> "InterviewPlan":
    """A plan's file. Raises Problem, which names the blanks of plan and policy at once."""
    from drillmaster.intake import read_strict
    from drillmaster.intake.blanks import left_open, none_left_open
    from drillmaster.ladder import InterviewPlan

    loaded: dict[str, Any] = read_strict(path, dict)
    if loaded.get("drill") == "interview":
        left = {path: left_open(loaded, "interview", "plan")}
        if policy is not None and policy.suffix in (".yaml", ".yml") and policy.is_file():
            limits = read_strict(policy, dict)
            if limits.get("kind") == "policy":
                left[policy] = left_open(limits, "interview", "policy")
        none_left_open(left, lambda line: click.echo(line, err=True))
    return read_strict(path, InterviewPlan)


def _plan(url: str, asked: dict[str, Any]) -> tuple["InterviewPlan", dict[str, str]]:
    """The plan that a command line says, and secrets of its URL, which stand in no plan. Raises Problem."""
    from drillmaster.ladder import Asked, InterviewPlan, Messages

    url, more = _without_user(url)
    headers = _headers(asked["headers"])
    plan = InterviewPlan(
        kind="plan",
        drill="interview",
        job=asked["job"] or next((part for part in reversed(_host_and_path(url)) if part), "an endpoint"),
        target=Asked(
            url=url,
            method="GET" if asked["query"] else "POST",
            dialect=_dialect(asked["dialect"]),
            model=asked["model"],
            stream=asked["stream"],
            max_tokens=asked["max_tokens"],
            headers=headers,
            prompt=asked["prompt"],
            payloads=asked["payloads"],
            order="shuffled" if asked["shuffle"] else "in_turn",
            form=fields("--form", asked["form"]),
            query=fields("--query", asked["query"]),
            websocket=None if asked["until"] is None else Messages(until=asked["until"]),
        ),
        levels=_levels(asked["levels"]),
        warm=_calls(asked),
        seconds=asked["seconds"],
        idle_s=asked["idle"],
        timeout_s=asked["timeout"],
        think=think(asked["think_text"]),
        retry=retry(asked["retry_text"]),
        open=arrivals(asked["opens"], poisson=asked["poisson"], max_in_flight=asked["max_in_flight"]),
        drain=drain(asked["drain_calls"], asked["drain_callers"]),
        seed=asked["seed"],
        processes=asked["processes"],
    )
    return plan, more


def _calls(asked: dict[str, Any]) -> int:
    """How many calls a level makes: where its time is given and no number, as many as come in it."""
    from drillmaster.ladder.checking import MOST_IN_A_TIME

    default = click.get_current_context().get_parameter_source("warm") is not click.core.ParameterSource.COMMANDLINE
    calls: int = MOST_IN_A_TIME if default and asked["seconds"] is not None else asked["warm"]
    return calls


def _dialect(name: str) -> str:
    """The catalogue's name; a dash may stand for the underscore."""
    return name.strip().lower().replace("-", "_")


def _host_and_path(url: str) -> tuple[str, str]:
    """Empty where the URL is none: the plan's check says so."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.path.strip("/")
    except ValueError:
        return "", ""


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """The URL without user and password, and the header that says them instead."""
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        return url, {}
    if user is None and password is None:
        return url, {}
    word = base64.b64encode(f"{unquote(user or '')}:{unquote(password or '')}".encode()).decode()
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), {"Authorization": f"Basic {word}"}


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=ENV_VAR` as a plan writes it. Raises Problem."""
    plan: dict[str, str] = {}
    for text in given:
        name, equals, variable = text.partition("=")
        name, variable = name.strip(), variable.strip()
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise Problem(
                "--header",
                found=f"{name}={'...' if equals else ''}",
                wanted="NAME=ENV_VAR: keys come from the environment and stand on no command line",
                remedy="export MODEL_KEY=..., then --header Authorization=MODEL_KEY",
            )
        scheme = (
            "Bearer " if name.lower() == "authorization" and " " not in os.environ.get(variable, "").strip() else ""
        )
        plan[name] = f"{scheme}${{{variable}}}"
    return plan


def _levels(text: str) -> tuple[int, ...]:
    """`1,4,8`. Raises Problem, naming the place."""
    found = []
    for at, word in enumerate(text.split(","), start=1):
        if not re.fullmatch(r"[0-9]{1,6}", word.strip(), re.ASCII):
            raise Problem(
                "--levels",
                found=f"{word.strip()[:40]!r} at place {at} of {text[:60]!r}",
                wanted="whole numbers of callers, from 1",
                remedy="write --levels 1,4,8",
            )
        found.append(int(word))
    return tuple(found)
