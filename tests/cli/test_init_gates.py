"""`init gates`, and `init` alone, as they are typed."""

import json
import re
import shlex
import subprocess
import tomllib
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


def test_what_is_still_blank_in_a_file_that_was_there_is_told_again(repository: Path) -> None:
    first = typed("gates", "--dir", repository)
    again = typed("gates", "--dir", repository)
    policy = repository / ".drillmaster/contract-policy.yaml"
    for said in (first, again):
        assert f"next: fill in {policy}, then drillmaster contract lock" in said.stdout
    assert f"{policy}: was there and is left as it is, 8 blanks to fill in" in again.stdout
    text = policy.read_text()
    policy.write_text(re.sub(r"(?m)^( *[a-z_]+:)$", r"\1 x", text).replace("gates: x", "gates:"))
    filled = typed("gates", "--dir", repository).stdout
    assert "next: drillmaster contract lock" in filled
    assert f"{policy}: was there and is left as it is\n" in filled


def test_a_policy_that_is_there_as_a_link_or_in_no_text_stops_nobody(repository: Path) -> None:
    (repository / ".drillmaster").mkdir()
    (repository / ".drillmaster/contract-policy.yaml").write_bytes(b"\xff\xfe")
    assert typed("gates", "--dir", repository).exit_code == 0


def test_what_was_found_is_named_in_the_next_command_and_in_the_workflow(repository: Path) -> None:
    for name in ("ops/agent/memory.json", "plans/orders-cutover.json", "config/tools.allow.json"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("{}")
    (repository / ".mcp.json").unlink()
    said = typed("gates", "--dir", repository).stdout
    assert "drillmaster gate workspace ops/agent\n" in said
    assert "drillmaster gate cutover plans/orders-cutover.json --base origin/main\n" in said
    assert "drillmaster gate tools config/tools.allow.json\n" in said
    workflow = (repository / ".github/workflows/drillmaster-gates.yml").read_text()
    assert "gate cutover plans/orders-cutover.json --base" in workflow
    assert "gate tools config/tools.allow.json --base" in workflow


@pytest.mark.parametrize(
    "name",
    [
        "a b/tools.allow.json",
        "$(id)/tools.allow.json",
        "x: y/tools.allow.json",
        "-x/tools.allow.json",
        "ü/tools.allow.json",
    ],
)
def test_a_name_that_a_shell_could_read_otherwise_does_not_get_into_the_workflow(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True)
    (repository / name).write_text("{}")
    (repository / ".mcp.json").unlink()
    said = typed("gates", "--dir", repository)
    assert said.exit_code == 0
    workflow = (repository / ".github/workflows/drillmaster-gates.yml").read_text()
    assert name not in workflow and "gate tools FILE --base" in workflow
    assert f"drillmaster gate tools {shlex.quote(name)}" in said.stdout


def test_a_cutover_that_was_named_has_the_plan_where_its_page_puts_it(repository: Path) -> None:
    said = typed("gates", "--dir", repository, "--gate", "cutover").stdout
    assert "drillmaster gate cutover cutover/plan.json --base origin/main" in said
    assert (
        "gate cutover cutover/plan.json --base" in (repository / ".github/workflows/drillmaster-gates.yml").read_text()
    )


def test_the_workflow_installs_what_its_gates_read_with_and_lays_the_workspace_of_the_change_beside(
    repository: Path,
) -> None:
    (repository / "agent").mkdir()
    (repository / "agent/memory.json").write_text("{}")
    typed("gates", "--dir", repository)
    workflow = YAML(typ="safe").load((repository / ".github/workflows/drillmaster-gates.yml").read_text())
    runs = [step.get("run", "") for step in workflow["jobs"]["gates"]["steps"]]
    (install,) = [run for run in runs if "pip install" in run]
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra in ("contracts", "oracle"):
        assert {re.split("[<>=]", one)[0] for one in extras[extra]} <= set(install.split())
    beside = runs.index('git worktree add --detach ../change "$HEAD"')
    assert runs[beside + 1].startswith(".venv/bin/drillmaster gate workspace ../change/agent --base")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cutover", "It is a gate: drillmaster init gates --gate cutover"),
        ("lease", "It is a guard: drillmaster init guards --guard lease"),
        ("quota", "drillmaster init gates --gate quota or drillmaster init guards --guard quota"),
        ("nosuch", "No such command 'nosuch'"),
    ],
)
def test_a_gate_or_a_guard_in_place_of_a_verb_is_told_its_line(name: str, said: str) -> None:
    result = typed(name)
    assert result.exit_code == 2 and said in result.stderr


@pytest.mark.parametrize(
    ("made", "base"),
    [
        ((), "main"),
        ((("remote", "add", "origin", "https://example.com/r.git"),), "origin/main"),
        (
            (
                ("remote", "add", "origin", "https://example.com/r.git"),
                ("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"),
            ),
            "origin/trunk",
        ),
    ],
)
def test_the_next_command_names_a_base_that_is_there(
    made: tuple[tuple[str, ...], ...], base: str, tmp_path: Path
) -> None:
    for words in (("init", "-q", "-b", "main"), *made):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, timeout=30)
    (tmp_path / "openapi.yaml").write_text("openapi: 3.1.0\n")
    said = typed("gates", "--dir", tmp_path)
    assert f"drillmaster gate contract --base {base}\n" in said.stdout
