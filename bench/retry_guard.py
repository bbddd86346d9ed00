"""What a retry costs beside tenacity, stamina and urllib3's Retry: `python bench/retry_guard.py [--rounds 7]`.

Figures are medians over interleaved rounds of one process, in microseconds of its CPU:

- *failing once*: a call whose first answer is a 503 and whose second is good, without the sleep between; what a loop adds to both.
- *good*: a call whose only answer is good.
- *a whole good call*: over loopback on a connection that is kept, beside the same client without retries.

The peers decide by a list of statuses, a backoff with jitter and a number of attempts. Ours does these, and `Retry-After`, method
and key, the deadline, a shared budget and a reason that is counted. Its store is in the process; a store on a server adds its
round trip to a call that is sent again, and to a good call where what that took is given back.

Good calls are counted by a budget of 20 tokens that is full, as it is where nothing fails; and once more by one that was drained,
which is told of each token that good calls earn until it is full.
"""

import argparse
import contextlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import requests
import stamina
import tenacity
import urllib3

from drillmaster.adapters.worker.retry import Retries, carry
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.adapters.worker.retry_requests import RetryAdapter
from drillmaster.guards.retry import PINNED, FailedCall, Retry
from drillmaster.rules.retry_budget import Draw
from drillmaster.stores.one_process import OneProcess

LIMITS = Retry(max_calls=4, deadline_ms=60_000, base_ms=1, cap_ms=5, budget_tokens=1_000_000, refund=0.1)
SMALL = msgspec.structs.replace(LIMITS, budget_tokens=20)
STATUSES = frozenset({408, 425, 429, 502, 503, 504})
CALLS = 1_500
GOOD_CALLS = 15_000
"""Of half a microsecond each: 1,500 are over before the caches that the peer before left are warm."""


