"""What the Friday demo does: the stand-in concierge, the kit's flags and missions, numbers that are good on loopback, two drills.

1. Whatever ends it ends what it started: the agent hangs on the drill's keeper, all other parts on the conductor.
2. Ports are free ones and the secret of the alert is made for this showing; it is in the environment and in no file.
3. The mistake is switched on in the worker's environment, as in the other demo, so that no evidence names it.
"""

import contextlib
import importlib.resources
import json
import os
import secrets
import shlex
import string
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from drillmaster import reports
from drillmaster.cli._demo import free_ports, plan_folder, program, runs_folder, short_path, usable_state
from drillmaster.clock import SystemClock
from drillmaster.errors import Exit
from drillmaster.intake.friday import judge_friday
from drillmaster.intake.friday_pages import friday_pages
from drillmaster.intake.verdicts import keep
from drillmaster.scaffold.friday import flags_file, missions_file
from drillmaster.standins import Told, arm, disarm
from drillmaster.standins.agent import SWITCH
from drillmaster.standins.concierge import concierge_class
from drillmaster.verdict import Verdict

__all__ = ["EXPECTED", "FridayDemo"]

EXPECTED: Mapping[str, str] = {
    "no-retry": "tool-success",
    "no-alert": "detector-time",
    "low-severity": "detector-time",
    "lost-transcripts": "replay",
    "deaf-worker": "kill-switch",
}
"""The mistake, and the one row of the matrix that it breaks."""
_SECRET = "DEMO_ALERT_TOKEN"  # noqa: S105  # a variable's name


class _Played(msgspec.Struct, frozen=True, kw_only=True):
    bug: str | None
    run: Path
    verdict: Verdict
    broken: tuple[str, ...]
    """Rows that failed or were refused."""
    pages: tuple[Path, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        return () if self.bug is None else (EXPECTED[self.bug],)

    @property
    def as_expected(self) -> bool:
        status = "pass" if self.bug is None else "fail"
        return self.verdict.status == status and self.broken == self.wanted


class FridayDemo:
    """One showing."""

    def __init__(self, *, bug: str | None, runs: str | None, as_json: bool, colour: bool | None) -> None:
        self._bug = bug or "no-retry"
        concierge_class(self._bug)
        self._as_json = as_json
        if colour is False:
            os.environ["NO_COLOR"] = "1"
        self._colour: bool = reports.form("text").colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
        self._runs = runs_folder(runs)

    def play(self, *, healthy: bool, buggy: bool) -> Exit:
        """Run what was asked for; the demo's exit code, or the gate's where one drill alone was asked for. Raises Problem, Told."""
        agents: list[str | None] = ([None] if healthy else []) + ([self._bug] if buggy else [])
        played: list[_Played] = []
        with contextlib.ExitStack() as stack:
            usable_state(stack)
            for nth, bug in enumerate(agents, 1):
                self._say(
                    f"\nDrill {nth} of {len(agents)}: {_about(bug)}; 200 missions at once, and in the middle third the refund tool "
                    "does not answer the first try"
                )
                played.append(self._drill(bug))
            disarm()
        self._close(played)
        if len(agents) == 1:
            return played[0].verdict.exit
        if all(one.as_expected for one in played):
            return Exit.PASS
        return Exit.REFUSED if any(one.verdict.status == "refused" for one in played) else Exit.FAIL

    def _drill(self, bug: str | None) -> _Played:
        with _files() as plan:
            run = self._conduct(plan, bug)
        verdict = judge_friday(run, run / "policy.yaml", now_ns=SystemClock().wall_ns())
        keep(verdict, run)
        pages = tuple(friday_pages(run).values())
        if not self._as_json:
            click.echo(f"\n$ {program()} gate matrix {shlex.quote(short_path(run))}")
            click.echo(reports.form("text").render(verdict, colour=self._colour), nl=False, color=self._colour)
            for page in pages:
                click.echo(f"{page.stem + ':':<8}{short_path(page)}")
        broken = tuple(
            check.id.removeprefix("row.")
            for check in verdict.checks
            if check.role == "judgement" and check.status != "pass"
        )
        return _Played(bug=bug, run=run, verdict=verdict, broken=broken, pages=pages)

    def _conduct(self, plan: Path, bug: str | None) -> Path:
        """Run the drill; its folder. Raises Problem, Told."""
        from drillmaster.run import Options, Silent, conduct_friday, progress_for

        os.environ.pop(SWITCH, None)
        if bug is not None:
            os.environ[SWITCH] = bug
        os.environ[_SECRET] = secrets.token_hex(24)
        try:
            options = Options(runs=self._runs, stamps=("DEMO",), progress=Silent() if self._as_json else progress_for())
            result = conduct_friday(plan, options)
        finally:
            os.environ.pop(SWITCH, None)
            os.environ.pop(_SECRET, None)
            arm()
        if result.exit is Exit.ABORTED:
            raise Told(result.why)
        return result.run_dir

    def _close(self, played: list[_Played]) -> None:
        if self._as_json:
            drills = [
                {
                    "agent": one.bug or "healthy",
                    "run": str(one.run),
                    "status": one.verdict.status,
                    "exit": int(one.verdict.exit),
                    "broken": list(one.broken),
                    "expected": {"status": "fail" if one.bug else "pass", "broken": list(one.wanted)},
                    "as_expected": one.as_expected,
                    "pages": [str(page) for page in one.pages],
                }
                for one in played
            ]
            click.echo(json.dumps({"drills": drills, "as_expected": all(one.as_expected for one in played)}, indent=2))
            return
        click.echo("")
        for one in played:
            seen = f"{one.verdict.status}, exit code {int(one.verdict.exit)}"
            rows = f", row {', '.join(one.broken)} broken" if one.broken else ""
            if one.as_expected:
                click.echo(f"As it should be: {_about(one.bug)} got {seen}{rows}.")
            else:
                wanted = f"fail with row {one.wanted[0]}" if one.wanted else "pass"
                click.echo(f"Not as it should be: {_about(one.bug)} got {seen}{rows}; {wanted} was expected.")
            if one.bug is not None:
                click.echo(f"Its mistake: {(concierge_class(one.bug).__doc__ or '').strip()}")
        click.echo(f"Look at it:  {program()} report {shlex.quote(short_path(played[-1].run))} --open")
        click.echo(f"Next, yours: {program()} init friday")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            click.echo(text, err=True)


def _about(bug: str | None) -> str:
    return "a healthy agent" if bug is None else "an agent with one mistake"


@contextlib.contextmanager
def _files() -> Iterator[Path]:
    """Lend a folder with the drill's files, and give its plan."""
    agent_port, flags_port, alert_port = free_ports(3)
    values = {
        "agent_port": agent_port,
        "flags_port": flags_port,
        "alert_port": alert_port,
        "python": json.dumps(sys.executable),
        "review_by": (datetime.now(UTC) + timedelta(days=90)).strftime("%Y-%m-%d"),
    }
    kit = importlib.resources.files("drillmaster") / "kits" / "friday"
    with plan_folder() as folder:
        for name, called in (("plan.yaml", "friday-plan.yaml"), ("matrix.yaml", "drill-matrix.yaml")):
            text = string.Template((kit / "demo" / name).read_text(encoding="utf-8")).substitute(values)
            (folder / called).write_text(text, encoding="utf-8")
        flags = flags_file(service="escalation-concierge", today=datetime.now(UTC).date())
        for name, text in (("flags.yaml", flags), ("missions.yaml", missions_file())):
            (folder / name).write_text(text, encoding="utf-8")
        yield folder / "friday-plan.yaml"
