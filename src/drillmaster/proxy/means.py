"""What a proxy takes from its machine: certificates, its token, the control socket, descriptors."""

import contextlib
import os
import resource
import socket
import ssl
from pathlib import Path

from drillmaster.errors import Problem

__all__ = ["descriptors_in_use", "listen_unix", "raise_descriptors", "read_token", "trust"]

MAX_DESCRIPTORS = 65_536


def trust(ca_file: str | None) -> ssl.SSLContext:
    """Whom an upstream's certificate may be signed by: the system's store, and this file. Raises Problem."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Problem(
                f"--upstream-ca {ca_file}",
                found=error.strerror or str(error),
                wanted="a PEM file of certificates",
                remedy="give the file of the authority that signed the upstream's certificate",
            ) from None
    return context


def read_token(path: str | None) -> bytes | None:
    """The first line of a file that nobody else may read. Raises Problem."""
    if path is None:
        return None
    try:
        file = Path(path)
        mode = file.stat().st_mode
        lines = file.read_bytes()[:4_096].split(b"\n")
    except OSError as error:
        raise Problem(
            f"token file {path}",
            found=error.strerror or "an error",
            wanted="a readable file",
            remedy="name the token file",
        ) from None
    if mode & 0o077:
        raise Problem(
            f"token file {path}",
            found=f"mode {mode & 0o777:04o}",
            wanted="0600: nobody else may read it",
            remedy=f"chmod 600 {path}",
        )
    if len(lines[0]) < 16:
        raise Problem(
            f"token file {path}",
            found="a first line of under 16 characters",
            wanted="a token that cannot be guessed",
            remedy=f"head -c 24 /dev/urandom | base64 > {path}",
        )
    return lines[0]


def listen_unix(path: Path) -> socket.socket:
    """A listening socket of mode 0600, in place of what lay there. Raises Problem."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # never open to others, not even between bind and chmod
    try:
        sock.bind(str(path))
        sock.listen(64)
    except OSError as error:
        sock.close()
        raise Problem(
            f"control socket {path}",
            found=error.strerror or str(error),
            wanted="a path of under 100 bytes in a folder of yours",
            remedy="choose another --control",
        ) from None
    finally:
        os.umask(before)
    sock.setblocking(False)
    return sock


def raise_descriptors() -> int:
    """Raise the soft limit as far as it may go; the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def descriptors_in_use() -> int:
    """How many this process has open, at least about."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 16  # no /proc: standard streams, loop, listeners, evidence, and some
