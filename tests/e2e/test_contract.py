"""The lock of contracts in real repositories: the article's test plan, every way around it, and the owner's commands."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drillmaster.cli import main
from tests.e2e.repolab import BO, BOT, ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW = "2026-11-30T12:00:00Z"
ORDER = "contracts/order.schema.json"
LOCK = "schema.lock.json"
POLICY = """kind: policy
version: 1
source: docs/contracts.md
owner: schema-lock-owners
review_by: "2027-03-01"
gates:
  - gate: contract
    lock: schema.lock.json
    classes:
      tools: [tools/schema/]
      migrations: [migrations/]
      iam: [iam/]
      interfaces: ["*.proto", "*.avsc", "*.graphql"]
      gate: [contract_gate.js]
      schema: [contracts/, openapi.yaml, openapi.yml]
    fixtures: contracts/fixtures.yaml
    fixtures_are: when-named
    pending_days: 14
    enum_window_days: 30
    sensitive: [amount, auth, delete]
    owners: unasked
"""
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "version": "1.0.0",
    "type": "object",
    "required": ["order_id", "tax_id"],
    "properties": {"order_id": {"type": "string"}, "tax_id": {"type": "string"}, "total_cents": {"type": "integer"}},
}
NOTED = {**SCHEMA, "properties": {**SCHEMA["properties"], "note": {"type": "string"}}}
LOOSE = {**SCHEMA, "required": ["order_id"]}
EXAMPLES = """kind: contract-fixtures
version: 1
fixtures:
  - {contract: contracts/order.schema.json, file: tests/fixtures/orders/paid.json, expect: valid, consumer: billing}
  - {contract: contracts/order.schema.json, file: tests/fixtures/orders/no-tax.json, expect: invalid, consumer: billing}
