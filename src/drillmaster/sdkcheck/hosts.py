"""The processes that clients run in: found, started with a clean environment, asked, ended.

A host is `probes/host.py` in the user's interpreter or `probes/host.mjs` under Node; both speak a JSON object a line. It holds
all clients of one package, so that an import is paid once, and calls them in children, or side by side under Node.
"""

import asyncio
import contextlib
import json
import os
import shutil
import site
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.sdkcheck import Client, Defaults, Runtime

__all__ = ["IMPORT_S", "PROBES", "Host", "clean_environment", "command", "find", "interpreter"]

PROBES = Path(__file__).resolve().parent / "probes"
FIND_S = 30.0
IMPORT_S = 120.0
KILL_GRACE_S = 3.0
SILENCE_S = 30.0
"""How much later than it should a host may tell: a busy machine is no crash."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH")


def clean_environment(home: Path) -> dict[str, str]:
    """What a client's process is given: no key, no proxy, no base URL, no `.netrc` of the caller's."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PYTHONUSERBASE": site.getuserbase(),  # where `pip install --user` put things, now that HOME is another
        "NO_PROXY": "*",
        "no_proxy": "*",
        "NETRC": os.devnull,
        # No TLS is spoken here, and a bundle of hundreds, read anew by each client, is half of the work of most calls. The
        # key of this one was thrown away: nobody can be trusted by it.
        "SSL_CERT_FILE": str(PROBES / "authority.pem"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is downloaded at import
        "LITELLM_MODE": "PRODUCTION",  # else it reads the .env of the caller's project, keys and proxies with it
        "LITELLM_LOG": "ERROR",
        "LANGSMITH_TRACING": "false",
        "DO_NOT_TRACK": "1",
    }


def interpreter(where: str) -> str:
    """The Python that `where` names: itself, or the one of an environment that is named by its folder or its `bin`.

    Raises Problem for a folder that has none.
    """
    folder = Path(where)
    if not folder.is_dir():
        return where
    inside = (folder / "bin" / "python", folder / "python", folder / "bin" / "python3", folder / "python3")
    for file in inside:
        if file.is_file():
            return str(file)
    raise Problem(
        f"--python {where}",
        found="a folder without bin/python",
        wanted="a Python interpreter, or the folder of its environment",
        remedy="name the python that your agent runs in: --python .venv/bin/python",
    )


def command(runtime: Runtime, where: str, verb: str) -> list[str]:
    """The command of a host. `where` is the Python interpreter, or the folder with Node's modules."""
    return (
        [where, str(PROBES / "host.py"), verb]
        if runtime == "python"
        else ["node", str(PROBES / "host.mjs"), verb, where]
    )


async def find(runtime: Runtime, where: str, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The version of an interpreter, and of those packages that it has. Raises Problem."""
    place = f"--{runtime} {where}"
    if runtime == "node" and shutil.which("node") is None:
        raise Problem(place, found="no node", wanted="Node.js", remedy="install it, or leave --node out")
    with tempfile.TemporaryDirectory() as home:
        out = await _ask([*command(runtime, where, "find"), *names], Path(home), place)
    try:
        told = next(row for line in out.splitlines() if "found" in (row := _row(line)))
        return str(told["version"]), {str(name): str(version) for name, version in told["found"].items()}
    except (StopIteration, KeyError, TypeError, AttributeError):
        raise Problem(
            place,
            found="no word from it",
            wanted="a Python interpreter, 3.9 or later" if runtime == "python" else "Node.js, 20.3 or later",
            remedy="name the one that your agent runs in",
        ) from None


def _row(line: bytes) -> dict[str, Any]:
    """A line of a host's; an empty row where it is none: an interpreter's own start may print, before a host can help it."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


async def _ask(argv: list[str], home: Path, place: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=clean_environment(home),
            start_new_session=True,
        )
    except OSError as error:
        raise Problem(
            place, found=error.strerror or str(error), wanted="a program that runs", remedy="name another"
        ) from None
    try:
        async with asyncio.timeout(FIND_S):
            return (await process.communicate())[0]
    except TimeoutError:
        raise Problem(
            place, found=f"no answer within {FIND_S:g} s", wanted="a program that answers", remedy="name another"
        ) from None
    finally:
        _kill(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


class Host:
    """A process of the clients of one package: jobs in, what came of them out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.ready: dict[str, Defaults] = {}
        self.unusable: dict[str, str] = {}
        """Why a client cannot be used."""
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._complaint = b""

    @classmethod
    async def start(cls, argv: Sequence[str], clients: Sequence[Client], home: Path) -> "Host":
        """Start it, and hear from it of each client."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv,
            *(c.name for c in clients),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=clean_environment(home),
            start_new_session=True,  # a terminal's Ctrl-C is for us: what a client makes of it is no measure
        )
        host = cls(process)
        drain = asyncio.create_task(host._drain())
        why = ""
        try:
            async with asyncio.timeout(IMPORT_S):
                while len(host.ready) + len(host.unusable) < len(clients):
                    await host._hear()
        except TimeoutError:
            why = f"no import within {IMPORT_S:g} s"
        except EOFError:
            await asyncio.wait([drain], timeout=KILL_GRACE_S)  # a child of it may hold the pipe
            said = host._complaint.decode("utf-8", "replace").strip().splitlines()
            why = said[-1] if said else "its process ended"
        except BaseException:
            _kill(process)
            drain.cancel()
            raise
        host.unusable |= {client.name: why for client in clients if why and client.name not in host.ready}
        host._tasks = [asyncio.create_task(host._read()), drain]
        return host

    async def _hear(self) -> None:
        """Take one line. Raises EOFError."""
        told = await self._line()
        if "defaults" in told:
            try:
                self.ready[told["client"]] = msgspec.convert(told["defaults"], Defaults)
            except msgspec.ValidationError as error:
                self.unusable[told["client"]] = f"what it limits by itself cannot be read: {error}"
        elif "client" in told:
            self.unusable[told["client"]] = told["message"]

    async def _line(self) -> dict[str, Any]:
        """The next line as a row, an empty one where it is none of a host's. Raises EOFError."""
        assert self.process.stdout is not None
        try:
            line = await self.process.stdout.readline()
        except ValueError:  # longer than any of a host's
            return {}
        if not line:
            raise EOFError
        return _row(line)

    async def _read(self) -> None:
        try:
            while True:
                row = await self._line()
                waiting = self._waiting.pop(row.get("id", ""), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(row)
        except EOFError:
            pass
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_result({"how": "crashed", "message": "the client's host process ended"})

    async def _drain(self) -> None:
        """Take what clients complain of; a full pipe would stop them. The end of it is kept."""
        assert self.process.stderr is not None
        while said := await self.process.stderr.read(65_536):
            self._complaint = (self._complaint + said)[-4_096:]

    async def call(self, job: dict[str, Any]) -> dict[str, Any]:
        """What came of one job; `crashed` where its host does not tell in time."""
        assert self.process.stdin is not None
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[job["id"]] = future
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            async with asyncio.timeout(job["kill_s"] + SILENCE_S):
                return await future
        except (OSError, TimeoutError):
            return {"how": "crashed", "message": "the client's host process is silent"}
        finally:
            self._waiting.pop(job["id"], None)

    async def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()  # its children are killed by it, then it ends
        try:
            async with asyncio.timeout(KILL_GRACE_S):
                await self.process.wait()
        except TimeoutError:
            _kill(self.process)
            await self.process.wait()
        for task in self._tasks:
            task.cancel()
