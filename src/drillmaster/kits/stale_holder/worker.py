"""A process of the drill: it holds a lease as any worker does, and is told over its stdin, a word a line, what to do next.

`check` reads `held` as a worker would before it writes, and `write` writes without looking again: between the two the drill stops
the process, as a collector of garbage, a hypervisor or a full disk would.
"""

import contextlib
import ctypes
import signal
import sys

import msgspec

from drillmaster.adapters.worker.lease import HeldLease, LeaseNotGranted, hold
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.kits.stale_holder.effects import Effects, Way, open_effects
from drillmaster.stores import Store, decide
from drillmaster.stores.opening import open_store

__all__ = ["Order", "Said", "Start", "main"]

_PR_SET_PDEATHSIG = 1


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One line to a worker."""

    do: str
    job: str = ""
    way: Way = "none"
    wait_s: float = 0.0


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One line back. `ok`: granted, held, written, renewed or released; `reason` why not."""

    ok: bool
    token: str = ""
    held: bool = False
    reason: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: where, which lease, and who one is."""

    url: str
    guard: Lease
    item: str
    by: str
    within_s: float


def main() -> None:
    """Work until stdin ends, or whoever started it does, however that comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the drill ends its workers itself
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # one that is stopped reads no end of its stdin
    start = msgspec.json.decode(sys.stdin.readline(), type=Start)
    store = open_store(start.url, within_s=start.within_s)
    with contextlib.closing(store), open_effects(start.url) as effects:
        held = contextlib.ExitStack()
        lease: HeldLease | None = None
        _say(Said(ok=True))
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=Order)
            if order.do == "acquire":
                try:
                    taken = hold(start.guard, store, by=start.by, item=start.item, wait_s=order.wait_s)
                    lease = held.enter_context(taken)
                except LeaseNotGranted as refused:
                    _say(Said(ok=False, reason=refused.reason))
                    continue
                effects.claim(order.job, lease.token, order.way)
                _say(Said(ok=True, token=lease.token, held=lease.held))
            elif lease is None:
                _say(Said(ok=False, reason="not-held"))
            elif order.do == "release":
                held.close()
                lease = None
                _say(Said(ok=True))
            else:
                _say(_did(order, lease, effects, start, store))


def _did(order: Order, lease: HeldLease, effects: Effects, start: Start, store: Store) -> Said:
    if order.do == "write":
        ok = effects.add(order.job, lease.token, order.way, start.guard.key(start.item))
        return Said(ok=ok, token=lease.token, held=lease.held)
    if order.do == "renew":  # asked of the store itself: the lease would not ask once it knows that it is lost
        request = LeaseRequest(
            action="renew", source="lock-client", holder=lease.holder, by=start.by, fencing_token=lease.token,
            item=start.item,
        )  # fmt: skip  # fields in pairs
        told = decide(start.guard, request, store)
        return Said(ok=told.allowed, reason=told.reason, held=lease.held)
    return Said(ok=lease.held, held=lease.held)


def _say(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
