"""Evidence on which each check of the quota gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.quota import (
    Bucket,
    Ceiling,
    Document,
    File,
    Layer,
    QuotaGate,
    Quotas,
    Retrying,
    Rule,
    SourceFact,
)
from drillmaster.verdict import Status

__all__ = ["GOOD", "LIMITS", "NOW_NS", "bucket", "but", "cases", "file", "limits", "rule"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
_SHA = "sha256:" + "ab" * 32
_LAYERS = (
    Layer(name="SDK", kind="again", times=1),
    Layer(name="loop", kind="again", times=3),
    Layer(name="tools", kind="beside", times=2),
    Layer(name="turns", kind="turns", times=2),
)
LIMITS = QuotaGate(
    documents=(Document(source="contract-2026-q3", file="contracts/maps-2026-q3.pdf", sha256=_SHA),),
    owners=("platform-api",),
    reviewers=("ada@example.com", "grace@example.com", "edsger@example.com"),
    min_reviewers=2,
    raise_reviewers=2,
    code_owners=("@acme/platform-api", "@acme/security"),
    ceilings=(
        Ceiling(partner="maps-api", identity="prod-outbound-maps", window_ms=60_000, max_per_window=30, burst=5),
    ),
    turns={"maps": _LAYERS},
    tokens_per_call={"maps": 100},
)


def rule(**more: Any) -> Rule:
    """The quota's own limit, with other numbers."""
    return msgspec.structs.replace(Rule(name="requests", counts="requests", window_ms=60_000, cap=30, burst=5), **more)


_TOKENS = Rule(name="tokens", counts="tokens", window_ms=60_000, cap=3_000, burst=500)
_AGAIN = Rule(name="again", counts="retries", window_ms=60_000, cap=6, burst=2)


def bucket(*rules: Rule, **more: Any) -> Bucket:
    """The good quota, with other limits."""
    good = Bucket(
        name="maps", partner="maps-api", identity="prod-outbound-maps", rules=rules or (rule(), _TOKENS, _AGAIN)
    )
    return msgspec.structs.replace(good, **more)


def file(*buckets: Bucket, **more: Any) -> File:
    """The good file, with other quotas."""
    good = File(
        place="config/guards.yaml",
        source="contract-2026-q3",
        owner="platform-api",
        reviewers=("ada@example.com", "grace@example.com"),
        review_by="2027-02-28",
        buckets=buckets or (bucket(),),
        retrying=(Retrying(name="retry", limits={"max_calls": 3, "budget_tokens": 10, "refund": 0.1}),),
    )
    return msgspec.structs.replace(good, **more)


GOOD = Quotas(
    file=file(),
    now_ns=NOW_NS,
    source=SourceFact(path="contracts/maps-2026-q3.pdf", found="file", sha256=_SHA, signing="held"),
    since="v2026.09.15",
    before=file(),
    signing="held",
    signers=("ada@example.com", "grace@example.com"),
    code_owners=("@acme/platform-api", "@acme/security"),
)


def but(**more: Any) -> Quotas:
    """The good evidence with other fields."""
    return msgspec.structs.replace(GOOD, **more)


def limits(**more: Any) -> QuotaGate:
    """The limits with other ones."""
    return msgspec.structs.replace(LIMITS, **more)


def _source(**more: Any) -> Quotas:
    assert GOOD.source is not None
    return but(source=msgspec.structs.replace(GOOD.source, **more))


def _of(*rules: Rule) -> Quotas:
    """These limits now and before: only what fits is asked."""
    return but(file=file(bucket(*rules)), before=file(bucket(*rules)))


def _raised(new: Rule | None = None, **more: Any) -> Quotas:
    changed = file(bucket(new, _TOKENS, _AGAIN)) if new is not None else file()
    return msgspec.structs.replace(but(file=changed, signers=("ada@example.com",)), **more)


