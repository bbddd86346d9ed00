"""A sealed run of an interview, as a gate looks at it: raw samples by level, and which levels are the client's own numbers.

1. Only a sealed run that is as it was sealed is read, to its sealed end.
2. A level is void where the client is a visible part of what it measured: it held under 90 % of the calls it was to hold; how late
   it sent (99th percentile), or the turns in which it was for more than 1 % of the time, are over 10 % of the level's median; it
   used over 90 % of a core, or over half of one and what it takes for a call, times the callers, is over 10 % of the median. What
   is under `FLOOR_S` and `TURN_FLOOR_S` is the machine's own and voids nothing. Waits of a millisecond and more for a core that
   others had count as its own: towards what it used, and, where those that made up more than 1 % of the time are over 10 % of the
   median and over `TURN_FLOOR_S`, by themselves; over `FLOOR_S` where there are more engines than cores: that is the plan's doing.
3. A level that was stopped before its end is void. One that was planned and never begun is declared and is not there.
4. The cold call is void where somebody else called the endpoint in the idle time, and where the client's longest turn was over
   10 % of it, and over `COLD_FLOOR_S`.
5. Engines that shared the load are looked at one by one: what one of them could not hold voids the level, and so does a record
   that one of them said it made and that is not there.
6. Records that cannot be of their step void it: they end before they begin, or lie outside of the time in which the engine that
   made them said that it was at it.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict, timeline
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.evidence import Defect, rows
from drillmaster.intake import is_there, read_bytes
from drillmaster.interviews import Calls, Interview, Kind, Level, counted
from drillmaster.load.columns import calls_of
from drillmaster.load.knee import Knee, knee_of
from drillmaster.load.manifest import COLD, EVENTS, InterviewManifest, ladder_files
from drillmaster.load.tally import StepTally, batches
from drillmaster.stats import quantile
from drillmaster.verdict import Exact

__all__ = ["Fitness", "InterviewRun", "open_interview", "open_interview_run"]

LEAST_HELD = 0.9
VISIBLE = 0.1
MOST_CPU = 0.9
BUSY_CPU = 0.5
"""Below it a call's cost is mostly that of waking up, which delays nobody."""
FLOOR_S = 0.002
"""Lateness that a machine with a busy neighbour shows on its own."""
TURN_FLOOR_S = 0.010
COLD_FLOOR_S = 0.1
SLACK_NS = 1_000_000_000
LEAST_LATE = 100
"""Of fewer calls the 99th percentile is the latest one, and one call voids nothing."""
_MANIFEST_CAP_BYTES = 16 << 20
_KINDS: dict[str, Kind] = {"cold": "cold", "closed": "closed", "open": "open", "drain": "drain"}


class Fitness(msgspec.Struct, frozen=True, kw_only=True):
    """How the client fared in one step."""

    callers: int
    """Asked: calls at once; of an open stage the most that were allowed."""
    held: float
    """In flight on average until the last call began."""
    held_overall: float
    """In flight on average until the last answer."""
    late_p99_s: float
    longest_turn_s: float | None
    """None: the step did not end."""
    turn_p99_s: float | None = None
    """Of all moments 99 % lay in turns no longer than this; None: the engine did not say."""
    run_delay_s: float | None = None
    """How long it was ready and others had its core, in all; None, of all of these: the engine did not say."""
    long_delay_s: float | None = None
    """Of that what came in waits of a millisecond and more: the rest is what a wake-up takes on any machine."""
    longest_delay_s: float | None = None
    """This and the next: as of turns."""
    delay_p99_s: float | None = None
    cpu_s: float
    cpu_share: float | None
    delay_share: float | None = None
    """`long_delay_s` in the step's time."""
    seconds: float
    """From the first call to the last answer."""
    engines: tuple["Fitness", ...] = ()
    """Of each engine, where several shared the step; then sums are of all, shares and the longest of the worst."""


class InterviewRun(msgspec.Struct, frozen=True, kw_only=True):
    """An interview, with what was written around it."""

    interview: Interview
    manifest: InterviewManifest
    fitness: dict[str, Fitness]
    idle: dict[str, Any]
    """What `idle_ended` says; empty where it did not come so far."""
    ended: str
    """`completed`, `aborted`, `refused`; empty: whoever ran it was killed."""
    why: str
    torn_bytes: int
    """Of records that a killed or stopped writer left half."""

    def knee(self) -> Knee:
        """Where the ladder stops bringing more."""
        return knee_of(
            [(self.fitness[level.label].callers, level) for level in self.interview.levels if level.kind == "closed"]
        )


