"""Artillery profiles as missions, and by line what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.drill.artillery import Translated, phases_of, translate
from drillmaster.errors import Problem
from drillmaster.friday.missions import Arrivals, Choice, Integer, Table, Text, Uuid, arriving
from drillmaster.missions.flows import MissionPlans, recorded
from drillmaster.strict import load

_LAUNCH = """\
config:
  target: "https://staging.example.com"
  phases:
    - duration: 900
      arrivalRate: 50
      rampTo: 200
      name: "Launch rehearsal"
scenarios:
  - flow:
      - post:
          url: "/agent/mission"
          json:
            user_id: "{{ $uuid }}"
            history:
              - role: "user"
                content: "Customer wants refund {{ $randomNumber(1000, 9999) }}"
"""
_WHOLE = """\
config:
  target: http://127.0.0.1:8090
  phases:
    - {duration: 2m, arrivalCount: 60, maxVusers: 5}
    - {pause: 30}
    - {duration: 60, arrivalRate: 1}
  payload:
    path: users.csv
    fields: [user, order]
    order: sequence
    skipHeader: true
  variables:
    tone: [calm, angry]
  defaults:
    headers: {X-Team: refunds}
scenarios:
  - name: refund
    weight: 3
    flow:
      - post:
          url: /tickets
          name: open
          qs: {from: "{{ user }}", v: 2}
          json: {order: "{{ order }}", tone: "{{ tone }}", key: "{{ $randomString(6) }}"}
          capture:
            json: $.ticket.ids[0]
            as: ticket
          expect: [{statusCode: [201]}]
      - think: 500ms
      - loop:
          - get: {url: "/tickets/{{ ticket }}?turn={{ $loopCount }}"}
        count: 2
  - name: cancel
    flow:
      - delete:
          url: "http://127.0.0.1:8090/tickets/1"
          headers: {Authorization: "Bearer ${AGENT_KEY}"}
          match: {json: $.ok, value: true}
