"""The registry as a file."""

import os
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.flags.server import read_registry


def test_a_pipe_in_the_place_of_a_registry_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "flags.yaml"
    os.mkfifo(pipe)
    with pytest.raises(Problem, match="named pipe"):
        read_registry(pipe)
    with pytest.raises(Problem, match=r"nothing|[Nn]o such"):
        read_registry(tmp_path / "absent.yaml")
