"""Attempts of a drill on paper, accounted for: whose they are, why they were sent, what they waited for, what they cost."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.intake.run import open_run
from drillmaster.outcomes import Run, join_bare
from drillmaster.retries import RETURN_S, Accounting, Layers, Tokens, Waits, account
from drillmaster.retries.shapes import Phase
from drillmaster.verdict import Absent, AtLeast, Exact
from tests.scene import PRIMARY, Answer, S, Scene

ALONE = Answer(25, attempts=0)
"""A user's request in the fault whose attempts the test writes itself."""
PATIENT = Answer(4_000, attempts=0)


def scene(fault: Answer = ALONE, **more: Any) -> Scene:
    """20 s of a good baseline, 60 s of fault without any attempt, 20 s of recovery; one request a second."""
    return Scene(lambda n, s, on: fault if on else PRIMARY, **more)


def attempt(paper: Scene, n: int, at_s: float, took_s: float = 0.001, **over: Any) -> None:
    """Write one failed attempt of request `n`, `at_s` behind its due time."""
    start_ns = (n + 1) * S + round(at_s * S)
    end_ns = start_ns + round(took_s * S)
    fields = {
        "id": f"x{n}.{at_s}", "window": "w1", "conn": 1, "nth": 1, "method": "POST", "path": "/v1/chat/completions",
        "dialect": "openai_chat", "model": "m", "stream": False, "status": 503, "retry_count": 0, "key": None,
        "trace": f"{n:032x}", "nonce": None, "start_ns": start_ns, "first_ns": end_ns, "end_ns": end_ns, "up_bytes": 80,
        "down_bytes": 90, "end": "clean", "terminal": False, "upstream": False, "intact": False, **over,
    }  # fmt: skip
    if fields["window"] is not None:
        met = {"attempt": fields["id"], "window": fields["window"], "client_bytes": 80}
        paper.add("events/proxy.jsonl", start_ns, "fault_met", **met)
    paper.add("events/proxy.jsonl", end_ns, "attempt", **fields)


def books(paper: Scene | Run) -> Accounting:
    made = account(paper.run() if isinstance(paper, Scene) else paper)
    assert made is not None
    return made


def fault_of(paper: Scene) -> Phase:
    phase = books(paper).phase("fault", "w1")
    assert phase is not None
    return phase


GOOD: dict[str, Any] = {"status": 200, "upstream": True, "terminal": True, "intact": True, "window": None}


def test_a_bare_file_has_no_wire_and_no_accounting() -> None:
    assert account(join_bare("x.jsonl", [])) is None


def test_a_run_without_a_window_or_an_attempt_says_nothing_and_does_not_divide() -> None:
    paper = scene().drop("attempt").drop("fault_injected").drop("fault_lifted")
    made = books(paper)
    assert [p.name for p in made.phases] == ["baseline"]
    assert made.phases[0].mean == Exact(0.0, 99)
    assert made.baseline.factor == Absent("no attempt in the baseline")
    nobody = books(scene().drop("user_request"))
    assert nobody.baseline.each == Absent("no user request was due")
    assert nobody.phases[0].p95 == Absent("no samples")


def test_a_quiet_drill_is_one_attempt_a_request_and_a_breaker_none() -> None:
    made = books(scene())
    assert [(p.name, p.requests, p.attempts) for p in made.phases] == [
        ("baseline", 19, 19),
        ("fault", 60, 0),
        ("recovery", 20, 20),
    ]
    assert made.storms[0].fault.factor == Exact(0.0, 60)
    assert made.storms[0].back is not None and made.storms[0].back.factor == Exact(1.0, 10)


GONE: dict[str, Any] = {"status": None, "end": "client_gone", "window": None}
"""Left by its client."""
UNREAD: dict[str, Any] = {"status": None, "end": "rst", "model": None, "stream": None, "up_bytes": 0}
"""Struck before its body was read."""

