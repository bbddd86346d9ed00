"""The join of users, wire and marks, one rule of the module's docstring after the other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.evidence import Row
from drillmaster.outcomes import FAILED, OK, PROBE_TRACE, Request, Run, join, join_bare
from tests.scene import PRIMARY, WALL0_NS, Answer, S, Scene


class Wire:
    """A few users and attempts, by hand, on an otherwise empty run of 100 s with a fault from 20 s to 80 s."""

    def __init__(self, *, time_limit_s: float = 5.0) -> None:
        self.scene = Scene(lambda n, s, on: PRIMARY, every_s=200, baseline_s=20, fault_s=60, time_limit_s=time_limit_s)

    def user(self, key: str, sent_s: float, end_s: float | None, *, result: str = "answered", **more: Any) -> "Wire":
        sent = round(sent_s * S)
        self.scene.add(
            "events/traffic.jsonl", sent, "user_request", id=key, phase="start", due_ns=sent, sent_ns=sent,
            trace=more.get("trace"), nonce=more.get("nonce"), payload=None,
        )  # fmt: skip
        if end_s is not None:
            end = round(end_s * S)
            good = result == "answered"
            self.scene.add(
                "events/traffic.jsonl", end, "user_request", id=key, phase="end", due_ns=sent, sent_ns=sent,
                first_ns=end, end_ns=end, status=200 if good else None, result=result,
                answer="ok" if good else None, why="", ms=1,
            )  # fmt: skip
        return self

    def attempt(self, key: str, start_s: float, end_s: float, *, faulted: bool = False, **more: Any) -> "Wire":
        end = round(end_s * S)
        self.scene.add(
            "events/proxy.jsonl", end, "attempt", id=key, window="w1" if faulted else None, conn=1, nth=1,
            method="POST", path="/", dialect="plain", model=None, stream=False, status=None if faulted else 200,
            retry_count=None, key=None, trace=more.get("trace"), nonce=more.get("nonce"),
            start_ns=round(start_s * S), first_ns=None, end_ns=end, up_bytes=1, down_bytes=1,
            end="rst" if faulted else "clean", terminal=not faulted, upstream=not faulted,
        )  # fmt: skip
        return self

    def joined(self) -> dict[str, Request]:
        return {r.id: r for r in self.scene.run().requests}


def test_a_trace_on_both_sides_joins_whoever_else_is_under_way() -> None:
    got = Wire().user("a", 1, 3, trace="t1").user("b", 1, 3, trace="t2").attempt("x", 2, 2.5, trace="t2").joined()
    assert (got["b"].joined_by, got["b"].outcome, got["b"].attempts) == ("trace", "ok_primary", ("x",))
    assert got["a"].outcome == "ok_fallback"  # the one attempt under it is somebody else's


def test_a_nonce_in_the_prompt_joins_where_there_is_no_trace() -> None:
    got = Wire().user("a", 1, 3, nonce="n1").user("b", 1, 3, nonce="n2").attempt("x", 2, 2.5, nonce="n1").joined()
    assert (got["a"].joined_by, got["a"].outcome) == ("nonce", "ok_primary")


def test_a_trace_outranks_a_nonce() -> None:
    got = Wire().user("a", 1, 3, trace="t1").user("b", 1, 3, nonce="n2").attempt("x", 2, 2.5, trace="t1", nonce="n2")
    assert got.joined()["a"].joined_by == "trace"


def test_the_only_request_under_way_owns_the_attempt() -> None:
    got = Wire().user("a", 1, 3).attempt("x", 2, 2.5).joined()
    assert (got["a"].joined_by, got["a"].outcome) == ("alone", "ok_primary")


def test_of_two_under_way_neither_owns_it_and_both_are_of_unknown_origin() -> None:
    got = Wire().user("a", 1, 3).user("b", 1.5, 3).attempt("x", 2, 2.5).joined()
    assert {r.outcome for r in got.values()} == {"ok"}
    assert {r.joined_by for r in got.values()} == {"none"}


def test_an_attempt_from_before_the_request_or_after_its_end_cannot_lie_behind_it() -> None:
    got = Wire().user("a", 2, 3).attempt("before", 1, 2.5).attempt("after", 3.5, 4).joined()
    assert got["a"].outcome == "ok_fallback"


def test_a_request_the_user_gave_up_on_still_counts_as_under_way_for_a_time_limit() -> None:
    wire = Wire(time_limit_s=5).user("gone", 1, 6, result="timeout").user("next", 8, 9).attempt("x", 8.5, 8.7)
    assert wire.joined()["next"].joined_by == "none"  # the attempt may be the abandoned one's
    later = Wire(time_limit_s=5).user("gone", 1, 6, result="timeout").user("next", 12, 13).attempt("x", 12.5, 12.7)
    assert later.joined()["next"].joined_by == "alone"


def test_one_that_began_before_the_injection_and_met_the_fault_belongs_to_the_window() -> None:
    wire = Wire().user("a", 19, 22, result="reset", trace="t").attempt("x", 20.5, 21, faulted=True, trace="t")
    run = wire.scene.run()
    window = run.windows[0]
    assert [r.id for r in run.during(window)] == ["a"]
    assert run.before(window) == []
    assert run.requests[0].met == ("w1",)


def test_one_that_began_before_the_injection_and_ended_well_does_not() -> None:
    run = Wire().user("a", 19, 22, trace="t").attempt("x", 19.1, 21.9, trace="t").scene.run()
    assert run.during(run.windows[0]) == []
    assert [r.id for r in run.before(run.windows[0])] == ["a"]


def test_one_without_an_end_is_never_ended_and_does_not_vanish() -> None:
    got = Wire().user("a", 1, None).joined()
    assert got["a"].outcome == "never_ended"
    assert got["a"].latency_s is None


def test_a_line_of_ours_without_its_fields_is_a_defect_and_no_crash() -> None:
    scene = Scene()
    scene.add("events/proxy.jsonl", 5, "attempt", id="only")
    scene.rows.append(Row("events/proxy.jsonl", 999, WALL0_NS, "fault_met", {"t": "x", "event": "fault_met"}))
    defects = scene.run().defects
    assert [d.file for d in defects] == ["events/proxy.jsonl"] * 2


def test_every_outcome_is_either_good_or_failed() -> None:
    assert not OK & FAILED
    assert {"timeout", "never_ended", "http_4xx", "http_5xx", "empty", "degraded", "refused", "cut"} <= FAILED


def test_an_id_that_comes_again_is_another_request() -> None:
    rows = [
        Row("d", i, WALL0_NS + i * S, "user_request", {"event": "user_request", "id": "curl", "phase": p, **more})
        for i, (p, more) in enumerate(
            [("start", {}), ("end", {"status": 200}), ("start", {}), ("end", {"status": 502}), ("start", {})]
        )
    ]
    assert [r.outcome for r in join_bare("d", rows).requests] == ["ok", "http_5xx", "never_ended"]


@pytest.mark.parametrize("status", [True, -1, 499.9, "200", None, 600])
def test_a_status_that_is_none_is_a_defect(status: object) -> None:
    row = Row("d", 1, WALL0_NS, "user_request", {"event": "user_request", "id": "a", "status": status})
    assert len(join_bare("d", [row]).defects) == 1


def test_a_bare_file_is_no_more_than_its_lines() -> None:
    run: Run = join_bare("d", [])
    assert run.requests == ()
    assert run.windows == ()


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 15), st.booleans()), max_size=12), st.randoms())
def test_every_request_has_one_outcome_and_every_attempt_at_most_one_owner(
    spans: list[tuple[int, int, bool]], rng: Any
) -> None:
    wire = Wire()
    for i, (start, length, traced) in enumerate(spans):
        wire.user(f"u{i}", start, start + length, trace=f"t{i}" if traced else None)
        wire.attempt(f"a{i}", start + rng.random(), start + length + 1, trace=f"t{i}" if traced else None)
    run = wire.scene.run()
    assert len(run.requests) == len(spans)
    owned = [a for r in run.requests for a in r.attempts]
    assert len(owned) == len(set(owned))
    assert {a.id for a in run.attempts if a.request is not None} == set(owned)


def test_a_probe_of_the_conductors_own_lies_behind_no_answer() -> None:
    wire = Wire().user("a", 1, 3).attempt("x", 2, 2.5, trace=PROBE_TRACE + "0" * 16)
    run = wire.scene.run()
    assert run.attempts == () and [r.outcome for r in run.requests] == ["ok_fallback"]


def test_join_takes_lines_in_any_order() -> None:
    scene = Scene(lambda n, s, on: Answer(25) if on else PRIMARY)
    forward = join(scene.manifest, scene.rows)
    assert join(scene.manifest, list(reversed(scene.rows))) == forward
