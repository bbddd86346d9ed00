"""The matrix gate: does a Friday drill show that each row of the drill matrix holds?

1. Admissions. The run is as it was sealed, of the matrix's service, ran to its end and had missions. Where a row asks for chaos:
   flags were injected and lifted, are off again, and met missions while the load went on; every flag is proven on by calls that met
   it, and every worker that asked for flags saw them.
2. A row is judged on the window that it names and on its own probe. A probe that did not run refuses the row, and so does load that
   was not held: of so many in flight `HELD` of them on average, weighted by time, and all of them at once at some time. Time in a
   chaos window in which the row's own flags were off, because another injection makes it longer, refuses the row.
3. A latency counts from when a mission was due. What was observed fails a row; what passes it is the 95 % upper bound, and where
   the two disagree the row is refused, with how many missions would settle it. Failed missions are in no latency: where there
   are some, another row has to say how many may.
4. A share is a census of its window, on as many as could show it: 299 for 99 %. Fewer refuse, but where even they show a breach.
5. An alert counts from this injection to its receipt (`rules.alerts`). A lower severity, or no alert for as long as the limit, is a
   breach; one from before is a finding. The acknowledgement counts from that alert.
6. Transcripts are a census: one that lacks something breaks a row of 100 %. Those that people read are drawn by the run's seed.
7. A row that the drill's own flags make impossible is said to be so.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from drillmaster.fridays import Friday
from drillmaster.gates import Gate
from drillmaster.gates._matrix_measures import judge_row
from drillmaster.gates._matrix_probes import HELD, impossible_rows, needs_chaos
from drillmaster.gates._matrix_rows import ChaosProbe, Row, TranscriptsProbe
from drillmaster.policy import seconds_text
from drillmaster.verdict import Absent, Check, Cite, Exact, Finding, Verdict, looked_at

__all__ = ["MatrixGate", "breaches", "gate"]

_SHOWN = 3
_DRAWN = 20
"""What `transcript draw` draws where it is told no number."""


class MatrixGate(Gate[Friday], frozen=True, kw_only=True, tag="matrix"):
    """Whether each row of the drill matrix holds on a Friday drill's sealed evidence.

    Happens: synthetic missions load an agent, flags meet a share of their calls in the middle of it, alerts are listened for, each
    mission leaves a transcript, a capability is killed.
    Breaks: slow missions, tools that no retry recovers, alerts that come late or not at all, transcripts that are missing, a
    kill switch that some worker does not see.
    Looks like: one line a row, with what was measured, on how many, over how long, and what they support.
    Cannot show: that synthetic missions are like real ones; faults of the transport; that the people on call would have acted.

    The evidence is the folder of a sealed run of `drillmaster run friday`, the policy a drill matrix (`kind: drill-matrix`).
    """

    service: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The service that the run has to be of."""
    rows: Annotated[tuple[Row, ...], msgspec.Meta(min_length=1, max_length=200)]
    """What is measured, by which probe, in which window, against which objective."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)] | msgspec.UnsetType = msgspec.UNSET
    """How old the evidence may be; left out: as old as it is."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for row in self.rows:
            if row.id in seen:
                raise ValueError(f"rows: found the id {row.id!r} twice, wanted each once")
            seen.add(row.id)

    def checks(self, evidence: Friday) -> Iterator[Check]:
        seen = evidence
        yield _sealed(seen)
        yield _usable(seen)
        yield self._service(seen)
        yield _whole(seen)
        if self.max_age_s is not msgspec.UNSET:
            yield _fresh(seen, self.max_age_s)
        yield _missions(seen)
        if any(map(needs_chaos, self.rows)):
            yield _chaos(seen)
            yield _overlap(seen)
            yield _gone(seen)
            yield _sight(seen)
            flags = [row.probe.flags for row in self.rows if isinstance(row.probe, ChaosProbe)]
            for flag in sorted({one for named in flags for one in named}):
                yield _flag(seen, flag)
        for row in self.rows:
            yield judge_row(row, seen, self.rows)

    def headline(self, evidence: Friday) -> tuple[str, ...]:
        seen, lines = evidence, []
        held = seen.in_flight("all")
        chaos = seen.span("chaos")
        if held is not None:
            at_once = f"{held.mean:.1f} in flight on average"
            during = "" if chaos is None else f", chaos from {chaos[0]:.1f} s to {chaos[1]:.1f} s of it"
            lines.append(f"{seen.missions.n:,} missions, {at_once}{during}")
        if seen.census is not None and seen.census.expected:
            sample = max((row.probe.sample for row in self.rows if isinstance(row.probe, TranscriptsProbe)), default=0)
            if sample:
                n = min(sample, seen.census.expected)
                count = "" if sample == _DRAWN else f" --count {sample}"
                lines.append(
                    f"{n} transcripts are drawn for people to read: drillmaster transcript draw {seen.run}{count}"
                )
        return tuple(lines)

    def findings(self, evidence: Friday, checks: tuple[Check, ...]) -> Iterator[Finding]:
        yield from impossible_rows(self.rows, evidence)
        told: set[tuple[str, str]] = set()
        for row in self.rows:
            detection = None if row.alert is msgspec.UNSET else evidence.detection(row.alert)
            for one in () if detection is None else detection.findings:
                if (one.id, one.cause) not in told:
                    told.add((one.id, one.cause))
                    yield one
        for ended in evidence.loads_ended:
            yield Finding(
                id="load-ended",
                cause=f"{ended.source} began no more missions from {ended.at_s:.1f} s on: {ended.why}",
                next="raise max_missions or the permit's caps, or have the profile last for the whole drill",
            )
        if evidence.refused_deliveries:
            yield Finding(
                id="delivery-refused",
                cause=f"{evidence.refused_deliveries:,} deliveries of alerts were refused: a wrong secret, or no such form",
                next="compare the receiver's secret with the sender's: drillmaster detector --help",
            )
        if evidence.worker_defects:
            yield Finding(
                id="worker-lines",
                cause=f"{evidence.worker_defects:,} lines of workers cannot be read; each may be a tool's",
                next="have workers write whole lines: docs/howto/write-a-timeline.md",
            )
        if evidence.tools.strangers:
            yield Finding(
                id="calls-of-nobody",
                cause=f"{evidence.tools.strangers:,} missions called tools that the driver does not know",
                next="pass X-Drill-Mission on to the tools, and keep other traffic away during the drill",
            )

    def closing(self, evidence: Friday, verdict: Verdict) -> tuple[str, ...]:
        return breaches(verdict)

    def _service(self, seen: Friday) -> Check:
        return looked_at(
            "service",
            "pass" if seen.service == self.service else "refused",
            f"the run is of {self.service}",
            role="admission",
            why=f"it is of {seen.service}",
            remedy="judge a run of the matrix's own service",
        )


