"""What each cell is called, from lines of evidence: one row a way in which an agent can behave."""

from typing import Any

import msgspec
import pytest

from drillmaster.errors import Exit
from drillmaster.evidence import Defect
from drillmaster.matrix import Cell, Result, Table, exit_of
from drillmaster.matrix.telling import summary
from drillmaster.verdict import Exact
from tests.matrix.paper import ALTERED, DOWN, HALF, HELD, LIFTED, MADE_UP, RESET, Paper


def one(fault: str, *requests: dict[str, Any], stream: bool = False, **how: Any) -> Result:
    """A matrix of one cell, with these requests in its window."""
    paper = Paper()
    paper.begin(fault, stream=stream)
    for request in requests:
        paper.request(**request)
    paper.end()
    (result,) = paper.table(**how).results
    return result


BROKE = {"attempts": (RESET,), "status": 500, "answer": None, "raised": "APIConnectionError"}
DEAD = {"attempts": (), "status": None, "result": "refused", "answer": None}
FELL_THERE = {"attempts": (RESET, RESET | {"model": "small"}), "status": 500, "answer": None}
"""The fallback asks the endpoint that is gone."""
FELL = {"attempts": (DOWN,), "says": "small-model"}
QUIET = {"attempts": (DOWN,)}
"""As FELL, by an agent that writes no timeline: a 503 is no answer, so this one came from elsewhere."""
RETRIED = {"attempts": (RESET, {"window": None}), "says": "model_ok"}
SLOW = {"attempts": ({"intact": True},)}
GAVE_UP = {"attempts": (HELD,), "ms": 4000, "result": "timeout", "status": None, "answer": None}
WAITED = {"attempts": (LIFTED,), "ms": 10_500, "status": 500, "answer": None}
HALF_TAKEN = {"attempts": (HALF,), "says": "model_ok"}
HALF_NOTICED = {"attempts": (HALF,), "says": "small-model"}
PASSED_ON = {"attempts": (MADE_UP,), "says": "model_ok"}
NOT_TOLD = {"attempts": (MADE_UP,)}
TOOK_ALTERED = {"attempts": (ALTERED,), "says": "model_ok"}
LOST = {"attempts": (DOWN | {"status": 302}, {"window": None, "status": 404}), "says": "small-model"}
"""It followed a redirect, and the real endpoint knew no such page."""
PAGE_TAKEN = {"attempts": (DOWN | {"status": 302}, MADE_UP | {"dialect": "plain", "stream": None}), "says": "model_ok"}
"""It followed the redirect, was given the login page, and handed it on."""
CUT_WHOLE: dict[str, Any] = {"attempts": ({"terminal": False, "intact": False},)}
"""A part of an answer that was asked for whole."""
HEAD_ALONE = {"attempts": ({"terminal": False, "intact": False, "down_bytes": 0, "end": "stall"},)}
NEXT_DOOR = {"attempts": (DOWN, {"window": None, "model": "small", "dialect": "anthropic"}), "says": "small-model"}
"""Its fallback lies behind the same endpoint, and speaks another API."""
ASKED_WHOLE = {"attempts": (DOWN, {"window": None, "stream": True}), "says": "model_ok"}
"""It asked again, in the other way, which the cell's fault lets pass."""
BREAKER = {"attempts": (), "says": "small-model"}
"""The breaker of the agent is open: no attempt at all."""


