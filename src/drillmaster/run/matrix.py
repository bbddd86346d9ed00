"""A matrix as a course: cells laid out by what the baseline heard, one window each, and the agent back before the next.

1. What there is to run is known when the baseline is over: until then nobody can say what the agent speaks. A baseline in which
   more failed than may leaves all cells out, and blames nobody.
2. Before a cell the agent is back: of the requests sent after the last lift, the latest `BACK_REQUESTS` were answered well, and the
   real endpoint answered one in the API of the cell that was. An agent whose circuit breaker is open is not back, however well it
   answers: what is injected then would meet nobody.
3. The wait for that is bounded. When it was in vain, or the agent's process has ended, a drill that started the agent starts it
   anew and says so. When that was in vain too, or the time, the spend or the permit is used up, what is left is named with
   that reason and not run; the drill still ends in order.
4. All of it is written down when it is decided, so that the table can be read from the run alone.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from drillmaster.clock import Clock
from drillmaster.conduct import State
from drillmaster.errors import Problem
from drillmaster.matrix import Cell, Pair, Wanted, choose, lay_out, rules_of
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.plan import Fault, Matrix, Phases, Plan, Spend
from drillmaster.run.course import Stage, Turn
from drillmaster.run.folder import Folder
from drillmaster.run.ready import (
    Options,
    Ready,
    read_limits,
    read_plan,
    refuse,
)
from drillmaster.run.tail import Tail
from drillmaster.sanity import MAX_DRILL_S, MIN_EVERY_S, check, unnamed_seats, window_problem

__all__ = ["Cells", "longest_s", "prepare_matrix"]

BACK_REQUESTS = 3
MAX_FACTOR = 30
SHORTEST_EVERY_S = 0.05
"""How close together `--compress max` lets requests come."""
PATIENCE_S = 10.0
"""How much of a user's patience a window that nobody gave a length leaves room for."""
SELDOM = 10
"""How many times longer a window gets, at most, for an API that the agent seldom asks."""
POLL_S = 0.1
_TIMES = ("baseline_s", "window_s", "recovery_s", "back_within_s")


def prepare_matrix(plan_path: Path, options: Options, *, wall_ns: int) -> Ready:
    """Read a plan, of a matrix or of an eviction drill, and lay its times out for a matrix. Raises Problem."""
    picked = options.matrix
    assert picked is not None
    plan = read_plan(plan_path, options)
    place = str(plan_path)
    matrix = plan.matrix or Matrix()
    try:
        wanted = choose(matrix, tags=picked.faults, groups=picked.groups, everything=picked.everything)
    except Problem as problem:
        where = place if not (picked.faults or picked.groups) else "--faults" if picked.faults else "--group"
        raise Problem(
            f"{where}: {problem.place}", found=problem.found, wanted=problem.wanted, remedy=problem.remedy
        ) from None
    _check(plan, matrix, place)
    limits = None if plan.policy is None else read_limits(plan_path, plan, wall_ns=wall_ns)
    stamps = list(options.stamps)
    factor = _most(plan, matrix) if options.compress == "max" else options.compress or 1.0
    if factor != 1:
        stamps.append(f"COMPRESSED {factor:g}x")
    plan = _timed(plan, matrix, factor)
    _check_window(plan, matrix, place)
    _check_room(plan, picked.time_limit_s)
    sane = check(plan, place=place, wall_ns=wall_ns, rehearsal=options.rehearsal, permit_host=options.permit_host)
    refuse(sane.problems, options.progress)
    warnings: list[str] = []
    empty = unnamed_seats(plan)
    if empty:
        warnings.append(f"nobody is named as {', '.join(empty)}: the run is stamped REHEARSAL")
    if limits is None:
        warnings.append("there is no policy: cells are measured, and none of them fails the drill")
    if plan.spend is None:
        cap = _default_spend(plan, len(wanted))
        plan = msgspec.structs.replace(plan, spend=Spend(max_requests=cap))
        warnings.append(
            f"the plan names no spend: no cell is begun that could take it past {cap} requests to the real endpoint"
        )
    rehearsal = options.rehearsal or bool(empty)
    if rehearsal:
        stamps.append("REHEARSAL")
    phases = plan.phases
    return Ready(
        plan=plan,
        plan_path=plan_path,
        policy_path=None if limits is None else limits.path,
        policy_sha256="" if limits is None else limits.sha256,
        gate=None if limits is None else limits.gate,
        numbers=None,
        stamps=tuple(dict.fromkeys(stamps)),
        rehearsal=rehearsal,
        said=(
            f"{len(wanted)} faults, each in every API that the agent is heard to speak, streamed and whole; "
            f"baseline {phases.baseline_s:.3g} s, then {phases.fault_s:.3g} s of each and at least {phases.recovery_s:.3g} s "
            f"to recover; one request every {plan.traffic.every_s:.3g} s",
        ),
        warnings=tuple(warnings),
        wanted=wanted,
    )


