"""Faults inside a stream: who took half an answer for one failed, who fell back passed, and nobody is judged on a guess."""

from typing import Any

import pytest

from tests.scene import FALLBACK, PRIMARY, Answer, Behaviour, Scene, judged

HALF = Answer(25, marks=(("model_ok", {"path": "primary"}),))
SILENT = Answer(25)


def streamed(behave: Behaviour, mode: str = "clean-end", **wire: Any) -> Scene:
    """Every attempt streams; those in the window are broken by the fault, unless `wire` says otherwise."""
    scene = Scene(behave, mode=mode, notes=False, stamps=("REHEARSAL",))
    for row in scene.rows:
        if row.event == "attempt":
            row.fields.update(stream=True, down_bytes=900)
            if row.fields["window"] == "w1":
                broken = {"status": 200, "end": "clean", "terminal": False, "upstream": True, "intact": False}
                row.fields.update(broken | wire)
    return scene


def during(answer: Answer) -> Behaviour:
    return lambda n, s, on: answer if on else PRIMARY


def outcomes(scene: Scene) -> set[str]:
    run = scene.run()
    return {request.outcome for request in run.during(run.windows[0])}


def told(scene: Scene, source: str) -> Scene:
    """The plan's `fallback_matching` told where each answer came from."""
    for row in scene.rows:
        if row.event == "user_request" and row.fields["phase"] == "end":
            faulted = scene.inject_ns <= row.fields["due_ns"] < scene.lift_ns
            row.fields["source"] = source if faulted else "primary"
    return scene


def test_half_an_answer_that_the_worker_takes_for_one_fails_and_is_told_as_such() -> None:
    scene = streamed(during(HALF))
    assert outcomes(scene) == {"truncated"}
    status, checks, findings = judged(scene)
    assert (status, checks["fallback"].status, checks["failed"].status) == ("fail", "fail", "fail")
    assert "60 half answers taken for whole" in checks["failed"].why
    assert "60 of 60 users" in findings["truncated-answer"].cause
    assert findings["truncated-answer"].cites
    assert not findings.keys() & {"no-fallback", "marks-against-wire", "phantom-fallback"}


def test_half_an_answer_is_told_by_its_own_text_where_the_worker_writes_nothing() -> None:
    assert outcomes(told(streamed(during(SILENT)), "primary")) == {"truncated"}
    assert outcomes(told(streamed(during(SILENT)), "fallback")) == {"ok_fallback"}


def test_the_answers_own_text_outranks_what_the_worker_says_of_it() -> None:
    assert outcomes(told(streamed(during(FALLBACK)), "primary")) == {"truncated"}


def test_an_agent_that_fell_back_from_a_broken_stream_passes() -> None:
    scene = streamed(during(FALLBACK))
    assert outcomes(scene) == {"ok_fallback"}
    status, _, findings = judged(scene)
    assert status == "pass"
    assert findings.keys() == {"transport-only"}


def test_where_nobody_says_nobody_is_blamed_and_nobody_passes() -> None:
    scene = streamed(during(SILENT))
    assert outcomes(scene) == {"ok"}
    status, checks, findings = judged(scene)
    assert (status, checks["fallback"].status, checks["attribution"].status) == ("refused", "refused", "refused")
    assert checks["failed"].status == "pass"
    assert "fallback_matching" in checks["attribution"].remedy
    assert not findings.keys() & {"no-fallback", "truncated-answer"}


def test_the_last_word_of_the_worker_counts() -> None:
    both = Answer(25, marks=(("model_ok", {"path": "primary"}), ("fallback_engaged", {"path": "fallback"})))
    assert outcomes(streamed(during(both))) == {"ok_fallback"}


def test_a_model_ok_of_another_path_is_the_fallbacks() -> None:
    assert outcomes(streamed(during(Answer(25, marks=(("model_ok", {"path": "small"}),))))) == {"ok_fallback"}


def test_a_mark_joins_by_the_requests_id_whoever_else_is_under_way() -> None:
    """Requests overlap, so that none of them is ever alone."""
    scene = streamed(during(Answer(1_500)))
    for row in [r for r in scene.rows if r.event == "user_request" and r.fields["phase"] == "end"]:
        scene.add("timeline.jsonl", row.fields["ns"] - 5, "fallback_engaged", id=row.fields["id"])
    assert outcomes(scene) == {"ok_fallback"}


@pytest.mark.parametrize(
    "wire",
    [
        {"down_bytes": 0},  # a head, and no word
        {"upstream": False},  # the fault's own words
        {"stream": False},  # half a JSON is no text to anybody
        {"status": 503},
    ],
)
def test_what_no_word_of_the_primary_lies_behind_came_from_a_fallback(wire: dict[str, Any]) -> None:
    assert outcomes(streamed(during(SILENT), **wire)) == {"ok_fallback"}


