"""The oracle gate: what decides pass or fail is not written by whoever is judged by it.

Rules, in the order of the checks:

1. Admissions. There is a change, and all of it can be read; the base's list of oracles can be used, and names something;
   exceptions are a person's, dated, and not over. An owner whom nobody knows refuses what no other rule fails.
2. An oracle is what the base's list names, and what judges the change itself: lists, policies, workflows, hooks, conftest.
   Scratch is what the policy names, docs likewise. *Everything else is product*, in whatever language.
3. A change that is an agent's, or nobody's, touches no oracle. One that touches oracle and product is two changes: in all, and
   commit by commit, also where a later commit undid it. Deleted and moved away is touched.
4. An agent writes tests under scratch alone. Payment, identity and the like, as the policy names them, it leaves alone.
5. An owner answers by name: a trailer, a signature of theirs, and the digest of what they looked at, as the policy asks.
6. Tests assert no less than before (`rules.weakening`). What cannot be read is refused, not passed.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.changes import Commit, Person
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import one_line
from drillmaster.gates import Gate
from drillmaster.gates._oracle_attest import attested, people_problems, signed_off
from drillmaster.gates._oracle_evidence import LIST, OracleChange, Sorted, is_told_bot, owns
from drillmaster.gates._oracle_fixtures import recorded, stale, unredacted
from drillmaster.gates._oracle_tests import readable, weakened
from drillmaster.rules._globs import Globs, folded, pattern_fault
from drillmaster.rules.codeowners import read_codeowners
from drillmaster.rules.weakening import Kind
from drillmaster.verdict import Check, Cite, Exact, Role, Status, Verdict

__all__ = ["ARTICLE", "Exemption", "Oracle", "gate"]

_SHOWN = 8
_IN_LINE = 50
_LONGEST_EXEMPTION_NS = 92 * 86_400 * 10**9


class Exemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One weakening that somebody allowed: of one kind, in one file, until a day."""

    path: str
    kind: Kind
    why: str
    by: str
    until: str
    """A day, `2027-02-28`, at most three months ahead."""


