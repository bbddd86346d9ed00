"""What a plan of an interview must make sense of, row by row, and what is said of its numbers before any load."""

from typing import Any

import msgspec
import pytest

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.ladder import InterviewPlan, steps
from drillmaster.ladder.checking import Place, check, compressed, longest_s, support

NOW_NS = 1_796_000_000_000_000_000  # 2026-11-30
SEATS = {"driver": "Ada", "reader": "Bea", "recorder": "Cem"}
PERMIT = {
    "host": "api.example.com",
    "owner": "Dan",
    "until": "2199-01-01",
    "max_per_s": 10,
    "max_requests": 100,
    "max_in_flight": 8,
}


def plan(target: dict[str, Any] | None = None, **more: Any) -> InterviewPlan:
    said = {
        "kind": "plan",
        "drill": "interview",
        "job": "one-sentence diff summary",
        "seats": SEATS,
        **more,
        "target": {"url": "http://127.0.0.1:8000/v1/chat", **(target or {})},
    }
    return msgspec.convert(said, InterviewPlan)


def found(one: InterviewPlan, **more: Any) -> list[Problem]:
    return check(one, place=Place("plan.yaml"), wall_ns=NOW_NS, **more)


def test_the_articles_own_numbers_are_a_plan() -> None:
    assert found(plan()) == []
    assert [step.label for step in steps(plan())] == [
        "cold",
        "warmup_c1",
        "warm_c1",
        "warmup_c4",
        "warm_c4",
        "warmup_c8",
        "warm_c8",
    ]
    assert longest_s(plan()) == 120 + 60 * (1 + 11 + 4 + 3)


