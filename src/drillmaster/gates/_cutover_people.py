"""Who stands behind a cutover plan: people of the base's roster, whose commits set its times, and who signed its bytes.

1. Whoever a plan names is on the roster, a person, and stays until the window is over. A team is nobody.
2. Each timed field was last changed by the person whom the plan names for them: by signature where the base has
   allowed_signers, by author line, which anybody can write, where it has none.
3. Two people who are not among those authors signed the plan. Where the base has no allowed_signers no signature can be
   checked, none is asked, and the verdict is stamped.
"""

from collections.abc import Iterator

from drillmaster.changes import Commit, Person, Roster
from drillmaster.gates._cutover_evidence import Evidence, Tied, person_named
from drillmaster.gates._cutover_plan import say
from drillmaster.rules.cutover_plan import TIMED
from drillmaster.rules.free_lane import human
from drillmaster.rules.lanes import person_of_email, person_of_identity, told_bot
from drillmaster.strict import shown
from drillmaster.verdict import Check

__all__ = ["REVIEWERS", "tied_checks"]

REVIEWERS = 2
"""The article's: two people read the plan who did not write it."""
_NO_BASE = "no base ref is named"
_ADD_BASE = "add --base origin/main, or commit the plan and add --base HEAD"


def tied_checks(evidence: Evidence, tied: Tied | None, *, team: str | None = None) -> Iterator[Check]:
    """Judge what ties a plan to people. `team` None: any person of the roster may own the rollback."""
    plan = evidence.plan
    roster = tied.roster if tied else None
    why = _NO_BASE if tied is None else f"{tied.base[:12]} has no .drillmaster/roster.yaml"
    yield say(
        "roster",
        f"the base knows its people: {len(roster.people) if roster else 0}",
        "pass" if roster and roster.people else "refused",
        role="admission",
        why="nobody is on it" if roster else why,
        remedy=_ADD_BASE if tied is None else "write .drillmaster/roster.yaml and merge it first",
    )
    # Until the window is over: who leaves the day before rolls nothing back.
    until_ns = max(evidence.now_ns, plan.end_ns or 0)
    for id_, name, title in (
        ("timed-author-on-roster", plan.timed_fields, "who set the timed fields is a person of the roster"),
        ("rollback-owner-on-roster", plan.rollback_owner, "who owns the rollback is a person of the roster"),
        ("key-author-on-roster", plan.author, "who wrote the key format is a person of the roster"),
    ):
        mine = team if id_.startswith("rollback") else None
        yield _on_roster(id_, title, name, roster, until_ns, mine, based=tied is not None)
    yield say(
        "committed",
        "the plan that is judged is the one that was committed",
        "refused" if tied is None else "pass" if tied.committed else "fail",
        why=_NO_BASE if tied is None else "the file differs from what was committed, or was never committed",
        remedy=_ADD_BASE if tied is None else "git add the plan, and commit it signed: git commit -S",
    )
    yield _set_by_people(evidence, tied)
    yield _reviewed(evidence, tied)


def _on_roster(
    id_: str, title: str, given: str | None, roster: Roster | None, at_ns: int, team: str | None, *, based: bool
) -> Check:
    name, wrong = human(given)
    if roster is None:
        remedy = "write .drillmaster/roster.yaml and merge it first" if based else _ADD_BASE
        return say(id_, title, "refused", why="no roster is known" if based else _NO_BASE, remedy=remedy)
    person = person_named(roster, name, now_ns=at_ns) if name else None
    why = wrong and f"{shown(given)}: {wrong}"
    if not why and person is None:
        gone = person_named(roster, name, now_ns=0)
        teams = {one for someone in roster.people for one in someone.teams}
        why = f"{name} is not on it"
        if gone is not None:
            why = f"{name} leaves on {gone.until}, before the window is over"
        elif name in teams:
            why = f"{name} is a team; a team answers no page"
    if not why and person is not None and person.kind != "human":
        why = f"{name} is a bot"
    if not why and person is not None and team is not None and team not in person.teams:
        why = f"{name} is not in {team}"
    return say(id_, title, "fail" if why else "pass", why=why, remedy="name one person of the roster: human:IDENTITY")


