"""Moving a file out of a workspace: what is refused, and what is there afterwards."""

import fcntl
import hashlib
import os
import signal
from pathlib import Path

import pytest

from drillmaster.cuts import STEPS, cut, pointers_below, resume
from drillmaster.errors import Problem, Refused
from drillmaster.intake.pointers import Block, read_pointer, write_pointer

TEXT = b'{"plan": "retry the migration"}\n'
DIGEST = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "work" / "memory.json").write_bytes(TEXT)
    return tmp_path / "work"


def listed(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_file_is_in_the_store_and_a_pointer_in_its_place(work: Path) -> None:
    store = work.parent / "store"
    steps: list[str] = []
    moved = cut(work / "memory.json", store, at=steps.append)
    assert steps == list(STEPS)
    assert (store / "memory.json").read_bytes() == TEXT
    assert listed(work) == ["MEMORY_POINTER"]
    assert listed(store) == ["memory.json"]
    assert (work / "MEMORY_POINTER").read_text().startswith(f"memory_uri={store}/memory.json\nsha256={DIGEST}\n")
    assert moved.sha256 == DIGEST
    assert moved.same_disk
    assert [kept.status for kept in resume(work / "MEMORY_POINTER")] == ["whole"]


def test_a_file_that_was_moved_already_or_never_was_is_told_so(work: Path) -> None:
    with pytest.raises(Problem) as never:
        cut(work / "memory.jsn", work.parent / "store")
    assert never.value.remedy == f"mend the path: ls {work}"
    cut(work / "memory.json", work.parent / "store")
    with pytest.raises(Problem) as again:
        cut(work / "memory.json", work.parent / "store")
    assert again.value.remedy == f"drillmaster workspace resume {work} says what was moved from there"


def test_several_files_of_a_folder_share_its_pointer(work: Path) -> None:
    (work / "plan.md").write_text("1. retry")
    for name in ("memory.json", "plan.md"):
        cut(work / name, work.parent / "store")
    assert [kept.file for kept in resume(work / "MEMORY_POINTER")] == ["memory.json", "plan.md"]
    assert all(kept.status == "whole" for kept in resume(work / "MEMORY_POINTER"))


def test_an_empty_file_and_a_large_one_are_moved_alike(work: Path) -> None:
    (work / "a").write_bytes(b"")
    (work / "b").write_bytes(os.urandom(3 << 20))
    digest = hashlib.sha256((work / "b").read_bytes()).hexdigest()
    cut(work / "a", work.parent / "store")
    assert cut(work / "b", work.parent / "store").sha256 == digest


def test_the_same_content_in_the_store_is_the_copy(work: Path) -> None:
    (work.parent / "store" / "memory.json").write_bytes(TEXT)
    steps: list[str] = []
    cut(work / "memory.json", work.parent / "store", at=steps.append)
    assert steps == list(STEPS)
    assert listed(work) == ["MEMORY_POINTER"]


def refused(work: Path, name: str = "memory.json", store: Path | None = None) -> Problem:
    before = {one.name: one.read_bytes() for one in work.iterdir() if one.is_file() and not one.is_symlink()}
    with pytest.raises(Problem) as caught:
        cut(work / name, store or work.parent / "store")
    after = {one.name: one.read_bytes() for one in work.iterdir() if one.is_file() and not one.is_symlink()}
    assert after == before
    assert not list((work.parent / "store").glob(".*"))
    return caught.value


@pytest.mark.parametrize("content", [b"other", b"", TEXT[:-1], TEXT + b" "])
def test_other_content_of_that_name_is_never_written_over(work: Path, content: bytes) -> None:
    (work.parent / "store" / "memory.json").write_bytes(content)
    assert "another file of that name" in refused(work).found
    assert (work.parent / "store" / "memory.json").read_bytes() == content


def test_a_link_in_the_store_is_never_written_through(work: Path) -> None:
    (work.parent / "elsewhere").write_bytes(TEXT)
    (work.parent / "store" / "memory.json").symlink_to(work.parent / "elsewhere")
    assert "no regular file" in refused(work).found


def test_links_are_refused(work: Path) -> None:
    (work / "link.json").symlink_to("memory.json")
    assert refused(work, "link.json").found == "a link"
    (work / "gone.json").symlink_to("nothing")
    assert refused(work, "gone.json").found == "a link"
    os.link(work / "memory.json", work / "twice.json")
    assert "2 names" in refused(work).found


@pytest.mark.parametrize(
    "name",
    ["missing.json", "", ".", "..", "MEMORY_POINTER", "a\nb", "a\udcffb", "AKI" + "A4QTRVZ7WX2LMNOPB.txt", "a\0b"],
)
def test_names_that_cannot_be_are_refused(work: Path, name: str) -> None:
    if name not in ("missing.json", "", ".", "..", "a\0b"):
        (work / name).write_bytes(TEXT)
    said = str(refused(work, name))
    assert "4QTRVZ7" not in said


def test_pipes_and_folders_are_refused_and_not_waited_for(work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "folder").mkdir()
    assert refused(work, "pipe").found == "no file"
    assert refused(work, "folder").found == "a folder"


def test_a_store_inside_the_workspace_is_none(work: Path) -> None:
    (work / "inside").mkdir()
    (work.parent / "alias").symlink_to(work / "inside")
    for store in (work, work / "inside", work.parent / "alias", work / "inside" / ".." / "inside"):
        assert "a folder of the workspace" in refused(work, store=store).found


def test_a_store_that_is_not_there_is_not_made(work: Path) -> None:
    problem = refused(work, store=work.parent / "nowhere")
    assert problem.remedy.startswith(f"mkdir -p {work.parent / 'nowhere'},")
    (work.parent / "file").write_text("")
    refused(work, store=work.parent / "file")


def test_a_file_that_somebody_writes_is_refused(work: Path) -> None:
    with (work / "memory.json").open("ab"):
        assert "open for writing" in refused(work).found


def test_a_file_that_is_locked_is_refused(work: Path) -> None:
    with (work / "memory.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert "lock" in refused(work).found


@pytest.mark.parametrize("step", STEPS[1:10])
def test_a_file_that_changes_meanwhile_stays(work: Path, step: str) -> None:
    def at(reached: str) -> None:
        if reached == step:
            other = work / "new"
            other.write_bytes(TEXT + b"more")
            other.replace(work / "memory.json")  # as an editor saves

    with pytest.raises(Refused):
        cut(work / "memory.json", work.parent / "store", at=at)
    assert (work / "memory.json").read_bytes() == TEXT + b"more"


@pytest.mark.parametrize("step", STEPS[1:10])
def test_a_writer_that_asks_meanwhile_is_noticed(work: Path, step: str) -> None:
    def at(reached: str) -> None:
        if reached == step:
            with pytest.raises(BlockingIOError):
                os.open(work / "memory.json", os.O_WRONLY | os.O_NONBLOCK)

    before = signal.getsignal(signal.SIGIO)
    with pytest.raises(Refused):
        cut(work / "memory.json", work.parent / "store", at=at)
    assert (work / "memory.json").read_bytes() == TEXT
    assert signal.getsignal(signal.SIGIO) is before


def test_a_copy_that_is_not_what_was_copied_is_no_copy(work: Path) -> None:
    def at(reached: str) -> None:
        if reached == "synced":
            (half,) = (work.parent / "store").glob(".*half")
            half.write_bytes(TEXT.replace(b"retry", b"other"))

    with pytest.raises(Refused):
        cut(work / "memory.json", work.parent / "store", at=at)
    assert listed(work) == ["memory.json"]
    assert listed(work.parent / "store") == []


def test_a_pointer_that_is_exchanged_stops_the_cut(work: Path) -> None:
    def at(reached: str) -> None:
        if reached == "pointer-synced":
            (work / "MEMORY_POINTER").write_text("memory_uri=/elsewhere\n")

    with pytest.raises(Problem):
        cut(work / "memory.json", work.parent / "store", at=at)
    assert (work / "memory.json").read_bytes() == TEXT


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "huge", "broken"])
def test_a_pointer_that_cannot_be_read_stops_the_cut(work: Path, kind: str) -> None:
    pointer = work / "MEMORY_POINTER"
    match kind:
        case "link":
            pointer.symlink_to(work.parent / "elsewhere")
        case "fifo":
            os.mkfifo(pointer)
        case "folder":
            pointer.mkdir()
        case "huge":
            pointer.write_bytes(b"a" * (2 << 20))
        case _:
            pointer.write_text("nothing\n")
    with pytest.raises(Problem):
        cut(work / "memory.json", work.parent / "store")
    assert (work / "memory.json").read_bytes() == TEXT


