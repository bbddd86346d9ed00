"""The quota gate through the command itself: tags, documents, keys, and files of the article's form."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ADA, BO, BOT, ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW = "2026-11-30T12:00:00Z"
DOCUMENT = b"Contract of 2026, third quarter: 30 requests in 60 seconds, 5 at once.\n"
PEOPLE = ROSTER.replace(
    "  - {identity: robot", "  - {identity: cy, emails: [cy@example.com], logins: [cy-l]}\n  - {identity: robot"
)
CY = "Cy <cy@example.com>"
OWNERS = "/config/ @acme/platform-api @acme/security\n/CODEOWNERS @acme/security\n"
HOLDS, FAILS, REFUSES = 0, 1, 2


def policy(**more: Any) -> str:
    limits = {
        "gate": "quota",
        "documents": [
            {"source": "contract-2026-q3", "file": "contracts/maps.txt", "sha256": hashlib.sha256(DOCUMENT).hexdigest()}
        ],
        "owners": ["platform-api"],
        "reviewers": ["ada", "bo", "cy"],
        "min_reviewers": 2,
        "raise_reviewers": 2,
        "code_owners": ["@acme/platform-api", "@acme/security"],
        "ceilings": [
            {"partner": "maps-api", "identity": "prod", "window_ms": 60_000, "max_per_window": 30, "burst": 5}
        ],
        "turns": {
            "maps": [{"name": "loop", "kind": "again", "times": 3}, {"name": "tools", "kind": "beside", "times": 2}]
        },
        "tokens_per_call": {},
        **more,
    }
    head = {"kind": "policy", "version": 1, "source": "runbook", "owner": "ada", "review_by": "2027-06-30"}
    return json.dumps({**head, "gates": [limits]})


def guards(cap: int = 20, burst: int = 4, **more: Any) -> str:
    entry = {"guard": "quota", "name": "maps", "partner": "maps-api", "identity": "prod", "window_ms": 60_000}
    head = {"kind": "guards", "version": 1, "source": "contract-2026-q3", "owner": "platform-api"}
    head |= {"reviewers": ["ada", "bo"], "review_by": "2027-02-28", **more}
    return json.dumps({**head, "guards": [{**entry, "max_per_window": cap, "burst": burst}]})


class Scene:
    def __init__(self, tmp_path: Path, *, signers: tuple[str, ...] = ("ada", "bo", "cy")) -> None:
        self.keys = Keys(tmp_path / "keys")
        (tmp_path / "keys").mkdir()
        self.repo = Repo(tmp_path / "repo", self.keys)
        self.state = tmp_path / "state"
        files: dict[str, str | bytes | None] = {
            "contracts/maps.txt": DOCUMENT,
            ".drillmaster/quota-policy.yaml": policy(),
            ".drillmaster/roster.yaml": PEOPLE,
            "config/guards.yaml": guards(),
            "CODEOWNERS": OWNERS,
        }
        if signers:
            files[".drillmaster/allowed_signers"] = self.keys.allowed(*signers)
            self.sign(".drillmaster/quota-policy.yaml", policy(), "ada")
            self.sign("config/guards.yaml", guards(), "bo")
            self.sign("contracts/maps.txt", DOCUMENT, "bo")
        self.base = self.repo.commit(files, by=ADA, signed="ada" if signers else None)
        self.repo.git("tag", "v1")
        self.repo.git("checkout", "-q", "-b", "change")

    def sign(self, path: str, data: str | bytes, *people: str) -> None:
        """Write a file, and lay the signatures of these people beside it, and of no others."""
        self.repo.write({path: data})
        for old in (self.repo.path / path).parent.glob(f"{Path(path).name}*.sig"):
            old.unlink()
        for n, who in enumerate(people):
            sign(self.repo.path / path, self.keys.private(who), namespace=POLICY, second=n > 0)

    def change(self, text: str, *people: str, by: str = CY) -> str:
        self.sign("config/guards.yaml", text, *people)
        return self.repo.commit({}, by=by, signed=None if "[bot]" in by else by.partition(" ")[0].lower())

    def gate(self, *args: str, file: str = "config/guards.yaml") -> tuple[int, dict[str, str], str]:
        command = [sys.executable, "-m", "drillmaster", "gate", "quota", file, "--now", NOW, "--format", "json", *args]
        env = {**os.environ, "DRILLMASTER_STATE": str(self.state), "HOME": str(self.state.parent)}
        done = subprocess.run(command, cwd=self.repo.path, capture_output=True, text=True, env=env, timeout=60)
        if not done.stdout.strip():
            return done.returncode, {}, done.stderr
        checks = json.loads(done.stdout).get("checks", [])
        return done.returncode, {one["id"]: one["status"] for one in checks}, done.stdout + done.stderr

    def of_change(self, *args: str) -> tuple[int, dict[str, str], str]:
        return self.gate("--base", "main", "--head", "change", *args)


def red(checks: dict[str, str]) -> set[str]:
    return {id_ for id_, status in checks.items() if status != "pass"}


def test_a_lower_cap_that_a_reviewer_signed_passes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.change(guards(cap=10), "bo")
    code, checks, said = scene.of_change()
    assert (code, red(checks)) == (HOLDS, set()), said


def test_a_raise_needs_two_reviewers_whom_the_version_before_names(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.change(guards(cap=30, burst=5), "bo")
    code, checks, said = scene.of_change()
    assert (code, red(checks)) == (FAILS, {"raised"}), said
    assert "cap: 20 is now 30" in said and "burst: 4 is now 5" in said
    scene.change(guards(cap=30, burst=5), "bo", "ada")
    code, checks, said = scene.of_change("--since", "v1")
    assert (code, red(checks)) == (HOLDS, set()), said


def test_who_names_a_reviewer_in_the_change_has_not_asked_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.change(guards(cap=30, reviewers=["bo", "cy"]), "bo", "cy", by=ADA)
    code, checks, said = scene.of_change()
    assert (code, red(checks)) == (FAILS, {"raised"}), said


def test_a_raise_that_a_model_commits_is_refused_unsigned_and_fails(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.change(guards(cap=5_000, burst=2_000, source="prompt-session-88"), by=BOT)
    code, checks, said = scene.of_change()
    assert code == REFUSES and {"signed", "raised", "source-resolves", "source-human", "contract.maps"} <= red(
        checks
    ), said


def test_the_maker_of_a_change_agrees_with_nobody_by_his_own_name(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.change(guards(cap=30), "ada", "bo", by=BO)
    code, checks, said = scene.of_change()
    assert (code, red(checks)) == (FAILS, {"raised"}), said


def test_a_document_that_was_changed_or_linked_is_not_the_one_that_was_pinned(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    wider = DOCUMENT.replace(b"30 requests", b"3000 requests")
    scene.sign("contracts/maps.txt", wider, "bo")
    scene.repo.commit({}, by=CY, signed="cy")
    code, checks, said = scene.of_change()
    assert code == FAILS and "source-resolves" in red(checks), said
    (scene.repo.path / "contracts/maps.txt").unlink()
    (scene.repo.path / "contracts/maps.txt").symlink_to("../CODEOWNERS")
    scene.repo.commit({}, by=CY, signed="cy")
    code, checks, said = scene.of_change()
    assert code == FAILS and "source-resolves" in red(checks), said


def test_codeowners_of_the_base_counts_and_not_the_changes_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, signers=())
    scene.repo.git("checkout", "-q", "main")
    scene.repo.commit({"CODEOWNERS": "/docs/ @acme/platform-api @acme/security\n"})
    scene.repo.git("checkout", "-q", "change")
    scene.repo.git("merge", "-q", "main")
    scene.repo.commit({"CODEOWNERS": OWNERS}, by=CY)
    _, checks, said = scene.of_change()
    assert "code-owners" in red(checks), said


def test_without_a_base_the_disk_is_judged_and_stamped(tmp_path: Path) -> None:
    scene = Scene(tmp_path, signers=())
    code, checks, said = scene.gate("--policy", ".drillmaster/quota-policy.yaml")
    assert (code, red(checks)) == (REFUSES, {"raised"}) and "NOT COMPARED" in said, said
    code, checks, said = scene.gate("--policy", ".drillmaster/quota-policy.yaml", "--since", "v1")
    assert (code, red(checks)) == (HOLDS, set()) and "UNSIGNED" in said, said
    (scene.repo.path / "config/guards.yaml").write_text(guards(cap=30))
    code, checks, said = scene.gate("--policy", ".drillmaster/quota-policy.yaml", "--since", "v1")
    assert (code, red(checks)) == (REFUSES, {"raised"}), said  # nobody's signature can show who agreed


ARTICLE = {
    "partner": "maps-api", "identity": "prod", "windowSeconds": 60, "maxRequestsPerWindow": 20, "burst": 4, "failMode": "closed",
    "owner": "platform-api", "reviewers": ["ada", "bo"], "source": "contract-2026-q3",
}  # fmt: skip  # words


@pytest.mark.parametrize(
    "wrong",
    [
        {"failMode": "open"}, {"burst": 0}, {"burst": 21}, {"maxRequestsPerWindow": "20"}, {"windowSeconds": 0},
        {"windowSeconds": -1}, {"identity": ""},
        {"reviewers": []}, {"reviewers": None}, {"maxRequestPerWindow": 5}, {"maxRequestsPerWindow": True},
    ],
)  # fmt: skip  # one case a piece
def test_the_articles_file_is_read_as_strictly_as_ours(tmp_path: Path, wrong: dict[str, Any]) -> None:
    scene = Scene(tmp_path, signers=())
    turns = {"maps-api": [{"name": "tools", "kind": "beside", "times": 2}]}
    (scene.repo.path / "policy.json").write_text(policy(turns=turns))
    quotas = scene.repo.path / "config/outbound-quotas.json"
    quotas.write_text(json.dumps(ARTICLE))
    scene.repo.commit({})
    code, checks, said = scene.gate("--policy", "policy.json", "--since", "HEAD", file="config/outbound-quotas.json")
    assert (code, red(checks)) == (HOLDS, set()), said
    quotas.write_text(json.dumps({**ARTICLE, **wrong}))
    code, checks, said = scene.gate("--policy", "policy.json", "--since", "HEAD", file="config/outbound-quotas.json")
    assert code == REFUSES and not checks and "config/outbound-quotas.json" in said, said


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kind":"guards"}', '{"burst": NaN}', '{"kind":"guards","kind":"guards"}', "\ufeff{}"]
)
def test_what_is_no_guards_file_is_refused(tmp_path: Path, text: str) -> None:
    scene = Scene(tmp_path, signers=())
    (scene.repo.path / "config/guards.json").write_text(text)
    code, checks, said = scene.gate("--policy", ".drillmaster/quota-policy.yaml", file="config/guards.json")
    assert code == REFUSES and not checks and "guards.json" in said, said
