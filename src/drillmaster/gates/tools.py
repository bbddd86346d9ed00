"""The tools gate: has a person signed each tool that an agent may call, whole, and is it still the one that was signed?

Rules, in the order the checks are listed:

1. The allow-list is there, of version 1, in the article's form or ours, and holds at least `min_tools` tools. Where the base
   ref knows signers, a person of the roster has signed these bytes.
2. Nobody but its owner can write it: no link, no write for group or others, not the agent's. In a repository git keeps no
   such modes; there it is its signature and its history that count.
3. Each contract is judged whole: name, origin, signer, privileges, command, schema, hash, words (`_tools_contract`).
4. Each server that a client is configured with is one of the list, word for word, or a URL that the policy names.
5. What servers offer is what was pinned, byte for byte of canonical JSON; a tool more or less is named (`_tools_change`).
6. What is new against the base has a person behind it, and a privilege more has two.
7. An exception is the policy's: one check, one tool, until a day, and why. It is counted.
"""

import re
import stat
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._tools_change import changes, expansions, of_live, of_new_names, of_offered, vouched
from drillmaster.gates._tools_contract import (
    Reason,
    Side,
    named,
    of_command,
    of_environment,
    of_literals,
    of_server,
    of_tool,
    of_words,
    sounds_like_more,
    url_wrong,
)
from drillmaster.gates._tools_evidence import (
    KIND,
    Config,
    FileFact,
    Listing,
    Live,
    Offered,
    Tools,
    article_hash,
    servers_of,
)
from drillmaster.gates._tools_said import EXCEPTABLE, JUDGEMENTS, NEW, NEXT
from drillmaster.rules import argv, names
from drillmaster.rules.lanes import NO_ROSTER
from drillmaster.screen import screen_text
from drillmaster.strict import shown
from drillmaster.verdict import Check, Cite, Exact, Finding, Role, Status, Verdict

__all__ = ["Config", "Exemption", "FileFact", "Listing", "Live", "Offered", "Tools", "ToolsGate", "gate"]

_SHOWN = 6
_LONGEST_NS = 367 * 86_400 * 10**9
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]


class Exemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a person lets pass: which check, of which tool or server as the check names it, until which day, and why."""

    check: str
    tool: _Text
    until: str
    why: _Text

    def __post_init__(self) -> None:
        if self.check not in EXCEPTABLE:
            raise ValueError(f"check: found {self.check}, wanted one that knows exceptions: {', '.join(EXCEPTABLE)}")
        if parse_rfc3339(f"{self.until}T23:59:59Z") is None:
            raise ValueError(f"until: found {self.until}, wanted a day such as 2027-02-28")


class ToolsGate(Gate[Tools], frozen=True, kw_only=True, tag="tools"):
    """Which tools an agent may call: contracts that a person signed, against what servers offer and clients are configured with.

    Happens: the allow-list is read, each contract judged whole, and compared with descriptors, with configurations and with
    the base of a change.
    Breaks: a tool that a model widened, a shell behind a tool, a server that nobody named, a description that changed after it
    was approved.
    Looks like: one check a reason, with each tool it met; on a refusal the article's own words, `tool_contract_rejected`.
    Cannot show: that a tool does what it says; what a server answers to another client, or later; what a program that is on
    the list does with good words.
    """

    place: Literal["host", "repository"]
    """`host`: the machine that the agent runs on, with modes, owners and every program; `repository`: what was committed."""
    signers: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Who may stand in `signed_by`: identities of people, as the list of allowed signers has them."""
    privileges: Annotated[dict[str, Literal["reads", "writes"]], msgspec.Meta(min_length=1)]
    """All privileges there are, and whether each reads or writes."""
    max_privileges: Annotated[int, msgspec.Meta(ge=1, le=100)]
    """How many one tool may have."""
    programs: tuple[argv.Program, ...]
    """Every file that may be run or handed to an interpreter, with its digest; for `node` to stand for a path: `called`."""
    urls: tuple[_Text, ...]
    """Servers elsewhere that may be used, each by its whole URL. Empty: none."""
    wire: Literal["pinned", "not compared"]
    """Whether what servers offer has to lie beside the list and match its pins."""
    min_tools: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    """The fewest tools that a list can hold and still be the one that was meant."""
    agent_uids: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] | msgspec.UnsetType = msgspec.UNSET
    """As whom the agent runs; `place: host` needs it."""
    exceptions: tuple[Exemption, ...] = ()

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        if self.place == "host" and (self.agent_uids is msgspec.UNSET or not self.agent_uids):
            raise ValueError(
                "beside `place: host` agent_uids, the numbers of the users that the agent runs as: id -u AGENT"
            )
        for program in self.programs:
            if re.fullmatch(r"(sha256:)?[0-9a-f]{64}", program.sha256) is None:
                raise ValueError(
                    f"programs: {program.path}: found {shown(program.sha256)}, wanted 64 hex digits: "
                    "sha256sum FILE prints them"
                )
        paths = [argv.within(one.path) or one.path for one in self.programs]
        for what in (*paths, *(name for one in self.programs for name in one.called)):
            if (*paths, *(name for one in self.programs for name in one.called)).count(what) > 1:
                raise ValueError(f"programs: found {shown(what)} twice, wanted one program for each path and each name")
        wrong = next(((url, url_wrong(url)) for url in self.urls if url_wrong(url)), None)
        if wrong is not None:
            raise ValueError(f"urls: {shown(wrong[0])}: {wrong[1]}")

    def listed(self) -> argv.Listed:
        return argv.Listed(self.programs)

    def headline(self, evidence: Tools) -> tuple[str, ...]:
        tools, servers = len(evidence.listing.tools), sum(len(servers_of(one)[0]) for one in evidence.configs)
        return (
            f"{tools} contracts, {servers} servers in {len(evidence.configs)} configurations, {_offers(evidence)} tools offered",
        )

    def checks(self, evidence: Tools) -> Iterator[Check]:
        reasons = self._reasons(evidence)
        yield from self._admissions(evidence)
        for id_, title, remedy in JUDGEMENTS:
            hits = [one for one in reasons if one.check == id_ and not self.lets_pass(one)]
            let = sum(one.check == id_ for one in reasons) - len(hits)
            yield _check(id_, title, remedy, hits, evidence, let)
        yield from self._of_the_change(evidence)

    def findings(self, evidence: Tools, checks: tuple[Check, ...]) -> Iterator[Finding]:
        """Say what a person should know beside the verdict."""
        sides = list(dict.fromkeys(self._sides(evidence)))
        for one in sides[:40]:
            yield Finding(
                id=one.id, cause=screen_text(f"{one.subject}: {one.found}"), next=NEXT.get(one.id, "look at it")
            )

    def closing(self, evidence: Tools, verdict: Verdict) -> tuple[str, ...]:
        """Say it in the words of the article's script, a line each."""
        if evidence.listing.missing:
            return ("allowlist_missing",)
        if any(one.id == "allowlist-version" and one.status != "pass" for one in verdict.checks):
            return ("allowlist_version",)
        if verdict.status == "pass":
            return tuple(
                f"schema_hash {screen_text(named(tool))} {article_hash(tool)}" for tool in evidence.listing.tools
            )
        lines = []
        by_tool: dict[str, list[str]] = {}
        for one in self._reasons(evidence):
            if not self.lets_pass(one):
                by_tool.setdefault(one.subject, []).append(one.article or one.check.replace("-", "_"))
        for subject, words in by_tool.items():
            lines.append(screen_text(f"tool_contract_rejected: {subject}: {', '.join(dict.fromkeys(words))}"))
        if any(one.id == "model-patch" and one.status != "pass" for one in verdict.checks):
            lines.append(
                f"model_authored_allowlist_forbidden: {', '.join(screen_text(named(tool)) for tool in evidence.listing.tools)}"
            )
        return tuple(lines)

    # What is wrong

    def _reasons(self, evidence: Tools) -> list[Reason]:
        listing = evidence.listing
        found: list[Reason | Side] = [*self._of_file(evidence)]
        servers = frozenset(str(one.get("name")) for one in listing.servers)
        for tool in listing.tools:
            found += of_tool(tool, self, ours=listing.ours, servers=servers)
        found += _twice(listing)
        found += self._of_listed_servers(listing)
        urls = frozenset(one["url"] for one in listing.servers if isinstance(one.get("url"), str))
        for config in evidence.configs:
            entries, wrong = servers_of(config)
            found += [Reason("unknown-field", config.place, one) for one in wrong]
            for entry in entries:
                found += of_server(entry, self, listing.commands(), urls)
        found += self._of_programs(evidence)
        found += of_new_names(evidence, self.signers)
        found += of_offered(evidence, self)
        found += of_live(evidence)
        return list(dict.fromkeys(one for one in found if isinstance(one, Reason)))

    def _sides(self, evidence: Tools) -> Iterator[Side]:
        for tool in evidence.listing.tools:
            yield from sounds_like_more(tool, self)
        for command in evidence.listing.commands():
            yield from of_literals(command, "a command of the allow-list")
        for config in evidence.configs:
            for entry in servers_of(config)[0]:
                yield from (one for one in of_server(entry, self, [], frozenset()) if isinstance(one, Side))
        if any(program.called for program in self.programs) and any(
            one[0] in program.called for one in evidence.listing.commands() for program in self.programs
        ):
            yield Side(
                "bare-name",
                "the allow-list",
                "a program by its bare name: on the agent's machine PATH decides what it is",
            )
        agents = self.agent_uids if self.agent_uids is not msgspec.UNSET else ()
        for path, fact in evidence.programs.items():
            if self.place == "host" and (fact.uid in agents or any(uid in agents for _, uid in fact.above)):
                yield Side(
                    "agents-program",
                    path,
                    "the agent can change it after it was judged: it, or its folder, is the agent's",
                )
        if self.place == "repository":
            yield Side(
                "not-read", "this machine", "programs outside the repository, modes and owners were not looked at"
            )
        if not evidence.listing.ours:
            yield Side("no-pins", evidence.listing.place, "the article's form has no place for pins of descriptors")

    def _of_file(self, evidence: Tools) -> Iterator[Reason]:
        fact, who = evidence.file, evidence.listing.place
        if fact is None or evidence.listing.missing:
            return
        if fact.kind == "link":
            yield Reason("allowlist-file", who, "a link, which leads where somebody else decides")
        if self.place != "host" or fact.mode is None:
            return
        agents = self.agent_uids if self.agent_uids is not msgspec.UNSET else ()
        if fact.mode & 0o022:
            yield Reason("allowlist-file", who, f"mode {fact.mode & 0o7777:04o}, which lets group or others write")
        if fact.uid in agents:
            yield Reason("allowlist-file", who, f"it belongs to user {fact.uid}, as whom the agent runs")
        for mode, uid in fact.above:
            loose = stat.S_ISDIR(mode) and mode & 0o022 and not mode & stat.S_ISVTX
            if loose or uid in agents:
                yield Reason(
                    "allowlist-file",
                    who,
                    "the agent or all can write a folder on the way to it, and put another one there",
                )
                break
        if evidence.committed and fact.sha256 != evidence.committed:
            yield Reason("allowlist-file", who, "what lies on this machine is not what was committed and signed")

    def _of_listed_servers(self, listing: Listing) -> Iterator[Reason | Side]:
        met: set[str] = set()
        for server in listing.servers:
            name = server.get("name")
            who = f"server {shown(name)}"
            for fault in names.name_faults(name):
                yield Reason("tool-name", who, fault.found)
            if isinstance(name, str):
                if names.look(name) in met:
                    yield Reason("tool-twice", who, "two servers of that name")
                met.add(names.look(name))
            for field in server:
                if field not in ("name", "command", "url", "env", "withheld"):
                    yield Reason("unknown-field", who, f"the field {shown(field)}")
            withheld = server.get("withheld", [])
            if not isinstance(withheld, list) or not all(isinstance(one, str) for one in withheld):
                yield Reason("unknown-field", who, f"withheld {shown(withheld)}, where a list of names is wanted")
            if "url" in server:
                wrong = url_wrong(server["url"])
                if wrong or server["url"] not in self.urls:
                    yield Reason("remote-server", who, wrong or "a URL that the policy does not name")
                if "command" in server:
                    yield Reason("remote-server", who, "a command and a URL")
            else:
                yield from of_command(server.get("command"), who, self)
            yield from of_environment(server.get("env"), who)
            yield from of_words({"withheld": withheld}, who)

    def _of_programs(self, evidence: Tools) -> Iterator[Reason]:
        """Rule 2 of `rules.argv`: a program is the file whose digest was signed."""
        for program in self.programs:
            local = argv.within(program.path) is not None
            if self.place == "repository" and not local:
                continue
            fact = evidence.programs.get(program.path)
            if fact is None or fact.kind == "absent":
                if self._used(program, evidence):
                    yield Reason("program-changed", program.path, "not there")
            elif fact.kind == "other":
                yield Reason("program-changed", program.path, "no regular file")
            elif fact.sha256.removeprefix("sha256:") != program.sha256.removeprefix("sha256:"):
                yield Reason(
                    "program-changed",
                    program.path,
                    f"pinned {program.sha256[-64:][:12]}, found {fact.sha256[-64:][:12]}",
                )
            elif self.place == "host" and fact.mode is not None and fact.mode & 0o022:
                yield Reason(
                    "program-changed", program.path, f"mode {fact.mode & 0o7777:04o}, which lets group or others write"
                )

    def _used(self, program: argv.Program, evidence: Tools) -> bool:
        words = {word for one in evidence.listing.commands() for word in one}
        plain = {argv.within(word) or word for word in words}
        return (argv.within(program.path) or program.path) in plain or bool(words & {*program.called})

    # Admissions

    def _admissions(self, evidence: Tools) -> Iterator[Check]:
        listing, value = evidence.listing, evidence.listing.value
        yield _admit(
            "allowlist-missing",
            "the allow-list is there",
            [listing.missing] if listing.missing else [],
            "drillmaster tools pin SERVER.json > tools.allow.json writes a first one; a lost one is restored as it was signed: "
            "git checkout HEAD -- tools.allow.json",
        )
        version = value.get("version") if isinstance(value, dict) else None
        right = type(version) is int and version == 1
        yield _admit(
            "allowlist-version",
            "the allow-list is of version 1",
            [] if right or listing.missing else [f"version {shown(version)}"],
            'write "version": 1, and the tools as that version has them',
        )
        yield _admit(
            "allowlist-shape",
            "the allow-list has the fields of its form and no others",
            [] if listing.missing else _shape(listing),
            "take out what the form does not have: the article's has version and tools, ours kind, version, servers and tools",
        )
        n = len(listing.tools)
        yield Check(
            id="examined",
            role="admission",
            status="pass" if n >= self.min_tools else "refused",
            title=f"there are tools to judge: {n}, at least {self.min_tools}",
            observed=Exact(n),
            limit=self.min_tools,
            remedy=""
            if n >= self.min_tools
            else "name the list that the agent loads; drillmaster tools pin FILE writes a first one",
        )
        yield _admit(
            "signed",
            {
                "held": f"the allow-list is signed by {', '.join(evidence.signers)}",
                "not demanded": "no signature of the allow-list is asked for: the base knows no signers",
                "refused": "the allow-list is signed by a person of the roster",
            }[evidence.signing],
            [evidence.signing_why or "no signature"] if evidence.signing == "refused" else [],
            f"have a person of the roster who did not write it sign it: drillmaster policy sign {listing.place} --key KEY",
        )
        none = self.wire == "pinned" and listing.ours and not _offers(evidence)
        yield _admit(
            "descriptors",
            f"what servers offer was looked at: {_offers(evidence)} tools",
            ["no descriptor, though the policy has them pinned"] if none else [],
            "give the servers' answers, --offered FILE, or ask one: --live NAME --base origin/main",
        )
        over = [
            f"{one.check} of {one.tool} until {one.until}"
            for one in self.exceptions
            if not 0 <= (parse_rfc3339(f"{one.until}T23:59:59Z") or 0) - evidence.now_ns <= _LONGEST_NS
        ]
        yield _admit(
            "exceptions",
            f"each exception ends, within a year, and none has run out: {len(self.exceptions)} in the policy",
            over,
            "mend what was let pass, drop the exception from the policy, and have it signed again",
        )

    # What is new

    def _of_the_change(self, evidence: Tools) -> Iterator[Check]:
        lane, behind = evidence.lane, vouched(evidence)
        status: Status = "pass"
        why = ""
        if evidence.touched and lane is not None and lane.name != "human":
            # A person's signature is more than a lane; but a lane that is known to be free writes neither file.
            status = "fail" if lane.name == "free" else "pass" if evidence.signing == "held" else "refused"
            why = "" if status == "pass" else f"{lane.name} lane ({lane.by}) touches {', '.join(evidence.touched)}"
        yield Check(
            id="model-patch",
            role="judgement",
            status=status,
            title="no free lane touches the allow-list or a client's configuration",
            why=why,
            cites=tuple(Cite(path, 0) for path in evidence.touched),
            remedy=""
            if status == "pass"
            else "merge .drillmaster/roster.yaml first, in a change without these files"
            if lane is not None and lane.by == NO_ROSTER
            else "have a person make this change, from an account on the roster, and sign it",
        )
        new = changes(evidence)
        for id_, title in NEW:
            hits = new[id_]
            bad = bool(hits) and not behind and bool(evidence.before and not evidence.before.missing)
            yield Check(
                id=id_,
                role="judgement",
                status="fail" if bad else "pass",
                title=title,
                why=_told(hits),
                remedy="have a person of the roster sign the allow-list: drillmaster policy sign FILE --key KEY"
                if bad
                else "",
            )
        more = expansions(evidence, self)
        people = len(set(evidence.signers))
        enough = not more or people >= 2
        yield Check(
            id="privilege-expansion",
            role="judgement",
            status="pass" if enough else "refused" if evidence.signing == "not demanded" else "fail",
            title="a privilege more is signed by two people",
            observed=Exact(people),
            limit=2,
            why=_told(more) + ("" if enough else f"; signed by {', '.join(evidence.signers) or 'nobody'}"),
            remedy=""
            if enough
            else "have a second person sign the same bytes: drillmaster policy sign FILE --key KEY --as second"
            if evidence.signing != "not demanded"
            else "put .drillmaster/allowed_signers on the base first: without it nobody's signature can be told",
        )

    def lets_pass(self, reason: Reason) -> bool:
        """Whether an exception of the policy is for this."""
        tool = reason.subject.rpartition(": ")[2]
        return any(one.check == reason.check and one.tool in (reason.subject, tool) for one in self.exceptions)


