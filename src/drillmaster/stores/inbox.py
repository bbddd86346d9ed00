"""An inbox of events: kept once before anybody is told so, worked on at least once, with exactly one effect.

1. An event is known by its source and its identifier, which are unique together. It is kept by one statement, which is on disk
   before `keep` returns. What is there is never written over: another body under the same identifier lies in a table of its own.
2. A worker claims an event for a while, by the store's clock. A claim that has run out, or that is from the future since the clock
   went back, is anybody's. So an event may be worked on twice, and by two at once.
3. What it comes to is written once: the mark `done`, the effect and what the caller adds to it are one transaction, which the claim
   has to have survived, and the effect's own index is unique. Whoever comes second changes nothing.
4. Money is a whole number of the currency's smallest unit. A float, a text, a bool, nothing and less than nothing are no money.
5. An inbox is prepared once, by a person. One that is not is refused: an empty file that appears where a volume was not mounted
   would take events that nobody finds again. So is a file that was moved or taken away while it was open.
6. What belongs to an effect is written in the transaction that it is given, which is not its own to end.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from drillmaster.errors import Problem, one_line

__all__ = [
    "LONGEST_WAIT_MS",
    "Arrival",
    "Backend",
    "Connection",
    "Counts",
    "Effect",
    "Event",
    "Inbox",
    "Kept",
    "Noted",
    "Open",
    "Settled",
    "Unapplied",
    "Unkept",
    "effect_fault",
]

Kept = Literal["new", "known", "other-body"]
Settled = Literal["done", "known", "lost"]

LONGEST_WAIT_MS = 3_600_000
"""The longest that an event waits for its next attempt. What says more was written by a clock that has been set back since."""
T = TypeVar("T")

_MOST_MINOR = 2**53 - 1
_CURRENCY = re.compile(r"[A-Z]{3}")
_MOST_TEXT = 200


class Unkept(Problem):
    """The inbox gave no answer. What was asked of it may have been done or not; asking again is safe."""


class Unapplied(Exception):
    """What belongs to an effect could not be written, and so nothing was. Says the error's type; the rest may quote the event."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it came. `digest` says whether two of one identifier are the same."""

    source: str
    event_id: str
    digest: str
    body: bytes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is claimed."""

    source: str
    event_id: str
    body: bytes
    attempt: int
    """How often it was claimed, this time included."""
    claim: str


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What an event comes to. Rule 4 holds for the amount."""

    kind: str
    account: str
    amount_minor: int
    currency: str


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said of an event, after it was checked. Nothing follows from it."""

    headline: str
    risk: Literal["low", "medium", "high"]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int
    done: int
    parked: int
    effects: int
    notes: int
    other_bodies: int
    """Bodies that came under an identifier that had another one, and that nobody looked at yet."""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person: an event that is parked, or another body under its identifier."""

    kind: Literal["parked", "other-body"]
    source: str
    event_id: str
    why: str
    """The reason; of another body its digest."""
    times: int
    """Attempts; of another body how often it came."""
    at_ms: int


def effect_fault(effect: object) -> str:
    """Say why something is no effect; empty where it is one."""
    if type(effect) is not Effect:
        return "not an effect"
    if type(effect.amount_minor) is not int or not 0 < effect.amount_minor <= _MOST_MINOR:
        return "an amount that is no whole number above 0 of the smallest unit"
    if type(effect.currency) is not str or _CURRENCY.fullmatch(effect.currency) is None:
        return "a currency that is no three capitals"
    for text in (effect.kind, effect.account):
        if type(text) is not str or not 0 < len(text) <= _MOST_TEXT or not text.isprintable():
            return "a kind or an account that is no line of text"
    return ""


class Connection(Protocol):
    def execute(self, query: Any, params: Sequence[Any] = ..., /) -> Any: ...
    def cursor(self) -> Any: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """What two databases do not have in common."""

    place: str
    mark: str
    begin: str
    now_ms: str
    """The store's clock, as SQL."""
    tables: tuple[str, ...]
    lock: str
    """Behind the choice of a row that nobody else is to choose meanwhile."""

    def connect(self, *, making: bool = False) -> Connection: ...
    def prepare(self, connection: Connection) -> None: ...
    def check(self) -> None:
        """Raise one of its errors where what was connected to is not what its name means any more."""

    def close(self, connection: Connection) -> None: ...

    def applying(self, connection: Connection) -> AbstractContextManager[Any]:
        """Inside, the transaction is nobody's to end; it raises where what was written cannot be committed."""

    def fault(self, error: BaseException) -> str | None:
        """What a database said, in a line; None where an error is none of its."""


