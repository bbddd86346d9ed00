"""A collector's numbers on a canary from a file, and the limits they are held to: ours, and the article's two as they are.

1. Ours begins with `kind: canary-metrics` and says of what service and build it is, who collected it, when, over which window.
   The article's has no kind, and says less. Which one it is is never guessed from the numbers.
2. A field that offers a verdict (`verdict`, `decision`, `promote`, whatever it is written in) is taken out and told to the
   gate, which says no by it. Every other unknown field is refused.
3. The article's limits are pinned by `FILE.pin.yaml` beside them; without it the verdict is stamped UNPINNED. What its
   format has no field for is stamped too: AGE NOT JUDGED, BUILD NOT BOUND.
4. Attempts are counted by the build; of the article's metrics, which name none, by the limits: a file has any name.
5. Whose exception counts: those whose signatures under the policy held, by the lists of the base ref.
"""

import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import Gate
from drillmaster.gates._canary_exceptions import DIGEST
from drillmaster.gates.canary import Arm, Canary, CanaryArticle, CanaryMetrics
from drillmaster.intake import format_of, is_there, read_bytes
from drillmaster.intake.judging import Asked, Gathered, PolicyRead
from drillmaster.intake.pins import SUFFIX, pin_beside, pin_of
from drillmaster.judge import decode_gate, load_policy
from drillmaster.policy import Pin

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["CanaryFile", "CanaryIntake", "Envelope", "artifact_of", "open_metrics"]

_CAP_BYTES = 1 << 20
_NEW = "drillmaster evidence new canary --prometheus URL --service NAME --artifact sha256:... --out canary-metrics.json"
_AT_COMMIT = re.compile(r"(?s)(.+) at ([0-9a-f]{12})")

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Millis = Annotated[float, msgspec.Meta(ge=0.001, le=86_400_000)]  # no service answers within a microsecond
_Burn = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Digest = Annotated[str, msgspec.Meta(pattern=DIGEST)]

# fmt: off  # words, a line at a time
_OFFERS = frozenset(
    {
        "verdict",
        "verdicts",
        "decision",
        "decide",
        "decided",
        "promote",
        "promoted",
        "promotion",
        "promotable",
        "approve",
        "approved",
        "approves",
        "approval",
        "lgtm",
        "recommend",
        "recommended",
        "recommendation",
        "judge",
        "judgement",
        "judgment",
        "opinion",
        "conclusion",
        "rollback",
        "proceed",
        "ship",
        "shipit",
        "llm",
        "gpt",
        "chatgpt",
        "model",
        "assistant",
        "chat",
        "transcript",
        "completion",
        "reasoning",
        "rationale",
    }
)
# fmt: on  # back to the house's own


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Counted(_Part, frozen=True, kw_only=True):
    """What was counted of one build."""

    requests: _Count
    errors: _Count
    p95_ms: _Millis
    healthy_hosts: _Count
    slo_burn: _Burn | msgspec.UnsetType = msgspec.UNSET
    artifact: _Digest | msgspec.UnsetType = msgspec.UNSET
    """Digest of the build; of the canary it stands in `subject`."""


class Subject(_Part, frozen=True, kw_only=True):
    """What the numbers are of."""

    service: str
    artifact: _Digest
    """Digest of the canary's build: `sha256:` and 64 hex digits."""


class Producer(_Part, frozen=True, kw_only=True):
    """Who counted, and who asked."""

    collector: str
    host: str
    """Where it was asked, without user info and query."""
    by: str
    """Program and version that asked."""


class Window(_Part, frozen=True, kw_only=True):
    """RFC 3339 with a zone."""

    start: str
    end: str


class Query(_Part, frozen=True, kw_only=True):
    """One question to the collector, and what it answered, whole."""

    query: str
    at: str
    value: dict[str, str]
    """By what the answer was of."""


class Data(_Part, frozen=True, kw_only=True):
    """The numbers. `coverage_ratio` is the share of the window in which the collector had samples of the canary's hosts."""

    canary: Counted
    baseline: Counted | None = None
    coverage_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)]
    queries: tuple[Query, ...] = ()


