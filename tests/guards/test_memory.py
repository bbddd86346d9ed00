"""May a lane write there: by class, by both paths, by what was found in the bytes."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards import Decision, find
from drillmaster.guards.memory import REASONS, Memory, Write, allow_write, plain

GUARD = Memory(
    grants={"runner": ("memory", "transcript", "plan", "draft"), "free_lane": ("draft", "plan", "memory", "other")},
    max_bytes=1_000,
    personal="refuse",
)


def decided(**facts: Any) -> str:
    usual = {"lane": "runner", "path": "memory.json", "bytes": 40, "secrets": 0, "personal": 0, "unread": 0}
    told = {**usual, **facts}
    _, decision = GUARD.step(None, Write(**{"leads": told["path"], **told}), 0)
    assert decision.reason in REASONS
    assert decision == Decision(allowed=decision.reason == "may-write", reason=decision.reason)
    return decision.reason


DRAFT = "drafts/readme.md"
SPELLINGS = [
    "memory.json",
    "scratchpad.md",
    "Memory.json",
    "MEMORY.JSON",
    "memory.json ",
    " memory.json",
    "memory.json/.",
    "./memory.json",
    "memory.json\0",
    "a\\memory.json",
    "memory.ｊson",
    "ｍemory.json",
    "mem\u200bory.json",
    "m\u0435mory.json",
    "memory.json.tmp",
    "memory.json.bak",
    "memory.json~",
    ".memory.json.swp",
    "memory-2.json",
    "memory (1).json",
    "Copy of memory.json",
    "memory.md",
    "notes.md",
    "agent-state.json",
    "state.json",
    "logs/session-1.jsonl",
    "logs/x",
    "vectors/a",
    "a.faiss",
    ".agent/cache/3f.json",
    "scratchpad-2.md",
    "MEMORY_POINTER",
    "memory_pointer",
    "tools.allow.json",
    "Tools.Allow.json",
    ".git/hooks/pre-commit",
    "drafts/../memory.json",
    "drafts/..\\memory.json",
    "../memory.json",
    "/etc/passwd",
    "/memory.json",
    "a//memory.json",
    "memory.json:x",
    "memory.json::$DATA",
    "plan.md",
    "plans/a.md",
    "readme.md",
    "src/main.py",
    "",
    ".",
    "..",
    "/",
    "drafts/memory.json",
    "drafts/.env",
    "drafts/a.sqlite",
    "drafts/CLAUDE.md",
    "drafts/readme.md ",
    "drafts/readme.md.",
    "drafts\\readme.md",
    "drafts/re\nadme.md",
    "drafts/re\u202eadme.md",
    "ｄrafts/readme.md",
    None,
    5,
    b"drafts/readme.md",
    ["drafts/readme.md"],
    True,
]


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_free_lane_writes_no_state_under_whatever_spelling(path: Any) -> None:
    for lane in ("free_lane", "best_effort"):
        assert not allow_write(lane, path)
    assert decided(lane="free_lane", path=path) != "may-write"


@pytest.mark.parametrize(
    "lane",
    [
        *(
            "Free_lane",
            "free-lane",
            "free_lane ",
            " free_lane",
            "FREE_LANE",
            "free_l\u0430ne",
            "unknown",
            "",
            "runner2",
        ),
        *("human", None, 5, ["free_lane"]),
    ],
)
def test_a_lane_that_is_spelled_otherwise_writes_nothing(lane: Any) -> None:
    assert not allow_write(lane, DRAFT)
    assert decided(lane=lane, path=DRAFT) in ("lane-unknown", "facts-unusable")


def test_a_free_lane_writes_drafts_and_plans_that_nobody_rereads() -> None:
    assert allow_write("free_lane", DRAFT)
    assert allow_write("best_effort", "tmp/plan-1.md")
    assert decided(lane="free_lane", path=DRAFT) == "may-write"
    assert decided(lane="free_lane", path="tmp/plan-1.md") == "may-write"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "may-write"),
        ({"found": "file"}, "may-write"),
        ({"path": "./notes//memory.md", "leads": "notes/memory.md"}, "may-write"),
        # both paths are asked about
        ({"leads": ""}, "leads-elsewhere"),
        ({"path": DRAFT, "leads": "memory.json"}, "leads-elsewhere"),
        ({"path": "memory.json", "leads": "notes/memory.json"}, "leads-elsewhere"),
        ({"lane": "free_lane", "path": DRAFT, "leads": "memory.json"}, "leads-elsewhere"),
        # one spelling, one name
        ({"path": "memory.json "}, "path-unsafe"),
        ({"path": "memory.ｊson"}, "path-unsafe"),
        ({"path": "drafts/memory%2ejson", "leads": "drafts/memory%2ejson"}, "path-unsafe"),
        ({"path": "memory.json:x"}, "path-unsafe"),
        ({"path": "a\\memory.json"}, "path-unsafe"),
        ({"path": "../memory.json"}, "path-unsafe"),
        ({"path": "memory.json\0"}, "path-unsafe"),
        ({"path": "notes/" + "x" * 300}, "path-unsafe"),
        ({"found": "twin"}, "second-name"),
        ({"found": "other"}, "not-a-file"),
        ({"found": "anything"}, "facts-unusable"),
        # classes
        ({"path": "tools.allow.json"}, "class-denied"),
        ({"path": "MEMORY_POINTER"}, "class-denied"),
        ({"path": "vectors/a.faiss"}, "class-denied"),
        ({"path": "src/main.py"}, "class-denied"),
        ({"lane": "free_lane", "path": "memory.json"}, "class-denied"),
        # bytes
        ({"bytes": 1_000}, "may-write"),
        ({"bytes": 1_001}, "too-large"),
        ({"secrets": 1}, "secret"),
        ({"secrets": 1, "path": DRAFT, "lane": "free_lane"}, "secret"),
        ({"unread": 1}, "unscannable"),
        ({"personal": 2}, "personal-data"),
        *(({"bytes": n}, "facts-unusable") for n in (-1, True, 4.0, None, "40", 2**60)),
        ({"secrets": False}, "facts-unusable"),
        ({"leads": None}, "facts-unusable"),
    ],
)
def test_a_write_is_decided(facts: dict[str, Any], reason: str) -> None:
    assert decided(**facts) == reason


def test_personal_data_is_let_by_where_the_policy_only_reports_it() -> None:
    told = msgspec.structs.replace(GUARD, personal="report")
    facts = Write(lane="runner", path="a/memory.md", leads="a/memory.md", bytes=1, secrets=0, personal=3, unread=0)
    assert told.step(None, facts, 0)[1].allowed


def test_a_policy_cannot_grant_a_path_that_says_nothing() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"guard": "memory", "grants": {"a": ["unsafe"]}, "max_bytes": 1, "personal": "refuse"}, Memory)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_raises_and_a_free_lane_never_gets_state(lane: str, path: str) -> None:
    assert not allow_write(lane, path)
    assert decided(lane="free_lane", path=f"{path}memory.json") != "may-write"


@given(st.text(st.sampled_from("amory.json/dfts \\:\u200b\u0435ｊ"), max_size=30))
def test_what_a_free_lane_writes_lies_where_it_says(path: str) -> None:
    if allow_write("free_lane", path):
        assert plain(path) and path == path.strip() and "\\" not in path and ".." not in path.split("/")


def test_it_is_found_by_its_name_and_brings_in_little() -> None:
    assert find("memory") is Memory
    code = "import sys; import drillmaster.guards.memory; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"asyncio", "socket", "ssl", "click", "openai", "anthropic", "redis", "jinja2"}
