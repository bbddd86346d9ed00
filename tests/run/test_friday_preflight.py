"""What the pre-flight of a Friday drill sees of the agent's transcripts."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drillmaster.errors import Refused
from drillmaster.run.friday_preflight import _written

RUN, PROBE = "20261204T160000Z-1a2b", "probe-1a2b"


class Hasty:
    """A clock by which each look comes after all the time there is."""

    def __init__(self) -> None:
        self.at_ns = 0

    def mono_ns(self) -> int:
        self.at_ns += 10**12
        return self.at_ns


def written(folder: Path, *, wants: bool = True) -> Any:
    checkup: Any = SimpleNamespace(transcripts=folder, folder=SimpleNamespace(run=RUN), wants_transcripts=wants)
    clock: Any = Hasty()
    return asyncio.run(_written(checkup, PROBE, clock))


def say(folder: Path, **line: Any) -> None:
    with (folder / "worker.ndjson").open("a") as file:
        file.write(json.dumps({"mission": PROBE, "seq": 0, "kind": "started", **line}) + "\n")


def test_a_probe_of_this_run_is_seen_behind_a_megabyte_of_old_transcripts(tmp_path: Path) -> None:
    (tmp_path / "worker.ndjson").write_text("x" * (2 << 20) + "\n")
    say(tmp_path, run=RUN)
    assert written(tmp_path).status == "pass"


@pytest.mark.parametrize(
    ("run", "named"),
    [("20261127T160000Z-1a2b", "20261127T160000Z-1a2b"), ("", "none"), (None, "None"), ("a\nb", "a")],
)
def test_a_probe_of_another_run_is_refused_before_a_quarter_of_an_hour_is_spent(
    tmp_path: Path, run: str | None, named: str
) -> None:
    say(tmp_path, run=run)
    with pytest.raises(Refused, match="X-Drill-Run") as refused:
        written(tmp_path)
    assert f"as of another run: {named}" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", f'{{"mission": "{PROBE}"', f'["{PROBE}"]', f'{{"other": "{PROBE}"}}', "[" * 100_000 + PROBE]
)
def test_what_is_no_line_of_the_probe_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "worker.ndjson").write_text(text)
    with pytest.raises(Refused, match="no line of probe-1a2b"):
        written(tmp_path)


def test_where_no_row_asks_for_transcripts_nothing_is_looked_at(tmp_path: Path) -> None:
    assert written(tmp_path / "nowhere", wants=False).status == "pass"