def open_interview(path: Path) -> Interview:
    """Read a sealed run's folder for a gate. Raises Refused where it is not sealed or has changed, Problem where it is none."""
    return open_interview_run(path).interview


def open_interview_run(path: Path) -> InterviewRun:
    """Read a sealed run's folder. Raises like `open_interview`."""
    manifest_path = path / "manifest.json"
    if not is_there(path) or not path.is_dir() or not is_there(manifest_path):
        raise Problem(
            one_line(str(path)),
            found="no manifest.json" if is_there(path) else "nothing",
            wanted="the run folder of an interview",
            remedy="name one (runs/ID), or judge one file with --unsealed",
        )
    report = timeline.verify_run(path, read_lines=False)
    if report.changes:
        first = report.changes[0]
        raise Refused(
            one_line(str(path)),
            found=f"{one_line(first.file)} {first.kind}: {first.what}",
            wanted="a run that is as it was sealed",
            remedy=f"drillmaster verify {one_line(str(path))}",
        )
    sealed = timeline.read_seal(path).files
    raw = read_bytes(manifest_path, _MANIFEST_CAP_BYTES)
    _same(path, "manifest.json", hashlib.sha256(raw).hexdigest(), sealed)
    if strict.load(raw, place=str(manifest_path), fmt="json").get("drill") != "interview":
        raise Problem(
            str(manifest_path),
            found="another drill than an interview",
            wanted="the run folder of an interview",
            remedy="see drillmaster gate --help for the gate of that drill",
        )
    manifest = strict.load_as(raw, InterviewManifest, place=str(manifest_path), fmt="json")
    events = _events(path, sealed)
    steps = {step["label"]: step for step in manifest.steps}
    tallies = {label: StepTally(manifest.time_limit_s, batch=step["kind"] == "drain") for label, step in steps.items()}
    cold = [label for label, step in steps.items() if step["kind"] == "cold"]
    others = [label for label in steps if label not in cold]
    torn = _fold(path, COLD[0], cold, (tallies,), sealed)
    files = ladder_files(manifest)
    own = [{label: StepTally(manifest.time_limit_s) for label in others} for _ in files] if len(files) > 1 else []
    for engine, (name, _) in enumerate(files):
        torn += _fold(path, name, others, (tallies, own[engine]) if own else (tallies,), sealed)
    ended = {row["stage"]: row for row in events if row["event"] == "stage_ended"}
    idle: dict[str, Any] = next((row for row in events if row["event"] == "idle_ended"), {})
    end: dict[str, Any] = next((row for row in events if row["event"] == "load_ended"), {})
    fitness = {
        label: _fitness(step["callers"], tallies[label], ended.get(label))
        for label, step in steps.items()
        if tallies[label].n
    }
    lost = _shares(manifest, events, own, fitness)
    for label, why in _impossible(events, own, tallies):
        lost.setdefault(label, []).append(why)
    calls = _calls(path, manifest, cold, others, sealed)
    begun = [label for label in steps if tallies[label].n]
    cut_short = begun[-1] if begun and end.get("status") != "completed" else None
    judged = [label for label, step in steps.items() if step["kind"] in _KINDS]
    levels = []
    for label in judged:
        if tallies[label].n:
            void = [
                *lost.get(label, ()),
                *_void(
                    steps[label],
                    tallies[label],
                    fitness[label],
                    cut_short=label == cut_short,
                    delay_floor_s=FLOOR_S if _share_cores(manifest) else TURN_FLOOR_S,
                ),
            ]
            if steps[label]["kind"] == "cold" and idle.get("proven") is False:
                void.append(f"it may not have been cold: {idle.get('why')}")
            levels.append(_level(steps[label], tallies[label], tuple(void), fitness[label], calls[label]))
    interview = Interview(
        name=manifest.run,
        url=manifest.url,
        declared=tuple(judged),
        levels=tuple(levels),
        time_limit_s=manifest.time_limit_s,
        idle_s=idle.get("idle_s"),
        reader=manifest.seats.get("reader", ""),
        authors=manifest.authors,
        payload_sha256=manifest.payload_sha256,
        digest=report.head,
        ended_wall_ns=max((int(row["wall_ns"]) for row in events), default=None),
        examined=counted(levels) | {"warm-up calls": sum(tallies[label].n for label in steps if label not in judged)},
    )
    return InterviewRun(
        interview=interview,
        manifest=manifest,
        fitness=fitness,
        idle=idle,
        ended=str(end.get("status", "")),
        why=str(end.get("why", "")),
        torn_bytes=torn,
    )


