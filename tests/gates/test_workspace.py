"""The workspace gate, from a folder to the exit code: the article's pair, what its script passed over, what is harmless."""

import json
import os
import random
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from drillmaster.cli import main
from drillmaster.gates._asks import asks
from drillmaster.gates._cases.workspace import LIMITS, NOW_NS, beside, cases, one
from drillmaster.gates._selftest import selftest
from drillmaster.gates.workspace import Workspace
from drillmaster.verdict import conclude

AWS = "AKI" + "A4QTRVZ7WX2LMNOPB"
DSN = "postgres" + "://ops:demo@db/app"


def policy(**changes: Any) -> dict[str, Any]:
    limits = msgspec.to_builtins(LIMITS) | changes
    return {
        "kind": "policy",
        "version": 1,
        "source": "runbook agents 4",
        "owner": "platform team",
        "review_by": "2099-01-01",
        "gates": [limits],
    }


class Said:
    """What one call of the command line came to."""

    def __init__(self, code: int, out: str, err: str, report: dict[str, Any] | None) -> None:
        self.code, self.out, self.err, self.report = code, out, err, report

    def flags(self, path: str) -> list[str]:
        assert self.report is not None
        return next((row["flags"] for row in self.report["findings"] if row["path"] == path), [])


def judged(root: Path, *more: str, **changes: Any) -> Said:
    beside_it = root.parent / f"{root.name}-asked"
    beside_it.mkdir(exist_ok=True)
    rules, report = beside_it / "policy.json", beside_it / "report.json"
    rules.write_text(json.dumps(policy(**changes)))
    words = ["gate", "workspace", str(root), "--policy", str(rules), "--report", str(report), *more]
    words += ["--attempts", str(beside_it / "attempts.jsonl")]
    result = CliRunner().invoke(_called, words)
    assert "Traceback" not in result.output
    return Said(
        result.exit_code, result.stdout, result.stderr, json.loads(report.read_text()) if report.exists() else None
    )


import click  # noqa: E402 - beside the one thing that it is for


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True}, add_help_option=False)
@click.pass_context
def _called(ctx: click.Context) -> None:
    main(argv=ctx.args)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "agent-workspace"
    folder.mkdir()
    (folder / "readme.md").write_text("draft outline only\n")
    return folder


def test_each_check_goes_red_and_green() -> None:
    assert [row for row in selftest("workspace") if not row.holds] == []


def test_every_check_has_an_entry_and_every_line_a_check_that_exists() -> None:
    known = asks("workspace")
    yielded = {check.id for case in cases() for check in case.gate.checks(case.evidence)}
    assert [check for check in yielded if known.of(check) is None] == []
    ids = {entry.id for entry in known.check}
    assert [name for line in known.line for name in line.checks if name not in ids] == []
    assert sum(bool(line.checks) for line in known.line) * 3 >= len(known.line) * 2


def test_the_articles_pair_keeps_its_codes(root: Path) -> None:
    clean = judged(root, "--exit-map", "articles")
    assert (clean.code, clean.report) == (0, {"findings": [], "refuse_count": 0})
    assert "does not make the host a trusted one" in clean.out
    (root / ".agent").mkdir()
    (root / "memory.json").write_text('{"note":"' + DSN + '"}\n')
    bad = judged(root, "--exit-map", "articles")
    assert bad.code == 2
    assert bad.report == {
        "findings": [
            {
                "path": "memory.json",
                "flags": ["durable_memory_name", "secret_pattern"],
                "severity": "refuse",
                "bytes": (root / "memory.json").stat().st_size,
            }
        ],
        "refuse_count": 1,
    }
    assert judged(root).code == 1
    assert "demo" not in bad.out.replace("demo@", "demo")


