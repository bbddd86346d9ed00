"""A drill's verdict held against a repository: the base's policy, its signatures, and how often it was tried."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

GOLDEN = Path(__file__).parents[1] / "golden" / "eviction"
LIMITS = (GOLDEN / "pass" / "policy.yaml").read_text()
GATE = (sys.executable, "-m", "drillmaster", "gate", "eviction")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    keys = Keys(tmp_path / "keys")
    (tmp_path / "keys").mkdir()
    made = Repo(tmp_path / "repo", keys)
    made.write(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo"),
            ".drillmaster/roster.yaml": ROSTER,
            ".drillmaster/eviction-policy.yaml": LIMITS,
        }
    )
    sign(made.path / ".drillmaster/eviction-policy.yaml", keys.private("bo"), namespace=POLICY)
    made.commit()
    made.branch("change")
    for run in ("pass", "fail-no-fallback"):
        shutil.copytree(GOLDEN / run, tmp_path / run)
    return made


def gate(repo: Repo, run: str, *more: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*GATE, str(repo.path.parent / run), "--now", "2026-12-01T00:00:00Z", *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(repo.path.parent / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_bases_policy_judges_and_the_runs_folder_keeps_what_anybody_can_give_again(repo: Repo) -> None:
    code, said, _ = gate(repo, "pass", "--base", "main")
    assert code == 0, said
    assert "PASS the policy is signed by bo" in said and "PASS the change leaves alone what judges it" in said
    kept = json.loads((repo.path.parent / "pass" / "verdict.json").read_text())
    assert "policy-signed" not in {check["id"] for check in kept["checks"]}
    card = subprocess.run(
        [sys.executable, "-m", "drillmaster", "card", str(repo.path.parent / "pass"), "--out", "-"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert card.returncode == 0, card.stderr


def test_a_change_of_the_policy_does_not_judge_and_fails(repo: Repo) -> None:
    repo.commit({".drillmaster/eviction-policy.yaml": LIMITS.replace("5.0", "500.0")}, signed="ada")
    code, said, _ = gate(repo, "pass", "--base", "main")
    assert code == 1 and "FAIL the change leaves alone what judges it" in said


def test_a_base_without_a_policy_names_what_writes_one(repo: Repo) -> None:
    code, said, complaint = gate(repo, "pass", "--base", "main", "--policy", ".drillmaster/other.yaml")
    assert (code, said) == (2, "") and "drillmaster init eviction" in complaint


def test_a_problem_in_the_bases_policy_is_told_by_its_own_name(repo: Repo) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".drillmaster/eviction-policy.yaml": "kind: policy\nkind: policy\n"})
    code, _, complaint = gate(repo, "pass", "--base", "main")
    assert code == 2
    assert ".drillmaster/eviction-policy.yaml at " in complaint and "drillmaster-base-" not in complaint


def test_drilling_until_it_is_green_is_counted_and_a_policy_can_limit_it(repo: Repo) -> None:
    policy = repo.path.parent / "policy.yaml"
    policy.write_text(LIMITS)
    assert gate(repo, "fail-no-fallback")[0] == 1
    code, said, _ = gate(repo, "pass")
    assert code == 0 and "attempt 2 at this subject; the ones before: fail" in said
    assert gate(repo, "pass")[:2] == (code, said)  # the same evidence again is the same attempt
    for run in ("pass", "fail-no-fallback"):
        limited = repo.path.parent / run / "policy.yaml"
        limited.write_text(f"{LIMITS}max_attempts: 1\n")
    code, said, _ = gate(repo, "pass")
    assert code == 2 and "asking until the answer is yes is no evidence" in said
