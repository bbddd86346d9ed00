"""The contract gate: tables of what is refused and why, and of what is let through."""

# ruff: noqa: E501  # a case is one row

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.changes import Lane
from drillmaster.errors import Problem
from drillmaster.gates._cases.contract import (
    BEFORE,
    GATE,
    GOOD,
    HUMAN,
    LOCK,
    LOOSE,
    MANIFEST,
    ORDER,
    changed,
    edited,
    file,
    locks,
)
from drillmaster.gates._contract_compared import sensitive_words
from drillmaster.gates._contract_evidence import ContractChange, bumped, class_of
from drillmaster.gates.contract import ContractGate
from drillmaster.judge import judge
from drillmaster.strict import as_type
from drillmaster.verdict import Verdict


def verdict(change: ContractChange, gate: ContractGate = GATE) -> Verdict:
    return judge(
        gate,
        change,
        name="contract",
        subject="x",
        pin=None,
        policy_digest="",
        evidence_digest="",
        evidence_end_ns=0,
        counts={},
        now_ns=change.now_ns,
        version="0",
    )


def missed(change: ContractChange, gate: ContractGate = GATE) -> set[str]:
    return {check.id for check in verdict(change, gate).checks if check.status != "pass"}


def test_a_reviewed_change_that_breaks_nobody_passes() -> None:
    said = verdict(changed(GOOD))
    assert (said.status, GATE.article_exit(said)) == ("pass", 0)
    assert GATE.closing(changed(GOOD), said) == ("contract gate passed",)


# the lane that made it, the verdict, the article's number
LANES = [("free", 3), ("unknown", 3)]


@pytest.mark.parametrize(("lane", "number"), LANES)
@pytest.mark.parametrize("path", [ORDER, "tools/schema/refund.json", "migrations/1.sql", "openapi.yaml", "a/b.proto", "iam/x.json", "incidents/1.md", "contract_gate.js"])  # fmt: skip
def test_no_lane_but_peoples_merges_a_contract(lane: Any, number: int, path: str) -> None:
    change = changed(file(path, b"{}", b"[]"), lane=Lane(name=lane, by="x"))
    said = verdict(change)
    assert (said.status, GATE.article_exit(said)) == ("fail", number)
    assert "refuse: free or unknown origin on contract paths" in GATE.closing(change, said)
    assert ("forbidden-draft" in missed(change)) == path.startswith(("iam", "incidents"))


@pytest.mark.parametrize(
    ("path", "cls"),
    [
        ("contracts/a.json", "schema"),
        ("Contracts/A.json", "schema"),
        ("contracts/deep/er/a.json", "schema"),
        ("services/contracts/a.json", "schema"),
        ("contracts", "schema"),  # a link or a submodule in the folder's place
        ("openapi.yaml", "schema"),
        ("services/shop/openapi.yml", "schema"),
        ("OpenAPI.yaml", "schema"),
        ("tools/schema/x.json", "tools"),
        ("migrations/1.sql", "migrations"),
        ("x/y.proto", "interfaces"),
        ("contracts.md", None),
        ("src/openapi.py", None),
        ("openapi.yaml.md", None),
        ("tools/x.json", None),
        ("README.md", None),
        ("mycontracts/a.json", None),
    ],
)
def test_a_class_goes_by_the_place(path: str, cls: str | None) -> None:
    assert class_of(path, GATE.globs()) == cls


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("1.0.0", "2.0.0", True),
        ("1.9", "2.0", True),
        ("1", "2", True),
        ("v1", "v2", True),
        ("0.3.1", "0.4.0", True),
        ("0.9", "1.0", True),
        ("2026-01-01", "2026-02-01", True),
        ("1.0.0", "1.1.0", False),
        ("1.0.0", "1.0.0", False),
        ("2.0.0", "1.0.0", False),
        ("0.3.1", "0.3.2", False),
        ("2026-02-01", "2026-01-01", False),
        ("", "2.0.0", None),
        ("1.0.0", "", None),
        ("", "", None),
        ("next", "later", None),
        ("1.0.0-rc.1", "2.0.0+build", True),
    ],
)
def test_a_version_moves_by_its_first_number(before: str, after: str, told: bool | None) -> None:
    assert bumped(before, after) is told


def props(**more: Any) -> dict[str, Any]:
    return edited(properties={**BEFORE["properties"], **more})


