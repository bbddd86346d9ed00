"""From a plan's section to what the driver needs: files read and understood, a book in the run's folder, settings.

1. Everything that can be refused is refused here, before anything is started: a file that is not there, a name that nothing
   makes, a profile that Artillery would read differently, more arrivals than the plan allows, a variable that is not set.
2. The book goes into the run's folder, so it holds no secret: one that is found in a file of missions is refused, with the
   place where it belongs.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from drillmaster.adapters.drill.artillery import translate
from drillmaster.errors import Problem, Refused
from drillmaster.friday.missions import (
    Artillery,
    Held,
    Load,
    Locust,
    MissionFile,
    Missions,
    arriving,
    read_missions,
    section_problems,
)
from drillmaster.intake import read_bytes
from drillmaster.missions.settings import BOOK, PAYLOADS, ArtilleryLoad, Book, BookLoad, LocustLoad, OwnLoad, Settings
from drillmaster.sanity import fill_in
from drillmaster.screen import screen_text
from drillmaster.strict import CAP_BYTES, Format, digest_bytes
from drillmaster.timeline.opening import complaint

__all__ = ["Understood", "prepare", "read_loads", "write_book"]


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A section, with its files read."""

    section: Missions
    loads: tuple[BookLoad, ...]
    said: tuple[str, ...]
    """What a person should have heard before the drill, a line each."""

    @property
    def most_steps(self) -> int:
        """The most requests that one mission makes."""
        return max(
            (len(f.steps) for load in self.loads if isinstance(load, OwnLoad) for f in load.missions.flows), default=1
        )

    @property
    def entries(self) -> frozenset[str]:
        """How missions come in: `http`, `websocket`. What a foreign load generator does is not known beforehand."""
        return frozenset(f.entry for load in self.loads if isinstance(load, OwnLoad) for f in load.missions.flows)

    @property
    def arrivals(self) -> int:
        """How many missions come by the clock in all; held ones are not among them."""
        total = 0
        for load in self.loads:
            total += arriving(load.arrivals) if isinstance(load, OwnLoad) else getattr(load, "arrivals", 0)
        return total


def read_loads(
    section: Missions,
    base: Path,
    *,
    place: str,
    environ: Mapping[str, str] | None = None,
    at: str = "/missions",
    compressed: float = 1.0,
) -> Understood:
    """Read and understand the section's files, which are relative to `base`. Raises Problem, the first there is.

    `environ` None: variables that headers name are not looked for. `compressed`: the phases of a profile, which stand in no plan,
    last so many times shorter; their rates stay.
    """
    for problem in section_problems(section, place=place, at=at):
        raise problem
    loads: list[BookLoad] = []
    said: list[str] = []
    for nth, load in enumerate(section.loads):
        path = base / load.file
        content = _content(path, load, place=f"{place}: {at}/loads/{nth}/file")
        found, lines = _understood(load, path, base, content, section, compressed)
        if isinstance(found, OwnLoad):
            _no_secret(found.missions, path)
            if environ is not None:
                for flow in found.missions.flows:
                    for headers in (flow.headers, *(step.headers for step in flow.steps)):
                        fill_in(headers, environ, place=f"{path}: flow {flow.name}: headers")
        loads.append(found)
        said += lines
    return Understood(section=section, loads=tuple(loads), said=tuple(said))


def _content(path: Path, load: Load, *, place: str) -> bytes:
    try:
        return read_bytes(path, CAP_BYTES["json"])
    except Problem as problem:
        raise Problem(
            place,
            found=f"{path}: {problem.found}",
            wanted="the file that the load is in",
            remedy="drillmaster init friday writes a missions.yaml" if isinstance(load, Held) else "name the file",
        ) from None


def _format(path: Path) -> Format:
    known: dict[str, Format] = {".json": "json", ".toml": "toml"}
    return known.get(path.suffix.lower(), "yaml")


def _understood(
    load: Load, path: Path, base: Path, content: bytes, section: Missions, compressed: float
) -> tuple[BookLoad, list[str]]:
    sha256 = digest_bytes(content)
    match load:
        case Held():
            missions = read_missions(content, place=str(path), fmt=_format(path))
            said = []
            if load.arrivals:
                said = [
                    _arrivals_said(load.file, arriving(load.arrivals), sum(a.for_s for a in load.arrivals), section)
                ]
            own = OwnLoad(
                source=load.file,
                sha256=sha256,
                missions=missions,
                concurrent=load.concurrent,
                ramp_s=load.ramp_s,
                arrivals=load.arrivals,
                max_open=load.max_open,
            )
            return own, said
        case Locust():
            python = load.python or sys.executable
            if shutil.which(python) is None:
                raise Problem(
                    str(path),
                    found=f"no {python}",
                    wanted="the Python that has Locust",
                    remedy="correct `python` in the plan",
                )
            if load.python is None and not _has_locust():
                raise Problem(
                    str(path),
                    found="no Locust in this Python",
                    wanted="a Python that has it",
                    remedy="pip install locust in an environment of its own, and name its python in the plan",
                )
            return LocustLoad(
                source=load.file,
                sha256=sha256,
                path=str(path.absolute()),
                cwd=str(base.absolute()),
                users=load.users,
                users_per_s=load.users_per_s,
                python=python,
                stop_s=load.stop_s,
            ), [f"{load.file}: Locust, {load.users} users; how many are in flight is up to its waiting times"]
        case Artillery():
            return _profile(load, path, content, sha256, section, compressed)


