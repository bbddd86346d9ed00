"""Checks of the contract gate on content: does it break somebody, was that announced, and do the consumers' examples hold?"""

import re
from collections.abc import Iterator

from drillmaster.clock import parse_rfc3339
from drillmaster.gates._contract_evidence import ContractChange, Reading, SideName, bumped
from drillmaster.gates._contract_locked import makers_of, named_person, outcome
from drillmaster.rules.schema_break import Break
from drillmaster.verdict import Check

__all__ = ["SideName", "compared_checks", "fixture_checks", "sensitive_words"]

_DAY_NS = 86_400 * 10**9
_UNFOLLOWED = frozenset({"remote-reference", "dead-reference"})


def compared_checks(change: ContractChange, enum_window_days: int, sensitive: tuple[str, ...]) -> Iterator[Check]:
    """All checks of what the documents say."""
    yield _documents(change)
    yield _references(change)
    yield _versions(change, enum_window_days)
    yield _enums(change, enum_window_days)
    yield _by_draft(change)
    yield _sensitive(change, sensitive)


def _asking(reading: Reading) -> tuple[Break, ...]:
    """What asks for a new version: all that breaks or may break somebody, but for what is told elsewhere."""
    return tuple(one for one in reading.found if one.level != "note" and one.rule not in _UNFOLLOWED)


def _documents(change: ContractChange) -> Check:
    bad = [one for one in change.readings if one.fault]
    return outcome(
        "readable",
        "every touched document can be read in one way only",
        (f"{one.fault}" for one in bad),
        remedy="mend the document where it says",
        cites=(one.path for one in bad),
        examined=len(change.readings),
    )


def _references(change: ContractChange) -> Check:
    bad = [
        f"{reading.path}{one.at}: {one.says}"
        for reading in change.readings
        for one in reading.found
        if one.rule in _UNFOLLOWED and one.level == "unclear"
    ]
    return outcome(
        "references",
        "every reference leads within the document, or to a file beside it that is a contract itself",
        bad,
        remedy="put what the reference names into the document, under $defs or components",
        examined=len(change.readings),
    )


def _gone_after_notice(one: Break, window_days: int, now_ns: int) -> bool:
    since_ns = parse_rfc3339(f"{one.since[:10]}T00:00:00Z") if one.since else None
    return since_ns is not None and now_ns - since_ns >= window_days * _DAY_NS


def _versions(change: ContractChange, window_days: int) -> Check:
    bad = []
    for one in change.readings:
        if one.fault:
            continue
        asking = [
            b
            for b in _asking(one)
            if not ("enum-value-removed" in b.rule and _gone_after_notice(b, window_days, change.now_ns))
        ]
        step = bumped(one.version_before, one.version_after)
        moved = f"version {one.version_before or 'none'} to {one.version_after or 'none'}"
        if asking and step is not True:
            bad.append(
                f"{one.path}, {moved}: {asking[0].says}" + (f" (and {len(asking) - 1} more)" if asking[1:] else "")
            )
        elif one.fault_before:
            bad.append(f"{one.path}: what it was cannot be read ({one.fault_before}): whom it breaks cannot be told")
        elif step is False and bumped(one.version_after, one.version_before) is True:
            bad.append(f"{one.path}: its version went back, {moved}")
    return outcome(
        "version-bump",
        "what breaks somebody has a version of its own",
        bad,
        remedy="ship it as a new file beside the old one, or raise the first number of its version",
        cites=(one.path for one in change.readings),
        examined=sum(len(_asking(one)) for one in change.readings),
    )


def _enums(change: ContractChange, window_days: int) -> Check:
    bad, seen = [], 0
    for reading in change.readings:
        for one in reading.found:
            if not one.rule.endswith("enum-value-removed"):
                continue
            seen += 1
            if not _gone_after_notice(one, window_days, change.now_ns):
                told = f"announced on {one.since[:10]}" if one.since else "never announced"
                bad.append(f"{reading.path}{one.was}: {one.old[:40]} is gone, {told}")
    return outcome(
        "enum-window",
        f"a value leaves a list {window_days} days after it was announced",
        bad,
        remedy='put the value back, and announce it beside the list: "x-deprecated-values": {"VALUE": "2026-12-01"}',
        cites=(one.path for one in change.readings),
        examined=seen,
    )


def _by_draft(change: ContractChange) -> Check:
    lane = change.diff.lane
    moved = [one for one in change.readings if one.version_before != one.version_after]
    return outcome(
        "version-by-draft",
        "versions are the lock owner's, never a draft's",
        (
            f"{one.path}: {one.version_before or 'none'} to {one.version_after or 'none'}, in a change of lane {lane.name}"
            for one in moved
            if lane.name != "human"
        ),
        remedy="take the version out of the draft; who owns the lock sets it",
        cites=(one.path for one in moved),
        why=f"{len(moved)} moved, by {lane.by}" if moved else "",
    )


