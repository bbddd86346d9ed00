import re
from datetime import date
from typing import Any

import pytest

from drillmaster import judge, sanity, strict
from drillmaster.errors import Problem
from drillmaster.gates.eviction import Eviction
from drillmaster.plan import Plan
from drillmaster.scaffold import blanks, fill, template

PLAN, POLICY = "eviction-plan.yaml", "eviction-policy.yaml"
NOW_NS = 1_796_025_600_000_000_000  # 2026-11-30T08:00:00Z
PLAN_ANSWERS: dict[str, object] = {
    "/service": "support-agent",
    "/seats/lead": "Ana",
    "/seats/scribe": "Ben",
    "/seats/verifier": "Chen",
    "/target/url": "http://127.0.0.1:8000/answer?q=drill-ping",
    "/traffic/time_limit_s": 30,
    "/proxy/upstream": "https://api.openai.com",
}
POLICY_ANSWERS: dict[str, object] = {
    "/source": "runbook-2026-11",
    "/owner": "payments-oncall",
    "/review_by": "2027-02-28",
    "/gates/0/max_fallback_s": 60,
    "/gates/0/max_failed_ratio": 0.01,
    "/gates/0/failed_window": "fault",
    "/gates/0/max_recovery_s": 20,
    "/gates/0/min_met": 10,
    "/gates/0/max_baseline_failed_ratio": 0.01,
    "/gates/0/max_unattributed_ratio": 0.05,
    "/gates/0/max_clock_step_s": 1.0,
}


def _plan(text: str) -> Plan:
    return strict.load_as(text.encode(), Plan, place=PLAN, fmt="yaml")


def _policy(text: str) -> Eviction:
    policy, _ = judge.load_policy(text.encode(), place=POLICY, fmt="yaml")
    gate = judge.decode_gate(policy, "eviction", place=POLICY)
    assert isinstance(gate, Eviction)
    return gate


def test_the_blanks_are_these_and_no_others() -> None:
    texts = template("eviction")
    assert set(blanks(texts[PLAN])) == set(PLAN_ANSWERS)
    assert set(blanks(texts[POLICY])) == set(POLICY_ANSWERS)


def test_every_limit_of_the_gate_is_a_blank() -> None:
    fields = Eviction.__struct_fields__
    optional = fields[-len(Eviction.__struct_defaults__) :]
    text = template("eviction")[POLICY]
    assert {f"/gates/0/{field}" for field in fields if field not in optional} <= set(blanks(text))
    assert optional and all(f"    # {field}:\n" in text for field in optional)  # to be taken into use, not filled in


@pytest.mark.parametrize("name", [PLAN, POLICY])
def test_every_blank_has_an_example(name: str) -> None:
    assert [pointer for pointer, example in blanks(template("eviction")[name]).items() if not example] == []


def test_filled_in_both_load_and_make_sense_together() -> None:
    texts = template("eviction")
    plan, gate = _plan(fill(texts[PLAN], PLAN_ANSWERS)), _policy(fill(texts[POLICY], POLICY_ANSWERS))
    numbers = sanity.Numbers(
        max_failed_ratio=gate.max_failed_ratio,
        failed_window=gate.failed_window,
        max_fallback_s=gate.max_fallback_s,
        max_recovery_s=gate.max_recovery_s,
    )
    found = sanity.check(plan, place=PLAN, wall_ns=NOW_NS, numbers=numbers)
    assert found.problems == ()
    factor = sanity.fitting_factor(plan, numbers, place=PLAN, wall_ns=NOW_NS)
    short = sanity.compress(plan, factor, numbers)
    assert sum((short.phases.baseline_s, short.phases.fault_s, short.phases.recovery_s)) < 150  # a first rehearsal
    assert (plan.phases.baseline_s, plan.phases.fault_s, plan.phases.recovery_s) == (600, 900, 300)
    assert (plan.fault.mode, plan.traffic.every_s, plan.policy) == ("reset", 5, POLICY)