_EVENTS = (
    "INSERT INTO drillmaster_inbox (source, event_id, digest, body, received_ms) VALUES (?, ?, ?, ?, {now})"
    " ON CONFLICT (source, event_id) DO NOTHING"
)
_DIGEST = "SELECT digest FROM drillmaster_inbox WHERE source = ? AND event_id = ?"
_OTHER = (
    "INSERT INTO drillmaster_inbox_other (source, event_id, digest, body, first_ms, last_ms, times)"
    " VALUES (?, ?, ?, ?, {now}, {now}, 1) ON CONFLICT (source, event_id, digest)"
    " DO UPDATE SET times = drillmaster_inbox_other.times + 1, last_ms = {now}"
)
_CLAIM = (
    "UPDATE drillmaster_inbox SET claim = ?, claimed_ms = {now}, claim_until_ms = {now} + ?, attempts = attempts + 1"
    " WHERE seq = (SELECT seq FROM drillmaster_inbox WHERE state = 'waiting'"
    " AND (claim IS NULL OR claim_until_ms <= {now} OR claimed_ms > {now})"
    " AND (not_before_ms IS NULL OR not_before_ms <= {now} OR not_before_ms > {now} + {longest})"
    "{ours} ORDER BY seq LIMIT 1{lock}) RETURNING source, event_id, body, attempts"
)
_CLAIM_OF = _CLAIM.replace("{ours}", " AND source = ?")
_CLAIM_ANY = _CLAIM.replace("{ours}", "")
_MINE = "source = ? AND event_id = ? AND claim = ? AND state = 'waiting'"
_DONE = "UPDATE drillmaster_inbox SET state = 'done', claim = NULL, reason = ?, ended_ms = {now} WHERE {mine}"
_PARKED = "UPDATE drillmaster_inbox SET state = 'parked', claim = NULL, reason = ?, ended_ms = {now} WHERE {mine}"
_RELEASED = "UPDATE drillmaster_inbox SET claim = NULL, reason = ?, not_before_ms = {now} + ? WHERE {mine}"
_EFFECT = (
    "INSERT INTO drillmaster_inbox_effects (source, event_id, kind, account, amount_minor, currency, made_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, {now}) ON CONFLICT (source, event_id) DO NOTHING"
)
_NOTE = (
    "INSERT INTO drillmaster_inbox_notes (source, event_id, headline, risk, made_ms) VALUES (?, ?, ?, ?, {now})"
    " ON CONFLICT (source, event_id) DO NOTHING"
)
_EFFECT_OF = (
    "SELECT kind, account, amount_minor, currency FROM drillmaster_inbox_effects WHERE source = ? AND event_id = ?"
)
_SOURCES = "SELECT DISTINCT source FROM drillmaster_inbox ORDER BY source"
_OPEN = (
    "SELECT 'parked', source, event_id, reason, attempts, ended_ms FROM drillmaster_inbox WHERE state = 'parked' UNION ALL"
    " SELECT 'other-body', source, event_id, digest, times, first_ms FROM drillmaster_inbox_other WHERE looked_by = ''"
    " ORDER BY 6, 3 LIMIT ?"
)
_AGAIN = (
    "UPDATE drillmaster_inbox SET state = 'waiting', attempts = 0, not_before_ms = NULL, reason = ?"
    " WHERE source = ? AND event_id = ? AND state = 'parked'"
)
_CLOSED = (
    "UPDATE drillmaster_inbox SET state = 'closed', reason = ? WHERE source = ? AND event_id = ? AND state = 'parked'"
)
_LOOKED = "UPDATE drillmaster_inbox_other SET looked_by = ? WHERE source = ? AND event_id = ? AND looked_by = ''"
_FORGET = (
    "UPDATE drillmaster_inbox SET body = ? WHERE state IN ('done', 'closed') AND ended_ms < {now} - ? AND body <> ?"
)
_FORGET_OTHER = (
    "UPDATE drillmaster_inbox_other SET body = ? WHERE looked_by <> '' AND last_ms < {now} - ? AND body <> ?"
)
_COUNTS = (
    "SELECT (SELECT count(*) FROM drillmaster_inbox WHERE state = 'waiting'),"
    " (SELECT count(*) FROM drillmaster_inbox WHERE state = 'done'),"
    " (SELECT count(*) FROM drillmaster_inbox WHERE state = 'parked'),"
    " (SELECT count(*) FROM drillmaster_inbox_effects), (SELECT count(*) FROM drillmaster_inbox_notes),"
    " (SELECT count(*) FROM drillmaster_inbox_other WHERE looked_by = '')"
)


