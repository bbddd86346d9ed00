"""The pre-flight of a Friday drill, executed: the agent answers a mission, holds the flags, and leaves a transcript of it.

1. The ground and what people attest are looked at as before every drill. Then the parts that run already are asked, then the agent
   is started, and asked as a user would: one mission of ours, whole, with an id that no mission of the drill has (`probe-`).
2. An agent that holds no flags would be drilled without chaos, and one that writes no transcript could not be replayed: both are
   found here, in seconds, with what to do.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from drillmaster import http1
from drillmaster.child import ChildLost
from drillmaster.clock import Clock
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.flags.kills import read_kills
from drillmaster.friday.plan import FridayPlan
from drillmaster.missions.flows import MissionPlans, recorded
from drillmaster.missions.preparing import Understood
from drillmaster.missions.settings import OwnLoad
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.run.crew import Line
from drillmaster.run.folder import Folder
from drillmaster.run.preflight import attested, ground, nobody_there, on_record, record, standing
from drillmaster.run.traffic import check_peer
from drillmaster.run.upstream import tls_to
from drillmaster.sanity import fill_in

__all__ = ["Checkup", "execute_friday"]

PROBE_S = 10.0
SEEN_S = 5.0
"""How long an agent has to be heard by the flag server, and to write its transcript, once it answers."""
_MOST_BYTES = 1 << 20


class Answers(Protocol):
    """A part that says what it does."""

    async def state(self) -> dict[str, Any]: ...


class Crew(Protocol):
    """Whom the looks are told, and who starts the agent."""

    @property
    def worker_alive(self) -> bool: ...

    def line(self, line: Line) -> None: ...

    def say(self, text: str) -> None: ...

    async def start_worker(self, argv: tuple[str, ...]) -> None: ...

    async def worker_said(self) -> tuple[str, ...]: ...


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known."""

    plan: FridayPlan
    place: str
    attest: bool
    understood: Understood
    folder: Folder
    transcripts: Path
    wants_transcripts: bool
    """Whether a row asks for them."""
    descriptors: int
    addresses: tuple[str, ...]
    flags_url: str
    kills_path: Path
    agent_wait_s: float | None


async def execute_friday(checkup: Checkup, flags: Answers, listener: Answers, crew: Crew, *, clock: Clock) -> None:
    """Execute it. Raises the first refusal; all looks are on record."""
    plan, folder = checkup.plan, checkup.folder
    here = ground(
        folder.path, clock, wall0_ns=folder.wall0_ns, mono0_ns=folder.mono0_ns, descriptors=checkup.descriptors
    )
    in_flight = max(plan.missions.concurrent, checkup.understood.section.concurrent)
    lines = standing(plan, here, place=checkup.place, timeline=folder.timeline, in_flight=in_flight)
    if checkup.attest:
        lines = attested(plan, place=checkup.place, wall_ns=here.wall_ns) + lines
    record(crew, lines)
    with on_record(crew, "detectors_ready"):
        crew.line(await _listens(listener))
    with on_record(crew, "nothing_killed"):
        crew.line(await _nothing_killed(flags, checkup.kills_path))
    if plan.worker is not None:
        with on_record(crew, "target_free"):
            crew.line(await nobody_there(plan, checkup.addresses))
        with on_record(crew, "worker_starts"):
            await crew.start_worker(plan.worker.cmd)
    else:
        crew.say("the agent is yours to start; its environment has to say:")
        crew.say(f"  export CHAOS_URL={checkup.flags_url}")
        if plan.timeline is None:
            crew.say(f"  export DRILL_LOG={folder.timeline}")
        if plan.transcripts is None:
            crew.say(f"  export DRILL_TRANSCRIPTS={checkup.transcripts}")
    mission = f"probe-{folder.run[-4:]}"
    with on_record(crew, "agent_answers"):
        crew.line(await _answers(checkup, crew, mission, clock))
    with on_record(crew, "flags_held"):
        crew.line(await _held(flags, clock))
    with on_record(crew, "transcript_written"):
        crew.line(await _written(checkup, mission, clock))


async def _listens(listener: Answers) -> Line:
    try:
        said = await listener.state()
    except ChildLost as lost:
        raise Refused(
            "detectors_ready", found=lost.why, wanted="a listener that answers", remedy="see detectors.log in the run"
        ) from None
    names = ", ".join(said.get("receivers") or ())
    if not said.get("ready"):
        raise Refused(
            "detectors_ready",
            found="receivers that are not ready",
            wanted="all of them",
            remedy="see detectors.log in the run",
        )
    return Line(check="detectors_ready", status="pass", why=f"{names} at {said.get('listen')}")