@pytest.mark.parametrize("name", [PLAN, POLICY])
def test_the_examples_in_the_comments_are_values_that_load(name: str) -> None:
    text = template("eviction")[name]
    examples = blanks(text)
    values = {
        pointer: strict.load(f"v: {example}".encode(), place="x", fmt="yaml")["v"]
        for pointer, example in examples.items()
    }
    assert date.fromisoformat(str(values.get("/review_by", "2027-02-28")))
    (_plan if name == PLAN else _policy)(fill(text, values))
    assert values == (
        PLAN_ANSWERS | {"/seats/lead": "Ana Ruiz", "/seats/scribe": "Ben Okafor", "/seats/verifier": "Chen Li"}
        if name == PLAN
        else POLICY_ANSWERS
    )  # what the other tests fill in is what the template says


@pytest.mark.parametrize("pointer", [*PLAN_ANSWERS, *POLICY_ANSWERS])
def test_one_blank_left_open_is_refused_by_its_pointer(pointer: str) -> None:
    name, answers = (PLAN, PLAN_ANSWERS) if pointer in PLAN_ANSWERS else (POLICY, POLICY_ANSWERS)
    text = fill(template("eviction")[name], {p: v for p, v in answers.items() if p != pointer})
    if pointer == "/proxy/upstream":  # a plan may say that there is none; a drill of it is refused
        found = sanity.check(_plan(text), place=PLAN, wall_ns=NOW_NS)
        assert [problem.place for problem in found.problems] == [f"{PLAN}: /proxy/upstream"]
        return
    if pointer.startswith("/seats/"):  # a seat that nobody holds makes the run a rehearsal
        assert pointer.rpartition("/")[2] in sanity.unnamed_seats(_plan(text))
        return
    with pytest.raises(Problem) as raised:
        (_plan if name == PLAN else _policy)(text)
    assert pointer in raised.value.place
    assert raised.value.place.startswith(name)


def _uncommented(text: str) -> str:
    """Take the optional parts in, as the template's head says: a # with no single space behind it goes."""
    return re.sub(r"^( *)#(?=[^ \n]|  )", r"\1", text, flags=re.MULTILINE)


def test_the_optional_parts_load_too_once_their_hash_is_taken_away() -> None:
    text = _uncommented(
        fill(template("eviction")[PLAN], PLAN_ANSWERS | {"/target/url": "http://127.0.0.1:8000/answer"})
    )
    plan = _plan(text)
    assert plan.worker is not None and plan.worker.cmd == ("python3", "agent.py")
    assert plan.window is not None and plan.spend is not None and plan.target.permit is not None
    assert plan.preflight.on_call_told is not None
    assert plan.stop.failed_ratio == 0.9
    assert plan.owners == {"default": "Ana Ruiz", "fallback": "Dana Weiss"}
    assert len(plan.target.payloads) == 2 and plan.target.body is not None
    assert plan.target.expect.not_matching is not None


@pytest.mark.parametrize(
    "value", ["", "a: b", "x # y", 'quo"te', "new\nline", "on", "null", "1", "- x", "{a}", "@a", "日本", "'", "\\"]
)
def test_an_answer_is_text_whatever_it_looks_like(value: str) -> None:
    text = fill(template("eviction")[PLAN], PLAN_ANSWERS | {"/service": value})
    assert _plan(text).service == value


def test_filling_keeps_every_comment_and_every_other_line() -> None:
    before = template("eviction")[PLAN].splitlines()
    after = fill("\n".join(before), PLAN_ANSWERS).splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == len(PLAN_ANSWERS)
    assert all(b.startswith(a + " ") for a, b in changed)


def test_what_is_no_blank_cannot_be_filled() -> None:
    for pointer in ("/kind", "/phases/fault_s", "/nothing", "/seats"):
        with pytest.raises(KeyError):
            fill(template("eviction")[PLAN], {pointer: "x"})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a:\n", {"/a": ""}),
        ("a: 1\n", {}),
        ("a:\n  b: 1\n", {}),  # a section is no blank
        ("a:\n  # Text. Example: x y\n  b:\n", {"/a/b": "x y"}),
        ("a:\n  - b:\n    c: 1\n  - b:\n", {"/a/0/b": "", "/a/1/b": ""}),
        ("a:\n# b:\n", {"/a": ""}),  # what is behind a # is not there
        ("a:\n\n  b:\nc:\n", {"/a/b": "", "/c": ""}),
    ],
)
def test_blanks_are_found_by_their_place(text: str, wanted: dict[str, Any]) -> None:
    assert blanks(text) == wanted