def test_resume_says_what_is_missing(work: Path) -> None:
    store = work.parent / "store"
    cut(work / "memory.json", store)
    pointer = work / "MEMORY_POINTER"
    (store / "memory.json").write_bytes(TEXT + b" ")
    assert [kept.status for kept in resume(pointer)] == ["other"]
    (store / "memory.json").unlink()
    assert [kept.status for kept in resume(pointer)] == ["missing"]
    store.rmdir()
    assert [kept.status for kept in resume(pointer)] == ["missing"]


def test_resume_finishes_a_cut_and_touches_nothing_else(work: Path) -> None:
    store = work.parent / "store"
    cut(work / "memory.json", store)
    pointer = work / "MEMORY_POINTER"
    (work / "memory.json").write_bytes(TEXT)
    assert [kept.status for kept in resume(pointer, finish=False)] == ["two"]
    assert [kept.status for kept in resume(pointer)] == ["finished"]
    assert listed(work) == ["MEMORY_POINTER"]
    (work / "memory.json").write_bytes(b"of a later turn")
    assert [kept.status for kept in resume(pointer)] == ["two"]
    assert (work / "memory.json").read_bytes() == b"of a later turn"


def test_a_store_that_is_elsewhere_is_not_taken_for_checked(work: Path) -> None:
    block = Block(uri="s3://bucket/memory.json", sha256=DIGEST, bytes=len(TEXT), file="memory.json")
    (work / "MEMORY_POINTER").write_bytes(write_pointer((block,)))
    (kept,) = resume(work / "MEMORY_POINTER")
    assert (kept.status, kept.holds) == ("unchecked", False)


