"""Who may order what: token files, the run that is live, and the lock that keeps a second drill off a target.

1. Each seat has a token in a file of its own, 0600, in the user's state folder and never in the run. Three files of one
   user separate nobody by force: they are procedure. What separates is the uid on the socket and the Verifier's signature.
2. `live.json` says which run is live, with the process's id and start time, so that a reused id is not taken for it.
3. A lock is the kernel's (`flock`): a killed conductor holds none, and the next run takes over what it left.
4. Nothing here outlives its drill for long: tokens, sockets and lock files go at the end of a run, and what a killed
   conductor left goes when the next run begins. Between drills the whole state folder may be deleted.
"""

import contextlib
import errno
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from drillmaster.conduct import Role
from drillmaster.errors import Problem, Refused
from drillmaster.intake.state import state_root
from drillmaster.timeline.opening import complaint

__all__ = [
    "SEATS",
    "Live",
    "Lock",
    "State",
    "find_live",
    "how_it_ends",
    "left_proxies",
    "live_at",
    "live_loads",
    "live_runs",
    "open_state",
    "private_folder",
    "stop_load",
    "sweep",
    "take_lock",
    "writable_down",
]

SEATS = (Role.LEAD, Role.SCRIBE, Role.VERIFIER)
_SOCKET_PATH_BYTES = 100
_SOCKETS = "drillmaster-sockets-"
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}")
_YOUNG_S = 60.0


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """`live.json`: what another terminal needs to reach the conductor, and what a later run needs to clear up after it."""

    run: str
    run_dir: str
    pid: int
    started: int
    """Start time of that process in clock ticks since boot (/proc/PID/stat)."""
    control: str
    proxy_control: str
    """The control socket of its injector, whatever that is."""
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

    def further_token(self, name: str) -> Path:
        """Make a token that is no seat's; the file that holds it. Raises Problem."""
        path = self.folder / f"{name}.token"
        _write_private(path, secrets.token_urlsafe(32).encode() + b"\n")
        return path

    def socket(self, name: str) -> Path:
        """Where a part's control socket lies."""
        return self.sockets / f"{name}.sock"

    def write_live(self, live: Live) -> None:
        _write_private(self.folder / "live.json", msgspec.json.encode(live))

    def close(self, *, keep_proxy: bool = False) -> None:
        """The run is over: no orders any more, so no tokens. A proxy that goes on keeps its socket."""
        if not keep_proxy:
            _remove(self.folder, self.sockets)
            return
        for role in SEATS:
            self.token_file(role).unlink(missing_ok=True)
        (self.folder / "live.json").unlink(missing_ok=True)
        self.control.unlink(missing_ok=True)