@pytest.mark.parametrize(
    ("fault", "requests", "word", "why"),
    [
        ("reset", [BROKE] * 5, "never engaged", "5 http_5xx, of 5"),
        ("reset", [FELL_THERE] * 5, "never engaged", "of 5; 5 asked the same endpoint for another model"),
        ("503", [FELL] * 5, "survived by fallback", "the fallback answered 5 of 5"),
        ("503", [QUIET] * 5, "survived by fallback", "5 of 5"),
        ("503", [FELL, BREAKER, BREAKER, BREAKER], "survived by fallback", "4 of 4"),
        ("reset", [RETRIED] * 4, "survived by retry", "4 at a later attempt"),
        ("reset", [RETRIED, FELL, FELL], "survived by fallback", "2 of 3; 1 the primary"),
        ("first-byte-delay", [SLOW] * 4, "no fallback needed", "the primary answered 4 of 4"),
        ("hang", [GAVE_UP, FELL, FELL, FELL], "hung", "1 users gave up, of 4"),
        ("hang", [WAITED], "hung", "1 waited for the lift"),
        ("hang", [GAVE_UP, WAITED | {"ms": 9_500}], "hung", "1 users gave up and 1 waited for the lift"),
        ("hang", [{**GAVE_UP, "result": "never"}] * 3, "hung", "3 users gave up"),
        ("clean-end", [HALF_TAKEN] * 4, "answered with garbage", "4 truncated, of 4"),
        ("clean-end", [HALF_NOTICED] * 4, "survived by fallback", "4 of 4"),
        ("clean-end", [HALF_NOTICED] * 4 + [HALF_TAKEN], "answered with garbage", "1 truncated, of 5"),
        ("empty-200", [{"attempts": (MADE_UP,), "answer": "empty"}] * 3, "answered with garbage", "3 empty, of 3"),
        ("html-200", [PASSED_ON] * 3, "answered with garbage", "3 passed on what the fault sent, of 3"),
        ("html-200", [NOT_TOLD] * 3, "not told", "nobody says whose"),
        ("html-200", [NOT_TOLD | {"told": "primary"}] * 3, "answered with garbage", "passed on"),
        ("html-200", [NOT_TOLD | {"told": "fallback"}] * 3, "survived by fallback", "3 of 3"),
        ("split-utf8", [TOOK_ALTERED] * 3, "no fallback needed", "3 of them as the fault had altered it"),
        ("wrong-model", [TOOK_ALTERED] * 3, "no fallback needed", "3 of them as the fault had altered it"),
        # Every word came, and the API's reason for the end; what is missing or late says nothing of them.
        ("missing-terminal", [TOOK_ALTERED] * 3, "no fallback needed", "3 of them as the fault had altered it"),
        ("slow-close", [TOOK_ALTERED] * 3, "no fallback needed", "3 of them as the fault had altered it"),
        ("malformed-chunk", [TOOK_ALTERED] * 3, "answered with garbage", "3 passed on what the fault sent, of 3"),
        # Whole, by the API's own word, and yet no user got the model's words.
        ("duplicate-events", [TOOK_ALTERED] * 3, "answered with garbage", "3 passed on what the fault sent, of 3"),
        ("reordered-events", [TOOK_ALTERED] * 3, "answered with garbage", "3 passed on what the fault sent, of 3"),
        ("duplicate-events", [TOOK_ALTERED | {"says": "small-model"}] * 3, "survived by fallback", "3 of 3"),
        ("cut-answer", [TOOK_ALTERED] * 3, "answered with garbage", "3 passed on what the fault sent"),
        ("login-redirect", [PAGE_TAKEN] * 3, "answered with garbage", "3 passed on what the fault sent, of 3"),
        ("login-redirect", [PAGE_TAKEN | {"says": None}] * 3, "not told", "nobody says whose"),
        ("login-redirect", [PAGE_TAKEN | {"says": "small-model"}] * 3, "survived by fallback", "3 of 3"),
        (
            "503",
            [NEXT_DOOR] * 3,
            "survived by fallback",
            "3 of 3; 3 by the same endpoint, which this cell's fault left",
        ),
        ("503", [ASKED_WHOLE] * 3, "survived by retry", "3 by the same endpoint, which this cell's fault left alone"),
        ("malformed-json", [CUT_WHOLE] * 3, "not told", "nobody says whose"),  # it may have handed on what there was
        ("malformed-json", [CUT_WHOLE | {"says": "model_ok"}] * 3, "answered with garbage", "3 passed on"),
        ("malformed-json", [CUT_WHOLE | {"says": "small-model"}] * 3, "survived by fallback", "3 of 3"),
        ("hang-after-headers", [HEAD_ALONE] * 3, "survived by fallback", "3 of 3"),  # nothing to hand on
        ("503", [FELL] * 3 + [BROKE], "engaged in part", "3 of 4 had a good answer; 1 http_5xx"),
        ("login-redirect", [LOST] * 3, "survived by fallback", "the fallback answered 3 of 3"),
        ("503", [FELL, FELL], "not met", "2 requests met it"),  # too few to say that users survived
        ("503", [BROKE], "never engaged", "1 http_5xx, of 1"),  # and one is enough to say that one did not
        ("503", [], "not met", "nobody met it"),
    ],
)
def test_a_cell_in_a_word(fault: str, requests: list[dict[str, Any]], word: str, why: str) -> None:
    result = one(fault, *requests, stream=fault in ("clean-end", "duplicate-events"))
    assert (result.word, why in result.why) == (word, True), result


