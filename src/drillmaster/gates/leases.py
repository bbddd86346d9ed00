"""The leases gate: does the lab hold nothing of production's locks, can it not reach them, and do prompts not speak of holding?

1. A lab host says of itself which names its environment has and how its packets leave; values are never read. It is believed for
   a while, under its own name, and no packet is ever sent to find out.
2. A name of a lock's credential is a finding in the host's environment and in the image's, whatever its value is.
3. A route to a production lock host is the row of the routing table by which packets leave, in any table. Whether the default
   route counts the policy says. A lock host on a network that the lab is on is one more finding.
4. Prompts hold no fencing token and no verb of holding; the lock client's own code does, and is where it is looked for to show
   that the search finds any.
5. A path that is not there, a file that cannot be read, an environment without names: refused, since nothing was looked at.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._leases_evidence import (
    Environment,
    Hit,
    Image,
    Lab,
    Path,
    Route,
    network,
    way_to,
)
from drillmaster.gates._leases_evidence import Leases as Evidence
from drillmaster.gates._leases_words import lock_word
from drillmaster.policy import seconds_text
from drillmaster.verdict import Check, Cite, Exact, Status, at_most, looked_at

__all__ = ["Environment", "Evidence", "Exempt", "Hit", "Image", "Lab", "Leases", "Path", "Route", "gate"]

MAX_SKEW_S = 60.0
_MOST = 6
_NEW = "drillmaster evidence new lease-lab --out lease-lab.json"
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
_Below = Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"\A[^/]")]
_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class Exempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of prompts that may speak of holding: which, until which day, and why."""

    path: _Below
    until: str
    why: _Text

    def __post_init__(self) -> None:
        if parse_rfc3339(f"{self.until}T23:59:59Z") is None:
            raise ValueError(f"until: found {self.until}, wanted a day such as 2027-02-28")

    def holds(self, now_ns: int) -> bool:
        return now_ns <= (parse_rfc3339(f"{self.until}T23:59:59Z") or 0)


