"""From a policy and evidence to a verdict, the same way for every gate that judges files.

1. With a base ref the policy is read from there, or from a path outside the repository. A policy of the working tree is
   taken where there is no base, and the verdict is stamped TREE.
2. A policy that the base has not yet, and the change adds, is the bootstrap, and the verdict is stamped so.
3. A gate that cannot go red does not judge (`intake.selftests`).
4. Every attempt is counted in a ledger (`intake.attempts`); a policy can say how many there may be.
"""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.changes import FOLDER
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import Gate
from drillmaster.intake import format_of, read_bytes
from drillmaster.intake.attempts import Ledger
from drillmaster.intake.selftests import must_go_red
from drillmaster.judge import begin_with, decode_gate, judge, load_policy
from drillmaster.policy import Pin
from drillmaster.reports import screened
from drillmaster.verdict import Check, Exact, Verdict

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = [
    "Asked",
    "Gathered",
    "Judged",
    "PolicyRead",
    "attempt_check",
    "authority_of",
    "inside",
    "judged",
    "no_policy",
    "policy_of",
    "signatures_beside",
]

_CAP_BYTES = 16 << 20


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said. `now_ns` is wall time in whole seconds; `state` the user's state folder."""

    now_ns: int
    state: Path
    policy: str | None = None
    base: str | None = None
    head: str | None = None
    repo: Path = Path()
    event: Path | None = None
    attempts: Path | None = None
    protects: tuple[str, ...] = ()
    """Paths that judge the change beside the policy, from the root of the repository: the lock, the allow-list."""


class PolicyRead(NamedTuple):
    """A decoded policy. `pin` None: nobody answers for it. `max_attempts` None: any number."""

    gate: Gate[Any]
    pin: Pin | None
    digest: str
    place: str
    max_attempts: int | None = None
    stamps: tuple[str, ...] = ()
    limits_from: str = "the command line"


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence and what a verdict says of it. Attempts are counted by `attempts_by`, "": by `subject`; `end_ns` None: undated."""

    evidence: Any
    subject: str
    attempts_by: str = ""
    digest: str
    counts: dict[str, int]
    end_ns: int | None = None
    stamps: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    """What the way in found: each is one more check of the verdict."""


class Judged(NamedTuple):
    """A verdict, the gate that gave it, and what it says in the article's words."""

    verdict: Verdict
    gate: Gate[Any]
    closing: tuple[str, ...]


Reader = Callable[[bytes, str, strict.Format], PolicyRead]
Gather = Callable[[Gate[Any], Asked, "Authority | None"], Gathered]


def judged(
    name: str, asked: Asked, gather: Gather, *, read: Reader | None = None, absent: PolicyRead | None = None
) -> Judged:
    """Judge by one gate. `read` decodes a policy in a format of its own; None: ours. Raises Problem.

    `absent` is what judges where no policy was named and none lies in its place: the article's own numbers, for a gate
    whose article writes them into its script. None: that is refused.
    """
    must_go_red(name, asked.state)
    authority = authority_of(name, asked)
    policy, checks, stamps = policy_of(name, asked, authority, read=read, absent=absent)
    gathered = gather(policy.gate, asked, authority)
    checks += gathered.checks
    if authority is not None and authority.head is not None:
        own = (*asked.protects, *(() if asked.policy is None else (inside(authority, asked.policy) or "",)))
        check, bootstrap = authority.self_check(path for path in own if path)
        checks += (check,)
        stamps += bootstrap
    ledger = Ledger(asked.attempts or asked.state / "attempts.jsonl")
    about = {
        "gate": name,
        "subject": gathered.attempts_by or gathered.subject,
        "evidence": gathered.digest,
        "policy": policy.digest,
    }
    with ledger.turn(**about) as turn:
        verdict = judge(
            policy.gate,
            gathered.evidence,
            name=name,
            subject=gathered.subject,
            stamps=tuple(dict.fromkeys((*policy.stamps, *stamps, *gathered.stamps))),
            pin=policy.pin,
            policy_digest=policy.digest,
            evidence_digest=gathered.digest,
            evidence_end_ns=asked.now_ns if gathered.end_ns is None else gathered.end_ns,
            counts={**gathered.counts, "attempt": turn.n},
            now_ns=asked.now_ns,
            version=drillmaster.__version__,
            limits_from=policy.limits_from,
            admitted=checks + attempt_check(turn.n, turn.before, policy.max_attempts),
        )
        turn.end(at=rfc3339(asked.now_ns, digits=0), status=verdict.status)
    verdict = screened(_with_remedies(verdict))
    return Judged(verdict, policy.gate, policy.gate.closing(gathered.evidence, verdict))


def authority_of(name: str, asked: Asked) -> "Authority | None":
    """Open the base that was named; None where none was. Raises Problem where only a head was."""
    if asked.base is None:
        if asked.head is not None or asked.event is not None:
            raise Problem(
                f"gate {name}",
                found="--head or --event alone",
                wanted="the ref it is for",
                remedy="add --base origin/main",
            )
        return None
    from drillmaster.intake.authority import Authority
    from drillmaster.intake.git import Repository

    repo = Repository.at(asked.repo)
    return Authority(repo, asked.base, asked.head, now_ns=asked.now_ns, event=asked.event)


