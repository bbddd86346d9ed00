"""Evidence of the contract gate, from git: the change, the lock on both sides of it, its contracts, examples tried.

1. Content is what was committed, read by its object: a path that was quoted, a link, a filter cannot put other bytes there.
2. The lock of the head is a proposal, that of the base is the lock. Fixtures come from the base where it has them.
3. Fixtures are tried with `jsonschema-rs`, which fetches nothing here. Without it they are not tried, and the gate says so.
4. What `oasdiff` says, where it is on PATH, stands beside the verdict and changes nothing of it.
"""

import hashlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.changes import Diff
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import Gate
from drillmaster.gates._contract_evidence import (
    Contract,
    ContractChange,
    Fixture,
    Fixtures,
    Signed,
    Trial,
    class_of,
    contracts_of,
    readings,
    secrets_in,
)
from drillmaster.gates._contract_locked import makers_of
from drillmaster.gates.contract import ContractGate
from drillmaster.intake import format_of
from drillmaster.intake.authority import Authority
from drillmaster.intake.git import Repository
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.rules.codeowners import PLACES, read_codeowners
from drillmaster.rules.contract_lock import CAP_BYTES, Lock, read_lock

__all__ = ["gather", "read_fixtures", "tried"]

_FIXTURE_CAP_BYTES = 1 << 20
_MOST_ASKED = 10
"""Contracts that another program is asked about; it takes its time."""
_SHOW_FROM = 500
"""Files of a change, from which on its reading is told as it goes."""


def gather(gate: Gate[Any], asked: Asked, authority: Authority | None) -> Gathered:
    """Collect what the gate looks at. Raises Problem."""
    assert isinstance(gate, ContractGate)
    if authority is None or authority.head is None or authority.fork is None:
        raise Problem(
            "gate contract",
            found="no --base",
            wanted="the branch that the change is for: the lock is read from there",
            remedy="drillmaster gate contract --base origin/main --head HEAD",
        )
    repo, base, head = authority.repo, authority.fork, authority.head
    classes = gate.globs()
    diff = authority.diff(lambda path: class_of(path, classes) is not None, progress=_progress)
    contracts = tuple(one for one in contracts_of(diff, classes) if one.path not in (gate.lock, gate.fixtures))
    base_lock, base_fault = _lock(repo, base, gate.lock)
    head_lock, head_fault = _lock(repo, head, gate.lock)
    found = tuple(readings(contracts, gate.side_globs(), today=rfc3339(asked.now_ns)[:10]))
    change = ContractChange(
        diff=diff,
        contracts=contracts,
        readings=found,
        base_lock=base_lock,
        head_lock=head_lock,
        lock_fault="; ".join(one for one in (base_fault, head_fault) if one),
        at_head=_at_head(repo, head, base_lock, head_lock),
        signed=_signed(authority, diff, contracts, gate.lock, head, base_lock, head_lock),
        unowned=_unowned(repo, base, contracts),
        secrets=tuple(secrets_in(contracts)),
        second_opinion=_second_opinion(contracts[:_MOST_ASKED]),
        now_ns=asked.now_ns,
    )
    change = _with_fixtures(change, repo, base, head, gate.fixtures)
    digest = hashlib.sha256()
    for one in diff.files:
        digest.update(
            f"{one.mode_before} {one.mode_after} {one.sha_before} {one.sha_after} {one.path}\0".encode(
                "utf-8", "surrogateescape"
            )
        )
    return Gathered(
        evidence=change,
        subject=f"{base[:12]}..{head[:12]}",
        digest=f"sha256:{digest.hexdigest()}",
        # What it has no field for was not looked at: chain, expiry, reviewers.
        stamps=("ARTICLE LOCK",) if head_lock is not None and head_lock.article else (),
        counts={
            "files": len(diff.files),
            "commits": len(diff.commits),
            "contracts": len(contracts),
            "compared": len(found),
            "fixtures": len(change.trials),
        },
    )


def _progress(done: int) -> None:
    if done >= _SHOW_FROM and sys.stderr.isatty():
        print(f"\rread {done:,} files of the change", end="", file=sys.stderr, flush=True)


def _lock(repo: Repository, commit: str, path: str) -> tuple[Lock | None, str]:
    place = f"{path} at {commit[:12]}"
    try:
        data = repo.read(commit, path, cap_bytes=CAP_BYTES)
        return (None, "") if data is None else (read_lock(data, place=place), "")
    except Problem as problem:
        return None, f"{problem.place}: found {problem.found}, wanted {problem.wanted}"


def _at_head(repo: Repository, head: str, before: Lock | None, after: Lock | None) -> dict[str, str]:
    """Digests, at head, of what became final, was pended or was taken out."""
    old, new = before or Lock(files={}, pending={}), after or Lock(files={}, pending={})
    paths = {path for path in old.files.keys() | new.files.keys() if old.files.get(path) != new.files.get(path)}
    return digests_at(repo, head, paths)


