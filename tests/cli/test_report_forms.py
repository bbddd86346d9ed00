"""`report` on an interview, as it is typed: the page, other forms beside it, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.card import command as card
from drillmaster.cli.gate import command as gate
from drillmaster.cli.report import command as report
from drillmaster.errors import Problem, Refused
from tests.reports import interviews


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text(interviews.POLICY, encoding="utf-8")
    return interviews.folder(tmp_path / "runs")


def typed(*words: str | Path) -> Result:
    return CliRunner().invoke(report, [os.fspath(word) for word in words])


def judged(run: Path) -> Path:
    done = CliRunner().invoke(gate, ["interview", str(run), "--policy", "policy.yaml", "--now", interviews.NOW])
    assert done.exit_code == 0, done.output
    return run


def test_the_page_lies_in_the_run_and_nothing_else_is_written(here: Path) -> None:
    done = typed(judged(here))
    assert (done.exit_code, done.output.strip()) == (0, str(here / "report.html"))
    assert sorted(p.name for p in here.iterdir() if p.name not in ("events", "manifest.json", "seal.json")) == [
        "gaps.bin", "gaps.cold.bin", "report.html", "samples.bin", "samples.cold.bin", "thresholds", "verdict.json",
    ]  # fmt: skip
    assert sorted(p.name for p in (here / "thresholds").iterdir()) == ["policy.yaml", "policy.yaml.git.json"]


def test_the_kept_thresholds_and_the_forms_leave_the_seal_as_it_is(here: Path) -> None:
    from drillmaster import timeline

    typed(judged(here))
    assert not timeline.verify_run(here).changes


def test_several_forms_are_files_at_once_and_no_page_unasked(here: Path) -> None:
    judged(here)
    words = ("--csv", "o/levels.csv", "--json-file", "o/all.json", "--junit", "o/junit.xml", "--prometheus", "o/a.prom")
    done = typed(here, *words)
    assert done.exit_code == 0, done.output
    assert done.output.split() == ["o/levels.csv", "o/all.json", "o/junit.xml", "o/a.prom"]
    assert sorted(p.name for p in Path("o").iterdir()) == ["a.prom", "all.json", "junit.xml", "levels.csv"]
    assert not (here / "report.html").exists()
    assert Path("o/levels.csv").read_bytes().count(b"\r\n") == 6
    assert json.loads(Path("o/all.json").read_text())["verdict"]["status"] == "pass"


def test_one_form_is_printed_and_the_others_are_named_on_stderr(here: Path) -> None:
    done = typed(judged(here), "--csv", "-", "--junit", "junit.xml")
    assert done.stdout.startswith("run,job,url") and "junit.xml" not in done.stdout
    assert done.stderr.strip() == "junit.xml"


@pytest.mark.parametrize("words", [("--csv", "-", "--junit", "-"), ("--html", "-", "--json"), ("--csv", "-", "--open")])
def test_two_things_are_not_printed_at_once(here: Path, words: tuple[str, ...]) -> None:
    assert typed(judged(here), *words).exit_code == 2


def test_json_says_what_was_written_and_all_figures(here: Path) -> None:
    said: dict[str, Any] = json.loads(typed(judged(here), "--html", "p.html", "--csv", "l.csv", "--json").output)
    assert (said["report"], said["forms"]) == ("p.html", {"html": "p.html", "csv": "l.csv"})
    assert said["bytes"] == len(Path("p.html").read_bytes())
    assert said["interview"]["decision"]["allowed"] == ["interactive", "summary"]
    assert json.loads(typed(here, "--junit", "j.xml", "--json").output)["report"] is None


def test_where_nobody_judged_it_every_form_says_refused(here: Path) -> None:
    done = typed(here, "--html", "p.html", "--junit", "j.xml", "--prometheus", "m.prom")
    assert done.exit_code == 0
    assert (
        f"not judged yet, so it says refused: drillmaster gate interview runs/{interviews.RUN} --policy FILE"
        in done.stderr
    )
    assert '<p class="word">Refused</p>' in Path("p.html").read_text() and "NOT JUDGED" in Path("p.html").read_text()
    assert 'errors="1"' in Path("j.xml").read_text()
    assert 'status="refused"} 1.0' in Path("m.prom").read_text()


def test_where_it_was_measured_comes_from_the_plan_or_from_whoever_asks(here: Path) -> None:
    judged(here)
    assert "CI runner, Frankfurt" in typed(here, "--html", "-").output
    assert "a laptop in Bonn" in typed(here, "--html", "-", "--from", "a laptop in Bonn").output


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda run: _edit(run / "verdict.json", '"n": 60', '"n": 61'), "do not give"),
        (lambda run: _edit(run / "thresholds" / "policy.yaml", "p95_s: 1,", "p95_s: 9,"), "do not give"),
        (lambda run: (run / "thresholds" / "policy.yaml").unlink(), "no thresholds beside the verdict"),
        (lambda run: (run / "thresholds" / "other.json").write_text("{}"), "2 files of thresholds"),
    ],
)
def test_a_verdict_that_is_not_the_gates_own_is_not_shown(here: Path, spoil: Any, found: str) -> None:
    judged(here)
    spoil(here)
    done = typed(here)
    assert isinstance(done.exception, Problem), done.output
    assert found in done.exception.found
    assert done.exception.remedy == f"drillmaster gate interview runs/{interviews.RUN} --policy FILE"


def test_a_run_that_changed_behind_its_seal_is_not_shown(here: Path) -> None:
    judged(here)
    with (here / "samples.bin").open("r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"\xff")
    assert isinstance(typed(here).exception, Refused)


def test_a_later_judgement_replaces_the_thresholds_of_an_earlier_one(here: Path) -> None:
    judged(here)
    Path("gate.json").write_text(
        '{"warm_c1": {"p95_s": 20, "error_rate": 0.0}, "warm_c4": {"p95_s": 20, "error_rate": 0.0},'
        ' "open_r5": {"p95_s": 20, "error_rate": 0.0}, "drain": {"p95_s": 50, "error_rate": 0.0}, "cold_max_s": 50}'
    )
    done = CliRunner().invoke(gate, ["interview", str(here), "--policy", "gate.json", "--now", interviews.NOW])
    assert "UNPINNED" in done.output
    assert sorted(p.name for p in (here / "thresholds").iterdir()) == ["gate.json", "gate.json.git.json"]
    assert typed(here).exit_code == 0


def test_a_verdict_that_is_not_kept_leaves_no_thresholds(here: Path) -> None:
    CliRunner().invoke(gate, ["interview", str(here), "--policy", "policy.yaml", "--no-record"])
    assert not (here / "thresholds").exists() and not (here / "verdict.json").exists()


def test_the_card_of_an_interview_is_its_wiki_page(here: Path) -> None:
    refused = CliRunner().invoke(card, [str(here)])
    assert isinstance(refused.exception, Refused)
    assert refused.exception.remedy == f"drillmaster gate interview runs/{interviews.RUN} --policy FILE"
    done = CliRunner().invoke(card, [str(judged(here))])
    assert done.exit_code == 0, done.output
    page = (here / "card.md").read_text()
    assert page in done.output and page.startswith("# Free-Server Load Interview - one-sentence diff summary")
    said = json.loads(CliRunner().invoke(card, [str(here), "--json", "--out", "x.md"]).output)
    assert (said["card"], said["issues_written"]) == ("x.md", [])
    assert isinstance(CliRunner().invoke(card, [str(here), "--issues", "i"]).exception, Problem)


# The article's template, field by field: what stands behind each.
FIELDS = {
    "# Free-Server Load Interview - ": "one-sentence diff summary",
    "Date: ": "2026-11-30",
    "Harness commit: ": "0f1e2d3c",
    "Interview JSON: ": f"`interview.json` of run `{interviews.RUN}`, evidence `sha256:",
    "Driver: ": "Ada",
    "Reader: ": "Bea",
    "Recorder: ": "Cem",
    "Payload (frozen): ": '`{"messages":[{"role":"user","content":"Summarize this diff in one sentence."}]}`',
    "Thresholds: ": "`policy.yaml` @ `sha256:",
    "Gate output:": "",
    "Decision: ": "PASS",
    "Allowed on this path until the review: ": "interactive aids; summaries of one file",
    "Budget note: ": "10 million tokens a month, read on 2026-11-29 at https://example.com/terms",
    "Review date: ": "2026-12-30",
}


def test_every_field_of_the_wiki_page_is_there_and_filled_in(here: Path) -> None:
    judged(here)
    CliRunner().invoke(card, [str(here)])
    lines = (here / "card.md").read_text().splitlines()
    for field, value in FIELDS.items():
        [line] = [line for line in lines if line.startswith(field)]
        assert line[len(field) :].strip().startswith(value), line
    assert "BREACH: none" in lines


@pytest.mark.parametrize(
    ("budget", "missing"),
    [
        (
            "{allowance: many tokens, read_on: '2026-11-29', url: https://example.com/terms}",
            "the allowance with its number",
        ),
        ("{allowance: 10 million tokens, read_on: yesterday, url: https://example.com/terms}", "the day it was read"),
        ("{allowance: 10 million tokens, read_on: '2026-11-29', url: example.com}", "the address it was read at"),
        ("{}", "the allowance with its number, the day it was read, the address it was read at"),
    ],
)
def test_a_budget_note_that_lacks_something_is_open(here: Path, budget: str, missing: str) -> None:
    text = interviews.POLICY[: interviews.POLICY.index("      budget:")] + f"      budget: {budget}\n"
    Path("policy.yaml").write_text(text)
    judged(here)
    CliRunner().invoke(card, [str(here)])
    assert f"Budget note: OPEN: {missing}" in (here / "card.md").read_text()
    assert f"OPEN: {missing}" in typed(here, "--html", "-").output


def test_histograms_are_a_log_that_others_read_and_a_drill_has_none(here: Path) -> None:
    done = typed(judged(here), "--hdr", "o/latencies.hlog")
    assert done.exit_code == 0, done.output
    text = Path("o/latencies.hlog").read_text()
    assert "#[Histogram log format version 1.3]" in text
    assert "Tag=warm_c1.latency," in text