def _red() -> Iterator[tuple[str, Status, Quotas]]:
    yield "examined", "refused", but(file=file(buckets=()))
    yield "review-day", "refused", but(file=file(review_by="2026-11-29"))
    yield "review-day", "refused", but(file=file(review_by="soon"))
    yield "signed", "refused", but(signing="refused", why="found no signature", signers=())
    yield "source-resolves", "fail", but(source=None, file=file(source="contract-"))
    yield "source-resolves", "fail", _source(found="absent", sha256="")
    yield "source-resolves", "fail", _source(found="link", sha256="")
    yield "source-resolves", "fail", _source(sha256="sha256:" + "cd" * 32)
    yield "source-human", "fail", _source(signing="refused", why="found nobody's signature")
    yield "source-human", "fail", but(source=None, file=file(source="prompt-session-88"))
    yield "source-human", "fail", _source(signing="not demanded", path="exports/chat-88.txt")
    yield "owner", "fail", but(file=file(owner="free-model"))
    yield "owner", "fail", but(file=file(owner=""))
    yield "reviewers", "fail", but(file=file(reviewers=("ada@example.com",)))
    yield "reviewers", "fail", but(file=file(reviewers=("ada@example.com", "grace@example.com", "claude")))
    yield "reviewers", "fail", but(file=file(reviewers=("ada@example.com", "ada@example.com")))
    yield "code-owners", "refused", but(code_owners=None, code_owners_why="there is no CODEOWNERS")
    yield "code-owners", "fail", but(code_owners=("@acme/platform-api",))
    yield "raised", "refused", but(since="", before=None)
    yield "raised", "fail", _raised(rule(cap=31))
    yield "raised", "fail", _raised(rule(burst=6))
    yield "raised", "fail", _raised(rule(window_ms=59_000))
    yield "raised", "refused", _raised(rule(cap=31), signing="not demanded", signers=())
    yield "raised", "fail", _raised(rule(cap=31), signers=("ada@example.com", "edsger@example.com"))
    retrying = (Retrying(name="retry", limits={"max_calls": 4, "budget_tokens": 10, "refund": 0.1}),)
    yield "raised", "fail", _raised(file=file(retrying=retrying))
    yield "raised", "fail", _raised(file=file(bucket(rule(), _AGAIN)))
    yield "one-bucket", "fail", but(file=file(bucket(), bucket(name="maps-2")))
    yield "contract.maps", "fail", _of(rule(cap=31))
    yield "contract.maps", "fail", _of(rule(burst=6))
    yield "contract.maps", "fail", _of(rule(window_ms=7_000, cap=4, burst=4))  # nine of them in a minute, which is 36
    yield (
        "contract.maps",
        "refused",
        but(file=file(bucket(identity="staging")), before=file(bucket(identity="staging"))),
    )
    yield "every-contract", "fail", but(file=file(bucket(identity="staging")), before=file(bucket(identity="staging")))
    yield "worst-cap.maps", "fail", _of(rule(cap=11))
    yield "worst-cap.maps", "fail", _of(rule(), msgspec.structs.replace(_TOKENS, cap=1_100))
    yield "worst-burst.maps", "fail", _of(rule(burst=3))
    yield "worst-burst.maps", "fail", _of(rule(), msgspec.structs.replace(_TOKENS, burst=300))
    yield "worst-cap.other", "refused", _named("other")
    yield "worst-burst.other", "refused", _named("other")
    yield "retries-apart.maps", "fail", _of(rule(), msgspec.structs.replace(_AGAIN, cap=30))
    yield "retries-apart.maps", "fail", _of(rule(), msgspec.structs.replace(_AGAIN, window_ms=6_000, cap=3))


def _named(name: str) -> Quotas:
    return but(file=file(bucket(name=name)), before=file(bucket(name=name)))


def _green() -> Iterator[tuple[str, Quotas]]:
    for check in ("examined", "review-day", "signed", "source-resolves", "source-human", "owner", "reviewers"):
        yield check, GOOD
    for check in ("code-owners", "raised", "one-bucket", "every-contract", "contract.maps"):
        yield check, GOOD
    for check in ("worst-cap.maps", "worst-burst.maps", "retries-apart.maps"):
        yield check, GOOD
    yield "raised", _raised(rule(cap=31), signers=("ada@example.com", "grace@example.com"))
    yield "raised", _raised(rule(cap=20, burst=4))  # lower
    yield "raised", but(before=None)
    yield "source-human", _source(signing="not demanded")
    yield "signed", but(signing="not demanded", signers=())
    yield "contract.maps", _of(rule(window_ms=6_000, cap=3, burst=3))
    yield "retries-apart.maps", _of(rule())


def cases() -> Iterator[Case]:
    """Give the cases."""
    for check, status, evidence in _red():
        yield Case(check=_pattern(check), status=status, gate=LIMITS, evidence=evidence)
    for check, evidence in _green():
        yield Case(check=_pattern(check), status="pass", gate=LIMITS, evidence=evidence)


def _pattern(check: str) -> str:
    return f"{check.partition('.')[0]}.*" if "." in check else check
