"""The matrix gate as CI calls it: the drill matrix of the base, signed by a person of its roster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ROSTER, Keys, Repo
from tests.fridays.paper import MATRIX, RUN, Paper

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

GATE = (sys.executable, "-m", "drillmaster", "gate", "matrix")
NOW = "2026-12-04T14:10:00Z"


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
            "drill-matrix.yaml": json.dumps(MATRIX),
            "src/app.py": "x = 1\n",
        }
    )
    sign(made.path / "drill-matrix.yaml", keys.private("bo"), namespace=POLICY)
    made.commit()
    made.branch("change")
    made.commit({"src/app.py": "x = 2\n"}, signed="ada")
    return made


def gate(repo: Repo, run: Path, *more: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*GATE, str(run), "--policy", "drill-matrix.yaml", "--base", "main", "--now", NOW, *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(repo.path.parent / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def loosened() -> dict[str, Any]:
    matrix: dict[str, Any] = json.loads(json.dumps(MATRIX))
    matrix["rows"][0]["objective"] = "p95 < 25 s"
    return matrix


def test_a_drill_passes_by_the_signed_matrix_of_the_base(repo: Repo, tmp_path: Path) -> None:
    run = Paper(tmp_path / RUN).write()
    (repo.path / "drill-matrix.yaml").write_text("{}")  # what the working tree says is not asked
    code, said, complaint = gate(repo, run)
    assert code == 0, said + complaint
    assert "PASS the policy is signed by bo" in said
    assert said.splitlines()[-1].startswith("PASS matrix")
    assert json.loads((run / "verdict.json").read_text())["status"] == "pass"


def test_a_matrix_that_the_change_loosens_neither_judges_nor_passes(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"drill-matrix.yaml": json.dumps(loosened())}, signed="ada")
    code, said, _ = gate(repo, Paper(tmp_path / RUN, matrix=loosened()).write())
    assert code == 2, said
    assert "is not the one the drill was run under" in said


def test_a_matrix_of_the_base_that_nobody_signed_is_refused(repo: Repo, tmp_path: Path) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({"drill-matrix.yaml.sig": None})
    repo.git("checkout", "-q", "change")
    code, said, _ = gate(repo, Paper(tmp_path / RUN).write())
    assert code == 2
    assert "drillmaster policy sign" in said


def test_a_matrix_with_a_blank_cannot_be_signed(repo: Repo, keys: Keys) -> None:
    path = repo.path / "blank.yaml"
    path.write_text(json.dumps({**MATRIX, "owner": None}))
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "policy", "sign", str(path), "--key", str(keys.private("bo"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, "/owner" in done.stderr) == (2, True)
