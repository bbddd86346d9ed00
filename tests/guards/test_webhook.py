"""What a terminator may answer: one table, in one order, by what is known."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards.webhook import REASONS, STATUS, Delivery, Webhook
from drillmaster.rules.webhook_schemes import SCHEMES

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1_000
LIMITS = Webhook(scheme="stripe", max_body_bytes=65_536, read_within_ms=5_000)
ALL = {"complete": True, "signature": "matched", "signed_s": NOW_S, "document": "usable"}


def reason(limits: Webhook = LIMITS, now_ms: Any = NOW_MS, **facts: Any) -> str:
    told = Delivery(**{"path_known": True, "method": "POST", "body_bytes": 10, **facts})
    state, decision = limits.step(None, told, now_ms)
    assert state is None and decision.reason in REASONS
    assert decision.allowed == (decision.reason in ("accepted", "accepted-before"))
    return decision.reason


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "undecided"),
        ({"path_known": False}, "path-unknown"),
        ({"method": "GET"}, "method-not-allowed"),
        ({"method": "post"}, "method-not-allowed"),
        ({"path_known": False, "method": "GET"}, "path-unknown"),
        ({"body_bytes": 65_536}, "undecided"),
        ({"body_bytes": 65_537}, "too-large"),
        ({"body_bytes": 65_537, "complete": False}, "too-large"),
        ({"room": False}, "no-room"),
        ({"room": False, "body_bytes": 65_537}, "too-large"),
        ({"room": False, "complete": False}, "no-room"),
        ({"room": 1}, "facts-unusable"),
        ({"complete": False}, "too-slow"),
        ({"complete": True}, "undecided"),
        ({"complete": True, "signature": "missing"}, "signature-missing"),
        ({"complete": True, "signature": "malformed"}, "signature-malformed"),
        ({"complete": True, "signature": "wrong"}, "signature-wrong"),
        ({"complete": True, "signature": "wrong", "signed_s": 0}, "signature-wrong"),  # its time says nothing
        ({"complete": True, "signature": "unsigned"}, "signature-missing"),
        ({"complete": True, "signature": "matched"}, "signature-malformed"),  # a scheme with a time, and none
        ({"complete": True, "signature": "matched", "signed_s": NOW_S}, "undecided"),
        ({"complete": True, "signature": "matched", "signed_s": NOW_S - 300}, "undecided"),
        ({"complete": True, "signature": "matched", "signed_s": NOW_S - 301}, "timestamp-too-old"),
        ({"complete": True, "signature": "matched", "signed_s": NOW_S + 300}, "undecided"),
        ({"complete": True, "signature": "matched", "signed_s": NOW_S + 301}, "timestamp-too-new"),
        ({"complete": True, "signature": "matched", "signed_s": 10**11}, "timestamp-too-new"),
        ({"complete": True, "signature": "matched", "signed_s": 0}, "timestamp-too-old"),
        ({**ALL, "document": "unusable"}, "json-unusable"),
        ({**ALL, "document": "no-id"}, "id-missing"),
        (ALL, "undecided"),
        ({**ALL, "stored": "new"}, "accepted"),
        ({**ALL, "stored": "known"}, "accepted-before"),
        ({**ALL, "stored": "other-body"}, "other-body"),
        ({**ALL, "stored": "failed"}, "store-failed"),
        ({**ALL, "stored": "no-room"}, "no-room"),
        # What was done before it might be.
        ({"document": "usable"}, "out-of-order"),
        ({"signature": "matched"}, "out-of-order"),
        ({"stored": "new"}, "out-of-order"),
        ({"complete": True, "document": "usable"}, "out-of-order"),
        ({"complete": True, "stored": "new"}, "out-of-order"),
        ({**ALL, "signature": "wrong"}, "out-of-order"),
        ({**ALL, "signature": "wrong", "stored": "new"}, "out-of-order"),
        ({**ALL, "document": None, "stored": "new"}, "out-of-order"),
        ({**ALL, "document": "no-id", "stored": "new"}, "out-of-order"),
        ({**ALL, "signed_s": 0, "stored": "new"}, "out-of-order"),
        # Facts that are none.
        ({"path_known": 1}, "facts-unusable"),
        ({"method": None}, "facts-unusable"),
        ({"body_bytes": -1}, "facts-unusable"),
        ({"body_bytes": "10"}, "facts-unusable"),
        ({"body_bytes": True}, "facts-unusable"),
        ({"body_bytes": 1.0}, "facts-unusable"),
        ({"complete": 1}, "facts-unusable"),
        ({"complete": 0}, "facts-unusable"),
        ({**ALL, "signed_s": ""}, "facts-unusable"),
        ({**ALL, "signed_s": False}, "facts-unusable"),
        ({"complete": True, "signature": "Matched"}, "facts-unusable"),
        ({"complete": True, "signature": True}, "facts-unusable"),
        ({**ALL, "signed_s": float("nan")}, "facts-unusable"),
        ({**ALL, "signed_s": -1}, "facts-unusable"),
        ({**ALL, "document": "ok"}, "facts-unusable"),
        ({**ALL, "stored": "stored"}, "facts-unusable"),
        ({"now_ms": 1.5}, "facts-unusable"),
        ({"now_ms": -1}, "facts-unusable"),
    ],
)  # fmt: skip
def test_the_first_that_holds_decides(facts: dict[str, Any], told: str) -> None:
    assert reason(**facts) == told


def test_every_reason_but_the_open_one_has_a_status_and_no_other_is_2xx() -> None:
    assert STATUS.keys() == REASONS.keys() - {"undecided"}
    assert {word for word, status in STATUS.items() if status < 300} == {"accepted", "accepted-before"}
    assert set(STATUS.values()) == {202, 400, 401, 404, 405, 408, 409, 413, 500}
    assert {word for word in STATUS if word.startswith(("signature", "timestamp"))} == {
        word for word, status in STATUS.items() if status == 401
    } - {"signed-in-lab"}


@given(
    facts=st.fixed_dictionaries(
        {
            "complete": st.sampled_from([None, True, False]),
            "signature": st.sampled_from([None, "missing", "malformed", "wrong", "matched", "unsigned"]),
            "signed_s": st.sampled_from([None, NOW_S, 0]),
            "document": st.sampled_from([None, "unusable", "no-id", "usable"]),
            "stored": st.sampled_from([None, "new", "known", "other-body", "failed", "no-room"]),
        }
    ),
    lane=st.sampled_from(["production", "lab"]),
)
def test_nothing_is_accepted_that_is_not_signed_readable_and_stored(facts: dict[str, Any], lane: Any) -> None:
    limits = Webhook(scheme="stripe", max_body_bytes=100, read_within_ms=1, lane=lane)
    if reason(limits, **facts) in ("accepted", "accepted-before"):
        assert facts["complete"] and facts["document"] == "usable" and facts["stored"] in ("new", "known")
        assert facts["signature"] == ("matched" if lane == "production" else "unsigned")


def test_in_the_lab_only_what_is_unsigned_goes_on() -> None:
    lab = Webhook(scheme="stripe", max_body_bytes=100, read_within_ms=1, lane="lab")
    for signature in ("missing", "malformed", "wrong", "matched"):
        assert reason(lab, complete=True, signature=signature, signed_s=NOW_S) == "signed-in-lab"
    assert reason(lab, complete=True, signature="unsigned") == "undecided"


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_without_a_signed_time_asks_for_none(name: str) -> None:
    limits = Webhook(scheme=name, max_body_bytes=100, read_within_ms=1)
    wanted = "undecided" if SCHEMES[name].tolerance_s is None else "signature-malformed"
    assert reason(limits, complete=True, signature="matched") == wanted


def test_a_tolerance_may_be_shorter_than_the_schemes_own_and_not_longer() -> None:
    short = Webhook(scheme="stripe", max_body_bytes=100, read_within_ms=1, tolerance_s=10)
    assert reason(short, complete=True, signature="matched", signed_s=NOW_S - 10) == "undecided"
    assert reason(short, complete=True, signature="matched", signed_s=NOW_S - 11) == "timestamp-too-old"
    for scheme, tolerance_s in (("stripe", 301), ("github", 300), ("shopify", 1)):
        with pytest.raises(ValueError, match="tolerance_s"):
            Webhook(scheme=scheme, max_body_bytes=100, read_within_ms=1, tolerance_s=tolerance_s)
    with pytest.raises(ValueError, match="scheme one of"):
        Webhook(scheme="Stripe", max_body_bytes=100, read_within_ms=1)


def test_facts_have_no_field_for_what_came() -> None:
    assert set(Delivery.__struct_fields__) == {
        "path_known", "method", "body_bytes", "room", "complete", "signature", "signed_s", "document", "stored",
    }  # fmt: skip
    assert len(list(itertools.chain(REASONS))) == len(set(REASONS))
