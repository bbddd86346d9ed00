"""The files that `init interview` writes: their blanks, what they load as when these are filled in, and the job for CI."""

import re
from datetime import date
from typing import Any

import click
import pytest

from drillmaster import judge, sanity, strict
from drillmaster.cli import Verbs
from drillmaster.errors import Problem
from drillmaster.gates.interview import InterviewGate
from drillmaster.intake.blanks import left_open
from drillmaster.ladder import InterviewPlan, steps
from drillmaster.ladder.checking import Place, check, support
from drillmaster.scaffold import blanks, fill, template
from tests.scaffold.test_scaffold import NOW_NS, _uncommented

PLAN, POLICY, CI = "interview-plan.yaml", "interview-policy.yaml", "interview-ci.yaml"
PLAN_ANSWERS: dict[str, object] = {
    "/job": "one-sentence diff summary",
    "/seats/driver": "Ana Ruiz",
    "/seats/reader": "Ben Okafor",
    "/seats/recorder": "Chen Li",
    "/measured_from": "CI runner, Frankfurt",
    "/target/url": "http://127.0.0.1:9000/v1/chat/completions",
    "/target/dialect": "openai_chat",
    "/target/model": "standin-large",
}
LEVELS = "/gates/0/levels"
POLICY_ANSWERS: dict[str, object] = {
    "/source": "free-path-thresholds",
    "/owner": "Bea of the platform team",
    "/review_by": "2027-02-28",
    "/gates/0/decide": "observed",
    "/gates/0/block_s": 5,
    "/gates/0/cold_max_s": 90,
    f"{LEVELS}/warm_c1/p95_s": 20,
    f"{LEVELS}/warm_c1/error_rate": 0.0,
    f"{LEVELS}/warm_c4/p95_s": 35,
    f"{LEVELS}/warm_c4/error_rate": 0.05,
    f"{LEVELS}/warm_c8/p95_s": 60,
    f"{LEVELS}/warm_c8/error_rate": 0.10,
}


def _plan(text: str) -> InterviewPlan:
    return strict.load_as(text.encode(), InterviewPlan, place=PLAN, fmt="yaml")


def _policy(text: str) -> InterviewGate:
    policy, _ = judge.load_policy(text.encode(), place=POLICY, fmt="yaml")
    gate = judge.decode_gate(policy, "interview", place=POLICY)
    assert isinstance(gate, InterviewGate)
    return gate


def test_the_blanks_are_these_and_no_limit_is_filled_in() -> None:
    texts = template("interview")
    assert list(texts) == [PLAN, POLICY, CI]
    assert set(blanks(texts[PLAN])) == set(PLAN_ANSWERS)
    assert set(blanks(texts[POLICY])) == set(POLICY_ANSWERS)
    assert set(blanks(texts[CI])) == {"/env/JOB"}


@pytest.mark.parametrize(("name", "answers"), [(PLAN, PLAN_ANSWERS), (POLICY, POLICY_ANSWERS)])
def test_the_examples_in_the_comments_are_values_that_load(name: str, answers: dict[str, object]) -> None:
    text = template("interview")[name]
    values = {
        pointer: strict.load(f"v: {example}".encode(), place="x", fmt="yaml")["v"]
        for pointer, example in blanks(text).items()
    }
    assert date.fromisoformat(str(values.get("/review_by", "2027-02-28")))
    (_plan if name == PLAN else _policy)(fill(text, values))
    assert values == answers


def test_filled_in_the_plan_can_work_and_has_a_threshold_for_each_level() -> None:
    texts = template("interview")
    plan, gate = _plan(fill(texts[PLAN], PLAN_ANSWERS)), _policy(fill(texts[POLICY], POLICY_ANSWERS))
    assert check(plan, place=Place(PLAN), wall_ns=NOW_NS) == []
    assert [step.label for step in steps(plan) if step.kind == "closed"] == list(gate.levels)
    assert plan.timeout_s > max(gate.cold_max_s, *(limits.p95_s for limits in gate.levels.values()))
    assert plan.warm >= 59 and plan.warm >= 10 * max(plan.levels)


def test_the_optional_parts_load_too_once_their_hash_is_taken_away() -> None:
    texts = template("interview")
    plan = _plan(_uncommented(fill(texts[PLAN], PLAN_ANSWERS)))
    assert plan.target.permit is not None and plan.target.headers == {"Authorization": "Bearer ${MODEL_KEY}"}
    assert plan.open and plan.drain is not None and plan.spend is not None and plan.target.stream
    gate = _policy(_uncommented(fill(texts[POLICY], POLICY_ANSWERS)))
    assert not isinstance(gate.decision, type(None)) and gate.decision.interactive_p95_s == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["plan", "policy"])