@pytest.mark.parametrize(
    ("target", "more", "pointer", "said"),
    [
        ({}, {"levels": []}, "/levels", "none"),
        ({}, {"levels": [1, 0]}, "/levels/1", "0 at place 2"),
        ({}, {"levels": [1, -4]}, "/levels/1", "-4 at place 2"),
        ({}, {"levels": [4, 1, 4]}, "/levels/2", "4 twice"),
        ({}, {"levels": [1, 10_001]}, "/levels/1", "10001"),
        ({}, {"warm": 0}, "/warm", "0"),
        ({}, {"levels": [64]}, "/warm", "10 calls for a level of 64 callers"),
        ({}, {"timeout_s": 0}, "/timeout_s", "0"),
        ({}, {"timeout_s": float("nan")}, "/timeout_s", "nan"),
        ({}, {"timeout_s": float("inf")}, "/timeout_s", "inf"),
        ({}, {"seconds": 0}, "/seconds", "0"),
        ({}, {"seconds": 40_000}, "/seconds", "40000 s for each of 3 levels"),
        ({}, {"idle_s": -1}, "/idle_s", "-1"),
        ({}, {"idle_s": float("nan")}, "/idle_s", "nan"),
        ({}, {"open": [{"rate_per_s": 0, "seconds": 5}]}, "/open/0/rate_per_s", "0"),
        ({}, {"open": [{"rate_per_s": 5, "seconds": 5}, {"rate_per_s": 5, "seconds": 9}]}, "/open", "open_r5 twice"),
        ({}, {"open": [{"rate_per_s": 1, "seconds": 90_000}]}, "/open", "90000 s"),
        ({}, {"drain": {"calls": 3, "callers": 4}}, "/drain", "3 calls for 4 callers"),
        ({}, {"spend": {"max_requests": 43}}, "/spend/max_requests", "44 calls planned"),
        ({}, {"job": "  "}, "/job", "'  '"),
        ({}, {"seats": {**SEATS, "reader": "ada"}}, "/seats/reader", "who is the Driver already"),
        ({"url": "htp://x"}, {}, "/target/url", "htp"),
        ({"url": "http://u:p@127.0.0.1/x"}, {}, "/target/url", "a user or password"),
        ({"dialect": "openai"}, {}, "/target/dialect", "openai"),
        ({"dialect": "openai_chat"}, {}, "/target/model", "no model"),
        ({"stream": True}, {}, "/target/stream", "a stream of plain JSON"),
        ({"headers": {"Authorization": "Bearer x"}}, {}, "/target/headers/Authorization", "a credential in the plan"),
        ({"headers": {"Host": "x"}}, {}, "/target/headers", "'Host'"),
        ({"prompt": " "}, {}, "/target/prompt", "an empty prompt"),
        ({"form": {"q": "x"}, "query": {"q": "x"}}, {}, "/target/form", "a form and a query"),
        ({"form": {"q": "x"}, "method": "GET"}, {}, "/target/form", "a form for a GET"),
        ({"query": {"q": "x"}}, {}, "/target/query", "a query for a POST"),
        ({"form": {}}, {}, "/target/form", "no field"),
        ({"form": {" ": "x"}}, {}, "/target/form", "a field without a name"),
        ({"payloads": "x.jsonl", "method": "GET"}, {}, "/target/payloads", "payloads for a GET"),
        ({"payloads": "x.jsonl", "prompt": "Sum up {text}"}, {}, "/target/prompt", "a prompt beside payloads"),
        (
            {"payloads": "x.csv", "prompt": "Sum up {text}", "form": {"q": "{text}"}},
            {},
            "/target/prompt",
            "a prompt beside payloads",
        ),
        ({}, {"think": {"session_s": -1}}, "/think/session_s", "-1"),
        (
            {},
            {"open": [{"rate_per_s": 500, "seconds": 9}], "timeout_s": 60},
            "/open/0/max_in_flight",
            "30,000 at once where none is answered",
        ),
        ({}, {"think": {"turn_s": float("nan")}}, "/think/turn_s", "nan"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 1, "max_wait_s": 9}}, "/retry/max_attempts", "1"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 101, "max_wait_s": 9}}, "/retry/max_attempts", "101"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 3, "max_wait_s": 0}}, "/retry/max_wait_s", "0"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 3, "max_wait_s": 1e9}}, "/retry/max_wait_s", "1e+09"),
        (
            {},
            {"retry": {"policy": "honour", "max_attempts": 3, "max_wait_s": 9}, "spend": {"max_requests": 131}},
            "/spend/max_requests",
            "each sent up to 3 times",
        ),
        ({"url": "https://api.example.com/v1"}, {}, "/target/url", "not loopback"),
        (
            {"url": "http://api.example.com/v1", "headers": {"Authorization": "Bearer ${K}"}, "permit": PERMIT},
            {},
            "/target/url",
            "http to another host, with a key",
        ),
    ],
)
def test_what_cannot_work_is_named_where_it_stands(
    target: dict[str, Any], more: dict[str, Any], pointer: str, said: str
) -> None:
    problems = found(plan(target, **more))
    assert [problem.place for problem in problems] == [f"plan.yaml: {pointer}"]
    assert said in problems[0].found


@pytest.mark.parametrize(
    ("permit", "more", "place"),
    [
        ({"host": "other.example.com"}, {}, "/target/permit"),
        ({"owner": " "}, {}, "/target/permit"),
        ({"until": "2026-11-29"}, {}, "/target/permit/until"),
        ({"max_requests": 43}, {}, "/target/permit/max_requests"),
        ({"max_in_flight": 7}, {}, "/target/permit/max_in_flight"),
        ({}, {"open": [{"rate_per_s": 11, "seconds": 1, "max_in_flight": 4}]}, "/target/permit/max_per_s"),
        ({}, {"open": [{"rate_per_s": 5, "seconds": 1}]}, "/target/permit/max_in_flight"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 3, "max_wait_s": 9}}, "/target/permit/max_requests"),
    ],
)
def test_load_on_another_host_stays_within_what_its_owner_allowed(
    permit: dict[str, Any], more: dict[str, Any], place: str
) -> None:
    target = {"url": "https://api.example.com/v1", "permit": {**PERMIT, **permit}}
    problems = found(plan(target, **more), permit_host="api.example.com")
    assert [problem.place for problem in problems] == [f"plan.yaml: {place}"]


