"""What this machine can hold as a client: an interview of a built-in server of known law, beside what that server truly did."""

import contextlib
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec

from drillmaster.errors import Problem
from drillmaster.evidence import Row, rows
from drillmaster.ladder import Asked, InterviewPlan
from drillmaster.ladder.checking import Place
from drillmaster.load.conducting import conduct
from drillmaster.load.manifest import EVENTS
from drillmaster.load.preparing import LoadOptions
from drillmaster.load.reading import open_interview_run
from drillmaster.stats import quantile
from drillmaster.timeline import chunks
from drillmaster.verdict import Exact

__all__ = ["LAW_MS", "Held", "self_test"]

LAW_MS = 100.0
CALLS_A_CALLER = 20
LEAST_CALLS = 30
_STAMPED_WITHIN_NS = round(LAW_MS / 2 * 1e6)
"""Levels lie further apart: each is a run of its own."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How one level went."""

    callers: int
    held: float
    added_p50_ms: float
    """The client's median less the server's own: what client, sockets and scheduling put on top."""
    added_p99_ms: float
    cpu_us: float
    """Of the client, for one call."""
    cpu_share: float
    void: tuple[str, ...]
    """Why this machine does not hold it; empty: it does."""

    @property
    def said(self) -> str:
        """The same in a line, for people."""
        added = f"added p50 {self.added_p50_ms:.2f} ms, p99 {self.added_p99_ms:.2f} ms"
        cost = f"{self.cpu_us:g} µs a call, {self.cpu_share:.0%} of a core"
        end = f"VOID: {'; '.join(self.void)}" if self.void else "fit"
        return f"{self.callers:>5} callers  held {self.held:g}  {added}  {cost}  {end}"


def self_test(levels: tuple[int, ...], *, processes: int = 1) -> list[Held]:
    """Interview the built-in server with so many callers, in so many engine processes. Raises Problem."""
    with tempfile.TemporaryDirectory(prefix="drillmaster-self-test-") as folder, contextlib.ExitStack() as stack:
        truth_file = Path(folder) / "truth"
        origin = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-m", "drillmaster.load.origin", str(LAW_MS), str(truth_file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        stack.callback(origin.kill)
        assert origin.stdin is not None and origin.stdout is not None
        port = origin.stdout.readline().strip()
        if not port:
            raise Problem("self-test", found="that the server did not start", wanted="its port", remedy="see above")
        runs = [_one(level, port, Path(folder), processes) for level in levels]
        origin.stdin.close()
        origin.wait(10)
        truth = array("q")
        truth.frombytes(truth_file.read_bytes())
        return [_compared(run, truth) for run in runs]


def _one(level: int, port: str, folder: Path, processes: int) -> Path:
    """Interview it with so many callers; the run's folder."""
    plan = InterviewPlan(
        kind="plan",
        drill="interview",
        job="self-test",
        target=Asked(url=f"http://127.0.0.1:{port}/"),
        levels=(level,),
        warm=max(LEAST_CALLS, CALLS_A_CALLER * level),
        idle_s=0,
        timeout_s=30,
        processes=processes,
    )
    options = LoadOptions(runs=folder / "runs", out=folder / f"{level}.json", base=folder, rehearsal=True)
    result = conduct(plan, Place("self-test", {"/levels": "--levels", "/processes": "--processes"}), options)
    if result.why:
        raise Problem("self-test", found=result.why, wanted="a run to its end", remedy="run it again")
    return result.run_dir


def _compared(run_dir: Path, truth: "array[int]") -> Held:
    """One level, beside what the server did in its time."""
    read = open_interview_run(run_dir)
    mono0_ns = int(read.manifest.mono0_ns)
    [level] = (level for level in read.interview.levels if level.kind == "closed")
    times: dict[str, int] = {}
    for row in rows(chunks(run_dir / EVENTS), file=EVENTS):
        if isinstance(row, Row) and row.fields.get("stage") == level.label and row.event.startswith("stage_"):
            times |= {name: row.fields[name] + mono0_ns for name in ("start_ns", "end_ns") if name in row.fields}
    served_s = [
        (truth[at + 1] - truth[at]) / 1e9
        for at in range(0, len(truth), 2)
        # The server stamps an end once it has handed the answer over, when the client may have read it already.
        if times["start_ns"] <= truth[at] and truth[at + 1] <= times["end_ns"] + _STAMPED_WITHIN_NS
    ]
    fitness = read.fitness[level.label]
    seen = level.ok_s or ()
    void = list(level.void)
    if level.failures or len(served_s) != level.n:
        void.append(f"{level.n} calls, {level.failures} failed, and the server answered {len(served_s)}")
    served_ms = _at(served_s, 0.5) * 1e3
    if served_ms > 1.1 * LAW_MS:
        void.append(f"the built-in server itself took {served_ms:.3g} ms for its {LAW_MS:g}: this machine is full")
    return Held(
        callers=fitness.callers,
        held=round(fitness.held, 2),
        added_p50_ms=round((_at(seen, 0.5) - _at(served_s, 0.5)) * 1e3, 3),
        added_p99_ms=round((_at(seen, 0.99) - _at(served_s, 0.99)) * 1e3, 3),
        cpu_us=round(fitness.cpu_s / level.n * 1e6, 1),
        cpu_share=round(fitness.cpu_share or 0.0, 3),
        void=tuple(void),
    )


def _at(values: Sequence[float], q: float) -> float:
    measure = quantile(values, q) if values else None
    return measure.value if isinstance(measure, Exact) else float("nan")
