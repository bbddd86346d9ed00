"""The law of tool use, over facts: no server, no list, no arguments."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards import find
from drillmaster.guards.tools import HALTS, REASONS, Session, Tools, ToolUse

PIN = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
LIMITS = Tools(
    privileges=("fs.read", "fs.write.limited"),
    granted=("fs.read",),
    wire="pinned",
    max_compared_ms=1_000,
    max_arguments_bytes=100,
    max_calls=2,
)
CALL: dict[str, Any] = {
    "asks": "call",
    "list_sha256": PIN,
    "server": "files",
    "tool": "read_file",
    "listed": True,
    "compared_ms_ago": 1_000,
    "pinned_sha256": OTHER,
    "offered_sha256": OTHER,
    "privileges": ("fs.read",),
    "arguments_bytes": 100,
    "arguments_read": True,
}
START: dict[str, Any] = {"asks": "start", "list_sha256": PIN, "server": "files", "listed": True}
OPEN: dict[str, Any] = {"asks": "open", "list_sha256": PIN, "server": "files", "offered": 1}


def reason(facts: dict[str, Any], state: Session | None = None, guard: Tools = LIMITS) -> str:
    after, decision = guard.step(state, ToolUse(**facts), 0)
    assert decision.allowed == (decision.reason in ("contract-holds", "server-holds"))
    assert decision.reason in REASONS
    assert after is not None
    return decision.reason


@pytest.mark.parametrize(
    ("base", "but", "wanted"),
    [
        (CALL, {}, "contract-holds"),
        (START, {}, "server-holds"),
        (OPEN, {}, "server-holds"),
        (CALL, {"list_sha256": ""}, "no-contracts"),
        (START, {"list_sha256": ""}, "no-contracts"),
        (OPEN, {"list_sha256": ""}, "no-contracts"),
        (START, {"listed": False}, "command-not-listed"),
        (START, {"command_faults": 1}, "command-refused"),
        (START, {"programs_changed": 1}, "program-changed"),
        (OPEN, {"readable": False, "changed": 1}, "listing-unreadable"),
        (OPEN, {"offered": 0}, "nothing-offered"),
        (OPEN, {"changed": 1, "added": 1}, "tool-changed"),
        (OPEN, {"removed": 1, "added": 1}, "tool-removed"),
        (OPEN, {"added": 1}, "tool-added"),
        (OPEN, {"moved": True}, "not-compared"),
        (OPEN, {"moved": True, "changed": 1}, "tool-changed"),  # it was offered, whatever came after it
        (CALL, {"compared_ms_ago": None}, "not-compared"),
        (CALL, {"compared_ms_ago": 1_001}, "listing-stale"),
        (CALL, {"listed": False}, "tool-not-allowed"),
        (CALL, {"listed": False, "looks_like_another": True}, "tool-lookalike"),
        (CALL, {"pinned_sha256": ""}, "not-pinned"),
        (CALL, {"offered_sha256": ""}, "not-pinned"),
        (CALL, {"pinned_sha256": "", "offered_sha256": ""}, "not-pinned"),  # two absences are no match
        (CALL, {"offered_sha256": PIN}, "pin-changed"),
        (CALL, {"privileges": ()}, "privileges-missing"),
        (CALL, {"privileges": ("fs.read", "fs.Read")}, "privilege-unknown"),
        (CALL, {"privileges": ("fs.read", "fs.write.limited")}, "privilege-not-granted"),
        (CALL, {"finished": False}, "call-unfinished"),
        (CALL, {"repeated": True}, "call-repeated"),
        (CALL, {"kind_known": False, "listed": False}, "call-kind-unknown"),
        (CALL, {"arguments_bytes": 101}, "arguments-too-large"),
        (CALL, {"arguments_read": False}, "arguments-unreadable"),
        (CALL, {"schema_usable": False}, "schema-unusable"),
        (CALL, {"arguments_unknown": 1, "arguments_misfit": 1}, "arguments-unknown"),
        (CALL, {"arguments_misfit": 1}, "arguments-misfit"),
    ],
)
def test_the_first_that_holds_decides(base: dict[str, Any], but: dict[str, Any], wanted: str) -> None:
    assert reason(base | but) == wanted


@pytest.mark.parametrize(
    "but",
    [
        {"offered": True},
        {"offered": -1},
        {"changed": 1.0},
        {"arguments_bytes": "5"},
        {"arguments_unknown": 2**53},
        {"compared_ms_ago": -1},
        {"compared_ms_ago": True},
        {"listed": 1},
        {"finished": None},
        {"tool": None},
        {"server": b"files"},
        {"privileges": ["fs.read"]},
        {"privileges": ("fs.read", 1)},
        {"list_sha256": "a" * 64},
        {"pinned_sha256": "sha256:" + "A" * 64},
        {"offered_sha256": None},
        {"asks": "close"},
    ],
)
def test_what_is_no_fact_is_denied_and_raises_nothing(but: dict[str, Any]) -> None:
    assert reason(CALL | but) == "facts-unusable"


@pytest.mark.parametrize("id_", sorted(HALTS))
def test_what_was_not_signed_halts_the_session_for_good(id_: str) -> None:
    facts = {
        "program-changed": START | {"programs_changed": 1},
        "tool-changed": OPEN | {"changed": 1},
        "tool-removed": OPEN | {"removed": 1},
        "tool-added": OPEN | {"added": 1},
        "pin-changed": CALL | {"offered_sha256": PIN},
    }[id_]
    state, _ = LIMITS.step(None, ToolUse(**facts), 0)
    assert state == Session(0, id_)
    for later in (CALL, START, OPEN):  # also when all is as it was again
        assert reason(later, state) == "halted"


def test_a_denial_that_is_no_mismatch_halts_nothing() -> None:
    state, _ = LIMITS.step(None, ToolUse(**CALL | {"arguments_unknown": 1}), 0)
    assert state == Session(0, "")


def test_a_session_has_so_many_calls_and_no_more() -> None:
    state, left = None, []
    for _ in range(3):
        state, decision = LIMITS.step(state, ToolUse(**CALL), 0)
        left.append((decision.reason, decision.left))
    assert left == [("contract-holds", 1), ("contract-holds", 0), ("calls-exhausted", 0)]


def test_functions_of_the_workers_own_are_compared_with_no_server() -> None:
    guard = msgspec.structs.replace(LIMITS, wire="not compared")
    bare = {"compared_ms_ago": None, "pinned_sha256": "", "offered_sha256": ""}
    assert reason(CALL | bare, guard=guard) == "contract-holds"
    assert reason(CALL | bare | {"arguments_unknown": 1}, guard=guard) == "arguments-unknown"


def test_a_grant_that_is_no_privilege_is_refused() -> None:
    with pytest.raises(ValueError, match="granted"):
        msgspec.structs.replace(LIMITS, granted=("fs.all",))


def test_facts_have_no_field_for_an_argument_or_a_description() -> None:
    with pytest.raises(TypeError):
        ToolUse(**CALL, arguments={})  # type: ignore[call-arg]  # what this shows
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"asks": "call", "list_sha256": "", "arguments": {}}, ToolUse)


@given(st.builds(ToolUse, asks=st.sampled_from(("start", "open", "call")), list_sha256=st.sampled_from(("", PIN))))
def test_whatever_the_facts_exactly_one_reason_stands(facts: ToolUse) -> None:
    _, decision = LIMITS.step(None, facts, 0)
    assert decision.reason in REASONS


def test_it_is_found_by_its_name_and_loads_nothing_that_waits() -> None:
    assert find("tools") is Tools
    code = (
        "import sys, drillmaster.guards.tools; "
        "print([m for m in ('asyncio', 'socket', 'ssl', 'mcp', 'openai', 'anthropic', 'jsonschema_rs', 'drillmaster.gates') "
        "if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert out.stdout.strip() == "[]"
