"""One law on one carrier beside the law itself: a table of cases, and random sequences of questions."""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from drillmaster.rules import AnyLaw
from drillmaster.rules.lease import ACTIONS, LAW, LeaseAsk

__all__ = ["Carrier", "cases", "lease_machine", "play"]

Carrier = Callable[[AnyLaw, str, Any, int], Any]
"""(law, key, question, now_us) -> what it tells."""
S = 10**6


def cases(law: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        files("drillmaster.rules").joinpath(f"_cases/{law}.json").read_text("utf-8")
    )["cases"]
    return found


def play(carrier: Carrier, law: AnyLaw) -> None:
    """Play the whole table, each case under a key of its own."""
    for case in cases(law.name):
        for n, step in enumerate(case["steps"]):
            told = carrier(law, f"case of {case['name']}", msgspec.convert(step["ask"], law.asked), step["at_us"])
            assert msgspec.to_builtins(told) == step["told"], (case["name"], n)


def lease_machine(carrier: Carrier) -> type[RuleBasedStateMachine]:
    """Make a machine that asks a carrier and the law alike, about two names, and finds no difference."""
    runs = iter(range(10**9))

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.run = next(runs)
            self.now_us = 1_700_000_000 * S
            self.held: dict[str, Any] = {}
            self.tokens: dict[str, list[int]] = {"x": [7], "y": [7]}

        @rule(
            name=st.sampled_from("xy"),
            action=st.sampled_from(ACTIONS),
            holder=st.sampled_from("abcd"),
            gap_us=st.sampled_from((0, 1, S // 2, S - 1, S, S + 1, -1, -S, -400 * S)) | st.integers(-S, S),
            back=st.integers(0, 3),
            off=st.sampled_from((0, 0, 0, 0, 1, -1)),
            ttl_us=st.sampled_from((S, S, S // 3, 1)),
            permitted=st.sampled_from((True, True, False)),
        )
        def question(
            self, name: str, action: str, holder: str, gap_us: int, back: int, off: int, ttl_us: int, permitted: bool
        ) -> None:
            self.now_us += gap_us
            given = self.tokens[name]
            token = None if action == "acquire" else given[-1 - min(back, len(given) - 1)] + off
            asked = LeaseAsk(
                action=action,
                holder=holder,
                by=f"worker {holder} é",
                token=token,
                ttl_us=ttl_us,
                permitted=permitted or action != "steal",
            )
            then = LAW.step(self.held.get(name), asked, self.now_us)
            told = carrier(LAW, f"run {self.run}:{name}", asked, self.now_us)
            assert told == then.told
            self.held[name] = then.state
            if told.token is not None and told.token not in given:
                assert told.token > given[-1]
                given.append(told.token)

    return Machine
