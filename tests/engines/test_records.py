"""An engine's records: new files, and nothing behind a write that failed."""

import os
from array import array
from pathlib import Path

import pytest

from drillmaster.engines.records import Records
from drillmaster.errors import Problem


def test_calls_and_gaps_are_put_behind_the_first_line(tmp_path: Path) -> None:
    records = Records(str(tmp_path / "samples"), str(tmp_path / "gaps"))
    records.begin(b"head\n")
    records.put([b"one", b"two"], array("I", [7]))
    records.put([], array("I"))
    records.close()
    assert (tmp_path / "samples").read_bytes() == b"head\nonetwo"
    assert array("I", (tmp_path / "gaps").read_bytes()) == array("I", [7])
    assert records.calls == 2


def test_records_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "samples").write_bytes(b"kept")
    with pytest.raises(Problem, match="never written over"):
        Records(str(tmp_path / "samples"), None)
    assert (tmp_path / "samples").read_bytes() == b"kept"


def test_where_the_gaps_cannot_be_made_there_are_no_samples_either(tmp_path: Path) -> None:
    (tmp_path / "gaps").write_bytes(b"kept")
    with pytest.raises(Problem, match="gaps"):
        Records(str(tmp_path / "samples"), str(tmp_path / "gaps"))
    assert not (tmp_path / "samples").exists()


def test_after_a_write_that_failed_nothing_is_written_any_more(tmp_path: Path) -> None:
    records = Records(str(tmp_path / "samples"), None)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, records._samples)
    os.close(full)
    with pytest.raises(Problem, match="No space left on device after 1 calls"):
        records.put([b"one"], array("I"))
    records.put([b"two"], array("I"))  # it was said: who only wants to end hears of it no second time
    assert (tmp_path / "samples").read_bytes() == b""
