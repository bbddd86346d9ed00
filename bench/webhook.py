"""What a webhook costs: `python bench/webhook.py`.

1. Verification, by CPU time, beside the providers' own libraries in the same run: the headers are read, the signature and its time
   checked, and nothing else. Ours is asked with the guard's decision and, for rotation, with two keys.
2. The whole path, from a request to its 202, over real sockets into an inbox on this disk: seconds of CPU of the server, and how
   many a second one client and sixteen get.
"""

import concurrent.futures
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from drillmaster.guards.webhook import Delivery, Webhook
from drillmaster.rules.webhook_schemes import SCHEMES, check, read_key, sign

TEXT = "whsec_text-of-a-stripe-endpoint-secret"
STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROUNDS = 5


def cpu_us(what: Callable[[], object]) -> float:
    """CPU of one call in microseconds, the best of some rounds."""
    times = 1
    while True:
        began = time.process_time_ns()
        for _ in range(times):
            what()
        if (took := time.process_time_ns() - began) > 20_000_000:
            break
        times *= 4
    best = took
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for _ in range(times):
            what()
        best = min(best, time.process_time_ns() - began)
    return best / times / 1e3


def ours(scheme: str, body: bytes, keys: int) -> Callable[[], object]:
    row = SCHEMES[scheme]
    made = [read_key(TEXT if scheme == "stripe" else STANDARD, standard=row.asymmetric, place="bench")] * keys
    headers = sign(row, body, made[:1], time_s=int(time.time()), message_id="msg_1")
    limits = Webhook(scheme=scheme, max_body_bytes=1 << 20, read_within_ms=1_000)

    def verify() -> None:
        checked = check(row, headers, body, made)
        facts = Delivery(
            path_known=True, method="POST", complete=True, signature=checked.signature, signed_s=checked.time_s
        )
        _, decision = limits.step(None, facts, time.time_ns() // 1_000_000)
        assert decision.reason == "undecided"

    return verify


def peers(body: bytes) -> dict[str, tuple[str, Callable[[], object]]]:
    """What is installed, by the scheme that it checks."""
    found: dict[str, tuple[str, Callable[[], object]]] = {}
    text, now = body.decode(), datetime.now(tz=UTC)
    try:
        import stripe

        header = stripe.WebhookSignature.generate_signature_header(text, TEXT)
        found["stripe"] = "stripe", lambda: stripe.WebhookSignature.verify_header(body, header, TEXT, 300)
    except ImportError:
        pass
    for name, before in (("standardwebhooks", "webhook"), ("svix", "svix")):
        try:
            library = __import__(name)
        except ImportError:
            continue
        hook = library.Webhook(STANDARD)
        headers = {
            f"{before}-id": "msg_1",
            f"{before}-timestamp": str(int(now.timestamp())),
            f"{before}-signature": hook.sign("msg_1", now, text),
        }
        # One of them leaves the JSON when it is told to; the other has no word for that, and reads a small one here.
        more = {"json_parse": False} if name == "standardwebhooks" else {}
        found["svix" if name == "svix" else "standard"] = (
            name,
            lambda hook=hook, h=headers, m=more: hook.verify(body, h, **m),
        )
    return found


def verification() -> None:
    print(f"{'scheme':10} {'body':>8} {'ours, µs':>10} {'two keys':>10} {'peer, µs':>10}  ours / peer")
    for size in (500, 10_000, 60_000):
        body = b'{"id":"evt_1","x":"' + b"x" * (size - 21) + b'"}'
        for scheme, (name, peer) in peers(body).items():
            one, two, other = cpu_us(ours(scheme, body, 1)), cpu_us(ours(scheme, body, 2)), cpu_us(peer)
            print(f"{scheme:10} {size:8,} {one:10.1f} {two:10.1f} {other:10.1f}  {one / other:.2f}  ({name})")


SETTINGS = """kind: webhook
version: 1
source: bench
owner: bench
review_by: 2199-12-31
provider: bench
scheme: stripe
path: /hook
max_body_bytes: 65536
read_within_s: 5
store_within_s: 5
inbox: inbox.db
keys: {env: [BENCH_KEY]}
"""


def whole() -> None:
    key = read_key(TEXT, standard=False, place="bench")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "webhook.yaml"
        path.write_text(SETTINGS)
        env = {**os.environ, "BENCH_KEY": TEXT}
        words = [sys.executable, "-m", "drillmaster", "webhook"]
        subprocess.run([*words, "prepare", path], check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen([*words, "serve", path, "--port", "0"], env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2].partition("/")[0])

            def client(first: int, count: int) -> list[float]:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                took = []
                for n in range(first, first + count):
                    body = b'{"id":"evt_%d","x":"%b"}' % (n, b"x" * 450)
                    pairs = sign(SCHEMES["stripe"], body, [key], time_s=int(time.time()))
                    began = time.perf_counter()
                    connection.request("POST", "/hook", body, {a.decode(): b.decode() for a, b in pairs})
                    answer = connection.getresponse()
                    answer.read()
                    took.append(time.perf_counter() - began)
                    assert answer.status == 202
                return took

            client(0, 50)
            for clients, count in ((1, 1_000), (16, 200)):
                before, began = server_cpu_s(process.pid), time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                    firsts = [10_000 * clients + 1_000 * at for at in range(clients)]
                    took = sorted(one for part in pool.map(client, firsts, [count] * clients) for one in part)
                wall_s, cpu_s = time.perf_counter() - began, server_cpu_s(process.pid) - before
                total = clients * count
                print(
                    f"{clients:2} clients: {total / wall_s:5.0f} stored and answered a second, {cpu_s / total * 1e6:4.0f} µs of"
                    f" the server's CPU each, p50 {took[total // 2] * 1e3:.1f} ms, p95 {took[total * 95 // 100] * 1e3:.1f} ms"
                )
        finally:
            process.terminate()
            process.wait()


def server_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    verification()
    print()
    whole()