def _default_spend(plan: Plan, faults: int) -> int:
    """The cap of a plan that names none: three requests to the real endpoint for each that users ask, were each fault two cells."""
    phases = plan.phases
    likely_s = phases.baseline_s + 2 * faults * (phases.fault_s + phases.recovery_s)
    return 3 * math.ceil(likely_s / plan.traffic.every_s) + 20


def _check(plan: Plan, matrix: Matrix, place: str) -> None:
    """Look at the numbers that the times are made of, as they are written: a smallest value put in their place would hide them."""
    numbers = {f"/matrix/{name}": getattr(matrix, name) for name in _TIMES}
    numbers |= {f"/phases/{name}": value for name, value in msgspec.structs.asdict(plan.phases).items()}
    numbers |= {f"/traffic/{name}": getattr(plan.traffic, name) for name in ("every_s", "time_limit_s")}
    numbers["/matrix/requests_per_cell"] = matrix.requests_per_cell
    for pointer, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise Problem(
                f"{place}: {pointer}",
                found=str(value),
                wanted="a finite number > 0",
                remedy="set it to what is meant",
            )
        if value is not None and pointer.endswith("_s") and value > MAX_DRILL_S:
            raise Problem(
                f"{place}: {pointer}",
                found=f"{value:g} s",
                wanted=f"at most {MAX_DRILL_S} s: a drill is over within a day",
                remedy="set it to what is meant, in seconds",
            )
    if plan.traffic.every_s < MIN_EVERY_S:
        raise Problem(
            f"{place}: /traffic/every_s",
            found=f"{plan.traffic.every_s:g}",
            wanted=f"at least {MIN_EVERY_S:g} s: a drill is no load test",
            remedy="raise it",
        )


def _check_room(plan: Plan, time_limit_s: float | None) -> None:
    """Refuse a limit that is known to be over before the first cell is."""
    phases = plan.phases
    least_s = phases.baseline_s + phases.fault_s + phases.recovery_s
    if time_limit_s is not None and time_limit_s < least_s:
        raise Problem(
            "--time-limit",
            found=f"{time_limit_s:g} s, and baseline, one window and its recovery take {least_s:.3g} s",
            wanted="room for one cell",
            remedy=f"write --time-limit {math.ceil(least_s) + 60} or more, or compress the drill: --compress max",
        )


def _check_window(plan: Plan, matrix: Matrix, place: str) -> None:
    window_s, every_s = plan.phases.fault_s, plan.traffic.every_s
    if window_s < matrix.requests_per_cell * every_s:
        raise Problem(
            f"{place}: /matrix/window_s",
            found=f"{window_s:g} s, with one request every {every_s:g} s",
            wanted=f"room for {matrix.requests_per_cell} requests (requests_per_cell)",
            remedy=f"set it to {(matrix.requests_per_cell + 2) * every_s:g} or more, or leave it out",
        )


def _most(plan: Plan, matrix: Matrix) -> float:
    """The factor of `--compress max`: requests no closer together than SHORTEST_EVERY_S, a given window not under 2 s."""
    most = min(float(MAX_FACTOR), plan.traffic.every_s / SHORTEST_EVERY_S)
    if matrix.window_s is not None:
        most = min(most, matrix.window_s / 2)
    return max(1.0, math.floor(most * 4) / 4)


def _timed(plan: Plan, matrix: Matrix, factor: float) -> Plan:
    """The plan with the times of a matrix in place of an eviction drill's."""
    every_s = max(MIN_EVERY_S, plan.traffic.every_s / factor)
    baseline_s = matrix.baseline_s or min(plan.phases.baseline_s, max(10.0, 12 * plan.traffic.every_s))
    least_s = (matrix.requests_per_cell + 2) * every_s
    window_s = least_s + min(plan.traffic.time_limit_s, PATIENCE_S)
    if matrix.window_s is not None:
        window_s = max(matrix.window_s / factor, least_s) if factor > 1 else matrix.window_s
    recovery_s = max(2.0, 3 * every_s) if matrix.recovery_s is None else matrix.recovery_s / factor
    return msgspec.structs.replace(
        plan,
        drill="matrix",
        fault=Fault(),
        traffic=msgspec.structs.replace(plan.traffic, every_s=every_s),
        phases=Phases(
            baseline_s=max(baseline_s / factor, 3 * every_s), fault_s=window_s, recovery_s=max(recovery_s, every_s)
        ),
    )


