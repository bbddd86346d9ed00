"""An injection with rules: each has to have met somebody, and who was not met is not blamed on the agent."""

from typing import Any

import pytest

from drillmaster.verdict import AtLeast, Exact
from tests.scene import FALLBACK, PRIMARY, Answer, S, Scene, judged

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
    run = ruled(("chat", "reset"), ("idle", "503"), met_by="chat", tally=tally).run()
    status, checks, _ = judged(run)
    assert (status, checks["rules"].status) == ("refused", "refused")
    assert why in checks["rules"].why
    assert remedy in checks["rules"].remedy
    assert "idle" in checks["rules"].why
    assert "chat" not in checks["rules"].why


def test_a_rule_for_streams_that_took_whole_answers_is_told_so_and_not_that_another_rule_stood_before_it() -> None:
    run = ruled(("r1", "503"), ("r2", "stall"), met_by="r1", tally={"matched": 24, "taken": 24}).run()
    check = judged(run)[1]["rules"]
    assert check.status == "refused"
    assert "r2 (stall) took 24 requests and acted on none: stall strikes streamed answers alone" in check.why
    assert "30 attempts came through the proxy while it was on, none for a stream" in check.why
    assert "another rule" not in check.why
    assert "or let the agent stream" in check.remedy


def test_a_rule_that_took_more_than_others_can_have_answered_let_some_pass() -> None:
    scene = ruled(("r1", "503"), ("r2", "mcp-error"), met_by="r1", tally={"matched": 50, "taken": 50})
    for row in scene.rows:
        if row.event == "attempt":
            row.fields["dialect"] = "mcp"
    check = judged(scene)[1]["rules"]
    assert "r2 (mcp-error) took 50 requests and acted on none: 30 of them another rule may have answered" in check.why
    assert "it strikes only calls of MCP" in check.why
    assert "fault show mcp-error" in check.remedy


def test_what_a_rule_could_not_decide_is_told_though_it_met_others() -> None:
    checks = judged(ruled(("chat", "reset"), tally={"undecided": 7}).run())[1]
    assert checks["rules"].status == "pass"
    assert checks["rules"].why.endswith(", 7 undecided")


def test_of_many_rules_the_first_are_named_and_the_others_counted() -> None:
    names = [f"{'rule-with-a-long-name':-<38}{n:02}" for n in range(32)]
    for met_by in ("", "nobody"):
        scene = ruled(*((name, "first-byte-delay") for name in names), met_by=met_by)
        rows = [row for row in scene.rows if row.event == "fault_met"]
        for name in names if not met_by else ():
            fields = {key: rows[0].fields[key] for key in ("attempt", "window", "client_bytes")}
            scene.add(PROXY, rows[0].fields["ns"], "fault_met", rule=name, **fields)
        check = judged(scene.run())[1]["rules"]
        assert check.status == ("refused" if met_by else "pass")
        assert len(check.why) < 1_200
        assert names[0] in check.why
        assert check.why.endswith("24 more")


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
    assert observed.value == pytest.approx(usual.value, abs=0.001)


def met_only_by(scene: Scene, takes: Any, *, to: str = "w1") -> Scene:
    """Of the attempts in the window, the fault met those whose number `takes`; the others are the primary's own, and good."""
    scene.add(PROXY, scene.inject_ns - 1, "fault_rule", window="w1", rule="some", fault="reset", when={})
    for row in list(scene.rows):
        number = int(str(row.fields.get("attempt") or row.fields.get("id") or "a0.")[1:].split(".")[0])
        if row.event == "fault_met":
            row.fields["rule"] = "some"
            if not takes(number):
                scene.rows.remove(row)
        elif row.event == "attempt" and row.fields["window"] == "w1" and not takes(number):
            end_ns = row.fields["ns"] - 1
            row.fields.update(window=None, status=200, end="clean", terminal=True, upstream=True, end_ns=end_ns)
    return scene


def test_a_fallback_from_before_the_first_request_that_was_met_is_none() -> None:
    """One user in ten is sent elsewhere anyway; from the fortieth second on the rule takes all others, and none is rescued."""

    def behave(n: int, since_s: float, on: bool) -> Answer:
        if n % 10 == 0:
            return Answer(25, attempts=0)
        return Answer(25, status=502, answer=None) if on and since_s > 40 else PRIMARY

    scene = met_only_by(Scene(behave, marks=False), lambda n: n > 60)
    status, checks, _ = judged(scene, max_failed_ratio=0.5)
    assert (status, checks["fallback"].status) == ("fail", "fail")
    assert isinstance(checks["fallback"].observed, AtLeast)


def test_users_who_go_elsewhere_anyway_do_not_prove_a_rule_that_met_the_agents_own_health_checks() -> None:
    scene = met_only_by(Scene(lambda n, s, on: Answer(25, attempts=n % 3 and 1), marks=False), lambda n: False)
    for at in range(5):
        ns = scene.inject_ns + at * 10 * S + S // 2
        scene.add(PROXY, ns, "fault_met", attempt=f"h{at}", window="w1", client_bytes=50, rule="some")
    run = scene.run()
    assert (run.windows[0].met, run.windows[0].rules[0].met) == (5, 5)
    status, checks, _ = judged(run)
    assert (status, checks["proof"].status) == ("refused", "refused")
    assert checks["rules"].status == "pass"


def test_an_agent_whose_breaker_a_health_check_opened_proves_it_by_users_who_went_elsewhere_only_then() -> None:
    scene = met_only_by(Scene(lambda n, s, on: Answer(25, attempts=0 if on else 1), marks=False), lambda n: False)
    scene.add(PROXY, scene.inject_ns + 1, "fault_met", attempt="h1", window="w1", client_bytes=50, rule="some")
    status, checks, _ = judged(scene)
    assert (status, checks["proof"].status, checks["fallback"].status) == ("pass", "pass", "pass")


def test_a_rule_that_only_slows_does_not_start_the_clock_of_one_that_takes_away() -> None:
    """Everybody is slowed from the start and served; from the fortieth second on they are cut, and rescued within a second."""
    scene = Scene(lambda n, s, on: FALLBACK if on and s > 40 else PRIMARY, marks=False)
    scene.add(PROXY, scene.inject_ns - 1, "fault_rule", window="w1", rule="slow", fault="throttle", when={})
    for row in scene.rows:
        if row.event == "fault_met":
            row.fields["rule"] = "slow"
        if (
            row.event == "attempt"
            and row.fields["window"] == "w1"
            and row.fields["ns"] <= scene.inject_ns + 40 * S + S // 2
        ):
            row.fields.update(status=200, end="clean", terminal=True, upstream=True, intact=True)
    status, checks, _ = judged(scene)
    assert (status, checks["fallback"].status) == ("pass", "pass")
    assert isinstance(checks["fallback"].observed, Exact)
    assert checks["fallback"].observed.value < 1
