"""`init gates`, and `init` alone, as they are typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from drillmaster.changes import Roster
from drillmaster.cli.init import command as init
from drillmaster.errors import Problem
from drillmaster.intake import read_strict


def typed(*arguments: str | Path) -> Result:
    return CliRunner().invoke(init, [str(one) for one in arguments])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("openapi.yaml", "tests/test_app.py", ".github/CODEOWNERS", ".mcp.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def test_a_repository_gets_what_its_gates_begin_with_and_the_next_commands(repository: Path) -> None:
    result = typed("gates", "--dir", repository)
    assert result.exit_code == 0, result.output
    for gate in ("contract", "oracle", "tools"):
        assert any(line.startswith(f"{gate}: ") for line in result.stdout.splitlines())
        assert any(line.startswith("next: ") and f"gate {gate}" in line for line in result.stdout.splitlines())
    assert read_strict(repository / ".drillmaster/roster.yaml", Roster).people == ()
    workflow = YAML(typ="safe").load((repository / ".github/workflows/drillmaster-gates.yml").read_text())
    runs = [step.get("run", "") for step in workflow["jobs"]["gates"]["steps"]]
    assert sum("--base" in run for run in runs) == 3
    assert not any("${{" in run for run in runs)
    assert workflow["on"] == "pull_request_target"


def test_nothing_that_is_there_is_touched(repository: Path) -> None:
    typed("gates", "--dir", repository)
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    told = json.loads(typed("gates", "--dir", repository, "--json").stdout)
    assert told["written"] == [] and len(told["kept"]) >= 3
    assert {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()} == before


def test_a_repository_without_anything_to_gate_names_the_way_out(tmp_path: Path) -> None:
    problem = typed("gates", "--dir", tmp_path).exception
    assert isinstance(problem, Problem) and problem.remedy.endswith("drillmaster init gates --gate contract")
    assert typed("gates", "--dir", tmp_path, "--gate", "contract").exit_code == 0
    assert not (tmp_path / ".github").exists()


def test_a_gate_that_is_none_is_told_with_the_nearest(tmp_path: Path) -> None:
    problem = typed("gates", "--dir", tmp_path, "--gate", "contrcat").exception
    assert isinstance(problem, Problem) and "contract" in problem.remedy


def test_init_alone_looks_at_the_repository_here(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert typed().exit_code == 0
    assert (repository / ".drillmaster/roster.yaml").exists()
