"""The law of tools that recover: success is counted per mission after retries, and the attempts are told beside it.

1. A *call* is what the agent wants of a tool in a mission; an *attempt* is one try at it. Each attempt leaves
   `tool_attempted{mission, tool, attempt, result, ms}`, and each call, when it is over, `tool_finished{mission, tool, attempts, ok,
   ms}`. `attempt` counts from 1 within its call. A worker that calls one tool twice at once in a mission says `call` in both.
2. A call has recovered when it ended well and an attempt of it did not. It has failed when it did not end well, and as well when
   it never ended: whoever was killed within a call has not got its answer.
3. What a line claims does not outweigh what other lines say: a call that ended "well" behind a last attempt that did not is
   a contradiction and no success; of two counts of attempts the larger one counts.
4. A mission succeeds when all its calls do. A mission whose call failed because the capability was killed is counted apart
   (`killed`): whether a person had ordered that is for whoever judges.
5. A mission that called no tool says nothing about tools, and is in no share.
"""

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from drillmaster.evidence import Row

__all__ = ["ATTEMPTED", "FINISHED", "MissionTools", "Outcome", "Recovery", "Result", "ToolCounts", "recovery"]

ATTEMPTED, FINISHED = "tool_attempted", "tool_finished"
Result = Literal["ok", "error", "timeout", "killed", "wrong"]
Outcome = Literal["ok", "recovered", "failed", "killed"]
RESULTS: frozenset[str] = frozenset(get_args(Result))
_FIRST = 20
_MOST = 1_000_000


class ToolCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One tool over all missions."""

    calls: int
    attempts: int
    recovered: int
    failed: int
    """Killed ones are among them."""
    killed: int
    results: dict[str, int]
    """How often an attempt came to each result."""


class MissionTools(msgspec.Struct, frozen=True, kw_only=True):
    """One mission's calls of tools."""

    mission: str
    outcome: Outcome
    """The worst of its calls: failed, killed, recovered, ok."""
    tools: tuple[str, ...]
    calls: int
    attempts: int
    recovered: int
    failed: int
    """Of its calls; killed ones are among them."""
    killed: int
    first_wall_ns: int
    last_wall_ns: int
    file: str
    line: int
    """The line that decided: of the first call that failed, else the first line of all."""

    @property
    def succeeded(self) -> bool:
        return self.outcome in ("ok", "recovered")


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """All missions that called a tool, in the order of their first call."""

    missions: tuple[MissionTools, ...]
    tools: dict[str, ToolCounts]
    unfinished: int
    """Calls that never ended; they are among the failed ones."""
    contradictions: tuple[tuple[str, int], ...]
    """Ends that claim what other lines deny: file and line of the first."""
    unusable: tuple[tuple[str, int], ...]
    """Lines of these events without the fields of rule 1: file and line of the first."""
    strangers: int
    """Missions that the run did not start."""

    @property
    def succeeded(self) -> int:
        return sum(one.succeeded for one in self.missions)

    @property
    def attempts(self) -> int:
        return sum(one.attempts for one in self.missions)


class _Call(msgspec.Struct):
    tool: str
    file: str
    line: int
    first_ns: int
    last_ns: int
    attempts: int = 0
    bad: int = 0
    last: str = ""
    ok: bool | None = None
    results: list[str] = []


