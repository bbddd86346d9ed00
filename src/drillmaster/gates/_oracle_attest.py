"""Whether the people who answer for an oracle said so: trailers, signatures, and the digest of what they looked at."""

from typing import Literal

from drillmaster.changes import Commit, FileChange
from drillmaster.gates._oracle_evidence import Sorted, digest_of, is_told_bot, owns
from drillmaster.verdict import Check, Cite, Exact, Status

__all__ = ["attested", "attested_paths", "people_problems", "signed_off"]

Attest = Literal["digest", "trailer", "no"]


def people_problems(owner: str, told: Sorted) -> str:
    """Say why an owner of the list is nobody who could answer; empty: somebody can."""
    roster = told.change.diff.roster
    if "[bot]" in owner or (is_told_bot(owner) and not owns(owner, roster)):
        return f"{owner} is a bot's name"
    if roster is None:
        return f"{owner}: the base has no roster that would say who that is"
    people = owns(owner, roster)
    if not people:
        return f"{owner} is nobody of the roster, and no team of it"
    if all(one.kind == "bot" for one in people):
        return f"{owner} is a bot"
    here = [one for one in people if one.kind == "human" and not _left(one.until, told.change.now_ns)]
    return "" if here else f"{owner} has left"


def _left(until: str | None, now_ns: int) -> bool:
    from drillmaster.clock import parse_rfc3339

    end_ns = parse_rfc3339(f"{until}T23:59:59Z") if until is not None else None
    return until is not None and (end_ns is None or end_ns < now_ns)


def attested(told: Sorted, attest: Attest) -> Check:
    """Whether each owner of a touched oracle answers for it, as the policy asks."""
    owned = told.owned()
    missing = (
        []
        if attest == "no"
        else [(owner, fault) for owner, files in owned.items() if (fault := _fault(told, owner, files, attest))]
    )
    title = {
        "no": "no owner has to answer for a change of theirs",
        "trailer": "each owner of a touched oracle says so in a commit",
        "digest": "each owner of a touched oracle names the digest of what they looked at, signed",
    }[attest]
    first = missing[0][0] if missing else ""
    told_digest = (
        f" --trailer 'oracle-digest: {digest_of(tuple(owned[first]))}'" if missing and attest == "digest" else ""
    )
    return Check(
        id="attested",
        role="judgement",
        status="fail" if missing else "pass",
        title=title,
        observed=Exact(len(owned) - len(missing), n=len(owned)),
        cites=tuple(Cite(one.path, 0) for owner, _ in missing for one in owned[owner][:20]),
        why="; ".join(f"{owner}: {fault}" for owner, fault in missing),
        remedy=f"once {first} has read the fixtures: git commit -S --allow-empty -m 'oracles read' "
        f"--trailer 'oracle-owner: {first}'{told_digest}"
        if missing
        else "",
    )


def attested_paths(told: Sorted) -> frozenset[str]:
    """Give the oracles whose owners named, signed, the digest of what they looked at."""
    owned = told.owned()
    good = {owner for owner, files in owned.items() if not _fault(told, owner, files, "digest")}
    paths = {one.path for files in owned.values() for one in files}
    return frozenset(path for path in paths if {row.owner for row in told.list.of(path)} <= good)


def _fault(told: Sorted, owner: str, files: list[FileChange], attest: Attest) -> str:
    """Say what is missing of an owner's word; empty: nothing."""
    said = [one for one in told.change.diff.commits if _names(one, owner, told)]
    if not said:
        return "no commit has an oracle-owner trailer of theirs"
    if told.change.signers_known or attest == "digest":
        people = {one.identity for one in owns(owner, told.change.diff.roster) if one.kind == "human"}
        said = [one for one in said if one.signer in people]
        if not said:
            return "the trailer is not in a commit that they signed"
    if attest == "trailer":
        return ""
    wanted = digest_of(tuple(files))
    digests = {value.strip() for one in said for key, value in one.trailers if key.lower() == "oracle-digest"}
    if wanted in digests:
        return ""
    return (
        f"they name no digest of this content, which is {wanted}"
        if not digests
        else f"they looked at something else; this is {wanted}"
    )


def _names(commit: Commit, owner: str, told: Sorted) -> bool:
    words = {owner.casefold(), owner.removeprefix("@").casefold()}
    for one in owns(owner, told.change.diff.roster):
        if one.kind == "human":
            words |= {word.casefold() for word in (one.identity, *one.emails, *one.logins)}
    for key, value in commit.trailers:
        if key.lower() == "oracle-owner":
            text = value.strip().casefold()
            address = text.rpartition("<")[2].rstrip(">")
            if text in words or text.removeprefix("@") in words or (address in words and address):
                return True
    return False


def signed_off(told: Sorted) -> Check:
    """Whether golden content, of source `signed-off`, comes with a person's Signed-off-by in each commit that touches it."""
    bad: list[str] = []
    roster = told.change.diff.roster
    status: Status = "pass"
    for commit in told.change.diff.commits:
        touched = [
            one.path for one in commit.files if any(row.source == "signed-off" for row in told.list.of(one.path))
        ]
        names = [value for key, value in commit.trailers if key.lower() == "signed-off-by"]
        people = [name for name in names if _is_person(name, roster)]
        if touched and not people:
            status = "fail"
            bad += [f"{commit.sha[:12]}: {path}" for path in touched[:4]]
    return Check(
        id="signed-off",
        role="judgement",
        status=status,
        title="golden content comes with a person's Signed-off-by",
        why="; ".join(bad[:8]),
        remedy="git commit --amend -s, by the person who read it" if bad else "",
    )


def _is_person(name: str, roster: object) -> bool:
    from drillmaster.changes import Roster

    if not isinstance(roster, Roster):
        return not is_told_bot(name)
    address = name.rpartition("<")[2].rstrip("> ").casefold()
    return any(
        address in {one.casefold() for one in person.emails} for person in roster.people if person.kind == "human"
    )