def test_what_is_left_open_is_named_at_once_but_for_what_may_stay_so(kind: str) -> None:
    text = template("interview")[f"interview-{kind}.yaml"]
    loaded: dict[str, Any] = strict.load(text.encode(), place="x", fmt="yaml")
    wanted = set(PLAN_ANSWERS if kind == "plan" else POLICY_ANSWERS)
    wanted -= {"/seats/driver", "/seats/reader", "/seats/recorder", "/measured_from", "/target/model"}
    assert set(left_open(loaded, "interview", kind)) == wanted


def test_a_plan_whose_open_blanks_may_stay_so_can_work() -> None:
    some = {p: v for p, v in PLAN_ANSWERS.items() if p in ("/job", "/target/url")} | {"/target/dialect": "plain"}
    plan = _plan(fill(template("interview")[PLAN], some))
    assert check(plan, place=Place(PLAN), wall_ns=NOW_NS) == []
    assert sanity.empty_seats(plan.seats.names()) == ("driver", "reader", "recorder")


@pytest.mark.parametrize("decide", ["observed", "bound"])
def test_whatever_decides_the_filled_in_policy_says_how_long_a_stall_is_at_most(decide: str) -> None:
    gate = _policy(fill(template("interview")[POLICY], POLICY_ANSWERS | {"/gates/0/decide": decide}))
    assert (gate.decide, gate.block_s) == (decide, 5)


def test_a_policy_that_decides_on_the_bound_names_the_line_it_lacks() -> None:
    text = fill(template("interview")[POLICY], POLICY_ANSWERS | {"/gates/0/decide": "bound"})
    with pytest.raises(Problem, match="wanted a line `block_s: 5` beside `decide: bound`"):
        _policy(text.replace("    block_s: 5\n", ""))


def test_the_plan_says_how_long_a_level_has_to_last_for_a_bound() -> None:
    texts = template("interview")
    gate = _policy(fill(texts[POLICY], POLICY_ANSWERS | {"/gates/0/decide": "bound"}))
    told = texts[PLAN].replace("#seconds: 295", "seconds: 295").replace("warm: 80\n", "warm: 100000\n")
    said = support(_plan(fill(told, PLAN_ANSWERS)), gate.wants())
    assert "what is signed for warm_c8 takes 59 calls over 295 s; the plan has 100000 calls in 295 s at most" in said
    unsaid = " ".join(support(_plan(fill(texts[PLAN], PLAN_ANSWERS)), gate.wants()))
    assert "--seconds 295 --warm 100000, or seconds: 295, warm: 100000 in the plan" in unsaid


def test_a_limit_left_open_is_refused_by_its_pointer() -> None:
    text = fill(template("interview")[POLICY], {p: v for p, v in POLICY_ANSWERS.items() if "warm_c4/p95" not in p})
    with pytest.raises(Problem) as raised:
        _policy(text)
    assert "warm_c4/p95_s" in raised.value.place


def _runs(text: str) -> list[str]:
    jobs = strict.load(text.encode(), place=CI, fmt="yaml")["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_the_job_for_ci_types_commands_that_are_there() -> None:
    text = fill(template("interview")[CI], {"/env/JOB": 'a "quoted" job'})
    commented = re.findall(r"^#   - run: (.+)$", text, re.MULTILINE)
    typed = [line for line in [*_runs(text), *commented] if "/drillmaster " in line]
    assert len(typed) == 6
    for line in typed:
        verb: click.Command = Verbs(package="drillmaster.cli")
        context = click.Context(verb, info_name="drillmaster")
        words = re.findall(r'"[^"]*"|\S+', line.partition("/drillmaster ")[2])
        while isinstance(verb, click.Group):
            found = verb.get_command(context, words.pop(0))
            assert found is not None, line
            verb = found
        known = {name for param in verb.params if isinstance(param, click.Option) for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_in_ci_one_job_calls_and_another_judges() -> None:
    jobs = strict.load(template("interview")[CI].encode(), place=CI, fmt="yaml")["jobs"]
    first, second = ([step.get("run", "") for step in job["steps"]] for job in jobs.values())
    assert any("drillmaster interview" in line for line in first) and not any("gate" in line for line in first)
    assert any("drillmaster gate interview" in line for line in second)
    assert jobs["judge"]["if"] == "always()"
