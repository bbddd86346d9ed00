"""The workspace gate: may an agent resume on what lies in its working directory?

1. Everything below the root is an entry, and every entry counts: what could not be looked at is refused, never passed over.
2. A file is durable state by its class (`rules.durable`), dangerous by its content (`rules.secrets`). State that holds nothing
   worse is to be moved: copied, verified, then cut (`drillmaster workspace evict`). Whether that alone says no is the policy's.
3. On a free host nothing durable stays but a plan younger than its time to live. A store for each class is named before, by a
   person.
4. Twelve red flags: four from what was found, eight from what people answered. Two of them, and nothing is written.
5. Any one exit criterion is enough to leave: a refused file, an open write, a secret in a transcript, a path that nobody named, or
   an agent that has to outlive the host.
6. A pass says that this scan found nothing. It does not say that the host can be trusted.
"""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.gates import Gate
from drillmaster.gates._workspace_flags import (
    Exempt,
    Finding,
    flags_of,
    in_force,
    report,
    severity_of,
)
from drillmaster.gates._workspace_tree import Pointer, Seen, Tree
from drillmaster.policy import seconds_text
from drillmaster.rules.durable import Class
from drillmaster.verdict import Absent, Check, Cite, Exact, Role, Status, Verdict

__all__ = ["ALONE", "Answers", "Exempt", "Finding", "Pointer", "Seen", "Tree", "Workspace", "gate"]

_Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
_STATE: tuple[Class, ...] = ("memory", "cache", "transcript", "vectors", "plan", "identity", "store")
_MOST_CITED = 20
_STORE = re.compile(r"[a-z][a-z0-9+.-]{1,30}://[^\s]+|/[^\s]+")
_PLACES: dict[str, str] = {
    "memory": "a versioned store with access control",
    "plan": "a versioned store, or a temporary file system that is wiped",
    "cache": "a redacted store on controlled disk",
    "transcript": "an append-only store outside the agent's user",
    "vectors": "a vector service that can be destroyed",
    "identity": "where identities are kept",
    "store": "where what it holds belongs",
}


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What no scan can see, answered by whoever signs the policy. Each "no" is a red flag."""

    other_disk: bool
    """The writer has a disk beside the free host's."""
    export_path: str
    """Where a backup or export goes today; "": there is none, a red flag."""
    evict_without_ticket: bool
    """State can be taken off the host without asking a third party."""
    planner_is_not_writer: bool
    """The model that plans is not the one that changes the memory."""
    deletion_owner: str
    """Who deletes scratchpads; "": nobody, a red flag."""
    memory_is_a_store: bool
    """Memory is kept as a store, with versions and access, and not as logs."""
    resume_checks_digest: bool
    """Nothing resumes after a preemption before a checksum held: `drillmaster workspace resume`."""
    memory_paths: tuple[str, ...]
    """Every path of memory that somebody on call can name, below the root; `*` stands for part of a name. []: a red flag."""
    embeddings_from: Literal["nothing", "synthetic", "production"]
    """What vectors are built from."""