def _has_locust() -> bool:
    import importlib.util

    return importlib.util.find_spec("locust") is not None


def _profile(
    load: Artillery, path: Path, content: bytes, sha256: str, section: Missions, compressed: float
) -> tuple[BookLoad, list[str]]:
    if load.by == "artillery":
        program = shutil.which("artillery")
        if program is None:
            raise Problem(
                str(path),
                found="no artillery on PATH",
                wanted="the program",
                remedy="npm install -g artillery, or run the profile `by: translation`",
            )
        from drillmaster.adapters.drill.artillery import phases_of

        arrivals = phases_of(content, place=str(path))
    else:
        program = ""
        translated = translate(content, place=str(path), read=lambda name: _csv(path.parent / name, str(path)))
        arrivals = translated.arrivals
    total, seconds = arriving(arrivals), sum(part.for_s for part in arrivals)
    if total > load.max_arrivals:
        raise Problem(
            str(path),
            found=f"phases that bring {total:,} users in {seconds:g} s",
            wanted=f"at most {load.max_arrivals:,}, as the plan says in max_arrivals",
            remedy="lower arrivalRate (it is users a second, not users at once), or raise max_arrivals if all agree",
        )
    if load.by == "translation":  # the cap above is of the whole profile: who rehearses hears of it
        arrivals = tuple(one.over(compressed) for one in arrivals)
        total, seconds = arriving(arrivals), seconds / compressed
        if not total:
            raise Problem(
                str(path),
                found=f"phases that bring nobody in {seconds:g} s, compressed {compressed:g}x",
                wanted="one user at least",
                remedy="compress by less",
            )
    said = [_arrivals_said(load.file, total, seconds, section)]
    if load.by == "artillery":
        if compressed != 1:
            said.append(
                f"{load.file}: Artillery goes through its phases as they are; only a translated profile is compressed"
            )
        own = ArtilleryLoad(
            source=load.file, sha256=sha256, path=str(path.absolute()), program=program, arrivals=total, seconds=seconds
        )
        return own, said
    return OwnLoad(
        source=load.file,
        sha256=sha256,
        translated=True,
        missions=translated.missions,
        arrivals=arrivals,
        max_open=load.max_open,
    ), [*said, *translated.said]


def _arrivals_said(name: str, total: int, seconds: float, section: Missions) -> str:
    mean = total / seconds
    return (
        f"{name}: {total:,} missions in {seconds:g} s ({mean:.1f} a second); {mean:.0f} in flight for each second that an "
        f"answer takes, {mean * section.time_limit_s:,.0f} if all take {section.time_limit_s:g} s"
    )


def _csv(path: Path, place: str) -> bytes:
    try:
        return read_bytes(path, CAP_BYTES["json"])
    except Problem as problem:
        raise Problem(
            place,
            found=f"{path}: {problem.found}",
            wanted="the payload's file",
            remedy="correct its path",
        ) from None


def _no_secret(missions: MissionFile, path: Path) -> None:
    # A value with a `${NAME}` in it is what is wanted.
    text = re.sub(r'"[^"]*\$\{[A-Za-z_]\w*\}[^"]*"', '""', msgspec.json.encode(missions).decode())
    screened = screen_text(text)
    if screened == text:
        return
    at = next((n for n, (a, b) in enumerate(zip(text, screened, strict=False)) if a != b), 0)
    before = re.findall(r'"([A-Za-z_][\w.-]*)"', text[:at])[-1:]
    raise Problem(
        str(path),
        found="a secret" + (f" near {before[0]!r}" if before else ""),
        wanted="none: missions are evidence, and recorded",
        remedy="put it into the environment, and write ${NAME} in a header",
    )


def write_book(understood: Understood, folder: Path, *, seed: int, run: str) -> Path:
    """Write the book into the run's folder. Raises Problem."""
    section = understood.section
    book = Book(
        loads=understood.loads,
        time_limit_s=section.time_limit_s,
        max_body_bytes=section.max_body_bytes,
        max_missions=section.max_missions,
        seed=seed,
        run=run,
    )
    path = folder / BOOK
    try:
        with path.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(book), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(str(path), found=found, wanted="a new file in the run's folder", remedy=remedy) from None
    return path


def prepare(
    understood: Understood,
    folder: Path,
    *,
    url: str,
    seed: int,
    run: str,
    mono0_ns: int,
    control: Path | None,
    scratch: Path | None = None,
    permitted: bool = False,
    ca: str | None = None,
    longest_s: float,
    max_per_s: float | None = None,
    max_requests: int | None = None,
) -> Settings:
    """Write the book, and say what the driver is told. `folder` is the run's; caps are the permission's. Raises Problem."""
    if max_per_s is not None or max_requests is not None:
        for load in understood.loads:
            if not isinstance(load, OwnLoad):
                raise Refused(
                    load.source,
                    found="a load by another program, to a host that has caps",
                    wanted="missions of ours: only they can be held to so many requests a second and in all",
                    remedy="run it against loopback, or translate it (drillmaster missions translate)",
                )
    book = write_book(understood, folder, seed=seed, run=run)
    return Settings(
        book=str(book),
        url=url,
        permitted=permitted,
        ca=ca,
        events=str(folder / "events" / "missions.jsonl"),
        payloads=str(folder / PAYLOADS),
        scratch=None if scratch is None else str(scratch),
        mono0_ns=mono0_ns,
        control_path=None if control is None else str(control),
        owner_pid=os.getpid(),
        longest_s=longest_s,
        max_per_s=max_per_s,
        max_requests=max_requests,
    )