class Oracle(Gate[OracleChange], frozen=True, kw_only=True, tag="oracle"):
    """Who wrote the bit that decides pass or fail: not the one who is judged by it.

    Happens: a change is told commit by commit against the base's `.oracle-owners`; its tests are compared by what they assert.
    Breaks: a patch and its proof from one hand; an assert that was rewritten until it passed; a snapshot taken again.
    Looks like: `lane=... oracles=[...] product=[...]`, and which of the rules the change breaks, with paths.
    Cannot show: that a fixture is right, that a record is current, what a prompt in a fixture says, how good a test is.

    `.oracle-owners` is the article's, one `glob<TAB>owner<TAB>source` a line. Without a policy the article's own numbers judge:
    scratch is `tests/scratch/`, and nobody has to attest.
    """

    ARTICLE_FAIL: ClassVar[int] = 12
    ARTICLE_REFUSED: ClassVar[int] = 2

    scratch: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Folders whose files never gate a merge, each with a `/` at its end."""
    docs: tuple[str, ...]
    """Patterns of what is neither oracle nor product."""
    guarded: tuple[str, ...]
    """Patterns of payment, identity, deletion and the like, which an agent leaves alone."""
    attest: Literal["digest", "trailer", "no"]
    """What an owner adds: `oracle-owner` and `oracle-digest` of what they looked at, signed; the first alone; nothing."""
    codeowners: Literal["required", "optional"]
    """Whether each oracle needs an owner in CODEOWNERS as well."""
    fixtures: Literal["recorded", "any"]
    """Whether what is recorded from staging has to be a record whose digest holds."""
    staging_hosts: tuple[str, ...]
    """Hosts that fixtures may be recorded from; none: any host that the record names."""
    max_fixture_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
    """How old the oldest recorded fixture may be while an agent works."""
    self_owner: str
    """Who answers for the list, the workflows and the hooks; a person or team of the roster."""
    exceptions: tuple[Exemption, ...] = ()

    def __post_init__(self) -> None:
        for prefix in self.scratch:
            if (
                not prefix.endswith("/")
                or prefix.startswith(("/", "./"))
                or ".." in prefix.split("/")
                or len(prefix) < 2
            ):
                raise ValueError(f"scratch: found {prefix!r}, wanted a folder such as tests/scratch/")
        for field in ("docs", "guarded"):
            for pattern in getattr(self, field):
                fault = pattern_fault(pattern, "owners")
                if fault:
                    raise ValueError(f"{field}: found {fault}: {pattern!r}")
        if not self.self_owner.strip():
            raise ValueError("self_owner: found nothing, wanted a person or team of the roster")

    def checks(self, evidence: OracleChange) -> Iterator[Check]:
        yield from map(_printable, self._checks(evidence))

    def _checks(self, evidence: OracleChange) -> Iterator[Check]:
        told = self.sorted(evidence)
        yield _change(told)
        yield _owners(told)
        yield _examined(told)
        yield self._exceptions(evidence)
        yield _owners_known(told)
        if told.defects or evidence.owners is None:
            return  # without the list nothing can be told apart
        yield _lane_oracle(told)
        yield _mixed(told)
        yield _mixed_commit(told)
        yield self._free_tests(told)
        yield self._guarded(told)
        yield self._runner(told)
        yield _links(told)
        yield _disguised(told)
        yield self._codeowners(told)
        yield attested(told, self.attest)
        yield self._self_files(told)
        yield signed_off(told)
        yield recorded(told, self.fixtures, self.staging_hosts)
        yield unredacted(told)
        yield stale(told, self.fixtures, self.max_fixture_age_s)
        yield readable(told)
        yield from weakened(told, self._excepted(evidence), attest=self.attest)

    def headline(self, evidence: OracleChange) -> tuple[str, ...]:
        lane = evidence.diff.lane
        return (f"lane {lane.name}: {lane.by}",)

    def closing(self, evidence: OracleChange, verdict: Verdict) -> tuple[str, ...]:
        told = self.sorted(evidence)
        if evidence.owners is None or told.defects:
            return ()
        status = {check.id: check.status for check in verdict.checks}
        lines = [f"lane={evidence.diff.lane.name} oracles={_listed(told.oracles)} product={_listed(told.product)}"]
        if status.get("lane-oracle") == "fail":
            lines.append("refuse: free lane touched an oracle file")
        elif "fail" in (status.get("mixed"), status.get("mixed-commit")):
            lines.append("refuse: mixed oracle and product authorship")
        elif status.get("free-tests") == "fail":
            lines.append(f"refuse: free lane wrote tests {_listed(told.tests)}")
        return tuple(lines)

    def sorted(self, evidence: OracleChange) -> Sorted:
        """Say of each path of a change what it is, by these limits."""
        return Sorted(evidence, scratch=self.scratch, docs=self.docs)

    def _excepted(self, change: OracleChange) -> frozenset[tuple[str, str]]:
        return frozenset((one.path, one.kind) for one in self.exceptions if not _exemption_fault(one, change))

    def _exceptions(self, change: OracleChange) -> Check:
        wrong = [
            f"{one.path}, {one.kind}: {fault}" for one in self.exceptions if (fault := _exemption_fault(one, change))
        ]
        return _check(
            "exceptions",
            "refused" if wrong else "pass",
            f"{len(self.exceptions)} exceptions, each somebody's and not over",
            role="admission",
            observed=Exact(len(self.exceptions)),
            why="; ".join(wrong),
            remedy="mend or drop the entry in the policy, and have it signed again: drillmaster policy sign FILE --key KEY",
        )

    def _free_tests(self, told: Sorted) -> Check:
        lane = told.change.diff.lane.name
        status: Status = "pass"
        if told.tests and lane != "human":
            status = "fail" if lane == "free" else "refused"
        return _check(
            "free-tests",
            status,
            f"tests outside {', '.join(self.scratch)} are a person's",
            paths=told.tests if status != "pass" else [],
            why=f"{lane} lane: {told.change.diff.lane.by}" if status != "pass" else "",
            remedy=f"git mv the test into {self.scratch[0]}, where it gates nothing; a person promotes it after reading it"
            if lane == "free"
            else "have the person who made it sign the commits (git commit -S), or give the code host's event: "
            "--event $GITHUB_EVENT_PATH",
        )

    def _guarded(self, told: Sorted) -> Check:
        globs, folding = Globs(self.guarded), Globs(self.guarded, fold=True)
        hits = [one for one in told.paths if told.kind(one) != "scratch" and (globs.any(one) or folding.any(one))]
        lane = told.change.diff.lane.name
        return _check(
            "guarded",
            "fail" if hits and lane != "human" else "pass",
            f"{len(self.guarded)} patterns of money, identity and deletion, which no agent touches",
            paths=hits if lane != "human" else [],
            why=f"{lane} lane: {told.change.diff.lane.by}" if hits and lane != "human" else "",
            remedy="have a person write this part, on a lane of their own, with an oracle that a person owns",
        )

    def _runner(self, told: Sorted) -> Check:
        held = told.change.secrets_here if told.change.diff.lane.name != "human" else ()
        return _check(
            "runner",
            "fail" if held else "pass",
            "an agent's change is judged where no deploy key and no signing material can be reached",
            why=f"in the environment: {', '.join(held)}" if held else "",
            remedy=f"move the job to a worker without secrets: unset {' '.join(held)}",
        )

    def _codeowners(self, told: Sorted) -> Check:
        return _codeowners(told, self.codeowners)

    def _self_files(self, told: Sorted) -> Check:
        files = told.self_files
        lane = told.change.diff.lane
        named = people_problems(self.self_owner, told)
        makers = {one.identity for one in _people(self.self_owner, told)}
        status: Status = "pass"
        why = ""
        if files and lane.name != "human":
            status, why = "fail", f"{lane.name} lane: {lane.by}"
        elif files and named:
            status, why = "refused", named
        elif files and not set(lane.people) & makers and not _vouched(told, self.self_owner):
            status, why = "fail", f"none of {', '.join(lane.people) or 'nobody'} answers for them"
        return _check(
            "self-files",
            status,
            f"what judges the change (list, policy, workflows, hooks, conftest) is for {self.self_owner} to change",
            paths=files if status != "pass" else [],
            why=why,
            remedy="take these files out of the change; their owner changes them in one of their own, or vouches for it with a "
            f"signed commit: git commit -S --allow-empty -m 'gate files read' --trailer 'oracle-owner: {self.self_owner}'",
        )


def _people(owner: str, told: Sorted) -> tuple[Person, ...]:
    return owns(owner, told.change.diff.roster)


def _vouched(told: Sorted, owner: str) -> bool:
    """Whether somebody who answers for the gate's files signed a commit of the change that says so."""
    people = {one.identity for one in _people(owner, told) if one.kind == "human"}
    return any(
        commit.signer in people and any(key.lower() == "oracle-owner" for key, _ in commit.trailers)
        for commit in told.change.diff.commits
    )