"""
_CSV = b'user,order\nann,17\n"bo, b",18\n'


def _read(name: str) -> bytes:
    assert name == "users.csv"
    return _CSV


def _translated(text: str) -> Translated:
    return translate(text.encode(), place="artillery.yml", read=_read)


def test_the_launch_rehearsal_is_112_500_missions() -> None:
    found = _translated(_LAUNCH)
    assert found.arrivals == (Arrivals(for_s=900, per_s=50, to_per_s=200, name="Launch rehearsal"),)
    assert arriving(found.arrivals) == 112_500
    assert found.target == "https://staging.example.com"
    (flow,) = found.missions.flows
    assert flow.data == {"$uuid": Uuid(), "$randomNumber.1": Integer(low=1000, high=9999)}
    assert flow.steps[0].expect.status == ("2xx",)


def test_an_unknown_variable_is_refused_with_its_line_and_the_one_that_was_meant() -> None:
    with pytest.raises(Problem) as refused:
        _translated(_LAUNCH.replace("$uuid", "uuid"))
    assert str(refused.value).startswith("artillery.yml:13: found the unknown variable {{ uuid }}")
    assert "write {{ $uuid }}" in str(refused.value)


def test_each_call_of_a_function_is_a_draw_of_its_own() -> None:
    twice = _LAUNCH.replace("{{ $randomNumber(1000, 9999) }}", "{{ $randomNumber(1, 2) }} {{ $randomNumber(1,2) }}")
    flow = _translated(twice).missions.flows[0]
    assert [name for name in flow.data if name != "$uuid"] == ["$randomNumber.1", "$randomNumber.2"]


def test_a_whole_profile_says_what_its_missions_send() -> None:
    found = _translated(_WHOLE)
    assert found.arrivals == (
        Arrivals(for_s=120, per_s=0.5, max_open=5),
        Arrivals(for_s=30),
        Arrivals(for_s=60, per_s=1),
    )
    refund, cancel = found.missions.flows
    assert (refund.weight, cancel.weight) == (3, 1)
    assert found.missions.data == {
        "tone": Choice(of=("calm", "angry")),
        "csv.0": Table(columns=("user", "order"), rows=(("ann", "17"), ("bo, b", "18")), order="sequence"),
    }
    assert refund.data == {"$randomString.1": Text(chars=6)}
    opened, first, second = refund.steps
    assert opened.capture == {"ticket": "/ticket/ids/0"}
    assert opened.expect.status == (201,)
    assert (first.think_s, second.think_s) == (0.5, 0)
    assert [first.path, second.path] == ["/tickets/{{ ticket }}?turn=0", "/tickets/{{ ticket }}?turn=1"]
    assert cancel.steps[0].path == "/tickets/1"
    assert (cancel.steps[0].expect.pointer, cancel.steps[0].expect.equals) == ("/ok", True)
    plans = MissionPlans(found.missions, nth_load=0, seed=1, run="r-ab12", time_limit_s=9, environ=None)
    second_mission = plans.draw(2)
    requests = recorded(second_mission)
    if second_mission.plan.flow.name == "refund":
        assert requests[0].path == "/tickets?from=bo%2C%20b&v=2"
        assert json.loads(requests[0].body or "")["order"] == "18"
        assert requests[0].headers == {"X-Team": "refunds"}
    else:
        assert requests[0].headers == {"X-Team": "refunds", "Authorization": "Bearer ${AGENT_KEY}"}


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("arrivalRate: 50", "arivalRate: 50", 5, "write arrivalRate"),
        ("rampTo: 200", "rampTo: fast", 6, "rampTo: a number"),
        ("duration: 900", "duration: soon", 4, "seconds, or 15m"),
        ("      - post:", "      - pots:", 10, "write post"),
        ('          url: "/agent/mission"', '          uri: "/agent/mission"', 11, "write url"),
        ('url: "/agent/mission"', 'url: "https://other.example.com/x"', 11, "another host"),
        ("(1000, 9999)", "(9999, 1000)", 16, "the lower one first"),
        ("(1000, 9999)", "(1, size)", 16, "two whole numbers"),
        ("{{ $uuid }}", "{{ $env.KEY }}", 13, "write ${KEY} in a header"),
        ("{{ $uuid }}", "{{ randomNumber }}", 13, "write {{ $randomNumber }}"),
        ("  - flow:", "  - engine: ws\n    flow:", 9, "entry: websocket"),
        ("  - flow:", "  - afterResponse: check\n    flow:", 9, "JavaScript"),
        ("      - post:", "      - function: setup\n      - post:", 10, "JavaScript"),
        ("  phases:", "  processor: ./functions.js\n  phases:", 3, "JavaScript"),
        ("  phases:", "  payload: {path: users.csv, fields: [a, b, c]}\n  phases:", 3, "fewer values than fields"),
        ("          json:", "          capture: {json: $..id, as: x}\n          json:", 12, "a JSONPath to one place"),
        ("          json:", "          body: x\n          json:", 12, "both json and body"),
        ("      - post:", "      - loop: [{get: {url: /}}]\n        whileTrue: more\n      - post:", 11, "JavaScript"),
        (
            "      - post:",
            "      - loop: [{get: {url: /}}]\n        count: 5000\n      - post:",
            11,
            "fewer in one mission",
        ),
        ("scenarios:", "before: {flow: []}\nscenarios:", 8, "around the test"),
    ],
)
def test_what_missions_would_do_otherwise_is_refused_by_line(old: str, new: str, line: int, says: str) -> None:
    assert old in _LAUNCH
    with pytest.raises(Problem) as refused:
        _translated(_LAUNCH.replace(old, new, 1))
    assert str(refused.value).startswith(f"artillery.yml:{line}: ")
    assert says in str(refused.value)


@pytest.mark.parametrize("text", ["", "a: 1\na: 2", "config: {}", "config: {target: x}\nscenarios: []", "[1]"])
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(Problem, match=r"artillery\.yml"):
        _translated(text)


def test_a_key_that_is_twice_is_refused() -> None:
    with pytest.raises(Problem, match="arrivalRate"):
        _translated(_LAUNCH.replace("rampTo: 200", "arrivalRate: 200"))


def test_phases_alone_are_read_of_a_profile_that_is_not_translated() -> None:
    text = _LAUNCH.replace("  phases:", "  processor: ./functions.js\n  phases:")
    assert arriving(phases_of(text.encode(), place="artillery.yml")) == 112_500


@given(rate=st.integers(0, 60), to=st.integers(0, 60), seconds=st.integers(1, 300))
def test_a_ramp_brings_its_seconds_times_its_mean_rate(rate: int, to: int, seconds: int) -> None:
    text = _LAUNCH.replace("50", str(rate)).replace("200", str(to), 1).replace("900", str(seconds), 1)
    assert abs(arriving(phases_of(text.encode(), place="a")) - seconds * (rate + to) / 2) <= 0.5


_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**6),
    st.floats(0, 10, allow_nan=False),
    st.sampled_from(["", "{{", "{{ }}", "{{ $uuid }}", "{{ x", "15m", "/a b", "http://[", "$.a[0]", "1-3", "\x7f"]),
    st.lists(st.just("x"), max_size=2),
    st.dictionaries(st.sampled_from(["url", "json", "x", "loop"]), st.just(1), max_size=2),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in inner for place in _places(one, (*path, name)))]


@given(data=st.data(), value=_ANYTHING)
def test_whatever_stands_in_a_profile_is_translated_or_refused(data: st.DataObject, value: Any) -> None:
    profile = load(_WHOLE.encode(), place="a", fmt="yaml")
    *path, last = data.draw(st.sampled_from(_places(profile)[1:]))
    at = profile
    for step in path:
        at = at[step]
    at[last] = value
    try:
        found = translate(json.dumps(profile).encode(), place="artillery.yml", read=lambda name: _CSV)
    except Problem as refused:
        assert str(refused).startswith("artillery.yml")
    else:
        assert arriving(found.arrivals) >= 0
        MissionPlans(found.missions, nth_load=0, seed=1, run="r-ab12", time_limit_s=9, environ=None).draw(1)
