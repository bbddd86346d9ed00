"""An injection with rules: each has to have met somebody, and who was not met is not blamed on the agent."""

from typing import Any

import pytest

from drillmaster.verdict import Exact
from tests.scene import Answer, Scene, judged

PROXY = "events/proxy.jsonl"


def ruled(*rules: tuple[str, str], met_by: str = "", tally: dict[str, Any] | None = None) -> Scene:
    """A healthy agent whose fault came by rules; every attempt in the window was met by the rule `met_by`."""
    scene = Scene(lambda n, s, on: Answer(25, attempts=0 if on and n % 2 else 1), mode="reset", marks=False)
    for name, fault in rules:
        scene.add(PROXY, scene.inject_ns - 1, "fault_rule", window="w1", rule=name, fault=fault, when={})
        told = {"matched": 9, "counted": 9, "taken": 9, "undecided": 0, "met": 0, "saw": [], **(tally or {})}
        scene.add(PROXY, scene.lift_ns + 1, "fault_rule_tally", window="w1", rule=name, **told)
    for row in scene.rows:
        if row.event == "fault_met":
            row.fields["rule"] = met_by or rules[0][0]
    return scene


def test_a_rule_that_met_somebody_is_admitted_and_named() -> None:
    status, checks, _ = judged(ruled(("chat", "reset")).run())
    assert (status, checks["rules"].status) == ("pass", "pass")
    assert "chat (reset)" in checks["rules"].why


@pytest.mark.parametrize(
    ("tally", "why", "remedy"),
    [
        (
            {"matched": 0, "taken": 0, "saw": ["POST /v1/messages"]},
            "fits no request; what came: POST /v1/messages",
            "`when`",
        ),
        ({"matched": 0, "taken": 0}, "nothing came", "`when`"),
        ({"matched": 0, "taken": 0, "undecided": 3}, "larger than it reads", "`when`"),
        ({"matched": 40, "taken": 0}, "fits 40 requests and took none", "raise share"),
        ({"matched": 40, "taken": 4}, "another rule had answered", "before the one that answers"),
    ],
)
def test_a_rule_that_met_nobody_refuses_the_drill_and_says_what_would_mend_it(
    tally: dict[str, Any], why: str, remedy: str
) -> None:
    run = ruled(("chat", "reset"), ("idle", "stall"), met_by="chat", tally=tally).run()
    status, checks, _ = judged(run)
    assert (status, checks["rules"].status) == ("refused", "refused")
    assert why in checks["rules"].why
    assert remedy in checks["rules"].remedy
    assert "idle" in checks["rules"].why
    assert "chat" not in checks["rules"].why


def test_a_proxy_that_was_killed_before_it_could_tell_leaves_the_count_of_its_lines() -> None:
    scene = ruled(("chat", "reset"), ("idle", "stall"), met_by="chat")
    scene.drop("fault_rule_tally")
    status, checks, _ = judged(scene.run())
    assert (status, checks["rules"].status) == ("refused", "refused")
    assert "ended before it could say" in checks["rules"].why


def test_an_attempt_that_two_rules_acted_on_is_met_once() -> None:
    once = ruled(("slow", "first-byte-delay"), ("busy", "rate-limit"))
    twice = ruled(("slow", "first-byte-delay"), ("busy", "rate-limit"))
    for row in [row for row in twice.rows if row.event == "fault_met"]:
        twice.add(
            PROXY,
            row.fields["ns"] + 1,
            "fault_met",
            **{**{k: row.fields[k] for k in ("attempt", "window", "client_bytes")}, "rule": "busy"},
        )
    a, b = once.run().windows[0], twice.run().windows[0]
    assert (a.met, a.client_bytes) == (b.met, b.client_bytes)
    assert [rule.met for rule in b.rules] == [a.met, a.met]


def test_the_fallback_is_timed_from_the_first_request_that_a_rule_met() -> None:
    late = ruled(("chat", "reset"))
    gap = 20 * 10**9
    for row in late.rows:
        if row.event == "fault_met" and row.fields["ns"] < late.inject_ns + gap:
            row.fields["ns"] = late.inject_ns + gap
    plain = ruled(("chat", "reset")).run()
    run = late.run()
    assert run.windows[0].first_met_ns is not None
    assert run.windows[0].first_met_ns >= run.windows[0].injected_ns + gap
    observed, usual = judged(run)[1]["fallback"].observed, judged(plain)[1]["fallback"].observed
    assert isinstance(observed, Exact)
    assert isinstance(usual, Exact)
    assert observed.value <= usual.value
