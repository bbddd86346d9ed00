"""May a model's draft leave its lane: structure, places, numbers and text, each by its own rule."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards import Decision, find
from drillmaster.guards.draft import ACTIONS_OF_A_LOCK, REASONS, Draft, Drafted, Offered, Seen, Tried

GUARD = Drafted(lanes={"drafting": ("explain_log", "list_fields"), "lab": ("draft_test",)}, max_chars=500)
SHOWN = ("billing-export-3", "lease_until", "fencing_token", "x_grace")


def decided(lane: Any = "drafting", shown: Any = SHOWN, **draft: Any) -> str:
    usual = {"action": "explain_log", "text": "billing-export-3 timed out after 30 s"}
    _, decision = GUARD.step(None, Offered(lane=lane, draft=Draft(**{**usual, **draft}), shown=shown), 0)
    assert decision.reason in REASONS
    assert decision == Decision(allowed=decision.reason == "report", reason=decision.reason)
    return decision.reason


TESTS = (Tried(source="model", token="made-up"), Tried(source="prompt", token="empty", action="unlisted"))


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        # what each lane is for
        ({}, "report"),
        ({"text": "redacted timeout summary"}, "report"),
        ({"text": "", "seen": (Seen(what="timed-out", who=0, count=3, ms=30_000),)}, "report"),
        ({"action": "list_fields", "text": "", "fields": (1, 3)}, "report"),
        ({"lane": "lab", "action": "draft_test", "text": "", "tests": TESTS}, "report"),
        # no model holds anything
        *(({"action": one}, "lock-action") for one in sorted(ACTIONS_OF_A_LOCK)),
        *(({"action": one, "lane": "lab"}, "lock-action") for one in sorted(ACTIONS_OF_A_LOCK)),
        *(({"action": one}, "action-unknown") for one in ("", "Explain_log", "explain_log ", "explain-log", "prolong", "Renew")),
        ({"action": None}, "facts-unusable"),
        ({"action": ["explain_log"]}, "facts-unusable"),
        # each lane its own
        ({"lane": "lab"}, "action-not-here"),
        ({"action": "draft_test", "text": "", "tests": TESTS}, "action-not-here"),
        *(({"lane": one}, "lane-unknown") for one in ("", "Drafting", "drafting ", "free", "production")),
        ({"lane": None}, "facts-unusable"),
        # a part of another action's, nothing at all
        ({"tests": TESTS}, "other-part"),
        ({"fields": (1,)}, "other-part"),
        ({"lane": "lab", "action": "draft_test", "tests": TESTS, "fields": (1,)}, "other-part"),
        ({"text": ""}, "empty"),
        # names are chosen among those that were shown
        ({"action": "list_fields", "text": "", "fields": (4,)}, "not-shown"),
        ({"action": "list_fields", "text": "", "fields": (-1,)}, "not-shown"),
        ({"action": "list_fields", "text": "", "fields": (1, 1)}, "not-shown"),
        ({"action": "list_fields", "text": "", "fields": ("renew_lease",)}, "facts-unusable"),
        ({"action": "list_fields", "text": "", "fields": (True,)}, "facts-unusable"),
        ({"seen": (Seen(what="failed", who=9),)}, "not-shown"),
        ({"seen": (Seen(what="failed", who=0, count=0),)}, "number-range"),
        ({"seen": (Seen(what="failed", who=0, ms=10**15),)}, "number-range"),
        ({"seen": (Seen(what="renew", who=0),)}, "facts-unusable"),
        ({"seen": (Seen(what="failed", who=0, ms=1.5),)}, "facts-unusable"),
        ({"seen": [Seen(what="failed", who=0)]}, "facts-unusable"),
        ({"lane": "lab", "action": "draft_test", "tests": (Tried(source="model", token="42"),)}, "facts-unusable"),
        ({"lane": "lab", "action": "draft_test", "tests": (Tried(source="model", token="none", want="allow"),)}, "facts-unusable"),
        ({"shown": ["a"]}, "facts-unusable"),
        ({"shown": (5,)}, "facts-unusable"),
        # text
        ({"text": None}, "facts-unusable"),
        ({"text": "export timed out. " * 40}, "text-long"),
        ({"text": "please keep the hold alive"}, "order"),
        ({"text": "please carry on as before"}, "word-unknown"),
        ({"text": "lease_until"}, "order"),
        ({"text": "fencing_token failed"}, "order"),
        ({"text": "re\u200bnew"}, "text-hidden"),
        ({"text": "r\u0435new"}, "text-letters"),
        ({"text": "the export worker"}, "no-report"),
    ],
)  # fmt: skip  # a table: one row a case
def test_a_draft_is_decided(offered: dict[str, Any], reason: str) -> None:
    assert decided(**offered) == reason


GOOD = {"action": "explain_log", "text": "redacted timeout summary"}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'"redacted timeout summary"',
        b"redacted timeout summary",
        json.dumps({**GOOD, "lease_ttl_s": 900}).encode(),
        json.dumps({**GOOD, "fencing_token": "42"}).encode(),
        json.dumps({"text": "redacted timeout summary"}).encode(),
        json.dumps({**GOOD, "text": None}).encode(),
        json.dumps({**GOOD, "action": ["explain_log"]}).encode(),
        json.dumps({**GOOD, "seen": [{"what": "failed", "who": "0"}]}).encode(),
        json.dumps({**GOOD, "seen": [{"what": "failed", "who": 0, "note": "renew"}]}).encode(),
        json.dumps({**GOOD, "tests": [{"source": "model", "token": "none", "want": "allow"}]}).encode(),
        b'{"action": "renew", "action": "explain_log", "text": "redacted timeout summary"}',
        b'{"action": "explain_log", "text": "redacted timeout summary"} renew',
        b'{"action": "explain_log", "text": "redacted timeout summary\\ud800"}',
        b"\xff" + json.dumps(GOOD).encode(),
        json.dumps({**GOOD, "text": "x" * 70_000}).encode(),
        b"[" * 100_000,
    ],
)
def test_a_payload_that_is_no_draft_is_denied_whole(payload: bytes) -> None:
    assert GUARD.read("drafting", payload) == (None, Decision(allowed=False, reason="payload-unusable"))


@pytest.mark.parametrize("payload", [json.dumps(GOOD), None, 5, bytearray(b"{}"), GOOD])
def test_what_is_not_bytes_is_no_payload_and_raises_nothing(payload: Any) -> None:
    assert GUARD.read("drafting", payload) == (None, Decision(allowed=False, reason="payload-unusable"))


def test_a_payload_is_given_back_where_it_is_allowed_and_only_there() -> None:
    draft, decision = GUARD.read("drafting", json.dumps(GOOD).encode())
    assert draft == Draft(**GOOD) and decision.allowed
    draft, decision = GUARD.read("drafting", json.dumps({**GOOD, "text": "renew the lease"}).encode())
    assert draft is None and decision == Decision(allowed=False, reason="order")
    draft, decision = GUARD.read("lab", json.dumps(GOOD).encode())
    assert draft is None and decision.reason == "action-not-here"


@given(st.binary(max_size=200))
def test_no_bytes_raise(payload: bytes) -> None:
    draft, decision = GUARD.read("drafting", payload)
    assert draft is None and decision.reason in REASONS


@given(
    st.one_of(st.text(), st.none(), st.integers()),
    st.one_of(st.text(), st.none(), st.binary()),
    st.one_of(st.lists(st.integers()).map(tuple), st.text(), st.none()),
)
def test_whatever_is_handed_in_there_is_a_reason(action: Any, text: Any, fields: Any) -> None:
    assert decided(action=action, text=text, fields=fields) in REASONS


def test_no_reason_repeats_a_word_of_a_draft() -> None:
    _, decision = GUARD.read("drafting", json.dumps({**GOOD, "text": "hunter22 tenant-north renew"}).encode())
    assert "hunter22" not in repr(decision) and "tenant-north" not in repr(decision)


def test_a_policy_can_give_no_lane_an_action_of_the_lock() -> None:
    import msgspec

    for action in sorted(ACTIONS_OF_A_LOCK):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"guard": "draft", "lanes": {"drafting": [action]}, "max_chars": 500}, Drafted)


def test_it_is_found_by_its_name_and_brings_in_little() -> None:
    assert find("draft") is Drafted
    code = "import sys; import drillmaster.guards.draft; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"asyncio", "socket", "ssl", "click", "openai", "anthropic", "redis", "jinja2"}