def _same(path: Path, name: str, sha256: str, sealed: dict[str, Any]) -> None:
    """What was read is what was verified: between the two anybody may have written."""
    if name not in sealed or sealed[name].sha256 != sha256:
        raise Refused(
            one_line(str(path / name)),
            found="that it changed while it was read",
            wanted="a run that is as it was sealed",
            remedy=f"drillmaster verify {one_line(str(path))}",
        )


def _chunks(path: Path, name: str, sealed: dict[str, Any]) -> Iterator[bytes]:
    """A file to its sealed end; raises Refused at the end of one that is not the sealed one."""
    digest = hashlib.sha256()
    for chunk in timeline.chunks(path / name, limit_bytes=sealed[name].bytes):
        digest.update(chunk)
        yield chunk
    _same(path, name, digest.hexdigest(), sealed)


def _events(path: Path, sealed: dict[str, Any]) -> list[dict[str, Any]]:
    if EVENTS not in sealed:
        raise Refused(
            one_line(str(path)),
            found=f"no {EVENTS}",
            wanted="a run that says when its levels began and ended",
            remedy="run the interview again",
        )
    found = []
    for row in rows(_chunks(path, EVENTS, sealed), file=EVENTS):
        if isinstance(row, Defect):
            if row.kind == "torn":  # the last word of a run that was killed
                continue
            raise Refused(f"{EVENTS}:{row.line}", found=row.found, wanted=row.wanted, remedy="run the interview again")
        found.append({**row.fields, "event": row.event, "wall_ns": row.wall_ns})
    return found


def _fold(
    path: Path, name: str, labels: list[str], into: tuple[dict[str, StepTally], ...], sealed: dict[str, Any]
) -> int:
    """All records of a file into their steps; how many bytes were torn off at its end. Raises Refused."""
    if name not in sealed:
        return 0
    found = batches(_chunks(path, name, sealed))
    for stage, calls in found:
        if stage >= len(labels):
            raise Refused(
                name, found=f"a record of step {stage}", wanted="steps of the plan", remedy="run the interview again"
            )
        for tallies in into:
            tallies[labels[stage]].add(calls)
    return found.torn_bytes


def _fitness(callers: int, tally: StepTally, ended: dict[str, Any] | None) -> Fitness:
    wall_s = None if ended is None else max(ended["wall_s"], 1e-6)
    long_delay_s = None if ended is None else ended.get("long_delay_s")
    return Fitness(
        callers=callers,
        held=tally.held(),
        held_overall=tally.held_overall(),
        late_p99_s=tally.late_s(0.99),
        longest_turn_s=_seconds(ended, "longest_turn_ms"),
        turn_p99_s=_seconds(ended, "turn_p99_ms"),
        run_delay_s=None if ended is None else ended.get("run_delay_s"),
        long_delay_s=long_delay_s,
        longest_delay_s=_seconds(ended, "longest_delay_ms"),
        delay_p99_s=_seconds(ended, "delay_p99_ms"),
        cpu_s=0.0 if ended is None else ended["cpu_s"],
        cpu_share=None if ended is None or wall_s is None else ended["cpu_s"] / wall_s,
        delay_share=None if long_delay_s is None or wall_s is None else long_delay_s / wall_s,
        seconds=tally.seconds,
    )


def _seconds(ended: dict[str, Any] | None, name: str) -> float | None:
    """A time of an engine's last word on a step, which is in ms; None: it did not say it."""
    return None if ended is None or name not in ended else float(ended[name]) / 1e3


