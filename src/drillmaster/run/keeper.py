"""Hold one worker on a short lead: `python keeper.py LEAD_FD NOFILE COMMAND...`.

A worker may start others (`npm start`, a shell, a pre-forking server). When the drill ends, or is killed, none of them
may stay. A death signal reaches a direct child only, and a process group can be left; so this little process stands in
between: it is what its descendants fall back to when their parents die, and it ends them all when its lead is cut.

The lead is one end of a socket pair. The keeper writes one JSON line when the worker has started and one when it has
ended; when the other end is closed it sends SIGTERM, and SIGKILL `GRACE_S` later. It imports nothing of drillmaster: it
runs isolated and starts in some milliseconds.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

GRACE_S = 5.0
POLL_S = 0.2
_PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """Ask the kernel; where it does not know the option we are as well off as without."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def children(parent: int) -> list[int]:
    """List the processes whose parent this is, from /proc."""
    found = []
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        try:
            fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it ended while we looked
        try:
            stat = os.read(fd, 4096)
        except OSError:
            continue
        finally:
            os.close(fd)
        # The name stands in parentheses and may hold anything: the fields are counted from the last one.
        if int(stat.rpartition(b")")[2].split()[1]) == parent:
            found.append(pid)
    return found


def _signal(pid: int, number: int, *, group: bool = False) -> None:
    with contextlib.suppress(OSError):  # gone already
        (os.killpg if group else os.kill)(pid, number)


def _reap() -> dict[int, int]:
    """Collect what has ended: pid -> exit code, negative for a signal."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _start(command: list[str], soft_limit: int, lead: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(lead)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))
        os.execvp(command[0], command)  # noqa: S606  # a worker's command line is its own, no shell reads it
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _say(lead: int, **fields: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more; the lead will be seen to be cut
        os.write(lead, json.dumps(fields).encode() + b"\n")


def main(argv: list[str]) -> int:
    lead, soft_limit, command = int(argv[0]), int(argv[1]), argv[2:]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the lead decides, not a terminal
    worker = _start(command, soft_limit, lead)
    _say(lead, pid=worker)
    code: int | None = None
    said = False
    kill_at: float | None = None
    waits_left = round(GRACE_S / POLL_S)  # beside the clock: it may be made to stand still
    poll = select.poll()
    poll.register(lead, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        code = _reap().get(worker, code)
        if code is not None and not said:
            said = True
            _say(lead, code=code)
            kill_at = kill_at or time.monotonic() + GRACE_S
            _signal(worker, signal.SIGTERM, group=True)
            for pid in children(os.getpid()):
                _signal(pid, signal.SIGTERM)
        left = children(os.getpid())
        if code is not None and not left:
            return 0
        if kill_at is not None and (time.monotonic() >= kill_at or waits_left <= 0):
            _signal(worker, signal.SIGKILL, group=True)
            for pid in left:
                _signal(pid, signal.SIGKILL)
        woken = poll.poll(POLL_S * 1000 if kill_at is not None else 60_000)
        if kill_at is not None and not woken:
            waits_left -= 1
        for fd, _ in woken:
            if fd == wake_read:
                os.read(wake_read, 4096)
            elif kill_at is None and not os.read(lead, 64):
                kill_at = time.monotonic() + GRACE_S
                poll.unregister(lead)
                _signal(worker, signal.SIGTERM, group=True)
            elif kill_at is not None:
                poll.unregister(lead)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
