"""Ask a running proxy over its control door, from a terminal: blocking, one order a call."""

import http.client
import json
import socket
from typing import Any

from drillmaster.errors import Problem, Refused

__all__ = ["ask"]

CALL_S = 5.0


class _Door(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("control", timeout=CALL_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CALL_S)
        self.sock.connect(self._path)


def ask(
    control: str, method: str, path: str, content: dict[str, Any] | None = None, *, token: str | None = None
) -> dict[str, Any]:
    """Send one order to `control`, a socket's path or HOST:PORT on loopback.

    Raises Problem when nobody answers there, Refused when the answer is no.
    """
    door: http.client.HTTPConnection
    host, _, port = control.rpartition(":")
    if "/" not in control and port.isdigit():
        door = http.client.HTTPConnection(host or "127.0.0.1", int(port), timeout=CALL_S)
    else:
        door = _Door(control)
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    try:
        door.request(method, path, body=None if content is None else json.dumps(content), headers=headers)
        answer = door.getresponse()
        body = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Problem(
            f"control {control}",
            found=getattr(error, "strerror", None) or type(error).__name__,
            wanted="a running proxy",
            remedy="start one with `drillmaster proxy --upstream URL` and use the --control that it prints",
        ) from None
    finally:
        door.close()
    if answer.status == 400:
        raise Refused(
            f"control {control}",
            found=str(body.get("error", answer.status)),
            wanted="an order that makes sense",
            remedy="correct the order; nothing was changed",
        )
    if answer.status != 200:
        raise Refused(
            f"control {control}",
            found=str(body.get("error", answer.status)),
            wanted="an order that fits the proxy's state",
            remedy=f"look at it with: drillmaster proxy state --control {control}",
        )
    found: dict[str, Any] = body
    return found
