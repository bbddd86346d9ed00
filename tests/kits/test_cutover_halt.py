"""The rehearsal of a halt: what drifts is found, who halts is a person, and nothing is left different."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem, Refused
from drillmaster.intake.cutover import record_digest
from drillmaster.kits.cutover_halt import Course, Rehearsal, rehearse
from drillmaster.kits.cutover_halt.stores import BLOCK_ROWS, DualWriter, Row, Store, differing, restore

COURSE = Course(service="ledger-writer", rows=600, drift=7, compare_every_s=1.0, give_up_s=70.0, seed=1)


def once(
    folder: Path,
    *,
    halted_by: str | None = "bea",
    ask: Callable[[str], str] | None = None,
    clock: ManualClock | None = None,
    **course: object,
) -> tuple[Rehearsal, list[str]]:
    clock = clock or ManualClock()
    told: list[str] = []
    changed = msgspec.structs.replace(COURSE, **course)
    done = rehearse(folder, changed, clock, halted_by=halted_by, ask=ask, wait=clock.advance, tell=told.append)
    return done, told


def stores(folder: Path) -> tuple[Store, Store]:
    return Store(folder / "old.sqlite"), Store(folder / "new.sqlite")


def test_drift_is_found_whole_and_restored(tmp_path: Path) -> None:
    done, told = once(tmp_path / "stores")
    record = done.record
    assert (record.drifted_rows, record.found_rows, record.equal_after) == (7, 7, True)
    assert (done.lost, done.changed, done.extra) == (3, 2, 2)
    assert record.detection_s == 1.0
    assert (record.halt_s, record.recovery_s) == (0.0, 0.0)
    assert done.held == 5
    assert told[-1].endswith("and written again")
    old, new = stores(tmp_path / "stores")
    with old, new:
        assert old.checksums() == new.checksums()
        assert old.count() == 600 + 1 + 5 + 5
    assert not (tmp_path / "stores" / "halted").exists()


def test_the_record_carries_its_own_digest(tmp_path: Path) -> None:
    record = once(tmp_path / "stores")[0].record
    assert record.digest == record_digest(record)
    assert record.digest != record_digest(msgspec.structs.replace(record, recovery_s=1.0))


def test_the_time_until_a_name_is_there_counts(tmp_path: Path) -> None:
    clock = ManualClock()

    def ask(question: str) -> str:
        assert "7 rows differ" in question
        clock.advance(40.0)
        return " bea@example.com "

    record = once(tmp_path / "stores", halted_by=None, ask=ask, clock=clock)[0].record
    assert (record.halted_by, record.asked, record.halt_s) == ("bea@example.com", "terminal", 40.0)


def test_a_name_on_the_command_line_counts_as_what_it_is(tmp_path: Path) -> None:
    assert once(tmp_path / "stores")[0].record.asked == "option"


@pytest.mark.parametrize("name", ["", " ", "gpt-4o", "free-lane", "claude", "tbd", "a\x00", "deploy-bot"])
def test_who_is_no_person_halts_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="--halted-by"):
        once(tmp_path / "stores", halted_by=name)
    assert not (tmp_path / "stores").exists()
    with pytest.raises(Problem, match="--halted-by"):
        once(tmp_path / "asked", halted_by=None, ask=lambda question: name)


def test_nobody_to_ask_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="nobody named"):
        once(tmp_path / "stores", halted_by=None)
    assert not (tmp_path / "stores").exists()


def test_another_rehearsal_in_the_same_folder_goes_on_from_there(tmp_path: Path) -> None:
    once(tmp_path / "stores")
    done, told = once(tmp_path / "stores", seed=2)
    assert done.record.found_rows == 7
    assert not any("did not come to its end" in line for line in told)


class Killed(BaseException):
    """As a signal would, at a place of the rehearsal."""


@pytest.mark.parametrize("at", ["wait", "ask"])
def test_what_a_killed_rehearsal_left_is_restored_by_the_next(at: str, tmp_path: Path) -> None:
    def die(_: object) -> str:
        raise Killed

    clock = ManualClock()
    with pytest.raises(Killed):
        rehearse(
            tmp_path / "stores",
            COURSE,
            clock,
            halted_by=None,
            ask=die,
            wait=die if at == "wait" else clock.advance,  # type: ignore[arg-type]  # it never returns
            tell=lambda line: None,
        )
    old, new = stores(tmp_path / "stores")
    with old, new:
        assert differing(old, new)
    done, told = once(tmp_path / "stores")
    assert "did not come to its end" in told[0]
    assert done.record.found_rows == 7


def test_a_halt_outlives_its_process(tmp_path: Path) -> None:
    once(tmp_path / "stores")
    (tmp_path / "stores" / "halted").write_text("halted by bea\n")
    assert "did not come to its end" in once(tmp_path / "stores")[1][0]


@pytest.mark.parametrize("name", ["notes.txt", "old.sqlite", "README"])
def test_nothing_of_anybody_elses_is_written_into(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Problem, match="no rehearsal's"):
        once(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="--folder DIR"):
        once(tmp_path / "file" / "stores")


def test_a_compare_that_finds_nothing_gives_up(tmp_path: Path) -> None:
    class Blind(Store):
        def drift(self, **parts: object) -> None:
            pass

    clock = ManualClock()
    with pytest.raises(Refused, match="no compare found"):
        rehearse(
            tmp_path,
            COURSE,
            clock,
            halted_by="bea",
            ask=None,
            wait=clock.advance,
            tell=lambda line: None,
            opened=Blind,
        )


def test_a_halt_that_does_not_take_is_found(tmp_path: Path) -> None:
    class Unmoved(Store):
        """The old store; whoever writes to it lifts the halt."""

        def put(self, rows: Iterable[Row]) -> None:
            if self.path.name == "old.sqlite":
                (self.path.parent / "halted").unlink(missing_ok=True)
            super().put(rows)

    clock = ManualClock()
    with pytest.raises(Refused, match="a halt that took"):
        rehearse(
            tmp_path,
            COURSE,
            clock,
            halted_by="bea",
            ask=None,
            wait=clock.advance,
            tell=lambda line: None,
            opened=Unmoved,
        )


def rows(count: int, seed: int = 1) -> list[Row]:
    chance = random.Random(seed)
    return [Row(f"k{n}", n, chance.randrange(9), chance.randrange(99)) for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS])
def test_two_stores_of_the_same_rows_are_the_same(count: int, tmp_path: Path) -> None:
    with Store(tmp_path / "old") as old, Store(tmp_path / "new") as new:
        old.put(rows(count))
        new.put(reversed(rows(count)))
        assert differing(old, new) == frozenset()
        assert restore(old, new) == 0


def test_each_kind_of_difference_is_found_and_restored(tmp_path: Path) -> None:
    made = rows(3 * BLOCK_ROWS)
    with Store(tmp_path / "old") as old, Store(tmp_path / "new") as new:
        old.put(made)
        new.put(made)
        new.drift(lost=made[:1], changed=made[BLOCK_ROWS : BLOCK_ROWS + 1], extra=[Row("again", 9_999, 1, 1)])
        assert differing(old, new) == {"k0", f"k{BLOCK_ROWS}", "again"}
        assert restore(old, new) == 3
        assert differing(old, new) == frozenset()
        assert old.count() == new.count() == len(made)


def test_a_write_twice_is_one(tmp_path: Path) -> None:
    with Store(tmp_path / "old") as old:
        old.put(rows(10))
        old.put([row._replace(amount=1) for row in rows(10)])
        assert old.block(0) == {row.key: row for row in rows(10)}
        assert old.last() == 9


def test_the_writer_leaves_the_new_store_alone_while_somebody_has_halted(tmp_path: Path) -> None:
    with Store(tmp_path / "old") as old, Store(tmp_path / "new") as new:
        writer = DualWriter(old, new, tmp_path / "halted")
        made = rows(30)
        writer.write(made[:10])
        (tmp_path / "halted").touch()
        writer.write(made[10:20])
        assert (old.count(), new.count(), writer.held) == (20, 10, 10)
        restore(old, new)
        (tmp_path / "halted").unlink()
        writer.write(made[20:])
        assert (old.count(), new.count()) == (30, 30)
