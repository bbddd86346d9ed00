"""Drill debt against a real git: what a commit held when a run passed, and what HEAD holds now."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.history import Entry, open_history

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]

NOW = "2026-12-01T08:00:00Z"
DEBT = """\
kind: drill-debt
version: 1
source: runbooks/fallback.md
owner: sre
review_by: 2099-02-28
service: shop
max_age_days: 30
faults: [reset]
expires_with:
  lockfiles: [package-lock.json]
  packages: [{name: openai, lockfile: uv.lock}]
  models: [{file: config/agent.yaml, at: /models/0}]
  fallback_path: [/src/fallback/**]
"""
FILES = {
    "package-lock.json": "{}",
    "uv.lock": '[[package]]\nname = "openai"\nversion = "2.1"\n',
    "config/agent.yaml": "models: [m-1, m-2]\n",
    "src/fallback/answer.py": "ANSWER = 'later'\n",
    "README.md": "hello\n",
}


def git(where: Path, *words: str) -> str:
    options = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *options, *words], cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(where: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "work")
    return git(where, "rev-parse", "HEAD")


def passed(where: Path, at: str) -> None:
    with open_history(str(where / "runs" / "history.sqlite")) as history:
        history.add(
            Entry(
                run="20261120T120000Z-0001",
                drill="eviction",
                name="shop",
                target="",
                status="pass",
                commit=at,
                clean=True,
                ended_at="2026-11-20T12:00:00.000000Z",
                evidence_digest="sha256:1",
                proved={"fault/reset": "pass"},
            )
        )


def debt(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drillmaster", "debt", "--now", NOW, *words]
    return subprocess.run(argv, cwd=where, capture_output=True, text=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    where = tmp_path / "repo"
    where.mkdir()
    git(where, "init", "-q", "-b", "main")
    commit(where, {**FILES, "drill-debt.yaml": DEBT, ".gitignore": "runs/\n"})
    return where


@pytest.mark.parametrize(
    "files, why",
    [
        ({"README.md": "other\n"}, None),
        (
            {"uv.lock": FILES["uv.lock"] + '[[package]]\nname = "other"\nversion = "1"\n'},
            None,
        ),  # its version alone counts
        ({"config/agent.yaml": "models: [m-1, m-3]\n"}, None),
        ({"package-lock.json": "{ }"}, "the lock file package-lock.json changed"),
        ({"uv.lock": '[[package]]\nname = "openai"\nversion = "2.2"\n'}, "openai of uv.lock went from 2.1 to 2.2"),
        ({"config/agent.yaml": "models: [m-9]\n"}, 'went from "m-1" to "m-9"'),
        ({"src/fallback/answer.py": "ANSWER = ''\n"}, "the fallback path changed: src/fallback/answer.py"),
        ({"src/fallback/more/new.py": ""}, "the fallback path changed: src/fallback/more/new.py"),
    ],
)
def test_a_pass_ends_with_a_change_of_what_the_file_names_and_of_nothing_else(
    repo: Path, files: dict[str, str], why: str | None
) -> None:
    passed(repo, git(repo, "rev-parse", "HEAD"))
    assert debt(repo).returncode == 0
    commit(repo, files)
    done = debt(repo, "--json")
    (line,) = json.loads(done.stdout)["debt"]["lines"]
    assert done.returncode == (0 if why is None else 1), done.stderr
    assert line["state"] == ("paid" if why is None else "expired")
    assert why is None or why in line["why"][0]


def test_a_commit_that_a_shallow_clone_has_not_is_no_pass(repo: Path, tmp_path: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    commit(repo, {"README.md": "later\n"})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    passed(tmp_path / "shallow", first)
    done = debt(tmp_path / "shallow")
    assert done.returncode == 1
    assert "git fetch --unshallow origin" in done.stdout


@pytest.mark.parametrize("gone", ["package-lock.json", "config/agent.yaml", "src/fallback/answer.py"])
def test_a_named_file_that_is_not_there_is_refused(repo: Path, gone: str) -> None:
    git(repo, "rm", "-q", gone)
    git(repo, "commit", "-q", "-m", "gone")
    done = debt(repo)
    assert done.returncode == 2
    assert "git ls-files" in done.stderr


def test_outside_of_a_repository_it_is_refused_where_a_commit_would_count(tmp_path: Path) -> None:
    (tmp_path / "drill-debt.yaml").write_text(DEBT)
    assert debt(tmp_path).returncode == 2