class Inbox:
    """One connection's view of an inbox. Not for two threads at once; a process or thread opens its own."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._connection: Connection | None = None
        self._said: dict[str, str] = {}  # queries in the words of this database
        self.place = backend.place

    # What a terminator asks

    def keep(self, arrival: Arrival) -> Kept:
        """Keep an event, on disk, before this returns. Raises Unkept."""
        return self._asked(lambda connection: self._kept(connection, arrival))

    def keep_all(self, arrivals: Sequence[Arrival]) -> list[Kept]:
        """Keep some together: on disk, all of them or none, by one write of the disk. Raises Unkept."""

        def kept(connection: Connection) -> list[Kept]:
            with self._transaction(connection):
                return [self._kept(connection, arrival) for arrival in arrivals]

        return self._asked(kept)

    def _kept(self, connection: Connection, arrival: Arrival) -> Kept:
        words = (arrival.source, arrival.event_id, arrival.digest, arrival.body)
        if self._run(connection, _EVENTS, words).rowcount == 1:
            return "new"
        found = self._run(connection, _DIGEST, words[:2]).fetchone()
        if found is not None and found[0] == arrival.digest:
            return "known"
        self._run(connection, _OTHER, words)
        return "other-body"

    # What a worker asks

    def claim(self, *, lease_ms: int, source: str | None = None) -> Event | None:
        """Claim the oldest event that is nobody's, for so long; None: there is none. Raises Unkept.

        `source`: only this one's. Without it any, which is right where the inbox has but one.
        """
        token = secrets.token_hex(16)
        asked, ours = (_CLAIM_ANY, ()) if source is None else (_CLAIM_OF, (source,))

        def claimed(connection: Connection) -> Event | None:
            rows = self._run(connection, asked, (token, lease_ms, *ours)).fetchall()
            if not rows:
                return None
            source, event_id, body, attempts = rows[0]
            return Event(source=source, event_id=event_id, body=bytes(body), attempt=attempts, claim=token)

        return self._asked(claimed)

    def settle(
        self,
        event: Event,
        effect: Effect | None,
        *,
        reason: str,
        apply: Callable[[Any, Effect, Event], None] | None = None,
    ) -> Settled:
        """Mark an event done and write its effect, all or nothing.

        `apply` writes what belongs to the effect by the same connection, in the same transaction; it runs only where the effect
        is new. `known`: the event has an effect already. `lost`: the claim is another's by now, nothing was written. Raises
        ValueError for an effect that is none, Unapplied where `apply` raised (nothing was written), Unkept (nobody knows).
        """
        fault = "" if effect is None else effect_fault(effect)
        if fault:
            raise ValueError(fault)
        connection = self._connected()
        with self._told():
            self._backend.check()
        with self._told(), self._transaction(connection):
            mine = (event.source, event.event_id)
            if self._run(connection, _DONE, (reason, *mine, event.claim)).rowcount != 1:
                return "lost"
            if effect is None:
                return "done"
            words = (*mine, effect.kind, effect.account, effect.amount_minor, effect.currency)
            if self._run(connection, _EFFECT, words).rowcount != 1:
                return "known"
            if apply is not None:
                try:
                    with self._backend.applying(connection):
                        apply(connection, effect, event)
                except (Exception, SystemExit) as error:
                    raise Unapplied(type(error).__name__) from error
        return "done"

    def release(self, event: Event, *, reason: str, wait_ms: int) -> bool:
        """Give a claim back, for another attempt after so long; False: it was lost already. Raises Unkept."""
        return self._wrote(
            _RELEASED, (reason, min(wait_ms, LONGEST_WAIT_MS), event.source, event.event_id, event.claim)
        )

    def park(self, event: Event, *, reason: str) -> bool:
        """Set an event aside for a person; False: the claim was lost. Raises Unkept."""
        return self._wrote(_PARKED, (reason, event.source, event.event_id, event.claim))

    def note(self, event: Event, noted: Noted) -> bool:
        """Keep what was noted of an event; False: there is a note already. Raises Unkept."""
        return self._wrote(_NOTE, (event.source, event.event_id, noted.headline, noted.risk))

    # What a person asks

    def counts(self) -> Counts:
        """Count what there is. Raises Unkept."""

        def counted(connection: Connection) -> Counts:
            names = ("waiting", "done", "parked", "effects", "notes", "other_bodies")
            return Counts(**dict(zip(names, self._run(connection, _COUNTS).fetchone(), strict=True)))

        return self._asked(counted)

    def open(self, *, most: int = 1_000) -> list[Open]:
        """List what waits for a person, the oldest first. Raises Unkept."""

        def listed(connection: Connection) -> list[Open]:
            rows = self._run(connection, _OPEN, (most,)).fetchall()
            return [Open(**dict(zip(Open.__struct_fields__, row, strict=True))) for row in rows]

        return self._asked(listed)

    def again(self, source: str, event_id: str, *, by: str) -> bool:
        """Let an event that is parked be worked on again; False: none is. Raises Unkept."""
        return self._wrote(_AGAIN, (f"again by {by}", source, event_id))

    def looked(self, source: str, event_id: str, *, by: str) -> bool:
        """Say that a person looked at what is open of an event: it is closed, without an effect. False: nothing is open."""
        parked = self._wrote(_CLOSED, (f"closed by {by}", source, event_id))
        other = self._count(_LOOKED, (by, source, event_id))
        return parked or other > 0

    def forget(self, *, older_than_ms: int) -> int:
        """Empty the bodies of events that ended longer ago than that; identifier, digest and effect stay. Raises Unkept.

        So are other bodies that somebody looked at, and that came last longer ago.
        """
        words = (b"", older_than_ms, b"")
        return self._count(_FORGET, words) + self._count(_FORGET_OTHER, words)

    def effect_of(self, source: str, event_id: str) -> Effect | None:
        """Give an event's effect; None: it has none. Raises Unkept."""

        def found(connection: Connection) -> Effect | None:
            row = self._run(connection, _EFFECT_OF, (source, event_id)).fetchone()
            return None if row is None else Effect(kind=row[0], account=row[1], amount_minor=row[2], currency=row[3])

        return self._asked(found)

    def sources(self) -> list[str]:
        """List whose events there are. Raises Unkept."""

        def listed(connection: Connection) -> list[str]:
            return [row[0] for row in self._run(connection, _SOURCES).fetchall()]

        return self._asked(listed)

    def prepare(self) -> None:
        """Make the tables where they are not there. Raises Unkept."""
        with self._told():
            connection = self._backend.connect(making=True)
            try:
                self._backend.prepare(connection)
                for statement in self._backend.tables:
                    connection.execute(statement)
            finally:
                connection.close()

    def close(self) -> None:
        self._drop()

    def __enter__(self) -> "Inbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # How

    def _wrote(self, query: str, words: Sequence[Any]) -> bool:
        """Whether a statement found its row."""
        return self._count(query, words) == 1

    def _count(self, query: str, words: Sequence[Any]) -> int:
        """How many rows a statement found."""

        def counted(connection: Connection) -> int:
            return int(self._run(connection, query, words).rowcount)

        return self._asked(counted)

    def _run(self, connection: Connection, query: str, params: Sequence[Any] = ()) -> Any:
        said = self._said.get(query)
        if said is None:
            said = query.replace("{mine}", _MINE).replace("{longest}", str(LONGEST_WAIT_MS))
            said = said.replace("{now}", self._backend.now_ms).replace("{lock}", self._backend.lock)
            said = self._said[query] = said.replace("?", self._backend.mark)
        return connection.cursor().execute(said, params)  # by a cursor of its own, where tracing looks

    def _asked(self, ask: Callable[[Connection], T]) -> T:
        """Ask; once more on a new connection where the one that was kept is gone. All that is asked so may be done twice."""
        kept = self._connection is not None
        try:
            return self._answer(ask)
        except Unkept:
            if not kept:
                raise
        return self._answer(ask)

    def _answer(self, ask: Callable[[Connection], T]) -> T:
        """Ask, and say so only where it is still the inbox of that name that was asked."""
        with self._told():
            connection = self._connected()
            self._backend.check()
            answer = ask(connection)
            self._backend.check()
        return answer

    def _connected(self) -> Connection:
        if self._connection is None:
            with self._told():
                self._connection = self._backend.connect()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                self._backend.close(connection)
            except Exception as error:
                if self._backend.fault(error) is None:
                    raise

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        """All or nothing. What returns out of it commits; what raises rolls back."""
        connection.execute(self._backend.begin)
        try:
            yield
        except BaseException:
            self._drop()  # an end of the connection rolls back whatever state it is in
            raise
        connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, Problem):
                raise
            fault = self._backend.fault(error)
            if fault is None:
                raise
            self._drop()
            raise Unkept(
                self.place,
                found=one_line(fault).strip() or type(error).__name__,
                wanted="an inbox that answers",
                remedy="see that the database is there; where it is new, prepare it: drillmaster webhook prepare",
            ) from None
