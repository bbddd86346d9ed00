"""A gate that cannot judge says so in every form that was asked for, also where yesterday's answer lies in its place."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from drillmaster import cli
from tests.canaries import PASSING, POLICY

FORMS = ("text", "json", "junit", "sarif", "github", "markdown")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    (tmp_path / "metrics.json").write_text("{")
    return tmp_path


def ran(files: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", "canary", str(files / "metrics.json"), "--policy", str(files / "policy.json"), *words])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_each_file_is_written_and_says_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in FORMS:
        (files / f"out.{form}").write_text("yesterday: pass")
    outputs = [word for form in FORMS for word in ("--output", f"{form}={files}/out.{form}")]
    code, out, err = ran(files, capsys, *outputs)
    assert (code, out) == (2, "")
    assert "metrics.json" in err
    said = {form: (files / f"out.{form}").read_text() for form in FORMS}
    assert all("yesterday" not in text and "metrics.json" in text for text in said.values())
    verdict = json.loads(said["json"])
    verdict = verdict.get("verdict", verdict)
    assert (verdict["status"], [one["id"] for one in verdict["checks"]]) == ("refused", ["usable"])
    suite = ET.fromstring(said["junit"])
    assert suite.find(".//testcase/error") is not None or suite.find(".//testcase/failure") is not None
    (result,) = json.loads(said["sarif"])["runs"][0]["results"]
    assert result["level"] == "error"
    assert said["text"].splitlines()[-1].startswith("REFUSED canary")


@pytest.mark.parametrize("form", ["junit", "sarif", "github", "markdown"])
def test_the_form_is_on_stdout_and_the_line_on_stderr(
    files: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    code, out, err = ran(files, capsys, "--format", form)
    assert code == 2
    assert "metrics.json" in out and "metrics.json" in err


def test_github_gets_an_annotation_and_a_card(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(files / "summary.md"))
    code, out, _ = ran(files, capsys, "--format", "github")
    assert code == 2
    assert any(line.startswith("::error ") for line in out.splitlines())
    assert "usable" in (files / "summary.md").read_text()


def test_json_stays_one_document(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(files, capsys, "--format", "json")
    assert (code, json.loads(out)["error"]["found"] != "") == (2, True)


def test_the_articles_numbers_stay_whatever_the_form(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = {ran(files, capsys, "--exit-map", "articles", "--format", form)[0] for form in FORMS}
    assert len(codes) == 1 and 0 not in codes


def test_a_form_over_what_is_read_is_not_written(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (files / "policy.json").read_bytes()
    (files / "metrics.json").write_text(json.dumps(PASSING))
    code, _, _ = ran(files, capsys, "--output", f"json={files}/policy.json")
    assert code == 2
    assert (files / "policy.json").read_bytes() == before


def test_a_file_that_cannot_be_written_hides_no_other(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "x.xml").mkdir()
    code, _, err = ran(files, capsys, "--output", f"junit={files}/x.xml", "--output", f"sarif={files}/out.sarif")
    assert code == 2
    assert "x.xml" in err
    assert (files / "out.sarif").exists()


def test_a_time_that_is_none_is_told_in_each_form_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in FORMS:
        (files / f"out.{form}").write_text("yesterday: pass")
    outputs = [word for form in FORMS for word in ("--output", f"{form}={files}/out.{form}")]
    code, _, err = ran(files, capsys, "--now", "yesterday", *outputs)
    assert code == 2 and "--now" in err
    said = {form: (files / f"out.{form}").read_text() for form in FORMS}
    assert all("yesterday: pass" not in text and "--now" in text for text in said.values())


def test_a_quiet_pass_is_one_line_and_a_quiet_failure_says_what_did_not_pass(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "metrics.json").write_text(json.dumps(PASSING))
    code, out, _ = ran(files, capsys, "--quiet", "--now", "2026-11-29T12:00:00Z")
    whole_code, whole, _ = ran(files, capsys, "--now", "2026-11-29T12:00:00Z")
    assert code == whole_code
    assert out.splitlines()[-1] == whole.splitlines()[-1]
    assert not any(line.startswith("PASS ") for line in out.splitlines()[:-1])
    missed = [line for line in whole.splitlines() if line.startswith(("FAIL ", "REFUSED ", "mend ", "see "))]
    assert all(line in out.splitlines() for line in missed)
    assert code != 0 or out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            ("canary", "canary-metrics.json", "--policy", "policy.json"),
            "drillmaster evidence new canary --prometheus URL",
        ),
        (("cutover", "plan.json"), "docs/howto/plan-a-cutover.md"),
    ],
)
def test_evidence_that_is_not_there_yet_is_told_how_it_comes_to_be(
    words: tuple[str, ...],
    remedy: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", *words])
    assert ended.value.code == 2
    assert remedy in capsys.readouterr().err
