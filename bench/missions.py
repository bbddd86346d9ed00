"""What a synthetic mission costs the machine it is sent from: `python bench/missions.py [--seconds 6] [--rounds 3]`.

An agent of asyncio's answers each mission 200 ms after it came, and counts. 200 missions are held in flight by our driver, each
over a connection of its own, with data drawn by the seed and four lines of evidence; and by Locust's FastHttpUser, 200 users
without a wait, each over one connection for all its requests, with a random uuid and number, as it comes (no evidence but its
own statistics) and as a drill runs it (each request on record). Rounds are interleaved; CPU is what the process took, and what
Locust's worker took, between two moments of steady load, by the kernel's count; missions are counted by the agent. Loopback.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.proxy import cpu_s, free_ports, wait_port
from drillmaster.friday.missions import Held, Load, Locust, Missions
from drillmaster.missions.preparing import prepare, read_loads
from drillmaster.missions.process import Driver

HELD = 200
DELAY_S = 0.2
MANY = 2_000
SLOW_S = 3.0
AGENT = """
import asyncio, sys
served = 0
async def serve(reader, writer):
    global served
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            at = head.lower().find(b"content-length:")
            body = await reader.readexactly(int(head[at + 15:].split(b"\\r\\n", 1)[0])) if at > 0 else b""
            if head.startswith(b"GET /count"):
                out = b"%d" % served
            else:
                await asyncio.sleep(float(sys.argv[2]))
                served += 1
                out = b'{"answer":"refunded","ticket":17}'
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(out) + out)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
async def main():
    await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await asyncio.Event().wait()
asyncio.run(main())
"""
MISSIONS = """
kind: missions
data:
  user: {make: uuid}
  order: {make: integer, low: 1000, high: 9999}
flows:
  - name: refund
    weight: 3
    steps:
      - path: /agent/mission
        json: {user_id: "{{ user }}", history: [{role: user, content: "Refund order #{{ order }}"}]}
        expect: {pointer: /answer}
  - name: edge
    steps:
      - path: /agent/mission
        json: {user_id: "{{ user }}", history: [{role: user, content: "Refund $5000 for #{{ order }}"}],
               metadata: {force_refund_limit: true}}
        expect: {pointer: /answer}
"""
LOCUST = """
import random, uuid
from locust import FastHttpUser, task, constant

class Customer(FastHttpUser):
    wait_time = constant(0)

    @task
    def ask(self):
        said = {"role": "user", "content": f"Refund order #{random.randint(1000, 9999)}"}
        self.client.post("/agent/mission", json={"user_id": str(uuid.uuid4()), "history": [said]})
"""


def served(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/count") as answer:
        return int(answer.read())


def between(pid: int, port: int, seconds: float) -> tuple[float, float]:
    """µs of CPU a mission, and missions a second."""
    cpu, count, since = cpu_s(pid), served(port), time.monotonic()
    time.sleep(seconds)
    count, took = served(port) - count, time.monotonic() - since
    return (cpu_s(pid) - cpu) / count * 1e6, count / took


def driven(folder: Path, load: Load, port: int, seconds: float, held: int = HELD) -> tuple[float, float]:
    run = Path(tempfile.mkdtemp(dir=folder))
    (run / "events").mkdir()
    understood = read_loads(Missions(loads=(load,)), folder, place="bench")
    settings = prepare(
        understood,
        run,
        url=f"http://127.0.0.1:{port}",
        seed=1,
        run="bench-0000",
        mono0_ns=time.monotonic_ns(),
        control=run / "control",
        longest_s=120,
    )

    async def course() -> tuple[float, float]:
        driver = Driver(settings, log=run / "log", env=os.environ)
        pid = await driver.start()
        await driver.begin()
        try:
            while True:
                await asyncio.sleep(0.2)
                if (await driver.state())["started"] > 2 * held:
                    break
            return await asyncio.to_thread(between, pid, port, seconds)
        finally:
            await driver.quit()

    return asyncio.run(course())


def locust_alone(folder: Path, port: int, seconds: float) -> tuple[float, float]:
    argv = [sys.executable, "-m", "locust", "-f", folder / "locustfile.py", "--headless", "--only-summary"]
    argv += ["--host", f"http://127.0.0.1:{port}", "-u", str(HELD), "-r", str(HELD)]
    process = subprocess.Popen([str(word) for word in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        before = served(port)
        while served(port) - before < 3 * HELD:
            time.sleep(0.2)
        return between(process.pid, port, seconds)
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def agent(port: int, delay_s: float) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", AGENT, str(port), str(delay_s)])
    try:
        wait_port("the agent", port)
        yield
    finally:
        process.kill()
        process.wait()


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    port, slow = free_ports(2)
    with tempfile.TemporaryDirectory() as name, agent(port, DELAY_S), agent(slow, SLOW_S):
        folder = Path(name)
        (folder / "missions.yaml").write_text(MISSIONS)
        (folder / "locustfile.py").write_text(LOCUST)
        ours = Held(concurrent=HELD, ramp_s=0.5)
        many = Held(concurrent=MANY, ramp_s=SLOW_S)
        theirs = Locust(file="locustfile.py", users=HELD, users_per_s=HELD)
        ways = {
            "drillmaster": lambda: driven(folder, ours, port, told.seconds),
            f"drillmaster, {MANY:,} at once, answers after {SLOW_S:g} s": lambda: driven(
                folder, many, slow, told.seconds, MANY
            ),
            "Locust FastHttpUser": lambda: locust_alone(folder, port, told.seconds),
            "Locust FastHttpUser, by a drill": lambda: driven(folder, theirs, port, told.seconds),
        }
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(told.rounds):
            for way, go in ways.items():
                found[way].append(go())
    base = statistics.median(us for us, _ in found["drillmaster"])
    print(
        "| sends 200 missions at once | CPU µs a mission | missions a second | of a core | times ours |\n|---|---|---|---|---|"
    )
    for way, rounds in found.items():
        us, per_s = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {way} | {us:.0f} | {per_s:.0f} | {us * per_s / 1e6:.2f} | {us / base:.2f} |")
    print(json.dumps({way: [round(us) for us, _ in rounds] for way, rounds in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
