"""Evidence on which each check of the gate `cache-keys` goes red, and on which it is green."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.cache_keys import CacheKeys, Keys, Other
from drillmaster.rules.cache_keys import Field, KeyType, mint
from drillmaster.verdict import Status

__all__ = ["CART", "GOOD", "LIMITS", "NORTH", "SOUTH", "cases", "key"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
HOUR_NS = 3600 * 10**9
NORTH, SOUTH = "tenant_north_01", "tenant_south_09"
CART = KeyType(
    name="cart", version=3, fields=(Field(name="cartId", kind="id"), Field(name="catalogVersion", kind="id"))
)


def key(tenant: str, cart: str) -> str:
    """Make the key of a cart."""
    return mint(CART, tenant, {"cartId": cart, "catalogVersion": "2026-09-20"}).key


LIMITS = CacheKeys(
    types=(CART,),
    tenants=(NORTH, SOUTH),
    others=(Other(prefix="lock:", what="lock", why="locks of the nightly export"),),
    compare=("etag", "lock", "topic"),
    min_keys=2,
    max_keys=1_000,
    max_age_s=86_400.0,
    hosts=(),
)
GOOD = Keys(
    source="keys.txt",
    file="keys.txt",
    keys=(key(NORTH, "cart_42"), key(SOUTH, "cart_42"), key(NORTH, "cart_43"), "lock:nightly-export"),
    taken_ns=NOW_NS - HOUR_NS,
    names={
        "etag": ('"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"',),
        "lock": ("lock:nightly-export",),
        "topic": ("carts",),
    },
    now_ns=NOW_NS,
)


def but(**changes: Any) -> Keys:
    """The good dump with something changed."""
    return msgspec.structs.replace(GOOD, **changes)


def beside(*keys: str) -> Keys:
    """The good dump with more keys."""
    return but(keys=(*GOOD.keys, *keys))


def named(use: str, *names: str) -> Keys:
    """The good dump with other names of one use."""
    return but(names={**GOOD.names, use: names})


def cases() -> Iterator[Case]:
    """Red and green for every check."""
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
    for check in (
        *("whole", "fresh", "examined", "schema", "tenant", "whitespace", "secret", "shape", "known-tenant"),
        *("tenant-in-digest", "names.etag", "names.lock", "names.topic", "reuse.etag", "reuse.lock", "reuse.topic"),
    ):
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)


def _red() -> Iterator[tuple[str, Status, Keys]]:
    here = GOOD.keys[0]
    digest = here.rpartition(":")[2]
    yield "whole", "refused", but(cut="the last line has no end")
    yield "whole", "refused", but(keys=tuple(key(NORTH, f"cart_{n}") for n in range(1_001)))
    yield "fresh", "refused", but(taken_ns=None)
    yield "fresh", "refused", but(taken_ns=NOW_NS - 25 * HOUR_NS)
    yield "fresh", "refused", but(taken_ns=NOW_NS + HOUR_NS)
    yield "examined", "refused", but(keys=())
    yield "examined", "refused", but(keys=("lock:nightly-export",))
    for use in ("etag", "lock", "topic"):
        yield f"names.{use}", "refused", but(names={one: names for one, names in GOOD.names.items() if one != use})
        yield f"names.{use}", "refused", named(use)
        yield f"reuse.{use}", "fail", named(use, "one", f"{use}:{here}")
    yield "schema", "fail", beside("shared_grocery_cart_for_returning_user")
    yield "schema", "fail", beside(here.replace("cart-v3", "cart-v2"))
    yield "tenant", "fail", beside(here.replace(NORTH, "undefined"))
    yield "tenant", "fail", beside(here.replace(NORTH, "acme"))
    yield "whitespace", "fail", beside("shared grocery cart for returning user")
    yield "whitespace", "fail", beside(here + "\u200b")
    yield "secret", "fail", beside("ghp_" + "a1B2" * 9)
    yield "shape", "fail", beside(f"cart-v3:{NORTH}:summary_of_the_cart")
    yield "known-tenant", "fail", beside(key("tenant_west_02", "cart_42"))
    yield "tenant-in-digest", "fail", beside(f"cart-v3:{SOUTH}:{digest}")
    yield "reuse.topic", "fail", named("topic", here.replace(":", "."))
    yield "reuse.etag", "fail", named("etag", f'W/"{here}"')
    yield "reuse.etag", "fail", named("etag", f'"{digest}"')
    yield "reuse.etag", "fail", named("etag", f'"{hashlib.sha256(here.encode()).hexdigest()}"')
