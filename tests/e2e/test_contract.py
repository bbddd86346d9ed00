"""The lock of contracts in real repositories: the article's test plan, and every way around it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contractlab import EXAMPLES, LOCK, LOOSE, NO_TAX, NOTED, ORDER, PAID, POLICY, SCHEMA, Shop, sha, text
from tests.e2e.repolab import BOT

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


def lock_linked(shop: Shop) -> None:
    (shop.repo.path / LOCK).rename(shop.repo.path / "elsewhere.json")
    (shop.repo.path / LOCK).symlink_to("elsewhere.json")
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
    ("a lock that is a link", lock_linked, 2, 2, "lock-readable"),
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


@pytest.mark.parametrize(
    ("owners", "mapped"),
    [
        (None, 1),
        ("", 1),
        ("# nobody\n", 1),
        ("/migrations/ @ada-l\n", 1),
        ("/contracts/\n", 1),
        ("/contracts/ @ada-l\n", 0),
    ],
)
def test_a_contract_has_an_owner_where_the_policy_asks(shop: Shop, owners: str | None, mapped: int) -> None:
    asked = {".drillmaster/contract-policy.yaml": POLICY.replace("owners: unasked", "owners: demanded")}
    shop.base(**asked, **({} if owners is None else {"CODEOWNERS": owners}))
    shop.repo.commit({ORDER: text(NOTED)})
    shop.lock(pending={ORDER: sha(NOTED)})
    assert shop.gate()[0] == mapped


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


def test_a_change_of_five_thousand_files_takes_seconds(shop: Shop) -> None:
    files = {f"contracts/c{i}.json": {**SCHEMA, "title": f"{i}"} for i in range(2_500)}
    shop.base(files)
    shop.repo.commit(
        {**{path: text({**NOTED, "title": path}) for path in files}, **{f"src/f{i}.txt": f"{i}" for i in range(2_500)}}
    )
    began = time.monotonic()
    code, _ = shop.gate()
    assert code == 5
    assert time.monotonic() - began < 45