def _shares(
    manifest: InterviewManifest,
    events: list[dict[str, Any]],
    own: list[dict[str, StepTally]],
    fitness: dict[str, Fitness],
) -> dict[str, list[str]]:
    """Give each step that several engines shared the fitness of each; what of their records is not there, by step."""
    ended = {(row["stage"], row["engine"] - 1): row for row in events if row["event"] == "share_ended"}
    lost: dict[str, list[str]] = {}
    for share in manifest.shares if own else ():
        label = share["label"]
        for engine, tallies in enumerate(own):
            said = ended.get((label, engine))
            if said is not None and said["calls"] != tallies[label].n:
                lost.setdefault(label, []).append(
                    f"engine {engine + 1} made {said['calls']} calls, and records of {tallies[label].n} are there"
                )
        whole = fitness.get(label)
        if whole is None:
            continue
        each = tuple(
            # One that had no call to make, of few arrivals, was not there: a share of no time is no burden.
            _fitness(
                share["callers"][engine] if share["calls"][engine] else 0, tallies[label], ended.get((label, engine))
            )
            for engine, tallies in enumerate(own)
        )
        there = [one for one in each if one.callers]
        fitness[label] = msgspec.structs.replace(
            whole,
            engines=each,
            cpu_share=None if whole.cpu_share is None else max((one.cpu_share or 0.0 for one in there), default=0.0),
            delay_share=None
            if whole.delay_share is None
            else max((one.delay_share or 0.0 for one in there), default=0.0),
        )
    return lost


def _impossible(
    events: list[dict[str, Any]], own: list[dict[str, StepTally]], tallies: dict[str, StepTally]
) -> Iterator[tuple[str, str]]:
    """Steps with records that cannot be of them, and why. What is due at a start that was told may be a little before it."""
    of_one, of_many = ("stage_started", "stage_ended"), ("share_started", "share_ended")
    times = {
        (row["stage"], row.get("engine", 0), row["event"] in (of_one[1], of_many[1])): row.get(
            "end_ns" if row["event"] in (of_one[1], of_many[1]) else "start_ns"
        )
        for row in events
        if row["event"] in of_one + of_many
    }
    whose = [(engine, f"engine {engine} has", mine) for engine, mine in enumerate(own, start=1)]
    shared = {label for mine in own for label in mine}
    alone = {label: tally for label, tally in tallies.items() if label not in shared}
    for engine, who, mine in [(0, "there are", alone), *whose]:
        for label, tally in mine.items():
            if not tally.n:
                continue
            if tally.backwards:
                yield label, f"{who} records that end before they begin"
            begun, over = (times.get((label, engine, is_end)) for is_end in (False, True))
            first_ns, last_ns = tally.span_ns
            if (begun is not None and first_ns < begun - SLACK_NS) or (over is not None and last_ns > over + SLACK_NS):
                yield label, f"{who} records from outside of {'its' if engine else 'the'} time in the step"


def _share_cores(manifest: InterviewManifest) -> bool:
    """Whether several engines were started here on fewer cores. Workers have machines of their own, for all that is known."""
    members = manifest.engines.get("members") or ()
    is_here = manifest.engines.get("kind") == "processes"
    return is_here and len(members) > 1 and not all("core" in member for member in members)


def _void(
    step: dict[str, Any], tally: StepTally, fitness: Fitness, *, cut_short: bool, delay_floor_s: float
) -> list[str]:
    """Why a level's numbers are the client's.

    `cut_short`: it is the last one of a run that did not come to its end. `delay_floor_s`: shorter waits for a core void nothing.
    """
    by_clock = step["kind"] == "open" or step.get("seconds") is not None
    stopped = cut_short if by_clock else tally.n < step["calls"]
    if stopped or fitness.longest_turn_s is None or fitness.cpu_share is None:
        return [f"it was stopped before its end, after {tally.n} of {step['calls']} calls"]
    if step["kind"] == "cold":
        return _frozen(max(fitness.longest_turn_s, fitness.longest_delay_s or 0.0), tally.seconds)
    found = []
    asked = min(step["callers"], step["calls"])
    if step["kind"] != "open" and fitness.held < LEAST_HELD * asked:
        found.append(f"{fitness.held:.3g} calls were in flight on average, and {asked} were to be")
    taken = (*tally.ok_s(), *tally.cut_s())
    median = quantile(taken, 0.5) if taken else None
    median_s = median.value if isinstance(median, Exact) else None
    found += _late(fitness, median_s)
    if not fitness.engines:
        return found + _burdened(fitness, asked, tally.n, median_s, delay_floor_s)
    for number, engine in enumerate(fitness.engines, start=1):
        if engine.callers:
            calls = max(1, round(tally.n * engine.callers / step["callers"]))
            own = _late(engine, median_s) if calls >= LEAST_LATE and not found else []
            own += _burdened(engine, min(engine.callers, calls), calls, median_s, delay_floor_s)
            found += [f"engine {number}: {why}" for why in own]
    return found