def test_an_altered_answer_that_nobody_is_known_to_own_is_no_fallback_where_the_worker_says_primary() -> None:
    unowned = {"attempts": (ALTERED | {"trace": None},), "says": "model_ok", "ms": 2_500}  # two users at once
    result = one("wrong-model", *[unowned] * 4)
    assert result.word == "not met" and "3 are wanted" in result.why  # the first one alone is known to be somebody's


def test_what_the_lift_ended_is_counted_apart_and_blames_nobody() -> None:
    late = {"attempts": (LIFTED,), "ms": 4200, "status": 500, "answer": None}  # due at 6 s, over at 10.2
    quick = {"attempts": (HELD,), "ms": 4000, "says": "small-model"}
    result = one("hang", *[quick] * 6, late)
    assert (result.word, result.cut_short, result.requests, result.failures) == ("survived by fallback", 1, 6, 0)


def test_who_waited_less_than_users_would_is_told_what_would_settle_it() -> None:
    def why(time_limit_s: float) -> str:
        paper = Paper(time_limit_s=time_limit_s)
        paper.begin("hang")
        paper.request(**WAITED)
        paper.end()
        return paper.table().results[0].why

    assert why(30.0).endswith("its users would wait 30 s: a longer window_s shows whether the agent would")
    assert why(9.0).endswith("the fault was on for 10 s")


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        # Its process ended, and who came then met nobody: the cell's all the same, and told apart.
        ([BROKE] * 2 + [DEAD] * 3, "2 http_5xx, of 5; 3 of these met nothing of it themselves"),
        ([BROKE] * 2 + [DEAD | {"attempts": (RESET,)}], "of 3"),
        ([GAVE_UP, GAVE_UP | {"attempts": ()}], "2 users gave up, of 2; 1 of these met nothing of it themselves"),
        # Where the agent passes nothing on, nobody knows who met it.
        ([{**BROKE, "attempts": (RESET | {"trace": None},), "ms": 1_500}] * 4, "4 http_5xx, of 4"),
    ],
)
def test_who_failed_without_having_met_the_fault_is_counted_and_said(requests: list[dict[str, Any]], why: str) -> None:
    assert one("reset", *requests).why.endswith(why)


def test_an_answer_that_came_because_the_fault_was_over_is_no_survival() -> None:
    result = one("hang", {"attempts": (LIFTED, {"window": None}), "ms": 10_500})
    assert result.word == "hung"


def test_the_other_way_of_asking_is_not_met_by_the_cell() -> None:
    result = one("503", *[FELL, {"primary": True}] * 4)
    assert (result.word, result.requests) == ("survived by fallback", 4)


CANNED = {"attempts": (), "payload": 1}
"""An answer for which the agent asks its model nothing, fault or no fault: out of a cache, a template, a rule."""


