"""Exceptions to a canary's limits: who may let one check go, for which build, and until when.

1. An exception stands in the policy: one check, one build by its digest, two people by their identities, from when until
   when, and why. It is a person's decision, so it holds two weeks at most.
2. It counts only where both people's signatures under the policy held. A name in a file is a claim.
3. It lets a limit go and nothing else: no source, no model's verdict, nothing that makes evidence unusable.
4. One that is not in force is not taken, and the check that misses it says why. One that cannot be right is refused.
"""

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from drillmaster.clock import parse_rfc3339

__all__ = ["DIGEST", "Exemption", "in_force", "not_taken", "wrong"]

DIGEST = r"\Asha256:[0-9a-f]{64}\Z"
MAX_S = 14 * 86_400
"""How long one may hold."""

Excusable = Literal[
    "sample-size",
    "error-rate",
    "p95",
    "slo-burn",
    "healthy-hosts",
    "window",
    "coverage",
    "baseline.error-rate",
    "baseline.p95",
]


class Exemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One exception of two people: signed with the policy, dated, for one check of one build."""

    check: Excusable
    artifact: Annotated[str, msgspec.Meta(pattern=DIGEST)]
    """Digest of the build that it is for: `sha256:` and 64 hex digits."""
    by: tuple[str, ...]
    """Identities of the two people, as `allowed_signers` has them; both sign the policy."""
    granted_at: str
    """RFC 3339 with a zone."""
    until: str
    """RFC 3339 with a zone, at most two weeks later."""
    reason: str


def folded(name: str) -> str:
    """Make names that a reader would take for the same equal."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def wrong(entries: Iterable[Exemption], *, now_ns: int) -> list[str]:
    """Say what cannot be right in any exception, in force or not."""
    found = []
    for at, one in enumerate(entries):
        place = f"exceptions/{at} ({one.check})"
        people = {folded(name) for name in one.by} - {""}
        granted_ns, until_ns = parse_rfc3339(one.granted_at), parse_rfc3339(one.until)
        if len(people) < 2 or len(people) != len(one.by):
            found.append(f"{place}: found {len(people)} people in `by`, wanted two, each once")
        if granted_ns is None or until_ns is None:
            found.append(f"{place}: granted_at and until are RFC 3339 with a zone, such as 2026-11-30T16:00:00Z")
        elif granted_ns > now_ns:
            found.append(f"{place}: granted_at {one.granted_at} is in the future")
        elif not 0 < until_ns - granted_ns <= MAX_S * 10**9:
            found.append(f"{place}: from {one.granted_at} until {one.until}, wanted two weeks at most")
        if not one.reason.strip():
            found.append(f"{place}: no reason")
    return found


def in_force(
    entries: Iterable[Exemption], check: str, *, artifact: str, now_ns: int, signers: tuple[str, ...]
) -> Exemption | None:
    """Give the exception that lets a check of this build go now; None: there is none."""
    return next((one for one in entries if one.check == check and not _why_not(one, artifact, now_ns, signers)), None)


def not_taken(entries: Iterable[Exemption], check: str, *, artifact: str, now_ns: int, signers: tuple[str, ...]) -> str:
    """Say why the exceptions to a check were not taken; empty: there are none."""
    said = [(one, _why_not(one, artifact, now_ns, signers)) for one in entries if one.check == check]
    return "; ".join(f"the exception until {one.until} is not taken: {why}" for one, why in said if why)


def _why_not(one: Exemption, artifact: str, now_ns: int, signers: tuple[str, ...]) -> str:
    until_ns = parse_rfc3339(one.until)
    if wrong((one,), now_ns=now_ns):
        return "it cannot be right"
    if until_ns is not None and until_ns < now_ns:
        return "it is over"
    if one.artifact != artifact:
        return f"it is for {one.artifact[:19]}"
    held = {folded(name) for name in signers}
    missing = [name for name in one.by if folded(name) not in held]
    return f"the policy is not signed by {' and '.join(missing)}" if missing else ""
