"""What the demo decides before and beside its drills; the drills themselves are in tests/e2e/test_demo.py."""

import string
from importlib.resources import files
from pathlib import Path

import pytest

from drillmaster import strict
from drillmaster.cli._demo import EXPECTED, StandInScribe, expected
from drillmaster.conduct import State
from drillmaster.intake.verdicts import read_policy
from drillmaster.plan import Plan
from drillmaster.run import Scene
from drillmaster.sanity import Numbers, check
from drillmaster.standins.agent import BUGS

FILLED = {
    "service": "demo agent",
    "agent_port": 8000,
    "proxy_port": 8081,
    "primary_port": 9000,
    "fallback_port": 9001,
    "mode": '"503"',  # quoted, or YAML reads a number
    "python": '"/usr/bin/python3"',
    "review_by": "2099-12-31",
}


def filled(name: str) -> str:
    text = (files("drillmaster") / "kits" / "demo" / name).read_text(encoding="utf-8")
    return string.Template(text).substitute(FILLED)


def test_each_mistake_has_something_coming() -> None:
    assert set(EXPECTED) == set(BUGS)
    assert expected(None, "reset") == ("pass", None)
    assert expected("status-only", "reset") == ("fail", "no-fallback")
    assert expected("status-only", "503") == ("pass", None)


def test_the_kit_is_a_plan_and_a_policy_that_make_sense_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(filled("policy.yaml"))
    _, gate, _ = read_policy(tmp_path / "policy.yaml")
    plan = strict.load_as(filled("plan.yaml").encode(), Plan, place="plan.yaml", fmt="yaml")
    numbers = Numbers(
        max_failed_ratio=gate.max_failed_ratio,
        failed_window=gate.failed_window,
        max_fallback_s=gate.max_fallback_s,
        max_recovery_s=gate.max_recovery_s,
    )
    sane = check(plan, place="plan.yaml", wall_ns=1_800_000_000 * 10**9, numbers=numbers)
    assert sane.problems == ()
    assert sane.warnings == ()


def test_no_switch_is_named_in_the_kit() -> None:
    text = filled("plan.yaml") + filled("policy.yaml")
    assert not [name for name in BUGS if name in text]
    assert "STANDIN_BUG" not in text


class Watched:
    """A drill as a stand-in Scribe sees it, second by second."""

    def __init__(self) -> None:
        self.scribe = StandInScribe()
        self.wrote: list[str] = []

    def see(self, state: State, **since: int) -> None:
        scene = Scene(state=state, since_injection=since, run_dir=Path("runs/x"))
        self.scribe(scene, lambda kind, text: self.wrote.append(kind))


@pytest.mark.parametrize(
    ("seconds", "wrote"),
    [
        ([(State.BASELINE, {}), (State.STOPPING, {})], []),  # nothing was injected: nothing was seen
        ([(State.INJECTED, {"ok": 3})], ["injection_seen"]),  # those may still be the primary's
        ([(State.INJECTED, {"ok": 4})] * 3, ["injection_seen", "first_fallback_seen"]),
        (
            [(State.INJECTED, {"empty": 90}), (State.RECOVERY, {"ok": 40}), (State.DRAINING, {"ok": 50})],
            ["injection_seen", "no_fallback_seen", "window_ended"],  # answers after the lift are no fallback
        ),
        (
            [(State.INJECTED, {}), (State.INJECTED, {"ok": 9}), (State.RECOVERY, {"ok": 10})],
            ["injection_seen", "first_fallback_seen", "window_ended"],
        ),
    ],
)
def test_the_stand_in_scribe_writes_each_thing_once_and_only_what_there_was_to_see(
    seconds: list[tuple[State, dict[str, int]]], wrote: list[str]
) -> None:
    watched = Watched()
    for state, since in seconds:
        watched.see(state, **since)
    assert watched.wrote == wrote