def signatures_beside(path: Path) -> tuple[bytes, ...]:
    """Read the signatures that lie beside a file outside the repository. Raises Problem."""
    from drillmaster.signing import signs

    beside = sorted(one for one in path.parent.iterdir() if signs(path.name, one.name))
    return tuple(read_bytes(one, 1 << 16) for one in beside)


def _with_remedies(verdict: Verdict) -> Verdict:
    """Take the remedy of a check that says none, and did not pass, from what the gate's book says of it."""
    if all(one.remedy or one.status == "pass" for one in verdict.checks):
        return verdict
    from drillmaster.gates._asks import asks, shared

    def mend(check: Check) -> Check:
        if check.remedy or check.status == "pass":
            return check
        found = asks(verdict.gate).of(check.id) or shared().of(check.id)
        return check if found is None else msgspec.structs.replace(check, remedy=found.mend)

    return msgspec.structs.replace(verdict, checks=tuple(mend(one) for one in verdict.checks))


def policy_of(
    name: str,
    asked: Asked,
    authority: "Authority | None",
    *,
    read: Reader | None = None,
    absent: PolicyRead | None = None,
) -> tuple[PolicyRead, tuple[Check, ...], tuple[str, ...]]:
    """Read the policy that judges (rules 1 and 2), with the check of its signature, and stamps. Raises Problem."""
    named = asked.policy or f"{FOLDER}/{name}-policy.yaml"
    reader = read or _ours(name)
    if authority is None:
        if asked.policy is None and not (asked.repo / named).is_file():
            if absent is not None and not os.path.lexists(asked.repo / named):
                return absent, (), ()
            raise no_policy(name, named)
        place = Path(named) if asked.policy else asked.repo / named
        policy = reader(read_bytes(place, _CAP_BYTES), str(place), format_of(str(place)))
        return policy, (), ("TREE",)
    path = inside(authority, named) if asked.policy else named
    if path is None:
        policy, signatures, data = _outside(Path(named), reader)
        check = authority.policy_check(named, data, signatures)
        return policy, (check,) if check else (), ()
    ref = authority.base
    found = authority.repo.read(ref, path, cap_bytes=_CAP_BYTES)
    if found is None and authority.head is not None:
        ref = authority.head
        found = authority.repo.read(ref, path, cap_bytes=_CAP_BYTES)
    if found is None and absent is not None and asked.policy is None:
        return absent, (), ()
    if found is None:
        raise no_policy(name, f"{path} at {authority.base[:12]}", uncommitted=authority.repo.path / path)
    policy = reader(found, f"{path} at {ref[:12]}", format_of(named))
    check = authority.policy_check(path, found, authority.signatures(ref, path))
    return policy, (check,) if check else (), () if ref == authority.base else ("BOOTSTRAP",)


def _outside(path: Path, reader: Reader) -> tuple[PolicyRead, tuple[bytes, ...], bytes]:
    """Read a policy that lies outside the repository, where nothing in the change can touch it."""
    data = read_bytes(path, _CAP_BYTES)
    return reader(data, str(path), format_of(str(path))), signatures_beside(path), data


def _ours(name: str) -> Reader:
    def read(data: bytes, place: str, fmt: strict.Format) -> PolicyRead:
        policy, digest = load_policy(data, place=place, fmt=fmt)
        gate = decode_gate(policy, name, place=place)
        most = None if policy.max_attempts is msgspec.UNSET else policy.max_attempts
        return PolicyRead(gate, policy.pin, digest, place, most)

    return read


def inside(authority: "Authority", named: str) -> str | None:
    """Name a path from the root of the repository; None where it lies outside."""
    # As it is written, not where a link leads: what stands there in the working tree may be the change's own.
    top = authority.repo.path.resolve()
    for folder in (Path.cwd().resolve(), top):
        written = Path(os.path.normpath(folder / named))
        if written.is_relative_to(top):
            return written.relative_to(top).as_posix()
    return None


def attempt_check(n: int, before: tuple[str, ...], most: int | None) -> tuple[Check, ...]:
    if most is None and n == 1:
        return ()
    over = most is not None and n > most
    how = f"; the ones before: {', '.join(before[-8:])}" if before else ""
    return (
        Check(
            id="attempt",
            role="admission",
            status="refused" if over else "pass",
            title=f"attempt {n} at this subject" + (f", of at most {most}" if most is not None else "") + how,
            observed=Exact(n),
            limit=most,
            why=f"{n} attempts, and the policy allows {most}: asking until the answer is yes is no evidence"
            if over
            else "",
            remedy="have the policy's owner look at why it was tried so often, and sign a policy with another max_attempts"
            if over
            else "",
        ),
    )


def no_policy(name: str, where: str, *, uncommitted: Path | None = None) -> Problem:
    """`uncommitted` is where the working tree would have it: one that only lies there judges no change yet."""
    if uncommitted is not None and uncommitted.is_file():
        return Problem(
            f"gate {name}",
            found=f"no policy: {where} is not there, and the working tree has one",
            wanted="one that was merged, or that the change brings",
            remedy=f"git add {shlex.quote(str(uncommitted))}, commit it, and merge it first",
        )
    return Problem(
        f"gate {name}",
        found=f"no policy: {where} is not there",
        wanted="limits that somebody answers for; they have no default",
        remedy=f"{begin_with(name)} writes one with every limit explained, or name yours: --policy FILE",
    )
