"""Evidence of the quota gate: a guards file, as it lies here or as a change has it, what it was before, and who signed.

1. Without a base the file is read from the disk. Nobody is asked to sign, and the verdict is stamped UNSIGNED.
2. With a base and a head the file, the documents and their signatures are read from the head, never from the working tree. Who may
   sign, and who is asked about a path (CODEOWNERS), stands in the base.
3. It is compared with the version at `--since REF`, such as the last tag; else with where the change began. Without either nothing
   was compared, and the gate refuses.
4. A file in the article's own form (one object, or a list of them) is read as it is: fail mode closed, and nothing unknown.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem, Refused
from drillmaster.gates import Gate
from drillmaster.gates._quota_evidence import Bucket, File, Quotas, Retrying, Rule, SourceFact
from drillmaster.gates.quota import Document, QuotaGate
from drillmaster.guards.quota import MAIN, Quota
from drillmaster.intake import format_of, is_there, read_bytes
from drillmaster.intake.git import Repository
from drillmaster.intake.guards_files import decode_guards
from drillmaster.intake.judging import Asked, Gathered, inside
from drillmaster.rules.codeowners import PLACES, read_codeowners
from drillmaster.rules.quota import MOST_CAP

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["QuotaIntake", "file_of"]

_CAP_BYTES = 1 << 19
_DOCUMENT_CAP_BYTES = 64 << 20
_FILES = ("100644", "100755")
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class _ArticleQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The article's form."""

    partner: _Text
    identity: _Text
    windowSeconds: Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400)]
    maxRequestsPerWindow: Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]
    burst: Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]
    failMode: Literal["closed"]
    owner: str
    reviewers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    source: str

    def __post_init__(self) -> None:
        if self.burst > self.maxRequestsPerWindow:
            raise ValueError(f"burst at most maxRequestsPerWindow: found {self.burst} over {self.maxRequestsPerWindow}")


def file_of(place: str, data: bytes, *, at: str = "") -> File:
    """Read a guards file, or one in the article's form, as it was `at` a version. Raises Problem."""
    fmt = format_of(place)
    place = f"{place} at {at}" if at else place
    value = strict.load(data, place=place, fmt=fmt, cap_bytes=_CAP_BYTES)
    if isinstance(value, list) or (isinstance(value, dict) and "kind" not in value and "windowSeconds" in value):
        return _of_article(place, value)
    guards = decode_guards(data, place=place, fmt=fmt)
    buckets, retrying = [], []
    for name, guard in guards.entries.items():
        if isinstance(guard, Quota):
            buckets.append(_bucket(name, guard))
        elif type(guard).__struct_config__.tag == "retry":
            plain = msgspec.to_builtins(guard)
            numbers = {key: one for key, one in plain.items() if isinstance(one, int | float) and type(one) is not bool}
            retrying.append(Retrying(name=name, limits=numbers))
    return File(
        place=place,
        source=guards.pin.source,
        owner=guards.pin.owner,
        reviewers=guards.reviewers,
        review_by=guards.pin.review_by,
        buckets=tuple(buckets),
        retrying=tuple(retrying),
    )


def _bucket(name: str, quota: Quota) -> Bucket:
    own = Rule(name=MAIN, counts="requests", window_ms=quota.window_ms, cap=quota.max_per_window, burst=quota.burst)
    also = (
        Rule(
            name=one.name,
            counts=one.counts,
            window_ms=one.window_ms,
            cap=one.max_per_window,
            burst=one.burst,
            caller=one.caller,
            route=one.route,
        )
        for one in quota.also
    )
    return Bucket(name=name, partner=quota.partner, identity=quota.identity, rules=(own, *also))


