"""A workspace that a change holds is scanned where the change lies, not on the base's checkout beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.repolab import Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]

SECRET = "password=" + "hunter2isnotgood\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit({"agent/style.md": "be brief\n", "src/app.py": "x = 1\n"})
    made.branch("change")
    return made


def gate(repo: Repo, where: str, *more: str) -> tuple[int, str]:
    return run(repo, where, "--base", "main", *more)


def run(repo: Repo, where: str, *more: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "workspace", where, *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(repo.path.parent / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_secret_of_a_change_that_is_not_checked_out_is_no_pass_and_the_remedy_finds_it(repo: Repo) -> None:
    head = repo.commit({"agent/deploy.md": SECRET})
    repo.git("checkout", "-q", "main")
    code, said = gate(repo, "agent", "--head", head)
    assert code == 2, said
    assert f"git worktree add --detach ../change {head[:12]}" in said
    repo.git("worktree", "add", "--detach", "../change", head[:12])
    code, said = gate(repo, "../change/agent", "--head", head)
    assert code == 1, said
    assert "FAIL no file outside transcripts holds a secret" in said


@pytest.mark.parametrize("where", ["agent", "./agent/", "agent/../agent", "."])
def test_however_the_folder_is_named(repo: Repo, where: str) -> None:
    head = repo.commit({"agent/deploy.md": SECRET})
    repo.git("checkout", "-q", "main")
    assert gate(repo, where, "--head", head)[0] == 2


def test_a_folder_that_only_the_change_has_is_refused(repo: Repo) -> None:
    head = repo.commit({"other-agent/deploy.md": SECRET})
    repo.git("checkout", "-q", "main")
    code, said = gate(repo, "other-agent", "--head", head)
    assert code == 2 and "git worktree add" in said


def test_a_change_that_takes_the_folder_away_is_refused(repo: Repo) -> None:
    head = repo.commit({"agent/style.md": None})
    repo.git("checkout", "-q", "main")
    assert gate(repo, "agent", "--head", head)[0] == 2


def test_another_worktree_that_lags_behind_is_refused(repo: Repo) -> None:
    repo.git("worktree", "add", "--detach", "../change", "main")
    head = repo.commit({"agent/deploy.md": SECRET})
    assert gate(repo, "../change/agent", "--head", head)[0] == 2


def test_a_change_that_leaves_the_folder_alone_is_scanned_on_the_base(repo: Repo) -> None:
    head = repo.commit({"src/app.py": "x = 2\n"})
    repo.git("checkout", "-q", "main")
    code, said = gate(repo, "agent", "--head", head)
    assert code == 0, said


def test_a_checkout_of_the_merge_holds_the_change(repo: Repo) -> None:
    head = repo.commit({"agent/deploy.md": "use the staging cluster\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"agent/style.md": "be brief, and kind\n"})
    repo.git("-c", "user.name=a", "-c", "user.email=a@example.com", "merge", "-q", "-m", "merge", head)
    code, said = gate(repo, "agent", "--head", head)
    assert code == 0, said


def test_a_folder_outside_of_every_repository_is_scanned_as_it_is(repo: Repo, tmp_path: Path) -> None:
    head = repo.commit({"agent/deploy.md": SECRET})
    repo.git("checkout", "-q", "main")
    away = tmp_path / "away"
    away.mkdir()
    (away / "style.md").write_text("be brief\n")
    code, said = gate(repo, str(away), "--head", head)
    assert code == 0, said


def test_a_repository_of_its_own_in_the_folder_is_scanned_as_it_is(repo: Repo) -> None:
    inner = Repo(repo.path / "ignored")
    inner.commit({"style.md": "be brief\n"})
    (repo.path / ".git/info/exclude").write_text("ignored/\n")
    head = repo.commit({"agent/deploy.md": SECRET})
    repo.git("checkout", "-q", "main")
    code, said = gate(repo, "ignored", "--head", head)
    assert code == 0, said


@pytest.mark.parametrize("where", ["agent", "./agent", "agent/"])
@pytest.mark.parametrize("based", [True, False])
def test_a_finding_is_cited_from_the_root(repo: Repo, where: str, based: bool) -> None:
    repo.commit({"agent/notes/deploy.md": SECRET})
    words = ("--base", "main") if based else ()
    done = run(repo, where, *words, "--format", "github")
    assert "::error file=agent/notes/deploy.md," in done[1]
    assert "see secret-pattern: agent/notes/deploy.md\n" in run(repo, where, *words)[1]


def test_in_another_worktree_it_is_cited_from_its_root(repo: Repo) -> None:
    head = repo.commit({"agent/notes/deploy.md": SECRET})
    repo.git("worktree", "add", "--detach", "../change", head)
    assert "file=agent/notes/deploy.md," in gate(repo, "../change/agent", "--format", "github")[1]


def test_a_folder_that_lies_elsewhere_is_cited_as_it_was(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away/deploy.md").write_text(SECRET)
    assert "see secret-pattern: deploy.md\n" in gate(repo, str(tmp_path / "away"))[1]


def test_the_command_that_mends_it_can_be_typed_where_we_stand(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"agent/notes/a b.md": SECRET})
    (tmp_path / "store").mkdir()
    said = run(repo, "agent")[1]
    assert "drillmaster workspace evict 'agent/notes/a b.md' --to STORE" in said
    words = ["workspace", "evict", "agent/notes/a b.md", "--to", str(tmp_path / "store")]
    done = subprocess.run([sys.executable, "-m", "drillmaster", *words], cwd=repo.path, check=False, timeout=60)
    assert done.returncode == 0
    assert run(repo, "agent")[0] == 0


def test_of_many_files_the_command_names_none(repo: Repo) -> None:
    repo.commit({f"agent/{n}.md": SECRET for n in range(5)})
    assert "drillmaster workspace evict FILE --to STORE" in run(repo, "agent")[1]