def digests_at(repo: Repository, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """Give the SHA-256 of files as they were committed; "" where there is no regular file of that path."""
    wanted = set(paths)
    if not wanted:
        return {}
    tree = repo.tree(commit)
    entries = {path: tree[path].sha for path in wanted if path in tree and tree[path].mode.startswith("100")}
    blobs = repo.blobs(entries.values())
    return {
        path: hashlib.sha256(blobs[entries[path]]).hexdigest() if entries.get(path) in blobs else "" for path in wanted
    }


def _signed(
    authority: Authority,
    diff: Diff,
    contracts: tuple[Contract, ...],
    lock_path: str,
    head: str,
    before: Lock | None,
    after: Lock | None,
) -> Signed | None:
    if authority.allowed is None:
        return None
    if after is None or (before is not None and before.digest == after.digest):
        return Signed()
    paths = {one.path for one in contracts}
    makers = makers_of(diff, paths, roster=authority.roster, now_ns=authority.now_ns)
    data = authority.repo.read(head, lock_path, cap_bytes=CAP_BYTES) or b""
    try:
        by = authority.people_who_signed(lock_path, data, authority.signatures(head, lock_path), but_not=makers)
    except Problem as problem:
        return Signed(problem=f"found {problem.found}, wanted {problem.wanted}")
    return Signed(by=tuple(dict.fromkeys(one.identity for one in by)))


def _unowned(repo: Repository, base: str, contracts: tuple[Contract, ...]) -> tuple[str, ...] | None:
    for place in PLACES:
        try:
            data = repo.read(base, place)
        except Problem:
            return None
        if data is not None:
            owners = read_codeowners(data)
            if owners.defects:
                return None
            return tuple(one.path for one in contracts if not owners.of(one.path))
    return None


# Fixtures


def read_fixtures(repo: Repository, commit: str, path: str) -> tuple[Fixtures | None, str]:
    """Read the manifest of a commit; None where it has none, and why it cannot be used."""
    place = f"{path} at {commit[:12]}"
    try:
        data = repo.read(commit, path, cap_bytes=_FIXTURE_CAP_BYTES)
        if data is None:
            return None, ""
        found: Fixtures = strict.load_as(data, Fixtures, place=place, fmt=format_of(path))
    except Problem as problem:
        return None, f"{problem.place}: found {problem.found}, wanted {problem.wanted}"
    return found, ""


def _with_fixtures(change: ContractChange, repo: Repository, base: str, head: str, path: str) -> ContractChange:
    before, fault = read_fixtures(repo, base, path)
    after, fault_after = read_fixtures(repo, head, path)
    change = msgspec.structs.replace(
        change,
        base_fixtures=before,
        head_fixtures=after,
        fixtures_fault="; ".join(f for f in (fault, fault_after) if f),
    )
    documents = {one.path: one.file.after for one in change.contracts if one.file.mode_after.startswith("100")}
    wanted = [one for one in change.fixtures if documents.get(one.contract) is not None]
    bytes_of: dict[str, bytes | str] = {}
    for one in wanted:
        if one.file not in bytes_of:
            bytes_of[one.file] = _example(repo, base, head, one.file)
    trials, untried = tried(wanted, {path: data for path, data in documents.items() if data is not None}, bytes_of)
    return msgspec.structs.replace(change, trials=trials, untried=untried)


def _example(repo: Repository, base: str, head: str, path: str) -> bytes | str:
    """Read an example, of the base where it has one; why it cannot be, as text."""
    try:
        for commit in (base, head):
            data = repo.read(commit, path, cap_bytes=_FIXTURE_CAP_BYTES)
            if data is not None:
                return data
    except Problem as problem:
        return problem.found
    return "no such file"


def _second_opinion(contracts: Sequence[Contract]) -> tuple[str, ...]:
    if not contracts:
        return ()
    from drillmaster.intake.oasdiff import second_opinion

    return tuple(line for one in contracts for line in second_opinion(one))


def tried(
    fixtures: Iterable[Fixture], documents: dict[str, bytes], examples: dict[str, bytes | str]
) -> tuple[tuple[Trial, ...], str]:
    """Try examples on the bytes of contracts. The second is why none could be tried, with the command that mends it."""
    rows = list(fixtures)
    if not rows:
        return (), ""
    from drillmaster.intake.validating import MISSING, Validators

    try:
        validators = Validators()
    except ImportError:
        return (), MISSING
    found = []
    for one in rows:
        example = examples[one.file]
        if isinstance(example, str):
            found.append(Trial(fixture=one, outcome="error", why=example))
            continue
        try:
            value = strict.load(example, place=one.file, fmt=format_of(one.file))
            wrong = validators.fault(documents[one.contract], one.contract, one.schema, value)
        except Problem as problem:
            found.append(Trial(fixture=one, outcome="error", why=f"{problem.place}: {problem.found}"))
            continue
        found.append(Trial(fixture=one, outcome="invalid" if wrong else "valid", why=wrong))
    return tuple(found), ""