class Workspace(Gate[Tree], frozen=True, kw_only=True, tag="workspace"):
    """Whether an agent may resume on the files that it finds.

    Happens: before a turn, or in CI, every entry of a working directory is looked at: bytes, names, links, archives.
    Breaks: a resume on memory, caches and transcripts that replay a password, a customer's name, or yesterday's cluster.
    Looks like: findings by file, each `refuse` or `copy_then_evict`; what was seen, scanned and unscannable, in numbers.
    Cannot show: that the host is to be trusted; a secret of no known shape; what a picture shows; that the store is safe.

    `may_stay` names the classes that may lie here (`memory cache transcript vectors plan identity store`, on a free host `plan`
    alone). `stores` names where each other class belongs: a URI, or an absolute path on another disk. `left_out` are folders below
    the root whose content is not looked at: their files are counted and printed. `exceptions` take one flag off one file's very
    bytes, until a day.
    """

    ARTICLE_FAIL: ClassVar[int] = 2
    ARTICLE_REFUSED: ClassVar[int] = 2

    host: Literal["free", "controlled"]
    """Whose disk it is: a complimentary host may be gone tonight."""
    max_file_bytes: _Bytes
    """A larger file is refused unread. The article says 2000000."""
    max_total_bytes: _Bytes
    """Of all files; past it the walk stops, and the tree is refused."""
    max_files: _Count
    """Entries; past it the walk stops, and the tree is refused."""
    max_unpacked_bytes: _Bytes
    """What may come out of one file by unpacking it."""
    min_files: _Count
    """Fewer looked at: nothing was looked at."""
    max_plan_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
    """How old an ephemeral plan may be. The article says under one hour."""
    may_stay: tuple[Literal["memory", "cache", "transcript", "vectors", "plan", "identity", "store"], ...]
    to_be_moved: Literal["fail", "report"]
    """Whether a file that has only to be moved says no; `report`, as in the article's script, lists it."""
    personal_data: Literal["refuse", "durable", "report"]
    """Where addresses and card numbers are refused: anywhere, in durable state alone, or nowhere."""
    media: Literal["refuse", "report"]
    """What becomes of pictures, sound, films and fonts, whose content nobody reads here."""
    left_out: tuple[str, ...]
    must_survive_host_loss: bool
    """Whether the agent has to outlive a host that disappears tonight."""
    max_red_flags: Annotated[int, msgspec.Meta(ge=0, le=1)]
    """Two red flags, and no write: 1 is the most that can be signed."""
    stores: dict[Literal["memory", "cache", "transcript", "vectors", "plan", "identity", "store"], str]
    answers: Answers
    exceptions: tuple[Exempt, ...]

    def __post_init__(self) -> None:
        if self.host == "free" and set(self.may_stay) - {"plan"}:
            raise ValueError(
                f"may_stay: found {sorted(set(self.may_stay) - {'plan'})}, wanted at most plan: nothing else stays on a free host"
            )
        if self.host == "free" and self.max_plan_age_s > 3600:
            raise ValueError("max_plan_age_s: found more than 3600, wanted at most an hour on a free host")
        for one in self.left_out:
            if (
                not one.strip("/")
                or one.startswith("/")
                or ".." in one.split("/")
                or one.strip("/") in (".", "*", "**")
            ):
                raise ValueError(f"left_out: found {one!r}, wanted a folder below the root, such as .git")

    def checks(self, evidence: Tree) -> Iterator[Check]:
        tree = evidence
        rows = self._rows(tree)
        yield self._whole(tree)
        yield _check(
            "examined",
            "refused" if tree.scanned < self.min_files else "pass",
            f"{tree.scanned} of {len(tree.entries)} entries were looked at whole",
            role="admission",
            observed=Exact(tree.scanned),
            limit=self.min_files,
            remedy="name the agent's working directory, and not an empty folder",
        )
        yield self._exceptions(tree)
        yield from self._refused(rows)
        yield self._transcripts(rows)
        yield self._left_out(tree)
        for place in _STATE:
            yield self._state(place, rows)
        yield self._plans(tree)
        yield self._interrupted(tree)
        yield self._named(tree)
        yield self._stores_named(tree)
        yield self._pointers(tree)
        yield self._host(tree)
        yield self._red_flags(tree)

    def headline(self, evidence: Tree) -> tuple[str, ...]:
        unread = sum(bool(one.unread or one.trouble) for one in evidence.entries)
        out = sum(one.left_out for one in evidence.entries)
        return (
            f"{len(evidence.entries)} entries in {evidence.folders} folders, {evidence.total_bytes:,} bytes: "
            f"{evidence.scanned} scanned, {unread} unscannable, {out} left out by the policy, {len(self.exceptions)} exceptions",
        )

    def closing(self, evidence: Tree, verdict: Verdict) -> tuple[str, ...]:
        found = self.found(evidence)
        refused = sum(one.severity == "refuse" for one in found)
        moved = sum(one.severity == "copy_then_evict" for one in found)
        said = [f"refuse_count: {refused}, copy_then_evict: {moved}"]
        if verdict.status == "pass":
            said.append("no refuse rows in this pass; that does not make the host a trusted one")
        else:
            said.append("resume is forbidden: do not hand refuse-class files to any model")
        return tuple(said)

    def found(self, tree: Tree) -> tuple[Finding, ...]:
        """List every entry with a flag, in the article's fields."""
        return tuple(
            Finding(path=one.path, flags=flags, severity=severity_of(flags), bytes=one.bytes)
            for one, flags in self._rows(tree)
            if flags
        )

    def report(self, tree: Tree) -> dict[str, object]:
        """Write the findings in the article's shape."""
        return report(self.found(tree))

    def _rows(self, tree: Tree) -> list[tuple[Seen, tuple[str, ...]]]:
        exempt = in_force(self.exceptions, tree)
        return [
            (
                one,
                flags_of(
                    one,
                    max_file_bytes=self.max_file_bytes,
                    personal_data=self.personal_data,
                    media=self.media,
                    may_stay=self.may_stay,
                    exempt=exempt,
                ),
            )
            for one in tree.entries
        ]

    # Admissions

    def _whole(self, tree: Tree) -> Check:
        return _check(
            "whole",
            "refused" if tree.cut or tree.changed else "pass",
            "the tree was walked to its end",
            role="admission",
            observed=Exact(tree.total_bytes),
            limit=self.max_total_bytes,
            unit="bytes",
            why=tree.cut or ("files came and went while it was walked: stop the agent first" if tree.changed else ""),
            remedy="stop the agent, move what is large out of the workspace, and scan again",
        )

    def _exceptions(self, tree: Tree) -> Check:
        wrong = [said for one in self.exceptions if (said := one.problem(tree.now_ns))]
        return _check(
            "exceptions",
            "refused" if wrong else "pass",
            f"{len(self.exceptions)} exceptions, each of one file's very bytes, dated, with a reason",
            role="admission",
            observed=Exact(len(self.exceptions)),
            why="; ".join(wrong[:5]),
            remedy="look at the file again, and have the policy's owner renew or drop the exception",
        )

    # Judgements

    def _refused(self, rows: list[tuple[Seen, tuple[str, ...]]]) -> Iterator[Check]:
        for flag, title, remedy in _REFUSALS:
            hit = [
                one
                for one, flags in rows
                if flag in flags and not (flag == "secret_pattern" and one.place == "transcript")
            ]
            yield _check(
                flag.replace("_", "-"),
                "fail" if hit else "pass",
                title,
                observed=Exact(len(hit)),
                limit=0,
                why=_listed(hit, flag),
                remedy=remedy,
                cites=_cites(hit),
            )

    def _transcripts(self, rows: list[tuple[Seen, tuple[str, ...]]]) -> Check:
        hit = [one for one, flags in rows if one.place == "transcript" and "secret_pattern" in flags]
        return _check(
            "transcript-secret",
            "fail" if hit else "pass",
            "no transcript holds a secret, not once",
            observed=Exact(len(hit)),
            limit=0,
            why=_listed(hit, "secret_pattern"),
            remedy="revoke what was recorded; drillmaster workspace evict FILE --to STORE; leave the free host",
            cites=_cites(hit),
        )

    def _left_out(self, tree: Tree) -> Check:
        hidden = [one for one in tree.entries if one.left_out and one.place in _STATE]
        n = sum(one.left_out for one in tree.entries)
        return _check(
            "left-out",
            "fail" if hidden else "pass",
            f"what is left out ({n} files in {len(self.left_out)} folders) holds no durable state by its names",
            observed=Exact(len(hidden)),
            limit=0,
            why=_listed(hidden, ""),
            remedy="take that folder out of left_out, and have the policy signed again",
            cites=_cites(hidden),
        )

    def _state(self, place: Class, rows: list[tuple[Seen, tuple[str, ...]]]) -> Check:
        hit = [one for one, flags in rows if one.place == place and flags and one.kind == "file" and not one.left_out]
        hit += [
            one for one, flags in rows if one.place != place and place in one.packed and "durable_state_inside" in flags
        ]
        stays = place in self.may_stay
        moved = bool(hit) and not stays
        return _check(
            f"copy-then-evict.{place}",
            "fail" if moved and self.to_be_moved == "fail" else "pass",
            f"{place}: {len(hit)} files"
            + (", which may stay" if stays and hit else f", to be moved to {_PLACES[place]}" if moved else ""),
            observed=Exact(len(hit)),
            limit=None if stays else 0,
            why=_listed(hit, "") if moved else "",
            remedy=f"drillmaster workspace evict FILE --to {self._store(place) or 'STORE'}" if moved else "",
            cites=_cites(hit) if moved else (),
        )

    def _plans(self, tree: Tree) -> Check:
        old = [
            one
            for one in tree.entries
            if one.place == "plan" and one.kind == "file" and not one.left_out and not self._young(one, tree.now_ns)
        ]
        return _check(
            "plan-age",
            "fail" if old and "plan" in self.may_stay else "pass",
            f"a plan that stays is younger than {seconds_text(self.max_plan_age_s)}",
            observed=Exact(len(old)),
            limit=0,
            why=_listed(old, ""),
            remedy="drop the plan, or move it: drillmaster workspace evict FILE --to STORE",
            cites=_cites(old),
        )

    def _young(self, one: Seen, now_ns: int) -> bool:
        # A file from the future has a clock that cannot be believed.
        return -60 <= (now_ns - one.mtime_ns) / 1e9 < self.max_plan_age_s

    def _interrupted(self, tree: Tree) -> Check:
        hit = [one for one in tree.entries if one.open_mark and (one.place in _STATE or one.place == "pointer")]
        return _check(
            "interrupted",
            "fail" if hit else "pass",
            "no durable file was left open: no lock, no half-written text, no journal beside it",
            observed=Exact(len(hit)),
            limit=0,
            why="; ".join(f"{one.path}: {one.open_mark}" for one in hit[:5]),
            remedy="look at what the last turn wrote, restore the last whole version, and leave the free host",
            cites=_cites(hit),
        )

    def _named(self, tree: Tree) -> Check:
        shapes = [re.compile(re.escape(one).replace(r"\*", "[^/]*")) for one in self.answers.memory_paths]
        hit = [
            one
            for one in tree.entries
            if one.place == "memory" and one.kind == "file" and not any(shape.fullmatch(one.path) for shape in shapes)
        ]
        return _check(
            "named-path",
            "fail" if hit else "pass",
            "every memory file lies where somebody on call can say it does",
            observed=Exact(len(hit)),
            limit=0,
            why=_listed(hit, ""),
            remedy="move it, or have it named in answers.memory_paths and the policy signed again",
            cites=_cites(hit),
        )

    def _store(self, place: str) -> str:
        return next((store for name, store in self.stores.items() if name == place), "")

    def _stores_named(self, tree: Tree) -> Check:
        here = {one.place for one in tree.entries if one.place in _STATE and one.kind == "file"}
        here |= {place for one in tree.entries for place in one.packed}
        wrong = []
        for place in _STATE:
            named = self._store(place)
            if place not in self.may_stay and place in here and not named:
                wrong.append(f"{place} lies here, and no store is named: {_PLACES[place]}")
            elif named and _STORE.fullmatch(named) is None:
                wrong.append(f"stores.{place}: a URI or an absolute path, with no space")
            elif named and re.search(r"://[^/\s]*:[^/\s]*@", named):
                wrong.append(f"stores.{place}: a password in it")
        return _check(
            "stores",
            "fail" if wrong else "pass",
            "each class that may not stay has a store that is named",
            observed=Exact(len(wrong)),
            limit=0,
            why="; ".join(wrong),
            remedy="name it under stores in the policy; without a controlled store, stop the agent's memory",
        )

    def _pointers(self, tree: Tree) -> Check:
        wrong = [f"{one.path}: {one.problem}" for one in tree.pointers if one.problem]
        wrong += [f"{one.path}: what it stands for is still here" for one in tree.pointers if one.blob_there]
        known = {value for value in self.stores.values() if value}
        wrong += [
            f"{one.path}: it leads to no store of the policy"
            for one in tree.pointers
            if not one.problem and known and not any(_below(one.uri, store) for store in known)
        ]
        return _check(
            "pointer",
            "fail" if wrong else "pass",
            f"{len(tree.pointers)} pointers, each whole, with a checksum, into a store of the policy, its file gone",
            observed=Exact(len(wrong)),
            limit=0,
            why="; ".join(wrong[:5]),
            remedy="drillmaster workspace resume DIR says what is missing, and finishes a cut that was interrupted",
        )

    def _host(self, tree: Tree) -> Check:
        here = [
            one
            for one in tree.entries
            if one.place in _STATE and one.kind == "file" and not (one.place == "plan" and "plan" in self.may_stay)
        ]
        lost = self.must_survive_host_loss and self.host == "free" and bool(here)
        return _check(
            "host-loss",
            "fail" if lost else "pass",
            "an agent that has to outlive its host keeps nothing on it",
            observed=Exact(len(here)),
            limit=0 if self.must_survive_host_loss and self.host == "free" else None,
            why=_listed(here, "") if lost else "",
            remedy="drillmaster workspace evict FILE --to STORE, and run on a host of your own",
            cites=_cites(here) if lost else (),
        )

    def _red_flags(self, tree: Tree) -> Check:
        raised = list(self.red_flags(tree))
        return _check(
            "red-flags",
            "fail" if len(raised) > self.max_red_flags else "pass",
            f"{len(raised)} red flags of 12" + (f": {'; '.join(raised)}" if raised else ""),
            observed=Exact(len(raised)),
            limit=self.max_red_flags,
            why="two red flags, and nothing is written: move the store before the next turn"
            if len(raised) > 1
            else "; ".join(raised),
            remedy="take away what raises them, or change what is so and have the policy signed again",
        )

    def red_flags(self, tree: Tree) -> Iterator[str]:
        """Yield every red flag that is up: four of data, four of control, four of process."""
        said = self.answers
        entries = tree.entries
        if any(one.counts.get("secret") and one.place in ("cache", "transcript", "memory") for one in entries):
            yield "tool output holds tokens, cookies or connection strings"
        if any(one.counts.get("personal") and one.place == "transcript" for one in entries):
            yield "transcripts hold addresses or card numbers"
        if any(one.counts.get("live") and one.place in ("memory", "plan") for one in entries):
            yield "memory or plans name live environments"
        if said.embeddings_from == "production" or (
            said.embeddings_from == "nothing" and any(one.place == "vectors" for one in entries)
        ):
            yield "embeddings are built from production traces, or nobody knows from what"
        if self.host == "free" and not said.other_disk:
            yield "the free host is the writer's only disk"
        if not said.export_path.strip():
            yield "there is no backup or export path"
        if not said.evict_without_ticket:
            yield "eviction needs a third party"
        if not said.planner_is_not_writer:
            yield "one model both plans and changes memory"
        if not said.deletion_owner.strip():
            yield "nobody owns deletion"
        if not said.memory_is_a_store:
            yield "memory is treated as logs"
        if not said.resume_checks_digest:
            yield "agents resume without a checksum"
        if not said.memory_paths:
            yield "nobody on call can name the memory's path"