def test_permission_is_given_twice() -> None:
    one = plan({"url": "https://api.example.com/v1", "permit": PERMIT})
    assert [problem.place for problem in found(one)] == ["--permit-host"]
    assert found(one, permit_host="API.example.com") == []


def test_what_ten_calls_can_show_is_said_before_any_load() -> None:
    text = " ".join(support(plan()))
    assert "p95 takes 59, p99 takes 299" in text
    assert "25.9 %" in text
    assert "at most 21 min" in text
    text = " ".join(support(plan(warm=59, levels=[1])))
    assert "59 calls a level bound p95 from above" in text
    assert "while it empties" not in text


def test_how_long_a_level_has_to_last_is_said_before_any_load() -> None:
    assert "a bound of p95 takes 59 blocks of time" in " ".join(support(plan()))
    assert "of 5 s that is --seconds 295" in " ".join(support(plan()))
    text = " ".join(support(plan(seconds=300, warm=5_000)))
    assert "each lasts 300 s, or 5000 calls if those are over before" in text
    assert "25.9 %" not in text


def test_a_plan_is_held_against_what_the_signed_thresholds_take() -> None:
    wanted = {"warm_c1": (59, 295.0), "warm_c4": (299, 1_495.0), "open_r5": (59, 295.0)}
    one = plan(levels=[1, 4], warm=100, open=[{"rate_per_s": 5, "seconds": 60}])
    said = [line for line in support(one, wanted) if line.startswith("what is signed")]
    assert said == [
        "what is signed for warm_c1 takes 59 calls over 295 s, and the plan has 100 calls, however long they take, of which no "
        "pass can come: --seconds 295 --warm 100000, or seconds: 295, warm: 100000 in the plan",
        "what is signed for warm_c4 takes 299 calls over 1495 s, and the plan has 100 calls, however long they take, of which no "
        "pass can come: --seconds 1495 --warm 100000, or seconds: 1495, warm: 100000 in the plan",
        "what is signed for open_r5 takes 59 calls over 295 s, and the plan has 300 calls, of which no pass can come: "
        "a longer --open",
    ]
    long = plan(levels=[1], warm=5_000, seconds=300)
    assert (
        "what is signed for warm_c1 takes 59 calls over 295 s; the plan has 5000 calls in 300 s at most, which last that long "
        "where a call takes 0.059 s; where it takes less, give warm 100000" in support(long, wanted)
    )
    most = plan(levels=[1], warm=100_000, seconds=300)
    assert (
        "what is signed for warm_c1 takes 59 calls over 295 s; the plan has 100000 calls in 300 s at most"
        in support(most, wanted)
    )
    census = plan(levels=[1], warm=20)
    [line] = [one for one in support(census, {"warm_c1": (59, 0.0)}) if one.startswith("what is signed")]
    assert line.endswith("and the plan has 20 calls, of which no pass can come: --warm 59, or warm: 59 in the plan")
    assert not any("what is signed" in line or "blocks" in line for line in support(one, {}))


def test_a_level_that_lasts_so_long_takes_no_longer() -> None:
    assert longest_s(plan(levels=[1], warm=10_000, seconds=300, idle_s=0)) == 60 + 60 + 300 + 60
    assert longest_s(plan(levels=[1], warm=2, seconds=300, idle_s=0)) == 60 + 60 + 120


def test_compression_leaves_calls_and_time_limits() -> None:
    short = compressed(plan(open=[{"rate_per_s": 5, "seconds": 60}]), 10)
    assert (short.idle_s, short.open[0].seconds, short.open[0].rate_per_s, short.warm, short.timeout_s) == (
        12,
        6,
        5,
        10,
        60,
    )
    calmer = compressed(plan(think={"turn_s": 5, "session_s": 30}), 10)
    assert (calmer.think.turn_s, calmer.think.session_s) == (0.5, 3)


