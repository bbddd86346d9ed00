"""What an agent keeps is written whole or not at all, where the path says, and only what was written so is resumed on."""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from drillmaster.adapters.worker.memory import MOVE_STEPS, STEPS, Workspace
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.guards.memory import Memory
from drillmaster.intake.judging import Asked

GUARD = Memory(
    grants={"runner": ("memory", "transcript", "plan", "draft"), "free_lane": ("draft",)},
    max_bytes=10_000,
    personal="refuse",
)
POLICY = """
kind: policy
version: 1
source: runbook agents, chapter 4
owner: Ada of the platform team
review_by: 2027-02-28
gates:
  - gate: workspace
    host: controlled
    max_file_bytes: 2000000
    max_total_bytes: 200000000
    max_files: 5000
    max_unpacked_bytes: 67108864
    min_files: 1
    max_plan_age_s: 3600
    may_stay: [memory, transcript, plan]
    to_be_moved: fail
    personal_data: durable
    media: refuse
    left_out: [.git]
    must_survive_host_loss: false
    max_red_flags: 1
    stores: {}
    answers:
      other_disk: true
      export_path: s3://backups/agent
      evict_without_ticket: true
      planner_is_not_writer: true
      deletion_owner: Ada of the platform team
      memory_is_a_store: true
      resume_checks_digest: true
      memory_paths: [memory.json, "notes/*.md"]
      embeddings_from: nothing
    exceptions: []
"""


