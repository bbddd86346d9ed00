"""Policies with the signatures beside them, and the lists that say whose signatures count.

1. FILE.sig and FILE.second.sig are the signatures of FILE, in the namespace drillmaster-policy.
2. The lists lie in `.drillmaster/`: `allowed_signers` (who may sign, with which key, from when until when), `roster.yaml`
   (who is a person), `revoked_keys`. With a base ref they are read from there and never from the working tree: a change
   that adds its author to the list has added nobody.
3. A signature counts where its key is allowed at that time, is not revoked, and its owner is on the roster, a person, and has
   not left. One that does not count refuses the file, whatever the other one is.
"""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from drillmaster import strict
from drillmaster.changes import FOLDER, Person, Roster
from drillmaster.errors import Problem, Refused
from drillmaster.intake import format_of, is_there, read_bytes
from drillmaster.intake.git import Repository
from drillmaster.judge import decode_gate, load_policy
from drillmaster.rules.lanes import person_of_identity, roster_fault
from drillmaster.signing import (
    POLICY,
    SIGNATURE_CAP_BYTES,
    Signer,
    key_of,
    key_that_signed,
    signature_of,
    verify_bytes,
)

__all__ = [
    "Lists",
    "Version",
    "lists_of",
    "must_be_another_key",
    "must_be_signable",
    "people",
    "version_at",
    "version_here",
]

CAP_BYTES = 16 << 20
_LIST_CAP_BYTES = 1 << 20


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    """Who may sign, and who they are. None: there is no such file."""

    place: str
    """Where they were read: a commit, or the working tree."""
    allowed: bytes | None
    revoked: bytes | None
    roster: Roster | None


class Version(NamedTuple):
    """A file with its signatures, the first before the second."""

    place: str
    data: bytes
    signatures: tuple[bytes, ...]


def lists_of(folder: Path, base: str | None) -> Lists:
    """Read the lists that hold in a repository: of `base`, or with None of the working tree. Raises Problem."""
    names = ("allowed_signers", "revoked_keys", "roster.yaml")
    if base is not None:
        repo = Repository.at(folder)
        sha = repo.commit(base)
        place = f"{base} ({sha[:12]})" if not sha.startswith(base) else sha[:12]
        found = [repo.read(sha, f"{FOLDER}/{name}", cap_bytes=_LIST_CAP_BYTES) for name in names]
    else:
        top = _top(folder)
        place = f"the working tree, {top}"
        paths = [top / FOLDER / name for name in names]
        found = [read_bytes(path, _LIST_CAP_BYTES) if is_there(path) else None for path in paths]
    allowed, revoked, roster = found
    where = f"{FOLDER}/roster.yaml of {place}"
    known = None if roster is None else strict.load_as(roster, Roster, place=where, fmt="yaml")
    if known is not None and (fault := roster_fault(known)):
        raise Problem(
            where, found=fault, wanted="one entry for each person and bot", remedy=f"edit {FOLDER}/roster.yaml"
        )
    return Lists(place=place, allowed=allowed, revoked=revoked, roster=known)


def people(version: Version, lists: Lists, *, now_ns: int) -> tuple[tuple[Signer, Person], ...]:
    """Give those who signed, by rule 3. Raises Refused where one does not count, Problem where it cannot be told."""
    if lists.allowed is None:
        raise Refused(
            f"{FOLDER}/allowed_signers",
            found=f"no such file in {lists.place}",
            wanted="a line for each person who may sign",
            remedy=f'write NAME namespaces="{POLICY}" and the content of KEY.pub on a line of it, and merge it first',
        )
    if lists.roster is None:
        raise Refused(
            f"{FOLDER}/roster.yaml",
            found=f"no such file in {lists.place}",
            wanted="who is a person, and who is a bot",
            remedy="write it (kind: roster, version: 1, people: [{identity: NAME}]) and merge it first",
        )
    signers = verify_bytes(
        version.data,
        version.signatures,
        lists.allowed,
        lists.revoked,
        namespace=POLICY,
        at_ns=now_ns,
        place=version.place,
    )
    found: list[tuple[Signer, Person]] = []
    for signer in signers:
        person = _person(signer, lists.roster, now_ns, version.place)
        # Two keys under two names can still be one person's.
        if person.identity not in {other.identity for _, other in found}:
            found.append((signer, person))
    return tuple(found)


