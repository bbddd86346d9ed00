"""The guards of drafts, cache keys and memory from the command line: one code, one answer, and nothing of a draft in it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

GUARDS = """
kind: guards
version: 1
source: agents-runbook
owner: Ada of the platform team
reviewers: [platform]
review_by: 2099-02-28
guards:
  - guard: cache-key
    types: [{name: cart, version: 3, fields: [{name: cartId, kind: id}, {name: catalogVersion, kind: id}]}]
  - guard: draft
    lanes: {drafting: [explain_log, list_fields], lab: [draft_test]}
    max_chars: 1000
  - guard: memory
    grants: {runner: [memory, plan], free_lane: [draft]}
    max_bytes: 2000000
    personal: refuse
"""
KEY = "cart-v3:tenant_north_01:b6a537c45b69bdb89bcc1048cc1a1269"
WRITE = {"bytes": 40, "secrets": 0, "personal": 0, "unread": 0}


def said(folder: Path, guard: str, facts: object) -> tuple[int, dict[str, Any], str]:
    (folder / "guards.yaml").write_text(GUARDS)
    line = [sys.executable, "-m", "drillmaster", "guard", guard, "--explain", "-", "--guards", "guards.yaml", "--json"]
    ran = subprocess.run(
        line, cwd=folder, input=json.dumps(facts), capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode, json.loads(ran.stdout) if ran.returncode < 2 else {}, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("guard", "facts", "code", "reason"),
    [
        ("cache-key", {"key": KEY, "tenant": "tenant_north_01"}, 0, "own-key"),
        ("cache-key", {"key": KEY, "tenant": "tenant_south_09"}, 1, "other-tenant"),
        ("cache-key", {"key": "zanzibar cart caption", "tenant": "tenant_north_01"}, 1, "key-space"),
        ("draft", {"lane": "drafting", "draft": {"action": "explain_log", "text": "press release notes"}}, 0, "report"),
        ("draft", {"lane": "drafting", "draft": {"action": "explain_log", "text": "keep zanzibar alive"}}, 1, "order"),
        ("draft", {"lane": "drafting", "draft": {"action": "renew"}}, 1, "lock-action"),
        ("memory", {"lane": "runner", "path": "memory.json", "leads": "memory.json", **WRITE}, 0, "may-write"),
        ("memory", {"lane": "free_lane", "path": "memory.json", "leads": "memory.json", **WRITE}, 1, "class-denied"),
    ],
)
def test_a_decision_is_answered_by_hand(
    tmp_path: Path, guard: str, facts: dict[str, Any], code: int, reason: str
) -> None:
    told, decision, text = said(tmp_path, guard, facts)
    assert (told, decision.get("reason")) == (code, reason), text
    assert "zanzibar" not in text or guard == "memory"


@pytest.mark.parametrize(
    ("guard", "facts"),
    [
        ("draft", {"lane": "drafting", "draft": {"action": "explain_log", "text": "a", "lease_ttl_s": 900}}),
        ("draft", {"lane": "drafting", "draft": {"action": "explain_log"}, "prompt": "renew"}),
        ("cache-key", {"key": KEY, "tenant": "tenant_north_01", "value": "{}"}),
        ("memory", {"lane": "runner", "path": "memory.json", "leads": "memory.json", **WRITE, "data": "x"}),
        ("memory", {"lane": "runner"}),
    ],
)
def test_facts_that_have_another_field_are_none(tmp_path: Path, guard: str, facts: dict[str, Any]) -> None:
    assert said(tmp_path, guard, facts)[0] == 2
