"""A file of missions that is tried by hand."""

import os
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.missions.trying import load_of


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "missions.yaml"
    os.mkfifo(pipe)
    with pytest.raises(Problem, match="named pipe"):
        load_of(pipe, 5)