class Leases(Gate[Evidence], frozen=True, kw_only=True, tag="leases"):
    """Whether a lab and its prompts are apart from production's locks.

    Happens: a free host runs a harness, a free model drafts its tests, and a lock service holds production's leases.
    Breaks: a lab with a lock's credential or a route to it; prompts that hand out tokens or ask to renew.
    Looks like: names, and never values; the row of the routing table; the line of the prompt, and never its text.
    Cannot show: a credential under a name that says nothing; a firewall; another process's environment; a paraphrase; what the
    lab host did not tell of itself.

    The evidence is `kind: lease-lab`, which `drillmaster evidence new lease-lab` writes on the lab host, with the image as `docker
    inspect` has it, and the repository's own paths.
    """

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    lab_hosts: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Names of the hosts that may be judged, as they call themselves."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
    min_names: _Count
    """The fewest names that an environment has which was really read."""
    allow_names: tuple[_Text, ...]
    """Names that are found and are no lock's credential: each whole."""
    lock_names: tuple[_Text, ...]
    """Patterns of further names that are production's: `PROD_REDIS_*`."""
    image: Literal["inspected", "dockerfile", "none"]
    """What there has to be of the lab's image: `docker inspect`, or its Dockerfile at least; `none`: the lab is no container."""
    lock_hosts: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Addresses and networks of production's locks: `10.20.0.0/24`. A name would have to be asked for."""
    default_route: Literal["counts", "does not count"]
    """Whether a way by the default route is a way to them. A firewall behind it is a claim."""
    tables: Literal["main", "all"]
    """Which routing tables have to be read: `all` needs `ip` on the host; tunnels have tables of their own."""
    lock_paths: Annotated[tuple[_Below, ...], msgspec.Meta(min_length=1)]
    """Where the lock client's code lies, from the root of the repository: `app/locks`."""
    prompt_paths: Annotated[tuple[_Below, ...], msgspec.Meta(min_length=1)]
    """Where prompts lie: `app/prompts`."""
    exceptions: tuple[Exempt, ...] = ()

    def __post_init__(self) -> None:
        wrong = next((one for one in self.lock_hosts if network(one) is None), None)
        if wrong is not None:
            raise ValueError(
                f"lock_hosts: found {wrong[:60]!r}, wanted an address or a network: a name says nothing to a routing table"
            )
        both = {one.strip("/") for one in self.lock_paths} & {one.strip("/") for one in self.prompt_paths}
        if both:
            raise ValueError(
                f"prompt_paths: found {sorted(both)[0]!r}, which is one of lock_paths: the split is the review"
            )
        out = next((one for one in (*self.lock_paths, *self.prompt_paths) if ".." in one.split("/")), None)
        if out is not None:
            raise ValueError(f"paths: found {out!r}, wanted one below the root of the repository")

    def checks(self, evidence: Evidence) -> Iterator[Check]:
        lab = evidence.lab
        yield self._subject(lab)
        yield self._fresh(evidence)
        yield self._environment_read(lab)
        if self.image != "none":
            yield self._images_read(evidence.images)
        yield self._routes_read(lab)
        yield _paths_read(evidence.paths)
        yield _lock_client(evidence.paths)
        yield self._exceptions(evidence)
        yield self._names("lab-names", "the lab's environment", [(one.of, one.names) for one in lab.environments])
        if self.image != "none":
            yield self._names("image-names", "the lab's image", [(one.place, one.names) for one in evidence.images])
        yield self._route(lab)
        yield self._shared(lab)
        yield self._prompts(evidence, "token", "prompt-tokens", "no prompt names a fencing token or a lease's deadline")
        yield self._prompts(
            evidence, "verb", "prompt-verbs", "no prompt speaks of renewing, stealing, extending, releasing"
        )

    def headline(self, evidence: Evidence) -> tuple[str, ...]:
        lab = evidence.lab
        names = sum(len(one.names) for one in lab.environments)
        files = sum(one.files for one in evidence.paths if one.role == "prompts")
        return (
            f"{lab.host}: {names:,} names, {len(lab.routes):,} routes, {len(evidence.images)} images; {files:,} files of prompts",
        )

    def _subject(self, lab: Lab) -> Check:
        return looked_at(
            "subject",
            "pass" if lab.host in self.lab_hosts else "refused",
            f"the evidence is of a lab host of the policy: {lab.host[:80]}",
            role="admission",
            why=f"the policy has {', '.join(self.lab_hosts[:_MOST])}",
            remedy=f"on the lab host: {_NEW}",
        )

    def _fresh(self, seen: Evidence) -> Check:
        age_s = (seen.now_ns - seen.lab.produced_ns) / 1e9
        ok = age_s >= -MAX_SKEW_S and at_most(Exact(age_s), self.max_age_s) == "pass"
        return looked_at(
            "fresh",
            "pass" if ok else "refused",
            f"the host was looked at in the last {seconds_text(self.max_age_s)}",
            role="admission",
            observed=Exact(age_s),
            limit=self.max_age_s,
            unit="s",
            why=f"it was at {rfc3339(seen.lab.produced_ns, digits=0)}",
            remedy=f"on the lab host: {_NEW}",
        )

    def _environment_read(self, lab: Lab) -> Check:
        least = min((len(one.names) for one in lab.environments), default=0)
        return looked_at(
            "environment-read",
            "pass" if least >= self.min_names else "refused",
            f"each environment has {self.min_names:,} names or more: {least:,}",
            role="admission",
            observed=Exact(least),
            limit=self.min_names,
            why="an environment with so few was emptied before it was looked at, or is none",
            remedy=f"as the harness runs, in its own shell or with --pid: {_NEW}",
        )

    def _images_read(self, images: tuple[Image, ...]) -> Check:
        fit = [one for one in images if one.kind == "inspected" or self.image == "dockerfile"]
        return looked_at(
            "images-read",
            "pass" if fit else "refused",
            "the lab's image was looked at"
            + (", as it was inspected" if self.image == "inspected" else ", or its Dockerfile"),
            role="admission",
            observed=Exact(len(fit)),
            limit=1,
            why="a Dockerfile has not what its base brings" if images else "nobody named it",
            remedy="docker image inspect IMAGE > image.json, and --image image.json",
        )

    def _routes_read(self, lab: Lab) -> Check:
        ok = lab.tables == "all" or (lab.tables == "main" and self.tables == "main")
        return looked_at(
            "routes-read",
            "pass" if ok else "refused",
            "the host's routing table was read"
            if self.tables == "main"
            else "all routing tables of the host were read",
            role="admission",
            observed=Exact(len(lab.routes)),
            why="only the main one was" if lab.tables == "main" else "it was not",
            remedy=f"on the lab host, with iproute2 installed: {_NEW}",
        )

    def _exceptions(self, seen: Evidence) -> Check:
        over = [one.path for one in self.exceptions if not one.holds(seen.now_ns)]
        files = {hit.file for path in seen.paths for hit in path.hits if path.role == "prompts"}
        idle = [one.path for one in self.exceptions if one.path not in files]
        said = [f"{one} has run out" for one in over] + [f"{one} lets nothing pass" for one in idle if one not in over]
        return looked_at(
            "exceptions",
            "refused" if said else "pass",
            f"{len(self.exceptions)} exceptions, each of one file, dated, with a reason",
            role="admission",
            observed=Exact(len(self.exceptions)),
            why="; ".join(said[:_MOST]),
            remedy="mend the prompt, and have the policy's owner drop or renew the exception",
        )

    def _names(self, id: str, whose: str, places: list[tuple[str, tuple[str, ...]]]) -> Check:
        allowed = frozenset(self.allow_names)
        hits = [
            (place, name, word)
            for place, names in places
            for name in names
            if name not in allowed and (word := lock_word(name, more=self.lock_names))
        ]
        n = sum(len(names) for _, names in places)
        status: Status = "fail" if hits else "pass" if n else "refused"
        return looked_at(
            id,
            status,
            f"{whose} holds no name of a lock's credential: {n:,} names, {len(allowed)} allowed",
            observed=Exact(len(hits), n=n),
            limit=0,
            why=_listed(f"{name[:80]} ({place[:80]})" for place, name, _ in hits) if n else "there is no name",
            remedy=f"on the lab host: {_NEW}",
        )

    def _ways(self, lab: Lab) -> list[tuple[str, Route]]:
        counts = self.default_route == "counts"
        return [
            (host, route)
            for host in self.lock_hosts
            if (target := network(host)) is not None
            for route in way_to(target, lab.routes, default_counts=counts)
        ]

    def _route(self, lab: Lab) -> Check:
        ways = self._ways(lab)
        default = "the default route counts" if self.default_route == "counts" else "the default route does not count"
        return looked_at(
            "lock-route",
            "refused" if lab.tables == "none" else "fail" if ways else "pass",
            f"the lab has no way to {len(self.lock_hosts)} production lock hosts; {default}",
            observed=Exact(len(ways)),
            limit=0,
            why=_listed(f"{host} by {_row(route)}" for host, route in ways)
            + "; take the route out, or: ip route add blackhole NETWORK, in each of these tables"
            if lab.tables != "none"
            else "its routing table was not read",
            remedy=f"on the lab host: {_NEW}",
        )

    def _shared(self, lab: Lab) -> Check:
        on_link = [
            (host, route) for host, route in self._ways(lab) if not route.via and route.to not in ("0.0.0.0/0", "::/0")
        ]
        return looked_at(
            "shared-network",
            "refused" if lab.tables == "none" else "fail" if on_link else "pass",
            "the lab is on no network that a production lock host is on",
            observed=Exact(len(on_link)),
            limit=0,
            why=_listed(f"{host} is on {_row(route)}" for host, route in on_link)
            if lab.tables != "none"
            else "its routing table was not read",
            remedy=f"on the lab host: {_NEW}",
        )

    def _prompts(self, seen: Evidence, kind: str, id: str, title: str) -> Check:
        exempt = {one.path for one in self.exceptions if one.holds(seen.now_ns)} if kind == "verb" else set()
        prompts = [one for one in seen.paths if one.role == "prompts"]
        hits = [hit for path in prompts for hit in path.hits if hit.kind == kind]
        left = [hit for hit in hits if hit.file not in exempt]
        files = sum(one.files for one in prompts)
        status: Status = "fail" if left else "pass" if files else "refused"
        return looked_at(
            id,
            status,
            f"{title}: {files:,} files" + (f", {len(hits) - len(left)} lines excepted" if exempt else ""),
            observed=Exact(len(left), n=files),
            limit=0,
            why=_listed(f"{hit.file}:{hit.line} {hit.word}" for hit in left) if files else "there is no file",
            remedy="name where prompts lie: prompt_paths",
            cites=tuple(Cite(hit.file, hit.line) for hit in left[:20]),
        )


