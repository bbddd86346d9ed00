"""An owner answers for an oracle, by the very line that the check prints; and names that are no text."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.signing import POLICY as NAMESPACE
from drillmaster.signing import sign
from tests.e2e.repolab import BOT, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

ROSTER = """kind: roster
version: 1
people:
  - {identity: ada, emails: [ada@example.com], logins: [ada-l], teams: [payments-oncall]}
  - {identity: bo, emails: [bo@example.com], logins: [bo-l], teams: [maintainers]}
"""
OWNERS = "contracts/*.json\tpayments-oncall\tgit-pin\nfixtures/http/*.json\tpayments-oncall\tstaging-record\n"
POLICY = """kind: policy
version: 1
source: docs/oracles.md
owner: QA
review_by: "2099-06-30"
gates:
  - {gate: oracle, scratch: [tests/scratch/], docs: ["docs/**"], guarded: [], attest: digest, codeowners: optional, fixtures: any,
     staging_hosts: [], max_fixture_age_s: 604800, self_owner: maintainers}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    made = Repo(tmp_path / "repo", keys)
    made.write({".drillmaster/oracle-policy.yaml": POLICY})
    sign(made.path / ".drillmaster/oracle-policy.yaml", keys.private("bo"), namespace=NAMESPACE)
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo"),
            ".drillmaster/roster.yaml": ROSTER,
            ".oracle-owners": OWNERS,
            "contracts/pay.json": "{}\n",
        }
    )
    made.branch("change")
    return made


def judged(repo: Repo, *args: str) -> tuple[int, dict[str, dict[str, str]]]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "AGENT_", "ORACLE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "oracle", "--base", "main", "--json", *args],
        capture_output=True,
        text=True,
        env=base | {"XDG_STATE_HOME": str(repo.path.parent / "state")},
        timeout=120,
        cwd=repo.path,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
    return done.returncode, {one["id"]: one for one in json.loads(done.stdout)["checks"]}


def test_the_line_that_the_check_prints_makes_it_pass(repo: Repo) -> None:
    repo.commit({"contracts/pay.json": "[]\n"}, signed="bo")  # a person's, and not the owner's
    code, checks = judged(repo)
    assert code == 1
    assert {id_ for id_, one in checks.items() if one["status"] != "pass"} == {"attested"}
    words = shlex.split(re.search(r"git commit .*", checks["attested"]["remedy"])[0])  # type: ignore[index]  # it is there
    message = "oracles read\n\n" + "\n".join(words[at + 1] for at, word in enumerate(words) if word == "--trailer")
    repo.commit(message=message, signed="bo")  # the trailer of somebody who is not the owner
    assert judged(repo)[0] == 1
    repo.commit(message=message, signed="ada")
    assert judged(repo)[0] == 0
    repo.commit({"contracts/pay.json": "[1]\n"}, signed="bo")  # it changed after it was read
    assert judged(repo)[0] == 1


def test_a_name_that_is_no_text_is_a_name(repo: Repo) -> None:
    name = os.fsdecode(b"fixtures/http/\xff.json")
    repo.commit({name: "{}\n"}, by=BOT)
    code, checks = judged(repo)
    assert code == 1
    assert checks["lane-oracle"]["status"] == "fail"
    for form in ("text", "junit", "sarif", "github", "markdown"):
        assert (
            subprocess.run(
                [sys.executable, "-m", "drillmaster", "gate", "oracle", "--base", "main", "--format", form],
                capture_output=True,
                env=os.environ | {"XDG_STATE_HOME": str(repo.path.parent / "state")},
                timeout=120,
                cwd=repo.path,
            ).returncode
            == 1
        )
