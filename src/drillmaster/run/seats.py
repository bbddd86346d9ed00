"""Who may order what: token files, the run that is live, and the lock that keeps a second drill off a target.

1. Each seat has a token in a file of its own, 0600, in the user's state folder and never in the run. Three files of one
   user separate nobody by force: they are procedure. What separates is the uid on the socket and the Verifier's signature.
2. `live.json` says which run is live, with the process's id and start time, so that a reused id is not taken for it.
3. A lock is the kernel's (`flock`): a killed conductor holds none, and the next run takes over what it left.
"""

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from drillmaster.conduct import Role
from drillmaster.errors import Problem, Refused

__all__ = ["SEATS", "Live", "Lock", "State", "find_live", "live_runs", "open_state", "state_root", "take_lock"]

SEATS = (Role.LEAD, Role.SCRIBE, Role.VERIFIER)
_SOCKET_PATH_BYTES = 100


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """`live.json`: what another terminal needs to reach the conductor, and what a later run needs to clear up after it."""

    run: str
    run_dir: str
    pid: int
    started: int
    """Start time of that process in clock ticks since boot (/proc/PID/stat)."""
    control: str
    proxy_control: str
    listen: str
    target: str


class State:
    """A run's folder of tokens and sockets."""

    def __init__(self, folder: Path, sockets: Path, tokens: dict[Role, str]) -> None:
        self.folder = folder
        self.sockets = sockets
        self._tokens = tokens

    @property
    def control(self) -> Path:
        return self.sockets / "conductor.sock"

    @property
    def proxy_control(self) -> Path:
        return self.sockets / "proxy.sock"

    def role(self, token: str) -> Role | None:
        """Whose token this is; None for one of no seat. Compares all of them, in constant time each."""
        found = None
        for role, own in self._tokens.items():
            if hmac.compare_digest(own.encode(), token.encode("utf-8", "replace")):
                found = role
        return found

    def token_file(self, role: Role) -> Path:
        return self.folder / f"{role}.token"

    def write_live(self, live: Live) -> None:
        _write_private(self.folder / "live.json", msgspec.json.encode(live))

    def close(self, *, keep_proxy: bool = False) -> None:
        """The run is over: no orders any more. The Verifier's token stays; a proxy that goes on keeps its socket."""
        for role in (Role.LEAD, Role.SCRIBE):
            self.token_file(role).unlink(missing_ok=True)
        (self.folder / "live.json").unlink(missing_ok=True)
        self.control.unlink(missing_ok=True)
        if keep_proxy:
            return
        self.proxy_control.unlink(missing_ok=True)
        if self.sockets != self.folder:
            shutil.rmtree(self.sockets, ignore_errors=True)


def state_root() -> Path:
    """The user's state folder: DRILLMASTER_STATE, else what the platform says."""
    named = os.environ.get("DRILLMASTER_STATE")
    if named:
        return Path(named).absolute()
    import platformdirs

    return platformdirs.user_state_path("drillmaster")


def _private_dir(path: Path) -> None:
    """Make a folder that is this user's alone. Raises Problem where somebody else's stands."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = path.stat()
        if status.st_uid != os.getuid():
            raise Problem(
                str(path), found=f"a folder of uid {status.st_uid}", wanted="your own", remedy="set DRILLMASTER_STATE"
            )
        if status.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise Problem(
            str(path),
            found=error.strerror or "an error",
            wanted="a writable state folder",
            remedy="set DRILLMASTER_STATE to one",
        ) from None


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
    temporary.replace(path)


def open_state(run: str) -> State:
    """Make a run's state folder with a fresh token for each seat. Raises Problem."""
    root = state_root()
    _private_dir(root)
    folder = root / run
    _private_dir(folder)
    tokens = {role: secrets.token_urlsafe(32) for role in SEATS}
    for role, token in tokens.items():
        _write_private(folder / f"{role}.token", token.encode() + b"\n")
    sockets = folder
    if len(os.fsencode(folder / "conductor.sock")) > _SOCKET_PATH_BYTES:  # a Unix socket's path is limited to 107
        sockets = Path(tempfile.mkdtemp(prefix="drillmaster-", dir="/tmp"))  # mkdtemp makes it 0700
    return State(folder, sockets, tokens)


def started_ticks(pid: int) -> int | None:
    """When a process began, in ticks since boot; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[19])


def live_runs() -> Iterator[tuple[Path, Live]]:
    """Every run of this user whose conductor is alive, with its state folder."""
    root = state_root()
    for path in sorted(root.glob("*/live.json")) if root.is_dir() else ():
        with contextlib.suppress(OSError, msgspec.DecodeError):
            live = msgspec.json.decode(path.read_bytes(), type=Live)
            if started_ticks(live.pid) == live.started:
                yield path.parent, live


def find_live(run: str | None) -> tuple[Path, Live]:
    """The live run of this name, id or folder; without one, the only live one. Raises Refused."""
    alive = list(live_runs())
    if run is not None:
        wanted = Path(run).name
        for folder, live in alive:
            if live.run == wanted:
                return folder, live
        raise Refused(
            "RUN",
            found=f"{wanted}, which is not live",
            wanted=f"one of {', '.join(live.run for _, live in alive)}" if alive else "a run that is going on",
            remedy="leave RUN out for the only live run"
            if len(alive) == 1
            else "start one: drillmaster run eviction PLAN",
        )
    if not alive:
        raise Refused("RUN", found="no live run", wanted="one", remedy="start one: drillmaster run eviction PLAN")
    if len(alive) > 1:
        raise Refused(
            "RUN",
            found=f"{len(alive)} live runs",
            wanted="the name of one of them",
            remedy=f"add one of {', '.join(live.run for _, live in alive)}",
        )
    return alive[0]


class Lock:
    """Locks on a target and a listening address, held until closed or until this process is gone."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds

    def note(self, live: Live) -> None:
        """Write down who holds it, for whom it turns away and for who takes over."""
        content = msgspec.json.encode(live)
        for fd in self._fds:
            os.ftruncate(fd, 0)
            os.pwrite(fd, content, 0)

    def clear(self) -> None:
        """Nothing is left for a next run to clear up."""
        for fd in self._fds:
            os.ftruncate(fd, 0)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def take_lock(things: Iterable[str]) -> tuple[Lock, list[Live]]:
    """Lock each thing (`target 127.0.0.1:8000`), or raise Refused naming the pid of who holds it.

    The second value is what earlier holders left behind: they were killed, or their proxy still passes through.
    """
    folder = state_root() / "locks"
    _private_dir(state_root())
    _private_dir(folder)
    fds: list[int] = []
    left: list[Live] = []
    for thing in things:
        path = folder / hashlib.sha256(thing.encode()).hexdigest()[:32]
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fds.append(fd)
        before = None
        with contextlib.suppress(msgspec.DecodeError):
            before = msgspec.json.decode(os.pread(fd, 65_536, 0), type=Live)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for other in fds:
                os.close(other)
            who = f"pid {before.pid}, run {before.run}" if before is not None else "another process"
            raise Refused(
                thing,
                found=f"a drill on it already ({who})",
                wanted="one drill at a time on a target and on a port",
                remedy=f"wait for it, or stop it: drillmaster stop {before.run if before is not None else ''}".rstrip(),
            ) from None
        if before is not None and before not in left:
            left.append(before)
    return Lock(fds), left