def breaches(verdict: Verdict) -> tuple[str, ...]:
    """The line that scripts may grep: which rows are broken, or none. No line where the verdict is refused."""
    if verdict.status == "refused":
        return ()
    ids = [check.id.removeprefix("row.") for check in verdict.checks if check.status == "fail"]
    return (f"BREACH: {', '.join(ids) or 'none'}",)


def _sealed(seen: Friday) -> Check:
    late = f", {seen.late:,} lines came late and are not looked at" if seen.late else ""
    return looked_at(
        "sealed",
        "refused" if seen.seal_problems else "pass",
        f"sealed and unchanged{late}",
        role="admission",
        why="; ".join(seen.seal_problems[:_SHOWN]),
        remedy=f"drillmaster verify {seen.run}",
    )


def _usable(seen: Friday) -> Check:
    n = seen.own_defects + seen.unreadable
    cites = tuple(Cite(one.file, one.line) for one in seen.defects if one.file.startswith("events/"))[:_SHOWN]
    first = next((one for one in seen.defects if one.file.startswith("events/")), None)
    return looked_at(
        "lines-usable",
        "refused" if n else "pass",
        "every line of our own files can be read",
        role="admission",
        observed=Exact(float(n)),
        limit=0,
        why=f"{n:,} cannot" + ("" if first is None else f": {first.file}:{first.line} {first.kind}: {first.found}"),
        remedy="run the drill again: what a line that cannot be read said, nobody knows",
        cites=cites,
    )


def _whole(seen: Friday) -> Check:
    short = [
        f"{phase.name} took {phase.ended_s - phase.began_s:.1f} s of {seen.planned_s[f'{phase.name}_s']:g} s"
        for phase in seen.phases
        if phase.ended_s - phase.began_s < 0.95 * seen.planned_s.get(f"{phase.name}_s", 0.0)
    ]
    missing = [
        name for name in seen.planned_s if seen.planned_s[name] > 0 and name[:-2] not in {p.name for p in seen.phases}
    ]
    wrong = [] if seen.ended == "completed" else [seen.ended_why or seen.ended or "no line says that it ended"]
    wrong += short + [f"there was no {name[:-2]}" for name in missing if seen.phases]
    return looked_at(
        "whole",
        "refused" if wrong else "pass",
        "the drill ran to its end, each phase as long as planned",
        role="admission",
        why="; ".join(wrong[:_SHOWN]),
        remedy="drillmaster run friday, and let it come to its end",
    )


