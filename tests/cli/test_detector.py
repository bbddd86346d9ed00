"""`detector`, as it is typed."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from drillmaster import cli
from drillmaster.cli.detector import command as detector
from drillmaster.errors import Problem, Refused
from drillmaster.friday.detectors import Detectors
from drillmaster.strict import as_type, load

PAGE = Path(__file__).parents[2] / "docs/howto/detectors.md"
FILES = {
    "prometheus.yml": "rule_files: [rules.yml]\nscrape_configs:\n  - job_name: agent\n",
    "rules.yml": """\
groups:
  - name: agent
    rules:
      - alert: ToolFailures
        expr: rate(tool_failures_total[5m]) > 0
        labels: {severity: sev2}
      - alert: Slow
        expr: |
          sum(rate(tool_failures_total[5m])) / sum(rate(tool_calls_total[5m])) > 0.1
        for: 1m
""",
    "alertmanager.yml": "route:\n  receiver: pager\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*arguments: str) -> Result:
    found = CliRunner().invoke(detector, list(arguments))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def asked(*arguments: str) -> Result:
    return typed("arithmetic", "--prometheus", "prometheus.yml", "--alertmanager", "alertmanager.yml", *arguments)


def test_the_page_shows_what_is_printed(folder: Path) -> None:
    found = asked("--rule", "ToolFailures", "--limit", "60s")
    assert found.exit_code == 0
    shown = PAGE.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert shown == "\n".join(line for line in found.output.splitlines() if "note:" not in line) + "\n"
    assert "group_interval 300 s" in found.output


def test_the_pages_receivers_are_a_section() -> None:
    texts = re.findall(r"```yaml\n(detectors:.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    section = as_type(load(texts[0].encode(), place="page", fmt="yaml")["detectors"], Detectors, place="page")
    assert len(section.receivers) == 7


def test_a_limit_that_cannot_be_kept_is_exit_1(folder: Path) -> None:
    found = asked("--rule", "Slow", "--limit", "60s", "--share", "0.5")
    assert found.exit_code == 1
    assert "FAIL 60 s is impossible: crossing 60 + for 60 + group_wait 30 = 150 s at best" in found.output


def test_json_says_the_same(folder: Path) -> None:
    found = asked("--rule", "Slow", "--limit", "60s", "--share", "0.05", "--json")
    said = json.loads(found.output)
    assert (found.exit_code, said["verdict"], said["best_s"]) == (1, "impossible", "never")
    assert [term["name"] for term in said["terms"]] == ["scrape", "crossing", "evaluation", "for", "group_wait"]
    assert said["terms"][3]["place"] == "rules.yml:10"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rule", "ToolFailure"], "--rule ToolFailures"),
        (["--rule", "ToolFailures", "--job", "other"], "no job of that name"),
        (["--rule", "ToolFailures", "--receiver", "other"], "no route"),
        (["--rule", "ToolFailures", "--label", "team"], "NAME=VALUE"),
        (["--rule", "ToolFailures", "--rules", "missing.yml"], "missing.yml"),
    ],
)
def test_what_cannot_be_added_up_is_refused_with_its_remedy(words: list[str], said: str, folder: Path) -> None:
    with pytest.raises(Problem, match=re.escape(said)):
        asked(*words)


def test_a_rules_name_is_completed_from_the_files_on_the_line(folder: Path) -> None:
    shell = ShellComplete(cli._root, {}, "drillmaster", "_DRILLMASTER_COMPLETE")

    def offered(*words: str) -> set[str]:
        return {item.value for item in shell.get_completions(["detector", "arithmetic", *words, "--rule"], "")}

    assert offered("--prometheus", "prometheus.yml") == {"ToolFailures", "Slow"}
    assert offered("--prometheus", "missing.yml", "--rules", "rules.yml") == {"ToolFailures", "Slow"}
    assert offered("--prometheus", "missing.yml") == offered() == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "1"], "leaves no budget"),
        (["--target", "0.9"], "more failures than there are calls"),
        (["--target", "0.99", "--window", "5m"], "--window 1h:5m:14.4:sev2"),
        (["--target", "0.99", "--window", "30s:5m:10"], "short window"),
        (["--target", "0.99", "--window", "1x:5m:10"], "whole seconds"),
        (["--target", "0.99", "--window", "5m:30s:0"], "factor"),
        (["--target", "0.99", "--window", "5m:30s:1.2.3"], "watch"),
        (["--target", "0.99", "--rule", "a b"], "--rule"),
        (["--target", "0.99", "--severity", "a: b"], "--severity"),
        (["--target", "0.99", "--every", "500ms"], "--every"),
        (["--target", "0.99", "--out", "no/such/folder"], "no/such/folder"),
    ],
)
def test_a_watch_that_cannot_be_is_refused(words: list[str], said: str, folder: Path) -> None:
    with pytest.raises(Problem, match=re.escape(said)):
        typed("rules", *words)


def test_rules_are_printed_or_written(folder: Path) -> None:
    assert "alert: ToolFailures" in typed("rules", "--target", "0.99").output
    typed("rules", "--target", "0.99", "--test", "burn.yml", "--out", "t.yml")
    assert "rule_files: [burn.yml]" in (folder / "t.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [[], ["run", "--log", "x"], ["run"]])
def test_a_watch_names_one_timeline_that_can_be(words: list[str], folder: Path) -> None:
    with pytest.raises(Problem):
        typed("watch", *words, "--target", "0.99")


def test_a_watch_stays_on_this_machine_and_has_its_secret(folder: Path) -> None:
    base = ["watch", "--log", "timeline.jsonl", "--target", "0.99", "--to"]
    with pytest.raises(Refused, match="--to"):
        typed(*base, "http://example.com/alerts")
    with pytest.raises(Problem, match="NOT_SET"):
        typed(*base, "http://127.0.0.1:1/alerts", "--secret-env", "NOT_SET")


def test_a_watch_ends_when_the_drill_has(folder: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"t": "2026-12-01T09:00:00Z", "event": "tool_attempted", "result": "ok"},
        {"t": "2026-12-01T09:00:01Z", "event": "drill_ended"},
    ]
    (folder / "timeline.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = typed("watch", "--log", "timeline.jsonl", "--target", "0.99")
    assert found.exit_code == 0 and "1 calls, 0 failed" in found.output


def test_a_watch_prints_json_where_asked(folder: Path) -> None:
    now = datetime.now(UTC).isoformat()
    rows = [{"t": now, "event": "tool_attempted", "result": "timeout"}, {"t": now, "event": "drill_ended"}]
    (folder / "timeline.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = typed("watch", "--log", "timeline.jsonl", "--target", "0.99", "--window", "5m:30s:10", "--json")
    said = json.loads(found.stdout)
    assert (said["rule"], said["severity"], said["state"]) == ("ToolFailures", "sev2", "firing")
    assert said["burn_rates"] == pytest.approx([100, 100])


@pytest.mark.parametrize(
    ("text", "said"),
    [("kind: plan\n", "no section detectors"), ("detectors: {receivers: []}\n", "receivers"), ("- a\n", "no section")],
)
def test_a_plan_without_receivers_is_refused(text: str, said: str, folder: Path) -> None:
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(Problem, match=said):
        typed("listen", "plan.yaml")


def test_a_listener_without_its_secret_does_not_begin(folder: Path) -> None:
    (folder / "plan.yaml").write_text(
        "detectors: {receivers: [{form: grafana, name: g, path: /g, secret_env: DRILL_NOT_SET}]}\n", encoding="utf-8"
    )
    found = CliRunner().invoke(detector, ["listen", "plan.yaml"])
    assert isinstance(found.exception, Problem)
    assert "DRILL_NOT_SET" in str(found.exception)
    assert "listening" not in found.output