def _of_article(place: str, value: Any) -> File:
    rows = value if isinstance(value, list) else [value]
    quotas = [
        strict.as_type(row, _ArticleQuota, place=place, path=(n,) if isinstance(value, list) else ())
        for n, row in enumerate(rows)
    ]
    if not quotas:
        raise Problem(
            place, found="an empty list", wanted="at least one quota", remedy="copy the numbers from the contract"
        )
    first = quotas[0]
    for n, one in enumerate(quotas):
        if (one.source, one.owner, one.reviewers) != (first.source, first.owner, first.reviewers):
            raise Problem(
                f"{place}: /{n}",
                found="another source, owner or reviewers than the first one",
                wanted="one document and its people for a file",
                remedy="write a file for each contract",
            )
    names = [one.partner for one in quotas]
    return File(
        place=place,
        source=first.source,
        owner=first.owner,
        reviewers=first.reviewers,
        review_by="",
        buckets=tuple(
            Bucket(
                name=one.partner if names.count(one.partner) == 1 else f"{one.partner}/{one.identity}",
                partner=one.partner,
                identity=one.identity,
                rules=(
                    Rule(
                        name=MAIN,
                        counts="requests",
                        window_ms=one.windowSeconds * 1_000,
                        cap=one.maxRequestsPerWindow,
                        burst=one.burst,
                    ),
                ),
            )
            for one in quotas
        ),
        article=True,
    )


