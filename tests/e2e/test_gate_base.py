"""A gate as CI calls it: policy of the base, authority of the base, attempts, forms; through the command itself."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

LIMITS = {
    "min_requests": 5000,
    "max_error_rate": 0.001,
    "max_p95_ms": 250,
    "max_slo_burn": 1.0,
    "min_healthy_hosts": 3,
    "required_window_seconds": 1800,
}
METRICS = {
    "requests": 8200,
    "errors": 6,
    "p95_ms": 210.0,
    "slo_burn": 0.4,
    "healthy_hosts": 4,
    "window_seconds": 1800,
    "source": "prometheus",
    "collected_at": "2026-11-30T08:00:00Z",
}
GATE = (sys.executable, "-m", "drillmaster", "gate", "canary")
NOW = "2026-11-30T12:00:00Z"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    made = Repo(tmp_path / "repo", keys)
    made.write(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo"),
            ".drillmaster/roster.yaml": ROSTER,
            ".drillmaster/canary.json": json.dumps(LIMITS),
            "src/app.py": "x = 1\n",
        }
    )
    sign(made.path / ".drillmaster/canary.json", keys.private("bo"), namespace=POLICY)
    made.commit()
    made.branch("change")
    made.commit({"src/app.py": "x = 2\n"}, signed="ada")
    return made


def gate(
    repo: Repo, *more: str, metrics: Mapping[str, object] = METRICS, env: Mapping[str, str] = {}
) -> tuple[int, str, str]:
    evidence = repo.path.parent / "metrics.json"
    evidence.write_text(json.dumps(metrics))
    done = subprocess.run(
        [*GATE, str(evidence), "--policy", ".drillmaster/canary.json", "--base", "main", "--now", NOW, *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(repo.path.parent / "state"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_change_that_leaves_its_judges_alone_passes_by_the_policy_of_the_base(repo: Repo) -> None:
    (repo.path / ".drillmaster/canary.json").write_text("{}")  # what the working tree says is not asked
    code, said, _ = gate(repo)
    assert code == 0, said
    assert "PASS the policy is signed by bo" in said
    assert "PASS the change leaves alone what judges it" in said
    assert "[TREE" not in said


def test_a_policy_that_the_change_loosens_does_not_judge_and_fails(repo: Repo) -> None:
    repo.commit({".drillmaster/canary.json": json.dumps({**LIMITS, "max_p95_ms": 9000})}, signed="ada")
    code, said, _ = gate(repo, metrics={**METRICS, "p95_ms": 800.0})
    assert code == 1
    assert "FAIL p95 at most 250 ms" in said
    assert "FAIL the change leaves alone what judges it: .drillmaster/canary.json" in said


def test_a_change_of_the_policy_that_somebody_else_signed_passes(repo: Repo, keys: Keys) -> None:
    repo.write({".drillmaster/canary.json": json.dumps({**LIMITS, "max_p95_ms": 300})})
    sign(repo.path / ".drillmaster/canary.json", keys.private("bo"), namespace=POLICY)
    repo.commit(signed="ada")
    code, said, _ = gate(repo)
    assert code == 0, said
    assert "what judges the change was changed by those who may" in said


def test_a_base_whose_policy_is_not_signed_is_refused_with_the_command(repo: Repo) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".drillmaster/canary.json.sig": None})
    repo.git("checkout", "-q", "change")
    code, said, _ = gate(repo)
    assert code == 2
    assert "mend policy-signed: drillmaster policy sign .drillmaster/canary.json --key KEY" in said


def test_a_policy_that_is_not_there_names_what_writes_one(repo: Repo) -> None:
    code, said, complaint = gate(repo, "--policy", ".drillmaster/none.json")
    assert (code, said) == (2, "") and "drillmaster init gates --gate canary" in complaint


def test_a_policy_that_only_the_working_tree_has_is_to_be_merged_and_not_written_again(repo: Repo) -> None:
    (repo.path / ".drillmaster/none.json").write_text(json.dumps(LIMITS))
    code, said, complaint = gate(repo, "--policy", ".drillmaster/none.json")
    assert (code, said) == (2, "")
    assert "the working tree has one" in complaint and "none.json, commit it, and merge it first" in complaint
    assert "init gates" not in complaint


def test_a_policy_that_the_change_adds_is_the_bootstrap(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.commit({"src/app.py": "x = 1\n"})
    repo.branch("change")
    repo.commit({".drillmaster/canary.json": json.dumps(LIMITS)})
    code, said, _ = gate(repo)
    assert code == 0 and "BOOTSTRAP" in said.splitlines()[0]


def test_asking_again_with_other_numbers_is_counted_and_the_same_numbers_are_not(repo: Repo) -> None:
    bad = {**METRICS, "p95_ms": 800.0}
    assert gate(repo, metrics=bad)[0] == 1
    assert gate(repo, metrics=bad)[0] == 1
    code, said, _ = gate(repo)
    assert code == 0
    assert "attempt 2 at this subject; the ones before: fail" in said and "counted: attempt 2" in said
    ledger = (repo.path.parent / "state" / "attempts.jsonl").read_text().splitlines()
    assert len(ledger) == 2


def test_all_forms_at_once_and_one_exit_code(repo: Repo, tmp_path: Path) -> None:
    forms = {form: tmp_path / f"out.{form}" for form in ("json", "junit", "sarif", "github", "markdown", "text")}
    words = [word for form, path in forms.items() for word in ("--output", f"{form}={path}")]
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    code, said, _ = gate(
        repo,
        *words,
        "--format",
        "github",
        metrics={**METRICS, "p95_ms": 800.0},
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert code == 1
    assert said.startswith("::error title=drillmaster canary%3A fail::")
    assert all(path.stat().st_size for path in forms.values())
    assert json.loads(forms["json"].read_text())["exit"] == 1
    assert json.loads(forms["sarif"].read_text())["runs"][0]["results"]
    assert summary.read_text().startswith("before\n<!-- drillmaster canary -->\n**FAIL**")


def test_a_form_that_cannot_be_written_turns_a_pass_into_a_refusal(repo: Repo, tmp_path: Path) -> None:
    code, said, complaint = gate(repo, "--output", f"json={tmp_path}")
    assert code == 2 and "promote: pinned metrics passed policy" in said and str(tmp_path) in complaint


@pytest.mark.parametrize(
    "more",
    [
        ("--base", "nope"),
        ("--head", "--all"),
        ("--base", "main", "--event", "nothing.json"),
        ("--repo", "/"),
        ("--now", "yesterday"),
        ("--output", "pdf=x"),
        ("--output", "json"),
        ("--attempts", "/proc/self/none"),
    ],
)
def test_whatever_cannot_be_used_is_refused_in_one_line(repo: Repo, more: tuple[str, ...]) -> None:
    code, _, complaint = gate(repo, *more)
    assert code == 2
    assert "Traceback" not in complaint and complaint.strip()


def test_a_ledger_that_was_edited_refuses(repo: Repo) -> None:
    gate(repo, metrics={**METRICS, "p95_ms": 800.0})
    ledger = repo.path.parent / "state" / "attempts.jsonl"
    gate(repo, metrics={**METRICS, "p95_ms": 801.0})
    ledger.write_text("\n".join(ledger.read_text().splitlines()[1:]) + "\n")
    assert gate(repo)[0] == 2
