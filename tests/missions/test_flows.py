"""One mission drawn, on record, and drawn again from its run's book."""

import json

import pytest

from drillmaster.errors import Problem
from drillmaster.friday.missions import read_missions
from drillmaster.missions.flows import MissionPlans, authority_of, digest_of, recorded, requests_of
from drillmaster.missions.settings import Book, LocustLoad, OwnLoad

_MISSIONS = read_missions(
    b"""
kind: missions
data:
  user: {make: uuid}
flows:
  - name: refund
    weight: 3
    headers: {Authorization: "Bearer ${AGENT_KEY}"}
    data: {order: {make: integer, low: 1000, high: 9999}}
    steps:
      - path: /agent/mission
        json: {user_id: "{{ user }}", order: "{{ order }}"}
        capture: {ticket: /ticket}
      - method: GET
        path: "/tickets/{{ ticket }}?of={{ order }}"
  - name: edge
    steps:
      - path: /agent/mission
        json: {user_id: "{{ user }}", metadata: {force_refund_limit: true}}
""",
    place="missions.yaml",
)


def _plans(seed: int = 1, load: int = 0) -> MissionPlans:
    return MissionPlans(_MISSIONS, nth_load=load, seed=seed, run="r-ab12", time_limit_s=30, environ=None)


def _digests(plans: MissionPlans) -> list[str]:
    return [digest_of(recorded(plans.draw(number))) for number in range(1, 41)]


def test_the_same_seed_gives_the_same_payloads() -> None:
    assert _digests(_plans()) == _digests(_plans())
    assert not set(_digests(_plans(seed=2))) & set(_digests(_plans()))
    assert not set(_digests(_plans(load=1))) & set(_digests(_plans()))


def test_what_is_recorded_holds_neither_a_key_nor_what_only_an_answer_knows() -> None:
    plans = _plans()
    drawn = next(d for d in map(plans.draw, range(1, 9)) if d.plan.flow.name == "refund")
    first, second = recorded(drawn)
    order = drawn.values["order"]
    assert first.headers == {"Authorization": "Bearer ${AGENT_KEY}"}
    assert json.loads(first.body or "") == {"user_id": drawn.values["user"], "order": order}
    assert second.path == f"/tickets/{{{{ ticket }}}}?of={order}"
    assert (second.method, second.body) == ("GET", None)


def test_a_key_comes_from_the_environment_or_the_drill_does_not_begin() -> None:
    with pytest.raises(Problem, match="AGENT_KEY"):
        MissionPlans(_MISSIONS, nth_load=0, seed=1, run="r-ab12", time_limit_s=30, environ={})


def _book() -> Book:
    own = OwnLoad(source="missions.yaml", sha256="", missions=_MISSIONS, concurrent=2)
    locust = LocustLoad(
        source="l.py", sha256="", path="/l.py", cwd="/", users=1, users_per_s=1, python="python", stop_s=1
    )
    return Book(loads=(own, locust, own), time_limit_s=30, max_body_bytes=1024, max_missions=99, seed=1, run="r-ab12")


def test_any_mission_is_drawn_again_by_its_name() -> None:
    for load in (0, 2):
        for number in (1, 7, 99):
            drawn = _plans(load=load).draw(number)
            again, requests = requests_of(_book(), drawn.id)
            assert (again.id, again.trace, again.values) == (drawn.id, drawn.trace, drawn.values)
            assert requests == recorded(drawn)


@pytest.mark.parametrize("name", ["m000001-ab13", "m000000-ab12", "m1-ab12", "m30000001-ab12", "x", "m000001-ab12\n"])
def test_a_name_of_no_mission_of_this_run_is_refused(name: str) -> None:
    with pytest.raises(Problem, match="no mission of this run"):
        requests_of(_book(), name)


def test_what_another_program_drew_cannot_be_drawn_again() -> None:
    with pytest.raises(Problem, match="draws its own data"):
        requests_of(_book(), "m10000001-ab12")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:8090", ("127.0.0.1", "127.0.0.1:8090", 8090, False, "")),
        ("https://agent.example.com/v2/", ("agent.example.com", "agent.example.com", 443, True, "/v2")),
        ("http://[::1]:80/a", ("::1", "[::1]:80", 80, False, "/a")),
    ],
)
def test_a_base_url_says_where_and_what_comes_first(url: str, found: tuple[str, str, int, bool, str]) -> None:
    assert authority_of(url) == found


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8090", "ftp://x", "http://u:secret@h", "http://h?key=secret", "http://h/#x"]
)
def test_a_url_that_is_no_base_is_refused_and_no_secret_in_it_is_said(url: str) -> None:
    with pytest.raises(Problem) as refused:
        authority_of(url)
    assert "secret" not in str(refused.value)
