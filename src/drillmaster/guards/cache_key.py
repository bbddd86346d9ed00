"""The cache key guard: is this string one of our keys, of this very tenant, and used as a key?

1. What may be a key is what a declared type can read back (`rules.cache_keys`). There is no list of what is forbidden: a
   caption, a summary, a URL or a token is refused because it is none of ours.
2. The tenant that was authenticated is a fact of its own, and has to be the one in the key. A key that is whole and another
   tenant's is the case this is for.
3. A key is a key. As an entity tag, the name of a lock, or a topic the same string is refused: each of them has its own life.
4. Keys are made by `CacheKey.key`, from typed fields, and nowhere else.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from drillmaster.guards import Decision, Guard
from drillmaster.rules.cache_keys import FAULTS, KeyType, mint, parse, types_fault

__all__ = ["REASONS", "CacheKey", "Lookup", "guard"]

REASONS: dict[str, str] = {
    "own-key": "It is a key of a declared type, and this tenant's.",
    "facts-unusable": "A fact has a type that none can have.",
    "other-tenant": "It is another tenant's key.",
    "other-use": "A cache key is used as something else: an entity tag, the name of a lock, a topic.",
    "type-unknown": "No type of that schema and version is declared.",
    **FAULTS,
}


class Lookup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker is about to ask its cache for. The key is compared and never kept."""

    key: str
    """The string that is about to be used."""
    tenant: str
    """Of the request, as it was authenticated; never read out of the key."""
    use: str = "cache"
    """What the string is used as: `cache`, and nothing else is allowed."""


class CacheKey(Guard[None, Lookup], frozen=True, kw_only=True, tag="cache-key"):
    """Whether a string may be used as a cache key.

    Happens: a worker reads from or writes to a cache that many tenants share.
    Breaks: keys that a model worded, that have no tenant or another's, that hold a secret, or that are a tag, a lock or a
    topic too.
    Looks like: one of the reasons; for a key that is asked for by its fields, the key itself.
    Cannot show: that the tenant was authenticated; that the value in the cache is what the key says; who else can read the cache.
    """

    types: Annotated[tuple[KeyType, ...], msgspec.Meta(min_length=1, max_length=200)]
    """Every schema and version whose keys are taken."""

    def __post_init__(self) -> None:
        fault = types_fault(self.types)
        if fault:
            raise ValueError(f"types: {fault}")

    def step(self, state: None, facts: Lookup, now_ms: int) -> tuple[None, Decision]:
        """Decide. There is no state."""
        return None, _told(self._judged(facts))

    def key(
        self, head: str, tenant: object, fields: Mapping[str, object], *, secret: bytes | None = None
    ) -> tuple[str, Decision]:
        """Make the key of an identity by the type `head` (`cart-v3`); "" where the decision denies it."""
        kind = next((one for one in self.types if one.head == head), None)
        if kind is None:
            return "", _told("type-unknown")
        minted = mint(kind, tenant, fields, secret=secret)
        return minted.key, _told(minted.fault or "own-key")

    def _judged(self, facts: Lookup) -> str:
        if type(facts.tenant) is not str or type(facts.use) is not str:
            return "facts-unusable"
        if facts.use != "cache":
            return "other-use"
        parsed = parse(self.types, facts.key)
        if parsed.fault:
            return parsed.fault
        return "own-key" if parsed.tenant == facts.tenant else "other-tenant"


def _told(reason: str) -> Decision:
    return Decision(allowed=reason == "own-key", reason=reason)


guard = CacheKey
