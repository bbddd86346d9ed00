"""git, asked about what somebody made by hand: commits that no porcelain writes, names that mean two things."""

import os
import subprocess
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.git import Repository
from tests.e2e.repolab import Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit({"a": "1\n"}, message="first")
    made.branch("change")
    return made


def by_hand(repo: Repo, message: bytes, *, author: bytes = b"Ada <ada@example.com>", headers: bytes = b"") -> str:
    """Put a commit of any bytes on the branch, over a file that changed."""
    parent = repo.commit({"a": f"{len(message)}\n"}, message="below")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    when = b" 1796025600 +0000\n"
    raw = b"tree %s\nparent %s\nauthor %s%scommitter %s%s%s\n%s" % (
        tree.encode(), parent.encode(), author, when, author, when, headers, message,
    )  # fmt: skip  # two lines of a commit's head
    done = subprocess.run(
        ["git", "-C", str(repo.path), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        input=raw,
        capture_output=True,
        check=True,
        timeout=30,
    )
    name = done.stdout.decode().strip()
    repo.git("update-ref", "refs/heads/change", name)
    return name


@pytest.mark.parametrize(
    "message",
    [
        b"subject\x02with a mark\n",
        b"subject\x01\n\nbody\n\nReviewed-by: x\x01oracle-owner: qa-lead\n",
        b"\x02\x02\x02\n",
        b"",
        b"\n\n\n",
        b"subject\x00" + b"f" * 40 + b"\x00Bo <bo@example.com>\x00\x00\x00\x00",
        b"subject\n\nReviewed-by: \x02\n",
        b"\xff\xfe\n\nco-authored-by: \xff <x@example.com>\n",
        b"x" * 200_000,
    ],
)
def test_a_message_of_any_bytes_is_one_commit_and_forges_no_field(repo: Repo, message: bytes) -> None:
    name = by_hand(repo, message)
    here = Repository.at(repo.path)
    found = here.commits(here.commit("main"), here.commit("change"))
    assert len(found) == 2
    last = found[-1]
    assert last.sha == name
    assert last.author == "Ada <ada@example.com>"
    assert not any(key == "oracle-owner" for key, _ in last.trailers)
    assert [one.sha for one in here.history(name, "a")] != []


@pytest.mark.parametrize(
    ("author", "headers"),
    [
        (b"Ada\x02 <ada@example.com>", b""),
        (b"Ada\x01 <ada@example.com>", b""),
        (b"Jos\xe9 <eve@example.com>", b"encoding ISO-8859-1\n"),
        (b"Jos\xe9 <eve@example.com>", b"encoding windows-1252\n"),
        (b"Jos\xe9 <eve@example.com>", b""),
        (b"Eve <eve@example.com>", b"encoding utf8\n"),
    ],
)
def test_an_author_of_any_bytes_is_one_commit_of_that_address(repo: Repo, author: bytes, headers: bytes) -> None:
    name = by_hand(repo, b"subject\n", author=author, headers=headers)
    here = Repository.at(repo.path)
    last = here.commits(here.commit("main"), here.commit("change"))[-1]
    assert last.sha == name
    address = author.rpartition(b"<")[2].rstrip(b">").decode()
    assert last.author.endswith(f"<{address}>")
    assert len(last.parents) == 1


@pytest.mark.parametrize(
    "encoding", [b"UTF-7", b"UTF-16", b"utf-16le", b"UCS-4", b"IBM037", b"HZ", b"nothing", b"\xff", b" "]
)
def test_an_encoding_in_which_text_is_other_text_is_refused(repo: Repo, encoding: bytes) -> None:
    """In UTF-7 `+AAA-` is a NUL and `+ADw-` a `<`: what stands behind it would be taken for the next field."""
    author = b"Eve+AAA-+ADw-ada+AEA-example.com+AD4- <eve@example.com>"
    by_hand(repo, b"s+AAA-+AAA-oracle-owner: qa\n", author=author, headers=b"encoding " + encoding + b"\n")
    here = Repository.at(repo.path)
    with pytest.raises(Problem, match="says to be in"):
        here.commits(here.commit("main"), here.commit("change"))


def test_a_tag_or_branch_that_is_called_like_the_base_is_not_taken_for_it(repo: Repo) -> None:
    """git takes a tag before a remote branch: whoever may push one would choose the policy."""
    repo.git("update-ref", "refs/remotes/origin/main", "main")
    evil = repo.commit({"a": "evil\n"}, message="mine")
    here = Repository.at(repo.path)
    honest = here.commit("origin/main")
    assert honest != evil
    for kind in ("tags", "heads"):
        repo.git("update-ref", f"refs/{kind}/origin/main", evil)
        with pytest.raises(Problem) as told:
            here.commit("origin/main")
        assert "origin/main" in told.value.found
        with pytest.raises(Problem):
            here.commit("origin/main~0")
        assert here.commit("refs/remotes/origin/main") == honest  # its whole name is one thing
        repo.git("update-ref", f"refs/{kind}/origin/main", honest)
        assert here.commit("origin/main") == honest  # two names of one commit
        repo.git("update-ref", "-d", f"refs/{kind}/origin/main")
    assert here.commit("origin/main") == honest


def test_history_that_was_grafted_locally_is_not_believed(repo: Repo) -> None:
    main = repo.git("rev-parse", "main")
    repo.commit({"a": "bad\n"}, message="hidden")
    head = repo.commit({"b": "2\n"}, message="last")
    (repo.path / ".git/info/grafts").write_text(f"{head} {main}\n")
    here = Repository.at(repo.path)
    assert [one.subject for one in here.commits(main, head)] == ["hidden", "last"]


def test_a_folder_with_a_newline_in_its_name_is_not_its_neighbour(tmp_path: Path) -> None:
    Repo(tmp_path / "a").commit({"x": "neighbour\n"})
    made = Repo(tmp_path / "a\nb")
    made.commit({"x": "mine\n"})
    here = Repository.at(made.path)
    assert here.path.resolve() == Path(os.path.realpath(made.path))
    assert here.read(here.commit("HEAD"), "x") == b"mine\n"


def merged(repo: Repo, tree: str, *parents: str) -> str:
    """Write a merge by hand: of any tree, over any parents."""
    who = {f"GIT_{role}_{part}": "eve" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    over = [word for one in parents for word in ("-p", one)]
    name = repo.git("commit-tree", f"{tree}^{{tree}}", *over, "-m", "merge", env=who)
    repo.git("update-ref", "refs/heads/change", name)
    return name


def test_a_merge_that_takes_back_what_a_parent_did_wrote_that(repo: Repo) -> None:
    """`-s ours`: the tree is one parent's, so against it nothing differs, and all that the other did is gone."""
    old = repo.git("rev-parse", "main")
    repo.git("checkout", "-q", "main")
    new = repo.commit({"a": "strict\n", "b": "more\n"}, message="strict")
    here = Repository.at(repo.path)
    for parents in ((old, new), (new, old)):
        (one,) = here.commits(new, merged(repo, old, *parents))
        assert [(file.path, file.how) for file in one.files] == [("a", "modified"), ("b", "deleted")]
    (one,) = here.commits(new, merged(repo, new, old, new))
    assert one.files == ()  # what a pull makes of it


def test_a_merge_that_takes_each_side_s_own_work_wrote_nothing(repo: Repo) -> None:
    left = repo.commit({"left": "1\n"}, message="left")
    repo.git("checkout", "-q", "-b", "other", "main")
    right = repo.commit({"right": "1\n", "a": "2\n"}, message="right")
    repo.git("checkout", "-q", "change")
    repo.git("-c", "user.name=x", "-c", "user.email=x@example.com", "merge", "-q", "-m", "m", "other")
    here = Repository.at(repo.path)
    last = here.commits(here.commit("main"), here.commit("change"))[-1]
    assert set(last.parents) == {left, right} and last.files == ()
    third = merged(repo, "change", left, right, here.commit("main"))
    assert here.commits(here.commit("main"), third)[-1].files == ()
    dropped = here.commits(here.commit("main"), merged(repo, left, left, right, here.commit("main")))[-1]
    assert [file.path for file in dropped.files] == ["a", "right"]


def test_a_merge_of_lines_that_have_nothing_in_common_drops_nothing_unseen(repo: Repo) -> None:
    main = repo.git("rev-parse", "main")
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.git("rm", "-rfq", ".")
    alone = repo.commit({"x": "1\n"}, message="alone")
    (*_, one) = Repository.at(repo.path).commits(main, merged(repo, alone, main, alone))
    assert [file.path for file in one.files] == ["a"]
