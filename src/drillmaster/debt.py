"""Drill debt: what a team said that it drills, and that no drill has passed, or none that still counts.

1. The debt file (`drill-debt.yaml`, pinned) names faults of the catalogue, flags, and rows of the drill matrix. Each of them is
   paid by one run that passed it, of this service, and that has not expired.
2. A pass expires by age, and by a change of what it was a pass of: a lock file, the version of a package (an SDK), a model's name,
   a file of the fallback path. What these were then is read from git at the commit that the run recorded, and compared with a
   commit of today (HEAD). Both as committed: a working tree is not looked at.
3. A run that recorded no commit, or code that differed from it, is a pass of nobody knows what, and pays nothing where a change
   would count. So does one whose commit is not in the clone.
4. A run that failed later ends what an earlier one had passed. One that was refused, stopped or never judged says nothing.
5. A stamp (REHEARSAL, DEMO, COMPRESSED 30x) on a run makes it pay nothing, unless the file takes that stamp.
6. Nothing named, or globs that take in no file, is refused: no debt is what was looked at and found paid.
7. A row of the history is believed as it stands, as everywhere in a history; the run's folder is the evidence.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from drillmaster import faults, strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.friday.flags import load_registry
from drillmaster.history import Entry
from drillmaster.intake import format_of, read_bytes
from drillmaster.intake.git import Repository
from drillmaster.intake.lockfiles import versions_of
from drillmaster.policy import Pin, pin_problems
from drillmaster.rules._globs import Globs, pattern_fault
from drillmaster.slo import load_matrix

__all__ = [
    "Debt",
    "DebtFile",
    "Expiry",
    "Line",
    "Package",
    "Stated",
    "Then",
    "check_file",
    "differences",
    "owed",
    "state",
]

DAY_NS = 86_400 * 10**9
_Names = Annotated[tuple[str | int, ...], msgspec.Meta(max_length=500)]
_Paths = Annotated[tuple[str, ...], msgspec.Meta(max_length=100)]
_LOCK_CAP_BYTES = 16 << 20
_FILE_CAP_BYTES = 1 << 20


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Package(_Part, frozen=True, kw_only=True):
    """A package whose version counts, and the lock file that pins it."""

    name: str
    lockfile: str


class Stated(_Part, frozen=True, kw_only=True):
    """Where a value stands that counts, such as a model's name: a JSON, YAML or TOML file, and a JSON pointer in it."""

    file: str
    at: str


class Expiry(_Part, frozen=True, kw_only=True):
    """What a pass expires with, beside its age. All paths from the root of the repository."""

    lockfiles: _Paths = ()
    packages: Annotated[tuple[Package, ...], msgspec.Meta(max_length=100)] = ()
    models: Annotated[tuple[Stated, ...], msgspec.Meta(max_length=100)] = ()
    fallback_path: _Paths = ()
    """Globs, as `.oracle-owners` has them: `/src/fallback/**`, `prompts/*.txt`."""


class Plans(_Part, frozen=True, kw_only=True):
    """The plans that pay, as one types them."""

    faults: str = "eviction-plan.yaml"
    friday: str = "friday-plan.yaml"


class DebtFile(_Part, frozen=True, kw_only=True):
    """`kind: drill-debt`."""

    kind: Literal["drill-debt"]
    version: Literal[1]
    source: str
    owner: str
    review_by: str
    service: str
    max_age_days: Annotated[int, msgspec.Meta(ge=1, le=3_660)]
    faults: _Names = ()
    """Tags of the catalogue; `all`: each of them."""
    flags: _Names = ()
    """Names of chaos flags; `all`: each of the registry."""
    rows: _Names = ()
    """Ids of rows of the drill matrix; `all`: each of it."""
    matrix: str | None = None
    """The drill matrix, beside this file; None: rows are held against none."""
    registry: str | None = None
    """The registry of flags, beside this file; None: flags are held against none."""
    stamps: _Paths = ()
    """Stamps with which a pass counts all the same."""
    expires_with: Expiry = Expiry()
    plans: Plans = Plans()

    @property
    def items(self) -> tuple[str, ...]:
        """What is to be passed, as rows of the history call it."""
        tags = faults.names() if "all" in self.faults else self.faults
        named = (("fault", tags), ("flag", self.flags), ("row", self.rows))
        return tuple(dict.fromkeys(f"{kind}/{one}" for kind, those in named for one in those))


