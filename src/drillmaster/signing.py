"""Sign and verify files with SSH keys, by `ssh-keygen -Y`: nothing to install, no key of ours, offline.

1. A signature of FILE is FILE.sig. It is over the file's bytes, in a namespace, so that a signature under evidence is
   none under a policy.
2. Who may sign comes from the reader: a public key, or an allowed_signers file with an identity. What lies beside the
   file, or in it, is never asked.
3. A signature says that a key's holder had these bytes. It does not say when, nor that they are true.
4. Of an allowed_signers file a line that cannot be read refuses the file, and so does one for a pattern of names: a
   signature is some person's. Its days without a zone are UTC's. One person's two signatures are one signer's, and so
   are two by one key under two names.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.strict import name_fault
from drillmaster.timeline.opening import complaint, read_whole, write_whole

if TYPE_CHECKING:
    import tempfile

__all__ = [
    "EVIDENCE",
    "GIT",
    "POLICY",
    "SIGNATURE_CAP_BYTES",
    "Namespace",
    "Signer",
    "fits",
    "key_of",
    "key_that_signed",
    "sign",
    "signature_of",
    "signs",
    "verify",
    "verify_bytes",
]

Namespace = Literal["drillmaster-evidence", "drillmaster-policy", "git"]
EVIDENCE: Namespace = "drillmaster-evidence"
POLICY: Namespace = "drillmaster-policy"
GIT: Namespace = "git"
"""What git itself signs commits in."""

SIGN_LIMIT_S = 120.0
"""A person may have to type a passphrase or touch a key."""
VERIFY_LIMIT_S = 20.0
KEY_CAP_BYTES = 1 << 20
SIGNATURE_CAP_BYTES = 1 << 16

_PUBLIC_KEY = r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*(?: .*)?"


class Signer(msgspec.Struct, frozen=True):
    """Whose signature held: the identity it was checked for, the key's fingerprint, and all names that the key goes by."""

    identity: str
    fingerprint: str
    names: tuple[str, ...] = ()
    """Principals of the key in allowed_signers, `identity` among them; () where a single key was checked."""


def signature_of(path: Path, *, second: bool = False) -> Path:
    """Name the signature that belongs to a file; `second` is the one that another person puts beside the first."""
    return path.with_name(path.name + (".second.sig" if second else ".sig"))


def signs(name: str, candidate: str) -> bool:
    """Whether a file of that name is a signature of `name`: `NAME.sig`, or `NAME.WORD.sig` of a further person.

    What has more dots is another file's: `gate.json.pin.yaml.sig` signs the pin.
    """
    middle = candidate.removeprefix(name).removesuffix(".sig") if candidate.startswith(f"{name}.") else "."
    return candidate.endswith(".sig") and (middle == "" or re.fullmatch(r"\.[^./]+", middle) is not None)


def sign(path: Path, key: Path, *, namespace: Namespace = EVIDENCE, second: bool = False) -> Path:
    """Sign a file; give the path of its signature, which appears whole.

    `key` is a private key, or a public one whose private half an agent holds. Raises Problem.
    """
    _must_be_file(path, "a file to sign")
    _must_be_file(key, "an SSH key", remedy="ssh-keygen -t ed25519 -f KEY")
    data = path.read_bytes()
    with _scratch("drillmaster-sign-") as folder:
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
    target = signature_of(path, second=second)
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
    import shutil

    if shutil.which("ssh-keygen") is None:
        return "unknown"
    with _scratch("drillmaster-fits-") as folder:
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


def key_of(key: Path) -> str:
    """Give the fingerprint of a key, private or public. Raises Problem."""
    _must_be_file(key, "an SSH key", remedy="ssh-keygen -t ed25519 -f KEY")
    said = _run(
        ["-l", "-E", "sha256", "-f", os.fspath(key.absolute())],
        place=os.fspath(key),
        wanted="an SSH key",
        remedy="name a private SSH key that this user can read, or its .pub",
        limit_s=VERIFY_LIMIT_S,
    )
    return _fingerprint(said, os.fspath(key))


def key_that_signed(data: bytes, signature: bytes, *, namespace: Namespace) -> str | None:
    """Give the fingerprint of the key whose signature of `data` this is; None where it is none of these bytes."""
    with _scratch("drillmaster-key-") as folder:
        copy = Path(folder) / "signature"
        copy.write_bytes(signature)
        try:
            said = _run(
                ["-Y", "check-novalidate", "-n", namespace, "-s", os.fspath(copy)],
                place="signature",
                wanted="a signature of these bytes",
                remedy="sign the file again",
                limit_s=VERIFY_LIMIT_S,
                data=data,
                refuse=True,
            )
        except Refused:
            return None
    return _fingerprint(said, "signature")


