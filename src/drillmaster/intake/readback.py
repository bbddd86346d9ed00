"""What flag store and router say after a freeze was set: asked by a command of the service's own, dated and written down here.

1. The command is the reader's own, run without a shell, and has 30 s. It prints one JSON object: `flag`, `frozen`, `percent`,
   `flag_default_on`, `dual_write`, `old_writer`, as they were read, and nothing besides.
2. Time and plan are taken here, not from the command: the time before it was asked, the digest of the plan's bytes.
3. What it prints is not believed by whoever wrote it down; the gate compares it with the plan.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from drillmaster import strict
from drillmaster.clock import Clock, rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.cutover import FreezeProof
from drillmaster.intake import read_bytes
from drillmaster.rules.cutover_plan import read_plan

__all__ = ["read_back"]

LIMIT_S = 30.0
_CAP_BYTES = 1 << 16


class _Read(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flag: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    frozen: bool
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)]
    flag_default_on: bool
    dual_write: bool
    old_writer: bool


def read_back(plan: Path, command: Sequence[str], clock: Clock, *, limit_s: float = LIMIT_S) -> FreezeProof:
    """Ask by a command what holds now, for one plan. Raises Problem."""
    data = read_bytes(plan, 1 << 20)
    service = read_plan(strict.load(data, place=str(plan), fmt="json")).service
    if not service:
        raise Problem(
            f"{plan}: /service", found="nothing", wanted="the service's name", remedy="name the plan's own file"
        )
    at_ns = clock.wall_ns()
    read = strict.load_as(_said(command, limit_s), _Read, place=f"what {command[0]} printed", fmt="json")
    return FreezeProof(
        kind="freeze-proof",
        version=1,
        service=service,
        plan_digest=strict.digest_bytes(data),
        flag=read.flag,
        frozen=read.frozen,
        percent=read.percent,
        flag_default_on=read.flag_default_on,
        dual_write=read.dual_write,
        old_writer=read.old_writer,
        read_at=rfc3339(at_ns, digits=3),
        read_by=Path(command[0]).name[:200] or "a command",
    )


def _said(command: Sequence[str], limit_s: float) -> bytes:
    wanted = "a command that reads flag and router, and prints what they answer as JSON"
    remedy = "run it by itself and see what it says"
    program = shutil.which(command[0])
    if program is None:
        raise Problem(command[0], found="no such program", wanted=wanted, remedy="name it by its path, behind --")
    try:
        started = subprocess.Popen(  # noqa: S603  # the reader's own command, as typed, without a shell
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise Problem(command[0], found=error.strerror or "no start", wanted=wanted, remedy=remedy) from None
    with started:
        try:
            said = _read(started, limit_s)
            whole = said is not None and len(said) <= _CAP_BYTES
            code = started.wait(timeout=max(0.1, limit_s)) if whole else None
        except subprocess.TimeoutExpired:
            said = code = None
        finally:
            # Its children too: one that holds the pipe would hold this process.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, signal.SIGKILL)
    if said is None:
        raise Problem(command[0], found=f"no answer within {limit_s:g} s", wanted=wanted, remedy=remedy)
    if len(said) > _CAP_BYTES:
        raise Problem(command[0], found=f"more than {_CAP_BYTES:,} bytes", wanted=wanted, remedy=remedy)
    if code != 0:
        raise Problem(command[0], found=f"exit code {code}", wanted=wanted, remedy=remedy)
    return said


def _read(started: "subprocess.Popen[bytes]", limit_s: float) -> bytes | None:
    """Read what a command prints to its end, or a byte past the cap; None where the end does not come in time."""
    assert started.stdout is not None
    ends, said = time.monotonic() + limit_s, b""
    descriptor = started.stdout.fileno()
    while len(said) <= _CAP_BYTES:
        left = ends - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        chunk = os.read(descriptor, _CAP_BYTES + 1 - len(said))
        if not chunk:
            return said
        said += chunk
    return said