def _frozen(turn_s: float, took_s: float) -> list[str]:
    """Why a call that there is one of may be as long as the client made it."""
    if turn_s <= max(VISIBLE * took_s, COLD_FLOOR_S):
        return []
    return [f"the client was busy, or not let run, for {turn_s * 1e3:.3g} ms of the {took_s * 1e3:.3g} ms that it took"]


def _late(fitness: Fitness, median_s: float | None) -> list[str]:
    if median_s is None or fitness.late_p99_s <= max(VISIBLE * median_s, FLOOR_S):
        return []
    late_ms = fitness.late_p99_s * 1e3
    return [f"calls were sent up to {late_ms:.3g} ms late (p99), and the median is {median_s * 1e3:.3g} ms"]


def _turn_s(fitness: Fitness) -> float:
    """One long turn delays what comes in it, and that is no more of a level than its share of the time."""
    return (fitness.longest_turn_s if fitness.turn_p99_s is None else fitness.turn_p99_s) or 0.0


def _burdened(fitness: Fitness, asked: int, calls: int, median_s: float | None, delay_floor_s: float) -> list[str]:
    """Where one engine is a visible part of what it measured."""
    found = []
    used, delayed = fitness.cpu_share or 0.0, fitness.delay_share or 0.0
    share = used + delayed
    not_let = f" and was not let run for {delayed:.0%} of the time" if delayed >= 0.01 else ""
    turn_s, delay_s = _turn_s(fitness), fitness.delay_p99_s
    if median_s is not None and turn_s > max(VISIBLE * median_s, TURN_FLOOR_S):
        found.append(
            f"the client was busy for {turn_s * 1e3:.3g} ms at a time{'' if fitness.turn_p99_s is None else ' (p99 of moments)'}, "
            f"and the median is {median_s * 1e3:.3g} ms"
        )
    if median_s is not None and delay_s is not None and delay_s > max(VISIBLE * median_s, delay_floor_s):
        found.append(
            f"the client was ready and not let run for {delay_s * 1e3:.3g} ms at a time (p99 of moments), and the median is "
            f"{median_s * 1e3:.3g} ms"
        )
    if share > MOST_CPU:
        found.append(f"the client used {used:.0%} of a core{not_let}: it had no room to measure")
    elif share > BUSY_CPU and median_s is not None:
        # Answers that come together are read one after another: the last waits for as many as there are callers.
        each_s = (fitness.cpu_s + (fitness.long_delay_s or 0.0)) / calls
        queue_s = each_s * min(asked, calls)
        if queue_s > VISIBLE * median_s:
            among = ", what it waited for a core among it" if not_let else ""
            found.append(
                f"the client took {each_s * 1e6:.3g} µs a call{among}, {queue_s * 1e3:.2g} ms for {asked} callers, "
                f"and the median is {median_s * 1e3:.2g} ms"
            )
    return found


def _calls(
    path: Path, manifest: InterviewManifest, cold: list[str], others: list[str], sealed: dict[str, Any]
) -> dict[str, Calls]:
    """All records once more, column by column, with the gaps of streams."""
    files = [
        (
            _chunks(path, samples, sealed),
            _chunks(path, gaps, sealed) if gaps in sealed else None,
            labels,
        )
        for labels, pairs in ((cold, [COLD]), (others, ladder_files(manifest)))
        for samples, gaps in pairs
        if samples in sealed
    ]
    steps = {step["label"]: step for step in manifest.steps}
    return calls_of(files, steps, time_limit_s=manifest.time_limit_s)


def _level(step: dict[str, Any], tally: StepTally, void: tuple[str, ...], fitness: Fitness, calls: Calls) -> Level:
    each = fitness.engines or (fitness,)
    by_turn = tally.ok_by_turn_s()
    return Level(
        label=step["label"],
        kind=_KINDS[step["kind"]],
        n=tally.n,
        failed=dict(tally.failed),
        ok_s=tally.ok_s(),
        cut_s=tally.cut_s(),
        void=void,
        calls=calls,
        client_s=max(max(one.late_p99_s, _turn_s(one), one.delay_p99_s or 0.0) for one in each),
        longest_turn_s=None
        if fitness.longest_turn_s is None
        else max(fitness.longest_turn_s, fitness.longest_delay_s or 0.0),
        waits=tally.waits,
        waited_s=tally.waited_s,
        sessions=0 if by_turn is None else tally.sessions,
        first_turns_s=() if by_turn is None else by_turn[0],
        later_turns_s=() if by_turn is None else by_turn[1],
        made_again=tally.made_again,
    )
