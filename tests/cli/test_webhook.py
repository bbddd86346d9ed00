"""`drillmaster webhook` from the command line: what is refused, and with what to do about it."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from drillmaster.cli.webhook import command
from drillmaster.errors import Problem
from drillmaster.rules.webhook_schemes import SCHEMES

SETTINGS = """kind: webhook
version: 1
source: runbook billing
owner: Ada
review_by: 2199-12-31
provider: acme
scheme: stripe
path: /hook
max_body_bytes: 65536
read_within_s: 5
store_within_s: 2
inbox: inbox.db
keys: {env: [WEBHOOK_SECRET]}
"""
WORKER = "worker: {lease_s: 5, max_attempts: 3, retry_after_s: 1, note_within_s: 1}\n"
LAB = "lab: {hostname: lab.example, inbox: lab.db}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEBHOOK_SECRET", raising=False)
    (tmp_path / "webhook.yaml").write_text(SETTINGS + WORKER + LAB)
    return tmp_path


def problem(*words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, Problem), (result.output, result.exception)
    assert result.exception.remedy and result.exception.exit == 2
    return str(result.exception)


def said(*words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_an_inbox_is_made_by_prepare_and_by_nothing_else(folder: Path) -> None:
    assert "webhook prepare" in problem("status", "webhook.yaml")
    assert "webhook prepare" in problem(
        "work", "webhook.yaml", "--rule", "drillmaster.kits.webhook.ledger:rule", "--once"
    )
    assert not (folder / "inbox.db").exists()
    assert said("prepare", "webhook.yaml").count("ready") == 2
    assert said("prepare", "webhook.yaml").count("ready") == 2
    assert "waiting        0" in said("status", "webhook.yaml")


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("nosuch.module:rule", "cannot be imported (ModuleNotFoundError"),
        ("drillmaster.kits.webhook.ledger:nosuch", "AttributeError"),
        ("drillmaster.kits.webhook.ledger", "MODULE:NAME"),
        (":rule", "MODULE:NAME"),
        ("drillmaster.kits.webhook.ledger:ask", "a method decide"),
    ],
)
def test_a_rule_that_is_none_is_told_before_anything_is_claimed(folder: Path, rule: str, wanted: str) -> None:
    said("prepare", "webhook.yaml")
    assert wanted in problem("work", "webhook.yaml", "--rule", rule, "--once")


@pytest.mark.parametrize("option", ["--model", "--apply"])
def test_a_function_that_is_none_is_told(folder: Path, option: str) -> None:
    said("prepare", "webhook.yaml")
    words = (
        "--rule",
        "drillmaster.kits.webhook.ledger:rule",
        option,
        "drillmaster.kits.webhook.ledger:LEDGER",
        "--once",
    )
    assert "a function" in problem("work", "webhook.yaml", *words)


def test_a_worker_without_limits_does_not_start(folder: Path) -> None:
    (folder / "webhook.yaml").write_text(SETTINGS)
    assert "the worker's limits" in problem("work", "webhook.yaml", "--rule", "drillmaster.kits.webhook.ledger:rule")


def test_a_lab_that_knows_no_digest_of_production_s_key_does_not_start(folder: Path) -> None:
    said("prepare", "webhook.yaml")
    assert "keys/sha256" in problem("lab", "webhook.yaml", "--port", "0")


def test_nothing_starts_without_a_key_or_for_everybody(folder: Path) -> None:
    said("prepare", "webhook.yaml")
    assert "WEBHOOK_SECRET" in problem("serve", "webhook.yaml", "--port", "0")
    for verb in ("serve", "lab"):
        assert "say it twice" in problem(verb, "webhook.yaml", "--port", "0", "--host", "0.0.0.0")


def test_an_event_that_is_not_open_is_told(folder: Path) -> None:
    said("prepare", "webhook.yaml")
    for verb in ("again", "looked"):
        assert "no such event" in problem(verb, "webhook.yaml", "evt_1", "--by", "ada")


def test_every_scheme_is_listed_with_its_sources() -> None:
    text = said("schemes")
    rows = json.loads(said("schemes", "--json"))
    assert [row["scheme"] for row in rows] == list(SCHEMES)
    for row in rows:
        assert row["source"] in text and row["tolerance_source"] in text
    assert rows[list(SCHEMES).index("slack")]["signed"] == "v0:<time>:<body>"
    assert rows[list(SCHEMES).index("github")]["known_by"] == "the digest of the body"


def test_init_names_what_comes_next_and_all_blanks_are_told_at_once(folder: Path) -> None:
    assert said("init", "new.yaml").endswith("drillmaster webhook prepare new.yaml\n")
    told = problem("prepare", "new.yaml")
    assert "blanks: /source, /owner, /review_by" in told
    assert "/keys/env" in told
    assert "/worker/note_within_s" in told


def test_a_rehearsal_without_a_server_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'drillmaster[webhook]'" in problem("drill")
