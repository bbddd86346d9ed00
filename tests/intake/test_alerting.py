"""A team's own prometheus.yml, rules files and alertmanager.yml."""

import os
from pathlib import Path

import pytest

from drillmaster.errors import Problem, Refused
from drillmaster.intake.alerting import read_facts
from drillmaster.rules.alert_delay import Facts, estimate

PROMETHEUS = """\
global:
  scrape_interval: 15s
  evaluation_interval: 20s
  external_labels: {cluster: a}
rule_files: ["rules/*.yml"]
scrape_configs:
  - job_name: agent
    scrape_interval: 5s
  - job_name: other
"""
RULES = """\
groups:
  - name: agent
    interval: 10s
    rules:
      - record: job:bad:ratio5m
        expr: rate(bad[5m]) / rate(all[5m])
      - alert: ToolFailures
        expr: job:bad:ratio5m{job="agent"} > 0.1
        for: 30s
        keep_firing_for: 1m
        labels: {severity: sev2}
"""
ALERTMANAGER = """\
route:
  receiver: default
  group_wait: &w 20s
  routes:
    - matchers: ['severity=~"sev[12]"', cluster = a]
      receiver: pager
      group_interval: *w
      mute_time_intervals: [weekends]
      routes:
        - match: {severity: sev1}
          receiver: nobody
receivers:
  - name: default
  - name: pager
    webhook_configs: [{url: "http://127.0.0.1:1/secret"}]
  - name: nobody
inhibit_rules:
  - source_matchers: ['alertname="Down"']
    target_match_re: {severity: sev.}
unknown_key_of_theirs: 5
"""


def files(folder: Path, *, prometheus: str = PROMETHEUS, rules: str = RULES, alertmanager: str = ALERTMANAGER) -> Facts:
    (folder / "rules").mkdir()
    for name, text in (("prometheus.yml", prometheus), ("rules/a.yml", rules), ("alertmanager.yml", alertmanager)):
        (folder / name).write_text(text, encoding="utf-8")
    return read_facts(folder / "prometheus.yml", folder / "alertmanager.yml", "ToolFailures")


def test_each_term_has_the_line_that_it_comes_from(tmp_path: Path) -> None:
    found = estimate(files(tmp_path), share=0.5)
    assert found is not None
    assert [(term.name, term.best_s, term.worst_s, Path(term.place).name) for term in found.terms] == [
        ("scrape", 0, 5, "prometheus.yml:8"),
        ("crossing", 60, 60, "a.yml:8"),
        ("evaluation", 0, 10, "a.yml:3"),
        ("for", 30, 30, "a.yml:9"),
        ("group_wait", 20, 20, "alertmanager.yml:3"),
    ]
    assert found.receiver == "pager"
    said = "\n".join(found.notes)
    assert "weekends" in said and "keeps firing 60 s" in said and 'alertname="Down"' in said


def test_what_is_not_said_is_the_programs_default(tmp_path: Path) -> None:
    found = estimate(
        files(
            tmp_path,
            prometheus='rule_files: ["rules/a.yml"]\n',
            rules=RULES.replace("    interval: 10s\n", "")
            .replace("        for: 30s\n", "")
            .replace("job:bad:ratio5m{job=", "x{job="),
            alertmanager="route: {receiver: only}\n",
        )
    )
    assert found is not None
    assert (found.best_s, found.worst_s) == (30, 150)
    assert {term.place for term in found.terms if term.worst_s} == {"Prometheus' default", "Alertmanager's default"}


BAD: dict[str, tuple[dict[str, str], str]] = {
    "no YAML": ({"prometheus": "global: {\n"}, "prometheus.yml:"),
    "two of a key": ({"prometheus": "global: {}\nglobal: {}\n"}, "prometheus.yml:2"),
    "a list": ({"prometheus": "- a\n"}, "prometheus.yml:1"),
    "empty": ({"alertmanager": ""}, "alertmanager.yml:1"),
    "a duration that is none": ({"prometheus": PROMETHEUS.replace("15s", "15")}, "prometheus.yml:2"),
    "a boolean for a duration": ({"rules": RULES.replace("for: 30s", "for: false")}, "a.yml:9"),
    "a job without a name": ({"prometheus": PROMETHEUS.replace("job_name: other", "name: other")}, "prometheus.yml:9"),
    "a rule that is none": ({"rules": RULES.replace("record: job", "recrod: job")}, "a.yml:5"),
    "groups that are no list": ({"rules": "groups: {a: b}\n"}, "a.yml:1"),
    "no expression": ({"rules": RULES.replace('        expr: job:bad:ratio5m{job="agent"} > 0.1\n', "")}, "a.yml:7"),
    "a matcher that is none": (
        {"alertmanager": ALERTMANAGER.replace("cluster = a", "cluster a")},
        "alertmanager.yml:5",
    ),
    "no route": ({"alertmanager": "receivers: []\n"}, "alertmanager.yml"),
    "continue that is none": (
        {"alertmanager": ALERTMANAGER.replace("receiver: nobody\n", 'continue: "x"\n', 1)},
        "alertmanager.yml:11",
    ),
    "a route in itself": ({"alertmanager": "route: &r\n  receiver: a\n  routes: [*r]\n"}, "alertmanager.yml"),
    "no rules file": ({"prometheus": PROMETHEUS.replace("rules/*", "other/*")}, "prometheus.yml:5"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_programs_would_not_take_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    texts, place = BAD[name]
    with pytest.raises(Problem) as caught:
        files(tmp_path, **texts)
    assert place in caught.value.place


def test_a_rule_that_is_not_there_is_refused_with_the_near_one(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(Refused, match="--rule ToolFailures"):
        read_facts(tmp_path / "prometheus.yml", tmp_path / "alertmanager.yml", "ToolFailure")


def test_two_of_a_name_are_refused_until_one_file_is_named(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / "rules/b.yml").write_text(RULES, encoding="utf-8")
    with pytest.raises(Refused, match="2 of that name"):
        read_facts(tmp_path / "prometheus.yml", tmp_path / "alertmanager.yml", "ToolFailures")
    one = read_facts(
        tmp_path / "prometheus.yml", tmp_path / "alertmanager.yml", "ToolFailures", rules=[tmp_path / "rules/b.yml"]
    )
    assert one.rule.name == "ToolFailures"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="prometheus"):
        read_facts(tmp_path / "prometheus.yml", tmp_path / "alertmanager.yml", "R")


def test_a_pipe_or_what_is_ten_thousand_deep_is_refused_at_once(tmp_path: Path) -> None:
    other = tmp_path / "alertmanager.yml"
    other.write_text(ALERTMANAGER)
    pipe, deep = tmp_path / "pipe.yml", tmp_path / "deep.yml"
    os.mkfifo(pipe)
    deep.write_text("[" * 10_000)
    for path, found in ((pipe, "named pipe"), (deep, "too deep")):
        with pytest.raises(Problem, match=found):
            read_facts(path, other, "ToolFailures")