# Each row: attempts of one request as (seconds behind its due time, what is other than a failed first try), and why each
# was sent.
SEQUENCES: list[tuple[str, list[tuple[float, dict[str, Any]]], Layers]] = [
    ("the SDK's own", [(0, {}), (1, {"retry_count": 1}), (2, {"retry_count": 2})], Layers(call=1, sdk=2)),
    ("a loop above", [(0, {}), (1, {}), (2, {})], Layers(call=1, above=2)),
    ("both", [(0, {}), (1, {"retry_count": 1}), (2, {}), (3, {"retry_count": 1})], Layers(call=1, above=1, sdk=2)),
    ("a limit that was met", [(0, {"status": 429}), (1, {})], Layers(call=1, above=1)),
    ("a redirect, and where it leads", [(0, {"status": 302}), (1, GOOD)], Layers(call=2)),
    ("a client that says nothing", [(0, {"retry_count": None}), (1, {"retry_count": None})], Layers(call=1, untold=1)),
    ("the next step", [(0, GOOD), (1, GOOD), (2, GOOD)], Layers(call=3)),
    ("a step, and its retry", [(0, GOOD), (1, {}), (2, {"retry_count": 1})], Layers(call=2, sdk=1)),
    ("a fallback there", [(0, {}), (1, {"model": "small"})], Layers(call=1, elsewhere=1)),
    ("its next step", [(0, {}), (1, {**GOOD, "model": "small"}), (2, GOOD)], Layers(call=2, elsewhere=1)),
    ("a tool that failed", [(0, {"dialect": "mcp", "model": None}), (1, GOOD)], Layers(call=2)),
    (
        "a tool sent again",
        [(0, {"dialect": "mcp", "model": None}), (1, {"dialect": "mcp", "model": None})],
        Layers(call=1, above=1),
    ),
    ("side by side", [(0, {"took_s": 2}), (1, {"took_s": 2})], Layers(call=2)),
    ("a retry whose first never came", [(0, {"retry_count": 1})], Layers(sdk=1)),
    ("cut short", [(0, {**GOOD, "end": "cut"}), (1, {"retry_count": None})], Layers(call=1, untold=1)),
    ("ended early", [(0, {**GOOD, "terminal": False, "intact": False}), (1, {})], Layers(call=1, above=1)),
    ("coded as nobody reads", [(0, {**GOOD, "terminal": None}), (1, {})], Layers(call=2)),
    ("a script's good answer", [(0, {"status": 200}), (1, {"status": 200})], Layers(call=2)),
    ("no answer", [(0, {"status": None, "end": "rst"}), (1, {"retry_count": 1})], Layers(call=1, sdk=1)),
    ("a reset, then nobody knows what", [(0, UNREAD), (1, UNREAD)], Layers(call=1, unread=1)),
    ("a reset that was read, then not", [(0, {"status": None}), (1, UNREAD)], Layers(call=1, unread=1)),
    ("a reset, then a model of its own", [(0, UNREAD), (1, {"model": "small"})], Layers(call=1, elsewhere=1)),
    ("a reset, then the usual model", [(0, UNREAD), (1, {})], Layers(call=1, unread=1)),
    (
        "a reset, and the SDK says that it tries again",
        [(0, UNREAD), (1, {**UNREAD, "retry_count": 1})],
        Layers(call=1, sdk=1),
    ),
    (
        "an API without models",
        [(0, {**UNREAD, "dialect": "plain"}), (1, {**UNREAD, "dialect": "plain"})],
        Layers(call=1, above=1),
    ),
    (
        "a hedge that was dropped when the other won, and the next step",
        [(0, {**GONE, "took_s": 1.0}), (0.3, {**GOOD, "took_s": 0.7}), (1.1, GOOD)],
        Layers(call=3),
    ),
    (
        "a hedge that a fault held, won by a fallback, and the next step",
        [
            (0, {"status": None, "end": "held", "took_s": 1.05}),
            (0.3, {**GOOD, "model": "small", "took_s": 0.7}),
            (1.2, {}),
        ],
        Layers(call=3),
    ),
    ("a time limit, and a try again", [(0, {**GONE, "took_s": 1.0}), (1.1, {})], Layers(call=1, above=1)),
    (
        "a time limit, long behind another's answer",
        [(0, {**GONE, "took_s": 2.0}), (0.1, {**GOOD, "took_s": 0.2}), (2.1, {})],
        Layers(call=2, above=1),
    ),
    (
        "a time limit, just behind an answer that was there before it was asked",
        [(0, GOOD), (0.01, {**GONE, "took_s": 0.05}), (0.2, {})],
        Layers(call=2, above=1),
    ),
    ("two side by side, both lost", [(0, {"took_s": 1.0}), (0.3, {"took_s": 0.7}), (1.1, {})], Layers(call=2, above=1)),
    ("seen to end late", [(0, {"took_s": 1.005}), (1, {})], Layers(call=1, above=1)),
]


