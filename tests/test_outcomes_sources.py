"""Where an answer came from, when several attempts or the answer's own text could say."""

from typing import Any

from drillmaster import faults
from drillmaster.outcomes.joining import _FLUENT
from tests.scene import PRIMARY, S, Scene


def joined(*attempts: dict[str, Any], told: str | None = None, mode: str = "clean-end") -> str:
    """Give the outcome of one good answer, from 30 s to 35 s of a run whose fault is on from 20 s to 80 s."""
    scene = Scene(lambda n, s, on: PRIMARY, every_s=200, mode=mode)
    start, end = 30 * S, 35 * S
    tr = "events/traffic.jsonl"
    scene.add(tr, start, "user_request", id="u", phase="start", due_ns=start, sent_ns=start, trace="t")
    more = {} if told is None else {"source": told}
    scene.add(
        tr, end, "user_request", id="u", phase="end", due_ns=start, sent_ns=start, first_ns=end, end_ns=end, status=200,
        result="answered", answer="ok", why="", ms=5_000, **more,
    )  # fmt: skip
    for number, fields in enumerate(attempts):
        begun = start + (number + 1) * S
        row = {
            "window": None, "status": 200, "start_ns": begun, "end_ns": begun + S // 2, "end": "clean", "upstream": True,
            "terminal": True, "intact": True, "trace": "t", "model": "large", "stream": True, "down_bytes": 900,
        }  # fmt: skip
        scene.add("events/proxy.jsonl", begun + S // 2, "attempt", id=f"x{number}", **(row | fields))
    return next(r.outcome for r in scene.run().requests if r.id == "u")


BROKEN = {"window": "w1", "terminal": False, "intact": False}
STRUCK = {"window": "w1", "status": 503, "upstream": False, "terminal": False, "intact": False, "down_bytes": 40}


def test_a_second_try_that_went_through_is_the_primarys() -> None:
    assert joined(BROKEN, {}) == "ok_primary"
    assert joined(STRUCK, {}) == "ok_primary"


def test_another_model_that_was_asked_once_the_first_was_struck_is_a_fallback() -> None:
    assert joined(STRUCK, {"model": "small"}) == "ok_fallback"


def test_another_model_behind_a_broken_stream_may_be_a_fallback_or_a_check_of_half_an_answer() -> None:
    assert joined(BROKEN, {"model": "small"}) == "ok"
    assert joined(BROKEN, {"model": "small"}, told="fallback") == "ok_fallback"
    assert joined(BROKEN, {"model": "small"}, told="primary") == "truncated"


def test_a_whole_answer_from_before_a_broken_stream_does_not_make_that_one_whole() -> None:
    assert joined({"model": "small"}, BROKEN, told="primary") == "truncated"
    assert joined({"model": "small"}, BROKEN) == "ok"


def test_two_models_of_which_the_fault_struck_none_are_the_primary() -> None:
    assert joined({"model": "small"}, {}) == "ok_primary"


def test_the_answers_own_text_says_fallback_though_the_primary_had_answered() -> None:
    assert joined({}, told="fallback") == "ok_fallback"
    assert joined({}, told="primary") == "ok_primary"


def test_a_text_that_claims_the_primary_where_no_answer_of_it_can_lie_behind_is_not_believed() -> None:
    assert joined(STRUCK, told="primary") == "ok_fallback"


def test_a_faults_own_words_that_were_taken_for_the_primarys_are_no_fallback() -> None:
    own = {**STRUCK, "status": 200}
    assert joined(own, told="primary", mode="cut-answer") == "truncated"
    assert joined(own, told="primary", mode="html-200") == "degraded"
    assert joined(own, mode="html-200") == joined(own, told="fallback", mode="html-200") == "ok_fallback"
    assert joined({**own, "status": 503}, told="primary", mode="html-200") == "ok_fallback"


def test_a_faults_own_fluent_words_are_no_fallback_unless_somebody_says_that_one_answered() -> None:
    own = {**STRUCK, "status": 200, "terminal": True}
    for mode in ("weaker-answer", "refusal", "tool-unknown", "tool-bad-json", "tool-duplicate-id"):
        assert joined(own, mode=mode) == "ok"
        assert joined(own, told="fallback", mode=mode) == "ok_fallback"
        assert joined(own, told="primary", mode=mode) == "degraded"
        assert joined(own, {}, mode=mode) == "ok_primary"
    assert joined(own, mode="cut-answer") == "ok"


def test_fluent_words_that_reached_nobody_known_may_lie_behind_every_answer_of_their_time() -> None:
    own = {**STRUCK, "status": 200, "terminal": True, "trace": None}
    assert joined(own, told="primary", mode="weaker-answer") == "degraded"
    assert joined(own, {"trace": None, "status": 503, "upstream": False}, mode="weaker-answer") == "ok"


def test_every_fault_that_speaks_a_whole_answer_of_its_own_is_known_as_one() -> None:
    speaks = set()
    for tag in faults.names():
        entry = faults.load(tag)
        whole = {"complete", "incomplete"} & set(entry.seen) and not entry.reads_answer
        # What a tool says goes to the model, and the model answers the user.
        if entry.scope == "exchange" and whole and "mcp" not in entry.needs:
            speaks.add(tag)
    assert speaks - RELAYS == _FLUENT


RELAYS = {
    "body-drip", "date-skew", "first-byte-delay", "header-drip", "slow-close", "throttle",
}  # fmt: skip
"""They let the real answer through."""


def test_a_4xx_of_the_real_endpoint_behind_a_followed_redirect_is_no_answer_of_the_primary() -> None:
    redirected = {"window": "w1", "status": 302, "upstream": False, "terminal": False, "intact": False}
    assert joined(redirected, {"status": 404}, mode="login-redirect") == "ok_fallback"
