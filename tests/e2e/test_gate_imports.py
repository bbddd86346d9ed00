"""The gate over imports through the command itself: modules of a change, the policy of the base, and a working tree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.gates._cases.imports import CLASSIFIER, FILES
from tests.e2e.repolab import BOT, ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW = "2026-11-30T12:00:00Z"
POLICY = """kind: policy
version: 1
source: retry-runbook
owner: Ada of platform
review_by: 2027-06-30
gates:
  - gate: imports
    pinned: [src/app/retry/**, src/app/keys.py]
    classifiers: [src/app/retry/classifier.py]
    beside: [src/app/clock.py]
    roots: [src]
    min_modules: 2
"""
CODE = "src/app/retry/classifier.py"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    keys = Keys(tmp_path_factory.mktemp("keys"))
    repo = Repo(tmp_path_factory.mktemp("base") / "repo", keys)
    repo.commit({**FILES, ".drillmaster/imports-policy.yaml": POLICY, ".drillmaster/roster.yaml": ROSTER}, signed="ada")
    return repo


@pytest.fixture
def repo(base: Repo, tmp_path: Path) -> Repo:
    shutil.copytree(base.path, tmp_path / "repo", symlinks=True)
    copy = Repo.__new__(Repo)
    copy.path, copy.keys = tmp_path / "repo", base.keys
    copy.branch("change")
    return copy


def gate(repo: Repo, *more: str, state: Path) -> tuple[int, str, str]:
    found = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "imports", "--now", NOW, *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return found.returncode, found.stdout, found.stderr


def test_a_change_beside_the_pinned_modules_passes(repo: Repo, state: Path) -> None:
    repo.commit({"src/app/page.py": "import openai\n"}, by=BOT)
    code, said, err = gate(repo, "--base", "main", state=state)
    assert code == 0, said + err
    assert "4 pinned modules, 1 of them classifiers, 6 modules read" in said


def test_a_change_that_lets_a_classifier_ask_a_model_fails_with_file_and_line(repo: Repo, state: Path) -> None:
    late = CLASSIFIER + "\n\ndef unsure(status):\n    import openai\n    return openai.OpenAI()\n"
    repo.commit({CODE: late}, signed="ada")
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code == 1, said
    assert f"{CODE}:9: openai" in said
    code, said, _ = gate(repo, "--base", "main", "--format", "github", state=state)
    assert code == 1
    assert f"file={CODE},line=9" in said
    code, said, _ = gate(repo, "--base", "main", "--json", state=state)
    failed = {one["id"] for one in json.loads(said)["checks"] if one["status"] != "pass"}
    assert (code, failed) == (1, {"model-import"})


def test_what_is_judged_is_what_was_committed_and_not_what_lies_there(repo: Repo, state: Path) -> None:
    repo.commit({"src/app/clock.py": "from app.client import now\n"}, signed="ada")
    repo.write({"src/app/clock.py": FILES["src/app/clock.py"]})
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code == 1
    assert "by way of" in said
    code, said, err = gate(repo, "--policy", ".drillmaster/imports-policy.yaml", state=state)
    assert code == 0, said + err
    assert "TREE" in said


def test_a_change_of_the_policy_judges_no_change_of_its_own(repo: Repo, state: Path) -> None:
    lax = POLICY.replace("src/app/retry/**, ", "").replace("[src/app/retry/classifier.py]", "[]")
    lax = lax.replace("min_modules: 2", "min_modules: 1")
    repo.commit({".drillmaster/imports-policy.yaml": lax, CODE: CLASSIFIER + "import openai\n"}, by=BOT, signed="robot")
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code != 0
    assert f"{CODE}:6: openai" in said


def test_a_pinned_module_that_a_change_moves_away_is_refused_or_told(repo: Repo, state: Path) -> None:
    repo.git("mv", "src/app/keys.py", "src/app/other_keys.py")
    repo.git("mv", "src/app/retry/table.py", "src/app/table.py")
    repo.commit({CODE: CLASSIFIER.replace("app.retry import", "app import")}, signed="ada")
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code == 2, said
    assert "src/app/keys.py fits nothing" in said
    assert "src/app/retry/table.py: pinned at the base" in said
    assert f"{CODE}:2: src/app/table.py" in said


def test_links_and_submodules_are_refused(repo: Repo, state: Path) -> None:
    (repo.path / "src/app/keys.py").unlink()
    (repo.path / "src/app/keys.py").symlink_to("clock.py")
    repo.commit(signed="ada")
    for more in (("--base", "main"), ("--policy", ".drillmaster/imports-policy.yaml")):
        code, said, _ = gate(repo, *more, state=state)
        assert code == 2, said
        assert "src/app/keys.py: a link" in said


def test_a_module_that_does_not_parse_is_refused_with_its_line(repo: Repo, state: Path) -> None:
    repo.commit({CODE: CLASSIFIER + "def (\n"}, signed="ada")
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code == 2
    assert f"{CODE}: no Python that parses, in line 6" in said


def test_without_a_reader_of_scripts_a_script_is_refused_with_the_command_that_brings_it(
    repo: Repo, state: Path
) -> None:
    repo.commit({"src/app/retry/web.ts": "export const a = 1;\n"}, signed="ada")
    assert gate(repo, "--base", "main", state=state)[0] == 0
    (repo.path / "tree_sitter.py").write_text("raise ImportError('not here')\n")  # first on the path of `-m`
    code, said, _ = gate(repo, "--base", "main", state=state)
    assert code == 2
    assert "pip install 'drillmaster[oracle]'" in said


def test_init_writes_a_policy_whose_blanks_are_refused(tmp_path: Path, state: Path) -> None:
    repo = Repo(tmp_path / "new")
    repo.commit({**FILES})
    made = subprocess.run(
        [sys.executable, "-m", "drillmaster", "init", "gates", "--gate", "imports"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert (repo.path / ".drillmaster/imports-policy.yaml").is_file()
    code, _, err = gate(repo, state=state)
    assert code == 2
    assert "/source" in err or "blank" in err