def _person(signer: Signer, roster: Roster, now_ns: int, place: str) -> Person:
    names = signer.names or (signer.identity,)
    known = [one for name in names if (one := person_of_identity(roster, name, now_ns=now_ns)) is not None]
    found = f"the signature of {signer.identity}, who is not on the roster"
    if not known:
        gone = next((one for name in names if (one := person_of_identity(roster, name, now_ns=0)) is not None), None)
        if gone is not None:
            found = f"the signature of {signer.identity}, who left the roster on {gone.until}"
    elif len({one.identity for one in known}) > 1:
        found = f"a key of {' and of '.join(sorted({one.identity for one in known}))}: whose signature is it"
    elif known[0].kind != "human":
        found = f"the signature of {signer.identity}, a bot"
    else:
        return known[0]
    raise Refused(
        place,
        found=found,
        wanted="one of a person of the roster",
        remedy="have such a person sign it: drillmaster policy sign FILE --key KEY",
    )


def version_here(path: Path) -> Version:
    """Read a file and its signatures from where it lies. Raises Problem."""
    data = read_bytes(path, CAP_BYTES)
    beside = [signature_of(path), signature_of(path, second=True)]
    found = [read_bytes(one, SIGNATURE_CAP_BYTES) for one in beside if is_there(one)]
    return Version(str(path), data, tuple(found))


def version_at(path: Path, base: str) -> Version | None:
    """Read a file and its signatures as they were committed at `base`; None where it is not there. Raises Problem."""
    repo = Repository.at(path.absolute().parent)
    sha = repo.commit(base)
    top = repo.path.resolve()
    here = path.absolute().parent.resolve() / path.name
    if not here.is_relative_to(top):
        raise Problem(str(path), found="a file outside the repository", wanted="one of it", remedy="name a file of it")
    inside = here.relative_to(top).as_posix()
    data = repo.read(sha, inside, cap_bytes=CAP_BYTES)
    if data is None:
        return None
    names = (f"{inside}.sig", f"{inside}.second.sig")
    found = [repo.read(sha, name, cap_bytes=SIGNATURE_CAP_BYTES) for name in names]
    return Version(f"{inside} at {sha[:12]}", data, tuple(one for one in found if one is not None))


def must_be_signable(path: Path) -> None:
    """Raise Problem for a policy that no gate could read: a signature under it would be one under nothing."""
    if path.suffix.lower() not in (".json", ".yaml", ".yml", ".toml"):
        return
    data, place = read_bytes(path, CAP_BYTES), str(path)
    fmt = format_of(place)
    loaded = strict.load(data, place=place, fmt=fmt)
    if isinstance(loaded, dict) and loaded.get("kind") == "policy":
        policy, _ = load_policy(data, place=place, fmt=fmt)
        for entry in policy.gates:
            decode_gate(policy, str(entry.get("gate")), place=place)
    if isinstance(loaded, dict) and loaded.get("kind") == "drill-matrix":
        from drillmaster.slo.files import matrix_of

        matrix_of(loaded, place=place)
    if isinstance(loaded, dict) and loaded.get("kind") == "tool-allowlist":
        _none_blank(loaded, place)


def _none_blank(listing: dict[str, object], place: str) -> None:
    """Refuse an allow-list of which a person still has to say something: signed, the blank would be theirs."""
    tools = listing.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        for field in ("origin", "signed_by"):
            said = tool.get(field) if isinstance(tool, dict) else None
            if not isinstance(said, str) or not said.strip():
                raise Refused(
                    f"{place}: /tools/{index}/{field}",
                    found=strict.shown(said),
                    wanted="what a person says who has read the tool",
                    remedy="fill it in, then sign",
                )


def must_be_another_key(path: Path, key: Path, *, second: bool) -> None:
    """Raise Refused where the other signature beside the file is this key's too: two people have to sign."""
    other = signature_of(path, second=not second)
    if not is_there(path) or not is_there(other):
        return
    signed = key_that_signed(read_bytes(path, CAP_BYTES), read_bytes(other, SIGNATURE_CAP_BYTES), namespace=POLICY)
    if signed is not None and signed == key_of(key):
        raise Refused(
            str(key),
            found=f"the key that signed {other.name}",
            wanted="the key of another person",
            remedy="have another person sign it with theirs",
        )


def _top(folder: Path) -> Path:
    """Find the folder that holds `.drillmaster`, upwards to the top of the repository; `folder` where none does."""
    here = folder.absolute()
    for one in (here, *here.parents):
        if os.path.lexists(one / FOLDER) or os.path.lexists(one / ".git"):
            return one
    return here