class Then(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit holds of that with which a pass expires. None: it is not there."""

    lockfiles: Mapping[str, str | None]
    packages: Mapping[str, tuple[str, ...] | None]
    models: Mapping[str, str | None]
    path: Mapping[str, str]
    """Files of the fallback path, each with git's mode and name of its content."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be passed, whether it is, and if not, why not and what pays it."""

    item: str
    state: Literal["paid", "never", "failed", "expired"]
    why: tuple[str, ...] = ()
    run: str = ""
    """The newest run that passed it."""
    passed_at: str = ""
    expires_on: str = ""
    """The day on which a pass that counts ends by its age."""
    pay: str = ""


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    service: str
    head: str
    """The commit that passes were held against; empty: the file names nothing that a commit holds."""
    now: str
    runs: int
    """Runs of this service that were looked at."""
    lines: tuple[Line, ...]

    @property
    def owing(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.state != "paid")


def check_file(file: DebtFile, *, place: str, now_ns: int) -> None:
    """Raise Refused for a debt file that nobody answers for, or that names what there is not, or nothing."""
    for field, found, wanted in pin_problems(
        Pin(source=file.source, owner=file.owner, review_by=file.review_by), now_ns=now_ns
    ):
        raise Refused(f"{place}: /{field}", found=found, wanted=wanted, remedy=f"correct {field} in {place}")
    for tag in file.faults:
        if tag != "all":
            faults.load(str(tag))
    if not file.items:
        raise Refused(
            place,
            found="no fault, flag or row",
            wanted="what is to be passed: nothing looked at is no debt paid",
            remedy="name some under faults, flags or rows: drillmaster fault list",
        )
    for glob in file.expires_with.fallback_path:
        if wrong := pattern_fault(glob, "owners"):
            raise Refused(
                f"{place}: /expires_with/fallback_path", found=wrong, wanted="a glob", remedy=f"correct {glob!r}"
            )


def named_in(file: DebtFile, folder: Path, *, place: str) -> DebtFile:
    """Hold rows and flags against the matrix and the registry that the file names, and put each of theirs in the place of `all`.

    Raises Refused for one that is not there, or for `all` of what is not named.
    """
    rows = flags = None
    if file.matrix is not None:
        path = folder / file.matrix
        matrix, _ = load_matrix(read_bytes(path, _FILE_CAP_BYTES), place=str(path), fmt=format_of(str(path)))
        rows = tuple(row.id for row in matrix.rows)
    if file.registry is not None:
        path = folder / file.registry
        flags = tuple(load_registry(read_bytes(path, _FILE_CAP_BYTES), place=str(path)).by_name)
    return msgspec.structs.replace(
        file,
        rows=_known(file.rows, rows, f"{place}: /rows", "matrix"),
        flags=_known(file.flags, flags, f"{place}: /flags", "registry"),
    )


def _known(names: tuple[str | int, ...], there: tuple[str, ...] | None, place: str, field: str) -> tuple[str, ...]:
    told = tuple(map(str, names))
    if there is None:
        if "all" in told:
            raise Refused(
                place,
                found="all, of what nobody knows",
                wanted="the file that has them",
                remedy=f"name it: {field}: FILE",
            )
        return told
    for name in told:
        if name != "all" and name not in there:
            meant = strict.near(name, list(there))
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(there[:10])}"
            raise Refused(place, found=strict.shown(name), wanted=f"one that the {field} has", remedy=hint)
    return there if "all" in told else told


def state(repo: Repository, commit: str, file: DebtFile, *, demand: bool = False) -> Then:
    """Read what a commit holds. `demand`: raise Problem for a named file that is not there, or globs that take in none."""
    what = file.expires_with
    tree = repo.tree(commit)
    globs = Globs(what.fallback_path)
    found = Then(
        lockfiles={one: tree[one].sha if one in tree else None for one in what.lockfiles},
        packages={
            f"{one.name} of {one.lockfile}": _versions(repo, commit, one) if one.lockfile in tree else None
            for one in what.packages
        },
        models={
            f"{one.file}: {one.at}": _stated(repo, commit, one, demand=demand) if one.file in tree else None
            for one in what.models
        },
        path={name: f"{entry.mode} {entry.sha}" for name, entry in tree.items() if globs.any(name)},
    )
    if demand:
        gone = [
            name for those in (found.lockfiles, found.packages, found.models) for name, one in those.items() if not one
        ]
        for name in gone:
            raise Refused(
                f"{name} at {commit[:12]}",
                found="nothing there",
                wanted="what a pass is to expire with, as it was committed",
                remedy="correct it in the debt file, or commit it: git ls-files lists what there is",
            )
        for glob in what.fallback_path:
            if not any(map(Globs([glob]).any, tree)):
                raise Refused(
                    f"expires_with/fallback_path at {commit[:12]}",
                    found=f"no file that fits {glob}",
                    wanted="files: a path of none never changes",
                    remedy="correct the glob: git ls-files lists what there is",
                )
    return found


def _versions(repo: Repository, commit: str, one: Package) -> tuple[str, ...] | None:
    data = repo.read(commit, one.lockfile, cap_bytes=_LOCK_CAP_BYTES)
    return None if data is None else versions_of(one.name, data, file=one.lockfile)


def _stated(repo: Repository, commit: str, one: Stated, *, demand: bool) -> str | None:
    place = f"{one.file} at {commit[:12]}"
    try:
        data = repo.read(commit, one.file)
        found: Any = None if data is None else strict.load(data, place=place, fmt=format_of(one.file))
    except Problem:
        if demand:
            raise
        return None
    for step in one.at.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return None if found is None else strict.canonical(found).decode()


