"""Runs in the interpreter under check, which knows nothing of drillmaster: standard library alone, Python 3.9 or later.

`_host.py find` says which clients are installed. `_host.py serve PROBE` imports one client, tells its own defaults, then
reads jobs, one JSON object a line, and forks a child for each: the import is paid once, a call that never returns is
killed, and no call sees the state of another. A connection to anything but loopback is refused in the child and told.
"""

import importlib.metadata
import json
import os
import platform
import runpy
import select
import signal
import sys
import time
from typing import Any, Dict, List, Tuple  # noqa: UP035 # Python 3.9 is a target

MESSAGE_BYTES = 300
RESULT_BYTES = 3_500


def _find(names: List[str]) -> None:  # noqa: UP006 # Python 3.9 is a target
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    print(json.dumps({"python": platform.python_version(), "found": found}), flush=True)


LEFT: List[str] = []  # noqa: UP006 # Python 3.9 is a target
"""Where a client wanted to go, and was not let."""


def _stay_home() -> None:
    """Refuse, for good, every connection that is not to loopback, before a packet leaves."""

    def hook(event: str, args: Tuple[Any, ...]) -> None:  # noqa: UP006 # Python 3.9 is a target
        if event == "socket.connect" and isinstance(args[1], tuple):
            host = str(args[1][0])
            if not host.startswith("127.") and host != "::1":
                LEFT.append(host)
                raise OSError(f"sdk-check allows loopback only, not {host}")
        elif event == "socket.getaddrinfo" and args[0] not in (None, "127.0.0.1", "::1", "localhost", b"127.0.0.1"):
            LEFT.append(str(args[0]))
            raise OSError(f"sdk-check looks up no names: {args[0]}")

    sys.addaudithook(hook)


def _class(kind: type) -> str:
    module = kind.__module__.split(".")[0]
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _read(lines: Any) -> Dict[str, Any]:  # noqa: UP006 # Python 3.9 is a target
    """What a hand-written reader of OpenAI's stream makes of its lines."""
    text, finish = "", None
    for line in lines:
        if line.startswith("data: ") and line != "data: [DONE]":
            for choice in json.loads(line[6:]).get("choices") or ():
                text += choice.get("delta", {}).get("content") or ""
                finish = choice.get("finish_reason") or finish
    return {"text": text, "finish": finish}


def _call(probe: Dict[str, Any], job: Dict[str, Any]) -> Dict[str, Any]:  # noqa: UP006 # Python 3.9 is a target
    LEFT.clear()
    began = time.monotonic()
    said: Dict[str, Any]  # noqa: UP006 # Python 3.9 is a target
    try:
        job = {**job, "read": _read}
        client = probe["client"](job)
        for _ in range(job["calls"] - 1):
            probe["call"](client, job)
        began = time.monotonic()
        said = {"how": "returned", **probe["call"](client, job)}
    except BaseException as error:  # noqa: BLE001 # whatever the client raises is what is measured
        said = {
            "how": "raised",
            "class": _class(type(error)),
            "caught": isinstance(error, probe["caught"]),
            "status": getattr(error, "status_code", None) or getattr(error, "code", None),
            "message": str(error)[:MESSAGE_BYTES],
        }
    said["seconds"] = round(time.monotonic() - began, 3)
    said["left_loopback"] = LEFT[:5]
    return said


def _child(probe: Dict[str, Any], job: Dict[str, Any], out: int) -> None:  # noqa: UP006 # Python 3.9 is a target
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    said = _call(probe, job)
    for key in ("text", "message"):
        if isinstance(said.get(key), str):
            said[key] = said[key][:MESSAGE_BYTES]
    line = json.dumps(said, default=str).encode()
    os.write(out, line if len(line) <= RESULT_BYTES else json.dumps({"how": "crashed", "message": "too long"}).encode())


def _serve(path: str) -> None:
    _stay_home()
    probe = runpy.run_path(path)
    say = os.dup(1)
    os.dup2(2, 1)  # what a client prints at import is no answer of ours

    def tell(row: Dict[str, Any]) -> None:  # noqa: UP006 # Python 3.9 is a target
        os.write(say, json.dumps(row).encode() + b"\n")

    tell({"ready": True, "defaults": probe["defaults"]()})
    running: Dict[int, Tuple[str, float, int, float]] = {}  # noqa: UP006 # pid -> job, when to kill, its pipe, begun
    held, more = b"", True
    while more or running:
        if more and select.select([0], [], [], 0.03)[0]:
            data = os.read(0, 65_536)
            more = bool(data)
            held += data
            *lines, held = held.split(b"\n")
            for line in lines:
                job = json.loads(line)
                if job["warm"]:  # what a client imports at its first call is imported here, once for all children
                    tell({"id": job["id"], **_call(probe, job)})
                    continue
                inner, outer = os.pipe()
                pid = os.fork()
                if pid == 0:
                    try:
                        os.close(inner)
                        _child(probe, job, outer)
                    finally:
                        os._exit(0)
                os.close(outer)
                now = time.monotonic()
                running[pid] = (job["id"], now + job["kill_s"], inner, now)
        elif not more:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
        for pid, (name, kill_at, inner, begun) in list(running.items()):
            late = time.monotonic() > kill_at
            if late:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if not done:
                continue
            del running[pid]
            line = os.read(inner, 65_536)
            os.close(inner)
            if line:
                tell({"id": name, **json.loads(line)})
            elif late:
                tell({"id": name, "how": "waiting", "seconds": round(time.monotonic() - begun, 3)})
            else:
                tell({"id": name, "how": "crashed", "message": f"the process ended with {status}"})


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 # no more imports than are needed
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100 # likewise
    if sys.argv[1] == "find":
        _find(sys.argv[2:])
    else:
        _serve(sys.argv[2])
