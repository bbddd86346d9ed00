"""A fault that met nobody says why, and nothing of the window is held against the agent."""

from typing import Any

import pytest

from drillmaster.verdict import Absent
from tests.gates.test_eviction_rules import PROXY, ruled
from tests.scene import BROKEN, FALLBACK, PRIMARY, Answer, Scene, judged


def spared(mode: str, *, faulted: Answer = PRIMARY, **fields: Any) -> Scene:
    """An agent whose attempts the fault let pass, each as `fields` say: their users had the primary's answer, or `faulted`."""
    scene = Scene(lambda n, s, on: faulted if on else PRIMARY, mode=mode).drop("fault_met")
    for row in scene.rows:
        if row.event == "attempt":
            row.fields.update(fields)
            if row.fields["window"] == "w1":
                over = {"window": None, "status": 200, "end": "clean", "terminal": True, "upstream": True}
                row.fields.update(over, end_ns=row.fields["ns"] - 1)
    return scene


@pytest.mark.parametrize(
    ("mode", "fields", "why", "remedy"),
    [
        ("clean-end", {"stream": False}, "this agent asks for whole ones: 60 attempts came", "or let the agent stream"),
        ("clean-end", {"stream": None}, "this agent asks for whole ones: 60 attempts came", "mode: cut-body"),
        ("malformed-json", {"stream": True}, "this agent asks for streams: 60 attempts came", "mode: clean-end"),
        ("mcp-hang", {}, "strikes calls of MCP alone: 60 attempts came", "its MCP server through the proxy"),
        ("wrong-model", {"dialect": "plain"}, "a model's API alone: 60 attempts came", "proxy.dialect"),
        (
            "tool-unknown",
            {},
            "let every one pass: it strikes only requests that offer tools",
            "fault show tool-unknown",
        ),
        ("clean-end", {"stream": True}, "let every one pass: it strikes only streamed", "fault show clean-end"),
    ],
)
def test_a_fault_that_strikes_nothing_of_what_came_says_so(
    mode: str, fields: dict[str, Any], why: str, remedy: str
) -> None:
    status, checks, findings = judged(spared(mode, **fields))
    assert (status, checks["proof"].status) == ("refused", "refused")
    assert why in checks["proof"].why
    assert remedy in checks["proof"].remedy
    assert "base URL" not in checks["proof"].remedy
    assert findings == {}
    assert [c.id for c in checks.values() if c.status == "fail"] == []
    assert (checks["fallback"].status, checks["fallback"].observed) == ("refused", Absent("the fault met nobody"))


def test_what_failed_while_a_fault_met_nobody_is_not_the_agents() -> None:
    raised = Answer(15, status=502, answer=None, marks=(("unhandled_exception", {"kind": "KeyError"}),))
    status, checks, findings = judged(spared("clean-end", faulted=raised), max_attempts_per_request=1)
    assert status == "refused"
    assert findings == {}
    for name in ("fallback", "failed", "exceptions"):
        assert checks[name].status == "refused", name
        assert "the fault met nobody" in checks[name].why
        assert "proof" in checks[name].remedy
    assert "60 5xx" in checks["failed"].why


def test_an_agent_that_never_came_is_sent_to_the_proxy_and_one_that_stopped_coming_is_not() -> None:
    never = judged(Scene().drop("attempt").drop("fault_met"))[1]["proof"]
    assert "neither before it nor while it was on" in never.why
    assert "base URL at the proxy" in never.remedy
    stopped = judged(Scene(lambda n, s, on: Answer(25, attempts=0) if on else PRIMARY, mode="reset"))[1]["proof"]
    assert "19 had come before" in stopped.why
    assert "a breaker that was open" in stopped.remedy


def test_too_few_that_met_it_ask_for_a_longer_window() -> None:
    check = judged(Scene(fault_s=30), min_met=40)[1]["proof"]
    assert check.status == "refused"
    assert check.remedy.startswith("lengthen phases.fault_s")


def test_rules_of_which_none_met_anybody_lead_to_their_own_line_and_blame_nobody() -> None:
    scene = ruled(("chat", "reset"), tally={"matched": 0, "taken": 0, "saw": ["POST /v1/chat/completions"]})
    status, checks, findings = judged(scene.drop("fault_met"))
    assert status == "refused"
    assert checks["proof"].why == "none of its 1 rules met anybody"
    assert "`rules`" in checks["proof"].remedy
    assert "`when`" in checks["rules"].remedy
    assert findings == {}
    assert not any(c.status == "fail" for c in checks.values())


