"""The quota gate: whose numbers are a partner's limits, who raised them, and do they hold for the worst turn?

1. A source resolves: the policy says which file it is and with which digest, and that file lies there. Where the base knows
   signers, a person has signed it. Its name alone proves nothing: `contract-prompt-payment-terms` may be a contract, and
   `contract-export-88` a chat.
2. Owner and reviewers are people or teams that the policy knows. The path is theirs in CODEOWNERS.
3. What lets more through than in the version before (cap, window, burst, a limit that went away, retries) has so many signatures
   of reviewers whom the version before names. Who may agree is never read from the change.
4. No quota is above what its contract says: in any window of the contract, at most so many; at once, at most so many.
5. The worst case of one moment, all declared layers multiplied (`rules.calls_product`), fits the window, and what goes at once
   fits the burst. For tokens likewise. Retries have a budget of their own, and a smaller one.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._quota_evidence import Bucket, File, Quotas, Retrying, Rule, SourceFact, loosened
from drillmaster.policy import names_a_model
from drillmaster.rules.calls_product import MOST_LAYERS, Layer, calls_product
from drillmaster.rules.quota import MOST_CAP
from drillmaster.verdict import Absent, Check, Cite, Exact, Status, looked_at

__all__ = [
    "Bucket", "Ceiling", "Document", "File", "Layer", "QuotaGate", "Quotas", "Retrying", "Rule", "SourceFact", "gate",
]  # fmt: skip  # words

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]
_Layers = Annotated[tuple[Layer, ...], msgspec.Meta(min_length=1, max_length=MOST_LAYERS)]


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file a source is. `file` is from the root of the repository."""

    source: _Text
    file: _Text
    sha256: Annotated[str, msgspec.Meta(pattern="^(sha256:)?[0-9a-f]{64}$")]


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a contract allows: requests in any window, and at once."""

    partner: _Text
    identity: _Text
    window_ms: Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400_000)]
    max_per_window: _Count
    burst: _Count


class QuotaGate(Gate[Quotas], frozen=True, kw_only=True, tag="quota"):
    """Whether a partner's limits are those of a person's document, and what they are for fits into them.

    Happens: a guards file with quotas is changed, or one is loaded for the first time.
    Breaks: numbers of a model's choice, a cap that was raised without anybody who may, a turn that multiplies into a storm.
    Looks like: a line for each limit that was loosened, and the product of each turn against cap and burst.
    Cannot show: that the document says what the policy's ceilings say; layers that nobody declared; calls past the guard.
    """

    documents: Annotated[tuple[Document, ...], msgspec.Meta(min_length=1)]
    """Which file each source is."""
    owners: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Who may own a quota."""
    reviewers: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Who may review one: identities of people, as the list of allowed signers has them."""
    min_reviewers: Annotated[int, msgspec.Meta(ge=1, le=100)]
    """How many a guards file names at least."""
    raise_reviewers: Annotated[int, msgspec.Meta(ge=1, le=100)]
    """How many of them sign what lets more through."""
    code_owners: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Who has to stand in CODEOWNERS for the path: `@acme/payments`."""
    ceilings: Annotated[tuple[Ceiling, ...], msgspec.Meta(min_length=1)]
    """What the contracts allow, of each partner and identity."""
    turns: Annotated[dict[str, _Layers], msgspec.Meta(min_length=1)]
    """Of each quota every layer around a call: SDK, loop, tools at once, turns at once. With what each calls at most."""
    tokens_per_call: dict[str, _Count]
    """Of each quota that counts tokens, the most that one call uses; {}: none counts them."""

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        for name, layers in self.turns.items():
            try:
                calls_product(layers)
            except ValueError as error:
                raise ValueError(f"turns: {name}: {error}") from None
        for what, names in (
            ("documents", [one.source for one in self.documents]),
            ("ceilings", [f"{one.partner} as {one.identity}" for one in self.ceilings]),
        ):
            twice = next((one for one in names if names.count(one) > 1), None)
            if twice is not None:
                raise ValueError(f"{what}: found {twice!r} twice, wanted each once")
        if self.min_reviewers > len(self.reviewers) or self.raise_reviewers > len(self.reviewers):
            raise ValueError(f"at most as many as there are: found {len(self.reviewers)} reviewers")

    def headline(self, evidence: Quotas) -> tuple[str, ...]:
        since = f", compared with {evidence.since}" if evidence.since else ""
        return (f"{len(evidence.file.buckets)} quotas in {evidence.file.place}{since}",)

    def checks(self, evidence: Quotas) -> Iterator[Check]:
        yield from self._admissions(evidence)
        yield from self._whose(evidence)
        yield self._raised(evidence)
        yield _one_bucket(evidence)
        for bucket in evidence.file.buckets:
            yield self._within_contract(bucket)
            yield from self._worst(bucket)
        pinned = {(one.partner, one.identity) for one in evidence.file.buckets}
        missing = [one for one in self.ceilings if (one.partner, one.identity) not in pinned]
        yield looked_at(
            "every-contract",
            "fail" if missing else "pass",
            "each contract that has a number has a quota",
            why="; ".join(f"{one.partner} as {one.identity} has none" for one in missing[:6]),
        )

    # Whose numbers they are

    def _admissions(self, seen: Quotas) -> Iterator[Check]:
        n = len(seen.file.buckets)
        yield looked_at(
            "examined",
            "pass" if n else "refused",
            f"there are quotas: {n}",
            role="admission",
            observed=Exact(n),
            limit=1,
            why="the file has no entry `guard: quota`",
        )
        end_ns = parse_rfc3339(f"{seen.file.review_by}T23:59:59Z") if seen.file.review_by else None
        stale = end_ns is None or end_ns < seen.now_ns
        yield looked_at(
            "review-day",
            "refused" if stale and not seen.file.article else "pass",
            "the day by which the numbers have to be read again is ahead"
            if not seen.file.article
            else "the article's form has no day for a review: not asked",
            role="admission",
            why=f"review_by is {seen.file.review_by or 'nothing'}",
        )
        yield looked_at(
            "signed",
            "refused" if seen.signing == "refused" else "pass",
            {
                "held": f"the file is signed by {', '.join(seen.signers)}",
                "refused": "the file is signed by a person of the roster who did not make the change",
                "not demanded": "the base knows no signers: nobody was asked to sign",
            }[seen.signing],
            role="admission",
            why=seen.why,
        )

    def _whose(self, seen: Quotas) -> Iterator[Check]:
        file, document = seen.file, next((one for one in self.documents if one.source == seen.file.source), None)
        why = ""
        if document is None or seen.source is None:
            why = f"source {file.source!r} is none of the policy's documents"
        elif seen.source.found != "file":
            why = f"{document.file} is {_KINDS[seen.source.found]}"
        elif seen.source.sha256.removeprefix("sha256:") != document.sha256.removeprefix("sha256:"):
            why = f"{document.file} is not the file that was pinned: its digest is {seen.source.sha256[:19]}"
        yield looked_at(
            "source-resolves", "fail" if why else "pass", f"source {file.source!r} is a file that is pinned", why=why
        )
        told = seen.source or SourceFact(path="", found="absent")
        human = told.signing == "held" or (
            told.signing == "not demanded" and not names_a_model(f"{file.source} {told.path}")
        )
        yield looked_at(
            "source-human",
            "pass" if human and not why else "fail",
            "a person stands behind the source"
            + ("" if told.signing == "held" else ", by its name: nobody signs here"),
            why=told.why or (why if why else f"{file.source!r} or its file names a prompt, a chat or a model"),
        )
        unknown = [one for one in (file.owner,) if one not in self.owners]
        yield looked_at(
            "owner",
            "fail" if unknown else "pass",
            f"the owner is one whom the policy knows: {file.owner!r}",
            why=f"found {file.owner!r}, wanted one of {', '.join(self.owners)}",
        )
        strangers = [one for one in file.reviewers if one not in self.reviewers]
        named = len(set(file.reviewers) - set(strangers))
        yield looked_at(
            "reviewers",
            "pass" if named >= self.min_reviewers and not strangers else "fail",
            f"at least {self.min_reviewers} reviewers whom the policy knows, and no other: {named}",
            observed=Exact(named),
            limit=self.min_reviewers,
            why=f"not known: {', '.join(repr(one) for one in strangers[:6])}" if strangers else f"found {named}",
        )
        absent = [] if seen.code_owners is None else [one for one in self.code_owners if one not in seen.code_owners]
        yield looked_at(
            "code-owners",
            "refused" if seen.code_owners is None else "fail" if absent else "pass",
            f"CODEOWNERS asks {', '.join(self.code_owners)} about {file.place}",
            why=seen.code_owners_why
            if seen.code_owners is None
            else f"it does not ask {', '.join(absent)}; it asks {', '.join(seen.code_owners) or 'nobody'}",
        )

    def _raised(self, seen: Quotas) -> Check:
        title = f"what lets more through is signed by {self.raise_reviewers} of the reviewers before"
        if not seen.since:
            return looked_at(
                "raised",
                "refused",
                title,
                observed=Absent("nothing was compared"),
                why="no version before was named",
            )
        if seen.before is None:
            return looked_at("raised", "pass", f"there was no such file in {seen.since}: nothing can have been raised")
        ways = loosened(seen.before, seen.file)
        agreed = sorted(set(seen.signers) & set(seen.before.reviewers) & set(self.reviewers))
        said = "; ".join(one.text for one in ways[:6]) + (f"; and {len(ways) - 6} more" if len(ways) > 6 else "")
        if not ways:
            return looked_at("raised", "pass", f"nothing lets more through than in {seen.since}", observed=Exact(0))
        status: Status = "pass" if len(agreed) >= self.raise_reviewers else "fail"
        if seen.signing == "not demanded":
            status = "refused"  # nobody can show who agreed
        return looked_at(
            "raised",
            status,
            f"{title}: {', '.join(agreed) or 'nobody'}" + (f" ({said})" if status == "pass" else ""),
            observed=Exact(len(agreed)),
            limit=self.raise_reviewers,
            why=f"against {seen.since}: {said}",
            cites=(Cite(seen.file.place, 1),),
        )

    # What fits

    def _within_contract(self, bucket: Bucket) -> Check:
        id_ = f"contract.{bucket.name}"
        ceiling = next(
            (one for one in self.ceilings if (one.partner, one.identity) == (bucket.partner, bucket.identity)), None
        )
        if ceiling is None:
            return looked_at(
                id_,
                "refused",
                f"{bucket.partner} as {bucket.identity} has a contract with a number",
                observed=Absent("no ceiling in the policy"),
                why="the policy has no ceiling for it",
            )
        rules = bucket.counting("requests")
        # In a window of the contract lie so many of the quota's, begun ones counted whole.
        most = min(one.cap * -(-ceiling.window_ms // one.window_ms) for one in rules)
        burst = min(one.burst for one in rules)
        over = [
            *([f"{most:,} may come in {ceiling.window_ms:,} ms"] if most > ceiling.max_per_window else []),
            *([f"{burst:,} may come at once"] if burst > ceiling.burst else []),
        ]
        return looked_at(
            id_,
            "fail" if over else "pass",
            f"at most {ceiling.max_per_window:,} in any {ceiling.window_ms:,} ms, and {ceiling.burst:,} at once: "
            f"{most:,} and {burst:,}",
            observed=Exact(most),
            limit=ceiling.max_per_window,
            why="; ".join(over),
        )

    def _worst(self, bucket: Bucket) -> Iterator[Check]:
        layers = self.turns.get(bucket.name)
        if layers is None:
            for part in ("cap", "burst"):
                yield looked_at(
                    f"worst-{part}.{bucket.name}",
                    "refused",
                    "the layers around its calls are declared",
                    observed=Absent("not declared"),
                    why=f"the policy's turns have no {bucket.name}",
                )
            return
        product = calls_product(layers)
        per_call = {"requests": 1, "tokens": self.tokens_per_call.get(bucket.name)}
        for part, calls in (("cap", product.calls), ("burst", product.at_once)):
            over, unknown, least = [], False, MOST_CAP
            for counts, each in per_call.items():
                for rule in bucket.counting(counts):
                    if each is None:
                        unknown = True
                        continue
                    has = rule.cap if part == "cap" else rule.burst
                    least = min(least, has // each)
                    if calls * each > has:
                        over.append(f"{calls * each:,} {counts} over {has:,} of {rule.name}")
            yield looked_at(
                f"worst-{part}.{bucket.name}",
                "fail" if over else "refused" if unknown else "pass",
                f"the worst case fits the {'window' if part == 'cap' else 'burst'}: {product.text} is {calls:,}"
                + ("" if part == "cap" else " at once"),
                observed=Exact(min(calls, 2**53)),
                limit=least,
                why="; ".join(over) if over else f"tokens_per_call has no {bucket.name}, and it counts tokens",
            )
        retries = [one for one in bucket.rules if one.counts == "retries"]
        large = [one for one in retries if one.cap * bucket.rules[0].window_ms >= bucket.rules[0].cap * one.window_ms]
        yield looked_at(
            f"retries-apart.{bucket.name}",
            "fail" if large else "pass",
            "retries have a budget of their own, and a smaller one than the quota"
            if retries
            else "nothing counts retries, so that the guard denies each one",
            why="; ".join(f"{one.name}: {one.text}, beside {bucket.rules[0].text}" for one in large[:3]),
        )


_KINDS = {"absent": "not there", "link": "a link", "other": "no regular file"}


def _one_bucket(seen: Quotas) -> Check:
    keys = [(one.partner, one.identity) for one in seen.file.buckets]
    twice = sorted({f"{partner} as {identity}" for partner, identity in keys if keys.count((partner, identity)) > 1})
    return looked_at(
        "one-bucket",
        "fail" if twice else "pass",
        "each partner and identity has one quota",
        why=f"two for {', '.join(twice[:6])}: they spend from one bucket under two sets of numbers",
    )


gate = QuotaGate
