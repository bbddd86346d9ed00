"""A change for the oracle gate: the diff with the content of its tests and oracles, and the base's lists.

1. List and CODEOWNERS come from the base ref, and from nowhere else. Recorded fixtures come from the head.
2. `AGENT_LANE` lowers the lane and never raises it (`rules.lanes`). `ORACLE_DIFF` names the range where the command line does
   not, in the article's form `BASE...HEAD`; a list of the environment is no authority, so the lists still come from that base.
3. Names of variables that hold deploy keys are looked at, never their values.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from drillmaster import strict
from drillmaster.changes import FOLDER, Diff
from drillmaster.errors import Problem
from drillmaster.gates._oracle_evidence import LIST, OracleChange, self_file
from drillmaster.gates._oracle_tests import versions, wanted
from drillmaster.gates.oracle import Oracle
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.rules.codeowners import PLACES
from drillmaster.rules.http_fixture import CAP_BYTES
from drillmaster.rules.oracle_owners import Oracles, read_oracle_owners
from drillmaster.rules.weakening import compared

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority
    from drillmaster.intake.git import Repository

__all__ = ["asked_of", "gather_oracles", "secrets_in"]

_LIST_CAP_BYTES = 1 << 20
_MOST_FIXTURES = 2_000
_LINK = "120000"
_RANGE = re.compile(r"([^.\s]\S*?)\.\.\.(\S*)")
_SECRET = re.compile(
    r"(?:^|_)(?:DEPLOY|RELEASE|SIGNING|COSIGN|SIGSTORE|PUBLISH|NPM|PYPI|TWINE|GPG|CARGO_REGISTRY|DOCKERHUB|KUBE|AWS_SECRET|PROD(?:UCTION)?)"
    r"(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|PASSWORD|SECRET|PASSPHRASE|CREDENTIALS|CONFIG)(?:_[A-Z0-9]+)*$|^DEPLOY_KEY$|^SIGSTORE_ID_TOKEN$"
    r"|^ACTIONS_ID_TOKEN_REQUEST_TOKEN$|^COSIGN_(?:KEY|PASSWORD|PRIVATE_KEY)$|^AWS_SECRET_ACCESS_KEY$|^TWINE_PASSWORD$|^NPM_TOKEN$",
)

Progress = Callable[[str, int], None]
"""Told what is being counted, and how many of it there are by now."""


def asked_of(asked: Asked, environ: Mapping[str, str]) -> Asked:
    """Take the range of `ORACLE_DIFF` where the command line names none. Raises Problem where it is no range."""
    if asked.base is not None:
        return asked
    said = environ.get("ORACLE_DIFF", "")
    if not said:
        raise Problem(
            "gate oracle",
            found="no base",
            wanted="the ref that the change is for: the list is read from there",
            remedy="drillmaster gate oracle --base origin/main",
        )
    match = _RANGE.fullmatch(said)
    if match is None:
        raise Problem(
            "ORACLE_DIFF",
            found=strict.shown(said),
            wanted="BASE...HEAD, with three dots",
            remedy="export ORACLE_DIFF=origin/main...HEAD, or give --base origin/main",
        )
    return msgspec.structs.replace(asked, base=match[1], head=asked.head or match[2] or "HEAD")


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name the variables that hold deploy keys or signing material; an empty one holds nothing."""
    return tuple(sorted(name for name, value in environ.items() if value and _SECRET.search(name)))