# -- a fallback that asks the endpoint that is gone


def fell_there(*, model: str | None = "small", marked: bool = False, first: str | None = None) -> Scene:
    """Each user of the fault has two attempts, both reset: the primary's model, then the fallback's at the same address."""
    marks = FALLBACK.marks if marked else ()
    scene = Scene(lambda n, s, on: Answer(15, status=502, answer=None, attempts=2, marks=marks) if on else PRIMARY)
    for row in scene.rows:
        if row.event == "attempt" and row.fields["window"] == "w1":
            row.fields["model"] = model if row.fields["id"].endswith(".1") else first
            row.fields["retry_count"] = None
            row.fields["end_ns"] = row.fields["start_ns"]
    return scene


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("first", [None, "m"])
def test_a_fallback_to_another_model_at_the_same_endpoint_is_no_dead_code(marked: bool, first: str | None) -> None:
    status, _, findings = judged(fell_there(marked=marked, first=first))
    assert status == "fail"
    said = findings["fallback-same-endpoint"]
    assert "60 of 60 requests that failed had asked it for another model (small)" in said.cause
    assert "another base URL" in said.next
    assert said.cites
    assert not {"no-fallback", "phantom-fallback", "no-backoff"} & findings.keys()


def test_where_neither_was_read_the_workers_marks_say_that_the_fallback_ran() -> None:
    findings = judged(fell_there(model=None, marked=True))[2]
    assert "by the worker's marks" in findings["fallback-same-endpoint"].cause
    assert not {"no-fallback", "phantom-fallback", "no-backoff"} & findings.keys()


def test_where_nobody_can_tell_both_are_named() -> None:
    findings = judged(fell_there(model=None))[2]
    assert "fallback-same-endpoint" not in findings
    assert "that was a retry, or a fallback which goes where the primary goes" in findings["no-fallback"].cause
    assert "dead code" not in findings["no-fallback"].cause


def test_a_plain_retry_of_the_same_model_leaves_the_dead_fallback_dead() -> None:
    findings = judged(fell_there(model="m", first="m"))[2]
    assert "dead code" in findings["no-fallback"].cause
    assert "fallback-same-endpoint" not in findings
    assert "dead code" in judged(Scene(lambda n, s, on: BROKEN if on else PRIMARY))[2]["no-fallback"].cause


# -- what was injected, on paper


def test_a_pass_by_rules_says_for_whom_and_a_pass_with_parameters_with_which() -> None:
    scene = ruled(("chat", "reset"))
    for row in scene.rows:
        if row.event == "fault_rule":
            row.fields.update(when={"model": "large*"}, first=40)
        elif row.event == "fault_injected":
            row.fields["fault"] = "reset"
    status, checks, findings = judged(scene)
    assert status == "pass"
    assert checks["rules"].title == "every rule met somebody: 1 of 1 (chat: reset for model large*, the first 40)"
    assert "under reset for model large*, the first 40 alone" in findings["transport-only"].cause
    plain = Scene()
    for row in plain.rows:
        if row.event == "fault_injected":
            row.fields.update(fault="rate-limit", params={"retry_after_s": 2})
    _, checks, findings = judged(plain)
    assert checks["anchor"].title.endswith("fault rate-limit (retry_after_s 2)")
    assert findings["transport-only"].next == (
        "run reset, 503 and hang too; then spent quota (quota-spent) and a key that expired (key-expired)"
    )


def test_a_rule_of_another_version_is_still_named() -> None:
    scene = ruled(("chat", "reset"))
    scene.add(PROXY, scene.inject_ns - 1, "fault_rule", window="w1", rule="chat", fault="reset", when={"moon": "full"})
    check = judged(scene)[1]["rules"]
    assert check.status == "pass"
    assert "(chat: reset)" in check.title


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("reset", "run 503 and hang too"),
        ("503", "run reset and hang too"),
        ("reset-stream", "run reset, 503 and hang too"),
    ],
)
def test_what_is_to_be_run_next_leaves_out_what_was_run(mode: str, said: str) -> None:
    finding = judged(Scene(mode=mode))[2]["transport-only"]
    assert finding.next.startswith(f"{said}; then a 429 with Retry-After (rate-limit), ")
