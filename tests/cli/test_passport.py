"""`passport write`, `check` and `page`, as they are typed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.passport import command
from drillmaster.errors import Problem
from tests.interviewed import DECISION, JOB, POLICY, RUN, sealed

GOLDEN = Path(__file__).parent.parent / "golden" / "interview"
NOW = ("--now", "2026-12-01T09:00:00Z")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY + DECISION, encoding="utf-8")
    return tmp_path


def typed(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [os.fspath(word) for word in words])


def write(run: Path, *more: str | Path, kind: str = "summary") -> Result:
    return typed("write", run, "--job", JOB, "--policy", "policy.yaml", "--kind", kind, *NOW, *more)


def problem(result: Result) -> Problem:
    assert isinstance(result.exception, Problem), result.output
    return result.exception


def test_a_job_that_passed_may_run_and_says_until_when(here: Path) -> None:
    done = write(sealed(here), "--from", "CI runner")
    assert done.exit_code == 0, done.output
    assert "allowed on http://127.0.0.1:8000/v1/chat: interactive aids, summaries of one file" in done.output
    assert "budget note: OPEN" in done.output
    done = typed("check", JOB, *NOW)
    assert done.exit_code == 0
    assert done.output.startswith(f"PASS {JOB}: may run on http://127.0.0.1:8000/v1/chat: ")
    assert (
        "valid until 2026-12-30, UTC (29 days left); from run 20261130T120000Z-0001 of 41 calls; signature not asked for"
        in done.output
    )


def test_the_run_says_which_job_it_is_about(here: Path) -> None:
    done = typed("write", sealed(here), "--policy", "policy.yaml", "--kind", "summary", *NOW)
    assert done.exit_code == 0, done.output
    assert f"PASS {JOB}: allowed on" in done.output
    assert typed("check", JOB, *NOW).exit_code == 0


def test_a_job_of_a_kind_that_is_not_allowed_is_told_so_when_its_passport_is_written(here: Path) -> None:
    run = sealed(here)
    done = write(run, kind="batch")
    assert done.exit_code == 0
    assert "this job must not run there, and passport check exits 1: it is of the kind batch" in done.output
    assert typed("check", JOB, *NOW).exit_code == 1
    assert "this job must" not in write(run, kind="summary").output


def test_a_job_that_failed_stays_elsewhere(here: Path) -> None:
    assert write(sealed(here, failed=3)).exit_code == 1
    done = typed("check", JOB, *NOW)
    assert done.exit_code == 1
    assert done.output.startswith(f"FAIL {JOB}: must not run on ")


def test_json_is_one_document_and_says_the_same(here: Path) -> None:
    said: dict[str, Any] = json.loads(write(sealed(here), "--json").output)
    assert (said["exit"], said["passport"], said["signature"]) == (0, f"passports/{JOB.replace(' ', '-')}.json", None)
    said = json.loads(typed("check", JOB, *NOW, "--json").output)
    assert said | {"why": ""} == {
        "job": JOB, "status": "pass", "exit": 0, "why": "", "url": "http://127.0.0.1:8000/v1/chat", "run": RUN,
        "review_on": "2026-12-30", "days_left": 29, "signed_by": None, "stamps": [],
    }  # fmt: skip


def test_the_verdict_in_a_run_means_its_run_and_a_file_that_lies_alone_means_none(here: Path) -> None:
    run = sealed(here)
    (run / "verdict.json").write_text("{}")
    assert write(run / "verdict.json").exit_code == 0
    (here / "verdict.json").write_text("{}")
    assert "UNSEALED" in problem(write(here / "verdict.json")).found


def test_no_thresholds_no_passport(here: Path) -> None:
    refused = problem(typed("write", sealed(here), "--job", JOB))
    assert "--policy gate.json" in refused.remedy


def test_a_missing_passport_names_the_command_that_makes_one(here: Path) -> None:
    refused = problem(typed("check", "nightly lint"))
    assert int(refused.exit) == 2
    assert refused.remedy == "drillmaster passport write RUN --job 'nightly lint' --policy FILE"


def test_an_identity_needs_a_list_to_stand_in(here: Path) -> None:
    assert problem(typed("check", JOB, "--identity", "bea")).place == "--identity"


def test_the_page_of_a_run_and_of_a_bare_file(here: Path) -> None:
    run = sealed(here)
    done = typed("page", run, "--policy", "policy.yaml", "--out", "wiki/page.md", *NOW)
    assert done.exit_code == 0
    assert (here / "wiki" / "page.md").read_text() in done.output
    done = typed("page", GOLDEN / "fail.json", "--unsealed", "--job", "x", "--policy", GOLDEN / "gate.json")
    assert done.exit_code == 1
    assert done.output.startswith("# Free-Server Load Interview - x [UNSEALED, UNPROVEN")
    assert "wanted the job" in str(problem(typed("page", run, "--job", "x", "--policy", "policy.yaml", *NOW)))


@pytest.mark.e2e
@pytest.mark.needs("ssh-keygen")
def test_a_signature_that_is_asked_for_has_to_be_the_readers(here: Path) -> None:
    for name in ("reader", "other"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@example.com", "-f", name]
        subprocess.run(words, check=True, timeout=30)
    run = sealed(here)
    assert write(run).exit_code == 0
    unsigned = problem(typed("check", JOB, *NOW, "--signer", "reader.pub"))
    assert unsigned.found == "no signature"
    assert unsigned.remedy.endswith("--sign KEY")
    done = write(run, "--sign", "reader")
    assert done.exit_code == 0, done.output
    done = typed("check", JOB, *NOW, "--signer", "reader.pub")
    assert done.exit_code == 0
    assert "signed by reader@example.com SHA256:" in done.output
    assert int(problem(typed("check", JOB, *NOW, "--signer", "other.pub")).exit) == 2
    assert typed("check", JOB, *NOW).exit_code == 0
    # One that was made of other content is noticed though nobody asks for one; written anew, it goes.
    path = here / "passports" / f"{JOB.replace(' ', '-')}.json"
    path.write_text(path.read_text() + "\n")
    assert "a signature that does not fit" in problem(typed("check", JOB, *NOW)).found
    assert write(run).exit_code == 0
    assert typed("check", JOB, *NOW).exit_code == 0