def gather_oracles(
    environ: Mapping[str, str] = os.environ, progress: Progress | None = None
) -> "Callable[..., Gathered]":
    """Give what `judged` calls for evidence."""

    def gather(gate: Oracle, asked: Asked, authority: "Authority | None") -> Gathered:
        assert authority is not None
        assert authority.head is not None
        repo = authority.repo
        listed = _list(repo, authority.base)
        rows, _ = read_oracle_owners(listed) if listed is not None else ((), ())
        oracles = Oracles(rows)
        bare = authority.diff()
        links = {one.path for one in bare.files if _LINK in (one.mode_before, one.mode_after)}

        def content(path: str) -> bool:
            return path in links or wanted(path) or bool(oracles.of(path)) or self_file(path)

        read = None if progress is None else partial(progress, "files read")
        diff = authority.diff(content, progress=read)
        tree = repo.tree(authority.base)
        evidence = OracleChange(
            diff=diff,
            owners=listed,
            now_ns=asked.now_ns,
            codeowners=_codeowners(repo, authority.base, tree),
            base_paths=tuple(sorted(tree)),
            fixtures=_fixtures(repo, authority.head, oracles),
            policy_paths=_policies(asked),
            secrets_here=secrets_in(environ),
            signers_known=f"{FOLDER}/allowed_signers" in tree,
        )
        # Compared here, where it can be said how far it is; the gate would find the same.
        told = gate.sorted(evidence)
        if not told.defects:
            step = None if progress is None else partial(progress, "tests compared")
            evidence = msgspec.structs.replace(evidence, compared=compared(versions(told), progress=step))
        return Gathered(
            evidence=evidence,
            subject=f"{diff.base[:12]}..{diff.head[:12]}",
            digest=_digest(evidence),
            counts={
                "paths": len(diff.paths()),
                "commits": len(diff.commits),
                "oracle_lines": len(rows),
                "fixtures": len(evidence.fixtures),
                "exceptions": len(gate.exceptions),
            },
        )

    return gather


def _list(repo: "Repository", base: str) -> bytes | None:
    return repo.read(base, LIST, cap_bytes=_LIST_CAP_BYTES)


def _codeowners(repo: "Repository", base: str, tree: Mapping[str, object]) -> tuple[str, bytes] | None:
    """Read the one that the code host would: the first of its places."""
    for place in PLACES:
        if place in tree:
            data = repo.read(base, place, cap_bytes=CAP_BYTES)
            return None if data is None else (place, data)
    return None


def _fixtures(repo: "Repository", head: str, oracles: Oracles) -> tuple[tuple[str, bytes], ...]:
    if not any(row.source == "staging-record" for row in oracles.rows):
        return ()
    tree = repo.tree(head)
    paths = [
        path
        for path, entry in tree.items()
        if entry.mode.startswith("100") and any(row.source == "staging-record" for row in oracles.of(path))
    ]
    blobs = repo.blobs([tree[path].sha for path in paths[:_MOST_FIXTURES]], cap_bytes=CAP_BYTES)
    return tuple((path, blobs.get(tree[path].sha, b"")) for path in paths)


def _policies(asked: Asked) -> tuple[str, ...]:
    if asked.policy is None:
        return ()
    # From the root of the repository, as `judged` reads it; one that lies outside cannot be in the change.
    return (os.path.normpath(asked.policy), f"{os.path.normpath(asked.policy)}.sig")


def _digest(change: OracleChange) -> str:
    """Give a digest of all that the gate is shown, content by git's own names of it."""
    bare: Diff = msgspec.structs.replace(
        change.diff, files=tuple(msgspec.structs.replace(one, before=None, after=None) for one in change.diff.files)
    )
    whole = hashlib.sha256(msgspec.json.encode(_printable(msgspec.to_builtins(bare))))
    for part in (change.owners or b"", *(change.codeowners[1:] if change.codeowners else ())):
        whole.update(b"\0" + hashlib.sha256(part).digest())
    for path, data in change.fixtures:
        whole.update(os.fsencode(path) + b"\0" + hashlib.sha256(data).digest())
    whole.update(" ".join(change.secrets_here).encode())
    return f"sha256:{whole.hexdigest()}"


def _printable(value: object) -> object:
    """Write paths that are no UTF-8 in a form that JSON takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _printable(one) for key, one in value.items()}
    return value
