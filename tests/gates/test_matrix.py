"""The matrix gate: each row on its own window and probe, and no row for what the drill did not show."""

import hashlib
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.fridays import CUT, FAILED, OK, UNSENT, Chaos, FlagOn, Friday, Killed, LoadEnded
from drillmaster.gates._cases.matrix import ROWS, good, matrix
from drillmaster.gates._matrix_rows import ChaosProbe, LoadProbe, Row
from drillmaster.gates.matrix import MatrixGate, breaches
from drillmaster.judge import judge
from drillmaster.verdict import AtLeast, Check, Exact, Verdict

_with = msgspec.structs.replace
GOOD = good()
N = GOOD.missions.n
BY_ID = {row.id: row for row in ROWS}


def verdict(seen: Friday, gate: MatrixGate | None = None) -> Verdict:
    return judge(
        gate or matrix(),
        seen,
        name="matrix",
        subject="x",
        pin=None,
        policy_digest="",
        evidence_digest="",
        evidence_end_ns=0,
        counts={},
        now_ns=0,
        version="0",
    )


def row(seen: Friday, *rows: Row) -> Check:
    """What is said of the first of some rows."""
    (found,) = [one for one in matrix(*rows).checks(seen) if one.id == f"row.{rows[0].id}"]
    return found


def missions(**columns: Any) -> Friday:
    return _with(GOOD, missions=_with(GOOD.missions, **columns))


def lasting(each_s: list[float], results: list[int] | None = None) -> Friday:
    """Missions in flight as before, and these latencies."""
    due = GOOD.missions.due_s
    return missions(
        end_s=[at + took for at, took in zip(due, each_s, strict=True)],
        result=results or [OK] * len(each_s),
    )


LATENCY = _with(BY_ID["mission-latency"], probe=LoadProbe(in_flight=1))
SUCCESS = _with(BY_ID["mission-success"], probe=LoadProbe(in_flight=1))


def test_the_drill_in_which_every_row_holds_passes_and_breaks_none() -> None:
    told = verdict(GOOD)
    assert (told.status, breaches(told)) == ("pass", ("BREACH: none",))


@pytest.mark.parametrize(
    ("each_s", "status"),
    [
        # 1,500 missions: the 1,425th is the p95. Its 95 % bound is the 1,439th: what lies between is refused.
        ([2.0] * 1_440 + [9.0] * 60, "pass"),
        ([2.0] * 1_430 + [9.0] * 70, "refused"),
        ([2.0] * 1_425 + [9.0] * 75, "refused"),
        ([2.0] * 1_424 + [9.0] * 76, "fail"),
        ([2.5] * 1_500, "fail"),
        ([2.499] * 1_500, "pass"),
    ],
)
def test_a_latency_is_passed_by_its_bound_and_failed_by_what_was_seen(each_s: list[float], status: str) -> None:
    assert row(lasting(each_s), LATENCY).status == status


def test_missions_that_were_cut_are_among_the_latencies() -> None:
    seen = lasting([2.0] * 1_400 + [2.0] * 100, [OK] * 1_400 + [CUT] * 100)
    told = row(seen, LATENCY)
    assert (told.status, told.observed) == ("refused", AtLeast(2.0, n=1_500))
    late = lasting([2.0] * 1_400 + [8.0] * 100, [OK] * 1_400 + [CUT] * 100)
    assert row(late, LATENCY).status == "fail"


def test_missions_that_never_went_out_waited_at_least_to_the_end() -> None:
    results = [OK] * 1_400 + [UNSENT] * 100
    seen = missions(result=results, end_s=[*GOOD.missions.end_s[:1_400], *[math.nan] * 100])
    assert row(seen, LATENCY).status == "fail"


def test_failed_missions_have_to_be_counted_by_some_row() -> None:
    seen = lasting([2.0] * N, [FAILED] * 5 + [OK] * 1_495)
    alone = row(seen, LATENCY)
    assert (alone.status, "no row says how many may fail" in alone.why) == ("refused", True)
    assert row(seen, LATENCY, SUCCESS).status == "pass"
    of_chaos = _with(LATENCY, window="chaos")
    assert row(seen, of_chaos).status == "pass"  # they were due before it


