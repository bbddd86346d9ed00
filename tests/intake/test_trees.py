"""A working directory is walked whole: what cannot be looked at is in the tree, and nothing is followed."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Problem
from drillmaster.gates._workspace_tree import Seen, Tree
from drillmaster.intake.trees import MAX_DEPTH, Limits, walk

AWS = "AKI" + "A4QTRVZ7WX2LMNOPB"
LIMITS = Limits(max_file_bytes=100_000, max_total_bytes=1_000_000, max_files=1_000, max_unpacked_bytes=1 << 20)
NOW_NS = 1_764_500_000 * 10**9


def seen(root: Path, **limits: Any) -> Tree:
    fields = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
    return walk(root, Limits(**{**fields, **limits}), now_ns=NOW_NS)


def entry(root: Path, path: str, **limits: Any) -> Seen:
    (found,) = [one for one in seen(root, **limits).entries if one.path == path]
    return found


def test_every_file_is_an_entry_by_its_path_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.txt").write_text("text")
    (tmp_path / "d.txt").write_text("more")
    tree = seen(tmp_path)
    assert [one.path for one in tree.entries] == ["a/b/c.txt", "d.txt"]
    assert (tree.scanned, tree.folders, tree.total_bytes, tree.cut, tree.changed) == (2, 3, 8, "", False)


def test_what_stands_above_the_root_means_nothing(tmp_path: Path) -> None:
    root = tmp_path / ".cache" / "sessions" / "vectors" / "memory"
    root.mkdir(parents=True)
    (root / "readme.md").write_text("text")
    assert entry(root, "readme.md").place == "other"


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key.txt").write_text(AWS)
    (tmp_path / "work" / "logs").symlink_to(tmp_path / "secrets")
    (tmp_path / "work" / "self").symlink_to(tmp_path / "work")
    tree = seen(tmp_path / "work")
    assert [(one.path, one.kind, one.leads) for one in tree.entries] == [
        ("logs", "link", "outside"),
        ("self", "link", "inside"),
    ]


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("nothing", "nowhere"),
        ("../outside.txt", "outside"),
        ("/etc/hostname", "outside"),
        ("there.txt", "inside"),
        ("me", "nowhere"),
    ],
)
def test_where_a_link_leads_is_told(tmp_path: Path, target: str, leads: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "there.txt").write_text("text")
    (tmp_path / "outside.txt").write_text("text")
    (root / "me").symlink_to(target)
    assert entry(root, "me").leads == leads


def test_pipes_and_sockets_are_told_and_not_waited_for(short_dir: Path) -> None:
    os.mkfifo(short_dir / "memory.json")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_dir / "agent.sock"))
        assert entry(short_dir, "agent.sock").kind == "socket"
    assert entry(short_dir, "memory.json").kind == "fifo"
    assert entry(short_dir, "memory.json").place == "memory"


@pytest.fixture
def nobody() -> Iterator[Path]:
    """Lend a folder that everybody reaches, to a process that is not root while it has it."""
    with tempfile.TemporaryDirectory(prefix="dm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_nobody(root: Path) -> Tree:
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        return seen(root)
    finally:
        os.seteuid(was)


def test_what_may_not_be_read_is_told(nobody: Path) -> None:
    (nobody / "a.txt").write_text("text")
    (nobody / "b").mkdir()
    (nobody / "c.txt").write_text("text")
    (nobody / "d").mkdir()
    (nobody / "d" / "memory.json").write_text("{}")
    for name, mode in (("a.txt", 0), ("b", 0), ("d", 0o644)):  # a folder that can be listed and not entered
        (nobody / name).chmod(mode)
    try:
        told = {one.path: bool(one.trouble) for one in as_nobody(nobody).entries}
    finally:
        for name in ("b", "d"):
            (nobody / name).chmod(0o755)
    assert told == {"a.txt": True, "b": True, "c.txt": False, "d/memory.json": True}


def test_a_root_that_may_not_be_read_is_refused(nobody: Path) -> None:
    (nobody / "work").mkdir()
    (nobody / "work").chmod(0)
    with pytest.raises(Problem):
        as_nobody(nobody / "work")


def test_a_file_that_goes_while_the_folder_is_walked_is_told(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("text")
    tree = walk(tmp_path, LIMITS, now_ns=NOW_NS, progress=lambda n, size: (tmp_path / "b.txt").unlink(missing_ok=True))
    assert tree.changed
    assert [one.path for one in tree.entries if one.trouble] == ["b.txt"]


def test_a_file_that_comes_while_the_folder_is_walked_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    tree = walk(
        tmp_path, LIMITS, now_ns=NOW_NS, progress=lambda n, size: (tmp_path / "z.txt").write_text("text") and None
    )
    assert tree.changed


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("text")

    def swap(n: int, size: int) -> None:
        if n == 1:
            (tmp_path / "b.txt").unlink()
            os.mkfifo(tmp_path / "b.txt")

    tree = walk(tmp_path, LIMITS, now_ns=NOW_NS, progress=swap)
    assert tree.changed
    assert tree.entries[1].kind == "fifo"


def test_a_file_that_grows_while_it_is_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("text")
    read = os.read

    def growing(fd: int, n: int) -> bytes:
        with path.open("a") as file:
            file.write("more")
        return read(fd, 3)

    monkeypatch.setattr(os, "read", growing)
    assert seen(tmp_path, max_file_bytes=50).entries[0].trouble


def test_a_hard_link_is_counted(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text("{}")
    os.link(tmp_path / "memory.json", tmp_path / "other.txt")
    assert {one.hard_links for one in seen(tmp_path).entries} == {2}


@pytest.mark.parametrize(("size", "read"), [(99_999, True), (100_000, True), (100_001, False)])
def test_a_file_is_read_up_to_its_cap(tmp_path: Path, size: int, read: bool) -> None:
    (tmp_path / "a.txt").write_bytes(b"a" * size)
    one = entry(tmp_path, "a.txt")
    assert (one.bytes, bool(one.sha256)) == (size, read)


def test_a_sparse_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(1 << 36)
    assert entry(tmp_path, "a.txt").sha256 == ""


def test_many_small_files_have_a_bound_in_all(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}.txt").write_bytes(b"a" * 90_000)
    assert "more than 1,000,000 bytes" in seen(tmp_path).cut
    assert seen(tmp_path, max_total_bytes=2_000_000).cut == ""
    assert "more than 10 entries" in seen(tmp_path, max_files=10).cut


def test_depth_has_a_bound(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(MAX_DEPTH + 2):
        folder = folder / "d"
        folder.mkdir()
    (folder / "memory.json").write_text("{}")
    assert "deep" in seen(tmp_path).cut


def test_names_that_are_no_utf8_are_told_and_can_be_printed(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/m\xffemory.json"
    with open(raw, "w") as file:
        file.write(AWS)
    (one,) = seen(tmp_path).entries
    one.path.encode()
    assert one.counts == {"secret": 1}


@pytest.mark.parametrize("name", ["a\nb.txt", "a\x1b[31m.txt", "a\u202etxt.exe", "-rf", " ", "é" * 100])
def test_odd_names_are_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text")
    (one,) = seen(tmp_path).entries
    assert "\n" not in one.path
    assert "\x1b" not in one.path
    assert "\u202e" not in one.path


def test_a_name_that_is_a_secret_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{AWS}.txt").write_text("text")
    (tmp_path / AWS).mkdir()
    (tmp_path / AWS / "a.txt").write_text("text")
    tree = seen(tmp_path)
    assert AWS not in repr(tree)
    assert sorted(one.path for one in tree.entries) == ["[screened]", "[screened]/a.txt", "logs/[screened]"]
    assert all(one.name_hits for one in tree.entries)


def test_two_names_that_are_secrets_stay_apart(tmp_path: Path) -> None:
    for last in "PQ":
        (tmp_path / (AWS[:-1] + last)).write_text("text")
    assert len({one.path for one in seen(tmp_path).entries}) == 2


def test_what_is_left_out_is_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / ".git" / "objects" / "a").write_text(AWS)
    (tmp_path / ".gitignore").write_text("text")
    tree = seen(tmp_path, left_out=(".git/",))
    assert [(one.path, one.left_out, bool(one.sha256)) for one in tree.entries] == [
        (".git/objects/a", True, False),
        (".gitignore", False, True),
    ]


@pytest.mark.parametrize(
    ("name", "content", "mark"),
    [
        ("memory.json", b'{"a": 1}', False),
        ("memory.json", b'{"a": 1', True),
        ("memory.json", b"", True),
        ("memory.json", b"[" * 100_000, True),
        ("memory.json.tmp", b"{}", True),
        ("memory.json.lock", b"", True),
        (".memory.json.swp", b"x", True),
        ("session-1.jsonl", b'{"a": 1}\n{"b": 2}\n', False),
        ("session-1.jsonl", b'{"a": 1}\n{"b": 2}', False),
        ("session-1.jsonl", b'{"a": 1}\n{"b":', True),
        ("notes.md", b"half a sen", False),
        ("a.db-journal", b"x", True),
        ("a.db-wal", b"", False),
        ("readme.tmp", b"x", False),
        ("package.json", b"{", False),
    ],
)
def test_a_write_that_was_interrupted_leaves_a_mark(tmp_path: Path, name: str, content: bytes, mark: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert bool(entry(tmp_path, name).open_mark) is mark


@pytest.mark.parametrize(
    ("name", "content", "binary"),
    [
        ("a.sqlite", b"", True),
        ("a.SQLITE3", b"x", True),
        ("notes.txt", b"SQLite format 3\0" + b"\0" * 100, True),
        ("a.bin", b"PAR1" + b"\0" * 20, True),
        ("a.faiss", b"x", True),
        ("vectors/a.index", b"x", True),
        ("vectors/a.json", b"[]", False),
        ("embeddings.json", b"[]", False),
        ("memory.json", b"{}", False),
    ],
)
def test_a_binary_store_is_known_by_suffix_or_first_bytes(
    tmp_path: Path, name: str, content: bytes, binary: bool
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    assert entry(tmp_path, name).by_suffix is binary


def test_pointers_are_read(tmp_path: Path) -> None:
    good = f"memory_uri=/store/memory.json\nsha256={'ab' * 32}\nbytes=3\nfile=memory.json\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "MEMORY_POINTER").write_text(good)
    (tmp_path / "a" / "memory.json").write_text("{}")
    (tmp_path / "MEMORY_POINTER").write_text("memory_uri=/store/memory.json\n")
    first, second = seen(tmp_path).pointers
    assert "sha256" in first.problem
    assert (second.uri, second.problem, second.blob_there) == ("/store/memory.json", "", True)


@pytest.mark.parametrize("root", ["nowhere", "file.txt", "", "a\0b"])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(Problem):
        walk(tmp_path / root if root else Path("\0"), LIMITS, now_ns=NOW_NS)


def test_the_digest_is_of_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    before = seen(tmp_path).digest
    assert seen(tmp_path).digest == before
    (tmp_path / "a.txt").write_text("texts")
    assert seen(tmp_path).digest != before


def test_a_device_is_told() -> None:
    assert {one.kind for one in seen(Path("/dev"), max_files=100_000).entries if one.path == "null"} == {"device"}
