"""Evidence on which each check of the workspace gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.workspace import Answers, Exempt, Pointer, Seen, Tree, Workspace
from drillmaster.rules.secrets import Hit
from drillmaster.verdict import Status

__all__ = ["cases"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
MINUTE_NS = 60 * 10**9
DIGEST = "ab" * 32
STORE = "/srv/agent-store"

ANSWERS = Answers(
    other_disk=True,
    export_path="s3://backups/agent",
    evict_without_ticket=True,
    planner_is_not_writer=True,
    deletion_owner="platform team",
    memory_is_a_store=True,
    resume_checks_digest=True,
    memory_paths=("memory.json", "notes/*.md"),
    embeddings_from="synthetic",
)
LIMITS = Workspace(
    host="free",
    max_file_bytes=2_000_000,
    max_total_bytes=100_000_000,
    max_files=50_000,
    max_unpacked_bytes=64 << 20,
    min_files=1,
    max_plan_age_s=3600,
    may_stay=("plan",),
    to_be_moved="fail",
    personal_data="durable",
    media="refuse",
    left_out=(".git",),
    must_survive_host_loss=True,
    max_red_flags=1,
    stores={
        "memory": STORE,
        "cache": STORE,
        "transcript": STORE,
        "vectors": STORE,
        "identity": STORE,
        "store": STORE,
    },
    answers=ANSWERS,
    exceptions=(),
)
README = Seen(path="readme.md", bytes=20, mtime_ns=NOW_NS, sha256=DIGEST)
GOOD = Tree(
    root="agent-workspace", entries=(README,), folders=1, total_bytes=20, now_ns=NOW_NS, digest="sha256:" + DIGEST
)
SECRET = Hit(group="secret", kind="connection-password", offset=22)
ADDRESS = Hit(group="personal", kind="email", offset=3)


def but(**changes: Any) -> Tree:
    """The good tree with something changed."""
    return msgspec.structs.replace(GOOD, **changes)


def beside(*entries: Seen) -> Tree:
    """The good tree with more in it."""
    return but(entries=(README, *entries))


def one(path: str, **fields: Any) -> Seen:
    """One more entry."""
    return Seen(**{"path": path, "bytes": 40, "mtime_ns": NOW_NS, "sha256": DIGEST, **fields})


def _red() -> Iterator[tuple[str, Status, Tree]]:
    yield "whole", "refused", but(cut="more than 50,000 entries")
    yield "whole", "refused", but(changed=True)
    yield "examined", "refused", but(entries=())
    yield "examined", "refused", but(entries=(one("a.bin", unread=("7z is not read here",)),))
    yield "secret-pattern", "fail", beside(one("notes.md", place="memory", hits=(SECRET,), counts={"secret": 1}))
    yield "secret-in-name", "fail", beside(one("[screened].txt", name_hits=(SECRET,), counts={"secret": 1}))
    yield "personal-data", "fail", beside(one("notes/a.md", place="memory", hits=(ADDRESS,), counts={"personal": 1}))
    yield "binary-store", "fail", beside(one("a.sqlite", place="store", by_suffix=True))
    yield "oversize", "fail", beside(one("a.txt", bytes=2_000_001))
    yield "unscannable", "fail", beside(one("a.zip", unread=("a member of the zip is locked",)))
    yield "unreadable", "fail", beside(one("a.txt", trouble="no permission"))
    yield "not-a-file", "fail", beside(one("memory.json", kind="fifo", place="memory"))
    yield "link", "fail", beside(one("memory.json", kind="link", place="memory", leads="nowhere"))
    yield "link", "fail", beside(one("logs", kind="link", leads="outside"))
    yield "link", "fail", beside(one("memory.json", place="memory", hard_links=2))
    yield "other-mount", "fail", beside(one("data", kind="mount"))
    yield "media", "fail", beside(one("screen.png", media="image"))
    yield (
        "transcript-secret",
        "fail",
        beside(one("logs/a.jsonl", place="transcript", hits=(SECRET,), counts={"secret": 1})),
    )
    yield "left-out", "fail", beside(one(".git/memory.json", place="memory", left_out=True))
    for place in ("memory", "cache", "transcript", "vectors", "identity"):
        yield f"copy-then-evict.{place}", "fail", beside(one("notes/a.md", place=place))
    yield "copy-then-evict.store", "fail", beside(one("a.db", place="store", by_suffix=True))
    yield "copy-then-evict.memory", "fail", beside(one("old.zip", packed=("memory",)))
    yield "plan-age", "fail", beside(one("plan-1.md", place="plan", mtime_ns=NOW_NS - 60 * MINUTE_NS))
    yield "plan-age", "fail", beside(one("plan-1.md", place="plan", mtime_ns=NOW_NS + 60 * MINUTE_NS))
    yield "interrupted", "fail", beside(one("memory.json.tmp", place="memory", open_mark="half written, by its name"))
    yield "named-path", "fail", beside(one("deep/memory.json", place="memory"))
    yield (
        "pointer",
        "fail",
        but(pointers=(Pointer(path="MEMORY_POINTER", problem="found an empty pointer, wanted one"),)),
    )
    yield (
        "pointer",
        "fail",
        but(pointers=(Pointer(path="MEMORY_POINTER", uri=f"{STORE}/memory.json", sha256=DIGEST, blob_there=True),)),
    )
    yield (
        "pointer",
        "fail",
        but(pointers=(Pointer(path="MEMORY_POINTER", uri="/elsewhere/memory.json", sha256=DIGEST),)),
    )
    yield "host-loss", "fail", beside(one("memory.json", place="memory"))


def _raised() -> Iterator[tuple[Workspace, Tree]]:
    """Each red flag, in pairs: one alone stops nothing."""
    for field, value in (
        ("other_disk", False),
        ("export_path", ""),
        ("evict_without_ticket", False),
        ("planner_is_not_writer", False),
        ("deletion_owner", " "),
        ("memory_is_a_store", False),
        ("resume_checks_digest", False),
        ("memory_paths", ()),
    ):
        answers = msgspec.structs.replace(ANSWERS, **{"embeddings_from": "production", field: value})
        yield msgspec.structs.replace(LIMITS, answers=answers), GOOD
    live = Hit(group="live", kind="connection-string", offset=0)
    yield (
        LIMITS,
        beside(
            one("plan-1.md", place="plan", hits=(live,), counts={"live": 1}),
            one("logs/a.jsonl", place="transcript", hits=(ADDRESS,), counts={"personal": 1}),
        ),
    )
    yield (
        LIMITS,
        beside(
            one("memory.json", place="memory", hits=(live,), counts={"live": 1}),
            one(".agent/a.json", place="cache", hits=(SECRET,), counts={"secret": 1}),
        ),
    )


def cases() -> Iterator[Case]:
    """Yield evidence with the status that one check has on it."""
    for check, status, tree in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=tree)
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
    yield Case(check="plan-age", status="pass", gate=LIMITS, evidence=beside(one("plan-1.md", place="plan")))
    homeless = msgspec.structs.replace(LIMITS, stores={})
    yield Case(check="stores", status="fail", gate=homeless, evidence=beside(one("memory.json", place="memory")))
    odd = msgspec.structs.replace(LIMITS, stores={"memory": "somewhere safe"})
    yield Case(check="stores", status="fail", gate=odd, evidence=GOOD)
    yield Case(check="stores", status="pass", gate=LIMITS, evidence=beside(one("memory.json", place="memory")))
    keeps = msgspec.structs.replace(LIMITS, may_stay=(), stores={})
    yield Case(check="copy-then-evict.plan", status="fail", gate=keeps, evidence=beside(one("plan-1.md", place="plan")))
    yield Case(
        check="copy-then-evict.plan", status="pass", gate=LIMITS, evidence=beside(one("plan-1.md", place="plan"))
    )
    told = msgspec.structs.replace(LIMITS, to_be_moved="report")
    yield Case(
        check="copy-then-evict.memory", status="pass", gate=told, evidence=beside(one("memory.json", place="memory"))
    )
    for gate, tree in _raised():
        yield Case(check="red-flags", status="fail", gate=gate, evidence=tree)
    single = msgspec.structs.replace(ANSWERS, other_disk=False)
    yield Case(check="red-flags", status="pass", gate=msgspec.structs.replace(LIMITS, answers=single), evidence=GOOD)
    looked_at = Exempt(
        path="a.md", flag="secret_pattern", sha256=DIGEST, until="2026-12-31", why="an example in a lesson"
    )
    excused = msgspec.structs.replace(LIMITS, exceptions=(looked_at,))
    example = one("a.md", hits=(SECRET,), counts={"secret": 1})
    yield Case(check="exceptions", status="pass", gate=excused, evidence=beside(example))
    yield Case(check="secret-pattern", status="pass", gate=excused, evidence=beside(example))
    other = msgspec.structs.replace(example, sha256="cd" * 32)
    yield Case(check="secret-pattern", status="fail", gate=excused, evidence=beside(other))
    for field, value in (("until", "2026-11-29"), ("until", "soon"), ("why", " "), ("flag", "all"), ("sha256", "ab")):
        wrong = msgspec.structs.replace(looked_at, **{field: value})
        gate = msgspec.structs.replace(LIMITS, exceptions=(wrong,))
        yield Case(check="exceptions", status="refused", gate=gate, evidence=GOOD)
        yield Case(check="secret-pattern", status="fail", gate=gate, evidence=beside(example))