@pytest.mark.parametrize(
    ("n", "failed", "status"),
    [
        (299, 0, "pass"),
        (298, 0, "refused"),  # 298 without a failure show no more than 98.99 %
        (50, 0, "refused"),
        (50, 5, "fail"),  # even so few show that it is under 99 %
        (50, 1, "refused"),
        (500, 5, "pass"),
        (500, 6, "fail"),
    ],
)
def test_a_share_needs_as_many_as_can_show_it(n: int, failed: int, status: str) -> None:
    columns = {
        name: getattr(GOOD.missions, name)[:n]
        for name in ("ids", "flow", "websocket", "due_s", "sent_s", "end_s", "thought_s", "steps", "line")
    }
    seen = missions(**columns, result=[FAILED] * failed + [OK] * (n - failed))
    told = row(seen, _with(SUCCESS, probe=ChaosProbe(flags=("toolTimeout",))))
    assert told.status == status, told.why


@pytest.mark.parametrize("window", ["baseline", "chaos", "recovery"])
def test_a_row_is_judged_on_the_window_that_it_names_and_on_no_other(window: Any) -> None:
    slow = {"baseline": range(500), "chaos": range(500, 1_000), "recovery": range(1_000, 1_500)}[window]
    seen = lasting([9.0 if at in slow else 2.0 for at in range(N)])
    found = {name: row(seen, _with(LATENCY, window=name)).status for name in ("baseline", "chaos", "recovery")}
    assert found == {name: "fail" if name == window else "pass" for name in found}


def test_what_is_in_flight_is_weighted_by_time() -> None:
    # 10 in flight for half of the time and none for the other: 5 on average.
    half = missions(sent_s=[at if at < 150 else math.nan for at in GOOD.missions.due_s])
    held = half.in_flight("all")
    assert held is not None
    assert held.by_missions == pytest.approx(5.03, abs=0.05)
    assert row(half, _with(LATENCY, probe=LoadProbe(in_flight=10))).status == "refused"


def test_200_users_of_which_164_are_in_flight_are_void() -> None:
    seen = _with(GOOD, held=_with(GOOD.held, mean=[8.2] * 300))
    told = row(seen, BY_ID["mission-latency"])
    assert (told.status, "VOID: 8.2 were in flight" in told.why) == ("refused", True)


def test_a_websocket_row_without_a_websocket_mission_is_refused() -> None:
    told = row(missions(websocket=[0] * N), _with(LATENCY, entry="websocket"))
    assert (told.status, "no websocket mission" in told.title) == ("refused", True)
    assert row(GOOD, _with(LATENCY, entry="websocket")).status == "pass"


def test_a_flow_that_nobody_ran_is_refused() -> None:
    assert row(GOOD, _with(LATENCY, flow="history")).status == "refused"


def test_several_injections_are_judged_by_the_worst() -> None:
    second = Chaos(id="w2", injected_s=210.0, lifted_s=240.0, flags=GOOD.chaos[0].flags, gone=True)
    seen = _with(GOOD, chaos=(*GOOD.chaos, second))
    told = row(seen, BY_ID["detector-time"])
    assert (told.status, told.observed) == ("fail", AtLeast(95.0))  # none for the second, until 305 s


def test_several_kills_are_judged_by_the_worst() -> None:
    slow = Killed(capability="refund", killed_s=260.0, last_end_s=262.5, refused=4, ran=1, over_s=45.0)
    told = row(_with(GOOD, kills=(*GOOD.kills, slow)), BY_ID["kill-switch"])
    assert (told.status, told.observed) == ("fail", Exact(2.5, n=5))


def test_a_kill_that_no_call_heeded_breaks_the_row_and_one_that_nothing_met_says_nothing() -> None:
    def after(last_end_s: float) -> Check:
        kill = _with(GOOD.kills[0], last_end_s=GOOD.kills[0].killed_s + last_end_s, refused=0, ran=40)
        return row(_with(GOOD, kills=(kill,)), BY_ID["kill-switch"])

    ignored = after(9.5)
    assert (ignored.status, ignored.observed) == ("fail", AtLeast(9.5, n=40))
    assert "40 calls ran on, and none was refused" in ignored.why
    assert after(0.05).status == "refused"  # they may have been under way: nobody called it behind the kill


def test_a_worker_that_never_said_that_it_holds_the_kill_breaks_it() -> None:
    kill = _with(GOOD.kills[0], drained_s={"a": 0.2}, undrained=("b",))
    told = row(_with(GOOD, kills=(kill,)), BY_ID["kill-switch"])
    assert (told.status, told.observed) == ("fail", AtLeast(50.0, n=23))


def test_a_row_that_its_flags_make_impossible_is_said_to_be_so() -> None:
    always = FlagOn(flag="toolTimeout", kind="timeout")
    seen = _with(GOOD, chaos=(_with(GOOD.chaos[0], flags=(always, GOOD.chaos[0].flags[1])),))
    findings = [one for one in verdict(seen).findings if one.id == "impossible-row"]
    assert [one.cause.partition(":")[0] for one in findings] == ["tool-success"]
    assert "no retry can recover" in findings[0].cause