def _paths_read(paths: tuple[Path, ...]) -> Check:
    wrong = [f"{one.path}: {one.missing}" for one in paths if one.missing]
    wrong += [f"{one.path}: no file in it" for one in paths if not one.missing and not one.files]
    unread = [file for one in paths for file in one.unread]
    wrong += [f"{file} could not be read as text" for file in unread]
    return looked_at(
        "paths-read",
        "refused" if wrong or not paths else "pass",
        f"every path of the policy is there and every file in it was read: {sum(one.files for one in paths):,}",
        role="admission",
        observed=Exact(sum(one.files for one in paths)),
        limit=1,
        why=_listed(wrong) if wrong else "the policy has none",
        remedy="name the folders that there are (lock_paths, prompt_paths): a search of nothing finds nothing",
        cites=tuple(Cite(file, 0) for file in unread[:20]),
    )


def _lock_client(paths: tuple[Path, ...]) -> Check:
    n = sum(hit.kind == "verb" for one in paths if one.role == "locks" for hit in one.hits)
    return looked_at(
        "lock-client",
        "pass" if n else "refused",
        f"the lock client's code is where the policy says: {n:,} lines of it renew, extend or release",
        role="admission",
        observed=Exact(n),
        limit=1,
        why="a search that does not find it there finds it nowhere",
        remedy="name where the lock client lies: lock_paths",
    )


def _row(route: Route) -> str:
    how = f"via {route.via}" if route.via else "on the link"
    table = "" if route.table == "main" else f" of table {route.table}"
    return f"{route.to} {how}{f' ({route.dev})' if route.dev else ''}{table}"


def _listed(what: Iterable[str]) -> str:
    items = list(what)
    return ", ".join(items[:_MOST]) + (f" and {len(items) - _MOST} more" if len(items) > _MOST else "")


gate = Leases
