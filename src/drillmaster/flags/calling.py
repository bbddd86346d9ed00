"""Ask a flag server, as the command line does: one request, bounded, and whatever is no clear answer is a problem."""

import http.client
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from drillmaster.errors import Problem, Refused
from drillmaster.flags.doors import from_loopback
from drillmaster.intake.state import state_root
from drillmaster.proxy.means import read_token

__all__ = ["ask", "token_for"]

MAX_ANSWER_BYTES = 1 << 21


def ask(
    url: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    token: bytes | None = None,
    within_s: float = 5.0,
    allowed: frozenset[int] = frozenset({200}),
) -> dict[str, Any]:
    """The answer's JSON object. Raises Problem where there is none, or its status is not among `allowed`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem("--url", found=repr(url[:80]), wanted="the server's URL", remedy="--url http://127.0.0.1:8070")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    line = kind(parts.hostname, parts.port, timeout=within_s)
    fields = {"content-type": "application/json"} if body is not None else {}
    if token is not None:
        fields["authorization"] = f"Bearer {token.decode('latin-1')}"
    try:
        line.request(method, parts.path.rstrip("/") + path, None if body is None else json.dumps(body), fields)
        answer = line.getresponse()
        status, content = answer.status, answer.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Problem(
            url,
            found=f"no answer ({why})",
            wanted="a flag server",
            remedy="start one: drillmaster flags serve, or name another: --url",
        ) from None
    finally:
        line.close()
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise Problem(url, found=f"status {status} and no JSON", wanted="a flag server", remedy="name its URL: --url")
    if status in allowed:
        return told
    if "place" in told:
        found, wanted, remedy = (str(told.get(name, "")) for name in ("found", "wanted", "remedy"))
        raise Problem(path, found=found, wanted=wanted, remedy=remedy)
    if status in (401, 403):
        raise Refused(
            path,
            found=str(told.get("error", status)),
            wanted="leave to do it",
            remedy="name the token's file: --token-file",
        )
    raise Refused(
        path,
        found=f"{told.get('error', '')} (status {status})",
        wanted="the order carried out",
        remedy="drillmaster flags list",
    )


def token_for(url: str, seat: str, token_file: str | None) -> bytes | None:
    """The token of that file; else the one whose file a server of this user's, on this machine, names. Raises Problem.

    It is sent to loopback alone, where this user or root listens, and only out of a file of the user's state folder: whatever else
    listens there may name what it likes.
    """
    if token_file is not None:
        return read_token(token_file)
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not from_loopback(("127.0.0.1" if host == "localhost" else host, 0)):
        raise Refused(
            "--token-file",
            found="nothing, and a server on another machine",
            wanted="the file with the token that it takes",
            remedy=f"--token-file {seat}.token",
        )
    told = ask(url, "GET", "/healthz").get("tokens")
    path = Path(str(told.get(seat, ""))) if isinstance(told, dict) else Path()
    root = state_root().resolve()
    ours = path.name == f"{seat}.token" and path.parent.resolve().is_relative_to(root) and not path.is_symlink()
    if not ours or not _listens(parts.port or 80):
        raise Refused(
            "--token-file",
            found="nothing, and a server whose tokens do not lie in your state folder",
            wanted=f"the file with the {seat} token that it takes",
            remedy=f"--token-file {seat}.token, as the server was told",
        )
    return read_token(str(path))


def _listens(port: int) -> bool:
    """Whether it is this user, or root, who listens there."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if (
                fields[3] == "0A"
                and int(fields[1].rpartition(":")[2], 16) == port
                and int(fields[7]) in (os.getuid(), 0)
            ):
                return True
    return False