def sensitive_words(text: str, words: tuple[str, ...]) -> list[str]:
    """Find which words a name holds as words: `tax` is in `tax_id` and `taxId`, and not in `syntax`."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    found = {part.lower() for part in re.split(r"[^A-Za-z0-9]+", parts) if part}
    return [word for word in words if word.lower() in found or f"{word.lower()}s" in found]


def _sensitive(change: ContractChange, words: tuple[str, ...]) -> Check:
    title = "what touches identity, money or deletion was reviewed by two"
    head = change.head_lock
    bad = []
    hits: dict[str, str] = {}
    for reading in change.readings:
        for one in reading.found:
            if one.level == "note" and not one.rule.startswith("security"):
                continue
            named = sensitive_words(f"{one.says} {one.at} {one.was}", words)
            if named or one.rule.startswith("security"):
                hits.setdefault(reading.path, named[0] if named else "security")
    hits |= {one.path: one.cls for one in change.contracts if one.cls in ("iam", "audit")}
    if head is not None and head.article and hits:
        return outcome(
            "sensitive",
            title,
            (),
            remedy="",
            why=f"{', '.join(hits)}: the article's lock has no field for a second reviewer: not looked at",
        )
    for path, word in hits.items():
        review = head.pending.get(path) if head is not None else None
        if review is None:
            continue  # told as unsigned
        roster, now_ns = change.diff.roster, change.now_ns
        pair = [review.reviewer.strip(), review.second.strip()]
        people = [named_person(one, roster, now_ns) if roster is not None else one for one in pair if one]
        makers = makers_of(change.diff, {path}, roster=roster, now_ns=now_ns)
        if len({one for one in people if one and one not in makers}) < 2:
            bad.append(
                f"{path} touches {word}: a second reviewer is wanted beside {review.reviewer[:40] or 'the first'}"
            )
        elif change.signed is not None and not change.signed.problem and len(change.signed.by) < 2:
            bad.append(f"{path} touches {word}: the lock has one signature, and two are wanted")
    return outcome(
        "sensitive",
        title,
        bad,
        remedy="drillmaster contract pend FILE --reviewer NAME --second NAME --expires DAY, and have both sign the lock",
        cites=hits,
        examined=len(hits),
    )


def fixture_checks(change: ContractChange, *, demanded: bool, manifest: str) -> Iterator[Check]:
    """All checks of the consumers' examples."""
    yield _present(change, demanded, manifest)
    yield _hold(change, manifest)
    yield _fixtures_apart(change, manifest)


def _tried(change: ContractChange) -> list[Reading]:
    return [one for one in change.readings if one.kind in ("schema", "tools", "openapi") and not one.fault]


def _present(change: ContractChange, demanded: bool, manifest: str) -> Check:
    title = "every touched contract has an example that must fit and one that must not"
    if change.fixtures_fault:
        bad = [change.fixtures_fault]
    elif change.base_fixtures is None and change.head_fixtures is None:
        missing = [one.path for one in _tried(change)]
        bad = [f"there is no {manifest}, and {missing[0]} has no example"] if demanded and missing else []
    else:
        bad = []
        for one in _tried(change):
            kinds = {f.expect for f in change.fixtures if f.contract == one.path}
            lacking = [kind for kind in ("valid", "invalid") if kind not in kinds]
            if lacking and (kinds or demanded):
                bad.append(f"{one.path} has none that is to be {' and none that is to be '.join(lacking)}")
    return outcome(
        "fixtures-present",
        title,
        bad,
        remedy=f"add to {manifest}, in a change of its own: an example with expect: valid and one with expect: invalid",
        examined=len(_tried(change)),
        why="" if change.fixtures else "no fixtures: only digests and forms were looked at",
    )


def _hold(change: ContractChange, manifest: str) -> Check:
    title = f"the consumers' examples hold: {len(change.trials)} tried"
    if change.untried:
        return outcome(
            "fixtures-hold", title, (change.untried,), remedy=change.untried.rpartition(": ")[2], otherwise="refused"
        )
    bad = []
    for one in change.trials:
        named = f"{one.fixture.file} ({one.fixture.consumer or 'a consumer'}) on {one.fixture.contract}"
        if one.outcome == "error":
            bad.append(f"{named} could not be tried: {one.why}")
        elif one.outcome != one.fixture.expect and one.fixture.expect == "invalid":
            bad.append(f"{named} must not fit, and fits")
        elif one.outcome != one.fixture.expect:
            bad.append(f"{named} must fit, and does not: {one.why}")
    contract = next((one.fixture.contract for one in change.trials if one.outcome != one.fixture.expect), "FILE")
    return outcome(
        "fixtures-hold",
        title,
        bad,
        remedy=f"drillmaster contract drop {contract}, and mend the contract; the examples are its consumers'",
        cites=(one.fixture.file for one in change.trials if one.outcome != one.fixture.expect),
        examined=len(change.trials),
    )


def _fixtures_apart(change: ContractChange, manifest: str) -> Check:
    """Who changes a contract does not change what it is tried with. A contract that is new brings its own."""
    new = {one.path for one in change.contracts if not one.before}
    before = change.base_fixtures.fixtures if change.base_fixtures else ()
    after = change.head_fixtures.fixtures if change.head_fixtures else ()
    old = {one.path for one in change.contracts} - new
    paths = set(change.diff.paths())
    bad = [
        f"{one.file} changed beside {one.contract}"
        for one in (*before, *after)
        if one.file in paths and one.file not in old and one.contract in old
    ]
    kept = [{one for one in book if one.contract not in new} for book in (before, after)]
    if manifest in paths and old and kept[0] != kept[1]:
        bad.append(f"{manifest} changed beside {min(old)}")
    return outcome(
        "fixtures-apart",
        "the examples were left alone",
        bad,
        remedy="take the examples out of the change, and let the consumer who owns them change them in one of their own",
        cites=(manifest,),
    )