def differences(then: Then, now: Then) -> list[str]:
    """Say what changed since, a sentence each."""
    said = []
    for name, sha in now.lockfiles.items():
        if then.lockfiles.get(name) != sha:
            said.append(f"the lock file {name} changed")
    for name, versions in now.packages.items():
        was = then.packages.get(name)
        if was != versions:
            said.append(f"{name} went from {_told(was)} to {_told(versions)}")
    for name, model in now.models.items():
        was_model = then.models.get(name)
        if was_model != model:
            said.append(f"the model ({name}) went from {was_model or 'nothing'} to {model or 'nothing'}")
    changed = sorted(name for name in {*then.path, *now.path} if then.path.get(name) != now.path.get(name))
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        said.append(f"the fallback path changed: {', '.join(changed[:3])}{more}")
    return said


def _told(versions: tuple[str, ...] | None) -> str:
    return ", ".join(versions or ()) or "nothing"


def owed(
    file: DebtFile,
    entries: Iterable[Entry],
    *,
    now_ns: int,
    now: str,
    head: str = "",
    today: Then | None = None,
    at: Callable[[str], Then | None] = lambda commit: None,
) -> Debt:
    """Say of each thing in the file whether it is paid. `at` gives what a commit held; None: it is not in the clone."""
    ours = sorted((one for one in entries if one.name == file.service), key=lambda one: (one.ended_at, one.run))
    lines = tuple(_line(item, file, ours, now_ns, today, at) for item in file.items)
    return Debt(service=file.service, head=head, now=now, runs=len(ours), lines=lines)


def _line(
    item: str,
    file: DebtFile,
    ours: Sequence[Entry],
    now_ns: int,
    today: Then | None,
    at: Callable[[str], Then | None],
) -> Line:
    runs = [one for one in ours if item in one.proved]
    pay = _pay(item, file, ours)
    taken = [one for one in runs if set(one.stamps) <= set(file.stamps)]
    failed_at = max((at for at, one in enumerate(taken) if one.proved[item] == "fail"), default=-1)
    passes = [one for one in taken[failed_at + 1 :] if one.proved[item] == "pass"]
    if not passes:
        if failed_at >= 0:
            last = taken[failed_at]
            before = any(one.proved[item] == "pass" for one in taken[:failed_at])
            why = f"failed in {last.run}{', after it had passed' if before else ', and never passed'}"
            return Line(item=item, state="failed", why=(why,), pay=pay)
        return Line(item=item, state="never", why=(_never(item, runs, taken),), pay=pay)
    newest = passes[-1]
    reasons: list[str] = []
    for one in reversed(passes):
        said = _expired(one, file, now_ns, today, at)
        if not said:
            ends = (parse_rfc3339(one.ended_at) or 0) + file.max_age_days * DAY_NS
            return Line(item=item, state="paid", run=one.run, passed_at=one.ended_at, expires_on=_day(ends))
        reasons = reasons or said
    return Line(item=item, state="expired", why=tuple(reasons), run=newest.run, passed_at=newest.ended_at, pay=pay)


def _never(item: str, runs: Sequence[Entry], taken: Sequence[Entry]) -> str:
    if taken:
        return f"never passed: {len(taken)} run{'s' if len(taken) != 1 else ''} of it, each refused"
    stamped = next((one for one in reversed(runs) if one.proved[item] == "pass"), None)
    if stamped is not None:
        return f"passed only in runs that are worth less: {stamped.run} is {', '.join(stamped.stamps)}"
    return f"never passed: {len(runs)} runs of it" if runs else "never drilled"


def _expired(
    one: Entry, file: DebtFile, now_ns: int, today: Then | None, at: Callable[[str], Then | None]
) -> list[str]:
    said = []
    ended_ns = parse_rfc3339(one.ended_at)
    if ended_ns is None or ended_ns > now_ns + DAY_NS:
        said.append(f"{one.run} ends at {one.ended_at[:40]!r}, which is no time that has passed")
    elif now_ns - ended_ns > file.max_age_days * DAY_NS:
        days = (now_ns - ended_ns) // DAY_NS
        said.append(f"passed {days} days ago, and a pass holds {file.max_age_days}")
    if today is None:
        return said
    if not one.commit:
        said.append(f"{one.run} recorded no commit, so nobody knows what passed")
    elif not one.clean:
        said.append(f"{one.run} was made with changes beside commit {one.commit[:12]}, so nobody knows what passed")
    else:
        then = at(one.commit)
        if then is None:
            said.append(f"commit {one.commit[:12]} of {one.run} is not in this clone (git fetch --unshallow origin)")
        else:
            said += differences(then, today)
    return said


def _pay(item: str, file: DebtFile, ours: Sequence[Entry]) -> str:
    kind, _, name = item.partition("/")
    if kind == "fault":
        return f"drillmaster run matrix {shlex.quote(file.plans.faults)} --faults {shlex.quote(name)}"
    waiting = ours[-1] if ours and ours[-1].drill == "friday" and ours[-1].status == "unjudged" else None
    if waiting is not None:
        return f"drillmaster gate matrix {shlex.quote(f'runs/{waiting.run}')}"
    return f"drillmaster run friday {shlex.quote(file.plans.friday)}"


def _day(wall_ns: int) -> str:
    from drillmaster.clock import rfc3339

    return rfc3339(wall_ns, digits=0)[:10]
