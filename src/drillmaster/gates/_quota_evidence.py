"""What the quota gate judges: a guards file with its quotas, the version it is compared with, and who stands behind both."""

from typing import Literal

import msgspec

__all__ = ["Bucket", "File", "Quotas", "Retrying", "Rule", "SourceFact", "Ways", "loosened"]

Signing = Literal["not demanded", "held", "refused"]
_RETRY_UP = ("max_calls", "budget_tokens", "refund", "deadline_ms")
"""Limits of a retry guard that allow more when they grow."""
_RETRY_DOWN = ("base_ms",)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of a quota. `caller` and `route` "": of all."""

    name: str
    counts: str
    window_ms: int
    cap: int
    burst: int
    caller: str = ""
    route: str = ""

    @property
    def text(self) -> str:
        return f"{self.cap:,} in {self.window_ms:,} ms, burst {self.burst:,}"


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """One quota. Its own limit is the first of `rules`."""

    name: str
    partner: str
    identity: str
    rules: tuple[Rule, ...]

    def counting(self, counts: str) -> tuple[Rule, ...]:
        """List the limits of all callers and routes that count one thing."""
        return tuple(one for one in self.rules if one.counts == counts and not one.caller and not one.route)


class Retrying(msgspec.Struct, frozen=True, kw_only=True):
    """One retry guard, as far as its limits are numbers."""

    name: str
    limits: dict[str, float]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A guards file, or one in the article's form (`article`), which has no day for a review."""

    place: str
    source: str
    owner: str
    reviewers: tuple[str, ...]
    review_by: str
    buckets: tuple[Bucket, ...]
    retrying: tuple[Retrying, ...] = ()
    article: bool = False


class SourceFact(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a source stands for, as it lies there."""

    path: str
    found: Literal["file", "absent", "link", "other"]
    sha256: str = ""
    signing: Signing = "not demanded"
    why: str = ""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `before` None: there was no such file, or nothing was compared (`since` "")."""

    file: File
    now_ns: int
    source: SourceFact | None
    """None: the policy knows no document of that name."""
    since: str
    """What it was compared with, as people call it; "": with nothing."""
    before: File | None
    signing: Signing
    why: str = ""
    signers: tuple[str, ...] = ()
    """Who of the roster signed these bytes and did not make the change."""
    code_owners: tuple[str, ...] | None
    """Who is asked about a change of the path; None: there is no list that can be read."""
    code_owners_why: str = ""


class Ways(msgspec.Struct, frozen=True):
    """One limit that lets more through than before."""

    what: str
    before: str
    after: str

    @property
    def text(self) -> str:
        return f"{self.what}: {self.before} is now {self.after}"


def loosened(before: File, after: File) -> tuple[Ways, ...]:
    """Say what lets more through than before. A bucket that is new lets nothing through that was not denied, or not counted."""
    found: list[Ways] = []
    was = {(one.partner, one.identity): one for one in before.buckets}
    now = {(one.partner, one.identity): one for one in after.buckets}
    for key, old in was.items():
        new = now.get(key)
        if new is None:
            found.append(Ways(f"{old.partner} as {old.identity}", old.rules[0].text, "without a quota"))
            continue
        rules = {one.name: one for one in new.rules}
        for rule in old.rules:
            found += _of_rule(f"{new.name}, {rule.name}", rule, rules.get(rule.name))
        if not old.counting("retries") and any(one.counts == "retries" for one in new.rules):
            found.append(Ways(f"{new.name}, retries", "denied", "allowed within a limit"))
    for key, new in now.items():
        if key not in was and before.buckets:
            found.append(Ways(f"{new.partner} as {new.identity}", "without a quota", new.rules[0].text))
    old_retrying = {one.name: one for one in before.retrying}
    for one in after.retrying:
        limits = old_retrying[one.name].limits if one.name in old_retrying else {}
        for name, value in one.limits.items():
            past = limits.get(name)
            if past is not None and ((name in _RETRY_UP and value > past) or (name in _RETRY_DOWN and value < past)):
                found.append(Ways(f"{one.name}, {name}", f"{past:g}", f"{value:g}"))
        if before.retrying and one.name not in old_retrying:
            found.append(Ways(one.name, "no retries under that name", "retries"))
    return tuple(found)


def _of_rule(what: str, old: Rule, new: Rule | None) -> list[Ways]:
    if new is None:
        return [Ways(what, old.text, "gone")]
    if new.counts != old.counts:
        return [Ways(what, f"counts {old.counts}", f"counts {new.counts}")]
    found = []
    if new.cap > old.cap:
        found.append(Ways(f"{what} cap", f"{old.cap:,}", f"{new.cap:,}"))
    if new.window_ms < old.window_ms:
        found.append(Ways(f"{what} window", f"{old.window_ms:,} ms", f"{new.window_ms:,} ms"))
    if new.burst > old.burst:
        found.append(Ways(f"{what} burst", f"{old.burst:,}", f"{new.burst:,}"))
    for name, past, value in (("caller", old.caller, new.caller), ("route", old.route, new.route)):
        if value and value != past:
            found.append(Ways(f"{what} {name}", past or "all", value))
    return found
