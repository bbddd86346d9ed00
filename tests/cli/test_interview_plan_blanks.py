"""A plan of `init interview` that is not filled in yet: all of its blanks are named at once, before anything is sent."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from drillmaster.cli.interview import command
from drillmaster.errors import Problem
from drillmaster.scaffold import fill, template

PLAN = "interview-plan.yaml"


def _refused(path: Path) -> tuple[Problem, str]:
    done = CliRunner().invoke(command, [str(path)])
    assert isinstance(done.exception, Problem), done.output
    return done.exception, done.stderr


def test_every_blank_is_named_at_once_with_its_example(tmp_path: Path) -> None:
    path = tmp_path / PLAN
    path.write_text(template("interview")[PLAN])
    problem, said = _refused(path)
    assert problem.found == "3 blanks: /job, /target/url, /target/dialect"
    assert "/target/dialect" in said and "such as openai_chat" in said


def test_the_blanks_of_thresholds_beside_it_are_named_with_them(tmp_path: Path) -> None:
    for name in (PLAN, "interview-policy.yaml"):
        (tmp_path / name).write_text(template("interview")[name])
    policy = tmp_path / "interview-policy.yaml"
    done = CliRunner().invoke(command, [str(tmp_path / PLAN), "--policy", str(policy)])
    assert isinstance(done.exception, Problem), done.output
    assert done.exception.found.startswith("15 blanks: /job, ")
    assert "/gates/0/levels/warm_c8/error_rate" in done.stderr and f"{policy}: 12 to fill in" in done.stderr


def test_what_may_stay_open_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers = {"/job": "x", "/target/url": "http://127.0.0.1:1/x", "/target/dialect": "plain"}
    (tmp_path / PLAN).write_text(fill(template("interview")[PLAN], answers))
    problem, _ = _refused(Path(PLAN))
    assert "takes a connection" in problem.wanted  # nobody listens there: all else would do