class WorkspaceScan(Workspace, frozen=True, kw_only=True, tag="workspace"):
    """The scan alone, by the numbers of the article's script: nobody has signed them, and nobody has answered its questions."""

    def checks(self, evidence: Tree) -> Iterator[Check]:
        for check in super().checks(evidence):
            if check.id not in _ANSWERED:
                yield check


_EVICT = "move the file: drillmaster workspace evict FILE --to STORE"
_REFUSALS = (
    ("secret_pattern", "no file outside transcripts holds a secret", "revoke it, take it out, and scan again; or " + _EVICT),
    ("secret_in_name", "no file's name is a secret", "revoke it, and rename the file"),
    ("personal_data", "no address or card number lies where it may not", "take it out, or " + _EVICT),
    ("binary_store", "no binary store lies here: what it holds cannot be looked at", "drillmaster workspace evict FILE --to STORE"),
    ("oversize", "no file is larger than may be looked at", "drillmaster workspace evict FILE --to STORE, or split it"),
    ("unscannable", "every file could be looked at whole", "unpack or unlock it, or " + _EVICT),
    ("unreadable", "every entry could be opened, and stayed as it was", "stop the agent, and scan as a user who may read all"),
    ("not_a_file", "no named pipe, socket or device lies here", "remove it: what a reader gets from it is not on the disk"),
    ("link", "no link lies here: what it leads to can be changed from outside", "replace the link by the file that it leads to"),
    ("other_mount", "no other file system is mounted below the root", "scan the mounted folder by itself, or unmount it"),
    ("media", "no picture, sound, film or font lies here unseen", "move it out, or have the policy say media: report"),
)  # fmt: skip  # flag, what it asks, how it is mended: one row each


