"""A lab host as it says of itself (`kind: lease-lab`): written on the host, read where it is judged.

1. Of an environment its names are kept and never a value; a name with `=` in it is refused, since a value stands behind it.
2. Routing tables are read, from the kernel, and nothing is sent anywhere: no name is resolved and no host is asked.
3. The file is dated and says of which host it is. Both are the host's own word.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import Gate
from drillmaster.gates._leases_evidence import Environment, Lab, Route, network
from drillmaster.gates._leases_evidence import Leases as Evidence
from drillmaster.gates.leases import Leases
from drillmaster.intake import format_of, read_bytes
from drillmaster.intake.git import ask
from drillmaster.intake.image_environment import open_image
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.intake.lease_paths import committed, lying
from drillmaster.intake.routes import of_ip, of_proc_ipv4, of_proc_ipv6
from drillmaster.strict import shown

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["LabFile", "LabIntake", "environment_of", "lab_file", "open_lab", "routes_here"]

_CAP_BYTES = 16 << 20
_NEW = "drillmaster evidence new lease-lab --out lease-lab.json"
_ENVIRON_CAP_BYTES = 4 << 20

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"\A[^=\x00]+\Z")]
_Word = Annotated[str, msgspec.Meta(max_length=300)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Subject(_Part, frozen=True, kw_only=True):
    """Of which host it is, by its own name."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class Producer(_Part, frozen=True, kw_only=True):
    """Program and version, and the revision that the host's working folder had; "": it was none of a repository."""

    by: _Word
    revision: Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})?\Z")]


class Names(_Part, frozen=True, kw_only=True):
    """Names of one process's environment."""

    of: _Word
    names: tuple[_Name, ...]


class Row(_Part, frozen=True, kw_only=True):
    """One row of a routing table."""

    to: _Word
    via: _Word
    dev: _Word
    metric: Annotated[int, msgspec.Meta(ge=0, le=2**32)]
    rejects: bool
    table: _Word


class Data(_Part, frozen=True, kw_only=True):
    """What was looked at. `tables`: which routing tables were read."""

    environments: Annotated[tuple[Names, ...], msgspec.Meta(min_length=1)]
    tables: Literal["main", "all", "none"]
    routes: tuple[Row, ...]


class LabFile(_Part, frozen=True, kw_only=True):
    """`kind: lease-lab`, as `drillmaster evidence new lease-lab` writes it."""

    kind: Literal["lease-lab"]
    version: Literal[1]
    subject: Subject
    produced_by: Producer
    produced_at: str
    data: Data