def _exemption_fault(one: Exemption, change: OracleChange) -> str:
    end_ns = parse_rfc3339(f"{one.until}T23:59:59Z")
    if not one.why.strip() or not one.by.strip():
        return "nobody says why" if not one.why.strip() else "nobody's name"
    if is_told_bot(one.by):
        return f"{one.by} is a bot's name"
    if end_ns is None:
        return f"until {one.until!r}, which is no day"
    if end_ns < change.now_ns:
        return f"over since {one.until}"
    return "longer than three months" if end_ns - change.now_ns > _LONGEST_EXEMPTION_NS else ""


def _check(
    id_: str,
    status: Status,
    title: str,
    *,
    role: Role = "judgement",
    paths: list[str] | None = None,
    observed: Exact | None = None,
    why: str = "",
    remedy: str = "",
) -> Check:
    listed = paths or []
    told = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
    return Check(
        id=id_,
        role=role,
        status=status,
        title=title,
        observed=observed,
        cites=tuple(Cite(path, 0) for path in listed[:100]),
        why="; ".join(part for part in (told, why) if part),
        remedy=remedy if status != "pass" else "",
    )


def _printable(check: Check) -> Check:
    """Give a check whose texts can be written: git's paths may be no UTF-8."""
    try:
        "".join((check.title, check.why, check.remedy, *(cite.file for cite in check.cites))).encode()
    except UnicodeEncodeError:
        return msgspec.structs.replace(
            check,
            title=one_line(check.title),
            why=one_line(check.why),
            remedy=one_line(check.remedy),
            cites=tuple(Cite(one_line(cite.file), cite.line) for cite in check.cites),
        )
    return check