def test_twenty_are_drawn_the_same_whoever_draws() -> None:
    """The command that the verdict names draws by the run's seed: SHA-256 of `SEED:MISSION`, the smallest first."""
    assert matrix().headline(GOOD)[-1] == (
        "20 transcripts are drawn for people to read: drillmaster transcript draw 20261204T140000Z-1a2b"
    )
    census = GOOD.census
    assert census is not None
    by_hand = sorted(GOOD.missions.ids, key=lambda one: hashlib.sha256(f"7:{one}".encode()).hexdigest())[:20]
    assert list(census.draw(GOOD.seed, 20)) == by_hand


def test_breaches_are_named_and_a_refusal_names_none() -> None:
    broken = verdict(lasting([9.0] * N))
    assert breaches(broken) == ("BREACH: mission-latency",)
    assert breaches(verdict(_with(GOOD, seal_problems=("changed",)))) == ()


def test_a_failed_row_outranks_a_refused_one() -> None:
    seen = _with(lasting([9.0] * N), census=None)
    assert verdict(seen).status == "fail"


def test_a_matrix_without_chaos_asks_for_none() -> None:
    gate = matrix(LATENCY)
    told = verdict(_with(GOOD, chaos=(), sights=(), met={}), gate)
    assert told.status == "pass"
    assert {one.id for one in told.checks} == {
        "policy", "sealed", "lines-usable", "service", "whole", "missions", "row.mission-latency",
    }  # fmt: skip


# Laws


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=1, max_size=150), st.integers(0, 3))
def test_a_passed_latency_is_a_finite_number_under_its_limit(each_s: list[float], cut: int) -> None:
    n = len(each_s)
    columns = {
        name: getattr(GOOD.missions, name)[:n]
        for name in ("ids", "flow", "websocket", "due_s", "sent_s", "thought_s", "steps", "line")
    }
    seen = missions(
        **columns,
        end_s=[at + took for at, took in zip(columns["due_s"], each_s, strict=True)],
        result=[CUT if at < cut else OK for at in range(n)],
    )
    told = row(seen, LATENCY)
    if told.status == "pass":
        assert isinstance(told.observed, Exact)
        assert math.isfinite(told.observed.value)
        assert n >= 59
        assert sum(took < 2.5 for took in each_s) >= 0.95 * n


@settings(max_examples=60, deadline=None)
@given(st.integers(0, N - 1))
def test_any_transcript_that_lacks_something_turns_a_row_of_100_percent_red(at: int) -> None:
    census = GOOD.census
    assert census is not None
    told = census.missions
    broken = (*told[:at], _with(told[at], why="missing"), *told[at + 1 :])
    found = row(_with(GOOD, census=_with(census, missions=broken)), BY_ID["replay"])
    assert (found.status, f"m{at}:" in found.why) == ("fail", True)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_evidence_that_is_taken_away_never_makes_a_pass_of_what_is_none(data: st.DataObject) -> None:
    """Whatever is emptied, a verdict that was no pass before is none afterwards, for it asks for what is gone."""
    empties: dict[str, Any] = {
        "chaos": (),
        "alerts": (),
        "acks": (),
        "sights": (),
        "met": {},
        "kills": (),
        "census": None,
        "ready_s": {},
        "phases": (),
        "ended": "",
    }
    names = data.draw(st.lists(st.sampled_from(sorted(empties)), min_size=1, unique=True))
    told = verdict(_with(GOOD, **{name: empties[name] for name in names}))
    assert told.status != "pass" or names == ["phases"]


def test_a_mission_that_was_sent_late_waited_from_when_it_was_due() -> None:
    late = missions(sent_s=[at + 1.0 for at in GOOD.missions.due_s], end_s=[at + 2.6 for at in GOOD.missions.due_s])
    told = row(late, LATENCY)
    assert (told.status, isinstance(told.observed, Exact)) == ("fail", True)


def test_a_lower_severity_is_a_breach_however_short_anybody_listened() -> None:
    lower = _with(GOOD.alerts[0], severity="sev3")
    told = row(_with(GOOD, alerts=(lower,), end_s=150.0), BY_ID["detector-time"])
    assert (told.status, told.observed) == ("fail", AtLeast(50.0))


def test_a_flag_that_somebody_switched_off_in_its_window_judges_no_row() -> None:
    chaos = _with(GOOD.chaos[0], off_s={"toolTimeout": 103.0})
    for id in ("tool-success",):
        said = row(_with(GOOD, chaos=(chaos,)), BY_ID[id])
        assert said.status == "refused"
        assert "was on for 3 s of 100 s" in (said.why or "")
    in_time = _with(GOOD.chaos[0], off_s={"toolTimeout": 199.9})
    assert row(_with(GOOD, chaos=(in_time,)), BY_ID["tool-success"]).status == "pass"


