"""The tables of `rules/_cases`, as the carriers of a law are held against them."""

import importlib.resources
from typing import Any

import msgspec

from drillmaster.rules import AnyLaw

__all__ = ["cases", "steps"]


def cases(law: AnyLaw) -> list[tuple[str, list[Any]]]:
    """Give a law's cases: a name, and steps of (microseconds, question, what is told)."""
    text = (importlib.resources.files("drillmaster.rules") / "_cases" / f"{law.name}.json").read_bytes()
    table = msgspec.json.decode(text)
    assert table["law"] == law.name
    return [
        (
            case["name"],
            [
                (now_us, msgspec.convert({**case["always"], **ask}, law.asked), msgspec.convert(want, law.told))
                for now_us, ask, want in case["steps"]
            ],
        )
        for case in table["cases"]
    ]


def steps(law: AnyLaw, questions: list[tuple[int, Any]]) -> list[Any]:
    """What the law tells of these, one after another; the state goes through its written form each time."""
    state, told = None, []
    for now_us, question in questions:
        then = law.step(state, question, now_us)
        told.append(then.told)
        assert then.keep_us is None or then.keep_us >= 0
        state = None if then.state is None else msgspec.json.decode(msgspec.json.encode(then.state), type=law.state)
    return told
