"""A repository with contracts under a lock, and the command line over it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.cli import main
from tests.e2e.repolab import BO, ROSTER, Repo

__all__ = [
    "EXAMPLES",
    "LOCK",
    "LOOSE",
    "NOTED",
    "NOW",
    "NO_TAX",
    "ORDER",
    "PAID",
    "POLICY",
    "SCHEMA",
    "Shop",
    "sha",
    "text",
]

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