@pytest.mark.parametrize(("said", "attempts", "layers"), SEQUENCES, ids=[row[0] for row in SEQUENCES])
def test_each_attempt_is_of_the_layer_that_the_wire_shows(
    said: str, attempts: list[tuple[float, dict[str, Any]]], layers: Layers
) -> None:
    paper = scene(PATIENT)
    for at_s, over in attempts:
        attempt(paper, 30, at_s, **over)
    assert fault_of(paper).layers == layers


def test_side_by_side_each_failure_is_followed_once() -> None:
    paper = scene(PATIENT)
    for at_s in (0.0, 0.01, 0.02):  # three tools at once, all of which fail
        attempt(paper, 30, at_s, 0.5)
    for at_s in (1.0, 1.01, 1.02):
        attempt(paper, 30, at_s, retry_count=1, **GOOD)
    attempt(paper, 30, 2.0, **GOOD)
    assert fault_of(paper).layers == Layers(call=4, sdk=3)


BROKEN: dict[str, Any] = {**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False}


def test_side_by_side_a_retry_follows_the_try_before_it() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0.0, 0.5)
    attempt(paper, 30, 0.01, 0.5, tokens_estimated=40, **BROKEN)
    attempt(paper, 30, 1.0, retry_count=1)  # of the first
    attempt(paper, 30, 2.0, retry_count=2, tokens=100, **GOOD)  # of the first as well, which had cost nothing yet
    attempt(paper, 30, 2.1, retry_count=1, tokens=7, **GOOD)
    phase = fault_of(paper)
    assert phase.layers == Layers(call=2, sdk=3)
    assert (phase.tokens.told, phase.tokens.again) == (107, 7)


def test_a_retry_may_begin_before_the_wire_has_seen_the_end_of_what_it_follows() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0.0, 2.0, tokens_estimated=40, **BROKEN)
    attempt(paper, 30, 1.0, retry_count=1, tokens=100, **GOOD)
    phase = fault_of(paper)
    assert phase.layers == Layers(call=1, sdk=1)
    assert phase.tokens.again == 100


def test_retries_in_retries_multiply_and_the_worst_call_is_told() -> None:
    paper = scene(PATIENT)
    for n in (30, 31, 32):
        for call in range(2 if n < 32 else 3):
            for count in range(3):
                attempt(paper, n, call + count * 0.2, retry_count=count)
    phase = fault_of(paper)
    assert (phase.nested.requests, phase.nested.tries, phase.nested.attempts_a_try, phase.nested.attempts) == (
        3,
        3,
        3,
        9,
    )
    assert phase.layers == Layers(call=3, sdk=14, above=4)
    assert phase.most == Exact(9.0, 60)
    assert phase.mean == Exact(21 / 60, 60)


