"""git as data: names of commits, what differs, and nothing of the tree's own configuration."""

import gc
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.git import NEAR_COMMITS, NEAR_FOLDERS, Repository, _raw
from tests.e2e.repolab import Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit({"a.txt": "a\n", "ü ber\n.txt": "u\n", "sub/b.txt": "b\n"})
    return made


@pytest.mark.parametrize(
    "ref", ["--upload-pack=x", "-x", "a..b", "HEAD:a.txt", "", "nope", "HEAD^{tree}", "ref\nx", "a b"]
)
def test_what_is_no_name_of_a_commit_is_refused_here(repo: Repo, ref: str) -> None:
    with pytest.raises(Problem):
        Repository.at(repo.path).commit(ref)


def test_a_ref_of_a_repository_without_a_remote_names_what_lists_them(repo: Repo) -> None:
    with pytest.raises(Problem) as told:
        Repository.at(repo.path).commit("origin/main")
    assert told.value.remedy.startswith("git branch --all")


@pytest.mark.parametrize("ref", ["origin/main", "main", "origin/main~1", "SHA"])
def test_a_ref_that_was_not_fetched_is_there_after_the_command_that_is_named(
    repo: Repo, tmp_path: Path, ref: str
) -> None:
    """In a clone of one branch, where a plain fetch brings commits and keeps no name for them."""
    repo.commit({"a.txt": "2\n"})
    ref = ref.replace("SHA", repo.git("rev-parse", "HEAD"))
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.git("checkout", "-q", "-b", "change", "HEAD~1")
    repo.git("clone", "-q", "--depth", "1", "--branch", "change", f"file://{repo.path}", str(tmp_path / "clone"))
    clone = Repository.at(tmp_path / "clone")
    with pytest.raises(Problem) as told:
        clone.commit(ref)
    subprocess.run(shlex.split(told.value.remedy), cwd=clone.path, check=True, capture_output=True)
    assert len(clone.commit(ref)) == 40


def test_no_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no git repository"):
        Repository.at(tmp_path)
    with pytest.raises(Problem, match="no git repository"):
        Repository.at(tmp_path / "nothing")


