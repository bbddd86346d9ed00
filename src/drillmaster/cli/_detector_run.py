"""What `drillmaster detector` runs: the listener by hand, and the built-in detector."""

import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from drillmaster.cli import say_json
from drillmaster.errors import Problem
from drillmaster.rules.burn_rate import WORKBOOK, Pair, Watch

__all__ = ["bearer", "listen", "watch_of", "watch_options", "watch_timeline"]

_WINDOW = re.compile(r"([0-9a-z]+):([0-9a-z]+):([0-9.]+)(?::([A-Za-z0-9_-]{1,40}))?")


def listen(plan: Path, out: Path, environ: Mapping[str, str]) -> int:
    """Listen as a plan's section says, until interrupted; the exit code."""
    import time

    from drillmaster.detectors.listener import run
    from drillmaster.detectors.settings import of_section, secrets_of
    from drillmaster.friday.detectors import Detectors
    from drillmaster.intake import read_bytes
    from drillmaster.strict import CAP_BYTES, as_type, load

    place = str(plan)
    found = load(read_bytes(plan, CAP_BYTES["yaml"]), place=place, fmt="yaml")
    if not isinstance(found, dict) or "detectors" not in found:
        raise Problem(
            place, found="no section detectors", wanted="detectors: {receivers: [...]}", remedy="write it into the plan"
        )
    section = as_type(found["detectors"], Detectors, place=place, path=("detectors",))
    settings = of_section(
        section, events=str(out), mono0_ns=time.monotonic_ns(), control_path=None, folder=str(plan.absolute().parent)
    )
    secrets_of(settings.receivers, environ)  # a secret that is missing is said before anything sounds as if it listened
    for one in section.receivers:
        path = getattr(one, "path", None) or getattr(one, "file", "")
        click.echo(f"{one.name}: {path}", err=True)
    click.echo(f"listening on {section.listen}; what comes is written to {out}; Ctrl-C ends it", err=True)
    return run(settings, environ)


_F = TypeVar("_F", bound=Callable[..., object])


def watch_options(command: _F) -> _F:
    """Add the options that say what is watched."""
    options = [
        click.option("--rule", metavar="NAME", default="ToolFailures", show_default=True, help="The alert's name."),
        click.option(
            "--target", type=float, required=True, metavar="RATIO", help="Of the calls, how many have to succeed: 0.99."
        ),
        click.option(
            "--window",
            "windows",
            multiple=True,
            metavar="LONG:SHORT:FACTOR[:SEVERITY]",
            help="A pair of windows and its burn rate; again for more. Default: the workbook's three, for a budget of 30 days.",
        ),
        click.option("--severity", default="sev2", show_default=True, metavar="WORD", help="Of pairs that name none."),
        click.option(
            "--least",
            type=click.IntRange(0, 1_000_000),
            default=0,
            show_default=True,
            help="Calls in the short window below which nothing fires.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def watch_of(rule: str, target: float, windows: tuple[str, ...], severity: str, least: int) -> Watch:
    """Make the watch that the options say. Raises Problem."""
    remedy = "write it as --window 1h:5m:14.4:sev2"
    pairs = []
    try:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", rule):
            raise ValueError(f"--rule: {rule[:60]!r}; wanted a name of letters, digits and _")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", severity):
            raise ValueError(f"--severity: {severity[:60]!r}; wanted a word")
        for text in windows:
            found = _WINDOW.fullmatch(text)
            if found is None:
                raise ValueError(f"{text[:60]!r}")
            long, short, factor, word = found.groups()
            pairs.append(
                Pair(long_s=_whole(long), short_s=_whole(short), factor=float(factor), severity=word or severity)
            )
        if not pairs:
            pairs = [
                Pair(long_s=long_s, short_s=short_s, factor=burn, severity=severity if burn > 1 else "sev4")
                for long_s, short_s, burn in WORKBOOK
            ]
        return Watch(rule=rule, target=target, pairs=tuple(pairs), least=least)
    except (ValueError, click.BadParameter) as error:
        raise Problem(
            "the watch", found=str(error), wanted="windows, a factor and a target that fit", remedy=remedy
        ) from None


def _whole(text: str) -> int:
    from drillmaster.rules.alert_delay import duration_s

    seconds = duration_s(text)
    if seconds is None or seconds != int(seconds):
        raise ValueError(f"a window of {text[:20]!r}; wanted whole seconds, as 5m or 90s")
    return int(seconds)


def bearer(secret_env: str | None) -> str | None:
    """The secret that the environment holds. Raises Problem."""
    if secret_env is None:
        return None
    said = os.environ.get(secret_env, "").strip()
    if not said or not said.isascii() or not said.isprintable() or " " in said:
        raise Problem(
            f"--secret-env {secret_env}",
            found="nothing" if not said else "characters that no token has",
            wanted="the receiver's secret in the environment",
            remedy=f"export {secret_env}=...",
        )
    return said


def watch_timeline(
    watch: Watch,
    log: Path,
    *,
    to: str | None,
    secret_env: str | None,
    count: str,
    tool: str | None,
    labels: Mapping[str, str],
    repeat_s: float,
    at_most_s: float,
    as_json: bool,
) -> int:
    """Run the built-in detector until the drill has ended, or a signal; the exit code."""
    from drillmaster.clock import SystemClock
    from drillmaster.detectors.watch import COUNTED, Change, Detector, Sender, follow
    from drillmaster.detectors.watching import refuse_odd
    from drillmaster.errors import Exit

    refuse_odd(log, "watch")
    sender = (lambda body: "") if to is None else Sender(to, bearer(secret_env))
    kind = next(one for one in COUNTED if one == count)
    detector = Detector(watch, log, sender, SystemClock(), count=kind, tool=tool, labels=labels, repeat_s=repeat_s)
    stopped: list[int] = []

    def say(change: Change) -> None:
        if as_json:
            say_json(change)
        else:
            click.echo(change.words)
        sys.stdout.flush()  # whoever reads a pipe wants it now

    before = {
        number: signal.signal(number, lambda got, _: stopped.append(got)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        follow(detector, at_most_s=at_most_s, stop=lambda: bool(stopped), say=say)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        detector.close()
    click.echo(
        f"{detector.events} calls, {detector.bad} failed; {detector.sent} deliveries"
        + (f", {detector.failed} that failed ({detector.last_failure})" if detector.failed else ""),
        err=True,
    )
    if detector.failed and not detector.sent:
        raise Problem(
            f"--to {to}",
            found=f"no delivery ({detector.last_failure})",
            wanted="a receiver that takes them",
            remedy="start it first: drillmaster detector listen PLAN",
        )
    return Exit.PASS