class Answer:
    __slots__ = ("fields", "status")

    def __init__(self, status: int) -> None:
        self.status = status
        self.fields = [("content-type", "application/json"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")]


class Failed(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


BAD, GOOD = Answer(503), Answer(200)


class Awake(Retries):
    """As it is, but that it does not sleep."""

    def sleep(self, wait_ms: int) -> bool:
        return True


class Wire:
    __slots__ = ("left",)

    def __init__(self, bad: int) -> None:
        self.left = bad

    def send(self, left_ms: int | None) -> tuple[int, Any]:
        self.left -= 1
        answer = BAD if self.left >= 0 else GOOD
        return answer.status, lambda: answer.fields

    def drop(self) -> None: ...

    def body(self) -> bytes:
        return b""


def ours() -> Callable[[int], None]:
    good, failing = Awake(SMALL, OneProcess()), Awake(LIMITS, OneProcess())

    def call(bad: int) -> None:
        carry(failing if bad else good, Wire(bad), "POST", "key", replayable=True)

    return call


def ours_drained() -> Callable[[int], None]:
    """With a budget of which more is missing than the good calls here earn."""
    store, full_milli = OneProcess(), LIMITS.budget_tokens * 1_000
    store.ask(LIMITS.LAW, LIMITS.budget, Draw(take_milli=full_milli, give_milli=0, full_milli=full_milli))
    retries = Awake(LIMITS, store)

    def call(bad: int) -> None:
        carry(retries, Wire(bad), "POST", "key", replayable=True)

    return call


def raising(bad: int) -> Callable[[], Answer]:
    left = bad

    def send() -> Answer:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Failed(BAD)
        return GOOD

    return send


def by_tenacity() -> Callable[[int], None]:
    def again(error: BaseException) -> bool:
        return isinstance(error, Failed) and error.answer.status in STATUSES

    loop = tenacity.Retrying(
        retry=tenacity.retry_if_exception(again),
        wait=tenacity.wait_random_exponential(multiplier=0.001, max=0.005),
        stop=tenacity.stop_after_attempt(4) | tenacity.stop_after_delay(60),
        sleep=lambda seconds: None,
        reraise=True,
    )
    return lambda bad: loop(raising(bad)) and None


def by_stamina() -> Callable[[int], None]:
    def again(error: Exception) -> bool | float:
        # 0.0: stamina itself sleeps for nothing then.
        return 0.0 if isinstance(error, Failed) and error.answer.status in STATUSES else False

    stamina.instrumentation.set_on_retry_hooks([])

    def call(bad: int) -> None:
        send = raising(bad)
        for attempt in stamina.retry_context(on=again, attempts=4, timeout=60):
            with attempt:
                send()

    return call


def by_urllib3() -> Callable[[int], None]:
    kind = urllib3.Retry(
        total=3, status_forcelist=STATUSES, allowed_methods=None, backoff_factor=0.001, backoff_jitter=0.001
    )
    bad_answer = urllib3.HTTPResponse(status=503, headers={"content-type": "application/json"})

    def call(bad: int) -> None:
        retry, wire = kind, Wire(bad)
        while True:
            status, _ = wire.send(None)
            if not retry.is_retry("POST", status, False):
                return
            retry = retry.increment("POST", "/", response=bad_answer)
            retry.get_retry_after(bad_answer)
            retry.get_backoff_time()
            wire.drop()

    return call


def taken_us(call: Callable[[int], None], bad: int) -> float:
    calls = CALLS if bad else GOOD_CALLS
    begun = time.process_time_ns()
    for _ in range(calls):
        call(bad)
    return (time.process_time_ns() - begun) / calls / 1e3


SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def whole(rounds: int) -> None:
    """Calls over loopback, kept alive: CPU of this process for each."""
    retry = urllib3.Retry(total=3, status_forcelist=STATUSES, allowed_methods=None, backoff_factor=0.001)
    with (
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as server,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(server.kill)
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        bare, peer, ours_ = (stack.enter_context(requests.Session()) for _ in range(3))
        bare.mount("http://", requests.adapters.HTTPAdapter(max_retries=0))
        peer.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        ours_.mount("http://", RetryAdapter(Retries(SMALL, OneProcess())))
        plain = stack.enter_context(httpx.Client(transport=httpx.HTTPTransport()))
        guarded = stack.enter_context(
            httpx.Client(transport=retrying(httpx.HTTPTransport(), Retries(SMALL, OneProcess())))
        )
        clients: dict[str, Any] = {
            "requests, no retries": bare,
            "requests, urllib3's Retry": peer,
            "requests, the guard": ours_,
            "httpx, no retries": plain,
            "httpx, the guard": guarded,
        }
        found: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(rounds):
            for name, client in clients.items():
                begun = time.process_time_ns()
                for _ in range(200):
                    client.post(url, data=b"{}") if name.startswith("requests") else client.post(url, content=b"{}")
                found[name].append((time.process_time_ns() - begun) / 200 / 1e3)
        print("\n| a whole good call | CPU µs | to none |\n|---|---|---|")
        for name, taken in found.items():
            base = statistics.median(found[f"{name.split(',')[0]}, no retries"])
            print(f"| {name} | {statistics.median(taken):.0f} | {statistics.median(taken) / base:.2f} |")


def decision_us() -> float:
    """The guard's own two steps, and the law's between them."""
    assert LIMITS.LAW is not None
    facts = FailedCall(
        source=PINNED,
        protocol="http",
        method="POST",
        code=503,
        attempt=1,
        elapsed_ms=5,
        idempotency_key="k",
        jitter=0.5,
    )
    begun = time.process_time_ns()
    for _ in range(CALLS):
        asked = LIMITS.asks(facts)
        LIMITS.decides(facts, LIMITS.LAW.step(None, asked.question, 0).told)  # type: ignore[union-attr]  # it is allowed
    return (time.process_time_ns() - begun) / CALLS / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    peers = {"drillmaster": ours(), "tenacity": by_tenacity(), "stamina": by_stamina(), "urllib3": by_urllib3()}
    found: dict[tuple[str, int], list[float]] = {(name, bad): [] for name in peers for bad in (0, 1)}
    decisions, drained, by_drained = [], [], ours_drained()
    for _ in range(rounds):
        for name in random.sample(list(peers), len(peers)):
            for bad in (0, 1):
                found[name, bad].append(taken_us(peers[name], bad))
        drained.append(taken_us(by_drained, 0))
        decisions.append(decision_us())
    mine = {bad: statistics.median(found["drillmaster", bad]) for bad in (0, 1)}
    print("| loop | failing once, µs | ours / it | good, µs | ours / it |\n|---|---|---|---|---|")
    for name in peers:
        once, good = (statistics.median(found[name, bad]) for bad in (1, 0))
        print(f"| {name} | {once:.1f} | {mine[1] / once:.2f} | {good:.2f} | {mine[0] / good:.2f} |")
    print(f"\nA good call while a drained budget fills: {statistics.median(drained):.2f} µs.")
    whole(rounds)
    print(f"\nThe guard's decision by itself, with the law of the budget: {statistics.median(decisions):.1f} µs.")


if __name__ == "__main__":
    main()
