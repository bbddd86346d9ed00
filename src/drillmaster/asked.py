"""What a process that is asked from outside has to know: on which socket it listens, and who is at the other end.

1. A socket that was handed over is taken as it is; another is bound where the settings say, and a port that is taken is a
   problem with the command that shows its holder.
2. A Unix socket's peer is known by its uid (SO_PEERCRED), which no message can claim.
3. A page in a browser can be made to ask loopback by a name that leads there. So where nobody named a host, a Host field has to
   be an address or `localhost`: no name that somebody else can register is one.
"""

import functools
import ipaddress
import socket
import struct

from drillmaster.errors import Problem

__all__ = ["is_address", "listening", "peer_uid"]


def listening(host: str, port: int, *, fd: int | None, backlog: int, place: str, other: str) -> socket.socket:
    """Give a listening socket that does not block: the one of `fd`, or one bound here. Raises Problem.

    `place` is how the setting is called, `other` what a person does in place of freeing the port.
    """
    if fd is not None:
        sock = socket.socket(fileno=fd)
    else:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1" if host == "localhost" else host, port))
            sock.listen(backlog)
        except OSError as error:
            sock.close()
            raise Problem(
                f"{place} {host}:{port}",
                found=error.strerror or "an error",
                wanted="a free port on an address of this machine",
                remedy=f"see who holds it (ss -ltnp 'sport = :{port}'), or choose {other}",
            ) from None
    sock.setblocking(False)
    return sock


def peer_uid(sock: socket.socket) -> int:
    """Tell the uid at the other end of a Unix socket."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


@functools.lru_cache(64)
def is_address(host: bytes) -> bool:
    """Tell whether a Host field, its port left aside, is an address or `localhost`."""
    text = host.decode("latin-1").strip().lower()
    name, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        name = text
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name)
    except ValueError:
        return False
    return True