def test_a_shallow_clone_names_the_command_that_deepens_it(repo: Repo, tmp_path: Path) -> None:
    repo.branch("change")
    repo.commit({"a.txt": "2\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"sub/b.txt": "2\n"})
    repo.git("clone", "-q", "--depth", "1", "--no-single-branch", f"file://{repo.path}", str(tmp_path / "clone"))
    with pytest.raises(Problem) as told:
        Repository.at(tmp_path / "clone").merge_base("origin/main", "origin/change")
    assert "shallow" in told.value.found and "--unshallow" in told.value.remedy


def test_where_two_lines_parted_is_what_git_says(repo: Repo) -> None:
    """On one line, where the base has moved on, across a merge, and further apart than is looked at without asking git."""
    marks = [repo.git("rev-parse", "HEAD")]
    for number in range(NEAR_COMMITS + 4):
        repo.commit({"a.txt": f"{number}\n"})
        marks.append(repo.git("rev-parse", "HEAD"))
    repo.git("checkout", "-q", "-b", "side", marks[3])
    side = repo.commit({"b.txt": "2\n"})
    repo.git("checkout", "-q", "main")
    repo.git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "merge", "-q", "--no-edit", "side")
    tip = repo.git("rev-parse", "HEAD")
    there = Repository.at(repo.path)
    for base in (*marks, side, tip):
        for head in (marks[0], marks[4], marks[-1], side, tip):
            assert there.merge_base(base, head) == repo.git("merge-base", "--all", base, head)


def test_what_differs_is_what_git_says(repo: Repo) -> None:
    """Content, modes, kinds, a file that became a folder and back, names that sort oddly, an empty tree, and many folders."""
    far = {f"far/{n}/x.txt": "1" for n in range(NEAR_FOLDERS + 4)}
    repo.commit({"a": "1", "d/x": "1", "d/y/z": "1", "a-b": "1", "a.b": "1", "run.sh": "1", "same/k": "1", **far})
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "to").symlink_to("a-b")
    repo.commit({"a.b": "2"})
    repo.write({"a": None, "d/x": None, "d/y/z": None, "to": None})
    (repo.path / "d/y").rmdir()
    (repo.path / "d").rmdir()
    repo.commit({"a/x/y": "1", "d": "1", "to": "now a file", "\u00fc\n\t": "1"})
    link = repo.git("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{link},module")
    repo.git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "a submodule")
    repo.commit(dict.fromkeys(far, "2"))
    marks = [*repo.git("rev-list", "HEAD").split(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904"]
    there = Repository.at(repo.path)
    for base in marks:
        for head in marks:
            options = ("--raw", "-z", "-r", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
            said = there._must("diff-tree", *options, base, head)
            assert there.changed(base, head) == tuple(_raw(said))
    newest, before, earlier = (f"{mark}^{{tree}}" for mark in marks[:3])
    assert there._differing(before, newest) is None and there._differing(earlier, before)


def test_names_are_whole_whatever_they_hold_and_a_rename_is_two(repo: Repo) -> None:
    base = repo.git("rev-parse", "HEAD")
    repo.git("mv", "ü ber\n.txt", 'é\t".txt')
    repo.git("mv", "a.txt", "sub/a.txt")
    head = repo.commit()
    told = {(one.path, one.how) for one in Repository.at(repo.path).changed(base, head)}
    assert told == {("ü ber\n.txt", "deleted"), ('é\t".txt', "added"), ("a.txt", "deleted"), ("sub/a.txt", "added")}


def test_a_file_is_read_as_it_was_committed_and_a_link_is_none(repo: Repo) -> None:
    (repo.path / "link").symlink_to("/etc/passwd")
    head = repo.commit()
    (repo.path / "a.txt").write_text("changed since\n")
    there = Repository.at(repo.path)
    assert there.read(head, "a.txt") == b"a\n"
    assert there.read(head, "nothing") is None
    for path in ("link", "sub"):
        with pytest.raises(Problem, match=r"a link|a folder"):
            there.read(head, path)
    for path in ("../a.txt", "/a.txt", "", "a\0"):
        with pytest.raises(Problem):
            there.read(head, path)


def test_nothing_that_a_tree_configures_runs(repo: Repo, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    trap.chmod(0o755)
    base = repo.git("rev-parse", "HEAD")
    repo.write({".gitattributes": "* diff=evil filter=evil\n", "a.txt": "2\n"})
    head = repo.commit()
    for key in (
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "core.pager",
        "filter.evil.clean",
    ):
        repo.git("config", key, str(trap))
    repo.git("config", "gpg.program", str(trap))
    repo.git("config", "log.showSignature", "true")
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).write_text(trap.read_text())
        (hooks / hook).chmod(0o755)
    ran.unlink(missing_ok=True)
    there = Repository.at(repo.path)
    there.changed(base, head)
    there.commits(base, head)
    there.read(head, "a.txt")
    there.merge_base(base, head)
    assert not ran.exists()


def test_a_replaced_object_is_not_believed(repo: Repo) -> None:
    real = repo.git("rev-parse", "HEAD:a.txt")
    fake = repo.git("hash-object", "-w", "sub/b.txt")
    repo.git("replace", real, fake)
    there = Repository.at(repo.path)
    assert there.read(there.commit("HEAD"), "a.txt") == b"a\n"


def test_what_only_a_merge_wrote_is_seen(repo: Repo) -> None:
    base = repo.git("rev-parse", "HEAD")
    repo.branch("change")
    repo.commit({"c.txt": "c\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"d.txt": "d\n"})
    repo.git("checkout", "-q", "change")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    repo.git(*who, "merge", "-q", "--no-commit", "main")
    repo.write({"a.txt": "evil\n"})
    repo.git("add", "-A")
    repo.git(*who, "commit", "-q", "-m", "merge")
    told = Repository.at(repo.path).commits(base, repo.git("rev-parse", "HEAD"))
    merge = next(one for one in told if len(one.parents) == 2)
    assert [one.path for one in merge.files] == ["a.txt"]


def test_many_files_come_in_batches_and_a_large_one_is_left_out(repo: Repo) -> None:
    repo.commit({f"many/{n}.txt": f"{n}\n" for n in range(1_200)} | {"large": os.urandom(4096)})
    there = Repository.at(repo.path)
    tree = there.tree(there.commit("HEAD"))
    found = there.blobs((entry.sha for entry in tree.values()), cap_bytes=1024)
    assert found[tree["many/777.txt"].sha] == b"777\n"
    assert tree["large"].sha not in found
    assert len(tree) == 1_204


def test_what_is_longer_than_wanted_is_read_past_and_what_comes_next_is_whole(tmp_path: Path) -> None:
    made = Repo(tmp_path / "repo")
    made.commit({"long.txt": "x" * 3_000_000, "short.txt": "short\n"})
    repo = Repository.at(made.path)
    head = repo.commit("HEAD")
    with pytest.raises(Problem, match="is too long"):
        repo.read(head, "long.txt", cap_bytes=1_000)
    assert repo.read(head, "short.txt", cap_bytes=1_000) == b"short\n"
    assert repo.read(head, "long.txt") == b"x" * 3_000_000


def test_a_git_that_was_ended_is_told_and_the_next_question_starts_another(tmp_path: Path) -> None:
    made = Repo(tmp_path / "repo")
    made.commit({"a.txt": "a\n"})
    repo = Repository.at(made.path)
    head = repo.commit("HEAD")
    child = repo._objects._child
    assert child is not None
    child.kill()
    child.wait()
    with pytest.raises(Problem, match="no answer that can be used"):
        repo.read(head, "a.txt")
    assert repo.read(head, "a.txt") == b"a\n"


def test_a_tree_with_two_rows_of_one_name_is_no_answer(tmp_path: Path) -> None:
    made = Repo(tmp_path / "repo")
    made.commit({"a.txt": "one\n"})
    one = bytes.fromhex(made.git("rev-parse", "HEAD:a.txt"))
    (made.path / "rows").write_bytes(b"100644 a.txt\0" + one + b"100644 a.txt\0" + one)
    tree = made.git("hash-object", "-t", "tree", "-w", "--literally", "rows")
    who = {f"GIT_{role}_{what}": "a@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    commit = made.git("commit-tree", "-m", "twice", tree, env=who)
    with pytest.raises(Problem, match="no answer that can be used"):
        Repository.at(made.path).read(commit, "a.txt")


def test_no_git_stays_when_nobody_asks_any_more(tmp_path: Path) -> None:
    made = Repo(tmp_path / "repo")
    made.commit({"a.txt": "a\n"})
    repo = Repository.at(made.path)
    repo.commit("HEAD")
    child = repo._objects._child
    assert child is not None and child.poll() is None
    del repo
    gc.collect()
    assert child.poll() is not None
