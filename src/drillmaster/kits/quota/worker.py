"""A worker of the bounce drill: it takes one call after the other from a bucket, and says each on its standard output."""

import os
import sys
import time

from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store


def main() -> None:
    """Take until it is denied, and then once in a while."""
    name, cap, window_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    guard = Quota(partner=name, identity="drill", window_ms=window_ms, max_per_window=cap, burst=cap)
    store = open_store(os.environ["DRILLMASTER_STORE"], within_s=2.0)
    call = OutboundCall(partner=name, identity="drill")
    while True:
        decision = decide(guard, call, store)
        if decision.allowed:
            said = f"granted {decision.left}\n"
        else:
            said = "unavailable\n" if decision.reason == "store-unavailable" else "denied\n"
        os.write(1, said.encode())
        time.sleep(0.002 if decision.allowed else 0.05)


if __name__ == "__main__":
    main()
