"""Evidence on which each check of the leases gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.leases import Environment, Evidence, Exempt, Hit, Image, Lab, Leases, Path, Route
from drillmaster.verdict import Status

__all__ = ["GOOD", "LIMITS", "NOW_NS", "cases", "image", "lab", "limits", "names", "paths", "routes"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0

LIMITS = Leases(
    lab_hosts=("lab-7",),
    max_age_s=86_400.0,
    min_names=5,
    allow_names=("ETCD_VERSION",),
    lock_names=("PROD_REDIS_*",),
    image="inspected",
    lock_hosts=("10.20.0.0/24", "10.9.0.7"),
    default_route="counts",
    tables="main",
    lock_paths=("app/locks",),
    prompt_paths=("app/prompts",),
)

_NAMES = ("BLOCKSIZE", "CLOCK_SKEW", "ETCD_VERSION", "HOME", "LANG", "PATH", "PWD")
_ROUTES = (
    Route(to="192.0.2.0/24", dev="eth0"),
    Route(to="10.0.0.0/8", rejects=True),
    Route(to="10.30.0.0/16", via="192.0.2.1", dev="eth0"),
)
_LAB = Lab(
    host="lab-7",
    produced_ns=NOW_NS - 3600 * 10**9,
    environments=(Environment(of="the shell that asked", names=_NAMES),),
    routes=_ROUTES,
    tables="main",
)
_IMAGE = Image(place="image.json", kind="inspected", names=("PATH", "BLOCKSIZE"))
_LOCKS = Path(
    path="app/locks", role="locks", files=2, hits=(Hit(kind="verb", word="renew", file="app/locks/client.py", line=7),)
)
_PROMPTS = Path(path="app/prompts", role="prompts", files=3)
GOOD = Evidence(lab=_LAB, images=(_IMAGE,), paths=(_LOCKS, _PROMPTS), now_ns=NOW_NS)


def lab(**more: Any) -> Evidence:
    """The good evidence of another lab host."""
    return msgspec.structs.replace(GOOD, lab=msgspec.structs.replace(_LAB, **more))


def names(*those: str) -> Evidence:
    """The good evidence with more names."""
    return lab(environments=(Environment(of="process 7", names=(*_NAMES, *those)),))


def routes(*those: Route) -> Evidence:
    """The good evidence with more routes."""
    return lab(routes=(*_ROUTES, *those))


def image(**more: Any) -> Evidence:
    """The good evidence of another image."""
    return msgspec.structs.replace(GOOD, images=(msgspec.structs.replace(_IMAGE, **more),))


def paths(locks: dict[str, Any] | None = None, prompts: dict[str, Any] | None = None) -> Evidence:
    """The good evidence with other paths."""
    replaced = (msgspec.structs.replace(_LOCKS, **(locks or {})), msgspec.structs.replace(_PROMPTS, **(prompts or {})))
    return msgspec.structs.replace(GOOD, paths=replaced)


def limits(**more: Any) -> Leases:
    """The limits with other ones."""
    return msgspec.structs.replace(LIMITS, **more)


_TOKEN = Hit(kind="token", word="fencing token", file="app/prompts/a.md", line=3)
_VERB = Hit(kind="verb", word="renew", file="app/prompts/a.md", line=4)
_PAST = Exempt(path="app/prompts/a.md", until="2026-11-29", why="subscriptions are renewed")


def _red() -> Iterator[tuple[str, Status, Evidence]]:
    yield "subject", "refused", lab(host="prod-1")
    yield "fresh", "refused", lab(produced_ns=NOW_NS - 86_401 * 10**9)
    yield "fresh", "refused", lab(produced_ns=NOW_NS + 61 * 10**9)
    yield "environment-read", "refused", lab(environments=(Environment(of="env -i", names=("PWD",)),))
    yield "environment-read", "refused", lab(environments=())
    yield "images-read", "refused", msgspec.structs.replace(GOOD, images=())
    yield "images-read", "refused", image(kind="dockerfile")
    yield "routes-read", "refused", lab(tables="none", routes=())
    yield "paths-read", "refused", paths(prompts={"missing": "not there", "files": 0})
    yield "paths-read", "refused", paths(prompts={"files": 0})
    yield "paths-read", "refused", paths(prompts={"unread": ("app/prompts/a.bin",)})
    yield "lock-client", "refused", paths(locks={"hits": ()})
    yield "lab-names", "fail", names("ETCD_PASSWORD")
    yield "lab-names", "fail", names("DLM_TOKEN")
    yield "lab-names", "fail", names("PROD_REDIS_URL")
    yield "image-names", "fail", image(names=("PATH", "FENCING_KEY"))
    yield "image-names", "refused", image(names=())
    yield "lock-route", "fail", routes(Route(to="10.20.0.0/16", via="192.0.2.1"))
    yield "lock-route", "fail", lab(routes=(Route(to="0.0.0.0/0", via="192.0.2.1"),))
    yield "lock-route", "refused", lab(tables="none", routes=())
    yield "shared-network", "fail", routes(Route(to="10.20.0.0/24", dev="eth1"))
    yield "shared-network", "refused", lab(tables="none", routes=())
    yield "prompt-tokens", "fail", paths(prompts={"hits": (_TOKEN,)})
    yield "prompt-tokens", "refused", paths(prompts={"files": 0})
    yield "prompt-verbs", "fail", paths(prompts={"hits": (_VERB,)})
    yield "prompt-verbs", "refused", paths(prompts={"files": 0})


_CHECKS = (
    "subject",
    "fresh",
    "environment-read",
    "images-read",
    "routes-read",
    "paths-read",
    "lock-client",
    "exceptions",
    "lab-names",
    "image-names",
    "lock-route",
    "shared-network",
    "prompt-tokens",
    "prompt-verbs",
)


def cases() -> Iterator[Case]:
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
    yield Case(check="routes-read", status="refused", gate=limits(tables="all"), evidence=GOOD)
    yield Case(
        check="exceptions",
        status="refused",
        gate=limits(exceptions=(_PAST,)),
        evidence=paths(prompts={"hits": (_VERB,)}),
    )
    yield Case(check="exceptions", status="refused", gate=limits(exceptions=(_PAST,)), evidence=GOOD)
    for check in _CHECKS:
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
