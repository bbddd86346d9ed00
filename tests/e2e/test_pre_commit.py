"""The hooks in the program that people run them with: pre-commit makes an environment of its own from this repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.repolab import Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository with what the hooks are installed from."""
    made = Repo(tmp_path_factory.mktemp("hooks") / "drillmaster")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, made.path / name)
    shutil.copytree(ROOT / "src", made.path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return made.path, made.commit()


@pytest.mark.timeout(400)
def test_a_hook_judges_before_a_commit_though_no_file_is_handed_to_it(hooks: tuple[Path, str], tmp_path: Path) -> None:
    folder, commit = hooks
    mine = Repo(tmp_path / "mine")
    config = (
        f"repos:\n  - repo: {folder}\n    rev: {commit}\n    hooks: [{{id: drillmaster-workspace, args: [agent]}}]\n"
    )
    mine.commit({".pre-commit-config.yaml": config, "agent/notes.txt": "look at the third order\n"})

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "drillmaster-workspace", "--all-files", "--color", "never"],
            cwd=mine.path,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "VIRTUAL_ENV"))},
                "PRE_COMMIT_HOME": str(tmp_path / "home"),
                "DRILLMASTER_STATE": str(tmp_path / "state"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=380,
        )

    clean = run()
    assert clean.returncode == 0, clean.stdout + clean.stderr
    secret = "AKIA" + "IOSFODNN7" + "ABCDEFG"
    mine.commit({"agent/memory.json": f'{{"aws": "{secret}"}}\n'})
    found = run()
    assert found.returncode == 1, found.stdout + found.stderr
    assert "FAIL" in found.stdout and "agent" in found.stdout and secret not in found.stdout