def _offers(evidence: Tools) -> int:
    return len(evidence.offered) + (len(evidence.live.tools) if evidence.live is not None else 0)


def _told(hits: list[Reason]) -> str:
    told = [screen_text(f"{one.subject}: {one.found}") for one in hits]
    return "; ".join(told[:_SHOWN]) + (f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else "")


def _cites(hits: list[Reason], evidence: Tools) -> tuple[Cite, ...]:
    """Cite the files that hold what was found: a client's configuration where it is of one, else the list."""
    places = [one.place for one in evidence.configs]
    found = dict.fromkeys(
        next((place for place in places if one.subject.startswith(f"{place}: ")), evidence.listing.place)
        for one in hits
    )
    return tuple(Cite(place, 0) for place in found if place)


def _check(id_: str, title: str, remedy: str, hits: list[Reason], evidence: Tools, let: int) -> Check:
    role: Role = "judgement"
    return Check(
        id=id_,
        role=role,
        status="fail" if hits else "pass",
        title=title + (f" ({let} let pass by the policy's exceptions)" if let else ""),
        observed=Exact(len(hits)),
        why=_told(hits),
        cites=_cites(hits, evidence),
        remedy=remedy if hits else "",
    )


def _admit(id_: str, title: str, wrong: list[str], remedy: str) -> Check:
    return Check(
        id=id_,
        role="admission",
        status="refused" if wrong else "pass",
        title=title,
        why="; ".join(wrong),
        remedy=remedy if wrong else "",
    )