def test_pauses_and_waits_are_in_how_long_it_takes_and_said_before_any_load() -> None:
    calm = plan(levels=[1], warm=11, idle_s=0, timeout_s=2, think={"session_s": 3})
    assert longest_s(calm) == 2 * (1 + 1 + 11) + 10 * 3
    assert (
        longest_s(plan(levels=[1], warm=11, idle_s=0, timeout_s=2, think={"session_s": 3, "law": "exponential"})) == 326
    )
    patient = plan(
        levels=[1], warm=10, idle_s=0, timeout_s=2, retry={"policy": "honour", "max_attempts": 3, "max_wait_s": 9}
    )
    assert longest_s(patient) == 12 * (3 * 2 + 9)
    assert "pauses 0 s between turns of a session and 3 s between sessions" in " ".join(support(calm))
    assert "sent again, up to 3 times" in " ".join(support(patient))
    assert [step.think is not None for step in steps(calm)] == [False, False, True]


WS = {"url": "ws://127.0.0.1:8000/talk"}


@pytest.mark.parametrize(
    ("target", "more", "pointer"),
    [
        ({"stream": True}, {}, "/target/stream"),
        ({"dialect": "openai_chat"}, {}, "/target/dialect"),
        ({"dialect": "openai_chat", "stream": True}, {}, "/target/dialect"),
        ({"dialect": "nonsense"}, {}, "/target/dialect"),
        ({"method": "GET"}, {}, "/target/method"),
        ({"method": "GET", "query": {"q": "x"}}, {}, "/target/query"),
        ({"form": {"q": "x"}}, {}, "/target/form"),
        ({}, {"retry": {"policy": "honour", "max_attempts": 3, "max_wait_s": 60}}, "/retry"),
    ],
)
def test_what_a_websocket_has_none_of_is_to_be_left_out_and_no_remedy_names_a_dialect(
    target: dict[str, Any], more: dict[str, Any], pointer: str
) -> None:
    problems = found(plan(WS | target, **more))
    assert pointer in [problem.place.removeprefix("plan.yaml: ") for problem in problems]
    for problem in problems:
        assert problem.remedy.startswith("leave it out")
        assert "name " not in problem.remedy and "--dialect" not in problem.remedy


def test_a_stream_over_http_still_asks_for_its_dialect() -> None:
    [problem] = found(plan({"stream": True}))
    assert problem.remedy == "name it with plan.yaml: /target/dialect"


@pytest.mark.parametrize(("old", "new"), [("rate", "rate_per_s"), ("rate_to", "rate_to_per_s")])
def test_a_rate_without_its_unit_is_refused_with_the_name_that_has_it(old: str, new: str) -> None:
    stage = {"rate_per_s": 5, "seconds": 9, "rate_to_per_s": 6}
    stage[old] = stage.pop(new)
    said = {"kind": "plan", "drill": "interview", "job": "x", "target": {"url": "http://127.0.0.1/"}, "open": [stage]}
    with pytest.raises(Problem) as raised:
        strict.load_as(msgspec.json.encode(said), InterviewPlan, place="plan.json", fmt="json")
    assert raised.value.place.endswith(f": /open/0/{old}")
    assert new in str(raised.value)


def test_what_is_under_way_at_once_is_bounded_by_the_plans_own_number_alone() -> None:
    for stage, most in (({}, 6_000), ({"max_in_flight": 7}, 7)):
        one = plan(open=[{"rate_per_s": 100, "seconds": 9, **stage}], timeout_s=60)
        assert found(one) == []
        (step,) = [step for step in steps(one) if step.label == "open_r100"]
        assert step.callers == most
