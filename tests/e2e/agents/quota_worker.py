"""A worker that asks a quota as often as it can: URL, seconds, window in ms, cap, burst. Prints when it asked and was granted."""

import json
import sys
import time

from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store


def main() -> None:
    url, for_s, window_ms, cap, burst = sys.argv[1], *map(float, sys.argv[2:])
    limits = Quota(partner="acme", identity="prod", window_ms=int(window_ms), max_per_window=int(cap), burst=int(burst))
    store = open_store(url, within_s=5)
    granted, reasons = [], {}
    ends = time.monotonic() + for_s
    while (began := time.monotonic_ns()) < ends * 1e9:
        decision = decide(limits, OutboundCall(partner="acme", identity="prod"), store)
        reasons[decision.reason] = reasons.get(decision.reason, 0) + 1
        if decision.allowed:
            granted.append((began, time.monotonic_ns()))
        elif decision.reason != "store-unavailable":
            time.sleep(min(0.002, decision.wait_ms / 1_000))
    print(json.dumps({"granted": granted, "reasons": reasons}))


main()