class QuotaIntake:
    """Gathers what the gate judges. `since` "": where the change began."""

    def __init__(self, path: str, *, since: str = "") -> None:
        self._path, self._since = path, since

    def gather(self, gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
        assert isinstance(gate, QuotaGate)
        source: _Disk | _Commits = _Disk(self._path, asked) if authority is None else _Commits(self._path, authority)
        file = file_of(source.place, source.data)
        document = next((one for one in gate.documents if one.source == file.source), None)
        since, before = source.before(self._since)
        signing, why, signers = source.signing()
        owners, owners_why = source.code_owners()
        evidence = Quotas(
            file=file,
            now_ns=asked.now_ns,
            source=None if document is None else source.document(document),
            since=since,
            before=None if before is None else file_of(source.place, before, at=since),
            signing=signing,
            why=why,
            signers=signers,
            code_owners=owners,
            code_owners_why=owners_why,
        )
        return Gathered(
            evidence=evidence,
            subject=source.place,
            digest=strict.digest(json.loads(msgspec.json.encode(msgspec.structs.replace(evidence, now_ns=0)))),
            counts={
                "quotas": len(file.buckets),
                "limits": sum(len(one.rules) for one in file.buckets),
                "quotas before": 0 if evidence.before is None else len(evidence.before.buckets),
                "signers": len(signers),
            },
            stamps=(*(("UNSIGNED",) if signing == "not demanded" else ()), *(() if since else ("NOT COMPARED",))),
        )


class _Disk:
    """Rule 1."""

    def __init__(self, path: str, asked: Asked) -> None:
        self.place, self._asked = path, asked
        self.data = read_bytes(path, _CAP_BYTES)

    def before(self, since: str) -> tuple[str, bytes | None]:
        if not since:
            return "", None
        repo = Repository.at(self._asked.repo)
        top = repo.path.resolve()
        here = Path(os.path.normpath(Path.cwd() / self.place))
        if not here.is_relative_to(top):
            raise _outside(self.place, top)
        return since, repo.read(repo.commit(since), here.relative_to(top).as_posix(), cap_bytes=_CAP_BYTES)

    def document(self, one: Document) -> SourceFact:
        path = self._asked.repo / one.file
        if not is_there(path):
            return SourceFact(path=one.file, found="absent")
        if path.is_symlink() or not path.is_file():
            return SourceFact(path=one.file, found="link" if path.is_symlink() else "other")
        data = read_bytes(path, _DOCUMENT_CAP_BYTES)
        return SourceFact(path=one.file, found="file", sha256=strict.digest_bytes(data))

    def signing(self) -> tuple[Any, str, tuple[str, ...]]:
        return "not demanded", "", ()

    def code_owners(self) -> tuple[tuple[str, ...] | None, str]:
        for one in PLACES:
            path = self._asked.repo / one
            if is_there(path):
                top = self._asked.repo.resolve()
                here = Path(os.path.normpath(Path.cwd() / self.place))
                inner = here.relative_to(top).as_posix() if here.is_relative_to(top) else self.place
                return _owners(one, read_bytes(path, 3 << 20), inner)
        return None, f"there is no CODEOWNERS below {self._asked.repo}"


class _Commits:
    """Rule 2."""

    def __init__(self, path: str, authority: "Authority") -> None:
        self._authority, self._repo = authority, authority.repo
        if authority.head is None or authority.fork is None:
            raise Problem("--head", found="nothing", wanted="the commit that is judged", remedy="add --head HEAD")
        self._head, self._fork = authority.head, authority.fork
        place = inside(authority, path)
        if place is None:
            raise _outside(path, authority.repo.path)
        self.place = place
        fact = self._at(place, cap_bytes=_CAP_BYTES)
        if fact[0] != "file":
            raise Problem(
                f"{place} at {self._head[:12]}",
                found={"absent": "nothing", "link": "a link"}.get(fact[0], "no regular file"),
                wanted="a guards file",
                remedy="commit it, or correct the path",
            )
        self.data = fact[1]

    def before(self, since: str) -> tuple[str, bytes | None]:
        commit = self._repo.commit(since) if since else self._fork
        return since or self._fork[:12], self._repo.read(commit, self.place, cap_bytes=_CAP_BYTES)

    def document(self, one: Document) -> SourceFact:
        found, data = self._at(one.file, cap_bytes=_DOCUMENT_CAP_BYTES)
        if found != "file":
            return SourceFact(path=one.file, found=found)
        signing, why, _ = self._signed(one.file, data, ())
        return SourceFact(path=one.file, found="file", sha256=strict.digest_bytes(data), signing=signing, why=why)

    def signing(self) -> tuple[Any, str, tuple[str, ...]]:
        diff = self._authority.diff()
        touched = any(one == self.place or one.startswith(f"{self.place}.") for one in diff.paths())
        return self._signed(self.place, self.data, diff.lane.people if touched else ())

    def code_owners(self) -> tuple[tuple[str, ...] | None, str]:
        for one in PLACES:
            data = self._repo.read(self._authority.base, one)
            if data is not None:
                return _owners(one, data, self.place)
        return None, f"there is no CODEOWNERS at {self._authority.base[:12]}"

    def _signed(self, place: str, data: bytes, makers: tuple[str, ...]) -> tuple[Any, str, tuple[str, ...]]:
        if self._authority.allowed is None:
            return "not demanded", "", ()
        try:
            signatures = self._authority.signatures(self._head, place)
            signers = self._authority.people_who_signed(place, data, signatures, but_not=makers)
        except Refused as refused:
            return "refused", f"found {refused.found}, wanted {refused.wanted}", ()
        return "held", "", tuple(one.identity for one in signers)

    def _at(self, place: str, *, cap_bytes: int) -> tuple[Any, bytes]:
        place = os.path.normpath(place)
        entry = self._repo.tree(self._head, place).get(place)
        if entry is None:
            return "absent", b""
        if entry.mode not in _FILES:
            return "link" if entry.mode == "120000" else "other", b""
        return "file", self._repo.read(self._head, place, cap_bytes=cap_bytes) or b""


def _owners(place: str, data: bytes, path: str) -> tuple[tuple[str, ...] | None, str]:
    owners = read_codeowners(data)
    if owners.defects:
        line, what = owners.defects[0]
        return None, f"{place}:{line} {what}"
    return tuple(owners.of(path)), ""


def _outside(path: str, top: Path) -> Problem:
    return Problem(
        path,
        found="a file outside the repository",
        wanted="one that the change could have touched",
        remedy=f"name one below {top}",
    )