def test_pointers_are_found_and_links_not_followed(work: Path) -> None:
    (work / "a" / "b").mkdir(parents=True)
    (work / "a" / "b" / "MEMORY_POINTER").write_text("x")
    (work / "a" / "up").symlink_to(work)
    assert pointers_below(work) == [work / "a" / "b" / "MEMORY_POINTER"]
    with pytest.raises(Problem):
        pointers_below(work / "nowhere")


GOOD = f"memory_uri=/store/memory.json\nsha256={DIGEST}\nbytes=3\nfile=memory.json\n"


def test_a_pointer_reads_back_as_it_was_written() -> None:
    blocks = tuple(Block(uri=f"/store/{n}", sha256=DIGEST, bytes=n, file=f"{n}.json") for n in range(3))
    assert read_pointer(write_pointer(blocks), place="p") == blocks
    assert read_pointer(GOOD.encode(), place="p")[0].path == "/store/memory.json"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "memory_uri=/store/memory.json\n",  # the article's own: nothing to check
        GOOD.replace(DIGEST, DIGEST[:-1]),
        GOOD.replace(DIGEST, DIGEST.upper()),
        GOOD.replace("bytes=3", "bytes=-3"),
        GOOD.replace("bytes=3", "bytes=03"),
        GOOD.replace("bytes=3", "bytes=1e3"),
        GOOD.replace("/store/memory.json", "store/memory.json"),
        GOOD.replace("/store/memory.json", "/store/../memory.json"),
        GOOD.replace("/store/memory.json", "https://u:" + "p@host/memory.json"),
        GOOD.replace("/store/memory.json", "/store/a b"),
        GOOD.replace("file=memory.json", "file=../memory.json"),
        GOOD.replace("file=memory.json", "file=a\\b"),
        GOOD.replace("file=memory.json", "file=.."),
        GOOD.replace("file=memory.json", "file="),
        GOOD + "sha256=" + DIGEST + "\n",
        GOOD + "more=1\n",
        GOOD + "\n" + GOOD,
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n").replace("bytes=3", "bytes=3\x00"),
    ],
)
def test_a_pointer_that_says_less_or_more_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_pointer(text.encode(), place="p")


def test_a_pointer_that_is_no_text_is_refused() -> None:
    with pytest.raises(Problem):
        read_pointer(b"\xff\xfe" + GOOD.encode("utf-16-le"), place="p")