@pytest.mark.parametrize(
    ("fault", "requests", "word", "why"),
    [
        ("503", [BROKE, CANNED] * 3, "never engaged", "3 http_5xx, of 3"),
        ("503", [FELL, CANNED] * 3, "survived by fallback", "the fallback answered 3 of 3"),
        ("hang", [GAVE_UP] + [CANNED] * 5, "hung", "1 users gave up, of 1"),
        ("503", [FELL] + [CANNED] * 6, "not met", "1 requests met it"),
        ("503", [CANNED] * 6, "not met", ""),
        # One that the baseline had no time for may be like those that it had time for.
        ("503", [BROKE, CANNED | {"payload": 7}] * 3, "never engaged", "3 http_5xx, of 3"),
        # A fault of the port leaves no attempts, and nobody can tell the one answer from the other.
        ("refused", [CANNED] * 6, "not told", "6 of 6 had an answer, and nobody says whose"),
        ("refused", [CANNED | {"says": "model_ok"}] * 6, "not told", "6 of 6"),  # out of a cache, by the worker's word
        ("refused", [CANNED | {"says": "small-model"}] * 6, "survived by fallback", "6 of 6"),
        ("refused", [CANNED | {"payload": 0}] * 6, "survived by fallback", "6 of 6"),
        ("refused", [CANNED | {"payload": 0}, CANNED] * 3, "survived by fallback", "3 of 6; 3 more of unknown origin"),
    ],
)
def test_an_answer_that_the_baseline_gave_without_its_model_too_says_nothing_of_a_fault(
    fault: str, requests: list[dict[str, Any]], word: str, why: str
) -> None:
    paper = Paper()
    paper.request(primary=True, payload=0)
    paper.request(**CANNED)
    port = fault == "refused"
    paper.begin(fault, stream=None if port else False, dialect=None if port else "openai_chat")
    for request in requests:
        paper.request(**request)
    paper.end()
    (result,) = paper.table().results
    assert (result.word, why in result.why) == (word, True), result


SICK = {"window": None, "status": 500, "upstream": True}
"""An error of the endpoint's own, on a day without a fault."""


@pytest.mark.parametrize(
    "before",
    [
        [{"attempts": (), "ms": 1_500}],  # over only after the injection: it may have met that
        [{"attempts": (SICK,)}],  # the endpoint failed it, and a fallback answered
        [{"attempts": (), "ms": 3_500}, {"attempts": (SICK | {"trace": None},)}],  # one of these two
    ],
)
def test_an_answer_of_the_baselines_that_came_of_a_failure_is_not_canned(before: list[dict[str, Any]]) -> None:
    paper = Paper()
    for request in before:
        paper.request(**request)
    paper.begin("503")
    for request in [FELL, *[BREAKER | {"says": None}] * 4]:
        paper.request(**request)
    paper.end()
    (result,) = paper.table().results
    assert (result.word, result.why) == ("survived by fallback", "the fallback answered 5 of 5")


def test_what_the_fault_sent_to_one_of_several_under_way_may_be_what_any_of_them_was_given() -> None:
    crowded = {"attempts": (MADE_UP | {"trace": None},), "ms": 1_500}
    told = one("html-200", *[crowded] * 6)
    assert (told.word, told.requests) == ("not told", 6)
    # What is no answer at all can lie behind none.
    assert one("503", *[{"attempts": (DOWN | {"trace": None},), "ms": 1_500}] * 6).word == "survived by fallback"
    # Nor can what was sent before the request was, or after it was over.
    apart = one("html-200", {"attempts": (MADE_UP,)}, *[BREAKER | {"says": None}] * 4)
    assert (apart.word, apart.why) == ("survived by fallback", "the fallback answered 4 of 5; 1 more of unknown origin")


