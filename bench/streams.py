"""Two thousand streams at five events a second through one proxy on one core: `python bench/streams.py [--streams 2000]`.

The same origin and the same client three times: straight through, each stream with a fault of its own (rules by share), and
the faults again in another order of arrival. CPU is the proxy's share of its core while all streams are open; a word's lag is
from the origin's send to the client's read, both on CLOCK_MONOTONIC. Loopback only.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.e2e.streamlab import RULES, many


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--per-s", type=float, default=5.0, help="events a second on each stream")
    parser.add_argument("--events", type=int, default=50, help="of each stream")
    options = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    print("| run | of one core | µs an event | lag p50 ms | p99 | MB when all stood | at the end |")
    print("|---|---|---|---|---|---|---|")
    for name, rules, order in (("passing through", (), 1), ("a fault each", RULES, 1), ("in another order", RULES, 2)):
        with tempfile.TemporaryDirectory() as folder:
            run = many(
                Path(folder),
                streams=options.streams,
                per_s=options.per_s,
                events=options.events,
                order_seed=order,
                rules=rules,
            )
        share = run.cpu_s / run.wall_s
        each_us = run.cpu_s / run.wall_s * (options.events / options.per_s) / max(1, run.words) * 1e6
        print(
            f"| {name} | {share:.0%} | {each_us:.0f} | {run.lag_ms(0.5):.2f} | {run.lag_ms(0.99):.1f} | "
            f"{run.rss_mb[0]:.0f} | {run.rss_mb[1]:.0f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
