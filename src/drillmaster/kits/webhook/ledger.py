"""What the rehearsal's worker works by: a rule that grants credit, a ledger, and a model that is somewhere or nowhere.

The ledger takes every grant that it is told, and has no index that would hide a second one: what keeps it right is the
transaction that it is written in.

The model is asked at 127.0.0.1 and the port in DRILL_MODEL_PORT: one line out, one line back. Where nobody listens it is refused,
where somebody only listens it hangs.
"""

import os
import socket
import sqlite3
from collections.abc import Mapping
from typing import Any

from drillmaster.stores.inbox import Connection, Effect, Event

__all__ = ["LEDGER", "ask", "grant", "granted", "rule"]

LEDGER = """CREATE TABLE IF NOT EXISTS drillmaster_rehearsal_ledger (
  source TEXT NOT NULL, event_id TEXT NOT NULL, amount_minor BIGINT NOT NULL)"""

_HANGS_S = 600


class _Credit:
    def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
        """Grant what `invoice.paid` says."""
        if document.get("type") != "invoice.paid":
            return None
        return Effect(
            kind="credit",
            account=document["account"],
            amount_minor=document["amount_minor"],
            currency=document["currency"],
        )


rule = _Credit()


def ask(copy: str) -> object:
    """Send the copy to whoever listens, and wait for what comes back."""
    port = int(os.environ["DRILL_MODEL_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=_HANGS_S) as asked:
        asked.sendall(copy.encode() + b"\n")
        return asked.makefile("rb").readline()


def grant(connection: Connection, effect: Effect, event: Event) -> None:
    """Write a grant into the ledger."""
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    connection.execute(
        f"INSERT INTO drillmaster_rehearsal_ledger VALUES ({mark}, {mark}, {mark})",  # noqa: S608 - marks
        (event.source, event.event_id, effect.amount_minor),
    )


def granted(connection: Connection, source: str) -> dict[str, list[int]]:
    """List all grants of a source by event."""
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    query = f"SELECT event_id, amount_minor FROM drillmaster_rehearsal_ledger WHERE source = {mark}"  # noqa: S608 - a mark
    found: dict[str, list[int]] = {}
    for event_id, amount in connection.execute(query, (source,)).fetchall():
        found.setdefault(event_id, []).append(amount)
    return found
