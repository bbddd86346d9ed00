"""Whose change is it: the lane of a range of commits, and on whose word.

1. A commit is a person's where its signature is one of the roster's, or where the code host says who opened the change
   and that account is a person's on the roster. The author line alone is nobody's word: anybody can write one.
2. A bot anywhere makes the change a bot's: as signer, as the account, as author or among the co-authors. An account that
   the code host itself calls a bot is one.
3. A co-author whom the roster does not know leaves the change unknown: who wrote that part cannot be told.
4. Whoever left the roster is nobody from the day after.
5. Without a roster, without commits, or with one commit that is nobody's: unknown. Unknown has no authority.
6. A merge that wrote nothing beyond what its parents had, and took back nothing of what they did, is nobody's work and is
   not looked at. Where there are no other commits, nobody is known.
7. A roster in which a name, an address or an account is two people's says of nobody who they are, and is none.
8. What an environment variable says can lower the lane and never raises it.
"""

import re

import msgspec

from drillmaster.changes import Commit, Lane, Person, Roster
from drillmaster.clock import parse_rfc3339

__all__ = [
    "NO_ROSTER",
    "Actor",
    "lane_of",
    "person_of_email",
    "person_of_identity",
    "person_of_login",
    "roster_fault",
    "told_bot",
]

NO_ROSTER = "no roster at the base: nobody is known"
"""Why a lane is unknown before the first roster was merged."""

_ADDRESS = re.compile(r"<([^<>]*)>\s*$")
_BOT_NAME = re.compile(r"\[bot\]$|^(?:dependabot|renovate|github-actions)\b", re.IGNORECASE)


class Actor(msgspec.Struct, frozen=True):
    """Who opened the change, by the code host's own event. `is_bot` None: it did not say."""

    login: str
    is_bot: bool | None = None


def _here(person: Person, now_ns: int) -> bool:
    if person.until is None:
        return True
    end_ns = parse_rfc3339(f"{person.until}T23:59:59Z")
    return end_ns is not None and now_ns <= end_ns


def person_of_identity(roster: Roster | None, identity: str | None, *, now_ns: int) -> Person | None:
    """Find who signs by that identity; None for nobody, and for one who has left."""
    people = roster.people if roster is not None and identity else ()
    return next((one for one in people if one.identity == identity and _here(one, now_ns)), None)


def person_of_email(roster: Roster | None, author: str, *, now_ns: int) -> Person | None:
    """Find whom an author line (`Name <address>`) or a bare address names."""
    match = _ADDRESS.search(author)
    address = (match[1] if match else author).strip().lower()
    people = roster.people if roster is not None and address else ()
    return next((one for one in people if address in {e.lower() for e in one.emails} and _here(one, now_ns)), None)


def person_of_login(roster: Roster | None, login: str, *, now_ns: int) -> Person | None:
    """Find whose account that is on the code host."""
    people = roster.people if roster is not None and login else ()
    return next(
        (one for one in people if login.lower() in {a.lower() for a in one.logins} and _here(one, now_ns)), None
    )


def roster_fault(roster: Roster) -> str:
    """Say what is wrong with a roster (rule 7); empty: nothing is. Case sets no two people apart."""
    for what, of in (
        ("name", lambda one: (one.identity,)),
        ("address", lambda one: one.emails),
        ("account", lambda one: one.logins),
    ):
        met: dict[str, str] = {}
        for one in roster.people:
            for word in {text.strip().casefold() for text in of(one)}:
                if not word:
                    return f"an empty {what}"
                if word in met:
                    return f"the {what} {word} of two entries"
                met[word] = one.identity
    return ""


def told_bot(name: str) -> bool:
    """Whether a name says of itself that it is a bot's."""
    return _BOT_NAME.search(name.partition("<")[0].strip()) is not None


def lane_of(
    commits: tuple[Commit, ...],
    roster: Roster | None,
    *,
    actor: Actor | None,
    lowered: str | None,
    now_ns: int,
) -> Lane:
    """Give the lane by the rules above. `lowered` is what an environment said, None where it said nothing."""
    if lowered is not None and lowered.strip().lower() not in ("", "human"):
        return Lane(name="free", by=f"the environment says {lowered.strip()[:40]!r}")
    if roster is None:
        return Lane(name="unknown", by=NO_ROSTER)
    if not commits:
        return Lane(name="unknown", by="no commits")
    opened_by = None
    if actor is not None:
        opened_by = person_of_login(roster, actor.login, now_ns=now_ns)
        if actor.is_bot or told_bot(actor.login) or (opened_by is not None and opened_by.kind == "bot"):
            return Lane(name="free", by=f"account {actor.login}, a bot, opened it or pushed to it")
    people: set[str] = set()
    if opened_by is not None:
        people.add(opened_by.identity)
    for commit in commits:
        if len(commit.parents) > 1 and not commit.files:
            continue  # a merge that wrote nothing of its own: what it brought in stands in its own commits
        for name in (commit.author, *commit.co_authors):
            known = person_of_email(roster, name, now_ns=now_ns)
            if told_bot(name) or (known is not None and known.kind == "bot"):
                return Lane(name="free", by=f"commit {commit.sha[:12]} is {name.partition('<')[0].strip()}'s, a bot")
        unknown = [name for name in commit.co_authors if person_of_email(roster, name, now_ns=now_ns) is None]
        if unknown:
            return Lane(name="unknown", by=f"commit {commit.sha[:12]} has a co-author who is not on the roster")
        signer = person_of_identity(roster, commit.signer, now_ns=now_ns)
        if signer is not None and signer.kind == "bot":
            return Lane(name="free", by=f"commit {commit.sha[:12]} is signed by {signer.identity}, a bot")
        if signer is not None:
            people.add(signer.identity)
        elif opened_by is None:
            what = f"account {actor.login} is not on the roster" if actor is not None else "nobody signed it"
            return Lane(name="unknown", by=f"commit {commit.sha[:12]}: {what}")
        people |= {
            who.identity
            for name in (commit.author, *commit.co_authors)
            if (who := person_of_email(roster, name, now_ns=now_ns)) is not None
        }
    if not people:
        return Lane(name="unknown", by="nothing but merges, which are nobody's")
    word = f"account {actor.login}, by the event of the code host" if opened_by and actor else "signatures"
    return Lane(name="human", by=f"{word} of {', '.join(sorted(people))}", people=tuple(sorted(people)))
