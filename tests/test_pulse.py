"""Beats come, are counted while nobody looks, and end when they are told to. Real time, in tenths of seconds."""

import asyncio
import time

from drillmaster.pulse import Pulse


def test_beats_that_passed_while_the_loop_was_held_up_are_counted() -> None:
    async def beats() -> list[int]:
        seen: list[int] = []
        pulse = Pulse(asyncio.get_running_loop(), seen.append, period_s=0.02)
        time.sleep(0.1)  # the loop is held up, and that is the point
        await asyncio.sleep(0.03)
        pulse.close()
        return seen

    seen = asyncio.run(beats())
    assert seen[0] >= 4


def test_after_the_close_nothing_beats() -> None:
    async def beats() -> list[int]:
        seen: list[int] = []
        pulse = Pulse(asyncio.get_running_loop(), seen.append, period_s=0.01)
        pulse.close()
        pulse.close()
        await asyncio.sleep(0.05)
        assert pulse.count() == 0
        return seen

    assert asyncio.run(beats()) == []


def test_who_cannot_wait_takes_the_count() -> None:
    async def count() -> int:
        pulse = Pulse(asyncio.get_running_loop(), lambda _: None, period_s=0.02)
        time.sleep(0.07)  # the loop is held up, and that is the point
        counted = pulse.count()
        pulse.close()
        return counted

    assert asyncio.run(count()) >= 2
