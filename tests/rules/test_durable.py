"""Which files a later turn rereads, and who may write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.durable import DURABLE, Class, may_write, place, seen

GRANTS: dict[str, frozenset[Class]] = {
    "free_lane": frozenset({"plan", "draft", "memory", "control", "pointer", "other"}),
    "best_effort": frozenset({"plan", "draft"}),
    "runner": frozenset({"memory", "pointer", "plan", "transcript", "draft"}),
}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        # the article's own names, and how they come again
        ("memory.json", "memory"),
        ("memory.md", "memory"),
        ("scratchpad.md", "memory"),
        ("notes.md", "memory"),
        ("notes/memory.md", "memory"),
        ("agent-state.json", "memory"),
        ("agent_state.json", "memory"),
        ("state.json", "memory"),
        ("Memory.JSON", "memory"),
        ("memory.json.bak", "memory"),
        ("memory.json.bak.gz", "memory"),
        ("memory.json.tmp", "memory"),
        ("memory.json~", "memory"),
        ("memory.json.1", "memory"),
        (".memory.json.swp", "memory"),
        ("#memory.json#", "memory"),
        (".~lock.memory.json#", "memory"),
        ("memory-2.json", "memory"),
        ("memory_2.json", "memory"),
        ("memory2.json", "memory"),
        ("memory (1).json", "memory"),
        ("memory copy.json", "memory"),
        ("Copy of memory.json", "memory"),
        ("memory-2026-11-30.json", "memory"),
        ("memory-final-v2.json", "memory"),
        ("memory", "memory"),
        ("memory.yaml", "memory"),
        ("memory.json ", "memory"),
        ("memory.json.", "memory"),
        ("memory.json/.", "memory"),
        ("./memory.json", "memory"),
        ("a//memory.json", "memory"),
        ("a\\memory.json", "memory"),
        ("memory.ｊson", "memory"),
        ("ｍｅｍｏｒｙ.json", "memory"),
        ("mem\u200bory.json", "memory"),
        ("m\u0435mory.json", "memory"),  # a Cyrillic e
        ("scratchpad-2.md", "memory"),
        ("scratchpad2.md", "memory"),
        ("agent_memory_v2_prod.json", "memory"),
        ("memory-bank/projects.md", "memory"),
        # caches
        (".agent/cache/3f9a.json", "cache"),
        (".agent/x", "cache"),
        (".cache/http/1", "cache"),
        ("tool_results/1.json", "cache"),
        ("tool-cache.json", "cache"),
        (".Agent/x", "cache"),
        # transcripts
        ("logs/session-1.jsonl", "transcript"),
        ("session-1.jsonl", "transcript"),
        ("logs/anything.txt", "transcript"),
        ("transcripts/a.txt", "transcript"),
        ("sessions/a", "transcript"),
        ("chat_history.json", "transcript"),
        ("conversation-12.md", "transcript"),
        # vectors and stores
        ("vectors/a", "vectors"),
        ("vectors/a.index", "vectors"),
        ("a.faiss", "vectors"),
        ("a.lance", "vectors"),
        ("a.hnsw", "vectors"),
        ("a.parquet", "vectors"),
        ("a.NPY", "vectors"),
        ("embeddings.json", "vectors"),
        ("a.pkl", "store"),
        ("a.db", "store"),
        ("a.sqlite", "store"),
        ("a.SQLITE", "store"),
        ("a.sqlite3", "store"),
        ("a.sqlite-wal", "store"),
        ("a.db-journal", "store"),
        ("a.sqlite.bak", "store"),
        ("a.duckdb", "store"),
        # plans
        ("plan-1.md", "plan"),
        ("plan.md", "plan"),
        ("plans/x.yaml", "plan"),
        ("PLAN.md.bak", "plan"),
        ("plan-migration.md", "plan"),
        ("/tmp/plan-1.md", "plan"),
        ("todo.md", "plan"),
        # hints at who somebody is
        ("identity.md", "identity"),
        ("SOUL.md", "identity"),
        ("USER.md", "identity"),
        (".env", "identity"),
        (".env.production", "identity"),
        (".netrc", "identity"),
        (".aws/config", "identity"),
        ("id_rsa", "identity"),
        # what decides
        ("MEMORY_POINTER", "pointer"),
        ("memory_pointer.tmp", "pointer"),
        ("tools.allow.json", "control"),
        ("TOOLS.ALLOW.JSON", "control"),
        (".drillmaster/workspace-policy.yaml", "control"),
        (".git/hooks/pre-commit", "control"),
        (".mcp.json", "control"),
        ("CLAUDE.md", "control"),
        # text for people, and the rest
        ("drafts/readme.md", "draft"),
        ("readme.md", "other"),
        ("src/main.py", "other"),
        ("planet.md", "other"),
        ("memoryless.py", "other"),
        ("sessionize.py", "other"),
        ("tokenizer.json", "other"),
        ("footnotes.md", "other"),
        ("package-lock.json", "other"),
        ("statement.md", "other"),
        ("catalogs/x.txt", "other"),
    ],
)
def test_a_class_is_told_from_the_path(path: str, kind: Class) -> None:
    assert place(path).kind == kind
    assert seen(path).kind == kind


@pytest.mark.parametrize(
    "path",
    [
        "",
        None,
        5,
        "memory.json\0",
        "a\0b",
        "../memory.json",
        "a/../../b",
        "..",
        ".",
        "/",
        "a\nb",
        "a\ud800b",
        "drafts/..\\x",
    ],
)
def test_a_path_that_does_not_say_where_it_leads_is_unsafe(path: object) -> None:
    assert place(path).kind == "unsafe"
    assert not may_write("runner", path, {"runner": frozenset({"unsafe", "memory", "other", "draft"})})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("agentMemory.json", "memory"), ("longTermMemory.json", "memory"), ("memoRy.json", "memory"), ("MEMORY.JSON", "memory"),
        ("toolResults/x", "cache"), ("chatHistory.json", "transcript"), ("storageState.json", "identity"),
        ("memory.json:more", "memory"), ("memory.json::$DATA", "memory"), ("a/plan.md:x", "plan"), ("cookies.txt", "identity"),
        ("reflections.md", "memory"), ("chroma_db/x", "vectors"), ("faiss_index/x", "vectors"), ("checkpoints/3/x", "memory"),
        ("README.md", "other"), ("src/getElementById.ts", "other"), ("a:b.txt", "other"), ("JavaScript.md", "other"),
    ],
)  # fmt: skip  # rows
def test_two_words_in_one_and_a_stream_of_a_file_have_a_class(path: str, kind: Class) -> None:
    assert place(path).kind == kind
    grants: dict[str, frozenset[Class]] = {"free_lane": frozenset({"other", "memory", "cache", "draft"})}
    assert may_write("free_lane", path, grants) is False


@pytest.mark.parametrize("name", ["memory.json\x01", "mem\nory.json", "memory.json\udcff", "..memory.json"])
def test_a_file_that_is_there_has_a_class_however_it_is_named(name: str) -> None:
    assert seen(name).kind == "memory"


@pytest.mark.parametrize(
    ("lane", "path"),
    [
        ("Free_lane", "drafts/a.md"),
        ("free-lane", "drafts/a.md"),
        ("free_lane ", "drafts/a.md"),
        ("unknown", "drafts/a.md"),
        ("", "drafts/a.md"),
        (None, "drafts/a.md"),
        (True, "drafts/a.md"),
        ("free_lane", "memory.json"),
        ("free_lane", "Memory.json"),
        ("free_lane", "memory.json "),
        ("free_lane", "memory.json/."),
        ("free_lane", "memory.json\0"),
        ("free_lane", "a\\memory.json"),
        ("free_lane", "memory.ｊson"),
        ("free_lane", "memory.json.tmp"),
        ("free_lane", "memory.md"),
        ("free_lane", "notes.md"),
        ("free_lane", "agent-state.json"),
        ("free_lane", "logs/session-1.jsonl"),
        ("free_lane", "vectors/a.index"),
        ("free_lane", ".agent/cache/a.json"),
        ("free_lane", "scratchpad-2.md"),
        ("free_lane", "MEMORY_POINTER"),
        ("free_lane", "tools.allow.json"),
        ("free_lane", "plan-1.md"),  # the next turn rereads it
        ("free_lane", "drafts/memory.json"),
        ("free_lane", "drafts/../memory.json"),
        ("free_lane", "src/main.py"),
        ("best_effort", "notes.md"),
        ("runner", "tools.allow.json"),
        ("runner", "whatever.txt"),
        ("runner", ""),
        ("runner", None),
    ],
)
def test_a_write_that_the_table_does_not_give_is_denied(lane: object, path: object) -> None:
    assert not may_write(lane, path, GRANTS)


@pytest.mark.parametrize(
    ("lane", "path"),
    [
        ("free_lane", "drafts/readme.md"),
        ("best_effort", "/tmp/plan-1.md"),
        ("free_lane", "tmp/plan-1.md"),
        ("runner", "memory.json"),
        ("runner", "MEMORY_POINTER"),
        ("runner", "plan-1.md"),
    ],
)
def test_a_write_that_the_table_gives_is_allowed(lane: str, path: str) -> None:
    assert may_write(lane, path, GRANTS)


@pytest.mark.parametrize("lane", ["free_lane", "FREE LANE", "ｆree_lane", "Best-Effort"])
def test_a_table_cannot_give_a_free_lane_what_is_durable(lane: str) -> None:
    everything = {lane: DURABLE | {"control", "pointer", "other"}}
    for path in ("memory.json", ".agent/a", "logs/a", "a.db", "a.faiss", ".env", "MEMORY_POINTER", "mcp.json"):
        assert not may_write(lane, path, everything)


@given(st.text())
def test_any_text_has_a_class(path: str) -> None:
    assert place(path).kind
    assert seen(path).kind


@given(st.sampled_from(["memory.json", "logs/a.jsonl", "a.sqlite", "plan.md", ".env"]), st.data())
def test_case_and_width_make_no_difference(path: str, data: st.DataObject) -> None:
    spelled = "".join(char.upper() if data.draw(st.booleans()) else char for char in path)
    assert place(spelled).kind == place(path).kind
