"""Runs in the interpreter under check, which knows nothing of drillmaster: standard library alone, Python 3.9 or later.

`host.py find NAME...` says which packages are installed. `host.py serve CLIENT...` imports clients, tells the defaults of
each, then reads jobs, one JSON object a line, and forks a child for each: imports are paid once, a call that never returns
is killed, and no call sees the state of another. A connection to anything but loopback is refused in the child and told.
"""

import gc
import importlib.metadata
import json
import os
import platform
import runpy
import select
import signal
import sys
import time
from typing import Any

SAID_CHARACTERS = 300
RESULT_BYTES = 3_500
"""A line of this length goes into an empty pipe at once."""
LEFT: list[str] = []
"""Where a client wanted to go, and was not let."""
IMPORT_S = 130
"""Longer than anybody waits for an import; then the kernel ends this process, whoever is left to hear of it."""
CHILD_GRACE_S = 30
"""How much longer than it should a call may run until the kernel ends it: its host is dead, and not only late."""
NAMED = frozenset(("localhost", "127.0.0.1", "::1"))
"""What may be looked up; nothing of it is asked of the network."""
ASKING = frozenset(("socket.gethostbyname", "socket.gethostbyaddr", "socket.getaddrinfo"))
"""gethostbyname_ex raises the event of gethostbyname."""
SENDING = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getnameinfo"))


def find(names: list[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"version": platform.python_version(), "found": found}


def stay_home() -> None:
    """Refuse, for good, every connection that is not to loopback, before a packet leaves."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in SENDING:
            address = args[0] if event == "socket.getnameinfo" else args[1]
            if isinstance(address, tuple) and not loopback(str(address[0])):
                LEFT.append(str(address[0]))
                raise OSError(f"sdk-check allows loopback only, not {address[0]}")
        elif event in ASKING and args[0] is not None:
            name = args[0].decode("ascii", "replace") if isinstance(args[0], (bytes, bytearray)) else str(args[0])
            if name not in NAMED:
                LEFT.append(name)
                raise OSError(f"sdk-check looks up no names: {name}")

    sys.addaudithook(hook)


def loopback(host: str) -> bool:
    """Whether this is an address of loopback: numbers alone, since a name such as 127.example is looked up."""
    parts = host.split(".")
    return host in NAMED or (len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts))


def starved_s(pid: Any = "self") -> float:
    """How long a process was ready to run and was not let, so far; 0 where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:  # noqa: PTH123 # no more imports than are needed
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def named(kind: type) -> str:
    module = kind.__module__.split(".")[0]
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def call(probe: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What came of one job."""
    LEFT.clear()
    began = time.monotonic()
    said: dict[str, Any]
    try:
        client = probe.client(job)
        for _ in range(job["calls"] - 1):
            probe.call(client, job)
        began = time.monotonic()
        said = {"how": "returned", **probe.call(client, job)}
    except BaseException as error:  # noqa: BLE001 # whatever the client raises is what is measured
        said = {
            "how": "raised",
            "class": named(type(error)),
            "caught": isinstance(error, probe.caught),
            "message": str(error),
        }
    said["seconds"] = round(time.monotonic() - began, 3)
    said["starved_s"] = round(starved_s(), 3)
    said["left_loopback"] = LEFT[:5]
    for key in ("text", "message"):
        if isinstance(said.get(key), str):
            said[key] = said[key][:SAID_CHARACTERS]
    return said


class Child:
    """One job in a process of its own."""

    def __init__(self, probe: Any, job: dict[str, Any]) -> None:
        self.id = job["id"]
        self.began = time.monotonic()
        self.kill_at = self.began + job["kill_s"]
        self.starved_s: Any = None
        """Once it was killed."""
        self.pipe, out = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(out)
            return
        try:
            signal.alarm(int(job["kill_s"]) + CHILD_GRACE_S)  # where nobody is left to kill it
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            line = json.dumps(call(probe, job), default=str).encode()
            if len(line) > RESULT_BYTES:
                line = json.dumps({"how": "crashed", "message": "what the client said is too long"}).encode()
            os.write(out, line)
        finally:
            os._exit(0)

    def kill(self) -> None:
        self.starved_s = starved_s(self.pid)
        os.kill(self.pid, signal.SIGKILL)

    def result(self) -> dict[str, Any]:
        """When the pipe has something to read: the end of it, at least."""
        line = os.read(self.pipe, 65_536)
        os.close(self.pipe)
        status = os.waitpid(self.pid, 0)[1]
        if line:
            return {"id": self.id, **json.loads(line)}
        if self.starved_s is not None:
            seconds = round(time.monotonic() - self.began, 3)
            return {"id": self.id, "how": "waiting", "seconds": seconds, "starved_s": self.starved_s}
        return {"id": self.id, "how": "crashed", "message": f"its process ended with {status}"}


def serve(clients: list[str], probes: dict[str, Any]) -> None:
    stay_home()
    say = os.dup(1)
    os.dup2(2, 1)  # what a client prints is no answer of ours

    def tell(row: dict[str, Any]) -> None:
        os.write(say, json.dumps(row).encode() + b"\n")

    ready = {}
    for name in clients:
        signal.alarm(IMPORT_S)
        try:
            probe = probes[name]()
            tell({"client": name, "defaults": probe.defaults()})
            ready[name] = probe
        except BaseException as error:  # noqa: BLE001 # an import may raise anything, and another client may do
            tell({"client": name, "message": f"{type(error).__name__}: {error}"[:SAID_CHARACTERS]})
    signal.alarm(0)
    running: dict[int, Child] = {}
    held, more = b"", True
    try:
        while more or running:
            wait_s = min((child.kill_at for child in running.values() if child.starved_s is None), default=None)
            watched = [*running, 0] if more else [*running]
            timeout_s = None if wait_s is None else max(0.0, wait_s - time.monotonic())
            readable = select.select(watched, [], [], timeout_s)[0]
            for pipe in readable:
                if pipe:
                    tell(running.pop(pipe).result())
                    continue
                data = os.read(0, 65_536)
                more = bool(data)
                *lines, held = (held + data).split(b"\n")
                for line in lines:
                    job = json.loads(line)
                    probe = ready[job["client"]]
                    if job["warm"]:  # what a client imports at its first call is imported here, once for all children
                        tell({"id": job["id"], **call(probe, job)})
                        gc.collect()
                        gc.freeze()  # else the collector of each child copies what they share
                    else:
                        child = Child(probe, job)
                        running[child.pipe] = child
            for child in running.values():
                if child.starved_s is None and (not more or time.monotonic() >= child.kill_at):
                    child.kill()
    finally:  # whatever ended this: a reader that is gone, too
        for child in running.values():
            child.kill()


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 # no more imports than are needed
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100 # likewise
    if sys.argv[1] == "find":
        print("\n" + json.dumps(find(sys.argv[2:])), flush=True)  # what started before may have begun a line
    else:
        serve(sys.argv[2:], runpy.run_path(os.path.join(here, "clients.py"))["PROBES"])  # noqa: PTH118 # likewise
