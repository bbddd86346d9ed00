"""`drillmaster evidence`: what it is asked in a wrong way, and the rules that it prints."""

from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner

from drillmaster import strict
from drillmaster.cli.evidence import command
from drillmaster.errors import Problem
from drillmaster.intake.prometheus import RULES

BUILD = "sha256:" + "a1" * 32
URL = ("--prometheus", "http://127.0.0.1:1")
PLAN = """\
kind: collector
version: 1
service: checkout
target:
  url: https://prometheus.example.com
  permit: {host: prometheus.example.com, owner: Cem, until: 2199-12-31, max_per_s: 10, max_requests: 10}
"""


def new(*words: str, artifact: str = BUILD, out: str = "x.json") -> str:
    result = CliRunner().invoke(command, ["new", "canary", "--artifact", artifact, "--out", out, *words])
    assert isinstance(result.exception, Problem), result.output
    assert result.exception.exit == 2
    return str(result.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no --prometheus"),
        (URL, "no --service"),
        (("--prometheus", "http://192.0.2.1", "--service", "x"), "which is not loopback"),
        (("--prometheus", "http://a:b@127.0.0.1", "--service", "x"), "without user info"),
        (("--plan", "gone.yaml"), "gone.yaml"),
        ((*URL, "--plan", "gone.yaml"), "one or the other"),
        ((*URL, "--service", ""), "no --service"),
        ((*URL, "--service", " "), "no --service"),
        ((*URL, "--service", "a\nb"), "a service's name"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "metrics.json"
    assert said in new(*words, out=str(out))
    assert not out.exists()


def test_a_build_is_a_digest() -> None:
    for artifact in ("latest", "checkout:1.2", BUILD[:-1], BUILD.upper(), BUILD + " ", ""):
        assert "--artifact" in new(*URL, "--service", "x", artifact=artifact)


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        ("", (), "--permit-host"),
        ("", ("--permit-host", "other.example.com"), "given twice"),
        ("2199-12-31/2020-12-31", ("--permit-host", "prometheus.example.com"), "permission that holds until its end"),
        ("max_per_s: 10/max_per_s: 1", ("--permit-host", "prometheus.example.com"), "max_per_s"),
        ("owner: Cem/owner: ''", ("--permit-host", "prometheus.example.com"), "who allowed it"),
        ("collector/plan", ("--permit-host", "prometheus.example.com"), "/kind"),
        ("version: 1/version: 2", ("--permit-host", "prometheus.example.com"), "/version"),
        ("https/http", ("--permit-host", "prometheus.example.com"), "open wire"),
    ],
)
def test_another_host_takes_leave_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("PROMETHEUS_TOKEN", "t" + "0" * 9)
    before, _, after = change.partition("/")
    plan = tmp_path / "collector.yaml"
    plan.write_text(PLAN.replace(before, after, 1) if change else PLAN)
    assert said in new("--plan", str(plan), *words)


def test_the_rules_that_are_printed_are_those_that_are_asked_for() -> None:
    result = CliRunner().invoke(command, ["rules"])
    said = strict.load(result.output.encode(), place="rules", fmt="yaml")
    records = {rule["record"] for group in said["groups"] for rule in group["rules"]}
    assert records == set(RULES.values())
    tests = CliRunner().invoke(command, ["rules", "--tests"]).output
    assert tests == resources.files("drillmaster").joinpath("kits", "canary", "rules.test.yaml").read_text("utf-8")
    assert "rule_files: [canary-rules.yaml]" in tests