# What the document became, and what is missed.
DOCUMENTS: list[tuple[str, Any, set[str]]] = [
    ("required to optional", edited(required=["order_id"]), {"version-bump"}),
    ("with a small step", edited(required=["order_id"], version="1.1.0"), {"version-bump"}),
    ("with a step", edited(required=["order_id"], version="2.0.0"), set()),
    ("a version that went back", edited(version="0.9.0"), {"version-bump"}),
    ("no version any more, and a break", {k: v for k, v in edited(required=["order_id"]).items() if k != "version"}, {"version-bump"}),
    ("a value gone after its notice", props(status={"enum": ["open", "paid"]}), set()),
    ("a value gone without notice", props(status={"enum": ["open", "void"]}), {"enum-window", "version-bump"}),
    ("a value gone without notice, with a step", {**props(status={"enum": ["open", "void"]}), "version": "2.0.0"}, {"enum-window"}),
    ("a reference elsewhere", props(x={"$ref": "https://example.com/x"}), {"references"}),
    ("a reference to nothing", props(x={"$ref": "#/$defs/x"}), {"references"}),
    ("a field of money", edited(required=["order_id", "status", "taxId"]), {"version-bump", "sensitive"}),
    ("a field that only sounds so", edited(required=["order_id", "status", "syntax"]), {"version-bump"}),
    ("no JSON", b"{", {"readable"}),
    ("a name twice", b'{"type": "object", "type": "array"}', {"readable"}),
    ("a number that is none", b'{"minimum": NaN}', {"readable"}),
    # harmless
    ("words", edited(description="x", title="Order"), set()),
    ("a field more", props(note={"type": "string"}), set()),
    ("a value more", props(status={"enum": ["open", "paid", "void", "new"]}), set()),
    ("a step for nothing", edited(version="2.0.0"), set()),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "after", "found"), DOCUMENTS, ids=[row[0] for row in DOCUMENTS])
def test_a_document_is_judged_by_whom_it_breaks(name: str, after: Any, found: set[str]) -> None:
    change = changed(file(ORDER, BEFORE, after))
    ignored = {"fixtures-present", "fixtures-hold"} if found == {"readable"} else set()
    assert missed(change) - ignored == found


def test_a_break_is_told_to_whom_it_breaks() -> None:
    said = verdict(changed(LOOSE))
    why = next(check.why for check in said.checks if check.id == "version-bump")
    assert why == f"{ORDER}, version 1.0.0 to 1.0.0: value: a reader that counts on `status` may find it missing"
    assert [one.id for one in said.findings] == ["response-property-became-optional"]


def test_what_another_program_says_changes_nothing() -> None:
    change = msgspec.structs.replace(changed(LOOSE), second_opinion=("no breaking changes",))
    assert verdict(change).status == "fail"
    assert "oasdiff" in {one.id for one in verdict(change).findings}
    fine = msgspec.structs.replace(changed(GOOD), second_opinion=("1 breaking change",))
    assert verdict(fine).status == "pass"


# What of the article's lock decides, and what is not looked at.
def test_the_articles_lock_decides_as_it_does() -> None:
    change = changed(GOOD, pair=locks((GOOD,), article=True))
    assert missed(change) == set()
    whys = {check.id: check.why for check in verdict(change).checks}
    for check in ("lock-chain", "pending-expired"):
        assert "not looked at" in whys[check]


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        ({"previous": None}, {"lock-chain"}),
        ({"files": {}}, {"lock-final"}),
        ({"files": {ORDER: "e" * 64}}, {"lock-final"}),
        ({"article": True}, {"lock-chain"}),
    ],
)
def test_the_lock_of_the_head_is_a_proposal(edit: dict[str, Any], found: set[str]) -> None:
    good = changed(GOOD)
    assert good.head_lock is not None
    assert missed(msgspec.structs.replace(good, head_lock=msgspec.structs.replace(good.head_lock, **edit))) == found


def test_final_is_what_was_pending_and_merged() -> None:
    _, pending = locks((GOOD,))
    base = msgspec.structs.replace(pending, digest="b" * 64)
    after = pending.pending[ORDER].sha256 or ""
    made = msgspec.structs.replace(base, files={ORDER: after}, pending={}, previous=base.digest, digest="c" * 64)
    change = changed(pair=(base, made), at_head={ORDER: after})
    assert missed(change) == set()
    assert missed(msgspec.structs.replace(change, at_head={ORDER: "f" * 64})) == {"lock-final"}
    assert missed(msgspec.structs.replace(change, at_head={})) == {"lock-final"}