# What an answer asked, when the next attempt came, and what that is.
GAPS: list[tuple[str, dict[str, Any], float | None, str, float | None]] = [
    ("kept to the tenth", {"asked_s": 2.0, "asked_by": "seconds"}, 2.001, "kept", None),
    ("a timer's grain", {"asked_s": 2.0, "asked_by": "ms"}, 1.995, "kept", None),
    ("early", {"asked_s": 2.0, "asked_by": "seconds"}, 0.5, "early", 1.5),
    ("a date has whole seconds", {"asked_s": 2.0, "asked_by": "date"}, 1.1, "kept", None),
    ("and no more", {"asked_s": 2.0, "asked_by": "date"}, 0.8, "early", 1.2),
    ("gave up", {"asked_s": 2.0, "asked_by": "body"}, None, "gave_up", None),
    ("no wait", {"asked_s": 0.0, "asked_by": "date"}, 0.001, "kept", None),
    ("no meaning", {"asked_by": "unreadable"}, 0.001, "unreadable", None),
]


@pytest.mark.parametrize(("said", "asks", "then_s", "what", "early_s"), GAPS, ids=[row[0] for row in GAPS])
def test_a_gap_is_held_against_the_wait(
    said: str, asks: dict[str, Any], then_s: float | None, what: str, early_s: float | None
) -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0, 0.0, status=429, **asks)
    if then_s is not None:
        attempt(paper, 30, then_s, retry_count=1)
    waits = fault_of(paper).waits
    assert getattr(waits, what) == 1
    assert waits.kept + waits.early + waits.gave_up + waits.user_left == waits.asked == (what != "unreadable")
    assert waits.most_early_s == (None if early_s is None else pytest.approx(early_s))


def test_a_wait_is_counted_from_the_answer_s_first_byte_and_to_the_same_model() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0, 0.5, status=429, asked_s=1.0, asked_by="seconds", first_ns=31 * S)  # a slow body
    attempt(paper, 30, 0.6, model="small", **GOOD | {"window": "w1"})  # the fallback need not wait
    attempt(paper, 30, 1.0)
    waits = fault_of(paper).waits
    assert (waits.kept, waits.early) == (1, 0)


def test_what_began_before_the_answer_could_not_know_of_the_wait() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0.0, 1.0, status=429, asked_s=1.0, asked_by="seconds")
    attempt(paper, 30, 0.5, **GOOD)  # side by side
    attempt(paper, 30, 2.1, retry_count=1)
    waits = fault_of(paper).waits
    assert (waits.kept, waits.early) == (1, 0)


def test_a_user_who_leaves_before_the_wait_is_over_is_no_client_that_gave_up() -> None:
    left = Answer(5_000, result="timeout", status=None, answer=None, attempts=0)
    paper = scene(left)
    attempt(paper, 30, 0, status=429, asked_s=3600.0, asked_by="seconds")
    attempt(paper, 31, 0, status=429, asked_s=1.0, asked_by="seconds")  # it could have been back in time
    waits = fault_of(paper).waits
    assert (waits.user_left, waits.gave_up, waits.longest_s) == (1, 1, 3600.0)


def test_pauses_are_a_client_s_own_where_nothing_was_asked() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0, 0.1)
    attempt(paper, 30, 0.6, 0.1, retry_count=1)
    attempt(paper, 30, 0.71, 0.1, status=429, asked_s=1.0, asked_by="seconds")
    attempt(paper, 30, 1.9, retry_count=1)
    pauses = fault_of(paper).pauses
    assert (pauses.retries, pauses.at_once) == (2, 1)
    assert isinstance(pauses.p50_s, Exact) and pauses.p50_s.value == pytest.approx(0.01)


def test_one_unread_attempt_may_be_a_fallback_and_more_of_one_call_are_pauses() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0, **UNREAD)
    attempt(paper, 30, 0.01, **UNREAD)
    assert fault_of(paper).pauses.retries == 0
    attempt(paper, 30, 0.02, **UNREAD)
    attempt(paper, 30, 0.53, **UNREAD)
    pauses = fault_of(paper).pauses
    assert (pauses.retries, pauses.unread, pauses.at_once) == (3, 3, 2)
    assert fault_of(paper).layers == Layers(call=1, unread=3)
    attempt(paper, 40, 0, **UNREAD)  # another request's one is none
    attempt(paper, 40, 0.01, **UNREAD)
    assert fault_of(paper).pauses == pauses