class Envelope(_Part, frozen=True, kw_only=True):
    """`kind: canary-metrics`, as `drillmaster evidence new canary` writes it."""

    kind: Literal["canary-metrics"]
    version: Literal[1]
    subject: Subject
    produced_by: Producer
    produced_at: str
    window: Window
    data: Data


class _ArticleMetrics(_Part, frozen=True, kw_only=True):
    requests: _Count
    errors: _Count
    p95_ms: _Millis
    slo_burn: _Burn
    healthy_hosts: _Count
    window_seconds: Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
    source: str
    collected_at: str


class CanaryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A metrics file, read. `ours`: it has a kind, and says of which build it is."""

    metrics: CanaryMetrics
    ours: bool
    subject: str
    digest: str


def artifact_of(text: str) -> str:
    """Read a build's digest from a command line. Raises Problem."""
    if re.search(DIGEST, text) is None:
        raise Problem(
            "--artifact",
            found=strict.shown(text),
            wanted="sha256: and 64 hex digits in lower case, as a registry or sha256sum gives them",
            remedy="write --artifact sha256:... ; a tag can be moved to another build",
        )
    return text


def open_metrics(path: Path, *, now_ns: int, artifact: str | None = None, offered: str | None = None) -> CanaryFile:
    """Read a metrics file, ours or the article's. `offered` is what was given for a model's verdict. Raises Problem."""
    place = str(path)
    if not is_there(path):
        raise Problem(
            place,
            found="no such file",
            wanted="what a collector counted",
            remedy="drillmaster evidence new canary --prometheus URL --service NAME --artifact sha256:... "
            f"--out {shlex.quote(place)}",
        )
    raw = read_bytes(path, _CAP_BYTES)
    try:
        loaded = strict.load(raw, place=place, fmt=format_of(place))
    except Problem as problem:
        raise Problem(
            problem.place,
            found=problem.found,
            wanted=f"{problem.wanted}: metrics that a collector exported",
            remedy=f"{problem.remedy}; or collect them: {_NEW}",
        ) from None
    if not isinstance(loaded, dict):
        raise Problem(place, found=strict.shown(loaded), wanted="an object of metrics", remedy=_NEW)
    other = _of_another_program(loaded)
    if other:
        raise Problem(place, found=other, wanted="what a collector counted of the canary, in one file", remedy=_NEW)
    offers = [] if offered is None or not offered.strip() else ["--model-verdict"]
    offers += _taken_out(loaded, "")
    kind = loaded.get("kind")
    if "kind" in loaded and kind != "canary-metrics":
        raise Problem(
            f"{place}: /kind", found=strict.shown(kind), wanted='"canary-metrics"', remedy="name a metrics file"
        )
    told = {"now_ns": now_ns, "wanted_artifact": artifact, "offered": tuple(offers)}
    if "kind" in loaded:
        metrics, subject = _ours(loaded, place, told)
    else:
        metrics, subject = _article(loaded, place, told), path.name
    return CanaryFile(metrics=metrics, ours="kind" in loaded, subject=subject, digest=strict.digest_bytes(raw))


_OTHERS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"status", "data"}), "an answer of Prometheus, to one question"),
    (frozenset({"judgeName", "results", "score"}), "a judgement of Kayenta, which is another's opinion"),
    (frozenset({"apiVersion", "kind", "status"}), "an object of a cluster, with a controller's opinion in it"),
    (frozenset({"apiVersion", "kind", "spec"}), "an object of a cluster, which counts nothing"),
    (frozenset({"metrics", "root_group"}), "a summary of k6, which counts what it sent itself"),
    (frozenset({"series", "status"}), "an answer of Datadog, to one question"),
    (frozenset({"MetricDataResults"}), "an answer of CloudWatch, to some questions"),
    (frozenset({"resourceMetrics"}), "metrics as OpenTelemetry sends them, not counted together"),
)


