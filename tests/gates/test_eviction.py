"""The eviction gate over drills on paper: fail where the agent failed, refuse only where the drill did."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.evidence import Defect, Row
from drillmaster.gates import find, names
from drillmaster.gates.eviction import Eviction
from drillmaster.verdict import AtLeast, AtMost, Exact
from tests.scene import BROKEN, FALLBACK, LIMITS, PRIMARY, Answer, S, Scene, healthy, judged

# -- the agents: each one's verdict and diagnosis


def test_a_healthy_agent_passes_and_hears_what_a_pass_does_not_prove() -> None:
    status, checks, findings = judged(Scene())
    assert status == "pass", [c for c in checks.values() if c.status != "pass"]
    assert findings.keys() == {"transport-only"}
    assert checks["fallback"].observed == Exact(0.025, 1)


def test_a_black_box_that_writes_nothing_and_passes_no_trace_on_gets_the_same_verdict() -> None:
    status, checks, _ = judged(Scene(trace=False, marks=False))
    assert status == "pass", [c for c in checks.values() if c.status != "pass"]
    assert "alone" in checks["attribution"].why


def test_no_fallback_at_all_took_at_least_the_whole_window_and_fails() -> None:
    status, checks, findings = judged(Scene(lambda n, s, on: BROKEN if on else PRIMARY))
    assert status == "fail"
    assert checks["fallback"].observed == AtLeast(60.0)
    assert checks["fallback"].status == checks["failed"].status == "fail"
    assert "no-fallback" in findings


def test_the_class_that_escaped_is_named() -> None:
    raised = Answer(15, status=500, answer=None, marks=(("unhandled_exception", {"kind": "APIConnectionError"}),))
    status, checks, findings = judged(Scene(lambda n, s, on: raised if on else PRIMARY))
    assert status == "fail"
    assert checks["exceptions"].status == "fail"
    assert "APIConnectionError" in findings["no-fallback"].cause


def test_an_exception_without_its_class_is_a_finding() -> None:
    raised = Answer(15, status=500, answer=None, marks=(("unhandled_exception", {"kind": "unknown"}),))
    assert "exception-class-lost" in judged(Scene(lambda n, s, on: raised if on and n == 40 else healthy(n, s, on)))[2]


def test_a_late_fallback_fails_and_says_what_was_lost_first() -> None:
    status, checks, findings = judged(Scene(lambda n, s, on: BROKEN if on and s < 20 else healthy(n, s, on)))
    assert status == "fail"
    assert isinstance(checks["fallback"].observed, Exact)
    assert 20 <= checks["fallback"].observed.value < 21
    assert "late-fallback" in findings
    assert "no-fallback" not in findings


def test_a_fallback_that_errs_on_some_prompts_is_told_by_prompt() -> None:
    status, checks, findings = judged(Scene(lambda n, s, on: BROKEN if on and n % 2 and s > 3 else healthy(n, s, on)))
    assert status == "fail"
    assert checks["fallback"].status == "pass"
    assert "payloads 1 of 2" in findings["fallback-errs"].cause


def test_a_slow_fallback_passes_with_a_finding_at_twice_the_baseline() -> None:
    slow = Answer(40, marks=FALLBACK.marks)
    status, _, findings = judged(Scene(lambda n, s, on: slow if on else PRIMARY))
    assert status == "pass"
    assert "2.0 times" in findings["slow-fallback"].cause
    almost = Answer(39, marks=FALLBACK.marks)
    assert "slow-fallback" not in judged(Scene(lambda n, s, on: almost if on else PRIMARY))[2]


def test_a_fallback_that_waits_for_the_sdk_to_try_again_is_slow_for_that() -> None:
    behind_a_retry = Answer(480, attempts=2, marks=FALLBACK.marks)
    finding = judged(Scene(lambda n, s, on: behind_a_retry if on else PRIMARY))[2]["slow-fallback"]
    assert "60 of 120 attempts are its retries" in finding.cause
    assert "max_retries" in finding.next and "cache" not in finding.cause + finding.next


def test_one_exception_and_then_silence_is_told_as_such() -> None:
    silent = Answer(5000, result="timeout", status=None, answer=None, attempts=0)
    first = Answer(15, status=500, answer=None, marks=(("unhandled_exception", {"kind": "ReadError"}),))
    scene = Scene(lambda n, s, on: first if on and s == 0 else silent if n >= 19 else PRIMARY)
    status, checks, findings = judged(scene)
    assert status == "fail"
    assert "ReadError" in findings["worker-silent"].cause
    assert checks["recovery"].status == "fail"
    assert "no-fallback" not in findings


def test_a_worker_that_died_fails_though_it_wrote_no_exception() -> None:
    scene = Scene(marks=False)
    scene.add("events/conductor.jsonl", scene.inject_ns + S, "worker_exited", pid=1, code=-9, expected=False)
    status, checks, findings = judged(scene)
    assert status == "fail"
    assert "signal 9" in checks["exceptions"].why
    assert "worker-silent" in findings


def test_a_retry_storm_is_found_though_users_were_served() -> None:
    storm = Answer(25, attempts=12, marks=FALLBACK.marks)
    status, _, findings = judged(Scene(lambda n, s, on: storm if on else PRIMARY))
    assert status == "pass"
    assert "12.0 each" in findings["retry-storm"].cause
    sdk = Answer(25, attempts=3, marks=FALLBACK.marks)
    assert "retry-storm" not in judged(Scene(lambda n, s, on: sdk if on else PRIMARY))[2]


def test_a_fallback_that_never_lets_go_fails_the_recovery() -> None:
    stuck = Answer(25, attempts=0, marks=FALLBACK.marks)
    scene = Scene(lambda n, s, on: FALLBACK if on and s < 2 else stuck if n >= 19 else PRIMARY)
    status, checks, findings = judged(scene)
    assert status == "fail"
    assert checks["recovery"].status == "fail"
    assert isinstance(checks["recovery"].observed, AtLeast)
    assert "sticky-fallback" in findings


@pytest.mark.parametrize(
    "nothing",
    [
        Answer(15, answer="empty", marks=FALLBACK.marks),
        Answer(15, answer="degraded", marks=FALLBACK.marks),
        Answer(15, status=500, answer=None, marks=FALLBACK.marks),
    ],
)
def test_a_marker_without_an_answer_is_a_phantom(nothing: Answer) -> None:
    status, checks, findings = judged(Scene(lambda n, s, on: nothing if on else PRIMARY))
    assert status == "fail"
    assert checks["fallback"].status == "fail"
    assert "phantom-fallback" in findings
    assert "no-fallback" not in findings


def test_a_hang_without_a_client_limit_is_told_by_how_long_the_attempts_were_held() -> None:
    scene = Scene(
        lambda n, s, on: Answer(5000, result="timeout", status=None, answer=None) if on else PRIMARY, mode="hang"
    )
    for i, row in enumerate(scene.rows):
        if row.event == "attempt" and row.fields["window"] == "w1":
            held = {**row.fields, "end_ns": row.fields["start_ns"] + 30 * S, "end": "held"}
            scene.rows[i] = type(row)(row.file, row.line, row.wall_ns, row.event, held)
    status, _, findings = judged(scene)
    assert status == "fail"
    assert "no-client-time-limit" in findings
    assert "no-fallback" not in findings


def test_a_worker_that_claims_the_primary_while_the_wire_was_dead_is_contradicted() -> None:
    liar = Answer(25, marks=PRIMARY.marks)
    status, _, findings = judged(Scene(lambda n, s, on: liar if on else PRIMARY))
    assert status == "pass"  # users were served, and no byte of the primary lies behind it
    assert "marks-against-wire" in findings


def test_the_scribes_time_against_the_wires_names_both() -> None:
    scene = Scene().drop("note", kind="injection_seen")
    scene.add("events/notes.jsonl", scene.inject_ns + 45 * S, "note", kind="injection_seen", text="", by="Bo")
    status, _, findings = judged(scene)
    assert status == "pass"
    assert "45 s after" in findings["scribe-against-wire"].cause


def test_a_scribe_who_saw_no_fallback_while_the_wire_did_is_asked() -> None:
    scene = Scene().drop("note", kind="first_fallback_seen")
    scene.add("events/notes.jsonl", scene.inject_ns + S, "note", kind="no_fallback_seen", text="", by="Bo")
    assert "scribe-fallback" in judged(scene)[2]


# -- outcomes that a 5xx counter does not see


@pytest.mark.parametrize(
    "got",
    [
        Answer(5000, result="timeout", status=None, answer=None),
        Answer(5, result="refused", status=None, answer=None),
        Answer(5, result="reset", status=None, answer=None),
        Answer(5, result="cut", status=200, answer=None),
        Answer(5, result="protocol", status=None, answer=None),
        Answer(5, status=429, answer=None),
        Answer(5, status=401, answer=None),
        Answer(5, status=302, answer=None),
        Answer(5, status=204, answer=None),
        Answer(5, answer="empty"),
        Answer(5, answer="degraded"),
    ],
)
def test_every_failed_outcome_counts_against_the_budget(got: Answer) -> None:
    status, checks, _ = judged(Scene(lambda n, s, on: got if on and n % 3 == 0 else healthy(n, s, on)))
    assert status == "fail"
    assert checks["failed"].status == "fail"


def test_a_request_that_never_ended_fails() -> None:
    never = Answer(0, result="never")
    status, checks, _ = judged(Scene(lambda n, s, on: never if n == 40 else healthy(n, s, on)))
    assert status == "fail"
    assert checks["ended"].status == "fail"


def test_a_worker_request_that_never_ended_fails_unless_its_time_was_not_up() -> None:
    scene = Scene()
    scene.add("timeline.jsonl", scene.end_ns - S, "user_request", id="late", phase="start")
    assert judged(scene)[0] == "pass"
    scene.add("timeline.jsonl", scene.inject_ns + S, "user_request", id="lost", phase="start")
    status, checks, _ = judged(scene)
    assert status == "fail"
    assert checks["ended"].observed == Exact(1, n=101)


def test_the_budget_is_not_diluted_by_the_baseline() -> None:
    bad = Scene(lambda n, s, on: BROKEN if on and n % 10 == 0 else healthy(n, s, on), baseline_s=300, fault_s=60)
    assert judged(bad, failed_window="fault")[0] == "fail"
    assert judged(bad, failed_window="run")[0] == "pass"


# -- the drill failed: refused


def refused_by(scene: Scene, check: str, **limits: object) -> None:
    status, checks, _ = judged(scene, **limits)
    assert status == "refused"
    assert checks[check].status == "refused"
    assert checks[check].remedy


def test_no_injection_is_refused() -> None:
    refused_by(Scene().drop("fault_injected").drop("fault_lifted"), "anchor")


def test_a_fault_that_met_nobody_is_refused_never_passed() -> None:
    refused_by(Scene(lambda n, s, on: Answer(20, attempts=0 if on else 1)).drop("fault_met"), "proof")


def test_a_fault_that_read_no_client_byte_is_refused() -> None:
    scene = Scene()
    for row in scene.rows:
        if row.event == "fault_met":
            row.fields["client_bytes"] = 0
    refused_by(scene, "proof")


def test_requests_kept_away_by_an_open_breaker_count_as_met_once_one_attempt_was() -> None:
    def breaker(n: int, since_s: float, on: bool) -> Answer:
        return Answer(25, attempts=1 if since_s < 2 else 0, marks=FALLBACK.marks) if on else PRIMARY

    status, checks, _ = judged(Scene(breaker), min_met=50)
    assert status == "pass", checks["proof"]


def test_too_few_met_is_refused() -> None:
    refused_by(Scene(), "proof", min_met=61)


def test_a_sick_baseline_is_refused_and_not_the_agents_failure() -> None:
    refused_by(Scene(lambda n, s, on: BROKEN if not on else FALLBACK), "baseline")


def test_an_exception_before_the_injection_is_a_sick_baseline() -> None:
    scene = Scene()
    scene.add("timeline.jsonl", 5 * S, "unhandled_exception", id="x", kind="KeyError")
    refused_by(scene, "baseline")


def test_an_exception_while_the_worker_was_started_is_not() -> None:
    scene = Scene()
    scene.add("timeline.jsonl", -S, "unhandled_exception", id="x", kind="KeyError")
    assert judged(scene)[0] == "pass"


def test_an_agent_that_goes_round_the_proxy_is_a_drill_that_failed() -> None:
    refused_by(Scene(lambda n, s, on: Answer(20, attempts=0)), "baseline")


def test_no_baseline_at_all_is_refused() -> None:
    refused_by(Scene(baseline_s=0.5), "baseline")


def test_a_window_cut_short_is_refused() -> None:
    scene = Scene()
    scene.manifest.phases["fault_s"] = 900
    refused_by(scene, "window")


@pytest.mark.parametrize("why", ["expired", "signal", "exit"])
def test_a_lift_that_the_lead_did_not_order_is_refused(why: str) -> None:
    scene = Scene().drop("fault_lifted")
    scene.add("events/proxy.jsonl", scene.lift_ns, "fault_lifted", window="w1", why=why)
    refused_by(scene, "window")


def test_a_fault_never_lifted_is_refused() -> None:
    refused_by(Scene().drop("fault_lifted"), "window")


def test_too_few_requests_to_tell_the_budget_are_refused() -> None:
    refused_by(Scene(fault_s=60), "enough", max_failed_ratio=0.01)


def test_a_budget_of_nothing_is_a_census_and_needs_no_number() -> None:
    assert judged(Scene(), max_failed_ratio=0)[0] == "pass"
    one = Scene(lambda n, s, on: BROKEN if n == 40 else healthy(n, s, on))
    assert judged(one, max_failed_ratio=0)[0] == "fail"


def test_code_that_changed_in_mid_drill_is_refused() -> None:
    for what in ("commit", "dirt_sha256", "plan_sha256", "policy_sha256"):
        scene = Scene()
        next(r for r in scene.rows if r.event == "code_state" and r.fields["at"] == "lift").fields[what] = "other"
        refused_by(scene, "code")


def test_a_plan_that_vanished_is_told_as_gone_not_as_changed() -> None:
    scene = Scene()
    row = next(r for r in scene.rows if r.event == "code_state" and r.fields["at"] == "end")
    row.fields["plan_sha256"] = "gone from plan.yaml"
    refused_by(scene, "code")
    assert "gone from plan.yaml" in judged(scene)[1]["code"].why


def test_a_commit_that_nobody_knows_is_recorded_and_not_refused() -> None:
    scene = Scene()
    for row in scene.rows:
        if row.event == "code_state":
            row.fields["commit"] = row.fields["dirt_sha256"] = None
    status, checks, _ = judged(scene)
    assert status == "pass"
    assert "no commit of the code is known" in checks["code"].title  # which is true of a repository without one too


def test_a_code_state_that_was_not_read_is_refused() -> None:
    refused_by(Scene().drop("code_state", at="end"), "code")


def test_a_clock_that_stepped_is_refused() -> None:
    scene = Scene()
    row = scene.rows[-1]
    scene.rows[-1] = type(row)(row.file, row.line, row.wall_ns + 90 * S, row.event, row.fields)
    refused_by(scene, "clocks")


def test_a_fault_that_is_still_there_after_the_lift_is_refused() -> None:
    refused_by(Scene().drop("fault_gone"), "gone")
    scene = Scene().drop("fault_gone")
    scene.add("events/conductor.jsonl", scene.lift_ns + S, "fault_gone", window="w1", gone=False, why="RST")
    refused_by(scene, "gone")


def test_an_aborted_drill_is_refused_with_its_reason() -> None:
    scene = Scene().drop("drill_ended")
    scene.add("events/conductor.jsonl", scene.end_ns, "drill_ended", status="aborted", why="SIGINT")
    refused_by(scene, "completed")
    refused_by(Scene().drop("drill_ended"), "completed")


def test_a_broken_seal_is_refused_and_says_where() -> None:
    run = Scene().run(seal_problems=["events/proxy.jsonl:17 altered"])
    status, checks, _ = judged(run)
    assert status == "refused"
    assert "proxy.jsonl:17" in checks["sealed"].why


def test_a_hole_in_our_own_evidence_is_refused_one_in_the_workers_is_told() -> None:
    ours = Scene()
    ours.rows.append(Defect("events/traffic.jsonl", 9, "torn", "{", "a whole line"))  # type: ignore[arg-type]
    refused_by(ours, "evidence")
    theirs = Scene()
    theirs.rows.append(Defect("timeline.jsonl", 9, "torn", "{", "a whole line"))  # type: ignore[arg-type]
    status, checks, _ = judged(theirs)
    assert status == "pass"
    assert "1 damaged" in checks["evidence"].title


def test_a_damaged_line_that_may_have_been_an_exception_is_refused() -> None:
    scene = Scene()
    scene.rows.append(Defect("timeline.jsonl", 9, "torn", "half a line", "a whole line", "unhandled_exception"))  # type: ignore[arg-type]
    refused_by(scene, "exceptions")


def test_the_scribes_silence_is_refused_but_a_failure_outranks_it() -> None:
    refused_by(Scene(notes=False), "scribe")
    assert judged(Scene(lambda n, s, on: BROKEN if on else PRIMARY, notes=False))[0] == "fail"


def test_a_rehearsal_asks_for_no_scribe() -> None:
    assert judged(Scene(notes=False, stamps=("REHEARSAL",)))[0] == "pass"


# -- attribution


def test_overlapping_answers_without_trace_after_the_lift_are_bounded_by_the_attempts() -> None:
    slow = Answer(2500, marks=())
    scene = Scene(lambda n, s, on: Answer(1500, marks=()) if on else slow, trace=False, marks=False)
    _, checks, _ = judged(scene, max_baseline_failed_ratio=0.02)
    assert isinstance(checks["recovery"].observed, AtMost)
    assert checks["recovery"].status == "pass"
    assert checks["attribution"].status == "refused"


def test_an_answer_in_the_window_that_the_primary_may_lie_behind_does_not_prove_a_fallback() -> None:
    scene = Scene(trace=False)
    # One unfaulted attempt of nobody's in the middle of the fault, under two users' requests.
    scene.add(
        "events/proxy.jsonl", scene.inject_ns + 4 * S, "attempt", id="odd", window=None, conn=9, nth=1, method="POST",
        path="/", dialect="plain", model=None, stream=False, status=200, retry_count=None, key=None, trace=None,
        nonce=None, start_ns=scene.inject_ns + 1000, first_ns=1, end_ns=scene.inject_ns + 3 * S, up_bytes=1,
        down_bytes=1, end="clean", terminal=True, upstream=True,
    )  # fmt: skip
    run = scene.run()
    first = next(r for r in run.requests if r.due_ns == scene.inject_ns)
    assert first.outcome == "ok_primary"  # alone in flight when it began


def test_every_window_is_judged_not_the_first() -> None:
    scene = Scene(lambda n, s, on: healthy(n, s, on) if s < 40 else BROKEN if on else PRIMARY)
    cut = scene.inject_ns + 40 * S
    scene.drop("fault_lifted")
    scene.add("events/proxy.jsonl", cut - S, "fault_lifted", window="w1", why="ordered")
    scene.add("events/proxy.jsonl", cut, "fault_injected", window="w2", fault="reset", params={})
    scene.add("events/proxy.jsonl", scene.lift_ns, "fault_lifted", window="w2", why="ordered")
    for row in scene.rows:
        if row.event == "fault_met" and row.fields["ns"] > cut:
            row.fields["window"] = "w2"
    _, checks, _ = judged(scene)
    assert checks["fallback [w1]"].status == "pass"
    assert checks["fallback [w2]"].status == "fail"


# -- limits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_failed_ratio", 1),
        ("max_failed_ratio", 1.5),
        ("max_failed_ratio", -0.1),
        ("max_failed_ratio", math.nan),
        ("max_failed_ratio", math.inf),
        ("max_fallback_s", 0),
        ("max_fallback_s", -1),
        ("max_fallback_s", math.nan),
        ("max_fallback_s", math.inf),
        ("max_recovery_s", 0),
        ("min_met", 0),
        ("max_clock_step_s", math.nan),
    ],
)
def test_a_limit_that_decides_nothing_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Eviction(**{**LIMITS, field: value})


def test_the_sentence_is_printed_from_the_limits_and_names_its_window() -> None:
    sentence = Eviction(**LIMITS).sentence(Scene().run())
    assert sentence == (
        "Over the 60 s of the fault, no more than 5 % of user requests may fail; a fallback must engage within 5 s of the "
        "fault, and the primary must answer again within 5 s."
    )


def test_the_catalogue_lists_without_importing_and_hints_at_the_nearest() -> None:
    assert "eviction" in names()
    assert find("eviction") is Eviction
    with pytest.raises(Exception, match="did you mean eviction"):
        find("evicton")


@given(st.permutations(range(30)))
def test_the_verdict_does_not_depend_on_the_order_of_lines(order: list[int]) -> None:
    scene = Scene(fault_s=24, baseline_s=5, recovery_s=6)
    want = judged(scene)[0]
    rows = scene.rows
    scene.rows = [rows[i] for i in order if i < len(rows)] + rows[30:]
    assert judged(scene)[0] == want == "pass"


def test_a_run_that_ended_in_its_preflight_is_refused_and_no_crash() -> None:
    scene = Scene().drop("phase_started").drop("fault_injected").drop("fault_lifted").drop("drill_ended")
    scene.add("events/conductor.jsonl", S, "drill_ended", status="aborted", why="pre-flight")
    status, checks, _ = judged(scene)
    assert status == "refused"
    assert checks["completed"].why == "pre-flight"


def test_a_real_endpoint_that_was_gone_after_the_lift_is_the_drills_failure_not_the_agents() -> None:
    scene = Scene(lambda n, s, on: FALLBACK if on or s > 0 or n > 78 else PRIMARY)
    for i, row in enumerate(scene.rows):
        if row.event == "attempt" and row.fields["start_ns"] > scene.lift_ns:
            gone = {**row.fields, "end": "upstream_error", "status": 502, "upstream": False, "terminal": False}
            scene.rows[i] = Row(row.file, row.line, row.wall_ns, row.event, gone)
    status, checks, findings = judged(scene)
    assert status == "refused"
    assert "real endpoint" in checks["recovery"].why
    assert "sticky-fallback" not in findings


# -- what an adversary found in sealed runs


def test_an_agent_that_dies_after_the_lift_fails() -> None:
    dead = Answer(5000, result="timeout", status=None, answer=None, attempts=0)
    status, checks, _ = judged(Scene(lambda n, s, on: dead if not on and n > 80 else healthy(n, s, on)))
    assert status == "fail"
    assert checks["settled"].status == "fail"


def test_a_slow_start_within_the_recovery_limit_is_not_held_against_it() -> None:
    slow = Answer(20, status=502, answer=None)
    assert judged(Scene(lambda n, s, on: slow if not on and n > 78 and 0 < s < 4 else healthy(n, s, on)))[0] == "pass"


def test_a_baseline_served_by_the_fallback_is_no_baseline() -> None:
    refused_by(Scene(lambda n, s, on: FALLBACK if on else Answer(20, attempts=1 if n % 4 == 0 else 0)), "baseline")


def test_a_sender_that_was_paused_is_the_drills_failure() -> None:
    scene = Scene()
    for i, row in enumerate(scene.rows):
        if row.event == "user_request" and scene.inject_ns < row.fields["due_ns"] < scene.inject_ns + 10 * S:
            late = {**row.fields, "sent_ns": row.fields["due_ns"] + 4 * S}
            if late["phase"] == "end":
                late |= {"result": "timeout", "answer": None, "status": None}
            scene.rows[i] = Row(row.file, row.line, row.wall_ns, row.event, late)
    refused_by(scene, "punctual")


def test_two_ends_of_one_request_are_a_hole_in_the_evidence() -> None:
    scene = Scene()
    end = next(r for r in scene.rows if r.event == "user_request" and r.fields["phase"] == "end")
    scene.rows.append(Row(end.file, 9999, end.wall_ns, end.event, {**end.fields, "result": "reset", "answer": None}))
    refused_by(scene, "evidence")


def test_a_server_error_is_one_whatever_the_plan_expects() -> None:
    expected = Answer(20, status=503, answer="ok", marks=FALLBACK.marks)
    status, checks, _ = judged(Scene(lambda n, s, on: expected if on else PRIMARY))
    assert status == "fail"
    assert "60 5xx" in checks["failed"].why


@pytest.mark.parametrize(
    "seats", [{"lead": "Ada", "scribe": "ADA ", "verifier": "Cy"}, {"lead": "Ada", "scribe": "", "verifier": "C"}]
)
def test_one_person_in_two_seats_or_none_is_refused_unless_it_is_a_rehearsal(seats: dict[str, str]) -> None:
    scene = Scene()
    scene.manifest = msgspec.structs.replace(scene.manifest, seats=seats)
    refused_by(scene, "seats")
    scene.manifest = msgspec.structs.replace(scene.manifest, stamps=("REHEARSAL",))
    assert judged(scene)[0] == "pass"


def test_the_scribes_lines_from_before_the_injection_or_by_the_lead_do_not_count() -> None:
    early = Scene(notes=False)
    for kind in ("injection_seen", "first_fallback_seen", "window_ended"):
        early.add("events/notes.jsonl", S, "note", kind=kind, text="", by="Bo")
    refused_by(early, "scribe")
    lead = Scene()
    for row in lead.rows:
        if row.event == "note":
            row.fields["by"] = "ada"
    refused_by(lead, "scribe")


@pytest.mark.parametrize("field", ["due_ns", "id", "result", "start_ns", "client_bytes", "gone", "status"])
def test_a_field_of_ours_that_is_not_what_it_should_be_is_a_defect_and_no_crash(field: str) -> None:
    scene = Scene()
    row = next(r for r in scene.rows if field in r.fields)
    row.fields[field] = ["not", "this"]
    refused_by(scene, "evidence")


def test_a_workers_clock_does_not_say_when_the_run_ended() -> None:
    scene = Scene()
    scene.add("timeline.jsonl", 10**18, "model_ok", id="x", path="primary")
    scene.add("timeline.jsonl", scene.end_ns, "user_request", id="just-begun", phase="start")
    assert judged(scene)[0] == "pass"