def longest_s(plan: Plan, matrix: Matrix, wanted: Sequence[Wanted]) -> float:
    """A bound on how long it takes: every fault in two APIs, streamed and whole, and the agent as slow to be back as it may."""
    phases = plan.phases
    window_s = phases.fault_s * (1 if matrix.window_s is not None else SELDOM)
    return phases.baseline_s + 4 * len(wanted) * (window_s + phases.recovery_s + matrix.back_within_s)


class Cells:
    """The course of a matrix. `next` lays the cells out, then gives one at a time."""

    asks_notes = False
    by_hand = None

    def __init__(
        self,
        plan: Plan,
        wanted: Sequence[Wanted],
        folder: Folder,
        clock: Clock,
        *,
        max_baseline_failed_ratio: float,
        time_limit_s: float | None = None,
    ) -> None:
        self._plan = plan
        self._matrix = plan.matrix or Matrix()
        self._wanted = wanted
        self._clock = clock
        self._mono0_ns = folder.mono0_ns
        self._max_failed_ratio = max_baseline_failed_ratio
        self._deadline_ns = None if time_limit_s is None else clock.mono_ns() + round(time_limit_s * 1e9)
        self._time_limit_s = time_limit_s
        self._wire = Tail(folder.events / "proxy.jsonl")
        self._users = Tail(folder.events / "traffic.jsonl")
        self._heard: dict[tuple[str, bool], int] = {}
        self._lifted: dict[str, int] = {}
        self._answered: list[tuple[int, str, bool]] = []
        """Attempts that the real endpoint answered and no fault touched: start, dialect, stream."""
        self._ended: list[tuple[int, bool, str]] = []
        """Users' requests that are over: sent, whether well, how."""
        self._cells: tuple[Cell, ...] | None = None
        self._place = 0
        self._before: dict[str, int] = {}
        self._spent = 0
        self._most_spent = 0

    async def next(self, stage: Stage) -> Turn | None:
        if self._cells is None:
            self._lay_out(stage)
        else:
            done = self._cells[self._place - 1]
            self._tell(stage, done)
            why = await self._until_back(stage, done)
            if why:
                why = await self._anew(stage, done, why)
            if why and _goes_on(stage):
                self._leave(stage, f"the agent was not back after {_name(done)}: {why}")
        cells = self._cells or ()
        if self._place < len(cells) and _goes_on(stage):
            over = await self._over(stage, cells[self._place])
            if over and _goes_on(stage):
                self._leave(stage, over)
        if self._place >= len(cells) or not _goes_on(stage):
            return None
        cell = cells[self._place]
        self._place += 1
        self._before = dict(stage.tally.by_outcome) if stage.tally is not None else {}
        phases = self._plan.phases
        return Turn(
            window=cell.cell,
            fault=cell.label,
            rules=rules_of(cell),
            fault_s=self._window_s(cell),
            recovery_s=phases.recovery_s,
            told=f"cell {self._place} of {len(cells)}: {_name(cell)}",
        )

    # -- what there is to run

    def _lay_out(self, stage: Stage) -> None:
        """Say what is run and what is not, by what the baseline heard."""
        self._look()
        spoken = tuple(
            Pair(dialect=d, stream=s, attempts=n)
            for (d, s), n in sorted(self._heard.items(), key=lambda i: (-i[1], i[0]))
        )
        cells, left_out = lay_out(self._wanted, spoken)
        for entry in left_out:
            stage.write("cell_left_out", label=entry.label, dialect=entry.dialect, stream=entry.stream, why=entry.why)
        for cell in cells:
            stage.write("cell_planned", **msgspec.to_builtins(cell))
        self._cells = cells
        heard = ", ".join(f"{p.dialect} {'streamed' if p.stream else 'whole'} ({p.attempts})" for p in spoken)
        stage.say(f"heard: {heard or 'nothing'}; {len(cells)} cells to run, {len(left_out)} left out with a reason")
        if cells:
            about_s = sum(self._window_s(cell) + self._plan.phases.recovery_s for cell in cells)
            stage.say(f"about {_span(about_s)}, longer where the agent is slow to be back")
        sick = self._sick(stage)
        if sick:
            self._leave(stage, sick)

    def _sick(self, stage: Stage) -> str:
        """Why the baseline is none to compare with; empty: it is one."""
        tally = stage.tally
        if tally is None or tally.done == 0:
            return "the baseline was sick: not one request of it ended"
        if tally.failed > self._max_failed_ratio * tally.done:
            words = ", ".join(f"{n} {word}" for word, n in tally.by_outcome.most_common(4) if word != "ok")
            return f"the baseline was sick, with nothing injected: {tally.failed} of {tally.done} failed ({words})"
        return ""

    def _leave(self, stage: Stage, why: str) -> None:
        """Run no more cells, and say why of each."""
        cells = self._cells or ()
        if self._place < len(cells):
            stage.say(f"{len(cells) - self._place} cells are not run: {why}")
        for cell in cells[self._place :]:
            stage.write("cell_not_run", cell=cell.cell, why=why)
        self._place = len(cells)

    def _period_s(self, cell: Cell) -> float:
        """How often the agent asks as the cell wants, by what the baseline heard; no oftener than users ask it."""
        every_s = self._plan.traffic.every_s
        heard = self._heard.get((cell.dialect or "", bool(cell.stream)), 0)
        return every_s if heard == 0 else max(every_s, self._plan.phases.baseline_s / heard)

    def _window_s(self, cell: Cell) -> float:
        """How long a cell's fault is on: longer where the agent seldom asks so, unless the plan says how long."""
        window_s = self._plan.phases.fault_s
        if self._matrix.window_s is not None:
            return window_s
        more_s = (self._matrix.requests_per_cell + 2) * (self._period_s(cell) - self._plan.traffic.every_s)
        return min(window_s + more_s, SELDOM * window_s)

    async def _over(self, stage: Stage, cell: Cell) -> str:
        """Why there is no room for another cell; empty: there is."""
        phases, tally = self._plan.phases, stage.tally
        window_s = self._window_s(cell)
        each_s = window_s + phases.recovery_s
        if self._deadline_ns is not None and self._clock.mono_ns() + round(each_s * 1e9) > self._deadline_ns:
            return f"the time was over: --time-limit {self._time_limit_s:g} s has no room for another"
        now_ns = self._clock.wall_ns()
        outside = window_problem(self._plan, place="plan", from_ns=now_ns, until_ns=now_ns + round(window_s * 1e9))
        if outside is not None:
            return f"the agreed window has no room for another: it ends at {self._plan.window.end if self._plan.window else ''}"
        due = math.ceil(each_s / self._plan.traffic.every_s)
        permit = self._plan.target.permit
        if permit is not None and tally is not None and tally.sent + due > permit.max_requests:
            return f"target.permit.max_requests {permit.max_requests} has no room for another"
        spend = self._plan.spend
        if spend is None:
            return ""
        try:
            spent = await stage.requests_spent()
        except Problem:
            return ""  # the ticker counts silence
        if self._spent:
            self._most_spent = max(self._most_spent, spent - self._spent)
        self._spent = spent
        reserve = 2 * (self._most_spent or due)
        if reserve + spent > spend.max_requests:
            return (
                f"spend.max_requests {spend.max_requests} has no room for another: {spent} went to the real endpoint, "
                f"and {reserve} are kept back for a cell"
            )
        return ""

    # -- whether the agent is back

    async def _until_back(self, stage: Stage, done: Cell) -> str:
        """Wait until the agent is back from a cell; why it is not, empty: it is."""
        lifted_ns = self._clock.mono_ns() - self._mono0_ns
        why, patience_s = "", max(self._matrix.back_within_s, 3 * self._period_s(done))
        give_up_ns = self._clock.mono_ns() + round(patience_s * 1e9)
        while True:
            self._look()
            lifted_ns = self._lifted.get(done.cell, lifted_ns)
            back_ns, why = self._back(done, lifted_ns)
            if back_ns is not None:
                stage.write(
                    "agent_back", cell=done.cell, back=True, after_s=round((back_ns - lifted_ns) / 1e9, 3), why=""
                )
                return ""
            if self._plan.worker is not None and not stage.worker_alive:
                why = "its process had ended by itself"
                break
            if self._clock.mono_ns() >= give_up_ns:
                break
            if not (_goes_on(stage) and await stage.pause(POLL_S)):
                return ""
        waited_s = (self._clock.mono_ns() - self._mono0_ns - lifted_ns) / 1e9
        stage.write("agent_back", cell=done.cell, back=False, after_s=round(waited_s, 3), why=why)
        return why

    async def _anew(self, stage: Stage, done: Cell, why: str) -> str:
        """Start an agent that did not come back anew; why it is not back even then, empty: it is."""
        if self._plan.worker is None or stage.state is not State.RECOVERY:
            return why
        stage.say(f"  not back: {why}; starting the agent anew")
        stage.write("agent_restarted", cell=done.cell, why=why)
        began_ns = self._clock.mono_ns()
        if not await stage.restart_worker():
            return f"{why}, and it could not be started anew"
        give_up_ns = began_ns + round((self._plan.worker.ready_s + self._matrix.back_within_s) * 1e9)
        while _goes_on(stage) and self._clock.mono_ns() < give_up_ns and stage.worker_alive:
            self._look()
            back_ns, missing = self._back(done, began_ns - self._mono0_ns)
            if back_ns is not None:
                return ""
            why = f"started anew, {missing}"
            if not await stage.pause(POLL_S):
                return ""
        return why if stage.worker_alive else "its process ended again by itself"

    def _back(self, done: Cell, lifted_ns: int) -> tuple[int | None, str]:
        """Since when all of its users were answered well (ns of the run), or None and what is missing.

        That is where the good answers begin, and not how long ago the last few of them were: it is asked late.
        """
        after = [row for row in self._ended if row[0] >= lifted_ns]
        streak = after[-BACK_REQUESTS:]
        answered = [
            start
            for start, dialect, stream in self._answered
            if start >= lifted_ns and done.dialect in (None, dialect) and done.stream in (None, stream)
        ]
        if not after:
            return None, "no request of its users was over"
        if not all(well for _, well, _ in streak):
            return None, f"its users still failed ({next(word for _, well, word in reversed(streak) if not well)})"
        if not answered:
            return None, (
                "its users were answered, and it asked the real endpoint for nothing in this API: a circuit breaker of its own "
                "is open, or it gave the primary up"
            )
        if len(streak) < BACK_REQUESTS:
            return None, f"only {len(streak)} requests of its users were over"
        unbroken = list(itertools.takewhile(lambda row: row[1], reversed(after)))
        return max(answered[0], unbroken[-1][0]), ""

    def _look(self) -> None:
        """Take in what was written since."""
        for row in self._wire.rows():
            event = row.get("event")
            if event == "fault_lifted":
                self._lifted[str(row.get("window"))] = int(row.get("lifted_ns") or row.get("ns") or 0)
                lifted_ns = self._lifted[str(row.get("window"))]
                self._answered = [one for one in self._answered if one[0] >= lifted_ns]
                self._ended = [one for one in self._ended if one[0] >= lifted_ns]
            if event != "attempt" or str(row.get("trace") or "").startswith(PROBE_TRACE):
                continue
            key = str(row.get("dialect")), bool(row.get("stream"))
            if self._cells is None:
                self._heard[key] = self._heard.get(key, 0) + 1
            status = row.get("status")
            if row.get("window") is None and row.get("upstream") and isinstance(status, int) and status < 400:
                self._answered.append((int(row.get("start_ns") or 0), *key))
        for row in self._users.rows():
            if row.get("event") == "user_request" and row.get("phase") == "end":
                well = row.get("answer") == "ok"
                word = "ok" if well else str(row.get("answer") or row.get("status") or row.get("result"))
                self._ended.append((int(row.get("sent_ns") or row.get("due_ns") or 0), well, word))
        self._ended.sort()

    def _tell(self, stage: Stage, done: Cell) -> None:
        """Say what users got since the injection, as they said it themselves."""
        now = stage.tally.by_outcome if stage.tally is not None else {}
        since = {word: n - self._before.get(word, 0) for word, n in now.items()}
        words = ", ".join(f"{n} {word}" for word, n in sorted(since.items()) if n)
        stage.say(f"  {_name(done)}: {words or 'nothing ended'}")


def _goes_on(stage: Stage) -> bool:
    """Whether nobody stopped the drill meanwhile; what is left then is named by that, and nothing is waited for."""
    return stage.state in (State.BASELINE, State.RECOVERY)


def _name(cell: Cell) -> str:
    if cell.dialect is None:
        return f"{cell.label}, all that come"
    return f"{cell.label}, {cell.dialect} {'streamed' if cell.stream else 'whole'}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
