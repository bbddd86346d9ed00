"""Commit and dirt of a working tree, by the real git, of which nothing of the tree's own may run."""

import subprocess
from pathlib import Path

import pytest

from drillmaster.intake.change import Change, authors_of, change_of

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]


def git(folder: Path, *args: str) -> None:
    who = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "agent.py").write_text("a = 1\n")
    (folder / ".gitignore").write_text("ignored/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def seen(folder: Path, **more: object) -> Change:
    change = change_of(folder, **more)  # type: ignore[arg-type]  # the test's own words
    assert change is not None
    return change


def test_a_clean_tree_is_its_commit(tree: Path) -> None:
    change = seen(tree)
    assert len(change.commit) == 40 and not change.dirty
    (tree / "sub").mkdir()
    assert seen(tree / "sub") == change


def test_no_git_is_unknown_and_not_clean(tmp_path: Path) -> None:
    assert change_of(tmp_path) is None
    assert change_of(tmp_path / "nowhere") is None


def test_a_tree_without_a_commit_is_unknown(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert change_of(tmp_path) is None


@pytest.mark.parametrize(
    "what",
    [
        lambda t: (t / "agent.py").write_text("a = 2\n"),
        lambda t: (t / "agent.py").unlink(),
        lambda t: (t / "agent.py").chmod(0o755),
        lambda t: (t / "new.py").write_text("b = 1\n"),
        lambda t: (t / "link.py").symlink_to("agent.py"),
        lambda t: git(t, "rm", "-q", "--cached", "agent.py"),
    ],
)
def test_a_change_of_code_is_dirt(tree: Path, what: object) -> None:
    before = seen(tree)
    what(tree)  # type: ignore[operator]  # each row is a function
    after = seen(tree)
    assert after.commit == before.commit
    assert after.dirty and after.dirt_sha256 != before.dirt_sha256


def test_dirt_that_changes_again_is_another_dirt(tree: Path) -> None:
    (tree / "new.py").write_text("b = 1\n")
    before = seen(tree)
    (tree / "new.py").write_text("b = 2\n")
    assert seen(tree) != before


def test_what_an_agent_writes_while_it_runs_is_no_change_of_code(tree: Path) -> None:
    before = seen(tree, exclude=[tree / "runs"])
    (tree / "agent.log").write_text("x")
    (tree / "state.sqlite3").write_bytes(b"x")
    (tree / "ignored").mkdir()
    (tree / "ignored" / "a.py").write_text("x")
    (tree / "runs").mkdir()
    (tree / "runs" / "plan.yaml").write_text("x")
    assert seen(tree, exclude=[tree / "runs"]) == before


def test_nothing_of_the_tree_s_own_runs(tree: Path) -> None:
    trap = tree.parent / "trap"
    script = tree.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 >> {trap}\ncat\n")
    script.chmod(0o755)
    (tree / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    for key in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command", "diff.external"):
        git(tree, "config", key, str(script))
    git(tree, "config", "core.fsmonitor", str(script))
    git(tree, "config", "core.pager", str(script))
    hooks = tree / ".git" / "hooks"
    for hook in ("post-index-change", "pre-commit", "post-checkout"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    (tree / "agent.py").write_text("a = 3\n")
    assert seen(tree).dirty
    assert not trap.exists()


def test_variables_that_lead_git_elsewhere_are_not_heard(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(tree)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert seen(tree) == before


def test_a_git_that_takes_too_long_is_unknown(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nsleep 5\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:/usr/bin:/bin")
    assert change_of(tree, timeout_s=0.2) is None


# Who wrote a file


def commit(folder: Path, text: str, who: str, message: str = "plan") -> None:
    (folder / "plan.yaml").write_text(text)
    git(folder, "add", "plan.yaml")
    git(folder, "commit", "-q", "-m", message, f"--author={who}")


def test_the_authors_of_a_file_are_all_who_wrote_it_and_who_wrote_with_them(tree: Path) -> None:
    commit(tree, "a: 1\n", "Ada <ada@example.invalid>")
    commit(tree, "a: 2\n", "Bea <bea@example.invalid>", "plan\n\nCo-authored-by: Cem <cem@example.invalid>")
    assert authors_of([tree / "plan.yaml"]) == (
        "Ada <ada@example.invalid>", "Bea <bea@example.invalid>", "Cem <cem@example.invalid>",
    )  # fmt: skip
    assert authors_of([tree / "agent.py"]) == ("T <t@example.invalid>",)
    both = authors_of([tree / "agent.py", tree / "plan.yaml"])
    assert both is not None and len(both) == 4


def test_a_mailmap_of_the_tree_calls_nobody_somebody_else(tree: Path) -> None:
    commit(tree, "a: 1\n", "Ada <ada@example.invalid>")
    (tree / ".mailmap").write_text("Zoe <zoe@example.invalid> <ada@example.invalid>\n")
    assert authors_of([tree / "plan.yaml"]) == ("Ada <ada@example.invalid>",)


def test_who_wrote_what_is_not_committed_is_not_known(tree: Path) -> None:
    (tree / "plan.yaml").write_text("a: 1\n")
    assert authors_of([tree / "plan.yaml"]) is None
    commit(tree, "a: 1\n", "Ada <ada@example.invalid>")
    assert authors_of([tree / "plan.yaml"]) is not None
    (tree / "plan.yaml").write_text("a: 2\n")
    assert authors_of([tree / "plan.yaml"]) is None
    assert authors_of([tree / "nothing.yaml"]) is None
    (tree / "ignored").mkdir()
    (tree / "ignored" / "plan.yaml").write_text("a: 1\n")
    assert authors_of([tree / "ignored" / "plan.yaml"]) is None


def test_a_shallow_clone_has_forgotten_who_wrote_it(tree: Path, tmp_path: Path) -> None:
    commit(tree, "a: 1\n", "Ada <ada@example.invalid>")
    commit(tree, "a: 2\n", "Bea <bea@example.invalid>")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tree}", "shallow")
    assert authors_of([tmp_path / "shallow" / "plan.yaml"]) is None


def test_no_file_has_no_author(tmp_path: Path) -> None:
    assert authors_of([]) is None
    assert authors_of([tmp_path / "plan.yaml"]) is None


def test_who_moves_a_file_is_not_its_only_author(tree: Path) -> None:
    commit(tree, "a: 1\n", "Ada <ada@example.invalid>")
    (tree / "plans").mkdir()
    git(tree, "config", "diff.renames", "false")
    git(tree, "mv", "plan.yaml", "plans/interview.yaml")
    git(tree, "commit", "-q", "-m", "moved", "--author=Bea <bea@example.invalid>")
    assert authors_of([tree / "plans" / "interview.yaml"]) == ("Ada <ada@example.invalid>", "Bea <bea@example.invalid>")