async def _nothing_killed(flags: Answers, path: Path) -> Line:
    """See that nobody has killed a capability: the drill would measure that, and its own rehearsal would take it back."""
    try:
        killed = (await flags.state()).get("killed") or ()
    except ChildLost as lost:
        raise Refused(
            "nothing_killed", found=lost.why, wanted="a flag server", remedy="see flags.log in the run"
        ) from None
    if not killed:
        return Line(check="nothing_killed", status="pass", why="no capability is killed")
    with contextlib.suppress(Problem):
        told = {
            one.capability: f"{one.capability} by {one.by} at {one.at} ({one.why or 'no reason'})"
            for one in read_kills(path)
        }
        killed = [told.get(name, name) for name in killed]
    raise Refused(
        "nothing_killed",
        found=one_line(f"killed: {', '.join(killed)}")[:400],
        wanted="nothing killed before a drill, which would end the kill with its own",
        remedy=f"when nobody needs it any more: rm {shlex.quote(str(path))}",
    )


async def _answers(checkup: Checkup, crew: Crew, mission: str, clock: Clock) -> Line:
    """Ask for one mission until it is answered well, or the agent's time is over."""
    plan = checkup.plan
    wait_s = plan.worker.ready_s if plan.worker is not None else (checkup.agent_wait_s or 0.0)
    give_up_ns = clock.mono_ns() + round(wait_s * 1e9)
    load = next((one for one in checkup.understood.loads if isinstance(one, OwnLoad)), None)
    while True:
        if load is None:
            done, what = await _connects(checkup)
        else:
            done, what = await _one_mission(checkup, load, mission)
        if done:
            return Line(check="agent_answers", status="pass", why=what)
        dead = plan.worker is not None and not crew.worker_alive
        if dead or clock.mono_ns() >= give_up_ns:
            said = await crew.worker_said()
            ended = "an agent that ended" + (f" ({said[-1]})" if said else "") if dead else what
            raise Refused(
                f"agent_answers {plan.target.url}",
                found=ended,
                wanted="a mission that is answered as missions.yaml expects",
                remedy="start the agent first, or see worker.log in the run" if plan.worker else "start the agent",
            )
        await asyncio.sleep(0.2)


