"""What a Friday drill's plan must make sense of across its sections."""

from importlib import resources
from typing import Any

import msgspec
import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.friday.checking import LEAST_PHASE_S, check, compress, fitting_factor, planned_s
from drillmaster.friday.flags import load_registry
from drillmaster.friday.missions import Held, read_missions
from drillmaster.friday.plan import FridayPlan
from drillmaster.sanity import Sanity
from drillmaster.strict import as_type

KIT = resources.files("drillmaster.kits") / "friday"
REGISTRY = load_registry((KIT / "flags.yaml").read_bytes(), place="flags.yaml")
MISSIONS = read_missions((KIT / "missions.yaml").read_bytes(), place="missions.yaml")
NOW_NS = parse_rfc3339("2026-12-04T09:00:00Z") or 0
BASE: dict[str, Any] = {
    "kind": "plan",
    "drill": "friday",
    "service": "concierge",
    "target": {"url": "http://127.0.0.1:8090"},
    "missions": {"loads": [{"run": "missions", "file": "missions.yaml", "concurrent": 200}]},
    "flags": {"on": [{"flag": "toolTimeout", "first": 1}]},
    "detectors": {
        "receivers": [{"form": "alertmanager", "name": "pager", "path": "/alerts", "secret_env": "ALERT_SECRET"}]
    },
    "seats": {"lead": "Ana", "scribe": "Ben", "verifier": "Chen"},
}


def plan(**over: Any) -> FridayPlan:
    found: FridayPlan = as_type({**BASE, **over}, FridayPlan, place="plan.yaml")
    return found


def looked(this: FridayPlan, **options: Any) -> Sanity:
    return check(this, REGISTRY, {"missions.yaml": MISSIONS}, place="plan.yaml", wall_ns=NOW_NS, **options)


PERMIT = {
    "host": "staging.example.com", "owner": "Dana", "until": "2027-01-31", "max_per_s": 300, "max_requests": 1_000_000
}  # fmt: skip


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"target": {"url": "http://127.0.0.1:8090/?q=1"}}, "/target/url"),  # a base URL has no query
        ({"target": {"url": "ftp://127.0.0.1"}}, "/target/url"),
        ({"target": {"url": "http://192.0.2.7:80"}}, "permission"),
        ({"phases": {"baseline_s": 0}}, "/phases/baseline_s: found 0"),
        ({"phases": {"baseline_s": 50_000, "fault_s": 500, "recovery_s": 50_000}}, "over in a day"),
        ({"phases": {"fault_s": 901}}, "auto_off_s"),  # the flag would be off before its window is over
        ({"flags": {"on": [{"flag": "tooltimeout"}]}}, "Did you mean 'toolTimeout'?"),
        ({"flags": {"listen": "nowhere", "on": [{"flag": "toolTimeout"}]}}, "/flags/listen"),
        ({"kill": {"capability": "refunds"}}, "Did you mean 'refund'?"),
        ({"seats": {"lead": "Ana", "scribe": "Ana", "verifier": "Chen"}}, "/seats/scribe"),
        ({"stop": {"failed_ratio": 1.5}}, "/stop/failed_ratio"),
        ({"stop": {"over_requests": 0}}, "/stop/over_requests"),
        ({"service": " "}, "/service"),
        ({"timeline": "drill.jsonl", "worker": {"cmd": ["agent"]}}, "/timeline"),
        ({"transcripts": "t", "worker": {"cmd": ["agent"]}}, "/transcripts"),
        ({"window": {"start": "soon", "end": "later"}}, "/window/start"),
        ({"window": {"start": "2026-12-04T12:00:00Z", "end": "2026-12-04T13:00:00Z"}}, "/window"),  # not now
    ],
)
def test_what_cannot_work_is_a_problem_that_names_its_place(over: dict[str, Any], said: str) -> None:
    problems = looked(plan(**over), permit_host="staging.example.com").problems
    assert any(said in str(one) for one in problems), [str(one) for one in problems]


def test_a_plan_that_makes_sense_has_no_problem() -> None:
    assert looked(plan()) == Sanity((), ())
    assert not looked(
        plan(target={"url": "http://staging.example.com", "permit": PERMIT}), permit_host="staging.example.com"
    ).problems


def test_permission_is_given_twice() -> None:
    this = plan(target={"url": "http://staging.example.com", "permit": PERMIT})
    assert any("--permit-host" in str(one) for one in looked(this).problems)