def _of_another_program(loaded: dict[str, Any]) -> str:
    """Say what a file of another program is, by names that ours never has; "" where it is none."""
    if loaded.get("kind") == "canary-metrics":
        return ""
    return next((said for names, said in _OTHERS if names <= loaded.keys()), "")


def _taken_out(value: Any, at: str) -> Iterator[str]:
    """Take every field that offers a verdict out of a loaded value; give where each stood."""
    if isinstance(value, dict):
        for name in list(value):
            where = f"{at}/{strict.pointer((name,)).removeprefix('/')}"
            words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
            if not _OFFERS.isdisjoint([*words, "".join(words)]):
                del value[name]
                yield where
            else:
                yield from _taken_out(value[name], where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _taken_out(inner, f"{at}/{index}")


def _time(text: str, place: str, pointer: str) -> int:
    found = parse_rfc3339(text)
    if found is None:
        raise Problem(
            f"{place}: {pointer}",
            found=strict.shown(text),
            wanted="RFC 3339 with a zone, such as 2026-11-30T16:00:00Z",
            remedy=f"have the collector write when it counted; or: {_NEW}",
        )
    return found


def _ours(loaded: dict[str, Any], place: str, told: dict[str, Any]) -> tuple[CanaryMetrics, str]:
    file = strict.as_type(loaded, Envelope, place=place)
    start_ns = _time(file.window.start, place, "/window/start")
    end_ns = _time(file.window.end, place, "/window/end")
    if end_ns <= start_ns:
        raise Problem(
            f"{place}: /window",
            found=f"an end at {file.window.end} and a start at {file.window.start}",
            wanted="a window that ends after it starts",
            remedy=_NEW,
        )
    own = file.data.canary.artifact
    if own is not msgspec.UNSET and own != file.subject.artifact:
        raise Problem(
            f"{place}: /data/canary/artifact",
            found=f"{own[:19]}, and the subject is {file.subject.artifact[:19]}",
            wanted="one build",
            remedy=_NEW,
        )
    base = file.data.baseline
    if base is not None and base.artifact is msgspec.UNSET:
        raise Problem(
            f"{place}: /data/baseline/artifact", found="nothing", wanted="the digest of its build", remedy=_NEW
        )
    metrics = CanaryMetrics(
        source=file.produced_by.collector,
        canary=_arm(file.data.canary, file.subject.artifact),
        baseline=None if base is None else _arm(base, str(base.artifact)),
        window_s=(end_ns - start_ns) / 1e9,
        ended_ns=end_ns,
        produced_ns=_time(file.produced_at, place, "/produced_at"),
        coverage_ratio=file.data.coverage_ratio,
        service=file.subject.service,
        **told,
    )
    return metrics, f"{file.subject.service} {file.subject.artifact}"


def _arm(counted: Counted, artifact: str) -> Arm:
    return Arm(
        requests=counted.requests,
        errors=counted.errors,
        p95_ms=counted.p95_ms,
        healthy_hosts=counted.healthy_hosts,
        slo_burn=None if counted.slo_burn is msgspec.UNSET else counted.slo_burn,
        artifact=artifact,
    )


def _article(loaded: dict[str, Any], place: str, told: dict[str, Any]) -> CanaryMetrics:
    file = strict.as_type(loaded, _ArticleMetrics, place=place)
    return CanaryMetrics(
        source=file.source,
        canary=Arm(
            requests=file.requests,
            errors=file.errors,
            p95_ms=file.p95_ms,
            healthy_hosts=file.healthy_hosts,
            slo_burn=file.slo_burn,
        ),
        window_s=file.window_seconds,
        produced_ns=_time(file.collected_at, place, "/collected_at"),
        **told,
    )


class CanaryIntake:
    """What `intake.judging` asks for: a reader of policies, which keeps what it read, and what gathers the evidence."""

    def __init__(self, path: Path, *, artifact: str | None, offered: str | None, repo: Path) -> None:
        self._path = path
        self._artifact = artifact
        self._offered = offered
        self._repo = repo
        self._policy: tuple[bytes, str] = (b"", "")

    def read(self, data: bytes, place: str, fmt: strict.Format) -> PolicyRead:
        """Decode a policy, ours or the article's. Raises Problem."""
        self._policy = data, place
        loaded = strict.load(data, place=place, fmt=fmt)
        if isinstance(loaded, dict) and "kind" in loaded:
            policy, digest = load_policy(data, place=place, fmt=fmt)
            most = None if policy.max_attempts is msgspec.UNSET else policy.max_attempts
            return PolicyRead(decode_gate(policy, "canary", place=place), policy.pin, digest, place, most)
        if not isinstance(loaded, dict) or "min_requests" not in loaded:
            raise Problem(
                place,
                found="no min_requests" if isinstance(loaded, dict) else strict.shown(loaded),
                wanted="a policy of ours (`kind: policy`), or the article's policy.json",
                remedy="add min_requests; a limit that is not written judges nothing",
            )
        if "gate" in loaded:
            raise Problem(
                f"{place}: /gate", found="a gate without kind", wanted="kind: policy", remedy="add kind: policy"
            )
        limits: CanaryArticle = strict.as_type({"gate": "canary", **loaded}, CanaryArticle, place=place)
        return PolicyRead(limits, self._pin(data, place), strict.digest(loaded), place, limits_from=Path(place).name)

    def gather(self, gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
        """Read the evidence for a gate. Raises Problem."""
        file = open_metrics(self._path, now_ns=asked.now_ns, artifact=self._artifact, offered=self._offered)
        metrics = file.metrics
        stamps: tuple[str, ...] = ()
        counts = {"requests": metrics.canary.requests, "errors": metrics.canary.errors}
        if isinstance(gate, Canary):
            if not file.ours:
                raise Problem(
                    str(self._path),
                    found="metrics that do not say of which build they are",
                    wanted="kind: canary-metrics, for a policy that binds a build",
                    remedy=_NEW,
                )
            if gate.exceptions:
                metrics = msgspec.structs.replace(metrics, signers=self._signers(authority))
            excepted = gate.excepted(metrics)
            counts["exceptions"] = len(excepted)
            stamps = tuple(f"EXCEPTION {check}" for check in excepted)
        else:
            stamps = ("AGE NOT JUDGED", *(() if self._artifact is not None and file.ours else ("BUILD NOT BOUND",)))
        return Gathered(
            evidence=metrics,
            subject=file.subject,
            attempts_by="" if file.ours else f"limits {strict.digest(msgspec.to_builtins(gate))}",
            digest=file.digest,
            counts=counts,
            end_ns=metrics.produced_ns,
            stamps=stamps,
        )

    def _pin(self, data: bytes, place: str) -> Pin | None:
        at = _AT_COMMIT.fullmatch(place)
        if at is None:
            return pin_beside(Path(place), data)
        from drillmaster.intake.git import Repository

        repo = Repository.at(self._repo)
        found = repo.read(repo.commit(at[2]), at[1] + SUFFIX, cap_bytes=1 << 16)
        return None if found is None else pin_of(found, data, place=f"{at[1]}{SUFFIX} at {at[2]}", name=at[1])

    def _signers(self, authority: "Authority | None") -> tuple[str, ...]:
        """Identities of those who signed the policy that was read; none where nobody can tell, or one signature is nobody's."""
        if authority is None or authority.allowed is None:
            return ()
        data, place = self._policy
        at = _AT_COMMIT.fullmatch(place)
        try:
            if at is not None:
                name, signatures = at[1], authority.signatures(authority.repo.commit(at[2]), at[1])
            else:
                path = Path(place)
                name = path.name
                beside = sorted(path.parent.glob(f"{glob.escape(path.name)}.*sig"))
                signatures = tuple(read_bytes(one, 1 << 16) for one in beside)
            return tuple(one.identity for one in authority.people_who_signed(name, data, signatures))
        except Problem:
            return ()
