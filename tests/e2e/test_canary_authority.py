"""A canary under the base's authority: exceptions that two people signed, and pins that lie beside the base's policy."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.canary import BUILD, LIMITS
from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NAME = ".drillmaster/canary-policy.json"
NOW = "2026-11-30T16:00:00Z"
EVIDENCE = {
    "kind": "canary-metrics",
    "version": 1,
    "subject": {"service": "checkout", "artifact": BUILD},
    "produced_by": {"collector": "prometheus", "host": "http://127.0.0.1:9090", "by": "drillmaster 0.1.0"},
    "produced_at": "2026-11-30T15:59:00Z",
    "window": {"start": "2026-11-30T15:43:00Z", "end": "2026-11-30T15:58:00Z"},
    "data": {
        "canary": {"requests": 8200, "errors": 6, "p95_ms": 190, "healthy_hosts": 3},
        "coverage_ratio": 1.0,
    },
}


def policy(*by: str) -> dict[str, Any]:
    limits = msgspec.to_builtins(LIMITS) | {"baseline": "none"}
    limits["exceptions"] = [
        {
            "check": "p95",
            "artifact": BUILD,
            "by": list(by),
            "granted_at": "2026-11-30T15:00:00Z",
            "until": "2026-11-30T20:00:00Z",
            "reason": "the slow path is off",
        }
    ]
    return {
        "kind": "policy",
        "version": 1,
        "source": "canary-runbook",
        "owner": "Ada of payments",
        "review_by": "2027-02-28",
        "gates": [limits],
    }


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def base(folder: Path, keys: Keys, told: dict[str, Any], *signers: str) -> Repo:
    """A repository whose policy these people signed, the first at FILE.sig and the second at FILE.second.sig."""
    repo = Repo(folder / "repo", keys)
    repo.write(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo", "robot"),
            ".drillmaster/roster.yaml": ROSTER,
            NAME: json.dumps(told),
        }
    )
    path = repo.path / NAME
    for at, who in enumerate(signers):
        made = sign(path, keys.private(who), namespace=POLICY)
        made.rename(path.with_name(f"{path.name}.{'ab'[at]}.sig"))
    for at, name in enumerate((".sig", ".second.sig")[: len(signers)]):
        path.with_name(f"{path.name}.{'ab'[at]}.sig").rename(path.with_name(path.name + name))
    repo.commit()
    repo.branch("change")
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    return repo


def gate(repo: Repo, evidence: dict[str, Any], *more: str) -> tuple[int, str, str]:
    path = repo.path.parent / "metrics.json"
    path.write_text(json.dumps(evidence))
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "canary", str(path), "--now", NOW, *more],
        cwd=repo.path,
        env={**os.environ, "DRILLMASTER_STATE": str(repo.path.parent / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


OURS = ("--policy", NAME, "--artifact", BUILD)


def test_two_people_who_signed_the_policy_let_a_limit_go_and_are_counted(tmp_path: Path, keys: Keys) -> None:
    repo = base(tmp_path, keys, policy("ada", "bo"), "ada", "bo")
    code, out, err = gate(repo, EVIDENCE, *OURS, "--base", "main")
    assert code == 0, out + err
    assert "EXCEPTED by ada and bo until 2026-11-30T20:00:00Z (the slow path is off)" in out
    assert "EXCEPTION p95" in out.splitlines()[0]
    assert "exceptions 1" in out
    assert "exceptions: p95" in out


def test_without_a_base_nobody_can_tell_who_signed(tmp_path: Path, keys: Keys) -> None:
    repo = base(tmp_path, keys, policy("ada", "bo"), "ada", "bo")
    code, out, _ = gate(repo, EVIDENCE, *OURS)
    assert (code, "not signed by ada and bo" in out) == (1, True), out


@pytest.mark.parametrize(
    ("by", "signers", "code", "said"),
    [
        (("ada", "bo"), ("ada",), 1, "not signed by bo"),
        (("ada", "cem"), ("ada", "bo"), 1, "not signed by cem"),
        (("ada", "robot"), ("ada", "robot"), 2, "a bot"),
        (("ada", "bo"), (), 2, "policy-signed"),
    ],
)
def test_a_name_without_a_signature_lets_nothing_go(
    tmp_path: Path, keys: Keys, by: tuple[str, ...], signers: tuple[str, ...], code: int, said: str
) -> None:
    repo = base(tmp_path, keys, policy(*by), *signers)
    found, out, _ = gate(repo, EVIDENCE, *OURS, "--base", "main")
    assert (found, said in out) == (code, True), out


def test_an_exception_that_the_change_writes_is_not_taken(tmp_path: Path, keys: Keys) -> None:
    plain = policy("ada", "bo")
    del plain["gates"][0]["exceptions"]
    repo = base(tmp_path, keys, plain, "ada", "bo")
    repo.commit({NAME: json.dumps(policy("ada", "bo"))}, signed="ada")
    code, out, _ = gate(repo, EVIDENCE, *OURS, "--base", "main")
    assert code == 1
    assert "EXCEPTED" not in out
    assert "FAIL the change leaves alone what judges it" in out


def test_a_pin_of_the_articles_policy_is_read_from_the_base_too(tmp_path: Path, keys: Keys) -> None:
    limits = {
        "min_requests": 5000,
        "max_error_rate": 0.002,
        "max_p95_ms": 200,
        "max_slo_burn": 1.0,
        "min_healthy_hosts": 2,
        "required_window_seconds": 600,
    }
    metrics = {
        "requests": 8200,
        "errors": 6,
        "p95_ms": 142,
        "slo_burn": 0.4,
        "healthy_hosts": 3,
        "window_seconds": 900,
        "source": "prometheus",
        "collected_at": "2026-11-30T15:30:00Z",
    }
    repo = base(tmp_path, keys, limits, "bo")
    words = ("--policy", NAME, "--base", "main")
    code, out, _ = gate(repo, metrics, *words)
    assert (code, "UNPINNED" in out) == (0, True)
    digest = hashlib.sha256(json.dumps(limits).encode()).hexdigest()
    pin = f"source: canary-runbook\nowner: Ada of payments\nreview_by: 2027-02-28\nsha256: {digest}\n"
    (repo.path / f"{NAME}.pin.yaml").write_text(pin)  # in the working tree alone: nobody's
    assert "UNPINNED" in gate(repo, metrics, *words)[1]
    (repo.path / f"{NAME}.pin.yaml").unlink()
    repo.git("checkout", "-q", "main")
    repo.commit({f"{NAME}.pin.yaml": pin})
    repo.git("checkout", "-q", "change")
    code, out, _ = gate(repo, metrics, *words)
    assert (code, "UNPINNED" in out, "policy of Ada of payments" in out) == (0, False, True), out
