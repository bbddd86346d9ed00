"""What is remembered of a self-test is no evidence where it says nothing."""

from pathlib import Path

import pytest

from drillmaster.intake import selftests


@pytest.mark.parametrize("said", [b"[]", b"", b"{}", b"[1]", b"\xff", b"null"])
def test_a_memory_that_says_nothing_is_played_again(tmp_path: Path, said: bytes) -> None:
    whole = selftests.tested("canary", tmp_path)
    (kept,) = (tmp_path / "selftest").glob("canary-*.json")
    kept.write_bytes(said)
    assert selftests.tested("canary", tmp_path) == whole
    selftests.must_go_red("canary", tmp_path)


def test_a_state_that_cannot_be_written_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder belongs")
    selftests.must_go_red("canary", tmp_path / "state")
