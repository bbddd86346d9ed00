"""What the demo does: stand-ins on free ports, a plan and a policy filled in, drills, verdicts, and nothing left behind.

1. Whatever ends it, a signal at any moment included, ends what it started: two providers hang on a pipe that closes with
   this process, the drill's own parts on the conductor.
2. The stand-in Scribe writes what a Scribe would see, no more: the injection when it is announced, the first answers that
   users get after it or at the end that there were none, and the end.
3. The plan lies in the state folder, outside of any checkout: a drill refuses code that changes meanwhile, and there it
   would be the reader's. Not in the shared temporary folder either, which others may clean while a drill runs.
"""

import contextlib
import importlib.resources
import json
import os
import select
import shlex
import shutil
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from drillmaster import reports
from drillmaster.clock import SystemClock
from drillmaster.conduct import State
from drillmaster.errors import Exit, Problem
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import judge_eviction, keep
from drillmaster.intake.written import judged_run, write_whole
from drillmaster.run import Scene
from drillmaster.standins import Told, arm, disarm
from drillmaster.standins.agent import SWITCH, agent_class
from drillmaster.standins.agent_http import check_sdk
from drillmaster.verdict import Status, Verdict

__all__ = [
    "EXPECTED",
    "Demo",
    "Played",
    "StandInScribe",
    "expected",
    "free_ports",
    "plan_folder",
    "program",
    "runs_folder",
    "short_path",
    "usable_state",
]

EXPECTED: Mapping[str, tuple[Status, str]] = {
    "wrong-except": ("fail", "no-fallback"),
    "choosy-fallback": ("fail", "fallback-errs"),
    "cold-start": ("pass", "slow-fallback"),
    "one-loop": ("fail", "worker-silent"),
    "eager-retries": ("pass", "retry-storm"),
    "one-way-switch": ("fail", "sticky-fallback"),
    "empty-hands": ("fail", "phantom-fallback"),
    "slow-counter": ("fail", "late-fallback"),
    "status-only": ("fail", "no-fallback"),
    "no-client-timeout": ("fail", "no-client-time-limit"),
}
"""What each mistake of the stand-in agent comes to, where its fault is the one that shows it."""

_HARMLESS = {("status-only", "503"), ("no-client-timeout", "reset"), ("no-client-timeout", "503")}
"""Mistakes that a fault does not touch: the agent passes, which is why each mode is a drill of its own."""

_IN_FLIGHT = 3
"""Answers that may still be the primary's, on their way when the fault came."""
_READY_S = 30.0
_DEFAULT_BUG = "wrong-except"


