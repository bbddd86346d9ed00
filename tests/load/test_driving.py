"""What engines said and what of it is on the disk, held against each other."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drillmaster.errors import Problem
from drillmaster.evidence.samples import OUTCOMES, RECORD, header
from drillmaster.ladder import Step
from drillmaster.load.driving import Drive
from drillmaster.load.process import Crew, Team
from drillmaster.load.sharing import shared
from drillmaster.load.tally import StepTally, Tail
from tests.load.test_together import said

WARM = Step(label="warm", kind="closed", callers=2, calls=4)


def record(*, step: int = 0, outcome: int = OUTCOMES.index("ok")) -> bytes:
    return RECORD.pack(1, 1, 2, 0, 2, 0, 0, 9, 9, 0, 4, 0, step, 200, outcome, 0)


def drive(folder: Path, *records: bytes, silent: int | None = None) -> Drive:
    files = [str(folder / f"samples.{engine}.bin") for engine in (1, 2)]
    Path(files[1]).write_bytes(header(stages=["warm"]) + b"".join(records))
    team = cast(Team, SimpleNamespace(name=lambda engine: f"engine {engine + 1} of 2"))
    crew = cast(Crew, SimpleNamespace(silent=lambda over_s: silent))
    shares = shared((WARM,), 2, first_call=1, seed=1)
    return Drive(team, crew, (WARM,), shares, [Tail(file) for file in files])


def test_a_record_of_a_step_that_is_not_there_is_none_of_this_run(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="records of engine 2 of 2: found a record of step 8, of 1"):
        list(drive(tmp_path, record(), record(step=7)).new())


def test_an_outcome_that_nobody_knows_is_no_record() -> None:
    bad: tuple[Any, ...] = (1, 1, 2, 0, 0, -1, 0, 200, 200, 0)
    with pytest.raises(Problem, match="found outcome 200"):
        StepTally(5).add([bad])


def test_who_is_silent_is_named_with_how_far_it_was_heard_of(tmp_path: Path) -> None:
    one = drive(tmp_path, silent=1)
    assert one.silent(30) == "engine 2 of 2 said nothing for 30 s before warm"
    for word in (said("stage_started", done=2), said("progress", done=3)):
        assert one.wrong(1, word) is None
        one.together.hear(1, word)
    assert one.silent(30) == "engine 2 of 2 said nothing for 30 s in warm, after 1 calls of it"
    assert one.wrong(1, said("gone")) == "engine 2 of 2 said a word that no engine has"
    assert drive(tmp_path).silent(30) is None