"""
PAID = '{"order_id": "ord_example_not_real", "tax_id": "XX-0000000", "total_cents": 1099}'
NO_TAX = '{"order_id": "ord_example_not_real"}'


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1)


def sha(value: Any) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else text(value).encode()).hexdigest()


class Shop:
    """A repository with contracts on main, a branch of a change, and the command line."""

    def __init__(self, folder: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.repo = Repo(folder / "repo")
        self.folder = folder
        self._state = state
        self._capsys = capsys

    def base(self, files: dict[str, Any] | None = None, *, pending: dict[str, Any] | None = None, **more: Any) -> None:
        """Commit the base, with the article's lock of these contracts, and go to the branch of the change."""
        contracts = {ORDER: SCHEMA} if files is None else files
        lock = {"version": 1, "files": {path: sha(one) for path, one in contracts.items()}, "pending": pending or {}}
        self.repo.commit(
            {
                ".drillmaster/contract-policy.yaml": POLICY,
                ".drillmaster/roster.yaml": ROSTER,
                "README.md": "shop\n",
                LOCK: text(lock),
                **{path: one if isinstance(one, bytes) else text(one) for path, one in contracts.items()},
                **more,
            }
        )
        self.repo.branch("change")

    def lock(self, **edits: Any) -> None:
        """Commit the article's lock with something in it changed, alone."""
        value = json.loads((self.repo.path / LOCK).read_text())
        value.update(edits)
        self.repo.commit({LOCK: text(value)}, by=BO, message="lock")

    def run(self, *words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(argv=[*words])
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err and "internal error" not in said.err, said.err
        return int(ended.value.code or 0), said.out + said.err

    def gate(self, *words: str, actor: str = "ada-l", mapped: bool = True) -> tuple[int, str]:
        event = self.folder / "event.json"
        head = self.repo.git("rev-parse", "HEAD")
        event.write_text(
            json.dumps({"pull_request": {"user": {"login": actor, "type": "User"}, "head": {"sha": head}}})
        )
        where = ("--base", "main", "--repo", str(self.repo.path), "--event", str(event), "--now", NOW)
        return self.run("gate", "contract", *where, *(("--exit-map", "articles") if mapped else ()), *words)

    def contract(self, *words: str) -> tuple[int, str]:
        return self.run("contract", *words, "--repo", str(self.repo.path), "--now", NOW)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def shop(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("DRILLMASTER_STATE", str(state))
    for name in ("PATCH_ORIGIN", "AGENT_LANE", "CHANGED_FILES", "SCHEMA_LOCK"):
        monkeypatch.delenv(name, raising=False)
    return Shop(tmp_path, state, capsys)


def test_the_articles_plan_ends_as_it_says(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    monkeypatch.setenv("PATCH_ORIGIN", "free-tier")
    assert shop.gate()[0] == 3
    monkeypatch.setenv("PATCH_ORIGIN", "human")
    code, said = shop.gate()
    assert (code, f"refuse: unsigned digest for {ORDER}" in said) == (5, True), said
    assert shop.gate(mapped=False)[0] == 1
    shop.lock(pending={ORDER: sha(NOTED)})
    code, said = shop.gate()
    assert (code, "contract gate passed" in said) == (0, True), said


def test_the_articles_own_incident_is_refused_though_it_is_signed(shop: Shop) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(LOOSE)})
    shop.lock(pending={ORDER: sha(LOOSE)})
    code, said = shop.gate(mapped=False)
    assert code == 1
    assert "version-bump" in said or "a reader that counts on `tax_id` may find it missing" in said
    assert "tax_id" in said


def test_the_incident_is_shown_by_the_example_that_must_fail(shop: Shop) -> None:
    loose = {**LOOSE, "version": "2.0.0"}
    shop.base(
        **{
            "contracts/fixtures.yaml": EXAMPLES,
            "tests/fixtures/orders/paid.json": PAID,
            "tests/fixtures/orders/no-tax.json": NO_TAX,
        }
    )
    shop.repo.commit({ORDER: text(loose)})
    shop.lock(pending={ORDER: sha(loose)})
    code, said = shop.gate(mapped=False)
    assert code == 1 and "must not fit, and fits" in said


def renamed(shop: Shop) -> None:
    shop.repo.commit({ORDER: None, "contracts/orders.json": text(SCHEMA)})


def linked(shop: Shop) -> None:
    (shop.repo.path / ORDER).unlink()
    (shop.repo.path / ORDER).symlink_to("../README.md")
    shop.repo.commit()


def by_a_bot(shop: Shop) -> None:
    shop.repo.commit({ORDER: text(NOTED)}, by=BOT)
    shop.lock(pending={ORDER: sha(NOTED)})


def mixed(shop: Shop) -> None:
    lock = json.loads((shop.repo.path / LOCK).read_text())
    shop.repo.commit({ORDER: text(NOTED), LOCK: text({**lock, "pending": {ORDER: sha(NOTED)}})})


def signed_by_itself(shop: Shop) -> None:
    shop.repo.commit({ORDER: text(NOTED)})
    shop.lock(files={ORDER: sha(NOTED)})


def put(path: str, content: Any) -> Callable[[Shop], None]:
    return lambda shop: (
        shop.repo.commit({path: content if isinstance(content, bytes | None) else text(content)}) and None
    )


def lock_is(content: str) -> Callable[[Shop], None]:
    return put(LOCK, content)


def twice(shop: Shop) -> None:
    content = '{"a": 1, "a": 2}'
    shop.repo.commit({ORDER: content})
    shop.lock(pending={ORDER: sha(content)})


def there_and_back(shop: Shop) -> None:
    shop.repo.commit({ORDER: text(NOTED)})
    shop.repo.commit({ORDER: text(SCHEMA)})


# what was done, the article's number, ours, the reason
REFUSED: list[tuple[str, Callable[[Shop], None], int, int, str]] = [
    ("a contract deleted", put(ORDER, None), 5, 1, "unsigned-digest"),
    ("a contract moved away", renamed, 4, 1, "not-in-lock"),
    (
        "a contract moved out of its place",
        lambda s: s.repo.commit({ORDER: None, "docs/order.json": text(SCHEMA)}) and None,
        5,
        1,
        "unsigned-digest",
    ),
    ("a link in its place", linked, 5, 1, "link"),
    ("line endings", put(ORDER, text(SCHEMA).replace("\n", "\r\n").encode()), 5, 1, "unsigned-digest"),
    ("a space at the end", put(ORDER, text(SCHEMA) + " "), 5, 1, "unsigned-digest"),
    ("a contract more", put("contracts/new.json", SCHEMA), 4, 1, "not-in-lock"),
    ("a contract of another case", put("Contracts/new.json", SCHEMA), 4, 1, "not-in-lock"),
    ("an unicode name", put("contracts/bestellungÄ.json", SCHEMA), 4, 1, "not-in-lock"),
    ("a name with blanks and quotes", put('contracts/a "b"\t c.json', SCHEMA), 4, 1, "not-in-lock"),
    ("a name that is not UTF-8", lambda s: odd_name(s), 4, 1, "not-in-lock"),
    ("OpenAPI deep in the tree", put("services/shop/openapi.yaml", "openapi: 3.1.0\n"), 4, 1, "not-in-lock"),
    ("a migration", put("migrations/0001.sql", "drop table orders;"), 4, 1, "not-in-lock"),
    ("a protobuf", put("api/v1/order.proto", "syntax = 'proto3';"), 4, 1, "not-in-lock"),
    ("a tool's schema", put("tools/schema/refund.json", {"name": "refund", "inputSchema": {}}), 4, 1, "not-in-lock"),
    ("the gate's own script", put("contract_gate.js", "process.exit(0)"), 4, 1, "not-in-lock"),
    ("a bot's commit", by_a_bot, 3, 1, "origin"),
    ("the review in the same commit", mixed, 1, 1, "pending-apart"),
    ("final under review", signed_by_itself, 5, 1, "lock-final"),
    ("the lock gone", put(LOCK, None), 2, 2, "lock-missing"),
    ("a lock of null", lock_is("null"), 2, 2, "lock-readable"),
    ("a lock of bad JSON", lock_is("{"), 2, 2, "lock-readable"),
    ("an empty lock file", lock_is(""), 2, 2, "lock-readable"),
    ("a lock of deep brackets", lock_is("[" * 100_000), 2, 2, "lock-readable"),
    ("a lock with a key twice", lock_is('{"version": 1, "version": 1, "files": {}}'), 2, 2, "lock-readable"),
    ("a lock of version 99", lock_is('{"version": 99, "files": {}, "pending": {}}'), 2, 2, "lock-readable"),
    ("a lock without version", lock_is('{"files": {}, "pending": {}}'), 2, 2, "lock-readable"),
    ("a lock of version true", lock_is('{"version": true, "files": {}, "pending": {}}'), 2, 2, "lock-readable"),
    (
        "a lock with a path outside",
        lock_is('{"version": 1, "files": {}, "pending": {"../x": "a"}}'),
        2,
        2,
        "lock-readable",
    ),
    ("a lock with another field", lock_is('{"version": 1, "files": {}, "force": true}'), 2, 2, "lock-readable"),
    (
        "a lock that is a folder",
        lambda s: s.repo.commit({LOCK: None, f"{LOCK}/x": "1"}) and None,
        2,
        2,
        "lock-readable",
    ),
    ("a digest in upper case", lambda s: s.lock(files={ORDER: sha(SCHEMA).upper()}), 1, 1, "lock-digests"),
    ("a stub pended", lambda s: s.lock(pending={ORDER: "REPLACE_WITH_SHA256"}), 1, 1, "lock-digests"),
    ("nothing at all", lambda s: None, 2, 2, "diff"),
    ("the policy beside", put(".drillmaster/contract-policy.yaml", POLICY.replace("14", "300")), 1, 1, "gate-files"),
    ("a document with a key twice", twice, 1, 1, "readable"),
]


def odd_name(shop: Shop) -> None:
    folder = shop.repo.path / "contracts"
    (folder / b"caf\xe9.json".decode("utf-8", "surrogateescape")).write_text(text(SCHEMA))
    shop.repo.commit()


@pytest.mark.parametrize(("name", "act", "mapped", "ours", "reason"), REFUSED, ids=[row[0] for row in REFUSED])
def test_every_way_around_the_lock_is_refused(
    shop: Shop, name: str, act: Callable[[Shop], None], mapped: int, ours: int, reason: str
) -> None:
    shop.base()
    act(shop)
    code, said = shop.gate("--format", "json")
    verdict, _ = json.JSONDecoder().raw_decode(said)
    checks = verdict.get("verdict", verdict)["checks"]
    missed = [one for one in checks if one["status"] != "pass"]
    assert (code, reason in [one["id"] for one in missed]) == (mapped, True), [
        (one["id"], one.get("why")) for one in missed
    ]
    assert all(one["remedy"] for one in missed), missed
    assert shop.gate(mapped=False)[0] == ours


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATCH_ORIGIN", "free-tier"),
        ("PATCH_ORIGIN", "Free-Tier"),
        ("PATCH_ORIGIN", "free-model"),
        ("PATCH_ORIGIN", "constructor"),
        ("PATCH_ORIGIN", "__proto__"),
        ("PATCH_ORIGIN", "unknown"),
    ],
)
def test_an_environment_can_lower_trust(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    shop.lock(pending={ORDER: sha(NOTED)})
    monkeypatch.setenv(name, value)
    assert shop.gate()[0] == 3


def test_an_environment_never_raises_trust(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.base()
    shop.repo.commit({ORDER: text(NOTED)})
    shop.lock(pending={ORDER: sha(NOTED)})
    monkeypatch.setenv("PATCH_ORIGIN", "human")
    monkeypatch.setenv("CHANGED_FILES", "README.md")
    assert shop.gate(actor="stranger")[0] == 3
    assert shop.gate()[0] == 0


# What has nothing to do with contracts, or is as it should be.
HARMLESS: list[tuple[str, Callable[[Shop], None]]] = [
    ("another file", put("src/app.py", "x = 1\n")),
    ("a name that begins alike", put("contracts.md", "how we do it\n")),
    ("a scratch comment", put("tmp/openapi-notes.txt", "x\n")),
    ("a rename in a test", put("tests/test_order.py", "def test_b(): pass\n")),
    ("changed and changed back", there_and_back),
]


@pytest.mark.parametrize(("name", "act"), HARMLESS, ids=[row[0] for row in HARMLESS])
def test_what_touches_no_contract_passes(shop: Shop, name: str, act: Callable[[Shop], None]) -> None:
    shop.base()
    act(shop)
    assert shop.gate() == (0, shop.gate()[1])
    code, said = shop.gate(mapped=False)
    assert (code, "no contract-class paths; apply gate skipped" in said) == (0, True), said


def test_another_file_passes_from_any_lane(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.base()
    shop.repo.commit({"src/app.py": "x = 1\n"}, by=BOT)
    monkeypatch.setenv("PATCH_ORIGIN", "free-tier")
    assert shop.gate()[0] == 0


def test_a_credential_in_a_contract_is_refused(shop: Shop) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    noted = {**NOTED, "examples": [{"order_id": token}]}
    shop.base()
    shop.repo.commit({ORDER: text(noted)})
    shop.lock(pending={ORDER: sha(noted)})
    code, said = shop.gate(mapped=False)
    assert (code, token in said) == (1, False)
    assert "secret-bytes" in said or "brings a credential" in said


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_every_form_holds_whatever_a_path_is_called(shop: Shop, form: str) -> None:
    shop.base()
    odd_name(shop)
    shop.repo.commit({"contracts/\x1b[31m\u202e|`<b>%0A::x.json": "{}", "contracts/a\nb.json": "{"})
    code, said = shop.gate("--format", form, mapped=False)
    assert code == 1
    assert "\x1b" not in said
    assert form == "json" or "\u202e" not in said


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


def test_a_change_of_five_thousand_files_takes_seconds(shop: Shop) -> None:
    files = {f"contracts/c{i}.json": {**SCHEMA, "title": f"{i}"} for i in range(2_500)}
    shop.base(files)
    shop.repo.commit(
        {**{path: text({**NOTED, "title": path}) for path in files}, **{f"src/f{i}.txt": f"{i}" for i in range(2_500)}}
    )
    began = time.monotonic()
    code, _ = shop.gate()
    assert code == 5
    assert time.monotonic() - began < 30
