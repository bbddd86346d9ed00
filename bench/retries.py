"""What an accounting of retries costs: `python bench/retries.py [--attempts 1000000]`.

A run in memory of so many attempts, joined already: half of its users under a fault, six attempts each in two layers, every
second of them told to wait. CPU of the accounting alone, and beside it the CPU of making the run's values.
"""

import argparse
import sys
import time

from drillmaster.outcomes import Attempt, Request, Run, Window
from drillmaster.retries import account
from drillmaster.verdict import Cite

EVERY_NS = 10_000_000
CITE = Cite("events/proxy.jsonl", 1)


def attempt(user: int, k: int, due_ns: int, *, faulted: bool) -> Attempt:
    start_ns = due_ns + k * 400_000_000
    asks = faulted and k % 2 == 1
    return Attempt(
        id=f"a{user}.{k}",
        window="w1" if faulted else None,
        status=503 if faulted else 200,
        start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
        end="clean",
        upstream=not faulted,
        terminal=not faulted,
        intact=not faulted,
        trace=None,
        nonce=None,
        retry_count=k % 3 if faulted else 0,
        dialect="openai_chat",
        model="m",
        request=f"t{user}",
        cite=CITE,
        first_ns=start_ns + 500_000,
        asked_s=0.3 if asks else None,
        asked_by="seconds" if asks else None,
        tokens=None if faulted else 120,
    )


def made_run(attempts: int) -> Run:
    users = attempts // 4
    injected_ns, lifted_ns = users // 4 * EVERY_NS, users * 3 // 4 * EVERY_NS
    requests, sent = [], []
    for user in range(users):
        due_ns = user * EVERY_NS
        faulted = injected_ns <= due_ns < lifted_ns
        requests.append(
            Request(
                id=f"t{user}",
                source="traffic",
                due_ns=due_ns,
                sent_ns=due_ns,
                first_ns=due_ns,
                end_ns=due_ns + 3_000_000_000,
                status=200,
                outcome="ok_fallback" if faulted else "ok_primary",
                met=("w1",) if faulted else (),
                cite=CITE,
            )
        )
        sent += [attempt(user, k, due_ns, faulted=faulted) for k in range(6 if faulted else 2)]
    sent.sort(key=lambda a: (a.start_ns, a.id))
    window = Window(
        id="w1",
        fault="503",
        injected_ns=injected_ns,
        lifted_ns=lifted_ns,
        lift_why="ordered",
        met=1,
        client_bytes=1,
        cite=CITE,
    )
    return Run(
        name="bench",
        place="",
        bare=False,
        manifest=None,
        started_wall_ns=0,
        end_ns=users * EVERY_NS,
        ended="completed",
        windows=(window,),
        requests=tuple(requests),
        attempts=tuple(sent),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="What an accounting of retries costs.")
    parser.add_argument("--attempts", type=int, default=1_000_000)
    attempts = parser.parse_args().attempts
    before = time.process_time()
    run = made_run(attempts)
    made_s = time.process_time() - before
    before = time.process_time()
    books = account(run)
    took_s = time.process_time() - before
    assert books is not None and sum(phase.attempts for phase in books.phases) == len(run.attempts)
    print(f"{len(run.attempts):,} attempts of {len(run.requests):,} requests: made in {made_s:.1f} s of CPU,")
    print(f"accounted for in {took_s:.1f} s of CPU, {took_s / len(run.attempts) * 1e6:.1f} µs an attempt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