def _fingerprint(said: str, place: str) -> str:
    found = re.search(r"SHA256:[A-Za-z0-9+/]+", said)
    if found is None:
        raise Problem(
            place, found="no fingerprint in what ssh-keygen said", wanted="SHA256:...", remedy="see whether it is a key"
        )
    return found[0]


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
    with _scratch("drillmaster-verify-") as folder:
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


def verify_bytes(
    data: bytes,
    signatures: Sequence[bytes],
    allowed: bytes,
    revoked: bytes | None,
    *,
    namespace: Namespace,
    at_ns: int,
    place: str = "signatures",
) -> tuple[Signer, ...]:
    """Check that every one of `signatures` is of `data`, by a key that `allowed` lists at that time; give the signers.

    `allowed` is an allowed_signers file's content, `revoked` a list of public keys or a KRL, `at_ns` wall time; `place`
    is what a problem calls the signed file. One signer for each key and person, in the order of the signatures. Raises
    Refused where there is no signature or one does not hold, Problem where a list cannot be read.
    """
    by_key = _principals(allowed)
    if not signatures:
        raise Refused(
            place,
            found="no signature",
            wanted=f"one in {namespace}",
            remedy=f"drillmaster policy sign {place} --key KEY",
        )
    found: list[Signer] = []
    with _scratch("drillmaster-verify-") as folder:
        lists = ["-f", os.fspath(Path(folder) / "allowed_signers")]
        Path(lists[1]).write_bytes(allowed)
        withdrawn: list[str] = []
        if revoked is not None and revoked.strip():
            _must_be_keys(revoked)
            withdrawn = ["-r", os.fspath(Path(folder) / "revoked_keys")]
            Path(withdrawn[1]).write_bytes(revoked)
        for number, signature in enumerate(signatures, 1):
            where = place if len(signatures) == 1 else f"{place}: signature {number} of {len(signatures)}"
            file = Path(folder) / "signature"
            file.write_bytes(signature[: SIGNATURE_CAP_BYTES + 1])
            if len(signature) > SIGNATURE_CAP_BYTES:
                raise Refused(where, found="a huge signature", wanted="one of SSH", remedy="sign the file again")
            signer = _signer(data, file, lists, withdrawn, by_key, namespace=namespace, at_ns=at_ns, place=where)
            if not any(one.fingerprint == signer.fingerprint or {*one.names} & {*signer.names} for one in found):
                found.append(signer)
    return tuple(found)


def _signer(
    data: bytes,
    signature: Path,
    lists: list[str],
    withdrawn: list[str],
    by_key: dict[str, tuple[str, ...]],
    *,
    namespace: Namespace,
    at_ns: int,
    place: str,
) -> Signer:
    # Without a zone, as older programs want it: TZ is UTC.
    moment = rfc3339(at_ns, digits=0).translate({ord(c): None for c in "-:TZ"})
    when = [f"-Overify-time={moment}", "-s", os.fspath(signature), *lists]
    wanted = (
        f"a signature of these bytes in {namespace}, by a key that allowed_signers lists on {rfc3339(at_ns, digits=0)}"
    )
    remedy = "have somebody whom allowed_signers lists sign it: drillmaster policy sign FILE --key KEY"
    named = _run(
        ["-Y", "find-principals", *when],
        place=place,
        wanted=wanted,
        remedy=remedy,
        limit_s=VERIFY_LIMIT_S,
        refuse=True,
        zone="UTC",
    ).splitlines()
    # It names those of the first line that fits. Another line may list the same key for this namespace under another name.
    same = [names for names in by_key.values() if {*names} & {*named}]
    names = tuple(dict.fromkeys((*named, *(name for group in same for name in group))))
    refusal = Refused(place, found="a key without a name", wanted=wanted, remedy=remedy)

    def said(name: str, *options: str) -> str:
        return _run(
            ["-Y", "verify", *when, *options, "-n", namespace, f"-I{name}"],
            place=place,
            wanted=wanted,
            remedy=remedy,
            limit_s=VERIFY_LIMIT_S,
            data=data,
            refuse=True,
            zone="UTC",
        )

    for name in names:
        try:
            # Asked first without the revoked ones: of these the program says no more than that it did not work.
            good = said(name)
        except Refused as why:
            refusal = why
            continue
        fingerprint = re.search(r"SHA256:[A-Za-z0-9+/]+", good)
        if fingerprint is None:
            break
        if withdrawn:
            try:
                said(name, *withdrawn)
            except Refused:
                found = f"{name}'s key {fingerprint[0]}, which is revoked"
                raise Refused(place, found=found, wanted=wanted, remedy=remedy) from None
        return Signer(name, fingerprint[0], names=tuple(dict.fromkeys((name, *named))))
    raise refusal


