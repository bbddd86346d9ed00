"""Which alert names an injection, how long it took, and who acknowledged it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.alerts import (
    Ack,
    Alert,
    Detection,
    Injection,
    Looked,
    Wanted,
    match,
    read_event,
    severity_rank,
)
from drillmaster.verdict import Absent, AtLeast, Cite, Exact, Measure

CASES = json.loads(Path(__file__).with_name("alerts.cases.json").read_text(encoding="utf-8"))["cases"]
S = 1_000_000_000
INJECTION = Injection(run="R", window="W", injected_ns=100 * S)
LOOKED = Looked(from_ns=0, until_ns=400 * S)
COUNTED = ("lower", "unknown", "unclear", "false_positives", "echoes", "repeats", "foreign", "other")


def ns(seconds: float) -> int:
    return round(seconds * S)


def alert(at: float, state: str, starts: float | None, extra: dict[str, Any]) -> Alert:
    plain = {"receiver": "am", "rule": "ToolFailures", "severity": "sev2", "key": "k", "state": state, **extra}
    return msgspec.convert({"at_ns": ns(at), "starts_ns": None if starts is None else ns(starts), **plain}, Alert)


def ack(at: float, occurred: float | None, extra: dict[str, Any]) -> Ack:
    plain = {"receiver": "pager", "key": "k", "who_kind": "user", **extra}
    return msgspec.convert({"at_ns": ns(at), "occurred_ns": None if occurred is None else ns(occurred), **plain}, Ack)


def wanted(**extra: Any) -> Wanted:
    return msgspec.convert({"rule": "ToolFailures", "least": "sev2", **extra}, Wanted)


def said(measure: Measure) -> list[Any]:
    plain = msgspec.to_builtins(measure)
    return [plain["type"]] if isinstance(measure, Absent) else [plain["type"], plain["value"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_cases_holds(case: dict[str, Any]) -> None:
    looked = Looked(from_ns=ns(case["looked"][0]), until_ns=ns(case["looked"][1])) if "looked" in case else LOOKED
    earlier = [Injection(run=run, window=name, injected_ns=ns(at)) for run, name, at in case.get("earlier", ())]
    found = match(
        [alert(*one) for one in case["alerts"]],
        [ack(*one) for one in case.get("acks", ())],
        INJECTION,
        wanted(**case.get("wanted", {})),
        looked,
        earlier=earlier,
    )
    assert said(found.delay) == case["delay"]
    assert said(found.ack) == case["ack"]
    counted = {name: getattr(found, name) for name in COUNTED}
    counted = {name: value if isinstance(value, int) else len(value) for name, value in counted.items()}
    assert counted == {name: case.get(name, 0) for name in COUNTED}


@pytest.mark.parametrize(
    ("word", "rank"),
    [
        ("sev1", 1), ("Sev2", 2), ("SEV-3", 3), ("sev 0", 0), ("severity_4", 4), ("P1", 1), ("priority 2", 2), ("critical", 2),
        ("Critical ", 2), ("error", 3), ("warning", 4), ("info", 5), ("", None), ("2", None), ("sev6", None), ("sev22", None),
        ("high", None), ("none", None), ("sev²", None), ("page", None), ("critical!", None),
    ],
)  # fmt: skip  # one word a piece
def test_a_severity_stands_where_the_table_says_or_nowhere(word: str, rank: int | None) -> None:
    assert severity_rank(word) == rank


def test_a_teams_own_word_goes_before_the_tables() -> None:
    assert severity_rank("Critical", {"critical": "sev1"}) == 1


@pytest.mark.parametrize(
    "extra",
    [
        {"least": "high"},
        {"severities": {"page": "critical"}},
        {"severities": {"Sev5": "sev0"}},
        {"clocks_s": -1},
        {"least": ""},
    ],
)
def test_a_row_that_cannot_be_judged_is_none(extra: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        wanted(**extra)


def test_findings_say_what_was_there_before_and_what_was_too_low() -> None:
    before = msgspec.structs.replace(alert(50, "firing", 40, {"key": "a"}), cite=Cite("events/detectors.jsonl", 7))
    found = match(
        [before, alert(120, "firing", 110, {"severity": "info", "key": "b"})], [], INJECTION, wanted(), LOOKED
    )
    assert [one.id for one in found.findings] == ["alert-before-injection", "alert-below-severity"]
    assert found.findings[0].cites == (Cite("events/detectors.jsonl", 7),)
    assert "60.0 s before" in found.findings[0].cause
    assert "info, below sev2" in found.findings[1].cause


def test_a_line_is_read_with_the_senders_time_beside_ours() -> None:
    wall_ns = 1_796_088_673 * S
    fields = {
        "receiver": "am",
        "form": "alertmanager",
        "rule": "ToolFailures",
        "severity": "sev2",
        "state": "firing",
        "starts_at": "2026-12-01T02:11:03Z",
        "ends_at": None,
        "key": "k",
        "group": "g",
        "labels": {"a": "b"},
    }
    found = read_event("alert_received", 40 * S, fields, wall_ns=wall_ns)
    assert isinstance(found, Alert)
    assert found.starts_ns == 40 * S - (wall_ns - 1_796_091_063 * S)
    acked = read_event(
        "alert_acknowledged", 50 * S, {"receiver": "p", "key": "k", "at": None, "who_kind": "user"}, wall_ns=wall_ns
    )
    assert acked == Ack(at_ns=50 * S, receiver="p", key="k", who_kind="user")
    assert read_event("delivery_refused", 1, {}, wall_ns=1) is None


@pytest.mark.parametrize(
    "extra",
    [{"state": "open"}, {"labels": []}, {"labels": {"a": 1}}, {"starts_at": "today"}, {"rule": 5}, {"starts_at": 3}],
)
def test_a_line_that_is_not_as_written_is_an_error(extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"state|labels|starts_at|rule"):
        read_event("alert_received", 1, {"state": "firing", "labels": {}, **extra}, wall_ns=1)


RECEIPTS = st.lists(
    st.builds(
        alert,
        st.integers(0, 399),
        st.sampled_from(["firing", "firing", "resolved"]),
        st.none() | st.integers(0, 399),
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(["a", "b"]),
                "receiver": st.sampled_from(["am", "chat"]),
                "severity": st.sampled_from(["sev1", "sev2", "sev3", "odd"]),
                "rule": st.sampled_from(["ToolFailures", "ToolFailures", "Other"]),
                "labels": st.sampled_from([{}, {}, {"drill_run": "R", "drill_window": "W"}, {"drill_run": "Q"}]),
            }
        ),
    ),
    max_size=8,
)


def found_of(alerts: list[Alert], **extra: Any) -> Detection:
    return match(alerts, [], INJECTION, wanted(**extra), LOOKED)


@given(RECEIPTS)
def test_a_delay_is_that_of_a_receipt_after_the_injection_or_none(alerts: list[Alert]) -> None:
    found = found_of(alerts)
    if isinstance(found.delay, Exact):
        assert found.alert in alerts and found.alert is not None
        assert found.delay.value * S == found.alert.at_ns - INJECTION.injected_ns >= 0
        assert found.alert.state == "firing" and found.alert.rule == "ToolFailures"
        assert found.alert.labels.get("drill_run") in (None, "R")
        assert found.alert.severity in ("sev1", "sev2")
    elif isinstance(found.delay, AtLeast):
        assert found.delay.value == 300


@given(RECEIPTS)
def test_every_receipt_is_accounted_for_once(alerts: list[Alert]) -> None:
    found = found_of(alerts)
    resolved = sum(
        1
        for one in alerts
        if one.rule == "ToolFailures" and one.state == "resolved" and one.labels.get("drill_run") != "Q"
    )
    counting = sum(
        1 for one in alerts if found.alert is not None and one is found.alert
    )  # later ones that name it stay uncounted, being no news
    groups = (found.lower, found.unknown, found.unclear, found.false_positives, found.echoes)
    known = sum(map(len, groups)) + found.repeats + found.foreign + found.other + resolved
    assert known + counting <= len(alerts)
    if found.alert is None:
        assert known == len(alerts)


@given(RECEIPTS)
def test_what_names_another_run_changes_nothing_but_its_count(alerts: list[Alert]) -> None:
    without = [one for one in alerts if one.labels.get("drill_run") != "Q"]
    ours, theirs = found_of(alerts), found_of(without)
    if ours.ahead_s == theirs.ahead_s:
        assert msgspec.structs.replace(ours, foreign=0, other=0) == msgspec.structs.replace(theirs, foreign=0, other=0)


def _at_most_s(measure: Measure) -> float:
    return measure.value if isinstance(measure, Exact) else float("inf")


@given(RECEIPTS)
def test_asking_for_a_worse_severity_never_makes_it_quicker(alerts: list[Alert]) -> None:
    known = [one for one in alerts if one.severity != "odd"]
    assert _at_most_s(found_of(known, least="sev1").delay) >= _at_most_s(found_of(known, least="sev3").delay)


@given(RECEIPTS, st.data())
def test_sending_a_receipt_again_later_changes_no_delay(alerts: list[Alert], data: st.DataObject) -> None:
    before = found_of(alerts)
    firing = [one for one in alerts if one.state == "firing"]
    if not firing:
        return
    last_ns = max(one.at_ns for one in alerts)
    again = msgspec.structs.replace(data.draw(st.sampled_from(firing)), at_ns=last_ns)
    stays = [
        one for one in alerts if one.state == "resolved" and one.key == again.key and one.receiver == again.receiver
    ]
    if stays or again.starts_ns is None or again.at_ns == 0:
        return  # it fired anew, or is not told from one that did
    after = found_of([*alerts, again])
    if isinstance(before.delay, Exact) and before.alert is not None and before.alert.at_ns < last_ns:
        assert after.delay == before.delay


@pytest.mark.parametrize("rule", ["", " ", "a\nb", "x" * 201])
def test_a_row_asks_for_an_alert_by_a_name(rule: str) -> None:
    with pytest.raises(ValueError, match="the name that the alert carries"):
        Wanted(rule=rule, least="sev2")
