"""A few missions, one after the other or side by side, for a person who wants to see whether they work: by the driver itself."""

import asyncio
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.child import ChildLost
from drillmaster.errors import Problem
from drillmaster.friday.missions import Arrivals, Artillery, Held, Load, Locust, Missions
from drillmaster.intake import read_bytes
from drillmaster.missions.preparing import prepare, read_loads
from drillmaster.missions.process import Driver
from drillmaster.missions.settings import OwnLoad
from drillmaster.strict import CAP_BYTES

__all__ = ["Trial", "TriedMission", "TriedStep", "load_of", "try_missions"]

_LONGEST_S = 600.0


class TriedStep(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    request: str
    """Method and path as they were sent; empty where another program sent it."""
    result: str
    status: int | None
    why: str
    ms: float


class TriedMission(msgspec.Struct, frozen=True, kw_only=True):
    mission: str
    flow: str
    entry: str
    result: str
    why: str
    ms: float
    """From when it was due to its end, thinking not counted."""
    steps: tuple[TriedStep, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the missions that were tried."""

    missions: tuple[TriedMission, ...]
    said: tuple[str, ...]
    exit: int

    @property
    def ok(self) -> bool:
        return bool(self.missions) and all(mission.result == "ok" for mission in self.missions)


def load_of(path: Path, count: int) -> Load:
    """The load that a file is: Locust's by its ending, ours and Artillery's by what it says it is. Raises Problem."""
    if path.suffix == ".py":
        return Locust(file=path.name, users=min(count, 5), users_per_s=5, stop_s=5)
    content = read_bytes(path, CAP_BYTES["json"])
    if any(line.startswith(b"config:") for line in content.splitlines()):
        return Artillery(file=path.name, max_arrivals=9_000_000, max_open=5)
    return Held(file=path.name, concurrent=min(count, 5), ramp_s=0)


def try_missions(
    path: Path,
    *,
    url: str,
    count: int,
    seed: int,
    time_limit_s: float,
    ca: str | None,
    environ: Mapping[str, str],
) -> Trial:
    """Send `count` missions of a file, at most five at once, and say what became of each. Raises Problem."""
    load = load_of(path, count)
    section = Missions(loads=(load,), time_limit_s=time_limit_s, max_missions=count)
    understood = read_loads(section, path.parent, place=str(path), environ=environ)
    found = understood.loads[0]
    if isinstance(found, OwnLoad) and found.translated:
        # As many as are asked for at once, not by the profile's clock.
        calm = msgspec.structs.replace(found, arrivals=(Arrivals(for_s=count / 20, per_s=20),), max_open=5_000)
        understood = msgspec.structs.replace(understood, loads=(calm,))
    with tempfile.TemporaryDirectory(prefix="drillmaster-missions-") as scratch:
        folder = Path(scratch)
        (folder / "events").mkdir()
        settings = prepare(
            understood,
            folder,
            url=url,
            seed=seed,
            run="try-0try",
            mono0_ns=time.monotonic_ns(),
            control=folder / "control",
            longest_s=_LONGEST_S,
            ca=ca,
        )
        driver = Driver(settings, log=folder / "log", env=environ)
        code = asyncio.run(_drive(driver, isinstance(load, Locust), count))
        missions = tuple(sorted(_missions(folder), key=lambda one: (len(one.mission), one.mission)))[
            : count if not isinstance(load, Locust) else None
        ]
        last = driver.last_words()
    if code and not missions:
        said = last.removeprefix("drillmaster.missions: ")
        raise Problem.of(said or f"exit {code}", place=str(path), wanted="missions that can be sent")
    return Trial(missions=missions, said=understood.said, exit=code)


async def _drive(driver: Driver, foreign: bool, count: int) -> int:
    await driver.start()
    try:
        await driver.begin()
        if foreign:  # it goes on until it is told
            enough = False
            while not enough:
                await asyncio.sleep(0.1)
                enough = (await driver.state())["started"] >= count
            await driver.no_more()
        return await driver.wait()
    except ChildLost:
        return await driver.wait()
    finally:
        await driver.quit()


def _missions(folder: Path) -> list[TriedMission]:
    steps: dict[str, list[TriedStep]] = {}
    requests: dict[str, list[dict[str, Any]]] = {}
    for line in (folder / "payloads.ndjson").read_bytes().splitlines():
        said = json.loads(line)
        requests[said["mission"]] = said["requests"]
    found = []
    for line in (folder / "events" / "missions.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        if row["event"] == "step_ended":
            sent = requests.get(row["mission"], [])
            request = sent[row["step"]] if isinstance(sent, list) and row["step"] < len(sent) else {}
            steps.setdefault(row["mission"], []).append(
                TriedStep(
                    name=row["name"],
                    request=f"{request.get('method', '')} {request.get('path', '')}".strip(),
                    result=row["result"],
                    status=row["status"],
                    why=row.get("why", ""),
                    ms=round((row["end_ns"] - row["due_ns"]) / 1e6, 1),
                )
            )
        elif row["event"] == "mission_ended":
            found.append(
                TriedMission(
                    mission=row["mission"],
                    flow=row["flow"],
                    entry=row["entry"],
                    result=row["result"],
                    why=row["why"],
                    ms=round((row["end_ns"] - row["due_ns"] - row["thought_ns"]) / 1e6, 1),
                    steps=tuple(steps.pop(row["mission"], ())),
                )
            )
    return found