_OPTIONS = frozenset({"cert-authority", "namespaces", "valid-after", "valid-before"})
_ENTRY = r"""
        (?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))[ \t]+
        (?:(?P<options>(?:[A-Za-z-]+(?:="[^"]*")?)(?:,[A-Za-z-]+(?:="[^"]*")?)*)[ \t]+)?
        (?P<key>(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+[ \t]+[A-Za-z0-9+/]+=*)(?:[ \t].*)?"""


def _principals(allowed: bytes) -> dict[str, tuple[str, ...]]:
    """Give the names of each key of an allowed_signers file. Raises Problem at a line that is not to be relied on."""
    keys: dict[str, tuple[str, ...]] = {}
    for number, line in _lines(allowed, "allowed_signers"):
        place = f"allowed_signers:{number}"
        entry = re.fullmatch(_ENTRY, line, re.VERBOSE)
        options = (
            {one.partition("=")[0].lower() for one in re.findall(r'[A-Za-z-]+(?:="[^"]*")?', entry["options"] or "")}
            if entry
            else set()
        )
        if entry is None or not options <= _OPTIONS:
            unknown = ", ".join(sorted(options - _OPTIONS))
            raise Problem(
                place,
                found=f"the option {unknown}" if unknown else "a line that is no entry",
                wanted='NAME namespaces="drillmaster-policy" ssh-ed25519 KEY, options before the key',
                remedy="mend that line, or put # in front of it",
            )
        names = tuple((entry["quoted"] or entry["bare"] or "").split(","))
        for name in names:
            if not name or any(c in name for c in '*?!"') or name_fault(name):
                raise Problem(
                    place,
                    found=f"the name {name!r}",
                    wanted="names of people; a pattern is nobody's signature",
                    remedy="write each person's name on a line of their own",
                )
        key = " ".join(entry["key"].split())
        keys[key] = tuple(dict.fromkeys((*keys.get(key, ()), *names)))
    if not keys:
        raise Refused(
            "allowed_signers",
            found="nobody in it",
            wanted="a line for each person who may sign",
            remedy='write NAME namespaces="drillmaster-policy" and the content of KEY.pub on a line of it',
        )
    return keys


def _must_be_keys(revoked: bytes) -> None:
    if revoked.startswith(b"SSHKRL\n\x00"):
        return
    for number, line in _lines(revoked, "revoked_keys"):
        if re.fullmatch(_PUBLIC_KEY, line) is None:
            raise Problem(
                f"revoked_keys:{number}",
                found="a line that is no public key",
                wanted="the content of KEY.pub, one key a line, or a KRL",
                remedy="mend that line: while it cannot be read nobody knows whose signature still holds",
            )


def _lines(data: bytes, place: str) -> Iterator[tuple[int, str]]:
    """Number the lines that say something."""
    try:
        text = data[: KEY_CAP_BYTES + 1].decode()
    except UnicodeDecodeError:
        text = "\0"
    if len(data) > KEY_CAP_BYTES or "\0" in text or text.startswith("\ufeff"):
        raise Problem(
            place, found="no plain UTF-8, or a huge file", wanted="lines of text", remedy="restore it from git"
        )
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


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
    if len(lines) == 1 and re.fullmatch(_PUBLIC_KEY, lines[0].strip()):
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


def _scratch(prefix: str) -> "tempfile.TemporaryDirectory[str]":
    import tempfile  # only whoever signs or verifies pays for it

    return tempfile.TemporaryDirectory(prefix=prefix)


def _run(
    arguments: list[str],
    *,
    place: str,
    wanted: str,
    remedy: str,
    limit_s: float,
    data: bytes | None = None,
    refuse: bool = False,
    zone: str | None = None,
) -> str:
    import shutil

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
            env={**os.environ, "LC_ALL": "C", **({"TZ": zone} if zone else {})},
        )
    except subprocess.TimeoutExpired:
        raise Problem(place, found=f"no answer within {limit_s:.0f} s", wanted=wanted, remedy=remedy) from None
    except OSError as error:
        raise Problem(
            program, found=error.strerror or str(error), wanted="a program that runs", remedy=remedy
        ) from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        # Its last line may only say that it did not work; the one before says why.
        said = [line for line in lines if line.rstrip(". ") != "No principal matched"] or lines
        found = "".join(c for c in (said[-1] if said else f"exit {done.returncode}") if c.isprintable())[:160]
        if found.endswith("incorrect signature"):
            found += ": the bytes are not those that were signed"
        raise (Refused if refuse else Problem)(place, found=found, wanted=wanted, remedy=remedy)
    return done.stdout.decode("utf-8", "replace")