def test_what_a_permit_allows_held_missions_is_said() -> None:
    this = plan(target={"url": "http://staging.example.com", "permit": {**PERMIT, "max_requests": 90_000}})
    assert "90,000 requests, 100 a second" in "\n".join(looked(this, permit_host="staging.example.com").warnings)


def test_everything_that_is_wrong_is_found_at_once() -> None:
    this = plan(
        service="", phases={"baseline_s": -1}, flags={"on": [{"flag": "nobody"}]}, kill={"capability": "nothing"}
    )
    assert len(looked(this).problems) == 4


def test_a_file_of_missions_that_was_not_read_is_a_problem() -> None:
    sane = check(plan(), REGISTRY, {}, place="plan.yaml", wall_ns=NOW_NS)
    assert "/missions/loads/0/file" in str(sane.problems[0])


def test_what_should_not_be_is_said() -> None:
    this = plan(
        seats={},
        missions={
            "loads": [{"run": "missions", "arrivals": [{"for_s": 900, "per_s": 50, "to_per_s": 200}]}],
            "time_limit_s": 400,
        },
        flags={"listen": "0.0.0.0:8070", "on": [{"flag": "toolTimeout"}]},
        control={"lead": True},
    )
    said = "\n".join(looked(this, rehearsal=True).warnings)
    assert "lead, scribe, verifier" in said
    assert "112,500 missions" in said  # 900 s at 125 a second on average
    assert "500 in flight" in said  # 200 a second at 2.5 s
    assert "read token" in said
    assert "Lead's token" in said
    assert "nobody gives up before they are off" in said


@pytest.mark.parametrize("phase", ["baseline_s", "fault_s", "recovery_s"])
def test_a_phase_without_end_is_refused_whatever_else_the_plan_says(phase: str) -> None:
    window = {"start": "2026-12-04T08:00:00Z", "end": "2026-12-04T11:00:00Z"}
    this = plan(phases={phase: 1e308}, window=window, target={"url": "http://staging.example.com", "permit": PERMIT})
    said = [str(problem) for problem in looked(this, permit_host="staging.example.com").problems]
    assert any(f"/phases/{phase}: found 1e+308" in one for one in said)


def test_phases_and_the_ramp_are_divided_and_nothing_else() -> None:
    this = plan(kill={"capability": "refund", "for_s": 10})
    shorter = compress(this, 10)
    assert msgspec.structs.astuple(shorter.phases) == (30, 30, 30)
    assert compress(shorter, 0.1).missions == this.missions
    [load], [was] = shorter.missions.loads, this.missions.loads
    assert isinstance(load, Held) and isinstance(was, Held)
    assert load.ramp_s == was.ramp_s / 10  # 20 s of 33 in which few are in flight would make each row of a load void
    assert planned_s(shorter) == 100
    assert planned_s(this) == 910


def test_arrivals_last_shorter_and_come_as_fast() -> None:
    section = {"loads": [{"run": "missions", "arrivals": [{"for_s": 900, "per_s": 50, "to_per_s": 200}]}]}
    [load] = compress(plan(missions=section), 10).missions.loads
    assert isinstance(load, Held)
    assert msgspec.structs.astuple(load.arrivals[0])[:3] == (90, 50, 200)


@pytest.mark.parametrize(
    ("phases", "alert_s", "factor"),
    [
        ((300, 300, 300), None, 300 / LEAST_PHASE_S),
        ((300, 300, 300), 60.0, 9.0),  # 600 s listened, 65 wanted: 9.23, in quarters
        ((300, 300, 300), 50.0, 10.75),  # 10.9
        ((20, 20, 20), 60.0, 1.0),  # there is no room
    ],
)
def test_max_leaves_each_phase_and_the_alert_their_time(
    phases: tuple[float, float, float], alert_s: float | None, factor: float
) -> None:
    names = ("baseline_s", "fault_s", "recovery_s")
    this = plan(phases=dict(zip(names, phases, strict=True)))
    assert fitting_factor(this, alert_s=alert_s) == factor


@pytest.mark.parametrize("text", ["plan: 1", "unknown: 2"])
def test_an_unknown_field_is_refused(text: str) -> None:
    name, _, value = text.partition(": ")
    with pytest.raises(Problem):
        plan(**{name: value})