def test_what_attempts_of_nobody_s_cost_stands_beside_the_sums() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0, tokens=10)
    attempt(paper, 30, 0.5, trace=None, tokens=7)
    attempt(paper, 30, 0.6, trace=None, tokens_estimated=5)
    attempt(paper, 30, 0.7, trace=None, dialect="mcp", tokens_estimated=5)  # tools cost none
    made = books(paper)
    fault = made.phase("fault", "w1")
    assert fault is not None and fault.unattributed == made.storms[0].fault.unattributed == 3
    assert fault.tokens == Tokens(told=10, attempts=1, nobodys=7, nobodys_estimated=5)


def test_tokens_are_billed_again_only_where_a_call_had_cost_some() -> None:
    paper = scene(PATIENT)
    cut = {**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False}
    attempt(paper, 30, 0, tokens_estimated=40, **cut)
    attempt(paper, 30, 1, retry_count=1, tokens_estimated=60, **cut)
    attempt(paper, 30, 2, retry_count=2, tokens=100, **GOOD)
    attempt(paper, 30, 3, tokens=500, **GOOD)  # the agent's next step
    attempt(paper, 31, 0)  # an error costs nothing
    attempt(paper, 31, 1, retry_count=1, tokens=100, **GOOD)
    attempt(paper, 32, 0, tokens_estimated=70, dialect="mcp", **cut)
    tokens = fault_of(paper).tokens
    assert (tokens.told, tokens.estimated) == (700, 100)
    assert (tokens.again, tokens.again_estimated, tokens.again_attempts) == (100, 60, 2)


def test_attempts_of_nobody_s_make_every_number_a_lower_bound_and_no_load_one() -> None:
    paper = scene(trace=False, every_s=1.0)
    for at_s in (0.3, 0.4, 0.5):  # between two requests: nobody was waiting
        attempt(paper, 30, at_s, trace=None)
    phase, storm = fault_of(paper), books(paper).storms[0]
    assert (phase.attempts, phase.unattributed) == (0, 3)
    assert phase.most == AtLeast(0.0, 60)
    assert phase.p95 == AtLeast(0, 60)
    assert storm.fault.each == Exact(3 / 60, 60)


def test_what_begins_behind_its_user_s_end_is_work_for_nobody() -> None:
    paper = scene(ALONE)
    for at_s in (0.0, 0.5, 1.5):
        attempt(paper, 30, at_s, 0.001)
    for at_s in (0.0, 0.5, 1.5):  # the agent writes its notes when the user has the answer
        attempt(paper, 31, at_s, 0.001, **GOOD)
    assert fault_of(paper).for_nobody == 2


def test_load_counts_attempts_by_time_over_users_on_schedule() -> None:
    paper = scene(PATIENT)
    for n in range(20, 79):  # each request of the fault, three times within the second it was due
        for at_s in (0.0, 0.2, 0.4):
            attempt(paper, n, at_s)
    for k in range(40):  # a herd: requests of the fault's last second, tried again when the endpoint is back
        attempt(paper, 78, 2.0 + k * 0.001, **GOOD)
    storm = books(paper).storms[0]
    assert storm.fault.factor == Exact(3 * 59 / 60, 60)
    back = storm.back
    assert back is not None
    assert (back.end_s - back.start_s, back.due, back.attempts) == (RETURN_S, 10, 50)
    assert back.factor == Exact(5.0, 10)
    assert back.peak_per_s == 41
    assert storm.rest is not None and storm.rest.factor == Exact(1.0, 10)


