"""Rehearse the halt of a dual-write cutover: two stores, synthetic drift, a compare, a person who halts, a restore.

1. Nothing of anybody's is touched: rows are made up, and the stores are two files of this rehearsal's own.
2. The order is fixed: write both, compare (equal), drift, compare until it is found, a person halts, a write after the halt
   has to stay out of the new store, restore, compare (equal), lift the halt, a write has to arrive in both.
3. Who halts is a person by name; the program never halts by itself. From a terminal the name is asked for when the drift
   was found, and the time until it is there counts. Given on the command line it counts as what it is: `asked: option`.
4. Spans are of the monotonic clock; stamps of UTC.
5. The record is written last, whole or not at all, with a digest over its own content. Killed before that, a rehearsal leaves
   no record; its folder, where one was named, is restored by the next one before it begins.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

import drillmaster
from drillmaster.clock import Clock, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.gates.cutover import HaltDrill
from drillmaster.intake.cutover import record_digest
from drillmaster.kits.cutover_halt.stores import DualWriter, Row, Store, differing, restore
from drillmaster.rules.free_lane import human
from drillmaster.strict import shown
from drillmaster.timeline.opening import complaint, write_whole

__all__ = ["Course", "Rehearsal", "rehearse"]

_BATCH = 200
_MARK = "rehearsal of a cutover halt; all rows in this folder are made up\n"


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What is rehearsed. `drift` rows of `rows` differ; it is compared each `compare_every_s` seconds."""

    service: str
    plan_digest: str = ""
    rows: int
    drift: int
    compare_every_s: float
    give_up_s: float
    """How long the compare may take to find the drift before the rehearsal has failed."""
    seed: int


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `held`: writes that stayed out of the new store while it was halted."""

    record: HaltDrill
    lost: int
    changed: int
    extra: int
    held: int


Tell = Callable[[str], None]


def rehearse(
    folder: Path,
    course: Course,
    clock: Clock,
    *,
    halted_by: str | None,
    ask: Callable[[str], str] | None,
    wait: Callable[[float], None],
    tell: Tell,
    opened: Callable[[Path], Store] = Store,
) -> Rehearsal:
    """Rehearse once in a folder of its own, which is made. `ask` None: there is nobody to ask. Raises Problem."""
    if halted_by is None and ask is None:
        raise Problem(
            "cutover rehearse",
            found="no terminal, and nobody named",
            wanted="the name of the person who halts",
            remedy="run it in a terminal, or add --halted-by NAME",
        )
    if halted_by is not None:
        _must_be_a_person(halted_by)
    _own(folder)
    halt = folder / "halted"
    with opened(folder / "old.sqlite") as old, opened(folder / "new.sqlite") as new:
        if halt.exists() or differing(old, new):
            # An earlier rehearsal was killed; what it drifted is made whole before anything is measured.
            restore(old, new)
            halt.unlink(missing_ok=True)
            tell("an earlier rehearsal did not come to its end here; both stores were made the same again")
        return _course(course, clock, old, new, halt, halted_by=halted_by, ask=ask, wait=wait, tell=tell)


def _course(
    course: Course,
    clock: Clock,
    old: Store,
    new: Store,
    halt: Path,
    *,
    halted_by: str | None,
    ask: Callable[[str], str] | None,
    wait: Callable[[float], None],
    tell: Tell,
) -> Rehearsal:
    chance = random.Random(course.seed)  # noqa: S311  # rows are made up, and the same for a seed
    writer = DualWriter(old, new, halt)
    made = _Rows(old.last() + 1, chance)
    rows: list[Row] = []
    while len(rows) < course.rows:
        batch = made.next(min(_BATCH, course.rows - len(rows)))
        writer.write(batch)
        rows += batch
    _must_be_equal(old, new, "before anything was drifted")
    tell(f"{len(rows):,} rows in two stores, by one writer")

    lost, changed, extra = _parts(chance.sample(rows, course.drift))
    ghosts = [row._replace(key=f"{row.key}-again") for row in extra]
    injected_ns, injected_wall_ns = clock.mono_ns(), clock.wall_ns()
    new.drift(lost=lost, changed=changed, extra=ghosts)
    drifted = {row.key for row in (*lost, *changed, *ghosts)}
    tell(f"drift, synthetic: {len(lost)} lost, {len(changed)} changed, {len(ghosts)} written twice, in the new store")

    found: frozenset[str] = frozenset()
    while not found:
        if (clock.mono_ns() - injected_ns) / 1e9 > course.give_up_s:
            raise Refused(
                "cutover rehearse",
                found=f"drift that no compare found within {course.give_up_s:g} s",
                wanted="drift that is found",
                remedy="compare more often: --compare-every 1s",
            )
        wait(course.compare_every_s)
        writer.write(made.next(1))
        found = differing(old, new)
    detected_ns = clock.mono_ns()
    tell(f"found {len(found & drifted)} of {len(drifted)} rows after {(detected_ns - injected_ns) / 1e9:.2f} s")

    name, asked = _halted_by(halted_by, ask, len(found))
    _set(halt, name)
    halted_ns = clock.mono_ns()
    writer.write(after := made.next(5))
    if {row.key for row in after} - differing(old, new):
        raise Refused(
            "cutover rehearse",
            found="a write after the halt in the new store",
            wanted="a halt that took",
            remedy="keep the folder and say so: this is ours to mend",
        )
    tell(f"halted by {name} after {(halted_ns - detected_ns) / 1e9:.2f} s; the new store has got nothing since")

    restore(old, new)
    _must_be_equal(old, new, "after the restore")
    halt.unlink()
    writer.write(made.next(5))
    _must_be_equal(old, new, "once it was written again")
    restored_ns, restored_wall_ns = clock.mono_ns(), clock.wall_ns()
    tell(f"both stores are the same again after {(restored_ns - halted_ns) / 1e9:.2f} s, and written again")
    record = HaltDrill(
        kind="halt-drill",
        version=1,
        service=course.service,
        plan_digest=course.plan_digest,
        halted_by=name,
        asked=asked,
        drift="synthetic",
        rows=len(rows),
        drifted_rows=len(drifted),
        found_rows=len(found & drifted),
        injected_at=rfc3339(injected_wall_ns, digits=3),
        restored_at=rfc3339(restored_wall_ns, digits=3),
        detection_s=round((detected_ns - injected_ns) / 1e9, 6),
        halt_s=round((halted_ns - detected_ns) / 1e9, 6),
        recovery_s=round((restored_ns - halted_ns) / 1e9, 6),
        equal_after=True,
        produced_by=f"drillmaster {drillmaster.__version__}",
        produced_at=rfc3339(clock.wall_ns(), digits=3),
        digest="",
    )
    record = msgspec.structs.replace(record, digest=record_digest(record))
    return Rehearsal(record=record, lost=len(lost), changed=len(changed), extra=len(ghosts), held=writer.held)


class _Rows:
    """Rows from a seed, in order; no two have a key in common."""

    def __init__(self, first: int, chance: random.Random) -> None:
        self._n = first
        self._chance = chance

    def next(self, count: int) -> list[Row]:
        rows = [
            Row(f"synthetic-{n:09d}", n, self._chance.randrange(1_000), self._chance.randrange(1, 100_000))
            for n in range(self._n, self._n + count)
        ]
        self._n += count
        return rows


def _parts(rows: list[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    return rows[0::3], rows[1::3], rows[2::3]


def _halted_by(
    given: str | None, ask: Callable[[str], str] | None, found: int
) -> tuple[str, Literal["terminal", "option"]]:
    if given is not None:
        return given.strip(), "option"
    assert ask is not None
    question = f"{found} rows differ. Who halts? Your name, as the roster has it"
    name = ask(question).strip()
    _must_be_a_person(name)
    return name, "terminal"


def _must_be_a_person(name: str) -> None:
    _, wrong = human(f"human:{name}")
    if wrong:
        raise Problem(
            "--halted-by",
            found=f"{shown(name)}: {wrong}",
            wanted="the name of the person who halts, as the roster has it",
            remedy="add --halted-by NAME",
        )


def _must_be_equal(old: Store, new: Store, when: str) -> None:
    differ = differing(old, new)
    if differ:
        raise Refused(
            "cutover rehearse",
            found=f"{len(differ)} rows that differ {when}",
            wanted="two stores that are the same",
            remedy="name an empty folder: --folder DIR; if it happens there too, this is ours to mend",
        )


def _set(halt: Path, name: str) -> None:
    _put(halt, f"halted by {name}\n", "a halt that is written down")


def _own(folder: Path) -> None:
    """Make the folder, or see that it is a rehearsal's: nothing of anybody else is written into."""
    mark = folder / "README"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A draft that a killed rehearsal left says nothing.
        empty = all(one.name.startswith(".drillmaster-") for one in folder.iterdir())
        known = mark.read_text(encoding="utf-8", errors="replace") if mark.is_file() else ""
    except OSError as error:
        raise _unusable(folder, error) from None
    if empty:
        _put(mark, _MARK, "a folder that can be written")
    elif known != _MARK:
        raise Problem(
            str(folder),
            found="files that are no rehearsal's",
            wanted="an empty folder, or one of an earlier rehearsal",
            remedy="name another one: --folder DIR",
        )


def _put(path: Path, text: str, wanted: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(str(path), found=found, wanted=wanted, remedy=remedy) from None


def _unusable(folder: Path, error: OSError) -> Problem:
    found, _ = complaint(error)
    wanted = "a folder that can be written"
    return Problem(str(folder), found=found, wanted=wanted, remedy="name another one: --folder DIR")
