"""`drillmaster compare`: is an endpoint no worse than it was, by two sealed interviews."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds, Share
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.load.comparing import Compared, Figure

__all__ = ["command"]


@click.command("compare")
@click.argument("first", metavar="RUN_A", shell_complete=completions.runs)
@click.argument("second", metavar="RUN_B", shell_complete=completions.runs)
@click.option(
    "--within",
    type=Share(),
    metavar="SHARE",
    help='How much longer p50 and p95 may be in RUN_B: 0.1 or "10 %". No default.',
)
@click.option(
    "--errors-within",
    type=Share(),
    default="0",
    show_default=True,
    metavar="SHARE",
    help='How much larger the share of errors may be in RUN_B, in points: 0.01 or "1 %".',
)
@click.option(
    "--block",
    "block_s",
    type=Seconds(),
    metavar="SPAN",
    help="Several times as long as the endpoint's stalls, such as 10s: calls of one such time count as one. Default: a 20th of "
    "each level.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str, second: str, within: float | None, errors_within: float, block_s: float | None, as_json: bool
) -> None:
    """Say level by level whether RUN_B of an interview is no worse than RUN_A: p50 and p95 as ratios, errors as a difference.

    Around each lies an interval: it is 95 % sure that a figure is no larger, and, since of many figures one seems worse by
    chance, as sure as 95 % of all of them together asks that it is no smaller. Exits 0 where every figure is surely within its
    margin, 1 where one is surely beyond it, 2 where an interval holds both, or where the runs cannot be compared: another
    payload, target or plan, a level that is void, a run that was stopped or is not as it was sealed.

    \b
    Examples:
      drillmaster compare runs/20261130T120000Z-1a2b runs/20261207T120000Z-3c4d --within "10 %"
      drillmaster compare 20261130T120000Z-1a2b 20261207T120000Z-3c4d --within 0.2 --errors-within "1 %" --block 10s
      drillmaster compare runs/20261130T120000Z-1a2b runs/20261207T120000Z-3c4d --within 0.1 --json
    """
    from drillmaster.cli import say_json
    from drillmaster.intake.runs import find_run
    from drillmaster.load.comparing import compare
    from drillmaster.load.reading import open_interview_run

    if within is None:
        raise Problem(
            "compare",
            found="no --within",
            wanted="how much longer a latency may be before it counts as worse; a margin has no default",
            remedy=f'drillmaster compare {first} {second} --within "10 %"',
        )
    one, other = (open_interview_run(find_run(Path(run))) for run in (first, second))
    compared = compare(one, other, within=within, errors_within=errors_within, block_s=block_s)
    if as_json:
        say_json({**_plain(compared), "exit": int(compared.exit)})
    else:
        _show(compared)
    sys.exit(compared.exit)


def _plain(compared: "Compared") -> dict[str, object]:
    import msgspec

    found: dict[str, object] = msgspec.to_builtins(compared)
    return found


def _show(compared: "Compared") -> None:
    from drillmaster.policy import share_text

    stamps = f" [{', '.join(compared.stamps)}]" if compared.stamps else ""
    click.echo(f"{compared.b} beside {compared.a}: {compared.url}{stamps}")
    for level in compared.levels:
        length = " and ".join(dict.fromkeys(f"{one:.3g} s" for one in level.block_s))
        click.echo(f"{level.label}  n {level.n[0]} and {level.n[1]}, blocks of {length}")
        for figure in level.figures:
            click.echo(f"  {figure.said.upper():<9} {_text(figure)}")
    for single in compared.singles:
        a, b = ("no answer" if value is None else f"{value:.4g} s" for value in (single.a, single.b))
        click.echo(f"{single.label}  {a} -> {b}: one of each, which says nothing of chance")
    decisive = [
        f"{level.label} {figure.name}" + (f" ({figure.why})" if figure.why else "")
        for level in compared.levels
        for figure in level.figures
        if figure.said == compared.said
    ]
    margins = f"latencies +{share_text(compared.within)}, errors +{share_text(compared.errors_within)}, 95 % sure"
    surely = f"{100 * compared.worse_confidence:.4g} %"
    click.echo(
        f"{compared.figures} figures: one is called worse where that is {surely} sure, which is 95 % for all of them together"
    )
    if compared.said == "no worse":
        click.echo(f"NO WORSE: every figure is within its margin ({margins})")
    else:
        click.echo(f"{compared.said.upper()}: {'; '.join(decisive) or 'no level to compare'} ({margins})")


def _text(figure: "Figure") -> str:
    if figure.name == "errors":
        a, b = (f"{100 * (value or 0.0):.3g} %" for value in (figure.a, figure.b))
        change, margin = _points(figure.change), _points(figure.margin)
        between = f"{_points(figure.low)} to {_points(figure.high)}"
    else:
        a, b = ("none" if value is None else f"{value:.4g} s" for value in (figure.a, figure.b))
        change, margin = _times(figure.change), _times(figure.margin)
        between = f"{_times(figure.low)} to {_times(figure.high)}"
    if figure.low is None and figure.high is None:
        return f"{figure.name:<6} {a} -> {b}: {figure.why}"
    if figure.low is None:
        between = f"at most {_times(figure.high)}"
    if figure.high is None:
        between = between.replace("none", "what cut calls would have taken")
    beyond = figure.said == "no worse" and figure.high is not None and figure.high > figure.margin
    none = ": none failed in either, which counts as none more" if figure.name == "errors" and beyond else ""
    few = f": {figure.why}" if figure.low is None and figure.why else ""
    return f"{figure.name:<6} {a} -> {b}: {change}, surely {between}, margin {margin}{none}{few}"


def _times(value: float | None) -> str:
    return "none" if value is None else f"x{value:.3g}"


def _points(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:+.3g} points"