async def _connects(checkup: Checkup) -> tuple[bool, str]:
    parts = urlsplit(checkup.plan.target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            _, writer = await asyncio.open_connection(checkup.addresses[0], port)
        writer.transport.abort()
        return True, f"somebody listens on port {port}; no mission of ours to ask with"
    return False, f"nobody who listens on port {port}"


async def _one_mission(checkup: Checkup, load: OwnLoad, mission: str) -> tuple[bool, str]:
    """Send a mission's requests, as far as they need nothing of an answer before."""
    plan = checkup.plan
    plans = MissionPlans(
        load.missions,
        nth_load=0,
        seed=plan.seed,
        run=checkup.folder.run,
        time_limit_s=plan.missions.time_limit_s,
        environ=os.environ,
    )
    drawn = next((one for one in map(plans.draw, range(1, 1_001)) if one.plan.flow.entry == "http"), None)
    if drawn is None:
        return await _connects(checkup)
    asked = 0
    for step, request in zip(drawn.plan.steps, recorded(drawn), strict=True):
        if step.late:
            break
        headers = fill_in(request.headers, os.environ, place=f"flow {drawn.plan.flow.name}: headers")
        status, body = await _ask(checkup, request.method, request.path, headers, request.body, mission)
        if status is None:
            return False, f"{request.method} {request.path}: {body.decode()}"
        result, why, _ = step.judge.judge(status, body)
        if result != "ok":
            return False, f"{request.method} {request.path}: {why or result}"
        asked += 1
    return True, f"{asked} requests of a mission of flow {drawn.plan.flow.name}"


async def _ask(
    checkup: Checkup, method: str, path: str, headers: Mapping[str, str], body: str | None, mission: str
) -> tuple[int | None, bytes]:
    """Status and body; None and what was seen instead."""
    parts = urlsplit(checkup.plan.target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    content = b"" if body is None else body.encode()
    trace = f"{PROBE_TRACE}{secrets.token_hex(8)}"[:32].ljust(32, "0")
    fields = {
        "Host": parts.netloc,
        "Connection": "close",
        "Content-Length": str(len(content)),
        "Content-Type": "application/json",
        "X-Drill-Mission": mission,
        "X-Drill-Run": checkup.folder.run,
        "traceparent": f"00-{trace}-{secrets.token_hex(8)}-01",
        **headers,
    }
    head = f"{method} {parts.path.rstrip('/')}{path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
    try:
        async with asyncio.timeout(PROBE_S):
            tls = tls_to(parts.scheme, None)
            reader, writer = await asyncio.open_connection(
                checkup.addresses[0], port, ssl=tls, server_hostname=parts.hostname if tls else None
            )
            try:
                check_peer(writer, checkup.plan.target.url, permitted=checkup.plan.target.permit is not None)
                writer.write(head.encode("latin-1") + b"\r\n" + content)
                await writer.drain()
                data = b""
                while len(data) < _MOST_BYTES and (piece := await reader.read(65_536)):
                    data += piece
            finally:
                writer.transport.abort()
        size = http1.cut_head(data)
        answer = http1.HeadReader(response=True).response(data[:size]) if size else None
        if answer is None:
            return None, b"closed without an answer"
        return answer.status, http1.response_body(answer, method).feed(data[size:])
    except http1.Malformed as error:
        return None, error.why.encode()
    except TimeoutError:
        return None, f"no answer in {PROBE_S:g} s".encode()
    except OSError as error:
        return None, (error.strerror or type(error).__name__).encode()


async def _held(flags: Answers, clock: Clock) -> Line:
    """See that the agent asks the flag server, and holds what it says now."""
    give_up_ns = clock.mono_ns() + round(SEEN_S * 1e9)
    while True:
        try:
            said = await flags.state()
        except ChildLost as lost:
            raise Refused(
                "flags_held", found=lost.why, wanted="a flag server", remedy="see flags.log in the run"
            ) from None
        workers = [one for one in said.get("workers") or () if not one.get("lost")]
        behind = [one for one in workers if one.get("held") != said.get("revision")]
        if workers and not behind:
            return Line(
                check="flags_held", status="pass", why=f"{len(workers)} workers hold revision {said['revision']}"
            )
        if clock.mono_ns() >= give_up_ns:
            raise Refused(
                "flags_held",
                found="no worker that asks for flags" if not workers else f"{len(behind)} workers with an old state",
                wanted="every worker of the agent, holding the latest state",
                remedy="call `drillmaster.adapters.worker.chaos.start()` in the agent, with CHAOS_URL as the drill sets it",
            )
        await asyncio.sleep(0.1)


async def _written(checkup: Checkup, mission: str, clock: Clock) -> Line:
    """Look for the probe's transcript, and see that it says whose it is."""
    if not checkup.wants_transcripts:
        return Line(check="transcript_written", status="pass", why="no row asks for transcripts")
    run = checkup.folder.run
    give_up_ns = clock.mono_ns() + round(SEEN_S * 1e9)
    while True:
        said = await asyncio.to_thread(_runs_of, checkup.transcripts, mission)
        if run in said:
            return Line(check="transcript_written", status="pass", why=f"{mission} in {checkup.transcripts}")
        if clock.mono_ns() >= give_up_ns:
            if said:
                name = one_line(min(said))[:60] or "none"
                raise Refused(
                    "transcript_written",
                    found=f"{mission} in {checkup.transcripts} as of another run: {name}",
                    wanted=f"the run that each line is of: {run}",
                    remedy="have the agent take `run` from the request's X-Drill-Run, as it takes the mission; "
                    "DRILL_RUN of another drill is no longer right",
                )
            raise Refused(
                "transcript_written",
                found=f"no line of {mission} in {checkup.transcripts}",
                wanted="a transcript of each mission",
                remedy="record it in the agent (drillmaster.adapters.worker.transcript), into DRILL_TRANSCRIPTS",
            )
        await asyncio.sleep(0.1)


def _runs_of(folder: Path, mission: str) -> set[str]:
    """Which runs the lines of a mission say they are of, by files' last bytes: old transcripts may lie before them."""
    found: set[str] = set()
    wanted = mission.encode()
    for path in folder.glob("*.ndjson"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_BYTES))
            for line in file:
                if wanted in line:
                    with contextlib.suppress(ValueError, RecursionError):
                        said = json.loads(line)
                        if isinstance(said, dict) and said.get("mission") == mission:
                            found.add(str(said.get("run", "")))
    return found