def test_a_slow_traffic_has_a_longer_return() -> None:
    back = books(scene(every_s=1.5, recovery_s=40)).storms[0].back
    assert back is not None and back.end_s - back.start_s == 15.0


def test_a_request_caught_by_a_window_is_the_window_s_alone() -> None:
    paper = scene(PATIENT)
    again_ns = paper.lift_ns + 10 * S
    paper.add("events/proxy.jsonl", again_ns, "fault_injected", window="w2", fault="503", params={})
    paper.add("events/proxy.jsonl", again_ns + 5 * S, "fault_lifted", window="w2", why="ordered")
    attempt(paper, 18, 0.5, 2.0)  # due a second before the first window, and met by it
    attempt(paper, 88, 0.5, 2.0, window="w2")
    run = paper.run()
    made = books(run)
    assert [p.requests for p in made.phases] == [18, 61, 9, 6, 5]
    assert sum(p.requests for p in made.phases) == len(run.requests)


step = st.tuples(
    st.integers(20, 79),
    st.floats(0, 30, allow_nan=False),
    st.floats(0, 2, allow_nan=False),
    st.fixed_dictionaries(
        {
            "status": st.sampled_from([None, 200, 429, 503]),
            "retry_count": st.sampled_from([None, 0, 1, 2]),
            "model": st.sampled_from(["m", "small", None]),
            "end": st.sampled_from(["clean", "cut", "held", "client_gone"]),
            "upstream": st.booleans(),
            "terminal": st.sampled_from([None, True, False]),
            "trace": st.sampled_from([None, f"{30:032x}", f"{40:032x}"]),
        },
        optional={
            "asked_s": st.floats(0, 100, allow_nan=False),
            "asked_by": st.just("seconds"),
            "tokens": st.integers(0, 1000),
            "tokens_estimated": st.integers(0, 1000),
        },
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(step, max_size=25))
def test_nothing_is_lost_and_nothing_counted_twice(steps: list[tuple[int, float, float, dict[str, Any]]]) -> None:
    paper = scene(PATIENT)
    for k, (n, at_s, took_s, over) in enumerate(steps):
        attempt(paper, n, at_s, took_s, **{"id": f"y{k}", **over})
    run = paper.run()
    made = books(run)
    owned = sum(a.request is not None for a in run.attempts)
    assert sum(p.attempts for p in made.phases) == owned
    for phase in made.phases:
        layers, waits, tokens = phase.layers, phase.waits, phase.tokens
        assert (
            layers.call + layers.sdk + layers.above + layers.elsewhere + layers.untold + layers.unread == phase.attempts
        )
        assert waits.kept + waits.early + waits.gave_up + waits.user_left == waits.asked
        assert tokens.again <= tokens.told and tokens.again_estimated <= tokens.estimated
        assert tokens.again_attempts <= tokens.attempts <= phase.attempts
        assert phase.pauses.retries - phase.pauses.unread <= layers.retries and phase.for_nobody <= layers.retries
        assert phase.pauses.unread <= layers.unread
        assert phase.nested.requests <= phase.requests and phase.nested.attempts <= phase.attempts
    loads = [made.baseline, *(load for s in made.storms for load in (s.fault, s.back, s.rest) if load is not None)]
    assert sum(load.attempts for load in loads) == len(run.attempts)
    assert (
        sum(load.unattributed for load in loads)
        == sum(p.unattributed for p in made.phases)
        == len(run.attempts) - owned
    )
    assert sum(load.retries for load in loads) == sum(p.layers.retries for p in made.phases)
    assert paper.run() == run and books(run) == made


def test_a_run_from_before_these_fields_is_read_and_says_what_it_can() -> None:
    run = open_run(Path(__file__).parent.parent / "golden" / "eviction" / "fail-no-fallback")
    made = books(run)
    assert sum(p.attempts for p in made.phases) == sum(a.request is not None for a in run.attempts) > 0
    assert all(p.waits == Waits() and p.tokens == Tokens() for p in made.phases)