def _set_by_people(evidence: Evidence, tied: Tied | None) -> Check:
    """Rule 2: each timed field was last changed by the person whom the plan names for them."""
    by = "signature" if tied and tied.signed else "author line"
    title = f"each timed field was last changed by the person the plan names, by {by}"
    remedy = "have that person set the timed fields, in a commit of their own, signed: git commit -S"
    if tied is None or tied.history or tied.roster is None or not tied.settings:
        why = _NO_BASE if tied is None else tied.history or "who changed them cannot be told"
        return say("timed-fields-commit", title, "refused", why=why, remedy=_ADD_BASE if tied is None else remedy)
    name, _ = human(evidence.plan.timed_fields)
    named = person_named(tied.roster, name, now_ns=evidence.now_ns) if name else None
    wrong: dict[str, list[str]] = {}
    for one in tied.settings:
        why = _not_theirs(one.commit, named, tied, evidence.now_ns)
        if why:
            wrong.setdefault(why, []).append(one.pointer.rpartition("/")[2])
    missing = [pointer for pointer in TIMED if pointer not in {one.pointer for one in tied.settings}]
    if missing:
        wrong["nobody set them"] = [pointer.rpartition("/")[2] for pointer in missing]
    why = "; ".join(f"{', '.join(fields)}: {why}" for why, fields in wrong.items())
    return say("timed-fields-commit", title, "fail" if why else "pass", why=why, remedy=remedy)


def _not_theirs(commit: Commit, named: Person | None, tied: Tied, now_ns: int) -> str:
    where = f"commit {commit.sha[:12]}"
    for line in (commit.author, *commit.co_authors):
        known = person_of_email(tied.roster, line, now_ns=0)
        if told_bot(line) or (known is not None and known.kind == "bot"):
            return f"{where} is a bot's"
        if known is None and line != commit.author:
            return f"{where} has a co-author who is not on the roster"
    if tied.signed:
        if commit.signer is None:
            return f"{where} is signed by nobody whom the base knows"
        who = person_of_identity(tied.roster, commit.signer, now_ns=0)
    else:
        who = person_of_email(tied.roster, commit.author, now_ns=0)
    if who is None or who.kind != "human":
        return f"{where} is no person's of the roster"
    if named is None or who.identity != named.identity:
        return f"{where} is {who.identity}'s"
    return ""


def _reviewed(evidence: Evidence, tied: Tied | None) -> Check:
    """Rule 3."""
    title = f"{REVIEWERS} people who did not write the plan signed it"
    remedy = f"drillmaster policy sign {evidence.place} --key KEY, and another reviewer: the same with --as second"
    if tied is None:
        return say("reviewers", title, "refused", why=_NO_BASE, remedy=_ADD_BASE)
    if not tied.signed:
        return say("reviewers", "no signature of reviewers is asked: the base has no allowed_signers", "pass")
    timed = person_named(tied.roster, human(evidence.plan.timed_fields)[0], now_ns=0)
    wrote = {timed.identity} if timed is not None else set()
    wrote |= {one.commit.signer for one in tied.settings if one.commit.signer}
    wrote |= {
        person.identity
        for one in tied.settings
        for line in (one.commit.author, *one.commit.co_authors)
        if (person := person_of_email(tied.roster, line, now_ns=0)) is not None
    }
    counted = [one for one in dict.fromkeys(tied.reviewers) if one not in wrote]
    ok = not tied.review and len(counted) >= REVIEWERS
    own = [one for one in tied.reviewers if one in wrote]
    why = tied.review or f"signed by {', '.join(counted) or 'nobody'}" + (f"; {', '.join(own)} wrote it" if own else "")
    return say(
        "reviewers",
        f"{title}: {', '.join(counted)}" if ok else title,
        "pass" if ok else "fail",
        observed=len(counted),
        limit=REVIEWERS,
        why=why,
        remedy=remedy,
    )
