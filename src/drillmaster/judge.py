"""Judging: decode what a policy asks for, run its gate over evidence, conclude. Pure; `now` and version are inputs.

The same evidence, policy and `now` give the same verdict, byte for byte, on any machine.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import Gate, find, names
from drillmaster.policy import Pin, Policy, pin_problems
from drillmaster.verdict import Check, Exact, Verdict, conclude

__all__ = ["begin_with", "decode_gate", "judge", "load_policy"]

E = TypeVar("E")

MAX_SKEW_S = 60.0
"""How far two machines' clocks may stand apart before evidence counts as from the future."""


def load_policy(data: bytes, *, place: str, fmt: strict.Format) -> tuple[Policy, str]:
    """Decode a policy file. Returns it with the digest of its canonical content. Raises Problem."""
    try:
        policy = strict.load_as(data, Policy, place=place, fmt=fmt)
    except Problem as problem:
        raise _left_open(data, place, fmt) or problem from None
    return policy, strict.digest(msgspec.to_builtins(policy))


def begin_with(name: str) -> str:
    """Give the command that writes a gate's policy: a drill's comes with its plan, the others with `init gates`."""
    if name == "matrix":
        return "drillmaster init friday"
    return f"drillmaster init {name}" if name in ("eviction", "interview") else f"drillmaster init gates --gate {name}"


def decode_gate(policy: Policy, name: str, *, place: str) -> Gate[Any]:
    """Decode the limits of the one gate of that name. Raises Problem with the pointer of what is missing or unusable."""
    wanted = find(name)
    for i, entry in enumerate(policy.gates):
        if entry.get("gate") not in names():
            near = strict.near(str(entry.get("gate")), names())
            raise Problem(
                f"{place}: /gates/{i}/gate",
                found=strict.shown(entry.get("gate")) if "gate" in entry else "nothing",
                wanted=f"one of {', '.join(names())}",
                remedy=f"did you mean {near}?" if near else "drop the entry: an unknown one judges nothing",
            )
    entries = [(i, entry) for i, entry in enumerate(policy.gates) if entry.get("gate") == name]
    if len(entries) != 1:
        found = f"{len(entries)} entries for {name}" if entries else f"none for {name}"
        raise Problem(
            f"{place}: /gates",
            found=found,
            wanted="one entry",
            remedy=f"{begin_with(name)} writes a policy with every limit explained",
        )
    index, entry = entries[0]
    # A gate may know a limit that is None, for evidence without it; a policy that leaves one blank has forgotten it.
    blank = next((field for field, value in entry.items() if value is None), None)
    open_ = tuple(strict.nulls(entry, f"/gates/{index}"))
    if blank is not None:
        if len(open_) > 1:
            raise _blanks(place, open_)
        raise Problem(
            f"{place}: /gates/{index}/{blank}",
            found="nothing (null)",
            wanted="a limit; limits have no default",
            remedy=f"copy {blank} from the runbook; {begin_with(name)} explains it, with an example",
        )
    try:
        limits: Gate[Any] = strict.as_type(entry, wanted, place=place, path=("gates", index))
    except Problem as problem:
        raise (_blanks(place, open_) if len(open_) > 1 else problem) from None
    return limits


def _left_open(data: bytes, place: str, fmt: strict.Format) -> Problem | None:
    """Name all blanks of a file at once: who is told of one a run gives up before the last. None: there are not two."""
    try:
        open_ = tuple(strict.nulls(strict.load(data, place=place, fmt=fmt)))
    except Problem:
        return None
    return _blanks(place, open_) if len(open_) > 1 else None


def _blanks(place: str, open_: Sequence[str]) -> Problem:
    return Problem(
        place,
        found=f"{len(open_)} blanks: {', '.join(open_)}",
        wanted="a value behind each colon; limits have no default",
        remedy="fill them in: the comment above each says what it is, with an example",
    )


def judge(
    gate: Gate[E],
    evidence: E,
    *,
    name: str,
    subject: str,
    stamps: Sequence[str] = (),
    pin: Pin | None,
    policy_digest: str,
    policy_expected: str | None = None,
    evidence_digest: str,
    evidence_end_ns: int,
    counts: dict[str, int],
    now_ns: int,
    version: str,
    limits_from: str = "the command line",
    admitted: Sequence[Check] = (),
) -> Verdict:
    """Run one gate. `pin` None: nobody answers for the limits, which came from `limits_from`; the verdict says UNPINNED.

    `policy_expected` is the digest that the evidence was taken under; another one is refused. `evidence_end_ns` and
    `now_ns` are wall time: evidence from the future is refused. `admitted` are checks that the way in has made.
    """
    first = (_policy(pin, policy_digest, policy_expected, now_ns, limits_from), *_dated(evidence_end_ns, now_ns))
    checks = (*first, *admitted, *gate.checks(evidence))
    return Verdict(
        gate=name,
        status=conclude(checks),
        checks=checks,
        findings=tuple(gate.findings(evidence, checks)),
        stamps=(*stamps, *(() if pin else ("UNPINNED",))),
        subject=subject,
        headline=gate.headline(evidence),
        counts=counts,
        evidence_digest=evidence_digest,
        policy_digest=policy_digest,
        now=rfc3339(now_ns, digits=0),
        version=version,
    )


def _dated(evidence_end_ns: int, now_ns: int) -> tuple[Check, ...]:
    ahead_s = (evidence_end_ns - now_ns) / 1e9
    if ahead_s <= MAX_SKEW_S:
        return ()
    return (
        Check(
            id="future",
            role="admission",
            status="refused",
            title="evidence from the past",
            observed=Exact(ahead_s),
            limit=MAX_SKEW_S,
            unit="s",
            why=f"its last line is dated {ahead_s:.0f} s after {rfc3339(now_ns, digits=0)}, when it was judged",
            remedy="set the clocks, or judge as of a later time with --now",
        ),
    )


def _policy(pin: Pin | None, digest: str, expected: str | None, now_ns: int, limits_from: str) -> Check:
    if pin is None:
        return Check(
            id="policy",
            role="admission",
            status="pass",
            title=f"limits taken from {limits_from}: nobody has signed or dated them",
        )
    problems = [f"{field}: found {found}, wanted {wanted}" for field, found, wanted in pin_problems(pin, now_ns=now_ns)]
    remedy = "have the policy's owner review it, set review_by, and run again" if problems else ""
    if expected is not None and digest != expected:
        problems.append(f"this policy ({digest[:19]}) is not the one the drill was run under ({expected[:19]})")
        remedy = remedy or "judge by the copy in the run folder, or run again under this policy"
    return Check(
        id="policy",
        role="admission",
        status="refused" if problems else "pass",
        title=f"policy of {pin.owner}, from {pin.source}, to be reviewed by {pin.review_by}",
        why="; ".join(problems),
        remedy=remedy,
    )
