"""Minding an injector that is a fake: what is written, when a drill is stopped, what nobody may take for off."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from drillmaster.child import ChildLost
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem, Refused
from drillmaster.run.company import Company
from drillmaster.run.course import Turn
from drillmaster.run.injecting import Minder, how_it_ended

TURN = Turn(window="w1", fault="f", rules=(), fault_s=5, recovery_s=5)


class Fake:
    """An injector, and a part, that does as it is told."""

    started = "fake_started"
    exited = "fake_exited"
    called = "the fake"
    evidence = ("events/fake.jsonl",)
    log = "fake.log"

    def __init__(self, *, lost: int = 0, code: int = 0) -> None:
        self.pid: int | None = None
        self.starts = 0
        self.lost = lost
        """How many calls from now on are not answered."""
        self.code = code
        self.calls: list[str] = []
        self.ends: asyncio.Queue[int] = asyncio.Queue()
        self.may_end = False
        self.says: dict[str, Any] = {"counts": {"met": 3}}
        self.passes = True

    async def start(self) -> int:
        if self.starts < 0:
            raise Problem("the fake", found="nothing", wanted="a start", remedy="none")
        self.starts += 1
        self.pid = 100 + self.starts
        return self.pid

    async def wait(self) -> int:
        return await self.ends.get()

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.lost:
            self.lost -= 1
            raise ChildLost(f"{what}: silent")

    async def state(self) -> dict[str, Any]:
        self._called("state")
        return self.says

    async def inject(self, turn: Turn, *, ttl_s: float) -> None:
        self._called(f"inject {turn.window}")

    async def renew(self, window: str, *, ttl_s: float) -> bool:
        self._called("renew")
        return True

    async def lift(self, window: str, why: str) -> None:
        self._called(f"lift {window}")

    async def gone(self) -> tuple[bool, str]:
        return self.passes, "looked"

    def forewarn(self, turn: Turn) -> Iterator[str]:
        yield from ()

    def kill(self) -> None: ...

    async def complaint(self) -> str | None:
        return None

    async def quit(self) -> int:
        self.calls.append("quit")
        return self.code


class Desk:
    """A conductor on paper."""

    def __init__(self) -> None:
        self.ending = False
        self.injected_in: Turn | None = None
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.said: list[str] = []
        self.why: list[str] = []

    def write(self, event: str, /, **fields: Any) -> bool:
        self.written.append((event, fields))
        return True

    def say(self, text: str) -> None:
        self.said.append(text)

    def give_up(self, why: str) -> None:
        self.why.append(why)

    async def stop(self, why: str) -> None:
        self.why.append(why)

    def spawn(self, doing: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return asyncio.create_task(doing)


class Pinned:
    def __init__(self) -> None:
        self.names: list[str] = []

    def hold(self, *names: str) -> None:
        self.names += names


def minded(fake: Fake) -> tuple[Minder, Desk]:
    desk = Desk()
    return Minder(fake, desk, ManualClock()), desk  # type: ignore[arg-type]  # a fake with one file more


def test_nothing_is_lifted_that_was_never_injected() -> None:
    fake = Fake()
    minder, _ = minded(fake)
    asyncio.run(minder.lift("w1"))
    assert fake.calls == []


def test_an_injection_that_was_not_answered_may_be_on_and_is_lifted() -> None:
    fake = Fake(lost=1)
    minder, _ = minded(fake)
    assert asyncio.run(minder.inject(TURN)) == "the injection failed: inject w1: silent"
    asyncio.run(minder.lift("w1"))
    assert fake.calls == ["inject w1", "lift w1"]


@pytest.mark.parametrize(("lost", "failed", "said"), [(0, 0, 0), (1, 1, 0), (2, 2, 1)])
def test_a_lift_is_tried_twice_and_then_left_to_the_deadline(lost: int, failed: int, said: int) -> None:
    fake = Fake()
    minder, desk = minded(fake)
    asyncio.run(minder.inject(TURN))
    fake.lost = lost
    asyncio.run(minder.lift("w1"))
    assert [event for event, _ in desk.written] == ["lift_failed"] * failed
    assert len(desk.said) == said


def test_one_that_ends_by_itself_is_replaced_and_the_drill_stopped() -> None:
    async def run() -> None:
        await minder.start()
        task = asyncio.create_task(minder.watch())
        fake.ends.put_nowait(-9)
        while not desk.why:
            await asyncio.sleep(0)
        desk.ending = True
        fake.ends.put_nowait(0)
        await task

    fake = Fake()
    minder, desk = minded(fake)
    asyncio.run(run())
    assert fake.starts == 2
    assert desk.why == ["the fake ended by itself (SIGKILL): the evidence has a hole"]
    assert [event for event, _ in desk.written] == ["fake_started", "fake_exited", "fake_started"]


def test_one_that_ends_again_and_again_is_not_started_for_ever() -> None:
    async def run() -> None:
        for _ in range(10):
            fake.ends.put_nowait(2)
        await minder.watch()

    fake = Fake()
    minder, desk = minded(fake)
    asyncio.run(run())
    assert fake.starts == 4
    assert len(desk.why) == 5


def test_what_it_counts_is_refused_where_it_is_silent_with_where_to_look() -> None:
    fake = Fake(lost=1)
    minder, _ = minded(fake)
    with pytest.raises(Refused, match=r"see runs/r/fake.log"):
        asyncio.run(minder.state("runs/r"))


@pytest.mark.parametrize(
    ("code", "why"), [(0, []), (2, ["the fake ended with exit 2: lines of its evidence may be lost"])]
)
def test_an_end_with_another_code_than_0_may_have_lost_evidence(code: int, why: list[str]) -> None:
    fake = Fake(code=code)
    minder, desk = minded(fake)
    asyncio.run(minder.start())
    asyncio.run(minder.end(leave=False))
    assert desk.why == why
    assert desk.written[-1] == ("fake_exited", {"pid": 101, "code": code, "expected": True})


def test_one_that_is_left_to_an_agent_of_somebody_elses_is_not_ended() -> None:
    fake = Fake()
    fake.says = {"counts": {"evidence_lost": 4}}
    minder, desk = minded(fake)
    asyncio.run(minder.start())
    asyncio.run(minder.end(leave=True))
    assert minder.left == 101
    assert "quit" not in fake.calls
    assert desk.why == ["the fake could not write 4 lines of evidence"]


def test_that_it_is_gone_is_looked_at_and_written_down() -> None:
    fake = Fake()
    minder, desk = minded(fake)
    asyncio.run(minder.prove_gone(TURN))
    assert desk.written == [("fault_gone", {"window": "w1", "gone": True, "why": "looked"})]


# Further parts


def company(*parts: Fake) -> tuple[Company, Desk, Pinned]:
    desk, pins = Desk(), Pinned()
    return Company(parts, desk, pins), desk, pins  # type: ignore[arg-type]  # fakes


def test_parts_are_started_in_their_order_held_and_ended_against_it() -> None:
    async def run() -> None:
        await both.start()
        await both.end()

    first, second = Fake(), Fake(code=2)
    second.called = "the other"
    both, desk, pins = company(first, second)
    asyncio.run(run())
    assert pins.names == ["events/fake.jsonl"] * 2
    assert [event for event, _ in desk.written] == ["fake_started", "fake_started", "fake_exited", "fake_exited"]
    assert desk.why == ["the other ended with exit 2: lines of its evidence may be lost"]


@pytest.mark.parametrize("may_end", [True, False])
def test_a_part_that_ends_by_itself_stops_the_drill_unless_it_was_told_that_nothing_more_is_wanted(
    may_end: bool,
) -> None:
    async def run() -> None:
        await one.start()
        part.may_end = may_end
        part.ends.put_nowait(0)
        await asyncio.sleep(0.01)
        await one.end()

    part = Fake()
    one, desk, _ = company(part)
    asyncio.run(run())
    assert bool(desk.why) is not may_end
    assert [event for event, _ in desk.written] == ["fake_started", "fake_exited"]  # and not twice


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit 0"), (-15, "SIGTERM"), (-64, "exit -64"), (None, "its keeper was killed")]
)
def test_an_end_is_said_in_words(code: int | None, words: str) -> None:
    assert how_it_ended(code) in (words, "SIGRTMAX")
