"""`card` and `report`, as they are typed, on a sealed and judged run."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import drillmaster
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
    assert result.exception.remedy == f"drillmaster gate eviction {run}"


def _edited(run: Path, before: str, after: str) -> None:
    text = (run / "verdict.json").read_text(encoding="utf-8")
    assert before in text
    (run / "verdict.json").write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.parametrize("command", [card, report])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"status": "fail"', '"status": "pass"'),  # every check, and with the next line the whole verdict
        ('"role": "judgement"', '"role": "admission"'),
        ("60", "600"),
        ("no-fallback", "fine"),
        ('"subject": "', '"subject": "another '),
        ('"version": "', '"version": "\\u001b[2J'),
        ('"now": "2026', '"now": "2027'),
        ('"late": 0', '"late": 5'),
        ('"late": 0', '"late": -1'),
        ("\n}", "\n} "),  # one blank more is not what the gate wrote either
    ],
)
def test_a_verdict_that_nobody_gave_is_not_shown(tmp_path: Path, command: object, before: str, after: str) -> None:
    run = _run(tmp_path, "fail-no-fallback")
    _edited(run, before, after)
    if '"pass"' in after:
        _edited(run, '"exit": 1', '"exit": 0')
    result = _typed(command, run)
    assert isinstance(result.exception, Problem), result.output
    assert result.exception.remedy == f"drillmaster gate eviction {run}"
    assert result.stdout == ""
    assert not (run / "card.md").exists() and not (run / "report.html").exists()
    assert _typed(gate, "eviction", run, "--now", "2026-11-30T02:00:00Z").exit_code == 1
    assert _typed(command, run).exit_code == 0


@pytest.mark.parametrize("command", [card, report])
@pytest.mark.parametrize("file", ["manifest.json", "policy.yaml", "events/notes.jsonl", "seal.json"])
def test_evidence_that_changed_since_it_was_judged_is_not_shown(tmp_path: Path, command: object, file: str) -> None:
    run = _run(tmp_path, "pass")
    data = (run / file).read_bytes()
    (run / file).write_bytes(data.replace(b"Bo", b"Al").replace(b"review_by: 2027", b"review_by: 2028") + b" ")
    if file == "seal.json":
        (run / file).write_bytes(data.replace(b'"sealed_at": "2', b'"sealed_at": "3'))
    result = _typed(command, run)
    assert isinstance(result.exception, Problem)
    assert result.exception.remedy == f"drillmaster gate eviction {run}"


def test_a_run_that_lost_its_seal_is_not_shown(tmp_path: Path) -> None:
    run = _run(tmp_path, "pass")
    (run / "seal.json").unlink()
    result = _typed(card, run)
    assert isinstance(result.exception, Problem)
    assert result.exception.remedy == f"drillmaster seal {run}"


def test_a_worker_that_goes_on_writing_after_the_verdict_changes_no_card(tmp_path: Path) -> None:
    run = _run(tmp_path, "pass")
    before = _typed(card, run).stdout
    with (run / "timeline.jsonl").open("a") as late:
        late.write('{"t":"2026-11-30T09:00:00Z","event":"model_ok"}\n')
    assert _typed(card, run).stdout == before


def test_a_verdict_of_another_release_is_given_again_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(tmp_path, "pass")
    monkeypatch.setattr(drillmaster, "__version__", "9.9.9", raising=False)
    assert _typed(card, run).exit_code == 0
    assert "9.9.9" not in (run / "verdict.json").read_text()


def test_a_device_in_the_place_of_the_file_stays_one(tmp_path: Path) -> None:
    run = _run(tmp_path, "pass")
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(tmp_path / "elsewhere")
    for place in ("/dev/null", fifo, link, tmp_path):
        for result in (_typed(card, run, "--out", place), _typed(report, run, "--html", place)):
            assert isinstance(result.exception, Problem)
            assert "- to print it" in result.exception.remedy
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert link.is_symlink() and not (tmp_path / "elsewhere").exists()


def test_a_dash_prints_and_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(tmp_path, "pass")
    monkeypatch.chdir(tmp_path)
    assert _typed(card, run, "--out", "-").stdout.startswith("# Eviction Drill")
    assert _typed(report, run, "--html", "-").stdout.startswith("<!doctype html>")
    assert json.loads(_typed(card, run, "--out", "-", "--json").stdout)["card"] is None
    assert _typed(report, run, "--html", "-", "--json").exit_code == 2
    assert not (run / "card.md").exists() and not (run / "report.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("command", [card, report])
def test_a_run_whose_path_is_no_utf8_is_shown_too(tmp_path: Path, command: object) -> None:
    run = _run(tmp_path, "fail-no-fallback").rename(tmp_path / "r\udcff")
    assert _typed(command, run).exit_code == 0
    assert "r\\udcff" in json.loads(_typed(command, run, "--json").stdout)[command.name]  # type: ignore[attr-defined]  # a click command


@pytest.mark.parametrize("command", [card, report])
def test_from_a_folder_that_is_gone_it_works_by_its_whole_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object
) -> None:
    run, gone = _run(tmp_path, "pass"), tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert _typed(command, run).exit_code == 0
    assert isinstance(_typed(command, "run").exception, Problem)


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
    assert f"one follow-up issue per FAIL line; an OPEN one has no owner: in `{str(issues)[:20]}" in first.stdout
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
    run = _run(tmp_path, "refused-met-nobody")
    assert "REFUSED fault proven" in _typed(card, run).stdout
    said = json.loads(_typed(report, run, "--html", tmp_path / "p.html", "--json").stdout)
    assert said["bytes"] == (tmp_path / "p.html").stat().st_size < 200_000


@pytest.mark.parametrize("command", [card, report])
def test_help_has_examples(command: object) -> None:
    out = _typed(command, "--help").stdout
    assert "Examples:" in out and f"drillmaster {command.name} runs/" in out  # type: ignore[attr-defined]  # a click command


@pytest.mark.parametrize(("command", "option"), [(card, "--out"), (report, "--html")])
def test_where_the_run_s_folder_cannot_be_written_another_place_is_named(
    tmp_path: Path, command: object, option: str
) -> None:
    run = _run(tmp_path, "pass")
    (tmp_path / "file").touch()
    result = _typed(command, run, option, tmp_path / "file" / "x")
    assert isinstance(result.exception, Problem)
    assert f"{option} FILE" in result.exception.remedy


@pytest.mark.parametrize("command", [card, report])
def test_a_run_that_is_none_is_told_of_those_there_are_and_of_no_option_of_the_gate(
    tmp_path: Path, command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.move(_run(tmp_path, "pass"), tmp_path / "runs" / "20261129T153000Z-1a2b")
    result = _typed(command, "runs/nope")
    assert isinstance(result.exception, Problem)
    assert "20261129T153000Z-1a2b" in result.exception.remedy and "--unsealed" not in str(result.exception)
    assert _typed(command, "20261129T15").exit_code == 0


@pytest.mark.parametrize("desktop", [{}, {"DISPLAY": ":0", "PATH": "/nowhere"}])
def test_without_a_browser_the_page_s_path_is_all_that_is_said(
    tmp_path: Path, desktop: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in desktop.items():
        monkeypatch.setenv(name, value)
    run = _run(tmp_path, "pass")
    result = _typed(report, run, "--open")
    assert (result.exit_code, result.output) == (0, f"{run / 'report.html'}\n")