def _change(told: Sorted) -> Check:
    diff = told.change.diff
    empty = not told.paths
    return _check(
        "change",
        "refused" if diff.defects or empty else "pass",
        f"{len(told.paths)} paths in {len(diff.commits)} commits",
        role="admission",
        observed=Exact(len(told.paths)),
        why="; ".join(diff.defects) or ("nothing differs: an empty change proves nothing" if empty else ""),
        remedy="git fetch --unshallow origin"
        if diff.defects
        else "name the branch the change is for: --base origin/main",
    )


def _owners(told: Sorted) -> Check:
    missing = told.change.owners is None
    why = "; ".join(f"line {one.line}: {one.what}" if one.line else one.what for one in told.defects[:_SHOWN])
    first = next(iter(told.defects), None)
    brought = any(one.path == LIST and one.sha_after for one in told.change.diff.files)
    return _check(
        "owners",
        "refused" if missing or told.defects else "pass",
        f"{LIST} of the base names who answers for what: {len(told.rows)} lines",
        role="admission",
        observed=Exact(len(told.rows)),
        why=f"there is no {LIST} at the base" if missing else why,
        remedy=f"merge the {LIST} that this change brings; from then on it judges"
        if missing and brought
        else f"printf 'fixtures/http/*.json\\tOWNER\\tstaging-record\\n' >> {LIST}, and merge it in a change of its own"
        if missing
        else first.mend
        if first is not None
        else "",
    )


def _owners_known(told: Sorted) -> Check:
    wrong = []
    for row in told.rows:
        fault = people_problems(row.owner, told)
        if fault and (told.change.diff.roster is not None or told.oracles or is_told_bot(row.owner)):
            wrong.append(f"line {row.line}: {fault}")
    return _check(
        "owner-known",
        "refused" if wrong else "pass",
        "each owner is a person of the roster, or a team with one in it",
        observed=Exact(len({row.owner for row in told.rows})),
        why="; ".join(dict.fromkeys(wrong)),
        remedy=f"name a person or team of .drillmaster/roster.yaml in {LIST}, and merge that first",
    )


def _examined(told: Sorted) -> Check:
    known = (*told.change.base_paths, *told.paths)
    named = sum(1 for path in known if told.list.of(path)) if told.rows else 0
    return _check(
        "examined",
        "pass" if named else "refused",
        f"the list names {named} files that are there",
        role="admission",
        observed=Exact(named),
        why="" if named else "no file of the base or the change fits a line of it",
        remedy=f"correct the globs of {LIST}: git ls-files shows what there is"
        if told.change.owners is not None
        else f"merge a {LIST} first",
    )


def _lane_oracle(told: Sorted) -> Check:
    lane = told.change.diff.lane
    bad = told.oracles if lane.name != "human" else []
    return _check(
        "lane-oracle",
        "fail" if bad else "pass",
        f"an oracle is touched by people alone: {len(told.oracles)} touched",
        paths=bad,
        observed=Exact(len(told.oracles)),
        why=f"{lane.name} lane: {lane.by}" if bad else "",
        remedy="take the oracle out of the change; its owner changes it, in signed commits (git commit -S)",
    )


