"""What a process is told of its waits for a core: counted as the kernel counts, each look one wait."""

from pathlib import Path

import pytest

from drillmaster.engines.run_delay import LEAST_NS, SLICE_NS, RunDelay


def said(path: Path, delay_ns: int) -> None:
    path.write_text(f"376015287 {delay_ns} 4\n", encoding="ascii")


def test_each_look_is_one_wait_and_none_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    said(path, 5_000_000)
    one = RunDelay(str(path))
    assert one.is_counted
    for delay_ns in (5_000_000, 5_400_000, 9_400_000, 9_400_000, 9_400_000 + LEAST_NS):
        said(path, delay_ns)
        one.look()
    assert (one.whole_ns, one.longest_ns, list(one.long_ns)) == (5_400_000, 4_000_000, [4_000_000, LEAST_NS])
    one.begin()
    assert (one.whole_ns, one.longest_ns, list(one.long_ns)) == (0, 0, [])
    said(path, 9_400_000 + LEAST_NS + 7)
    one.look()
    assert one.whole_ns == 7
    one.close()


@pytest.mark.parametrize("text", [None, "", "376015287\n", "no numbers here\n"])
def test_where_the_kernel_does_not_count_switches_stand_for_turns_of_others(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "schedstat"
    if text is not None:
        path.write_text(text, encoding="ascii")
    one = RunDelay(str(path))
    assert not one.is_counted
    one.look()
    assert one.whole_ns % SLICE_NS == 0
    one.close()


def test_a_process_that_others_let_run_has_waited_for_hardly_anything() -> None:
    one = RunDelay()
    one.look()
    assert 0 <= one.whole_ns < 60_000_000_000
    one.close()