def _remove(folder: Path, sockets: Path) -> None:
    """Remove a run's state folder, and the folder of its sockets where that is another one."""
    if sockets != folder:
        shutil.rmtree(sockets, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def writable_down(path: Path, *, place: str, remedy: str) -> None:
    """Refuse a path with bytes that are no UTF-8: manifest, orders and what the proxy is told are text. Raises Problem."""
    absolute = str(path.absolute())
    try:
        absolute.encode()
    except UnicodeEncodeError:
        raise Problem(
            place, found=f"bytes that are no UTF-8 in {absolute}", wanted="a path that is text", remedy=remedy
        ) from None


def private_folder(path: Path) -> None:
    """Make a folder that is this user's alone. Raises Problem where somebody else's stands, or its path is no text."""
    writable_down(path, place="the state folder", remedy="set DRILLMASTER_STATE to one of UTF-8 alone")
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
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _no_room(path, error) from None


def _no_room(path: Path, error: OSError) -> Problem:
    found, remedy = complaint(error)
    return Problem(
        str(path),
        found=found,
        wanted="a state folder that takes tokens and locks",
        remedy=f"{remedy}, or set DRILLMASTER_STATE",
    )


def open_state(run: str) -> State:
    """Make a run's state folder with a fresh token for each seat. Raises Problem."""
    root = state_root()
    private_folder(root)
    folder = root / run
    private_folder(folder)
    tokens = {role: secrets.token_urlsafe(32) for role in SEATS}
    for role, token in tokens.items():
        _write_private(folder / f"{role}.token", token.encode() + b"\n")
    sockets = folder
    if len(os.fsencode(folder / "conductor.sock")) > _SOCKET_PATH_BYTES:  # a Unix socket's path is limited to 107
        sockets = Path(tempfile.mkdtemp(prefix=_SOCKETS, dir="/tmp"))  # mkdtemp makes it 0700
    return State(folder, sockets, tokens)


def started_ticks(pid: int) -> int | None:
    """When a process began, in ticks since boot; None where there is none, or one that has ended and is not yet waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *fields = stat.rpartition(b")")[2].split()
    return None if state in (b"Z", b"X") else int(fields[18])


def live_runs() -> Iterator[tuple[Path, Live]]:
    """Every run of this user whose conductor is alive, with its state folder."""
    root = state_root()
    for path in sorted(root.glob("*/live.json")) if root.is_dir() else ():
        with contextlib.suppress(OSError, msgspec.DecodeError):
            live = msgspec.json.decode(path.read_bytes(), type=Live)
            if started_ticks(live.pid) == live.started:
                yield path.parent, live


def live_loads() -> Iterator[Live]:
    """Every interview of this user that goes on. It takes no orders but a signal, and has no state folder: its lock says it."""
    for path in sorted((state_root() / "locks").glob("*")):
        live = _holder(path)
        if live is not None and not live.control and started_ticks(live.pid) == live.started:
            yield live


def live_at(run_dir: Path) -> Live | None:
    """The live drill or interview whose run folder this is; None where whoever runs it is not alive, or is another user."""
    wanted = os.path.realpath(run_dir)  # unlike `Path.resolve`, no error on links that lead in a circle
    alive = (*(live for _, live in live_runs()), *live_loads())
    return next((live for live in alive if os.path.realpath(live.run_dir) == wanted), None)


def stop_load(run: str | None, *, within_s: float) -> Live | None:
    """End the interview of this name, id or folder, or the only live run where that is one, and wait until it is sealed.

    None: what is meant is no interview. Raises Refused where it takes longer, or several may be meant.
    """
    loads = list(live_loads())
    wanted = None if run is None else Path(run).name
    meant = [live for live in loads if live.run == wanted] if wanted else loads
    if not meant:
        return None
    if wanted is None:
        meant += [live for _, live in live_runs()]
    if len(meant) > 1:
        raise _several(meant)
    (live,) = meant
    os.kill(live.pid, signal.SIGTERM)
    give_up_s = time.monotonic() + within_s
    while started_ticks(live.pid) == live.started:
        if time.monotonic() > give_up_s:
            raise Refused(
                f"run {live.run}",
                found=f"pid {live.pid}, which has not ended in {within_s:g} s",
                wanted="the interview's end",
                remedy=f"look at its terminal; it is told once more by: kill {live.pid}",
            )
        time.sleep(0.05)
    return live


def sweep() -> None:
    """Remove what drills left that are over: state folders of conductors that were killed, and lock files that nobody holds.

    A proxy that still passes through for an agent keeps its socket, by which the next run ends it.
    """
    root = state_root()
    if not root.is_dir():
        return
    alive = {folder for folder, _ in live_runs()}
    for path in root.iterdir():
        if _RUN.fullmatch(path.name) is None or path in alive or path.is_symlink():
            continue
        live = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            live = msgspec.json.decode((path / "live.json").read_bytes(), type=Live)
        with contextlib.suppress(FileNotFoundError):
            if live is None and time.time() - path.stat().st_mtime < _YOUNG_S:
                continue  # another drill that is just beginning: its tokens and then its live.json come after its folder
        proxy = Path(live.proxy_control) if live is not None else path / "proxy.sock"
        if _answers(proxy) is not None:
            for role in SEATS:
                (path / f"{role}.token").unlink(missing_ok=True)
        else:
            _remove(path, proxy.parent if proxy.parent.name.startswith(_SOCKETS) else path)
    for path in (root / "locks").glob("*"):
        with contextlib.suppress(OSError):
            fd = _lock_file(path)
            if fd is not None:
                held_on_to = os.fstat(fd).st_size > 0 and _answers_for(fd)
                if not held_on_to:
                    path.unlink(missing_ok=True)
                os.close(fd)


def _answers(sock_path: Path) -> int | None:
    """Which process listens there; None where none does."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        sock.connect(os.fspath(sock_path))
        pid: int = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return pid
    return None


def _answers_for(fd: int) -> bool:
    """Whether the proxy that the last holder of a lock left is still there."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return _answers(Path(msgspec.json.decode(os.pread(fd, 65_536, 0), type=Live).proxy_control)) is not None
    return False


def left_proxies() -> Iterator[tuple[Live, int]]:
    """Every proxy that still passes through for a drill that is over or was killed: who left it, and its process."""
    told = set()
    for path in sorted((state_root() / "locks").glob("*")):
        left = _holder(path)
        if left is None or left.run in told or started_ticks(left.pid) == left.started:
            continue
        pid = _answers(Path(left.proxy_control))
        if pid is not None:
            told.add(left.run)
            yield left, pid


def how_it_ends(left: Live, pid: int) -> str:
    """What to know of a proxy that was left, and to do."""
    at = left.listen.rpartition("/")[2]
    return (
        f"the proxy of run {left.run} (pid {pid}) still has {at}: a fault that was on ends within seconds, as nobody renews it, "
        f"and the proxy once nobody has asked it for 10 min; the next drill on {at} takes it over; to end it now: kill {pid}"
    )


def find_live(run: str | None) -> tuple[Path, Live]:
    """The live run of this name, id or folder; without one, the only live one. Raises Refused."""
    alive = list(live_runs())
    if run is not None:
        wanted = Path(run).name
        for folder, live in alive:
            if live.run == wanted:
                return folder, live
        _check_own(state_root())
        left = [how_it_ends(*one) for one in left_proxies() if one[0].run == wanted]
        raise Refused(
            "RUN",
            found=f"{wanted}, which is not live",
            wanted=f"one of {', '.join(live.run for _, live in alive)}" if alive else "a run that is going on",
            remedy=left[0]
            if left
            else "leave RUN out for the only live run"
            if len(alive) == 1
            else "start one: drillmaster run eviction PLAN",
        )
    if not alive:
        _check_own(state_root())
        remedy = "; ".join(how_it_ends(*one) for one in left_proxies()) or "start one: drillmaster run eviction PLAN"
        raise Refused("RUN", found="no live run", wanted="one", remedy=remedy)
    if len(alive) > 1:
        raise _several([live for _, live in alive])
    return alive[0]


def _several(alive: list[Live]) -> Refused:
    where = ", ".join(dict.fromkeys(str(Path(live.run_dir).parent) for live in alive))
    return Refused(
        "RUN",
        found=f"{len(alive)} live runs of this account, in {where}",
        wanted="the name of one of them",
        remedy=f"add one of {', '.join(live.run for live in alive)}",
    )


def _check_own(root: Path) -> None:
    """Refuse another account's state folder where nothing live was found in it: this user cannot look into its runs."""
    if root.is_dir() and os.getuid() not in (root.stat().st_uid, 0):
        raise Refused(
            str(root),
            found=f"a state folder of uid {root.stat().st_uid}",
            wanted="your own: orders come from the account that the drill runs under",
            remedy="give yours in that account (sudo -u ITS-USER drillmaster ...), or set DRILLMASTER_STATE to your own",
        )


class Lock:
    """Locks on a target and a listening address, held until closed or until this process is gone."""

    def __init__(self, fds: list[int], paths: list[Path]) -> None:
        self._fds = fds
        self._paths = paths

    def note(self, live: Live) -> None:
        """Write down who holds it, for whom it turns away and for who takes over."""
        content = msgspec.json.encode(live)
        for fd in self._fds:
            try:
                os.ftruncate(fd, 0)
                if os.pwrite(fd, content, 0) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                raise _no_room(state_root() / "locks", error) from None

    def clear(self) -> None:
        """Nothing is left for a next run to clear up. Goes before `close`: only who holds a lock may remove its file."""
        for path in self._paths:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def take_lock(things: Iterable[str]) -> tuple[Lock, list[Live]]:
    """Lock each thing (`target 127.0.0.1:8000`), or raise Refused naming the pid of who holds it.

    The second value is what earlier holders left behind: they were killed, or their proxy still passes through.
    """
    folder = state_root() / "locks"
    private_folder(state_root())
    private_folder(folder)
    fds: list[int] = []
    paths: list[Path] = []
    left: list[Live] = []
    for thing in things:
        path = folder / hashlib.sha256(thing.encode()).hexdigest()[:32]
        try:
            fd = _lock_file(path)
        except OSError as error:
            for other in fds:
                os.close(other)
            raise _no_room(path, error) from None
        if fd is None:
            for other in fds:
                os.close(other)
            before = _holder(path)
            who = f"pid {before.pid}, run {before.run}" if before is not None else "another process"
            raise Refused(
                thing,
                found=f"a drill on it already ({who})",
                wanted="one drill at a time on a target and on a port",
                remedy=f"wait for it, or stop it: drillmaster stop {before.run if before is not None else ''}".rstrip(),
            )
        fds.append(fd)
        paths.append(path)
        before = _holder(path)
        if before is not None and before not in left:
            left.append(before)
    return Lock(fds, paths), left


def _holder(path: Path) -> Live | None:
    """Who wrote himself into a lock file; None where nobody did."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes()[:65_536], type=Live)
    return None


def _lock_file(path: Path) -> int | None:
    """Open and lock a file, made where it is not there; None where somebody holds it.

    Who holds a lock may remove its file. A lock on a file that has gone meanwhile keeps nobody off, so it is looked at
    again by name.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = path.stat()
        except BlockingIOError:
            os.close(fd)
            return None
        except FileNotFoundError:
            os.close(fd)
            continue
        except BaseException:
            os.close(fd)
            raise
        if os.path.samestat(there, os.fstat(fd)):
            return fd
        os.close(fd)