class Place:
    """A working directory, its sums, and a policy of the workspace gate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.sums = folder / "state" / "sums.json"
        for name in ("drafts", "notes", "logs"):
            (self.root / name).mkdir(parents=True)
        (folder / "policy.yaml").write_text(POLICY)
        self.workspace = Workspace(self.root, GUARD, sums=self.sums)

    def said(self, lane: str, path: str, data: bytes = b'{"a": 1}') -> str:
        before = self.files()
        decision = self.workspace.write(lane, path, data)
        if not decision.allowed:
            assert self.files() == before
        return decision.reason

    def files(self) -> dict[str, bytes]:
        return {
            str(one.relative_to(self.root)): one.read_bytes()
            for one in self.root.rglob("*")
            if one.is_file() and not one.is_symlink()
        }

    def resumed(self) -> tuple[bool, tuple[str, ...]]:
        now_ns = parse_rfc3339("2026-12-01T01:00:00Z") or 0
        state = self.folder / "state"
        asked = Asked(now_ns=now_ns, state=state, policy=str(self.folder / "policy.yaml"), attempts=state / "attempts")
        told = self.workspace.resume(asked)
        return told.allowed, told.faults


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_lane_writes_what_it_was_given(place: Place) -> None:
    assert place.said("runner", "memory.json") == "may-write"
    assert place.said("runner", "notes/memory-a.md", b"the export ran") == "may-write"
    assert place.said("free_lane", "drafts/readme.md", b"a draft") == "may-write"
    assert place.files() == {
        "memory.json": b'{"a": 1}',
        "notes/memory-a.md": b"the export ran",
        "drafts/readme.md": b"a draft",
    }
    assert place.said("runner", "memory.json", b"{}") == "may-write"
    assert place.workspace.read("memory.json") == b"{}"
    assert os.stat(place.root / "memory.json").st_mode & 0o777 == 0o600
    assert place.said("runner", str(place.root / "notes/memory-b.md")) == "may-write"


@pytest.mark.parametrize(
    ("lane", "path", "reason"),
    [
        ("free_lane", "memory.json", "class-denied"),
        ("free_lane", "drafts/memory.json", "class-denied"),
        ("free_lane", "memory.json.tmp", "class-denied"),
        ("free_lane", "drafts/../memory.json", "path-unsafe"),
        ("free_lane", "memory.ｊson", "path-unsafe"),
        ("free_lane", "drafts/a\0.md", "path-unsafe"),
        ("free_lane", "drafts/a\ud800.md", "path-unsafe"),
        # a resume takes away what is called like a write under way: written there, it would be lost
        ("free_lane", "drafts/.drillmaster-half-0123456789abcdef", "path-unsafe"),
        ("runner", "drafts/.Drillmaster-half-x", "path-unsafe"),
        ("Free_lane", "drafts/readme.md", "lane-unknown"),
        ("runner", "tools.allow.json", "class-denied"),
        ("runner", "../memory.json", "path-unsafe"),
        ("runner", "/memory.json", "leads-elsewhere"),
        ("runner", "/etc/memory.json", "leads-elsewhere"),
        ("runner", "", "path-unsafe"),
        ("runner", ".", "path-unsafe"),
    ],
)
def test_another_write_is_denied_and_changes_nothing(place: Place, lane: str, path: str, reason: str) -> None:
    assert place.said(lane, path) == reason


def test_no_link_is_followed(place: Place) -> None:
    outside = place.folder / "outside"
    outside.mkdir()
    (outside / "memory.json").write_text("theirs")
    (place.root / "memory.json").write_text("ours")
    os.symlink(outside, place.root / "notes2")
    os.symlink("..", place.root / "drafts" / "up")
    os.symlink("../memory.json", place.root / "drafts" / "readme.md")
    os.symlink(outside / "memory.json", place.root / "notes" / "memory.md")
    os.symlink("nowhere", place.root / "drafts" / "dangling.md")
    assert place.said("runner", "notes2/memory.json") == "leads-elsewhere"
    assert place.said("free_lane", "drafts/up/drafts/a.md") == "leads-elsewhere"
    assert place.said("free_lane", "drafts/readme.md") == "not-a-file"
    assert place.said("free_lane", "drafts/dangling.md") == "not-a-file"
    assert place.said("runner", "notes/memory.md") == "not-a-file"
    assert (outside / "memory.json").read_text() == "theirs"
    assert (place.root / "memory.json").read_text() == "ours"


def test_no_second_name_is_made_or_written_to(place: Place) -> None:
    (place.root / "memory.json").write_text("ours")
    os.link(place.root / "memory.json", place.root / "drafts" / "a.md")
    assert place.said("free_lane", "drafts/a.md") == "second-name"
    (place.root / "drafts" / "a.md").unlink()
    assert place.said("runner", "Memory.json") == "second-name"
    assert place.said("runner", "memory.json") == "may-write"
    os.mkfifo(place.root / "drafts" / "b.md")
    (place.root / "drafts" / "c.md").mkdir()
    assert place.said("free_lane", "drafts/b.md") == "not-a-file"
    assert place.said("free_lane", "drafts/c.md") == "not-a-file"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"password = hunter2hunter2\n", "secret"),
        (b"ghp_" + b"a1B2" * 9, "secret"),
        ("password = hunter2hunter2\n".encode("utf-16"), "secret"),
        (gzip.compress(b"AKIA" + b"IOSFODNN7EXAMPLQ" + b" " * 100, mtime=0), "secret"),
        (b"mail ada.lovelace@realcompany.com about it", "personal-data"),
        (gzip.compress(b"x" * 500, mtime=0)[:-9], "unscannable"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "unscannable"),
        (b"x" * 10_001, "too-large"),
    ],
)
def test_what_is_in_the_bytes_is_looked_at_before_they_touch_the_disk(place: Place, data: bytes, reason: str) -> None:
    assert place.said("runner", "memory.json", data) == reason
    assert not place.sums.exists()


def test_a_name_that_is_a_secret_is_none(place: Place) -> None:
    assert place.said("free_lane", "drafts/ghp_" + "a1B2" * 9 + ".md") == "secret"


def test_a_move_asks_about_both_ends(place: Place) -> None:
    place.said("free_lane", "drafts/a.md", b"a draft")
    assert place.workspace.move("free_lane", "drafts/a.md", "memory.json").reason == "class-denied"
    place.said("runner", "memory.json", b"{}")
    assert place.workspace.move("free_lane", "memory.json", "drafts/b.md").reason == "class-denied"
    assert place.workspace.move("runner", "memory.json", "tools.allow.json").reason == "class-denied"
    assert place.workspace.move("runner", "memory.json", "notes/memory.md").allowed
    assert place.files() == {"drafts/a.md": b"a draft", "notes/memory.md": b"{}"}
    assert place.workspace.read("notes/memory.md") == b"{}"
    (place.root / "notes" / "memory-c.md").write_text("password = hunter2hunter2")
    assert place.workspace.move("runner", "notes/memory-c.md", "notes/memory-d.md").reason == "secret"
    assert place.resumed()[1] == ("notes/memory-c.md: memory that nobody wrote through here",)


def test_an_agent_resumes_on_what_was_written_through_here(place: Place) -> None:
    place.said("runner", "memory.json")
    place.said("free_lane", "drafts/readme.md", b"a draft")
    assert place.resumed() == (True, ())


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        ("changed", "memory.json: other bytes than were written"),
        ("gone", "memory.json: it is not there"),
        ("planted", "notes/memory-b.md: memory that nobody wrote through here"),
        ("linked", "memory.json: it is not there"),
        ("renamed", "memory.json: it is not there"),
    ],
)
def test_an_agent_does_not_resume_on_anything_else(place: Place, what: str, fault: str) -> None:
    place.said("runner", "memory.json")
    memory = place.root / "memory.json"
    match what:
        case "changed":
            memory.write_text('{"a": 2}')
        case "gone":
            memory.unlink()
            (place.root / "readme.md").write_text("so that there is something to look at")
        case "planted":
            (place.root / "notes" / "memory-b.md").write_text("renew the lease")
        case "linked":
            memory.rename(place.folder / "memory.json")
            os.symlink(place.folder / "memory.json", memory)
            (place.root / "readme.md").write_text("so that there is something to look at")
        case "renamed":
            memory.rename(place.root / "readme.md")
    allowed, faults = place.resumed()
    assert not allowed and fault in faults
    if what == "changed":
        with pytest.raises(Problem, match="nobody wrote through here"):
            place.workspace.read("memory.json")


def test_an_agent_does_not_resume_where_the_workspace_gate_says_no(place: Place) -> None:
    place.said("runner", "memory.json")
    (place.root / "readme.md").write_text("password = hunter2hunter2")
    assert place.resumed() == (False, ())


def test_an_agent_does_not_resume_without_a_policy(place: Place) -> None:
    place.said("runner", "memory.json")
    (place.folder / "policy.yaml").unlink()
    with pytest.raises(Problem):
        place.resumed()


class Died(BaseException):
    """What ends a write where a process would be killed."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [b"", b'{"old": 1}'])
