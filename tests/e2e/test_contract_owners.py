"""The lock of contracts as its owners move it, with signatures where the base has signers."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.contractlab import EXAMPLES, LOCK, LOOSE, NO_TAX, NOTED, ORDER, PAID, POLICY, SCHEMA, Shop, sha, text
from tests.e2e.repolab import BO, ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def shop(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("DRILLMASTER_STATE", str(state))
    for name in ("PATCH_ORIGIN", "AGENT_LANE", "CHANGED_FILES", "SCHEMA_LOCK"):
        monkeypatch.delenv(name, raising=False)
    return Shop(tmp_path, state, capsys)


# -- the owner's commands

PEND = ("--reviewer", "bo", "--expires", "2026-12-10")


def reviewed(shop: Shop, *words: str) -> None:
    code, said = shop.contract("pend", *words, *PEND)
    assert code == 0, said
    shop.repo.commit(by=BO, message="lock")


def test_a_review_is_written_merged_and_made_final(shop: Shop) -> None:
    shop.base(
        **{
            "contracts/fixtures.yaml": EXAMPLES,
            "tests/fixtures/orders/paid.json": PAID,
            "tests/fixtures/orders/no-tax.json": NO_TAX,
        }
    )
    shop.repo.commit({ORDER: text(NOTED)})
    reviewed(shop, ORDER)
    lock = json.loads((shop.repo.path / LOCK).read_text())
    assert lock["kind"] == "contract-lock"
    assert lock["pending"][ORDER] == {
        "sha256": sha(NOTED),
        "previous": sha(SCHEMA),
        "expires": "2026-12-10",
        "reviewer": "bo",
    }
    code, said = shop.gate()
    assert code == 0, said
    code, said = shop.contract("finalize")
    assert (code, "git switch main" in said) == (2, True), said
    shop.repo.git("checkout", "-q", "main")
    shop.repo.git("merge", "-q", "--ff-only", "change")
    code, said = shop.contract("finalize")
    assert (code, f"final {ORDER}" in said) == (0, True), said
    lock = json.loads((shop.repo.path / LOCK).read_text())
    assert (lock["files"], lock["pending"]) == ({ORDER: sha(NOTED)}, {})
    # the change that makes it final passes as well, when it is looked at
    shop.repo.branch("final")
    shop.repo.commit(message="lock", by=BO)
    code, said = shop.gate()
    assert code == 0, said
    assert shop.contract("finalize")[0] == 2


def test_a_deletion_and_a_rename_are_reviewed(shop: Shop) -> None:
    shop.base()
    shop.repo.commit({ORDER: None, "contracts/orders.json": text(SCHEMA)})
    reviewed(shop, ORDER, "--deleted")
    assert shop.gate()[0] == 4
    reviewed(shop, "contracts/orders.json")
    code, said = shop.gate()
    assert code == 0, said
    shop.repo.git("checkout", "-q", "main")
    shop.repo.git("merge", "-q", "--ff-only", "change")
    assert shop.contract("finalize")[0] == 0
    assert json.loads((shop.repo.path / LOCK).read_text())["files"] == {"contracts/orders.json": sha(SCHEMA)}


def test_an_example_that_does_not_come_out_stops_a_review_and_drops_one(shop: Shop) -> None:
    loose = {**LOOSE, "version": "2.0.0"}
    shop.base(
        **{
            "contracts/fixtures.yaml": EXAMPLES,
            "tests/fixtures/orders/paid.json": PAID,
            "tests/fixtures/orders/no-tax.json": NO_TAX,
        }
    )
    shop.repo.commit({ORDER: text(loose)})
    code, said = shop.contract("pend", ORDER, *PEND)
    assert (code, "must not fit, and was valid" in said) == (1, True)
    shop.lock(pending={ORDER: sha(loose)})
    shop.repo.git("checkout", "-q", "main")
    shop.repo.git("merge", "-q", "--ff-only", "change")
    code, said = shop.contract("finalize")
    assert (code, f"dropped {ORDER}" in said) == (1, True), said
    assert json.loads((shop.repo.path / LOCK).read_text())["pending"] == {}


def test_reviews_beside_each_other_do_not_both_fit(shop: Shop) -> None:
    other = "contracts/other.json"
    shop.base({ORDER: SCHEMA, other: SCHEMA})
    shop.repo.commit({ORDER: text(NOTED)})
    reviewed(shop, ORDER)
    shop.repo.git("checkout", "-q", "main")
    shop.repo.branch("beside")
    shop.repo.commit({other: text(NOTED)})
    reviewed(shop, other)
    assert shop.gate()[0] == 0
    shop.repo.git("checkout", "-q", "main")
    shop.repo.git("merge", "-q", "--ff-only", "change")
    theirs = (shop.repo.path / LOCK).read_text()
    shop.repo.git("checkout", "-q", "beside")
    mine = json.loads((shop.repo.path / LOCK).read_text())
    shop.repo.git(
        "-c", "user.name=Bo", "-c", "user.email=bo@example.com", "merge", "-q", "-X", "ours", "-m", "merge", "main"
    )
    both = {**mine, "pending": {**json.loads(theirs)["pending"], **mine["pending"]}}
    shop.repo.commit({LOCK: text(both)}, by=BO)
    code, said = shop.gate(mapped=False)
    assert (code, "previous is" in said) == (1, True), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pend", "../outside.json", *PEND), "path within the repository"),
        (("pend", "README.md", *PEND), "no class of the policy"),
        (("pend", LOCK, *PEND), "no contract"),
        (("pend", ORDER, *PEND), "a change to review"),
        (("pend", ORDER, "--deleted", *PEND), "git rm"),
        (("pend", "contracts/none.json", *PEND), "commit"),
        (("pend", ORDER, "--reviewer", "bo", "--expires", "2027-12-10"), "--expires 2026-12-14"),
        (("pend", ORDER, "--reviewer", "bo", "--expires", "tomorrow"), "--expires"),
        (("pend", ORDER, "--reviewer", " ", "--expires", "2026-12-10"), "--reviewer"),
        (("pend", ORDER), "Missing option"),
        (("drop", ORDER), "nothing pending"),
        (("drop",), "what to drop"),
        (("lock",), "a lock"),
        (("finalize",), "git switch main"),
    ],
)  # fmt: skip  # one case a row
def test_what_cannot_be_done_says_what_can(shop: Shop, words: tuple[str, ...], said: str) -> None:
    shop.base()
    code, told = shop.contract(*words)
    assert (code, said in told) == (2, True), told


@pytest.mark.parametrize("who", ["bea", "Bo", "bo-l", "robot", "gone", "bo, ada"])
@pytest.mark.parametrize("option", ["--reviewer", "--second"])
def test_a_review_by_nobody_of_the_roster_is_not_written(shop: Shop, who: str, option: str) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    named = ("--reviewer", who) if option == "--reviewer" else ("--reviewer", "bo", "--second", who)
    code, said = shop.contract("pend", ORDER, *named, "--expires", "2026-12-10")
    assert (code, f"{option} ada, or bo" in said) == (2, True), said
    assert json.loads((shop.repo.path / LOCK).read_text())["pending"] == {}


@pytest.mark.parametrize("who", ["bo", "bo@example.com"])
def test_a_reviewer_is_named_as_the_gate_finds_them(shop: Shop, who: str) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    code, said = shop.contract("pend", ORDER, "--reviewer", who, "--expires", "2026-12-10")
    assert code == 0, said
    shop.repo.commit(by=BO, message="lock")
    code, said = shop.gate()
    assert code == 0, said


def test_without_a_roster_anybody_is_named(shop: Shop) -> None:
    shop.base(**{".drillmaster/roster.yaml": "kind: other\n"})
    shop.repo.git("checkout", "-q", "main")
    shop.repo.commit({".drillmaster/roster.yaml": None})
    shop.repo.git("checkout", "-q", "-B", "change")
    shop.repo.commit({ORDER: text(NOTED)})
    assert shop.contract("pend", ORDER, "--reviewer", "bea", "--expires", "2026-12-10")[0] == 0


def test_where_the_base_has_signers_what_is_next_holds_the_signature(shop: Shop, tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    shop.repo = Repo(tmp_path / "signed", keys)
    shop.base(**{".drillmaster/allowed_signers": keys.allowed("ada", "bo")})
    shop.repo.commit({ORDER: text(NOTED)}, signed="ada")
    code, said = shop.contract("pend", ORDER, *PEND)
    assert code == 0, said
    assert f"next: bo signs it: drillmaster policy sign {LOCK} --key KEY" in said
    assert f"then: git add {LOCK} {LOCK}.sig && git commit -S -m 'lock: {ORDER} reviewed by bo'" in said


def test_uncommitted_bytes_are_not_reviewed(shop: Shop) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    (shop.repo.path / ORDER).write_text("{}")
    code, said = shop.contract("pend", ORDER, *PEND)
    assert (code, f"git commit -- {ORDER}" in said) == (2, True)


def test_the_first_lock_passes_in_a_change_of_its_own(shop: Shop) -> None:
    shop.repo.commit(
        {".drillmaster/contract-policy.yaml": POLICY, ".drillmaster/roster.yaml": ROSTER, ORDER: text(SCHEMA)}
    )
    shop.repo.branch("change")
    shop.repo.commit({"README.md": "x"})
    assert shop.gate()[0] == 2
    code, said = shop.contract("lock")
    assert code == 0, said
    shop.repo.commit(by=BO)
    code, said = shop.gate()
    assert code == 0, said
    shop.repo.commit({ORDER: text(NOTED)})
    assert shop.gate(mapped=False)[0] == 1


def test_the_change_that_begins_is_let_in_and_says_so(shop: Shop) -> None:
    shop.repo.commit({ORDER: text(SCHEMA)})
    shop.repo.branch("change")
    shop.repo.commit({".drillmaster/contract-policy.yaml": POLICY, ".drillmaster/roster.yaml": ROSTER})
    assert shop.contract("lock")[0] == 0
    shop.repo.commit()
    code, said = shop.gate(mapped=False)
    assert (code, "BOOTSTRAP" in said) == (0, True), said
    shop.repo.commit({ORDER: text(NOTED)})
    assert shop.gate(mapped=False)[0] == 1


@pytest.mark.parametrize(
    "said", ["echo 'error: GET /a was removed'; exit 1", "exit 0", "exit 101", "head -c 300000 /dev/zero"]
)
def test_what_oasdiff_says_changes_no_verdict(shop: Shop, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    tools = shop.folder / "bin"
    tools.mkdir()
    (tools / "oasdiff").write_text(f"#!/bin/sh\n{said}\n")
    (tools / "oasdiff").chmod(0o755)
    api = "openapi: 3.1.0\ninfo: {title: a, version: 1.0.0}\npaths: {/a: {get: {responses: {}}}}\n"
    shop.base({"openapi.yaml": api})
    less, more = api.replace("get", "put"), api + "tags: []\n"
    shop.repo.commit({"openapi.yaml": less})
    shop.lock(pending={"openapi.yaml": sha(less)})
    plain = shop.gate()[0]
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    code, told = shop.gate("--format", "json")
    assert (plain, code) == (1, 1)
    assert ("GET /a was removed" in told) == ("removed" in said)
    shop.repo.commit({"openapi.yaml": more})
    shop.lock(pending={"openapi.yaml": sha(more)})
    assert shop.gate()[0] == 0


# -- signatures


def test_where_the_base_has_signers_the_lock_is_signed_by_somebody_else(
    shop: Shop, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from drillmaster.signing import POLICY as NAMESPACE
    from drillmaster.signing import sign

    keys = Keys(tmp_path_factory.mktemp("keys"))
    shop.repo = Repo(tmp_path / "signed", keys)
    shop.repo.write({".drillmaster/contract-policy.yaml": POLICY})
    sign(shop.repo.path / ".drillmaster/contract-policy.yaml", keys.private("bo"), namespace=NAMESPACE)
    shop.base(**{".drillmaster/allowed_signers": keys.allowed("ada", "bo")})
    shop.repo.commit({ORDER: text(NOTED)}, signed="ada")
    assert shop.contract("pend", ORDER, *PEND)[0] == 0
    shop.repo.commit(by=BO, signed="bo", message="lock")
    code, said = shop.gate(mapped=False)
    assert (code, "the lock is not signed" in said) == (1, True), said
    sign(shop.repo.path / LOCK, keys.private("ada"), namespace=NAMESPACE)
    shop.repo.commit(by=BO, signed="bo", message="signature of who wrote it")
    assert shop.gate(mapped=False)[0] == 1
    (shop.repo.path / f"{LOCK}.sig").unlink()
    sign(shop.repo.path / LOCK, keys.private("bo"), namespace=NAMESPACE)
    shop.repo.commit(by=BO, signed="bo", message="signature")
    code, said = shop.gate(mapped=False)
    assert code == 0, said