def test_an_answer_that_ended_as_the_apis_own_and_was_altered_is_the_primarys_if_the_worker_says_so() -> None:
    scene = streamed(during(HALF), "duplicate-events", terminal=True)
    assert outcomes(scene) == {"ok_primary"}
    status, _, findings = judged(scene)
    assert status == "pass"
    assert "evicted-nobody" in findings
    assert outcomes(streamed(during(SILENT), "duplicate-events", terminal=True)) == {"ok"}


def test_an_error_inside_a_200_that_nobody_heard_is_told_as_that() -> None:
    _, _, findings = judged(streamed(during(HALF), "error-event"))
    assert "in-band-error-missed" in findings and "truncated-answer" not in findings
    nothing = Answer(25, answer="empty", marks=(("model_ok", {"path": "primary"}),))
    status, _, findings = judged(streamed(during(nothing), "error-in-200", upstream=False))
    assert status == "fail"
    assert "in-band-error-missed" in findings and "hollow-fallback" not in findings


def test_an_exception_behind_the_first_words_is_named() -> None:
    raised = Answer(25, status=500, answer=None, marks=(("unhandled_exception", {"kind": "RemoteProtocolError"}),))
    status, _, findings = judged(streamed(during(raised), "cut-stream", end="cut"))
    assert status == "fail"
    assert findings["mid-stream-error-escaped"].cause.startswith("RemoteProtocolError escaped")
    assert "catch RemoteProtocolError" in findings["mid-stream-error-escaped"].next
    assert "no-fallback" not in findings


def test_an_exception_before_the_first_word_is_no_matter_of_streams() -> None:
    raised = Answer(25, status=500, answer=None, marks=(("unhandled_exception", {"kind": "APIConnectionError"}),))
    _, _, findings = judged(streamed(during(raised), "reset", down_bytes=0, status=None, end="rst"))
    assert "no-fallback" in findings and "mid-stream-error-escaped" not in findings


def test_what_the_lift_itself_broke_is_not_held_against_the_agent_s_reading() -> None:
    raised = Answer(25, status=500, answer=None)
    _, _, findings = judged(streamed(during(raised), "ping-stall", end="lifted"))
    assert "mid-stream-error-escaped" not in findings


def test_users_who_gave_up_on_a_stream_that_went_quiet_are_told_of_the_limit_that_is_missing() -> None:
    scene = streamed(during(Answer(5_000, result="timeout", status=200, answer=None)), "ping-stall", end="stall")
    for row in scene.rows:
        if row.event == "attempt" and row.fields["window"] == "w1":
            row.fields["end_ns"] = row.fields["start_ns"] + 6 * 10**9
    status, _, findings = judged(scene)
    assert status == "fail"
    assert "60 users" in findings["no-stream-limit"].cause
    assert not findings.keys() & {"no-fallback", "late-fallback", "no-client-time-limit"}


def test_a_stream_that_is_asked_for_again_while_its_user_is_being_answered_is_shown_twice() -> None:
    scene = streamed(during(Answer(400, attempts=2, marks=FALLBACK.marks)), "reset-stream", end="rst")
    for row in scene.rows:
        if row.event == "attempt" and row.fields["window"] == "w1":
            start_ns = row.fields["start_ns"] - 1_000 - row.fields["retry_count"]
            start_ns += row.fields["retry_count"] * 200 * 10**6
            row.fields.update(start_ns=start_ns, end_ns=start_ns + 100 * 10**6)
        if row.event == "user_request" and row.fields["phase"] == "end":
            row.fields["first_ns"] = row.fields["due_ns"] + 50 * 10**6
    _, _, findings = judged(scene)
    assert "60 users" in findings["half-shown-twice"].cause
    for row in scene.rows:  # nothing had been shown when the first one broke
        if row.event == "user_request" and row.fields["phase"] == "end":
            row.fields["first_ns"] = row.fields["due_ns"] + 350 * 10**6
    assert "half-shown-twice" not in judged(scene)[2]


def test_a_fallback_that_answered_after_the_lift_does_not_make_one_needed_before_it() -> None:
    def late(n: int, since_s: float, faulted: bool) -> Answer:
        return Answer(1_200, marks=FALLBACK.marks) if faulted and since_s >= 59 else HALF if faulted else PRIMARY

    status, checks, _ = judged(streamed(late, "duplicate-events", terminal=True))
    assert (status, checks["fallback"].status) == ("pass", "pass")


def test_one_mark_beside_many_empty_answers_is_no_phantom() -> None:
    def once(n: int, since_s: float, faulted: bool) -> Answer:
        marks = FALLBACK.marks if since_s < 1 else ()
        return Answer(25, answer="empty", marks=marks) if faulted else PRIMARY

    _, _, findings = judged(streamed(once, "empty-200", upstream=False))
    assert "hollow-fallback" in findings and "phantom-fallback" not in findings