def expected(bug: str | None, mode: str) -> tuple[Status, str | None]:
    """The verdict and the finding that an agent of this kind has coming. `bug` None: the healthy one."""
    if bug is None or (bug, mode) in _HARMLESS:
        return "pass", None
    return EXPECTED[bug]


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One drill of the demo, over."""

    bug: str | None
    run: Path
    verdict: Verdict
    card: Path
    report: Path
    as_expected: bool


class StandInScribe:
    """Writes down what a person beside the terminal sees. One for each drill."""

    def __init__(self) -> None:
        self._wrote: set[str] = set()

    def __call__(self, scene: Scene, note: Callable[[str, str], None]) -> None:
        """Look once, about once a second, and write what is new."""
        answers = scene.since_injection.get("ok", 0)
        if scene.state is State.INJECTED:
            self._once(note, "injection_seen", "the Lead called the time; the large digits are on the screen")
            if answers > _IN_FLIGHT:
                self._once(note, "first_fallback_seen", f"users get answers again, {answers} since the injection")
        elif scene.state in (State.RECOVERY, State.DRAINING):
            if "first_fallback_seen" not in self._wrote:
                self._once(note, "no_fallback_seen", "no user had an answer while the endpoint was gone")
            self._once(note, "window_ended", "the Lead called the lift")

    def _once(self, note: Callable[[str, str], None], kind: str, text: str) -> None:
        if kind not in self._wrote:
            self._wrote.add(kind)
            note(kind, text)


class Demo:
    """One showing. `runs` None: `runs` here, or a temporary folder where this one cannot be written."""

    def __init__(self, *, mode: str, bug: str | None, runs: str | None, as_json: bool, colour: bool | None) -> None:
        self._mode = mode
        self._bug = bug or _DEFAULT_BUG
        # What cannot work is refused before anything starts.
        agent_class(self._bug)
        check_sdk()
        self._as_json = as_json
        if colour is False:
            os.environ["NO_COLOR"] = "1"
        text = reports.form("text")
        self._colour: bool = text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
        self._runs = runs_folder(runs)

    def play(self, *, healthy: bool, buggy: bool) -> Exit:
        """Run what was asked for; the exit code of the demo, or of the gate where one drill alone was asked for.

        Raises Problem; Told where somebody ended it.
        """
        agents: list[str | None] = ([None] if healthy else []) + ([self._bug] if buggy else [])
        played: list[Played] = []
        with contextlib.ExitStack() as stack:
            usable_state(stack)
            primary = stack.enter_context(_provider(seed=1, latency_ms=60))
            fallback = stack.enter_context(_provider(seed=2, latency_ms=40))
            for nth, bug in enumerate(agents, 1):
                does = _DOES[self._mode]
                self._say(f"\nDrill {nth} of {len(agents)}: {self._about(bug)}, and the endpoint will {does}")
                played.append(self._drill(bug, primary, fallback))
            disarm()
        self._close(played)
        if len(agents) == 1:
            return played[0].verdict.exit
        if all(p.as_expected for p in played):
            return Exit.PASS
        return Exit.REFUSED if any(p.verdict.status == "refused" for p in played) else Exit.FAIL

    def _about(self, bug: str | None) -> str:
        return "a healthy agent" if bug is None else "an agent with one mistake"

    def _drill(self, bug: str | None, primary: int, fallback: int) -> Played:
        with plan_folder() as folder:
            plan = self._write_plan(folder, bug, primary, fallback)
            run = self._conduct(plan, bug)
        now_ns = SystemClock().wall_ns()
        verdict = judge_eviction(open_run(run), run / "policy.yaml", now_ns=now_ns)
        keep(verdict, run)
        _, view = judged_run(run)
        card = write_whole(run / "card.md", reports.form("card").render(verdict, view))
        report = write_whole(run / "report.html", reports.form("html").render(verdict, view))
        status, finding = expected(bug, self._mode)
        found = {f.id for f in verdict.findings}
        if not self._as_json:
            click.echo(f"\n$ {program()} gate eviction {shlex.quote(short_path(run))}")
            click.echo(reports.form("text").render(verdict, colour=self._colour), nl=False, color=self._colour)
            click.echo(f"\ncard:   {short_path(card)}\nreport: {short_path(report)}")
        return Played(
            bug=bug,
            run=run,
            verdict=verdict,
            card=card,
            report=report,
            as_expected=verdict.status == status and (finding is None or finding in found),
        )

    def _conduct(self, plan: Path, bug: str | None) -> Path:
        """Run the drill; its folder. Raises Problem, Told."""
        from drillmaster.run import Options, Silent, conduct, progress_for

        # Not in the plan, which is evidence: the worker inherits it.
        os.environ.pop(SWITCH, None)
        if bug is not None:
            os.environ[SWITCH] = bug
        try:
            result = conduct(
                plan,
                Options(
                    runs=self._runs,
                    stamps=("DEMO",),
                    progress=Silent() if self._as_json else progress_for(),
                    scribe=StandInScribe(),
                ),
            )
        finally:
            os.environ.pop(SWITCH, None)
            arm()
        if result.exit is Exit.ABORTED:
            raise Told(result.why)
        return result.run_dir

    def _write_plan(self, folder: Path, bug: str | None, primary: int, fallback: int) -> Path:
        agent_port, proxy_port = free_ports(2)
        values = {
            "service": "demo agent, healthy" if bug is None else "demo agent, with a mistake",
            "agent_port": agent_port,
            "proxy_port": proxy_port,
            "primary_port": primary,
            "fallback_port": fallback,
            "mode": f'"{self._mode}"',
            "python": json.dumps(sys.executable),
            "review_by": (datetime.now(UTC) + timedelta(days=90)).strftime("%Y-%m-%d"),
        }
        kit = importlib.resources.files("drillmaster") / "kits" / "demo"
        for name in ("plan.yaml", "policy.yaml"):
            text = string.Template((kit / name).read_text(encoding="utf-8")).substitute(values)
            (folder / name).write_text(text, encoding="utf-8")
        return folder / "plan.yaml"

    def _close(self, played: list[Played]) -> None:
        if self._as_json:
            drills = [
                {
                    "agent": p.bug or "healthy",
                    "mode": self._mode,
                    "run": str(p.run),
                    "status": p.verdict.status,
                    "exit": int(p.verdict.exit),
                    "findings": [f.id for f in p.verdict.findings],
                    "expected": dict(zip(("status", "finding"), expected(p.bug, self._mode), strict=True)),
                    "as_expected": p.as_expected,
                    "card": str(p.card),
                    "report": str(p.report),
                }
                for p in played
            ]
            click.echo(json.dumps({"drills": drills, "as_expected": all(p.as_expected for p in played)}, indent=2))
            return
        click.echo("")
        for p in played:
            status, finding = expected(p.bug, self._mode)
            seen = f"{p.verdict.status}, exit code {int(p.verdict.exit)}"
            if p.as_expected:
                click.echo(
                    f"As it should be: {self._about(p.bug)} got {seen}" + (f", finding {finding}." if finding else ".")
                )
            else:
                wanted = status + (f" with finding {finding}" if finding else "")
                click.echo(f"Not as it should be: {self._about(p.bug)} got {seen}; {wanted} was expected.")
            if p.bug is not None:
                click.echo(f"Its mistake: {(agent_class(p.bug).__doc__ or '').strip()}")
        if played:
            click.echo(f"Look at it:  {program()} report {shlex.quote(short_path(played[-1].run))} --open")
        click.echo(f"Next, yours: {program()} init eviction")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            click.echo(text, err=True)


_DOES = {"reset": "reset every connection", "503": "answer 503", "hang": "hang"}


@contextlib.contextmanager
def _provider(*, seed: int, latency_ms: float) -> Iterator[int]:
    """Lend a stand-in provider's port. It also ends by itself when this process does: its standard input closes."""
    argv = [sys.executable, "-P", "-m", "drillmaster", "standin", "provider", "--port", "0", "--die-with-parent"]
    argv += ["--seed", str(seed), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(  # noqa: S603 # our own program
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield _port_of(process)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
        process.kill()
        process.wait()


def _port_of(process: "subprocess.Popen[bytes]") -> int:
    """Read the port from the one line that a stand-in prints once it listens. Raises Problem."""
    assert process.stdout is not None
    line = b""
    give_up_s = time.monotonic() + _READY_S
    while not line.endswith(b"\n"):
        left_s = give_up_s - time.monotonic()
        if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
            break
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            break
        line += piece
    port = line.decode("utf-8", "replace").rpartition(":")[2].partition("/")[0]
    if not port.isdecimal():
        raise Problem(
            "demo",
            found="a stand-in provider that does not start",
            wanted="its address",
            remedy="see what it says: drillmaster standin provider --port 0",
        )
    return int(port)


def free_ports(count: int) -> list[int]:
    """Find ports of loopback that nobody has: bound all at once, so that they differ."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in held]


def runs_folder(named: str | None) -> Path:
    if named is not None:
        return Path(named)
    here = Path("runs")
    if os.access(here if here.is_dir() else Path.cwd(), os.W_OK | os.X_OK) and (here.is_dir() or not here.exists()):
        return here
    folder = Path(tempfile.mkdtemp(prefix="drillmaster-demo-"))
    click.echo(f"demo: {Path.cwd()} cannot be written; the runs go to {folder}", err=True)
    return folder


def usable_state(stack: contextlib.ExitStack) -> None:
    """Lend a temporary folder for tokens and sockets where the user's own cannot be made: a home that is not ours."""
    from drillmaster.intake.state import state_root

    at = state_root()
    while not at.exists():
        at = at.parent
    if not os.access(at, os.W_OK | os.X_OK):
        os.environ["DRILLMASTER_STATE"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="drillmaster-state-"))


@contextlib.contextmanager
def plan_folder() -> Iterator[Path]:
    """Lend a folder for a plan and its policy, that nobody else's. What a demo that was killed left there goes."""
    from drillmaster.intake.state import state_root
    from drillmaster.run.seats import private_folder, started_ticks

    root = state_root()
    private_folder(root)
    for left in root.glob("demo-*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdecimal() and started_ticks(int(pid)) is None:
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"demo-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    private_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def program() -> str:
    """How this program was called, so that the next command can be typed as it stands."""
    called = sys.argv[0]
    if called.endswith("__main__.py"):
        return f"{shlex.quote(sys.executable)} -m drillmaster"
    return shlex.quote(called)


def short_path(path: Path) -> str:
    """A path as a person here would type it."""
    with contextlib.suppress(ValueError, OSError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)
