"""What senders say, form by form."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.detectors.reading import Acknowledged, found_in, read
from drillmaster.friday.detectors import Alertmanager, Grafana, PagerDuty, Pinned, Slack, Standard

HERE = Path(__file__).with_name("deliveries")
AM = Alertmanager(name="am", path="/am", secret_env="AM")
GRAFANA = Grafana(name="g", path="/g", secret_env="G")
TITLE = Pinned(pattern=r"\[(?P<state>FIRING|RESOLVED)(?::\d+)?\] (?P<rule>\w+)", severity="priority")
PAGER = PagerDuty(name="p", path="/p", secret_env="P", find=TITLE)
CHAT = Slack(
    name="c",
    path="/c",
    secret_env="C",
    find=Pinned(pattern=r"\[(?P<state>FIRING|RESOLVED)(?::\d+)?\] (?P<rule>\w+)[^\n]*?(?P<severity>sev\d)"),
)
OWN = Standard(name="o", path="/o", secret_env="O")


def delivery(name: str) -> Any:
    return json.loads(HERE.joinpath(name).read_text(encoding="utf-8"))


def test_alertmanagers_own_payload_is_read_alert_by_alert() -> None:
    told = read(AM, delivery("alertmanager.json"))
    assert [(one.rule, one.severity, one.state, one.key) for one in told.alerts] == [
        ("ToolFailures", "sev2", "firing", "a12781a1fb3b80f8"),
        ("ToolFailures", "sev2", "resolved", "b12781a1fb3b80f8"),
    ]
    assert told.alerts[0].group == '{}:{alertname="ToolFailures"}'
    assert told.alerts[0].labels["drill_run"] == "01J"
    assert told.alerts[0].ends_at is None  # Go's zero time is no time
    assert told.alerts[1].ends_at == "2026-11-29T12:53:38Z"


def test_grafanas_payload_is_read_alert_by_alert() -> None:
    told = read(GRAFANA, delivery("grafana.json"))
    assert [(one.rule, one.severity, one.state) for one in told.alerts] == [("ToolFailures", "sev2", "firing")]


def test_a_person_acknowledges_an_incident() -> None:
    told = read(PAGER, delivery("pagerduty-acknowledged.json"))
    assert told.acks == (
        Acknowledged(key="d3640fbd41094207a1c11e58e46b1662", at="2026-12-01T09:12:11.862Z", who_kind="user"),
    )
    assert told.alerts == ()


@pytest.mark.parametrize(
    ("agent", "kind"), [(None, "nobody"), ({"type": "service_reference"}, "service"), ({}, "nobody")]
)
def test_what_is_no_person_is_none(agent: Any, kind: str) -> None:
    document = delivery("pagerduty-acknowledged.json")
    document["event"]["agent"] = agent
    assert read(PAGER, document).acks[0].who_kind == kind


@pytest.mark.parametrize(
    ("event", "state", "starts"),
    [
        ("incident.triggered", "firing", True),
        ("incident.resolved", "resolved", False),
        ("incident.reopened", "firing", True),
    ],
)
def test_an_incident_is_an_alert_by_its_title(event: str, state: str, starts: bool) -> None:
    document = delivery("pagerduty-acknowledged.json")
    document["event"]["event_type"] = event
    (alert,) = read(PAGER, document).alerts
    assert (alert.rule, alert.severity, alert.state, alert.key) == (
        "ToolFailures",
        "P1",
        state,
        "d3640fbd41094207a1c11e58e46b1662",
    )
    assert (alert.starts_at is not None) is starts


def test_other_events_of_a_pager_say_nothing() -> None:
    document = delivery("pagerduty-acknowledged.json")
    for kind in ("incident.annotated", "service.created", "pagey.ping", "incident.priority_updated"):
        document["event"]["event_type"] = kind
        told = read(PAGER, document)
        assert not told.alerts and not told.acks


@pytest.mark.parametrize("name", ["slack-text.json", "slack-blocks.json", "slack-attachments.json"])
def test_a_message_names_rule_and_severity_wherever_it_shows_them(name: str) -> None:
    (alert,) = read(CHAT, delivery(name)).alerts
    assert (alert.rule, alert.severity, alert.state) == ("ToolFailures", "sev2", "firing")


def test_a_message_that_no_pattern_matches_is_no_alert() -> None:
    assert read(CHAT, {"text": "deployed 1.2.3"}).alerts == ()


def test_a_line_of_a_log_may_name_several_each_once() -> None:
    find = Pinned(pattern=r"alert=(?P<rule>\w+) run=(?P<run>\w+) window=(?P<window>\w+)", severity="sev2")
    found = list(found_in(find, "alert=A run=r window=w alert=B run=r window=w alert=A run=r window=w"))
    assert [one.rule for one in found] == ["A", "B"]
    assert found[0].labels == {"drill_run": "r", "drill_window": "w"}


def test_text_that_says_so_is_over() -> None:
    find = Pinned(pattern=r"(?P<rule>\w+) is", severity="sev2", resolved=r"is back")
    assert [one.state for one in found_in(find, "Tools is back")] == ["resolved"]
    assert [one.state for one in found_in(find, "Tools is down")] == ["firing"]


def test_a_webhook_of_ones_own_says_it_all() -> None:
    firing = {
        "type": "alert.firing",
        "timestamp": "2026-12-01T09:00:00Z",
        "data": {
            "rule": "R",
            "severity": "sev2",
            "key": "k",
            "starts_at": "2026-12-01T09:00:00Z",
            "labels": {"a": "b"},
        },
    }
    (alert,) = read(OWN, firing).alerts
    assert (alert.rule, alert.state, alert.key, alert.labels) == ("R", "firing", "k", {"a": "b"})
    acked = {
        "type": "alert.acknowledged",
        "timestamp": "2026-12-01T09:00:00Z",
        "data": {"key": "k", "who_kind": "user"},
    }
    assert read(OWN, acked).acks == (Acknowledged(key="k", at="2026-12-01T09:00:00Z", who_kind="user"),)


def test_a_key_shaped_value_is_screened_wherever_it_stands() -> None:
    secret = "sk-proj-" + "A1b2C3d4" * 6
    document = delivery("alertmanager.json")
    document["groupKey"] = f"{{}}:{{key={secret}}}"
    document["alerts"][0]["fingerprint"] = secret
    document["alerts"][0]["labels"] |= {
        "alertname": secret,
        "token": "hunter2hunter2",
        "note": f"x {secret}",
        secret: "y",
    }
    said = msgspec.json.encode(read(AM, document)).decode()
    assert secret not in said


def test_labels_that_do_not_fit_a_line_are_left_out_and_those_of_the_drill_are_kept() -> None:
    document = delivery("alertmanager.json")
    document["alerts"][0]["labels"] |= {f"a{number:03}": "x" * 1_000 for number in range(100)}
    labels = read(AM, document).alerts[0].labels
    assert labels["drill_run"] == "01J" and labels["alertname"] == "ToolFailures"
    assert len(msgspec.json.encode(labels)) < 2_000


BAD_AM: list[tuple[str, Any]] = [
    ("no object", []),
    ("another version", {"version": "3"}),
    ("no alerts", {"alerts": []}),
    ("alerts that are none", {"alerts": [5]}),
    ("too many", {"alerts": [{}] * 501}),
    ("truncated by a text", {"truncatedAlerts": "many"}),
    ("truncated by a boolean", {"truncatedAlerts": True}),
    ("a group that is no text", {"groupKey": 5}),
]


@pytest.mark.parametrize(("name", "extra"), BAD_AM, ids=[name for name, _ in BAD_AM])
def test_what_is_no_delivery_is_refused(name: str, extra: Any) -> None:
    document = {**delivery("alertmanager.json"), **extra} if isinstance(extra, dict) else extra
    with pytest.raises(ValueError, match=r"."):
        read(AM, document)


@pytest.mark.parametrize(
    "extra",
    [
        {"status": "open"}, {"status": None}, {"labels": None}, {"labels": {"a": 1}}, {"startsAt": "today"}, {"startsAt": None},
        {"startsAt": "2026-11-29T12:52:38"}, {"startsAt": 5}, {"endsAt": "x" * 100}, {"fingerprint": 5},
    ],
)  # fmt: skip  # one fault a piece
def test_one_alert_that_is_none_refuses_the_delivery(extra: dict[str, Any]) -> None:
    document = delivery("alertmanager.json")
    document["alerts"][1] |= extra
    with pytest.raises(ValueError, match=r"."):
        read(AM, document)


@pytest.mark.parametrize(
    "document",
    [
        {}, {"event": 5}, {"event": {}}, {"event": {"event_type": "incident.acknowledged"}},
        {"event": {"event_type": "incident.acknowledged", "data": {}, "occurred_at": "2026-12-01T09:00:00Z"}},
        {"event": {"event_type": "incident.acknowledged", "data": {"id": "x"}}},
        {"event": {"event_type": "incident.acknowledged", "data": {"id": 5}, "occurred_at": "2026-12-01T09:00:00Z"}},
    ],
)  # fmt: skip  # one fault a piece
def test_an_event_that_is_none_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(PAGER, document)


def _deep(levels: int) -> Any:
    found: Any = {"text": "x"}
    for _ in range(levels):
        found = {"elements": [found]}
    return found


@pytest.mark.parametrize("document", [{}, {"text": 5}, {"blocks": []}, _deep(30), {"username": "x"}])
def test_a_message_without_text_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(CHAT, document)


@pytest.mark.parametrize(
    "document",
    [{}, {"type": "alert.firing"}, {"type": "x", "data": {}}, {"type": "alert.firing", "data": {}},
     {"type": "alert.firing", "data": {"rule": "R", "labels": {"a": 1}}}, {"type": "alert.acknowledged", "data": {}},
     {"type": ["alert.firing"], "data": {"rule": "R"}}],
)  # fmt: skip  # one fault a piece
def test_a_webhook_of_ones_own_that_is_none_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(OWN, document)


def test_grafanas_documented_times_and_older_fields_are_read() -> None:
    document = delivery("grafana.json")
    alert = document["alerts"][0]
    alert |= {"startsAt": "2021-10-12T09:51:03.157076+02:00", "valueString": "[ metric='' labels={} value=14151.3 ]"}
    del alert["values"], alert["labels"]["severity"]
    (found,) = read(GRAFANA, document).alerts
    assert (found.starts_at, found.severity) == ("2021-10-12T09:51:03.157076+02:00", "")


def test_a_severity_may_be_another_label() -> None:
    document = delivery("grafana.json")
    document["alerts"][0]["labels"]["priority"] = "P1"
    (found,) = read(Grafana(name="g", path="/g", secret_env="G", severity_label="priority"), document).alerts
    assert found.severity == "P1"