def _check(
    id_: str,
    status: Status,
    title: str,
    *,
    role: Role = "judgement",
    observed: Exact | Absent | None = None,
    limit: float | None = None,
    unit: str = "",
    why: str = "",
    remedy: str = "",
    cites: tuple[Cite, ...] = (),
) -> Check:
    return Check(
        id=id_,
        role=role,
        status=status,
        title=title,
        observed=observed,
        limit=limit,
        unit=unit,
        why=why if status != "pass" or id_.startswith(("copy-then-evict", "red-flags")) else "",
        remedy=remedy if status != "pass" else "",
        cites=cites if status != "pass" else (),
    )


def _listed(entries: list[Seen], flag: str) -> str:
    said = []
    for one in entries[:5]:
        about = ""
        if flag in ("secret_pattern", "secret_in_name", "personal_data"):
            group = "personal" if flag == "personal_data" else "secret"
            hits = [hit for hit in (one.name_hits if flag == "secret_in_name" else one.hits) if hit.group == group]
            about = ", ".join(
                f"{hit.kind} at {hit.offset}"
                + (f" ({' > '.join(hit.via)})" if hit.via else "")
                + (f" {hit.fingerprint}" if hit.fingerprint else "")
                for hit in hits[:3]
            )
            about += f" and {one.counts.get(group, 0) - 3} more" if one.counts.get(group, 0) > 3 else ""
        elif flag == "unscannable":
            about = ", ".join(one.unread[:3])
        elif flag == "unreadable":
            about = one.trouble
        elif flag == "not_a_file":
            about = one.kind
        elif flag == "link":
            about = f"leads {one.leads}" if one.kind == "link" else f"{one.hard_links} hard links"
        elif flag in ("oversize", "binary_store"):
            about = f"{one.bytes:,} bytes"
        elif flag == "media":
            about = one.media
        said.append(f"{one.path}: {about}" if about else one.path)
    more = f" and {len(entries) - 5} more files" if len(entries) > 5 else ""
    return "; ".join(said) + more


