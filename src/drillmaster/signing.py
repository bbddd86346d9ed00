"""Sign and verify files with SSH keys, by `ssh-keygen -Y`: nothing to install, no key of ours, offline.

1. A signature of FILE is FILE.sig. It is over the file's bytes, in a namespace, so that a signature under evidence is
   none under a policy.
2. Who may sign comes from the reader: a public key, or an allowed_signers file with an identity. What lies beside the
   file, or in it, is never asked.
3. A signature says that a key's holder had these bytes. It does not say when, nor that they are true.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from drillmaster.errors import Problem, Refused
from drillmaster.timeline.opening import complaint, read_whole, write_whole

__all__ = ["EVIDENCE", "POLICY", "Namespace", "Signer", "fits", "sign", "signature_of", "verify"]

Namespace = Literal["drillmaster-evidence", "drillmaster-policy"]
EVIDENCE: Namespace = "drillmaster-evidence"
POLICY: Namespace = "drillmaster-policy"

SIGN_LIMIT_S = 120.0
"""A person may have to type a passphrase or touch a key."""
VERIFY_LIMIT_S = 20.0
KEY_CAP_BYTES = 1 << 20
SIGNATURE_CAP_BYTES = 1 << 16

_PUBLIC_KEY = re.compile(r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*(?: .*)?")


class Signer(msgspec.Struct, frozen=True):
    """Whose signature held: the identity it was checked for, and the key's fingerprint."""

    identity: str
    fingerprint: str


def signature_of(path: Path) -> Path:
    """Name the signature that belongs to a file."""
    return path.with_name(path.name + ".sig")


def sign(path: Path, key: Path, *, namespace: Namespace = EVIDENCE) -> Path:
    """Sign a file; give the path of its signature, which appears whole.

    `key` is a private key, or a public one whose private half an agent holds. Raises Problem.
    """
    _must_be_file(path, "a file to sign")
    _must_be_file(key, "an SSH key", remedy="ssh-keygen -t ed25519 -f KEY")
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="drillmaster-sign-") as folder:
        # ssh-keygen writes beside its input and asks before it overwrites; a folder of its own spares both.
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        _run(
            ["-Y", "sign", "-f", os.fspath(key.absolute()), "-n", namespace, os.fspath(copy)],
            place=os.fspath(key),
            wanted="a key that signs",
            remedy="name a private SSH key that this user can read, or load it into ssh-agent and name its .pub",
            limit_s=SIGN_LIMIT_S,
        )
        signature = signature_of(copy).read_bytes()
    target = signature_of(path)
    try:
        write_whole(target, signature)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(os.fspath(target), found=found, wanted="a signature written", remedy=remedy) from None
    return target


def fits(path: Path, data: bytes, *, namespace: Namespace = EVIDENCE) -> Literal["fits", "stale", "none", "unknown"]:
    """Say whether the signature beside `path` is one of `data`, by whatever key; `stale` is one of anything else.

    `none`: nothing lies there. `unknown`: there is no ssh-keygen, or it gave no answer. Needs no list of keys, and proves
    nothing about whose it is.
    """
    signature = signature_of(path)
    if not os.path.lexists(signature):
        return "none"
    try:
        signed = read_whole(signature, cap_bytes=SIGNATURE_CAP_BYTES)
    except Problem:
        return "stale"  # a link, a FIFO, a folder, a gigabyte: whatever it is, it signs nothing
    if shutil.which("ssh-keygen") is None:
        return "unknown"
    with tempfile.TemporaryDirectory(prefix="drillmaster-fits-") as folder:
        copy = Path(folder) / "signature"
        copy.write_bytes(signed)
        try:
            _run(
                ["-Y", "check-novalidate", "-n", namespace, "-s", os.fspath(copy)],
                place=os.fspath(signature),
                wanted="a signature of these bytes",
                remedy="sign the seal again",
                limit_s=VERIFY_LIMIT_S,
                data=data,
                refuse=True,
            )
        except Refused:
            return "stale"
        except Problem:
            return "unknown"
    return "fits"