def _mixed(told: Sorted) -> Check:
    bad = bool(told.oracles and told.product)
    return _check(
        "mixed",
        "fail" if bad else "pass",
        f"oracle and product in changes of their own: {len(told.oracles)} and {len(told.product)}",
        paths=[*told.oracles[: _SHOWN // 2], *told.product[: _SHOWN // 2]] if bad else [],
        why=f"{len(told.oracles)} oracle files with {len(told.product)} of the product" if bad else "",
        remedy="split it: the oracle's change first, reviewed by its owner, then the product's",
    )


def _mixed_commit(told: Sorted) -> Check:
    commits = told.mixed()
    again = ", which is where work by an agent on tests ends" if len(commits) > 1 else ""
    return _check(
        "mixed-commit",
        "fail" if commits else "pass",
        f"no commit holds oracle and product: {len(told.change.diff.commits)} commits",
        observed=Exact(len(commits)),
        why=f"{', '.join(_short(one) for one in commits[:_SHOWN])}{again}" if commits else "",
        remedy="git rebase -i, and split these commits in two",
    )


def _short(commit: Commit) -> str:
    return f"{commit.sha[:12]} ({commit.subject[:40]})" if commit.subject else commit.sha[:12]


def _links(told: Sorted) -> Check:
    """A link or submodule that is an oracle, stands in the place of a folder of them, or leads to one."""
    heads = {_fixed(row.glob) for row in told.rows} - {""}
    bad = []
    for one in told.change.diff.files:
        if one.mode_after not in ("120000", "160000"):
            continue
        target = _led(one.path, one.after) if one.mode_after == "120000" else ""
        beside = any(head == one.path or head.startswith(f"{one.path}/") or _folder(one.path) == head for head in heads)
        beside = beside or any(folded(head).startswith(f"{folded(one.path)}/") for head in heads)
        leads = target is None or any(
            target == head or target.startswith(f"{head}/") or head.startswith(f"{target}/") for head in heads
        )
        if told.list.of(one.path) or told.list.alike(one.path) or beside or (leads and one.mode_after == "120000"):
            bad.append(one.path)
    return _check(
        "link",
        "fail" if bad else "pass",
        "no link or submodule stands beside an oracle, in its place, or leads to one",
        paths=bad,
        remedy="commit the files themselves, in the place of the link",
    )


def _fixed(glob: str) -> str:
    """Give the folders at the front of a glob that hold no star."""
    names = []
    for name in glob.strip("/").split("/")[:-1]:
        if any(c in name for c in "*?["):
            break
        names.append(name)
    return "/".join(names)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _led(path: str, content: bytes | None) -> str | None:
    """Say where a link leads, from the root; None: out of the repository, or it cannot be told."""
    if content is None:
        return None
    target = content.decode("utf-8", "surrogateescape")
    if target.startswith("/"):
        return None
    names = _folder(path).split("/") if "/" in path else []
    for name in target.split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names) or None


def _disguised(told: Sorted) -> Check:
    bad = told.disguised
    return _check(
        "disguised",
        "fail" if bad else "pass",
        "no path is an oracle's but for case, width or characters that nobody sees",
        paths=[path for path, _ in bad],
        why=f"reads like {bad[0][1].glob}" if bad else "",
        remedy="rename it to what it is meant to be, or to something that cannot be taken for it",
    )


def _codeowners(told: Sorted, wanted: Literal["required", "optional"]) -> Check:
    held = told.change.codeowners
    status: Status = "pass"
    why, paths = "", []  # type: str, list[str]
    if held is None:
        status = "fail" if wanted == "required" else "pass"
        why = "the base has none" if wanted == "required" else ""
        remedy = "add one beside the list: printf '/fixtures/ @OWNER\\n' > .github/CODEOWNERS"
    else:
        place, data = held
        read = read_codeowners(data)
        remedy = f"correct {place}, in a change of its own"
        if read.defects:
            status = "refused"
            why = "; ".join(f"{place}:{line}: {what}" for line, what in read.defects[:_SHOWN])
        elif wanted == "required":
            oracles = [path for path in (*told.change.base_paths, *told.paths) if told.list.of(path)]
            paths = [path for path in dict.fromkeys(oracles) if not _by_people(read.of(path), told)]
            status, why = ("fail", f"{place} names no person for them") if paths else ("pass", "")
    return _check(
        "codeowners", status, "the code host asks somebody about each oracle, too", paths=paths, why=why, remedy=remedy
    )


def _by_people(owners: tuple[str, ...], told: Sorted) -> bool:
    roster = told.change.diff.roster
    for one in owners:
        known = owns(one, roster)
        if any(person.kind == "human" for person in known) or not (known or is_told_bot(one)):
            return True
    return False


ARTICLE = Oracle(
    scratch=("tests/scratch/",),
    docs=("docs/**", "*.md", "*.rst", "LICENSE", "NOTICE", "CHANGELOG*", "changes/**"),
    guarded=(),
    attest="no",
    codeowners="optional",
    fixtures="any",
    staging_hosts=(),
    max_fixture_age_s=7 * 86_400,
    self_owner="maintainers",
)
"""What judges where there is no policy: the article's own script, as far as it has numbers."""


def _listed(paths: list[str]) -> str:
    """Write paths as the article's script prints a list, the first few hundred of them."""
    more = [f"and {len(paths) - _IN_LINE} more"] if len(paths) > _IN_LINE else []
    return str([*paths[:_IN_LINE], *more])


gate = Oracle
