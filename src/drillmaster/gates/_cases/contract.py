"""Evidence on which each check of the contract gate goes red, and on which it is green."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.changes import Commit, Diff, FileChange, How, Lane, Person, Roster
from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates._contract_evidence import (
    Contract,
    ContractChange,
    Fixture,
    Fixtures,
    Signed,
    Trial,
    contracts_of,
    readings,
)
from drillmaster.gates.contract import ContractGate
from drillmaster.rules.contract_lock import Lock, Pending
from drillmaster.verdict import Status

__all__ = ["GATE", "NOW_NS", "cases", "changed", "file", "locks"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
ORDER = "contracts/order.schema.json"
LOCK = "schema.lock.json"
MANIFEST = "contracts/fixtures.yaml"

GATE = ContractGate(
    lock=LOCK,
    classes={
        "tools": ("tools/schema/",),
        "migrations": ("migrations/",),
        "iam": ("iam/",),
        "audit": ("incidents/",),
        "interfaces": ("*.proto",),
        "gate": ("contract_gate.js",),
        "schema": ("contracts/", "openapi.yaml", "openapi.yml"),
    },
    fixtures=MANIFEST,
    fixtures_are="demanded",
    pending_days=14,
    enum_window_days=30,
    sensitive=("tax", "amount", "auth", "delete"),
    owners="demanded",
)
ADA = Person(identity="ada", emails=("ada@example.com",))
BEA = Person(identity="bea", emails=("bea@example.com",))
CYD = Person(identity="cyd", emails=("cyd@example.com",))
ROSTER = Roster(kind="roster", version=1, people=(ADA, BEA, CYD, Person(identity="robot", kind="bot")))
HUMAN = Lane(name="human", by="signatures of ada", people=("ada",))
FREE = Lane(name="free", by="commit 1 is robot's, a bot")

BEFORE: dict[str, Any] = {
    "type": "object",
    "version": "1.0.0",
    "required": ["order_id", "status"],
    "properties": {
        "order_id": {"type": "string"},
        "status": {"enum": ["open", "paid", "void"], "x-deprecated-values": {"void": "2026-09-01"}},
    },
}


def _text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file(path: str, before: Any, after: Any, *, mode: str = "100644") -> FileChange:
    """One file of a change; None: it is not there."""
    old, new = (None if one is None else _text(one) for one in (before, after))
    how: How = "added" if old is None else "deleted" if new is None else "modified"
    return FileChange(
        path=path,
        how=how,
        mode_before="" if old is None else "100644",
        mode_after="" if new is None else mode,
        sha_before="" if old is None else _sha(b"git" + old)[:40],
        sha_after="" if new is None else _sha(b"git" + new)[:40],
        before=old,
        after=new,
    )


def locks(files: tuple[FileChange, ...], *, article: bool = False, **more: Any) -> tuple[Lock, Lock]:
    """The lock of the base, and one of the head in which each file is reviewed."""
    final = {one.path: _sha(one.before) for one in files if one.before is not None}
    base = Lock(files=final, pending={}, digest="b" * 64, article=article)
    pending = {
        one.path: Pending(
            sha256=None if one.after is None else _sha(one.after),
            previous=final.get(one.path),
            expires="2026-12-10",
            reviewer="bea",
        )
        for one in files
    }
    pending = {path: msgspec.structs.replace(one, **more) for path, one in pending.items()}
    return base, Lock(files=final, pending=pending, previous=base.digest, digest="c" * 64, article=article)


def changed(
    *files: FileChange, lane: Lane = HUMAN, pair: tuple[Lock, Lock] | None = None, **more: Any
) -> ContractChange:
    """A change of these files, each reviewed, with what is named otherwise."""
    base, head = pair or locks(tuple(one for one in files if one.path not in (LOCK, MANIFEST)))
    lock_change = file(LOCK, b"old", b"new")
    draft = Commit(sha="1" * 40, author="Ada <ada@example.com>", committer="", files=files)
    review = Commit(sha="2" * 40, author="Bea <bea@example.com>", committer="", files=(lock_change,))
    diff = Diff(
        base="a" * 40, head="d" * 40, files=(*files, lock_change), commits=(draft, review), lane=lane, roster=ROSTER
    )
    contracts: tuple[Contract, ...] = tuple(contracts_of(diff, GATE.globs()))
    contracts = tuple(one for one in contracts if one.path not in (LOCK, MANIFEST))
    found = tuple(readings(contracts, {}, today="2026-11-30"))
    examples = tuple(
        Fixture(contract=one.path, file=f"tests/{kind}.json", expect=kind)
        for one in contracts
        for kind in ("valid", "invalid")
    )
    book = Fixtures(kind="contract-fixtures", version=1, fixtures=examples)
    change = ContractChange(
        diff=diff,
        contracts=contracts,
        readings=found,
        base_lock=base,
        head_lock=head,
        base_fixtures=book,
        head_fixtures=book,
        trials=tuple(Trial(fixture=one, outcome=one.expect) for one in examples),
        unowned=(),
        now_ns=NOW_NS,
    )
    return msgspec.structs.replace(change, **more)


def edited(**more: Any) -> dict[str, Any]:
    """The order's schema with other fields at the top."""
    return {**BEFORE, **more}