class LabIntake:
    """What `intake.judging` asks for: what gathers the evidence."""

    def __init__(self, lab: Path, images: Sequence[Path]) -> None:
        self._lab = lab
        self._images = tuple(images)

    def gather(self, gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
        """Read the evidence for a gate. Raises Problem."""
        assert isinstance(gate, Leases)
        lab, lab_digest = open_lab(self._lab)
        images = [open_image(path) for path in self._images]
        if authority is not None and authority.head is not None:
            paths = committed(gate, authority.repo, authority.head)
        else:
            paths = lying(gate, asked.repo)
        stamps: tuple[str, ...] = () if gate.default_route == "counts" else ("DEFAULT ROUTE NOT COUNTED",)
        if any(image.kind == "dockerfile" for image, _ in images):
            stamps += ("IMAGE BY ITS DOCKERFILE",)
        searched = [msgspec.to_builtins(one) for one in paths]
        return Gathered(
            evidence=Evidence(lab=lab, images=tuple(image for image, _ in images), paths=paths, now_ns=asked.now_ns),
            subject=lab.host,
            digest=strict.digest([lab_digest, [digest for _, digest in images], searched]),
            counts={
                "names": sum(len(one.names) for one in lab.environments),
                "routes": len(lab.routes),
                "images": len(images),
                "files": sum(one.files for one in paths),
            },
            end_ns=lab.produced_ns,
            stamps=stamps,
        )


def open_lab(path: Path) -> tuple[Lab, str]:
    """Read a lab host's file; with its digest. Raises Problem."""
    place = str(path)
    data = read_bytes(path, _CAP_BYTES)
    file = strict.load_as(data, LabFile, place=place, fmt=format_of(place), cap_bytes=_CAP_BYTES)
    produced_ns = parse_rfc3339(file.produced_at)
    if produced_ns is None:
        raise Problem(
            f"{place}: /produced_at",
            found=shown(file.produced_at),
            wanted="RFC 3339 with a zone",
            remedy=f"on the lab host: {_NEW}",
        )
    for number, row in enumerate(file.data.routes):
        if network(row.to) is None or (row.via and network(row.via) is None):
            raise Problem(
                f"{place}: /data/routes/{number}",
                found=shown(row.to if network(row.to) is None else row.via),
                wanted="a network, and an address by which it is reached",
                remedy=f"on the lab host: {_NEW}",
            )
    lab = Lab(
        host=file.subject.host,
        produced_ns=produced_ns,
        environments=tuple(Environment(of=one.of, names=one.names) for one in file.data.environments),
        routes=tuple(Route(**msgspec.structs.asdict(row)) for row in file.data.routes),
        tables=file.data.tables,
        revision=file.produced_by.revision,
    )
    return lab, strict.digest_bytes(data)


def lab_file(*, host: str, environments: Sequence[Environment], folder: Path, now_ns: int) -> LabFile:
    """Look at this host, and write down what there is. Raises Problem where a table cannot be read."""
    routes, tables = routes_here()
    said = ask(folder, ["rev-parse", "--verify", "HEAD"], timeout_s=10)
    return LabFile(
        kind="lease-lab",
        version=1,
        subject=Subject(host=host),
        produced_by=Producer(
            by=f"drillmaster {drillmaster.__version__}", revision="" if said is None else said.decode().strip()
        ),
        produced_at=rfc3339(now_ns, digits=0),
        data=Data(
            environments=tuple(Names(of=one.of, names=one.names) for one in environments),
            tables=tables,
            routes=tuple(Row(**msgspec.structs.asdict(route)) for route in routes),
        ),
    )


def environment_of(environ: Mapping[str, str] | None, pid: int | None) -> Environment:
    """Give the names of this process's environment, or of another one's of the same user. Raises Problem."""
    if pid is None:
        names = sorted(environ or ())
        return Environment(of="the shell that asked", names=tuple(map(_printable, names)))
    place = f"/proc/{pid}/environ"
    try:
        data = Path(place).read_bytes()[:_ENVIRON_CAP_BYTES]
    except OSError as error:
        raise Problem(
            place,
            found=(error.strerror or "an error").lower(),
            wanted="the environment of a process of yours",
            remedy="name a process that runs, as the user that it runs as: --pid PID",
        ) from None
    if _network_of(pid) != _network_of(None):
        raise Problem(
            f"process {pid}",
            found="a network of its own, as a container has",
            wanted="a process in this shell's network, whose routes are the ones that are read",
            remedy=f"look from in there: docker exec, or nsenter --net --target {pid} {_NEW} --pid {pid}",
        )
    names = sorted({os.fsdecode(pair.partition(b"=")[0]) for pair in data.split(b"\0") if pair.partition(b"=")[0]})
    return Environment(of=f"process {pid}", names=tuple(map(_printable, names)))


def _network_of(pid: int | None) -> str:
    """Say in which of the kernel's networks a process is; "" where this kernel does not say."""
    try:
        return str(Path(f"/proc/{'self' if pid is None else pid}/ns/net").readlink())
    except OSError:
        return ""


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def routes_here() -> tuple[tuple[Route, ...], Literal["main", "all", "none"]]:
    """Read this host's routing tables: all of them where `ip` is there, else the kernel's main one. Raises Problem."""
    ip = shutil.which("ip", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
    if ip is not None:
        said = [_ip(ip, version) for version in (4, 6)]
        if None not in said:
            return tuple(
                row for version, text in zip((4, 6), said, strict=True) for row in of_ip(text or "", version)
            ), "all"
    try:
        rows = of_proc_ipv4(Path("/proc/net/route").read_text("ascii"))
    except OSError:
        return (), "none"
    try:
        rows += of_proc_ipv6(Path("/proc/net/ipv6_route").read_text("ascii"))
    except FileNotFoundError:  # a kernel without IPv6 has no way there
        pass
    except OSError:
        return (), "none"
    return rows, "main"


def _ip(program: str, version: int) -> str | None:
    """Ask `ip` for the tables of one version; None where it does not answer with JSON."""
    try:
        done = subprocess.run(  # noqa: S603  # a program of the system with words of ours
            [program, "-json", f"-{version}", "route", "show", "table", "all"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    if done.returncode != 0:
        return None
    return done.stdout if done.stdout.strip().startswith("[") or not done.stdout.strip() else None