def test_a_new_contract_brings_its_examples_and_an_old_one_does_not() -> None:
    new = file("contracts/new.json", None, BEFORE)
    assert missed(changed(new, file("tests/valid.json", None, b"{}"), pair=locks((new,)))) == set()
    assert missed(changed(GOOD, file("tests/valid.json", b"{}", b"[]"), pair=locks((GOOD,)))) == {"fixtures-apart"}
    book = changed(GOOD).base_fixtures
    assert book is not None
    fewer = msgspec.structs.replace(book, fixtures=book.fixtures[:1])
    change = changed(GOOD, file(MANIFEST, b"a", b"b"), pair=locks((GOOD,)), head_fixtures=fewer)
    assert missed(change) == {"fixtures-apart"}


def test_examples_are_asked_for_as_the_policy_says() -> None:
    bare = changed(GOOD, base_fixtures=None, head_fixtures=None, trials=())
    assert missed(bare) == {"fixtures-present"}
    assert missed(bare, msgspec.structs.replace(GATE, fixtures_are="when-named")) == set()


def test_a_change_without_contracts_is_looked_at_and_passes_from_any_lane() -> None:
    plain = file("src/app.py", b"1", b"2")
    change = changed(lane=Lane(name="free", by="x"))
    diff = msgspec.structs.replace(change.diff, files=(plain,), commits=())
    change = msgspec.structs.replace(change, diff=diff, head_lock=change.base_lock)
    assert missed(change) == set()
    assert GATE.closing(change, verdict(change)) == ("no contract-class paths; apply gate skipped",)


def test_a_signature_of_the_lock_is_peoples_other_than_the_makers() -> None:
    change = changed(LOOSE, lane=HUMAN)
    assert LOCK in {one.path for one in change.diff.files}
    assert "pending-reviewed" in missed(changed(GOOD, pair=locks((GOOD,), reviewer="ada@example.com")))


@pytest.mark.parametrize(
    ("text", "words"),
    [("tax_id", ["tax"]), ("taxId", ["tax"]), ("syntax", []), ("total amounts", ["amount"]), ("/authToken", ["auth"]), ("author", [])],
)  # fmt: skip
def test_a_word_is_found_as_a_word(text: str, words: list[str]) -> None:
    assert sensitive_words(text, GATE.sensitive) == words


@pytest.mark.parametrize(
    "edit",
    [
        {"classes": {}},
        {"classes": {"schema": []}},
        {"classes": {"schema": ["!contracts/"]}},
        {"classes": {"schema": ["../contracts/"]}},
        {"classes": {"other": ["contracts/"]}},
        {"lock": "../schema.lock.json"},
        {"lock": "/schema.lock.json"},
        {"lock": ""},
        {"fixtures": "a/../b"},
        {"pending_days": 0},
        {"pending_days": 367},
        {"enum_window_days": True},
        {"fixtures_are": "off"},
        {"owners": "maybe"},
        {"sides": {"writer": ["a/"]}},
        {"force": True},
    ],
)
def test_a_policy_that_is_none_is_refused(edit: dict[str, Any]) -> None:
    whole = json.loads(msgspec.json.encode(GATE))
    assert as_type(whole, ContractGate, place="p") == GATE
    with pytest.raises(Problem):
        as_type({**whole, **edit}, ContractGate, place="p")


@given(
    st.binary(max_size=60),
    st.binary(max_size=60),
    st.sampled_from([ORDER, "contracts/a.yaml", "tools/schema/a.json", "openapi.yml"]),
)
def test_whatever_the_bytes_are_a_verdict_comes(before: bytes, after: bytes, path: str) -> None:
    said = verdict(changed(file(path, before, after)))
    assert said.status in ("pass", "fail", "refused")
    assert all(check.remedy for check in said.checks if check.status != "pass")


def test_the_kits_policy_once_filled_in_is_one() -> None:
    from drillmaster.judge import decode_gate, load_policy
    from drillmaster.scaffold import blanks, fill, template

    text = template("contract")["contract-policy.yaml"]
    examples = dict(blanks(text))
    assert all(examples.values()), examples
    values = {
        p: [w.strip() for w in e[1:-1].split(",")] if e.startswith("[") else int(e) if e.isdigit() else e
        for p, e in examples.items()
    }
    policy, _ = load_policy(fill(text, values).encode(), place="p", fmt="yaml")
    assert isinstance(decode_gate(policy, "contract", place="p"), ContractGate)