def _props(**more: Any) -> dict[str, Any]:
    return edited(properties={**BEFORE["properties"], **more})


GOOD = file(ORDER, BEFORE, _props(note={"type": "string"}))
LOOSE = file(ORDER, BEFORE, edited(required=["order_id"]))


def _replaced(change: ContractChange, **more: Any) -> ContractChange:
    return msgspec.structs.replace(change, **more)


def cases() -> Iterator[Case]:
    good = changed(GOOD)
    assert good.head_lock is not None
    head = good.head_lock
    ids = [check.id for check in GATE.checks(good)]
    for check in ids:
        yield Case(check=check, status="pass", gate=GATE, evidence=good)

    def case(check: str, status: Status, evidence: ContractChange) -> Case:
        return Case(check=check, status=status, gate=GATE, evidence=evidence)

    nothing = Diff(base="a" * 40, head="a" * 40, files=(), commits=(), lane=HUMAN, roster=ROSTER)
    yield case("diff", "refused", _replaced(good, diff=nothing, contracts=(), readings=()))
    yield case("lock-missing", "refused", _replaced(good, head_lock=None))
    yield case("lock-missing", "refused", _replaced(good, head_lock=None, base_lock=None))
    yield case(
        "lock-readable", "refused", _replaced(good, head_lock=None, lock_fault="schema.lock.json: found 4 [ in a row")
    )
    yield case("origin", "fail", changed(GOOD, lane=FREE))
    yield case("origin", "fail", changed(GOOD, lane=Lane(name="unknown", by="nobody signed it")))
    yield case("origin", "fail", changed(lane=FREE))  # the lock alone
    yield case("forbidden-draft", "fail", changed(file("iam/delete.json", b"1", b"2"), lane=FREE))
    yield case("link", "fail", changed(file(ORDER, BEFORE, b"/etc/passwd", mode="120000")))
    yield case("link", "fail", changed(file("contracts", None, b"elsewhere", mode="120000")))

    yield case("secret-bytes", "fail", _replaced(good, secrets=((ORDER, "aws-key"),)))

    unknown = Lock(files={}, pending={}, digest="b" * 64)
    yield case("not-in-lock", "fail", changed(GOOD, pair=(unknown, unknown)))
    yield case("unsigned-digest", "fail", _replaced(good, head_lock=good.base_lock))
    gone = file(ORDER, BEFORE, None)
    yield case("unsigned-digest", "fail", changed(gone, pair=(locks((gone,))[0],) * 2))
    yield case("unsigned-digest", "pass", changed(gone))
    stub = msgspec.structs.replace(head, files={**head.files, "contracts/b.json": "REPLACE_WITH_SHA256"})
    yield case("lock-digests", "fail", _replaced(good, head_lock=stub))
    yield case("lock-chain", "fail", _replaced(good, head_lock=msgspec.structs.replace(head, previous="e" * 64)))
    final = msgspec.structs.replace(head, files={ORDER: head.pending[ORDER].sha256 or ""}, pending={})
    yield case("lock-final", "fail", _replaced(good, head_lock=final))
    drift = Lock(files={ORDER: "f" * 64}, pending={}, digest="b" * 64)
    yield case("previous-pinned", "fail", _replaced(good, base_lock=drift))
    for day in ("2026-11-29", "2027-11-29", "soon"):
        yield case("pending-expired", "fail", changed(GOOD, pair=locks((GOOD,), expires=day)))
    for who in ("", "robot", "nobody", "ada"):
        yield case("pending-reviewed", "fail", changed(GOOD, pair=locks((GOOD,), reviewer=who)))
    yield case("pending-reviewed", "fail", _replaced(good, signed=Signed(problem="found no signature")))
    yield case("pending-reviewed", "fail", _replaced(good, signed=Signed(by=("cyd",))))
    yield case("pending-reviewed", "pass", _replaced(good, signed=Signed(by=("bea",))))
    mixed = Commit(sha="3" * 40, author="", committer="", files=(GOOD, file(LOCK, b"old", b"new")))
    yield case("pending-apart", "fail", _replaced(good, diff=msgspec.structs.replace(good.diff, commits=(mixed,))))

    yield case("readable", "fail", changed(file(ORDER, BEFORE, b'{"a": 1, "a": 2}')))
    yield case("references", "fail", changed(file(ORDER, BEFORE, _props(x={"$ref": "https://example.com/x.json"}))))
    yield case("version-bump", "fail", changed(LOOSE))
    yield case("version-bump", "pass", changed(file(ORDER, BEFORE, edited(required=["order_id"], version="2.0.0"))))
    yield case("enum-window", "fail", changed(file(ORDER, BEFORE, _props(status={"enum": ["open", "void"]}))))
    yield case("enum-window", "pass", changed(file(ORDER, BEFORE, _props(status={"enum": ["open", "paid"]}))))
    yield case("version-by-draft", "fail", changed(file(ORDER, BEFORE, edited(version="2.0.0")), lane=FREE))
    taxed = file(ORDER, BEFORE, edited(required=["order_id", "status", "tax_id"]))
    yield case("sensitive", "fail", changed(taxed))
    yield case("sensitive", "pass", changed(taxed, pair=locks((taxed,), second="cyd")))

    yield case("fixtures-present", "fail", _replaced(good, base_fixtures=None, head_fixtures=None))
    one_sided = Fixtures(kind="contract-fixtures", version=1, fixtures=good.fixtures[:1])
    yield case("fixtures-present", "fail", _replaced(good, base_fixtures=one_sided))
    yield case("fixtures-hold", "fail", _replaced(good, trials=(Trial(fixture=good.fixtures[0], outcome="invalid"),)))
    yield case("fixtures-hold", "fail", _replaced(good, trials=(Trial(fixture=good.fixtures[1], outcome="valid"),)))
    yield case("fixtures-hold", "fail", _replaced(good, trials=(Trial(fixture=good.fixtures[1], outcome="error"),)))
    yield case("fixtures-hold", "refused", _replaced(good, trials=(), untried="no validator: pip install it"))
    beside = changed(GOOD, file("tests/valid.json", b"{}", b"[]"), pair=(good.base_lock or head, head))
    yield case("fixtures-apart", "fail", beside)
    yield case("owners", "fail", _replaced(good, unowned=(ORDER,)))
    yield case("owners", "fail", _replaced(good, unowned=None))