def test_a_cell_tells_wire_fallback_exceptions_and_times() -> None:
    result = one("reset", *[BROKE] * 3, FELL | {"attempts": (RESET, RESET)})
    assert result.wire == {"reset without an answer": 5}
    assert result.exceptions == {"APIConnectionError": 3}
    assert result.fallbacks == {"small-model": 1}
    assert result.first_good_s == 3.05
    assert isinstance(result.most_attempts, Exact) and result.most_attempts.value == 2
    assert isinstance(result.storm, Exact) and result.storm.value == 1.25
    assert (result.back_s, result.window_s) == (1.5, 10.0)
    assert result.cites[0].file == "events/proxy.jsonl"
    assert {cite.file for cite in result.cites} == {"events/proxy.jsonl", "events/traffic.jsonl", "timeline.jsonl"}


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (DOWN, "status 503"),
        (RESET, "reset without an answer"),
        (HELD, "held without an answer"),
        (LIFTED, "no answer until the lift"),
        (HALF, "status 200, short of a complete answer"),
        (HALF | {"end": "rst"}, "status 200, reset inside the answer"),
        (HALF | {"end": "client_gone"}, "status 200, unfinished when the client left"),
        (ALTERED, "status 200, whole and altered"),
        ({}, "status 200, whole"),
        (MADE_UP, "status 200, the fault's own"),
        (MADE_UP | {"end": "client_gone"}, "status 200, the fault's own, unfinished when the client left"),
    ],
)
def test_the_branch_that_the_wire_saw(attempt: dict[str, Any], said: str) -> None:
    assert list(one("reset", *[{"attempts": (attempt,), "says": "small-model"}] * 3).wire) == [said]


def test_a_fault_that_nobody_fits_says_what_came_instead() -> None:
    paper = Paper()
    paper.begin("stall", stream=True)
    paper.request(primary=True)
    paper.end(matched=0, saw=("POST /v1/chat/completions large",))
    (result,) = paper.table().results
    assert (result.word, result.why) == (
        "not met",
        "no request looked as it wants; what came: POST /v1/chat/completions large",
    )


def test_a_fault_that_found_nothing_to_do_says_so() -> None:
    paper = Paper()
    paper.begin("tool-unknown")
    paper.request(primary=True)
    paper.end(matched=7)
    (result,) = paper.table().results
    assert "7 requests looked as it wants, and it found nothing to do" in result.why


def test_an_agent_that_is_not_back_is_told_with_why() -> None:
    paper = Paper()
    paper.begin("503")
    for _ in range(3):
        paper.request(**FELL)
    paper.end(back=False)
    (result,) = paper.table().results
    assert (result.back_s, result.not_back) == (None, "a circuit breaker is open")


def lone(name: str) -> Cell:
    return Cell(cell=name, label="stall", fault="stall", params={}, dialect="openai_chat", stream=True)


def two_cells(*second: dict[str, Any]) -> Paper:
    paper = Paper()
    for requests in ([FELL] * 4, second):
        paper.begin("503")
        for request in requests:
            paper.request(**request)
        paper.end()
    return paper


@pytest.mark.parametrize(
    ("second", "share", "code"),
    [
        ([FELL] * 4, None, Exit.PASS),
        ([BROKE] * 4, None, Exit.PASS),  # measured, and nobody has said what is allowed
        ([FELL] * 4, 0.0, Exit.PASS),
        ([BROKE] * 4, 0.1, Exit.FAIL),
        ([BROKE] + [FELL] * 4, 0.2, Exit.PASS),
        ([BROKE] + [FELL] * 4, 0.19, Exit.FAIL),  # each cell by itself: 1 of 9 over both would pass
        ([], 0.1, Exit.REFUSED),  # one that nobody met proves nothing, however well the other went
        ([], None, Exit.PASS),
        ([FELL], 0.1, Exit.REFUSED),  # nor does one that too few met
    ],
)
def test_a_policys_share_is_held_against_each_cell(
    second: list[dict[str, Any]], share: float | None, code: Exit
) -> None:
    assert exit_of(two_cells(*second).table(share)) is code


def test_answers_of_unknown_origin_do_not_thin_out_the_failures() -> None:
    result = one("html-200", BROKE, *[NOT_TOLD] * 9, share=0.1)
    assert (result.word, result.failed, result.why) == (
        "never engaged",
        True,
        "1 http_5xx, of 10; 9 more of unknown origin",
    )


def test_too_few_within_the_share_are_no_pass_and_too_few_above_it_fail() -> None:
    few = two_cells(BROKE, FELL).table(0.5)  # one of two may fail, and three are wanted
    assert (few.results[1].word, few.results[1].failed) == ("engaged in part", None)
    assert exit_of(few) is Exit.REFUSED
    assert list(summary(few)) == ["REFUSED 1 cells settled nothing, or too little for a share: w2"]
    assert exit_of(two_cells(BROKE, BROKE).table(0.5)) is Exit.FAIL


