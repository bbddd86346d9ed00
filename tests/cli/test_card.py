"""`card` and `report`, as they are typed, on a sealed and judged run."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.card import command as card
from drillmaster.cli.gate import command as gate
from drillmaster.cli.report import command as report
from drillmaster.errors import Problem

GOLDEN = Path(__file__).parent.parent / "golden" / "eviction"


def _run(tmp_path: Path, name: str, *, judged: bool = True) -> Path:
    run = tmp_path / "run"
    shutil.copytree(GOLDEN / name, run)
    if judged:
        CliRunner().invoke(gate, ["eviction", str(run), "--now", "2026-11-30T02:00:00Z"])
        assert (run / "verdict.json").exists()
    return run


def _typed(command: object, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])  # type: ignore[arg-type]  # a click command


@pytest.mark.parametrize("command", [card, report])
def test_without_a_verdict_it_is_refused_with_the_command_that_makes_one(tmp_path: Path, command: object) -> None:
    run = _run(tmp_path, "pass", judged=False)
    result = _typed(command, run)
    assert isinstance(result.exception, Problem)
    assert result.exception.remedy == f"drillmaster gate eviction {run}"
    assert not (run / "card.md").exists() and not (run / "report.html").exists()


@pytest.mark.parametrize("command", [card, report])
def test_a_verdict_of_other_evidence_is_refused(tmp_path: Path, command: object) -> None:
    run = _run(tmp_path, "pass")
    shutil.copy(_run(tmp_path / "other", "fail-no-fallback") / "verdict.json", run / "verdict.json")
    result = _typed(command, run)
    assert isinstance(result.exception, Problem)
    assert "other evidence" in str(result.exception)


@pytest.mark.parametrize("command", [card, report])
@pytest.mark.parametrize("where", ["nothing", "a file"])
def test_what_is_no_run_is_refused(tmp_path: Path, command: object, where: str) -> None:
    path = tmp_path / "x"
    if where == "a file":
        path.write_text("{}")
    assert isinstance(_typed(command, path).exception, Problem)


def test_a_verdict_that_was_edited_is_refused(tmp_path: Path) -> None:
    run = _run(tmp_path, "fail-no-fallback")
    text = (run / "verdict.json").read_text().replace('"status": "fail",\n  "checks"', '"status": "pass",\n  "checks"')
    (run / "verdict.json").write_text(text.replace('"exit": 1', '"exit": 0'))
    result = _typed(card, run)
    assert isinstance(result.exception, Problem)
    assert "what its checks add up to" in str(result.exception)


def test_the_card_is_printed_and_kept_in_the_run(tmp_path: Path) -> None:
    run = _run(tmp_path, "pass")
    result = _typed(card, run)
    assert result.exit_code == 0
    assert result.stdout.startswith("# Eviction Drill - support-agent - 2026-11-30\n")
    assert (run / "card.md").read_text(encoding="utf-8") == result.stdout
    assert len(result.stdout.splitlines()) <= 45
    assert result.stderr == f"card: {run / 'card.md'}\n"


def test_the_gate_command_on_the_card_is_as_one_would_type_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(tmp_path, "pass").rename(tmp_path / "a run")
    monkeypatch.chdir(tmp_path)
    assert "`drillmaster gate eviction 'a run'`" in _typed(card, run).stdout


def test_the_card_goes_where_it_is_told_and_its_folder_is_made(tmp_path: Path) -> None:
    out = tmp_path / "wiki" / "deep" / "drill.md"
    run = _run(tmp_path, "pass")
    assert _typed(card, run, "--out", out).exit_code == 0
    assert out.exists() and not (run / "card.md").exists()


def test_a_place_that_cannot_be_written_is_a_problem_and_leaves_no_draft(tmp_path: Path) -> None:
    run = _run(tmp_path, "pass")
    (tmp_path / "taken").mkdir()
    result = _typed(card, run, "--out", tmp_path / "taken")
    assert isinstance(result.exception, Problem)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_issues_are_written_once_and_what_people_add_stays(tmp_path: Path) -> None:
    run, issues = _run(tmp_path, "fail-no-fallback"), tmp_path / "issues"
    first = _typed(card, run, "--issues", issues)
    assert first.exit_code == 0
    written = sorted(path.name for path in issues.iterdir())
    failed = [line for line in first.stdout.partition("Gate output:")[2].splitlines() if line.startswith("FAIL ")]
    assert len(written) == len(failed) - 1 > 0  # the last FAIL line is the verdict
    assert "  - fallback: OPEN" in first.stdout
    (issues / written[0]).write_text("a person's words")
    again = _typed(card, run, "--issues", issues)
    assert (issues / written[0]).read_text() == "a person's words"
    assert again.stderr.count("was there and is left as it is") == len(written)
    assert again.stdout == first.stdout


def test_a_pass_writes_no_issue(tmp_path: Path) -> None:
    result = _typed(card, _run(tmp_path, "pass"), "--issues", tmp_path / "issues")
    assert "issues: none" in result.stderr
    assert not (tmp_path / "issues").exists()


def test_json_says_what_was_written(tmp_path: Path) -> None:
    run = _run(tmp_path, "fail-no-fallback")
    said = json.loads(_typed(card, run, "--issues", tmp_path / "i", "--json").stdout)
    assert said["card"] == str(run / "card.md")
    assert said["lines"] <= 45
    assert len(said["issues_written"]) > 0 and said["issues_kept"] == []


def test_the_page_is_kept_in_the_run_and_the_run_stays_sealed(tmp_path: Path) -> None:
    run = _run(tmp_path, "fail-no-fallback")
    result = _typed(report, run)
    assert result.exit_code == 0
    assert result.stdout == f"{run / 'report.html'}\n"
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "Fail" in page
    verdict = CliRunner().invoke(gate, ["eviction", str(run), "--no-record", "--now", "2026-11-30T02:00:00Z"])
    assert verdict.exit_code == 1
    assert "PASS sealed and unchanged" in verdict.stdout


def test_a_refused_run_has_a_page_and_a_card_too(tmp_path: Path) -> None:
    run = _run(tmp_path, "refused-one-byte")
    assert "REFUSED sealed" in _typed(card, run).stdout
    said = json.loads(_typed(report, run, "--html", tmp_path / "p.html", "--json").stdout)
    assert said["bytes"] == (tmp_path / "p.html").stat().st_size < 200_000


@pytest.mark.parametrize("command", [card, report])
def test_help_has_examples(command: object) -> None:
    out = _typed(command, "--help").stdout
    assert "Examples:" in out and f"drillmaster {command.name} runs/" in out  # type: ignore[attr-defined]  # a click command
