"""Contracts that no rule of ours compares, locked by digest and class: protobuf, Avro, GraphQL, SQL and IAM documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contractlab import Shop, sha
from tests.e2e.repolab import BOT

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

# path, class, as it was, as it is to be
KINDS: list[tuple[str, str, bytes, bytes]] = [
    (
        "api/v1/order.proto",
        "interfaces",
        b'syntax = "proto3";\nmessage Order { string id = 1; }\n',
        b'syntax = "proto3";\nmessage Order { string id = 2; }\n',
    ),
    (
        "events/order.avsc",
        "interfaces",
        b'{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}',
        b'{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}',
    ),
    ("api/schema.graphql", "interfaces", b"type Order { id: ID! tax: String! }\n", b"type Order { id: ID! tax: String }\n"),
    ("migrations/0002_tax.sql", "migrations", b"alter table orders add tax text;\n", b"alter table orders drop tax;\n"),
    # A dump with bytes that are no text is locked like any other.
    ("migrations/0003_names.sql", "migrations", b"insert into n values ('caf\xe9');\n", b"insert into n values ('caf\xe8');\n"),
    (
        "iam/exports.json",
        "iam",
        b'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}]}',
        b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}',
    ),
]  # fmt: skip  # one kind a row


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))
    for name in ("PATCH_ORIGIN", "AGENT_LANE", "CHANGED_FILES", "SCHEMA_LOCK"):
        monkeypatch.delenv(name, raising=False)
    return Shop(tmp_path, tmp_path / "state", capsys)


def missed(shop: Shop, **how: Any) -> tuple[int, set[str]]:
    code, said = shop.gate("--format", "json", **how)
    verdict, _ = json.JSONDecoder().raw_decode(said)
    return code, {one["id"] for one in verdict.get("verdict", verdict)["checks"] if one["status"] != "pass"}


@pytest.mark.parametrize(("path", "cls", "was", "now"), KINDS, ids=[row[0] for row in KINDS])
def test_other_bytes_are_refused_until_they_are_reviewed(
    shop: Shop, path: str, cls: str, was: bytes, now: bytes
) -> None:
    shop.base({path: was})
    shop.repo.write({path: now})
    shop.repo.commit({})
    code, ids = missed(shop)
    assert (code, "unsigned-digest" in ids) == (5, True)
    shop.lock(pending={path: sha(now)})
    assert missed(shop) == (0, set())


@pytest.mark.parametrize(("path", "cls", "was", "now"), KINDS, ids=[row[0] for row in KINDS])
def test_a_free_lane_touches_none_of_them(shop: Shop, path: str, cls: str, was: bytes, now: bytes) -> None:
    shop.base({path: was})
    shop.repo.write({path: now})
    shop.repo.commit({}, by=BOT)
    code, ids = missed(shop)
    assert (code, "origin" in ids, "forbidden-draft" in ids) == (3, True, cls == "iam")


@pytest.mark.parametrize("path", [row[0] for row in KINDS])
def test_one_that_nobody_locked_is_not_in_the_lock(shop: Shop, path: str) -> None:
    shop.base()
    shop.repo.write({path: b"x\n"})
    shop.repo.commit({})
    code, ids = missed(shop)
    assert (code, "not-in-lock" in ids) == (4, True)


ORIGINS = ["free-tier ", " free-tier", "FREE_TIER", "agent", "copilot", "best-effort-model", "scratch-server"]


@pytest.mark.parametrize("origin", [*ORIGINS, "ｆree-tier", "fr\u200bee-tier"])
def test_an_origin_that_is_nobodys_in_any_spelling(shop: Shop, monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    path, _, was, now = KINDS[0]
    shop.base({path: was})
    shop.repo.write({path: now})
    shop.repo.commit({})
    shop.lock(pending={path: sha(now)})
    monkeypatch.setenv("PATCH_ORIGIN", origin)
    assert missed(shop) == (3, {"origin"})