def test_a_fault_that_found_nothing_to_do_owes_nothing() -> None:
    paper = two_cells(*[FELL] * 4)
    paper.begin("tool-unknown")
    paper.request(primary=True)
    paper.end(matched=7)
    assert exit_of(paper.table(0.1)) is Exit.PASS


def test_nothing_settled_is_refused() -> None:
    paper = Paper()
    paper.begin("503")
    paper.end()
    assert exit_of(paper.table(0.1)) is Exit.REFUSED
    assert exit_of(Paper().table(None)) is Exit.REFUSED


def test_a_cell_that_should_have_been_run_refuses_a_policys_pass_and_no_measurement() -> None:
    def table(share: float | None) -> Table:
        paper = two_cells(*[FELL] * 4)
        paper.not_run["w3"] = "the time was over"
        return paper.table(share, more=(lone("w3"),))

    assert [(e.why, e.should) for e in table(None).not_run] == [("the time was over", True)]
    assert exit_of(table(0.1)) is Exit.REFUSED
    assert exit_of(table(None)) is Exit.PASS


def test_a_stop_names_the_rest_and_ends_with_its_own_code() -> None:
    table = two_cells(*[BROKE] * 4).table(
        0.1, ended="aborted", why="SIGINT: somebody ended the drill", more=(lone("w3"),)
    )
    assert exit_of(table) is Exit.ABORTED
    assert [entry.why for entry in table.not_run] == ["stopped: SIGINT: somebody ended the drill"]
    assert [r.word for r in table.results] == ["survived by fallback", "never engaged"]


def test_a_stop_for_evidence_that_could_not_be_written_is_a_stop_and_a_seal_that_does_not_hold_refuses_it() -> None:
    paper = two_cells(*[FELL] * 4)
    paper.rows.append(Defect("events/proxy.jsonl", 900, "torn", "half a line", "one whole object", ""))
    table = paper.table(0.1, ended="aborted", why="the proxy could not write 6 lines of evidence")
    assert "events/proxy.jsonl:900" in table.problems[0]
    assert exit_of(table) is Exit.ABORTED
    assert exit_of(msgspec.structs.replace(table, sealed=False)) is Exit.REFUSED
    assert exit_of(msgspec.structs.replace(table, ended="")) is Exit.REFUSED


def test_evidence_that_ends_in_the_middle_is_no_pass() -> None:
    table = two_cells(*[FELL] * 4).table(0.1, ended=None, more=(lone("w3"),))
    assert table.ended == "its end was never written"
    assert exit_of(table) is Exit.ABORTED
    assert [entry.why for entry in table.not_run] == ["the evidence ends before it"]


def test_a_stop_before_the_cells_are_known_names_the_faults() -> None:
    table = Paper().table(None, ended="aborted", why="SIGINT")
    assert [(e.label, e.why, e.should) for e in table.not_run] == [("reset", "stopped: SIGINT", True)]


def test_a_fault_that_was_still_there_after_its_lift_refuses_all() -> None:
    paper = two_cells(*[FELL] * 4)
    paper.add("events/conductor.jsonl", paper.now_ns, "fault_gone", window="w2", gone=False, why="mode 503")
    table = paper.table(0.1)
    assert exit_of(table) is Exit.REFUSED and "still there" in table.problems[0]


def test_the_baseline_and_what_it_heard_are_in_the_table() -> None:
    table = two_cells(*[FELL] * 4).table()
    assert table.baseline == "10 of 10 users answered with nothing injected"
    assert [(p.dialect, p.stream, p.attempts) for p in table.spoken] == [("openai_chat", False, 10)]


def test_the_death_of_the_process_is_the_cells() -> None:
    paper = Paper()
    paper.begin("reset")
    for _ in range(3):
        paper.request(**BROKE)
    paper.add("events/conductor.jsonl", paper.now_ns, "worker_exited", pid=7, code=1, expected=False)
    paper.end()
    assert paper.table().results[0].deaths == 1