def recovery(rows: Iterable[Row], *, started: Iterable[str] | None = None) -> Recovery:
    """Count tools over a timeline's rows, in the order of time. `started` None: whatever missions there are."""
    known = None if started is None else frozenset(started)
    calls: dict[str, list[_Call]] = {}
    under_way: dict[tuple[str, str, str], _Call] = {}
    unusable: list[tuple[str, int]] = []
    contradictions: list[tuple[str, int]] = []
    for row in rows:
        if row.event != ATTEMPTED and row.event != FINISHED:
            continue
        fields = row.fields
        mission, tool, name = fields.get("mission"), fields.get("tool"), fields.get("call", "")
        if not (
            isinstance(mission, str) and mission and isinstance(tool, str) and tool and isinstance(name, str | int)
        ):
            _note(unusable, row)
            continue
        key = (mission, tool, str(name))
        call = under_way.get(key)
        if row.event == ATTEMPTED:
            attempt, result = fields.get("attempt"), fields.get("result")
            if type(attempt) is not int or not 1 <= attempt <= _MOST or result not in RESULTS:
                _note(unusable, row)
                continue
            if call is None or attempt == 1:
                call = under_way[key] = _begin(calls, mission, tool, row)
            call.attempts = max(call.attempts + 1, attempt)
            call.bad += result != "ok"
            call.last = str(result)
            call.results.append(str(result))
            call.last_ns, call.file, call.line = row.wall_ns, row.file, row.line
            continue
        attempts, ok = fields.get("attempts"), fields.get("ok")
        if type(attempts) is not int or not 0 <= attempts <= _MOST or type(ok) is not bool:
            _note(unusable, row)
            continue
        if call is None:
            call = _begin(calls, mission, tool, row)
        under_way.pop(key, None)
        if (ok and call.last not in ("", "ok")) or (call.attempts and attempts != call.attempts):
            _note(contradictions, row)
        call.ok = ok and call.last in ("", "ok")
        call.attempts = max(call.attempts, attempts, 1)
        call.last_ns, call.file, call.line = row.wall_ns, row.file, row.line
    ours = {mission: found for mission, found in calls.items() if known is None or mission in known}
    return Recovery(
        missions=tuple(_mission(mission, found) for mission, found in ours.items()),
        tools=_tools(call for found in ours.values() for call in found),
        unfinished=sum(call.ok is None for found in ours.values() for call in found),
        contradictions=tuple(contradictions),
        unusable=tuple(unusable),
        strangers=len(calls) - len(ours),
    )


def _note(places: list[tuple[str, int]], row: Row) -> None:
    if len(places) < _FIRST:
        places.append((row.file, row.line))


def _begin(calls: dict[str, list[_Call]], mission: str, tool: str, row: Row) -> _Call:
    call = _Call(tool=tool, file=row.file, line=row.line, first_ns=row.wall_ns, last_ns=row.wall_ns, results=[])
    calls.setdefault(mission, []).append(call)
    return call


def _recovered(call: _Call) -> bool:
    return call.ok is True and (call.bad > 0 or call.attempts > 1)


def _killed(call: _Call) -> bool:
    return call.ok is not True and call.last == "killed"


def _mission(mission: str, calls: list[_Call]) -> MissionTools:
    failed = [call for call in calls if call.ok is not True]
    killed = [call for call in failed if _killed(call)]
    recovered = [call for call in calls if _recovered(call)]
    outcome: Outcome = (
        "failed" if len(failed) > len(killed) else "killed" if killed else "recovered" if recovered else "ok"
    )
    decided = next((call for call in failed if outcome != "failed" or not _killed(call)), calls[0])
    return MissionTools(
        mission=mission,
        outcome=outcome,
        tools=tuple(dict.fromkeys(call.tool for call in calls)),
        calls=len(calls),
        attempts=sum(max(call.attempts, 1) for call in calls),
        recovered=len(recovered),
        failed=len(failed),
        killed=len(killed),
        first_wall_ns=min(call.first_ns for call in calls),
        last_wall_ns=max(call.last_ns for call in calls),
        file=decided.file,
        line=decided.line,
    )


def _tools(calls: Iterable[_Call]) -> dict[str, ToolCounts]:
    by_tool: dict[str, list[_Call]] = {}
    for call in calls:
        by_tool.setdefault(call.tool, []).append(call)
    counted = {}
    for tool, found in sorted(by_tool.items()):
        results: dict[str, int] = {}
        for call in found:
            for result in call.results:
                results[result] = results.get(result, 0) + 1
        counted[tool] = ToolCounts(
            calls=len(found),
            attempts=sum(max(call.attempts, 1) for call in found),
            recovered=sum(map(_recovered, found)),
            failed=sum(call.ok is not True for call in found),
            killed=sum(map(_killed, found)),
            results=results,
        )
    return counted