def verify(path: Path, who: Path, *, identity: str | None = None, namespace: Namespace = EVIDENCE) -> Signer:
    """Check a file's signature against `who`: a public key, or an allowed_signers file together with `identity`.

    Raises Refused where there is no signature, or it is not theirs or not of these bytes; Problem where it cannot be told.
    """
    _must_be_file(path, "a signed file")
    signature = signature_of(path)
    if not signature.is_file():
        raise Refused(
            os.fspath(path),
            found="no signature beside it",
            wanted=f"{signature.name}",
            remedy=f"drillmaster seal {path.parent} --sign KEY",
        )
    allowed, name = _allowed(who, identity, namespace)
    with tempfile.TemporaryDirectory(prefix="drillmaster-verify-") as folder:
        roster = Path(folder) / "allowed_signers"
        roster.write_text(allowed, encoding="utf-8")
        said = _run(
            [
                "-Y",
                "verify",
                "-f",
                os.fspath(roster),
                "-I",
                name,
                "-n",
                namespace,
                "-s",
                os.fspath(signature.absolute()),
            ],
            place=os.fspath(signature),
            wanted=f"a signature of these bytes by {name} in {namespace}",
            remedy="ask who signed it, or seal and sign the run again",
            limit_s=VERIFY_LIMIT_S,
            data=path.read_bytes(),
            refuse=True,
        )
    found = re.search(r"SHA256:[A-Za-z0-9+/]+", said)
    return Signer(name, found[0] if found else "")


def _allowed(who: Path, identity: str | None, namespace: Namespace) -> tuple[str, str]:
    """Give the text of an allowed_signers file, and the identity to look for in it."""
    _must_be_file(who, "a public SSH key or an allowed_signers file")
    if who.stat().st_size > KEY_CAP_BYTES:
        raise Problem(os.fspath(who), found="a huge file", wanted="a public SSH key", remedy="name KEY.pub")
    try:
        text = who.read_bytes().decode()
    except UnicodeDecodeError:
        text = ""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) == 1 and _PUBLIC_KEY.fullmatch(lines[0].strip()):
        kind, key, *comment = lines[0].split(None, 2)
        name = identity or (comment[0].split()[0] if comment else who.stem)
        if re.fullmatch(r"[^\s,\"*?!]+", name) is None:
            name = "signer"
        return f'{name} namespaces="{namespace}" {kind} {key}\n', name
    if "PRIVATE KEY" in text:
        raise Problem(os.fspath(who), found="a private key", wanted="the public one", remedy=f"name {who.name}.pub")
    if not lines or not any(re.search(r"(?:ssh|ecdsa)-[a-z0-9@.-]+ AAAA", line) for line in lines):
        raise Problem(
            os.fspath(who),
            found="no key in it",
            wanted="a public SSH key or an allowed_signers file",
            remedy="name KEY.pub",
        )
    if identity is None:
        raise Problem(
            os.fspath(who),
            found="an allowed_signers file and no identity",
            wanted="whose signature it has to be",
            remedy="add --identity NAME",
        )
    return text, identity


def _must_be_file(path: Path, wanted: str, *, remedy: str = "mend the path") -> None:
    if not path.is_file():
        found = "no such file" if not path.exists() else "no regular file"
        raise Problem(os.fspath(path), found=found, wanted=wanted, remedy=remedy)


def _run(
    arguments: list[str],
    *,
    place: str,
    wanted: str,
    remedy: str,
    limit_s: float,
    data: bytes | None = None,
    refuse: bool = False,
) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise Problem(
            "ssh-keygen", found="nothing on PATH", wanted="OpenSSH 8.2 or later", remedy="install openssh-client"
        )
    try:
        done = subprocess.run(  # noqa: S603 - a list, no shell, and the program is the one PATH names
            [program, *arguments],
            input=data if data is not None else b"",
            capture_output=True,
            timeout=limit_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise Problem(place, found=f"no answer within {limit_s:.0f} s", wanted=wanted, remedy=remedy) from None
    except OSError as error:
        raise Problem(
            program, found=error.strerror or str(error), wanted="a program that runs", remedy=remedy
        ) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        found = "".join(c for c in (said[-1] if said else f"exit {done.returncode}") if c.isprintable())[:160]
        raise (Refused if refuse else Problem)(place, found=found, wanted=wanted, remedy=remedy)
    return done.stdout.decode("utf-8", "replace")
