"""Our own files: every trouble is raised, because the drill has to stop."""

import errno
import os
from pathlib import Path

import pytest

from drillmaster.clock import ManualClock
from drillmaster.evidence import Defect, Row, rows
from drillmaster.timeline import Unwritable, Writer, append
from drillmaster.timeline.line import LINE_CAP_BYTES


def read(path: Path) -> list[Row | Defect]:
    return list(rows([path.read_bytes()], file=path.name))


def test_a_line_has_both_clocks(tmp_path: Path) -> None:
    clock = ManualClock(mono_ns=5_000, wall_ns=1_795_953_600_123_456_789)
    with Writer(tmp_path / "proxy.jsonl", clock, 3_000) as writer:
        assert writer.write("fault_injected", window="w1", fault="reset") == 2_000
        clock.advance(1.5)
        assert writer.write("proxy_ended") == 1_500_002_000
    assert (tmp_path / "proxy.jsonl").read_bytes() == (
        b'{"t":"2026-11-29T12:00:00.123456Z","event":"fault_injected","ns":2000,"window":"w1","fault":"reset"}\n'
        b'{"t":"2026-11-29T12:00:01.623456Z","event":"proxy_ended","ns":1500002000}\n'
    )


def test_a_wall_clock_that_jumps_moves_t_and_not_ns(tmp_path: Path) -> None:
    clock = ManualClock()
    with Writer(tmp_path / "f", clock, 0) as writer:
        writer.write("clock")
        clock.step_wall(-3600)
        clock.advance(1)
        assert writer.write("clock") == 1_000_000_000
    first, second = read(tmp_path / "f")
    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert second.wall_ns - first.wall_ns == -3599 * 10**9


@pytest.mark.parametrize("name", ["t", "ns"])
def test_a_field_cannot_override_a_clock(name: str, tmp_path: Path) -> None:
    fields: dict[str, object] = {name: 1}
    with Writer(tmp_path / "f", ManualClock(), 0) as writer, pytest.raises(ValueError, match=name):
        writer.write("clock", **fields)
    assert (tmp_path / "f").read_bytes() == b""


def test_a_second_writer_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for n in range(2):
        with Writer(tmp_path / "f", ManualClock(), 0) as writer:
            writer.write("proxy_started", pid=n)
    assert [row.fields["pid"] for row in read(tmp_path / "f") if isinstance(row, Row)] == [0, 1]


def test_a_line_torn_by_a_killed_writer_swallows_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'{"t":"2026-11-29T12:00:00Z","event":"attem')
    with Writer(tmp_path / "f", ManualClock(), 0) as writer:
        writer.write("proxy_started")
    torn, row = read(tmp_path / "f")
    assert isinstance(torn, Defect)
    assert isinstance(row, Row)
    assert (torn.kind, row.event) == ("torn", "proxy_started")


@pytest.mark.parametrize("size", [4_000, 4_040, 4_096, 100_000])
def test_a_line_is_at_most_4_kb_and_says_what_was_clipped(size: int, tmp_path: Path) -> None:
    with Writer(tmp_path / "f", ManualClock(), 0) as writer:
        writer.write("drill_ended", why="x" * size, status="aborted")
    (row,) = read(tmp_path / "f")
    assert isinstance(row, Row)
    assert len((tmp_path / "f").read_bytes()) <= LINE_CAP_BYTES
    assert row.fields["status"] == "aborted"
    assert row.fields["why"] == "x" * 4_000 if size == 4_000 else "clipped" in row.fields["why"]


def test_not_a_number_is_written_as_null(tmp_path: Path) -> None:
    with Writer(tmp_path / "f", ManualClock(), 0) as writer:
        writer.write("user_request", ms=float("nan"))
    (row,) = read(tmp_path / "f")
    assert isinstance(row, Row)
    assert row.fields["ms"] is None


def test_a_missing_folder_is_told_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match=r"no such file or folder, .*; make the folder"):
        Writer(tmp_path / "no" / "f", ManualClock(), 0)


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling"])
def test_what_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            (tmp_path / "real").touch()
            path.symlink_to("real")
        case "dangling":
            path.symlink_to("nowhere")
    with pytest.raises(Unwritable):
        Writer(path, ManualClock(), 0)


def test_a_closed_writer_raises(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "f", ManualClock(), 0)
    writer.close()
    writer.close()
    with pytest.raises(Unwritable):
        writer.write("clock")


def test_sync_notices_a_file_that_was_replaced_or_removed(tmp_path: Path) -> None:
    with Writer(tmp_path / "f", ManualClock(), 0) as writer:
        writer.write("clock")
        writer.sync()
        (tmp_path / "f").rename(tmp_path / "g")
        with pytest.raises(Unwritable, match="no such file"):
            writer.sync()
        (tmp_path / "f").touch()
        with pytest.raises(Unwritable, match="another file"):
            writer.sync()


def test_append_writes_a_line_that_begins_with_a_newline(tmp_path: Path) -> None:
    append(tmp_path / "f", "note", {"text": "x"}, clock=ManualClock())
    assert (tmp_path / "f").read_bytes() == b'\n{"t":"2026-01-01T00:00:00.000000Z","event":"note","text":"x"}\n'
    append(tmp_path / "f", "alert_acked", {}, clock=ManualClock())
    assert len(read(tmp_path / "f")) == 2
    with pytest.raises(Unwritable) as caught:
        append(tmp_path, "note", {}, clock=ManualClock())
    assert caught.value.__cause__ is not None
    assert getattr(caught.value.__cause__, "errno", None) in (errno.EISDIR, errno.EINVAL)


def test_a_secret_in_our_own_lines_is_not_written(tmp_path: Path) -> None:
    with Writer(tmp_path / "f", ManualClock(), 0) as writer:
        writer.write("worker_started", argv=["serve", "--api-key=zzz999zzz999"], env={"TOKEN": "hunter2"})
        writer.write("attempt", model="Bearer abcdef123456", trace="0af7651916cd43dd8448eb211c80319c")
    text = (tmp_path / "f").read_text()
    assert "zzz999" not in text
    assert "hunter2" not in text
    assert "0af7651916cd43dd8448eb211c80319c" in text
    assert "abcdef123456" not in text