@pytest.mark.parametrize(
    ("path", "content", "flag"),
    [
        ("a.txt", AWS.encode(), "secret_pattern"),
        ("a.txt", AWS.encode("utf-16"), "secret_pattern"),
        ("src/deep/a.py", b"KEY = '" + AWS.encode() + b"'", "secret_pattern"),
        ("logs/session-1.jsonl", b'{"cookie": "sid=abc123def"}', "secret_pattern"),
        (f"{AWS}.txt", b"text", "secret_in_name"),
        ("notes.md", b"call jane.doe@example.com", "personal_data"),
        ("logs/a.txt", b"paid with 4111 1111 1111 1111", "personal_data"),
        ("memory.json.bak", b"{}", "durable_memory_name"),
        ("memory-2.json", b"{}", "durable_memory_name"),
        ("state.json", b"{}", "durable_memory_name"),
        ("plan-1.md", b"1. retry", ""),
        ("a.db", b"x", "binary_store"),
        ("a.sqlite3", b"x", "binary_store"),
        ("a.lance", b"x", "binary_store"),
        ("a.parquet", b"x", "binary_store"),
        ("a.npy", b"x", "binary_store"),
        ("a.pkl", b"x", "binary_store"),
        ("a.hnsw", b"x", "binary_store"),
        ("a.sqlite-wal", b"x", "binary_store"),
        ("a.SQLITE", b"x", "binary_store"),
        (".agent/cache/a.json", b"{}", "cache_or_vector_dir"),
        ("vectors/a.json", b"[]", "cache_or_vector_dir"),
        ("big.txt", b"a" * 2_000_001, "oversize"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c" + b"\0" * 40, "unscannable"),
        ("a.bin", random.Random(1).randbytes(5000), "unscannable"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(500), "media"),
        (".env", b"DEBUG=1", "identity_hint"),
    ],
)
def test_what_the_articles_script_passed_over_is_flagged(root: Path, path: str, content: bytes, flag: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    said = judged(root)
    assert said.report is not None
    if flag:
        assert said.code == 1
        assert [row for row in said.report["findings"] if flag in row["flags"]]
    else:
        assert said.report["findings"] == []
    assert AWS not in said.out + said.err + json.dumps(said.report)
    assert "jane.doe" not in said.out
    assert "4111 1111" not in said.out


def test_links_pipes_and_sockets_are_flagged(root: Path) -> None:
    secrets = root.parent / "secrets"
    secrets.mkdir()
    (root / "logs").symlink_to(secrets)
    (root / "memory.json").symlink_to("nothing")
    os.mkfifo(root / "scratchpad.md")
    said = judged(root)
    assert said.code == 1
    assert "link" in said.flags("logs")
    assert "link" in said.flags("memory.json")
    assert "not_a_file" in said.flags("scratchpad.md")


def test_a_link_inside_the_tree_is_no_finding(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "copy.md").symlink_to("../readme.md")
    assert judged(root).code == 0


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("tokenizer.json", b'{"unk_token": "<unk>", "vocab": {"token": 1, "password": 2, "secret": 3}}'),
        ("docs/auth.md", b"The secretary is passwordless. Bearer of bad news. api_key=<YOUR_KEY>"),
        ("lorem.txt", b"Lorem ipsum dolor sit amet " * 2000),
        (
            "package-lock.json",
            b'{"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="}',
        ),
        ("app.min.js", b"!function(e,t){var n=e.token,r=e.secret||t.key;n.password=r?n.pass:null}(window);" * 500),
        (
            "ids.txt",
            b"3f786850e387550fdab836ed7e6dc881de23001b 123e4567-e89b-12d3-a456-426614174000 1764518400123456789",
        ),
        ("src/main.py", b"password = os.environ['DB_PASSWORD']\nconnect(password=password)\n"),
        ("AUTHORS", b"Jane Doe <jane@example.org>"),
        ("unicode.md", "Grüße, 日本語, ½ ﬁ ™".encode()),
        ("latin1.txt", b"caf\xe9 cr\xe8me"),
        ("empty.txt", b""),
        ("drafts/readme.md", b"draft"),
    ],
)
def test_harmless_files_pass(root: Path, path: str, content: bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    said = judged(root)
    assert (said.code, said.report) == (0, {"findings": [], "refuse_count": 0}), said.out


def test_state_without_a_secret_has_a_status_of_its_own(root: Path) -> None:
    (root / "memory.json").write_text('{"plan": "retry"}')
    told = judged(root, must_survive_host_loss=False)
    assert told.code == 1
    assert told.report is not None
    assert (told.report["findings"][0]["severity"], told.report["refuse_count"]) == ("copy_then_evict", 0)
    assert "drillmaster workspace evict" in told.out
    assert judged(root, must_survive_host_loss=False, to_be_moved="report").code == 0


def test_a_controlled_host_may_keep_what_the_policy_says(root: Path) -> None:
    (root / "memory.json").write_text('{"plan": "retry"}')
    assert judged(root, host="controlled", may_stay=["memory"], must_survive_host_loss=True).code == 0


def test_an_empty_workspace_was_not_looked_at(root: Path) -> None:
    (root / "readme.md").unlink()
    assert judged(root).code == 2
    assert judged(root, "--exit-map", "articles").code == 2


def test_a_root_that_cannot_be_read_is_refused(root: Path) -> None:
    for name in ("nowhere", "readme.md"):
        assert judged(root / name).code == 2
        assert judged(root / name, "--exit-map", "articles").code == 2


def test_an_empty_path_is_not_the_folder_we_stand_in(root: Path) -> None:
    result = CliRunner().invoke(_called, ["gate", "workspace", "", "--repo", str(root)])
    assert result.exit_code == 2


def test_a_workspace_below_a_cache_is_no_cache(tmp_path: Path) -> None:
    folder = tmp_path / ".cache" / "sessions" / "work"
    folder.mkdir(parents=True)
    (folder / "readme.md").write_text("text")
    assert judged(folder).code == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"max_file_bytes": 0},
        {"max_file_bytes": True},
        {"max_file_bytes": "2000000"},
        {"max_red_flags": 2},
        {"may_stay": ["memory"]},
        {"may_stay": ["everything"]},
        {"max_plan_age_s": 7200},
        {"max_plan_age_s": -1},
        {"left_out": ["/"]},
        {"left_out": ["."]},
        {"left_out": [""]},
        {"left_out": ["../x"]},
        {"left_out": ["*"]},
        {"host": "Free"},
        {"to_be_moved": None},
        {"unheard_of": 1},
        {"answers": {}},
        {"stores": {"everything": "/srv"}},
        {"exceptions": [{"path": "a"}]},
    ],
)
def test_a_policy_that_cannot_be_is_refused(root: Path, changes: dict[str, Any]) -> None:
    said = judged(root, **changes)
    assert said.code == 2
    assert said.report is None


