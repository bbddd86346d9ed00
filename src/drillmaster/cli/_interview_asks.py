"""Options of `drillmaster interview` that say how it asks: fields, the order of a set, pauses, waits, arrivals by the clock."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.ladder import Arrivals, Batch, Honour, NoRetry, Think

__all__ = ["NAMES", "PLACES", "arrivals", "asking", "drain", "fields", "nothing_beside", "retry", "think"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NUMBER = r"[0-9]{1,7}(?:\.[0-9]{1,6})?"

PLACES = {
    "/target/form": "--form",
    "/target/query": "--query",
    "/target/order": "--shuffle",
    "/target/method": "--query",
    "/think/turn_s": "--think",
    "/think/session_s": "--think",
    "/retry": "--retry-after",
    "/retry/max_attempts": "--retry-after",
    "/retry/max_wait_s": "--retry-after",
    "/open": "--open",
    "/drain": "--drain",
    "/drain/calls": "--drain",
    "/drain/callers": "--drain-callers",
    "/seed": "--seed",
}
NAMES = (
    "payloads", "shuffle", "form", "query", "think_text", "retry_text", "opens", "poisson", "max_in_flight", "drain_calls",
    "drain_callers", "seed",
)  # fmt: skip  # words, a line at a time


def nothing_beside(plan: Path, names: Sequence[str], *, called: str) -> None:
    """Refuse options that say again what is asked. `called`: how the command names its plan. Raises Problem."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is click.core.ParameterSource.COMMANDLINE:
            raise Problem(
                str(context.info_name),
                found=f"{called}, and {option.opts[0]} beside it",
                wanted="one of them: the plan says what is asked",
                remedy=f"write it into {plan}",
            )


def asking(command: _Command) -> _Command:
    """Give a command these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--payloads",
        type=click.Path(),
        metavar="FILE",
        help="What is asked, one a line, in turn. JSONL: prompts (strings), whole bodies (objects), sessions (arrays). "
        "CSV: rows that fill the {column}s of --prompt, --form or --query.",
    ),
    click.option("--shuffle", is_flag=True, help="Each pass through --payloads in an order of its own, by the seed."),
    click.option(
        "--form",
        multiple=True,
        metavar="NAME=TEXT",
        help="Send a form of such fields; {prompt} in TEXT is the prompt, {column} a row's text.",
    ),
    click.option("--query", multiple=True, metavar="NAME=TEXT", help="Make it a GET with such fields in the URL."),
    click.option(
        "--think",
        "think_text",
        metavar="[exp:]S[,S]",
        help="Seconds a caller pauses in the levels, between two calls; 2,10 between turns and between sessions; "
        "exp:2 exponential of that mean.",
    ),
    click.option(
        "--retry-after",
        "retry_text",
        metavar="N:S",
        help="Heed Retry-After of a 429 or 503: send a call up to N times, waiting up to S seconds in all. "
        "Default: such an answer is a failure.",
    ),
    click.option(
        "--open",
        "opens",
        multiple=True,
        metavar="RATE:SECONDS",
        help="Calls by the clock after the ladder, whatever became of the ones before; 5..50:60 moves the rate.",
    ),
    click.option(
        "--poisson", is_flag=True, help="--open with exponential gaps by the seed, as independent people come."
    ),
    click.option(
        "--max-in-flight",
        type=int,
        metavar="N",
        help="What --open has due beyond so many is dropped, and a failure. Default: what comes in one time limit.",
    ),
    click.option(
        "--drain",
        "drain_calls",
        type=int,
        metavar="N",
        help="At last a batch of N, due at once: how long until it is done.",
    ),
    click.option(
        "--drain-callers",
        type=int,
        metavar="N",
        help="How many work on --drain. Default: as many as the largest level has.",
    ),
    click.option(
        "--seed", type=int, default=1, show_default=True, metavar="N", help="Of all that is drawn: order, pauses, gaps."
    ),
)


def fields(option: str, given: tuple[str, ...]) -> dict[str, str] | None:
    """`NAME=TEXT`, several times. Raises Problem."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Problem(option, found=repr(text[:60]), wanted="NAME=TEXT", remedy=f"write {option} 'q={{prompt}}'")
        if name in found:
            raise Problem(option, found=f"{name[:60]!r} twice", wanted="each field once", remedy="give one of them")
        found[name] = value
    return found or None


def think(text: str | None) -> "Think":
    """`2`, `2,10` or `exp:2`. Raises Problem."""
    from drillmaster.ladder import Think

    if text is None:
        return Think()
    match = re.fullmatch(rf"(exp:)?({_NUMBER})(?:,({_NUMBER}))?", text.strip(), re.ASCII)
    if match is None:
        raise Problem(
            "--think",
            found=repr(text[:60]),
            wanted="seconds such as 2, or 2,10 (between turns, between sessions), or exp:2",
            remedy="write --think 2",
        )
    turn_s = float(match[2])
    return Think(
        turn_s=turn_s,
        session_s=turn_s if match[3] is None else float(match[3]),
        law="exponential" if match[1] else "fixed",
    )


def retry(text: str | None) -> "NoRetry | Honour":
    """`3:60`. Raises Problem."""
    from drillmaster.ladder import Honour, NoRetry

    if text is None:
        return NoRetry()
    match = re.fullmatch(rf"([0-9]{{1,4}}):({_NUMBER})s?", text.strip(), re.ASCII)
    if match is None:
        raise Problem(
            "--retry-after",
            found=repr(text[:60]),
            wanted="ATTEMPTS:SECONDS, how often a call is sent and how long it waits in all, both at most",
            remedy="write --retry-after 3:60",
        )
    return Honour(max_attempts=int(match[1]), max_wait_s=float(match[2]))


def arrivals(opens: tuple[str, ...], *, poisson: bool, max_in_flight: int | None) -> tuple["Arrivals", ...]:
    """`20:60`, or `5..50:60`, each with what is said of all. Raises Problem."""
    if not opens:
        for option, given in (("--poisson", poisson), ("--max-in-flight", max_in_flight is not None)):
            if given:
                raise Problem(
                    option,
                    found="no --open that it could be about",
                    wanted="--open RATE:SECONDS beside it",
                    remedy=f"write --open 20:60 {option}" + (f" {max_in_flight}" if max_in_flight is not None else ""),
                )
    return tuple(_arrivals(text, poisson, max_in_flight) for text in opens)


def _arrivals(text: str, poisson: bool, max_in_flight: int | None) -> "Arrivals":
    from drillmaster.ladder import Arrivals

    match = re.fullmatch(rf"({_NUMBER})(?:\.\.({_NUMBER}))?:({_NUMBER})", text.strip(), re.ASCII)
    if match is None:
        raise Problem(
            "--open",
            found=repr(text[:60]),
            wanted="RATE:SECONDS, calls a second for so long",
            remedy="write --open 20:60, or 5..50:60 for a rate that moves",
        )
    return Arrivals(
        rate_per_s=float(match[1]),
        rate_to_per_s=None if match[2] is None else float(match[2]),
        seconds=float(match[3]),
        poisson=poisson,
        max_in_flight=max_in_flight,
    )


def drain(calls: int | None, callers: int | None) -> "Batch | None":
    """The batch at the end. Raises Problem."""
    from drillmaster.ladder import Batch

    if calls is None:
        if callers is not None:
            raise Problem(
                "--drain-callers",
                found="no --drain that it could be about",
                wanted="--drain N beside it",
                remedy=f"write --drain {max(callers, 1) * 10} --drain-callers {callers}",
            )
        return None
    return Batch(calls=calls, callers=callers)
