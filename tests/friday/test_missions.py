"""The plan's section and the file of missions: what makes no sense is refused, with its place."""

from typing import Any

import pytest

from drillmaster.errors import Problem
from drillmaster.friday.missions import (
    Arrivals,
    Artillery,
    Held,
    Load,
    Locust,
    Missions,
    read_missions,
    section_problems,
)
from drillmaster.strict import load_as

_GOOD = """
kind: missions
data:
  user: {make: uuid}
flows:
  - name: refund
    weight: 3
    data:
      order: {make: integer, low: 1000, high: 9999}
    steps:
      - method: POST
        path: /agent/mission
        json: {user_id: "{{ user }}", history: [{role: user, content: "Refund order #{{ order }}"}]}
        capture: {ticket: /ticket}
        expect: {pointer: /answer}
      - method: GET
        path: /tickets/{{ ticket }}
        think_s: [0.1, 1]
  - name: live
    entry: websocket
    path: /agent/mission/ws
    headers: {Authorization: "Bearer ${AGENT_KEY}"}
    steps:
      - json: {user_id: "{{ user }}"}
        until: '"done"'
"""


def test_a_file_of_missions_reads_as_it_is_written() -> None:
    found = read_missions(_GOOD.encode(), place="missions.yaml")
    refund, live = found.flows
    assert (refund.weight, refund.entry, live.weight, live.entry) == (3, "http", 1, "websocket")
    assert refund.steps[0].json["history"][0]["content"] == "Refund order #{{ order }}"
    assert refund.steps[1].think_s == (0.1, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("{{ order }}", "{{ oder }}", "write {{ order }}"),
        ("{{ order }}", "{{ elsewhere }}", "which nothing makes"),
        ("/tickets/{{ ticket }}", "/tickets/{{ tickets }}", "write {{ ticket }}"),
        ("/ticket}", "$.ticket}", "write /ticket"),
        ("low: 1000", "low: 10000", "low <= high"),
        ("make: integer", "make: integr", "integer"),
        ("weight: 3", "weight: 0", "1 to 10,000"),
        ("name: live", "name: refund", "'refund' again"),
        ("path: /agent/mission\n", "path: agent/mission\n", "begins with /"),
        ("    path: /agent/mission/ws\n", "", "where the WebSocket is opened"),
        ("Bearer ${AGENT_KEY}", "Bearer sk-1234567890abcdef", "a credential in the plan"),
        ("{Authorization:", "{X-Drill-Mission: m1, Authorization:", "the driver sets it"),
        ("until: '\"done\"'", "until: '['", "a regular expression"),
        ("until: '\"done\"'", "path: /x", "none: a message has none"),
        ("think_s: [0.1, 1]", "think_s: [1, 0.1]", "the lower one first"),
        ("pointer: /answer", "pointer: /answer, equals: 3, min_char: 1", "min_chars"),
        ("expect: {pointer: /answer}", "expect: {equals: 3}", "equals without pointer"),
        ("pointer: /answer", "status: [2yy]", "100 to 599, or 2xx"),
        ("pointer: /answer", "status: [99]", "100 to 599, or 2xx"),
        ("pointer: /answer", "status: []", "one or more"),
        ("pointer: /answer", "min_chars: -1", "0 or more"),
        ("    path: /agent/mission/ws\n", "    path: agent/mission/ws\n", "begins with /"),
        ("    path: /agent/mission/ws\n", '    path: "/agent ws"\n', "begins with /"),
        ("method: GET", "method: FETCH", "FETCH"),
        ("kind: missions", "kind: mission", "missions"),
    ],
)
def test_what_cannot_work_is_refused(old: str, new: str, says: str) -> None:
    assert old in _GOOD
    with pytest.raises(Problem) as refused:
        read_missions(_GOOD.replace(old, new).encode(), place="missions.yaml")
    assert "missions.yaml" in str(refused.value)
    assert says in str(refused.value)


def test_a_captured_name_is_not_known_before_its_step() -> None:
    with pytest.raises(Problem, match="ticket"):
        read_missions(_GOOD.replace("#{{ order }}", "#{{ ticket }}").encode(), place="m")


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (Held(), "neither concurrent nor arrivals"),
        (Held(concurrent=1, arrivals=(Arrivals(for_s=1, per_s=1),)), "both concurrent and arrivals"),
        (Held(concurrent=0), "1 to 5000 missions"),
        (Held(concurrent=1, ramp_s=-1), "ramp_s"),
        (Held(arrivals=(Arrivals(for_s=0, per_s=1),)), "for_s"),
        (Held(arrivals=(Arrivals(for_s=9),)), "no arrival"),
        (Held(arrivals=(Arrivals(for_s=9, per_s=10_000),)), "per_s"),
        (Held(arrivals=(Arrivals(for_s=9, per_s=1, max_open=0),)), "max_open"),
        (Locust(file="l.py", users=0), "users"),
        (Locust(file="l.py", users=1, users_per_s=0), "users_per_s"),
        (Artillery(file="a.yml", max_arrivals=0), "max_arrivals"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(load: Load, says: str) -> None:
    problems = [str(p) for p in section_problems(Missions(loads=(load,)), place="plan.yaml")]
    assert len(problems) == 1
    assert says in problems[0]
    assert problems[0].startswith("plan.yaml: /missions/loads/0")


def test_a_section_says_how_many_it_holds_and_which_files_it_needs() -> None:
    text = b"""
loads:
  - {run: missions, concurrent: 150}
  - {run: missions, file: other.yaml, arrivals: [{for_s: 10, per_s: 2}]}
  - {run: locust, file: locustfile.py, users: 50}
"""
    section = load_as(text, Missions, place="plan.yaml", fmt="yaml")
    assert list(section_problems(section, place="plan.yaml")) == []
    assert section.concurrent == 200
    assert section.files == ("missions.yaml", "other.yaml", "locustfile.py")


@pytest.mark.parametrize("more", [{"time_limit_s": 0.0}, {"max_body_bytes": 1}, {"max_missions": 10_000_000}])
def test_every_bound_has_bounds(more: dict[str, Any]) -> None:
    problems = list(section_problems(Missions(loads=(Held(concurrent=1),), **more), place="plan.yaml"))
    assert [next(iter(more)) in str(problem) for problem in problems] == [True]