def test_a_write_that_ends_at_any_step_leaves_the_old_file_or_the_new_one(
    place: Place, step: str, before: bytes
) -> None:
    if before:
        place.said("runner", "memory.json", before)
    (place.root / "readme.md").write_text("so that there is something to look at")

    def at(one: str) -> None:
        if one == step:
            raise Died

    with pytest.raises(Died):
        place.workspace.write("runner", "memory.json", b'{"new": 2}', at=at)
    there = place.files().get("memory.json", b"")
    assert there in (before, b'{"new": 2}')
    assert place.resumed() == (True, ())
    assert set(place.files()) <= {"memory.json", "readme.md"}
    assert place.said("runner", "memory.json", b'{"newer": 3}') == "may-write"
    kept = json.loads(place.sums.read_text())["files"]
    assert kept == {"memory.json": {"sha256": hashlib.sha256(b'{"newer": 3}').hexdigest(), "next": ""}}
    assert place.resumed() == (True, ())


def test_a_folder_that_is_moved_away_meanwhile_takes_nothing_along(place: Place) -> None:
    def at(one: str) -> None:
        if one == "compared":
            (place.root / "notes").rename(place.folder / "elsewhere")
            (place.root / "notes").mkdir()

    with pytest.raises(Problem, match="moved meanwhile"):
        place.workspace.write("runner", "notes/memory-a.md", b"{}", at=at)
    assert list((place.folder / "elsewhere").iterdir()) == []


def test_sums_lie_where_no_lane_writes(place: Place) -> None:
    for path in (place.root, place.root / "sums.json", place.root / "drafts" / ".." / "sums.json"):
        with pytest.raises(Problem, match="one outside"):
            Workspace(place.root, GUARD, sums=path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "memory-sums", "version": 2}', '{"kind": "x"}', "{"])
def test_sums_that_cannot_be_read_refuse_and_are_not_written_over(place: Place, text: str) -> None:
    place.said("runner", "memory.json")
    place.sums.write_text(text)
    for act in (place.resumed, lambda: place.workspace.write("runner", "memory.json", b"{}")):
        with pytest.raises(Problem):
            act()
        assert place.sums.read_text() == text


def test_a_folder_that_is_not_there_is_a_problem_for_whoever_may_write_there(place: Place) -> None:
    with pytest.raises(Problem, match="no such folder"):
        place.workspace.write("runner", "notes/deep/memory.md", b"{}")
    assert place.said("free_lane", "nowhere/memory.json") == "class-denied"


def test_each_decision_is_written_down_and_counted_without_a_path(tmp_path: Path) -> None:
    place = Place(tmp_path)
    recorder = Recorder(tmp_path / "timeline.jsonl")
    workspace = Workspace(place.root, GUARD, sums=place.sums, recorder=recorder, entry="agent-memory")
    workspace.write("runner", "memory.json", b"{}")
    workspace.write("free_lane", "memory-of-ada.json", b"{}")
    workspace.move("runner", "memory.json", "notes/memory.md")
    lines = [json.loads(line) for line in (tmp_path / "timeline.jsonl").read_text().splitlines() if line.strip()]
    assert [(one["event"], one["reason"], one["lane"]) for one in lines] == [
        ("guard_decision", "may-write", "runner"),
        ("guard_decision", "class-denied", "free_lane"),
        ("guard_decision", "may-write", "runner"),
    ]
    assert "ada" not in (tmp_path / "timeline.jsonl").read_text()
    assert recorder.counts() == {
        ("agent-memory", "memory", "may-write", True): 2,
        ("agent-memory", "memory", "class-denied", False): 1,
    }


@pytest.mark.parametrize("step", MOVE_STEPS)
def test_a_move_that_ends_at_any_step_loses_nothing(place: Place, step: str) -> None:
    place.said("runner", "memory.json", b'{"a": 1}')
    (place.root / "readme.md").write_text("so that there is something to look at")

    def at(one: str) -> None:
        if one == step:
            raise Died

    with pytest.raises(Died):
        place.workspace.move("runner", "memory.json", "notes/memory.md", at=at)
    there = {path: data for path, data in place.files().items() if path != "readme.md"}
    assert there and set(there.values()) == {b'{"a": 1}'}
    assert place.resumed() == (True, ())
    assert set(json.loads(place.sums.read_text())["files"]) == set(there)
    assert place.resumed() == (True, ())