def _shape(listing: Listing) -> list[str]:
    value = listing.value
    if not isinstance(value, dict):
        return [f"{shown(value)}, where an object is wanted"]
    wrong = []
    known = {"version", "tools", *(("kind", "servers") if listing.ours else ())}
    if listing.ours and value["kind"] != KIND:
        wrong.append(f"kind {shown(value['kind'])}, wanted {KIND}")
    wrong += [f"the field {shown(name)}" for name in value if name not in known]
    for field in ("tools", *(("servers",) if "servers" in value else ())):
        said = value.get(field)
        if not isinstance(said, list):
            wrong.append(f"{field} {shown(said)}, where a list is wanted" if field in value else f"no {field}")
            continue
        wrong += [
            f"/{field}/{at}: {shown(one)}, where an object is wanted"
            for at, one in enumerate(said)
            if not isinstance(one, dict)
        ]
    return wrong


def _twice(listing: Listing) -> Iterator[Reason]:
    met: dict[tuple[str, str], str] = {}
    for tool in listing.tools:
        if not isinstance(tool.get("name"), str):
            continue
        key = (str(tool.get("server", "")) if listing.ours else "", names.look(named(tool)))
        if key in met:
            same = met[key] == named(tool)
            yield Reason("tool-twice", named(tool), "a second time" if same else f"it looks like {shown(met[key])}")
        met.setdefault(key, named(tool))


gate = ToolsGate