def _cites(entries: list[Seen]) -> tuple[Cite, ...]:
    return tuple(Cite(one.path, 0) for one in entries[:_MOST_CITED])


def _below(uri: str, store: str) -> bool:
    """Whether a pointer's address lies in a store, written as a path or as a URI."""
    plain, folder = (one.removeprefix("file://").rstrip("/") for one in (uri, store))
    return plain == folder or (plain.startswith(folder + "/") and ".." not in plain.split("/"))


_ANSWERED = frozenset({"red-flags", "named-path", "stores", "host-loss", "left-out", "exceptions", "pointer"})
"""Checks that a policy decides; the article's own pointer has an address and no checksum."""
ALONE = WorkspaceScan(
    host="free",
    max_file_bytes=2_000_000,
    max_total_bytes=1 << 30,
    max_files=200_000,
    max_unpacked_bytes=64 << 20,
    min_files=1,
    max_plan_age_s=3600,
    may_stay=(),
    to_be_moved="report",
    personal_data="durable",
    media="report",
    left_out=(),
    must_survive_host_loss=False,
    max_red_flags=1,
    stores={},
    answers=Answers(
        other_disk=False,
        export_path="",
        evict_without_ticket=False,
        planner_is_not_writer=False,
        deletion_owner="",
        memory_is_a_store=False,
        resume_checks_digest=False,
        memory_paths=(),
        embeddings_from="nothing",
    ),
    exceptions=(),
)
"""What judges where there is no policy. 2,000,000 bytes and `copy_then_evict` without a no are the article's; the other bounds are
wide enough for a workspace, and ours."""
gate = Workspace