def test_calls_that_flags_made_fail_and_no_worker_tells_of_judge_no_row() -> None:
    told = tuple(_with(one, outcome="ok", attempts=one.calls, recovered=0) for one in GOOD.tools.missions)
    said = row(_with(GOOD, tools=_with(GOOD.tools, missions=told)), BY_ID["tool-success"])
    assert said.status == "refused"
    assert "workers tell of 0 attempts" in (said.why or "")


def test_195_that_are_held_all_the_time_are_no_200() -> None:
    """On average it is 95 % of what was asked for, and at no instant all of it."""
    users, each_s = 39, 2.0
    due = [each_s * (n // users) for n in range(users * 150)]
    n = len(due)
    seen = _with(
        missions(
            ids=[f"m{at}" for at in range(n)],
            flow=[0] * n,
            websocket=[0] * n,
            due_s=due,
            sent_s=due,
            end_s=[at + each_s for at in due],
            thought_s=[0.0] * n,
            result=[OK] * n,
            steps=[1] * n,
            line=[*range(n)],
        ),
        held=_with(GOOD.held, mean=[float(users)] * 300),
    )
    assert row(seen, _with(LATENCY, probe=LoadProbe(in_flight=39))).status == "pass"
    told = row(seen, _with(LATENCY, probe=LoadProbe(in_flight=40)))
    assert (told.status, told.why) == ("refused", "VOID: never more than 39 were in flight at once, and 40 were to be")


@pytest.mark.parametrize("id_", ["tool-success", "mission-latency"])
def test_chaos_that_somebody_else_stretched_dilutes_no_row(id_: str) -> None:
    """A second injection, long after the drill's own: between them nothing was broken, and that is no chaos."""
    second = Chaos(id="enabled-1", injected_s=280.0, lifted_s=282.0, flags=GOOD.chaos[0].flags, gone=True)
    told = row(_with(GOOD, chaos=(*GOOD.chaos, second)), _with(BY_ID[id_], window="chaos"))
    assert (told.status, "VOID: " in told.why) == ("refused", True)
    assert row(GOOD, _with(BY_ID[id_], window="chaos")).status == "pass"


def test_a_load_that_ended_before_it_was_told_to_is_a_finding() -> None:
    seen = _with(GOOD, loads_ended=(LoadEnded(source="missions.yaml", at_s=120.0, why="max_missions"),))
    told = [one.cause for one in verdict(seen).findings if one.id == "load-ended"]
    assert told == ["missions.yaml began no more missions from 120.0 s on: max_missions"]


def test_chaos_that_somebody_ended_early_is_not_the_drill_that_was_planned() -> None:
    """The phase lasts on when a Lead's token switches the only flag off, and its window with it."""
    seen = _with(GOOD, chaos=(_with(GOOD.chaos[0], lifted_s=130.0, why="disabled by somebody"),))
    (told,) = [one for one in matrix().checks(seen) if one.id == "chaos"]
    assert (told.status, told.why) == ("refused", "they were on for 30.0 s of the 100 s that were planned")


def test_what_a_kill_refused_is_not_taken_for_the_calls_that_flags_made_fail() -> None:
    told = tuple(
        _with(one, outcome="killed", attempts=1, recovered=0, failed=1, killed=1)
        if due_s >= 200
        else _with(one, outcome="ok", attempts=1, recovered=0)
        for one, due_s in zip(GOOD.tools.missions, GOOD.missions.due_s, strict=True)
    )
    said = row(_with(GOOD, tools=_with(GOOD.tools, missions=told)), BY_ID["tool-success"])
    assert said.status == "refused"
    assert "workers tell of 0 attempts" in (said.why or "")


@pytest.mark.parametrize("id_", ["tool-success", "mission-success"])
@pytest.mark.parametrize(("share", "status"), [(0.01, "refused"), (0.0, "refused"), (0.012, "pass"), (0.1, "pass")])
def test_a_flag_that_met_too_few_to_break_a_share_shows_nothing(id_: str, share: float, status: str) -> None:
    one = _with(BY_ID[id_], probe=ChaosProbe(flags=("toolTimeout",)), window="chaos")
    n = len(GOOD.places("chaos"))
    met = {("w1", "toolTimeout"): round(share * n), ("w1", "refundError"): n}
    told = row(_with(GOOD, met=met), one)
    assert told.status == status
    if 0 < share < 0.012:
        assert "had each of them failed, >= 99 % would hold as well" in told.why