def test_an_exception_holds_for_these_very_bytes(root: Path) -> None:
    import hashlib

    content = f"an example: {AWS}".encode()
    (root / "lesson.md").write_bytes(content)
    exempt = {
        "path": "lesson.md",
        "flag": "secret_pattern",
        "sha256": hashlib.sha256(content).hexdigest(),
        "until": "2099-01-01",
        "why": "a key that was never one",
    }
    said = judged(root, exceptions=[exempt])
    assert said.code == 0
    assert "1 exceptions" in said.out
    (root / "lesson.md").write_bytes(content + b" ")
    assert judged(root, exceptions=[exempt]).code == 1
    assert judged(root, exceptions=[exempt | {"until": "2020-01-01"}]).code == 2


def test_two_red_flags_stop_the_write_and_one_does_not() -> None:
    def status(**answers: Any) -> str:
        gate = msgspec.structs.replace(LIMITS, answers=msgspec.structs.replace(LIMITS.answers, **answers))
        return conclude(tuple(gate.checks(beside(one("drafts/a.md", place="draft")))))

    assert status(other_disk=False) == "pass"
    assert status(other_disk=False, export_path="") == "fail"


def test_every_form_is_written_and_holds_no_value(root: Path) -> None:
    (root / "memory.json").write_text('{"note":"' + DSN.replace("demo", "hunter2") + '"}\n')
    forms = ("text", "json", "junit", "sarif", "github", "markdown")
    for form in forms:
        said = judged(root, "--format", form)
        assert said.code == 1
        assert "hunter2" not in said.out + said.err
        assert "memory.json" in said.out


def test_a_tree_of_names_that_are_no_utf8_is_told_in_every_form(root: Path) -> None:
    with open(os.fsencode(root) + b"/mem\xffory.json", "wb") as file:
        file.write(AWS.encode())
    for form in ("text", "json", "junit", "sarif", "github", "markdown"):
        said = judged(root, "--format", form)
        assert said.code == 1
        said.out.encode()


def test_a_socket_is_no_file(short_dir: Path) -> None:
    folder = short_dir / "w"
    folder.mkdir()
    (folder / "a.md").write_text("text")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        assert "not_a_file" in judged(folder).flags("s")


def test_flags_are_told_for_what_they_are() -> None:
    gate: Workspace = LIMITS
    tree = beside(one("plan-1.md", place="plan"), one("plan-2.md", place="plan", mtime_ns=NOW_NS - 7200 * 10**9))
    assert gate.found(tree) == ()
    assert [check.id for check in gate.checks(tree) if check.status != "pass"] == ["plan-age"]


def alone(root: Path, *more: str) -> Said:
    words = ["gate", "workspace", str(root), "--repo", str(root.parent), *more]
    result = CliRunner().invoke(_called, [*words, "--attempts", str(root.parent / "attempts.jsonl")])
    return Said(result.exit_code, result.stdout, result.stderr, None)


def test_without_a_policy_the_scan_judges_as_the_articles_script_does_and_is_stamped(root: Path) -> None:
    clean = alone(root, "--exit-map", "articles")
    assert clean.code == 0
    assert "UNPINNED" in clean.out
    assert "SCAN ALONE" in clean.out
    assert "red flags" not in clean.out
    (root / "MEMORY_POINTER").write_text("memory_uri=/mnt/store/agent/memory.json\n")
    assert alone(root, "--exit-map", "articles").code == 0
    assert judged(root, "--exit-map", "articles").code == 2  # nothing shows that what lies there is what was moved
    (root / "memory.json").write_text("{}")
    assert alone(root, "--exit-map", "articles").code == 0
    (root / "memory.json").write_text('{"note":"' + DSN + '"}')
    assert (alone(root, "--exit-map", "articles").code, alone(root).code) == (2, 1)