def _fresh(seen: Friday, limit_s: float) -> Check:
    return looked_at(
        "fresh",
        "pass" if seen.age_s is not None and seen.age_s <= limit_s else "refused",
        f"the evidence is at most {seconds_text(limit_s)} old",
        role="admission",
        observed=Absent("nobody says when it ended") if seen.age_s is None else Exact(seen.age_s),
        limit=limit_s,
        unit="s",
        why="nobody says when it ended" if seen.age_s is None else f"it is {seconds_text(round(seen.age_s))} old",
        remedy="drillmaster run friday, and judge what it leaves",
    )


def _missions(seen: Friday) -> Check:
    n = seen.missions.n
    return looked_at(
        "missions",
        "pass" if n and seen.requests else "refused",
        f"missions were sent: {n:,}, with {seen.requests:,} requests",
        role="admission",
        observed=Exact(float(seen.requests)),
        limit=1,
        why="zero requests: nothing was looked at" if n else "zero missions: nothing was looked at",
        remedy="see that the plan's missions reach its target: drillmaster run friday --help",
    )


def _chaos(seen: Friday) -> Check:
    named = sorted({one.flag for chaos in seen.chaos for one in chaos.flags})
    open_ = [one.id for one in seen.chaos if one.lifted_s is None]
    on_s = sum(one.lifted_s - one.injected_s for one in seen.chaos if one.lifted_s is not None)
    planned_s = seen.planned_s.get("fault_s", 0.0)
    short = on_s < HELD * planned_s
    return looked_at(
        "chaos",
        "refused" if not seen.chaos or open_ or not named or short else "pass",
        f"flags were on, and lifted: {', '.join(named) or 'none'}",
        role="admission",
        observed=Exact(float(len(seen.chaos))),
        limit=1,
        why="no injection is told"
        if not seen.chaos
        else f"no lift of {open_[0]} is told"
        if open_
        else "no injection names a flag"
        if not named
        else f"they were on for {on_s:.1f} s of the {planned_s:g} s that were planned",
        remedy="name flags in the plan (flags: on), and let the drill inject and lift them: drillmaster run friday",
        cites=tuple(one.cite for one in seen.chaos if one.cite is not None)[:_SHOWN],
    )


def _overlap(seen: Friday) -> Check:
    """Rule 1: both in one evidence, at one time. A load that ended before the chaos began shows nothing of it."""
    held = seen.in_flight("chaos")
    due = len(seen.places("chaos"))
    busy = 0.0 if held is None else held.busy_ratio
    return looked_at(
        "overlap",
        "pass" if held is not None and busy >= HELD and due else "refused",
        f"missions were in flight for {busy:.0%} of the chaos, {due:,} of them due in it",
        role="admission",
        observed=Absent("there was no chaos") if held is None else Exact(busy),
        limit=HELD,
        unit="ratio",
        why="load and chaos did not meet: what the flags did to missions nobody saw",
        remedy="run both in one drill, the chaos in the middle of the load: drillmaster run friday",
    )


def _gone(seen: Friday) -> Check:
    left = [one.id for one in seen.chaos if one.gone is not True]
    return looked_at(
        "gone",
        "refused" if left else "pass",
        "the flags are off again, and somebody looked",
        role="admission",
        why=f"after {', '.join(left[:_SHOWN])} nobody saw them off",
        remedy="see whether they still are: drillmaster flags list",
    )


def _sight(seen: Friday) -> Check:
    blind = sorted({one.worker for one in seen.sights if one.seen_s is None or one.lost})
    slow = [one.seen_s for one in seen.sights if one.seen_s is not None]
    latest = max(slow, default=0.0)
    injected = min((one.injected_s for one in seen.chaos), default=0.0)
    return looked_at(
        "sight",
        "refused" if blind or not seen.sights else "pass",
        f"each of {len(seen.workers)} workers saw the flags, the last {max(0.0, latest - injected):.2f} s after the injection"
        if len(seen.chaos) == 1
        else f"each of {len(seen.workers)} workers saw the flags of all {len(seen.chaos)} injections",
        role="admission",
        observed=Exact(float(len({one.worker for one in seen.sights} - set(blind)))),
        limit=float(len(seen.workers)),
        why=f"{len(blind)} did not: {', '.join(blind[:_SHOWN])}" if blind else "no worker asked for flags",
        remedy="give every worker CHAOS_URL, and see that each is asked by the drill",
    )


def _flag(seen: Friday, flag: str) -> Check:
    met = sum(n for (_, name), n in seen.met.items() if name == flag)
    on = any(one.flag == flag for chaos in seen.chaos for one in chaos.flags)
    return looked_at(
        f"flag.{flag}",
        "pass" if on and met else "refused",
        f"{flag} was on and met {met:,} calls",
        role="admission",
        observed=Exact(float(met)),
        limit=1,
        why="no call met it: it is in no tool that missions use" if on else "no injection turned it on",
        remedy="put the flag into the tool that the missions call" if on else f"add {flag} to the plan's flags: on",
    )


gate = MatrixGate
