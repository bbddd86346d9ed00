"""`init friday`, as it is typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.init import command as init
from drillmaster.cli.run import command as run
from drillmaster.friday.flags import load_registry
from drillmaster.friday.missions import read_missions
from drillmaster.intake.blanks import blanks

FILES = ["drill-matrix.yaml", "flags.yaml", "friday-plan.yaml", "missions.yaml"]
FILLED: dict[str, Any] = {
    "/service": "concierge", "/seats/lead": "Ana", "/seats/scribe": "Ben", "/seats/verifier": "Chen",
    "/target/url": "http://127.0.0.1:9", "/missions/time_limit_s": 30, "/source": "SLO page", "/owner": "Chen",
    "/review_by": "2199-01-01",
}  # fmt: skip
OBJECTIVES = ["p95 < 2.5 s", ">= 99 %", "< 60 s", ">= 99 %", ">= 100 %"]


def typed(*arguments: str | Path) -> Result:
    return CliRunner().invoke(init, ["friday", *(str(a) for a in arguments)])


def test_four_files_are_written_and_the_next_command_is_said(tmp_path: Path) -> None:
    result = typed("--dir", tmp_path)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert result.stdout.splitlines()[-1].endswith("--rehearsal --compress max")
    assert "?" not in result.output


def test_no_objective_is_filled_in(tmp_path: Path) -> None:
    said = json.loads(typed("--dir", tmp_path, "--json").stdout)
    left = said["blanks"][str(tmp_path / "drill-matrix.yaml")]
    assert [one for one in left if one.endswith("/objective")] == [f"/rows/{n}/objective" for n in range(5)]


def test_each_blank_has_an_example(tmp_path: Path) -> None:
    typed("--dir", tmp_path)
    for name in ("friday-plan.yaml", "drill-matrix.yaml"):
        found = blanks((tmp_path / name).read_text())
        assert found
        assert all(found.values()), found


def test_every_open_blank_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed("--dir", tmp_path)
    result = CliRunner().invoke(run, ["friday", "--rehearsal"])
    said = str(result.exception)
    for pointer in ("/service", "/target/url", "/rows/0/objective", "/rows/4/source"):
        assert pointer in said
    assert "such as p95 < 2.5 s" in result.output
    assert "such as < 60 s" in result.output


def test_files_that_are_there_are_left(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").write_text("mine: 1\n")
    assert "was there and is left as it is" in typed("--dir", tmp_path).stdout
    assert (tmp_path / "flags.yaml").read_text() == "mine: 1\n"


def test_filled_in_they_make_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drillmaster.run import Options
    from drillmaster.run.fridays import prepare_friday
    from drillmaster.scaffold import fill

    typed("--dir", tmp_path)
    for name in ("friday-plan.yaml", "drill-matrix.yaml", "flags.yaml"):
        path = tmp_path / name
        values: dict[str, Any] = {}
        for pointer in blanks(path.read_text()):
            row = pointer.split("/")
            if row[1] == "rows":
                values[pointer] = OBJECTIVES[int(row[2])] if row[3] == "objective" else "somebody"
            else:
                values[pointer] = FILLED[pointer]
        path.write_text(fill(path.read_text(), values))
    environ = {"DRILL_ALERT_TOKEN": "0123456789abcdef0123"}
    ready = prepare_friday(tmp_path / "friday-plan.yaml", Options(), wall_ns=1_796_000_000_000_000_000, environ=environ)
    assert ready.warnings == ()
    assert ready.plan.phases.fault_s == 300


def test_the_pipeline_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    result = typed("--dir", tmp_path, "--ci", "github", "--cron", "5 7 * * 5")
    assert result.exit_code == 0, result.output
    text = (tmp_path / ".github/workflows/drillmaster-friday.yml").read_text()
    assert '"5 7 * * 5"' in text
    assert typed("--dir", tmp_path, "--cron", "5 7 * * 5").exit_code == 2  # no workflow to put it into


def test_examples_for_other_load_generators_come_on_demand(tmp_path: Path) -> None:
    typed("--dir", tmp_path, "--load-examples")
    assert "HttpUser" in (tmp_path / "locustfile.py").read_text()
    assert "arrivalRate" in (tmp_path / "artillery.yml").read_text()
    read_missions((tmp_path / "missions.yaml").read_bytes(), place="missions.yaml")


def test_the_registry_of_a_kit_is_one(tmp_path: Path) -> None:
    typed("--dir", tmp_path)
    text = (tmp_path / "flags.yaml").read_text().replace("service:\n", "service: x\n")
    assert load_registry(text.encode(), place="flags.yaml").capabilities == ("refund",)


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_pipeline_is_never_said_to_have_no_blank_left(host: str, tmp_path: Path) -> None:
    said = typed("--dir", tmp_path, "--ci", host).stdout.splitlines()
    (line,) = [one for one in said if one.endswith("docs/howto/friday-pipeline.md")]
    assert "yours to write" in line
