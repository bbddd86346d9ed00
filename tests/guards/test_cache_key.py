"""May a string be used as a cache key: ours, this tenant's, and as a key."""

import inspect
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards import Decision, find
from drillmaster.guards.cache_key import REASONS, CacheKey, Lookup
from drillmaster.rules.cache_keys import MEMO, Field, KeyType, memo_key

CART = KeyType(name="cart", version=3, fields=(Field(name="cartId", kind="id"),))
GUARD = CacheKey(types=(CART, MEMO))
NORTH, SOUTH = "tenant_north_01", "tenant_south_09"
KEY, MADE = GUARD.key("cart-v3", NORTH, {"cartId": "cart_42"})


def decided(**facts: Any) -> Decision:
    _, decision = GUARD.step(None, Lookup(**{"key": KEY, "tenant": NORTH, **facts}), 0)
    assert decision.reason in REASONS
    assert decision.allowed == (decision.reason == "own-key")
    return decision


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "own-key"),
        ({"tenant": SOUTH}, "other-tenant"),
        ({"tenant": NORTH + " "}, "other-tenant"),
        ({"tenant": ""}, "other-tenant"),
        ({"tenant": None}, "facts-unusable"),
        ({"use": "etag"}, "other-use"),
        ({"use": "lock"}, "other-use"),
        ({"use": "topic"}, "other-use"),
        ({"use": "Cache"}, "other-use"),
        ({"use": None}, "facts-unusable"),
        ({"key": "shared grocery cart for returning user"}, "key-space"),
        ({"key": "shared_grocery_cart_for_returning_user"}, "schema-unknown"),
        ({"key": KEY.replace("v3", "v2")}, "version-unknown"),
        ({"key": None}, "not-text"),
        ({"key": 5}, "not-text"),
        ({"key": memo_key(NORTH, user="u-1", tool="t", args={}).key}, "own-key"),
        ({"key": memo_key(SOUTH, user="u-1", tool="t", args={}).key}, "other-tenant"),
    ],
)
def test_a_lookup_is_decided(facts: dict[str, Any], reason: str) -> None:
    assert decided(**facts).reason == reason


def test_a_key_is_made_by_its_fields_or_there_is_none() -> None:
    assert Decision(allowed=True, reason="own-key") == MADE
    assert GUARD.key("cart-v4", NORTH, {"cartId": "a"}) == ("", Decision(allowed=False, reason="type-unknown"))
    assert GUARD.key("cart-v3", "t", {"cartId": "a"}) == ("", Decision(allowed=False, reason="tenant-unbound"))
    assert GUARD.key("cart-v3", NORTH, {}) == ("", Decision(allowed=False, reason="field-missing"))


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary()), st.one_of(st.text(), st.none(), st.integers()))
def test_nothing_that_is_handed_in_raises_or_gets_by(key: Any, tenant: Any) -> None:
    assert not decided(key=key, tenant=tenant).allowed


def test_two_types_of_one_schema_and_version_are_none() -> None:
    with pytest.raises(ValueError, match="cart-v3 is declared twice"):
        CacheKey(types=(CART, CART))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"guard": "cache-key", "types": []}, CacheKey)


def test_it_is_found_by_its_name_and_its_facts_have_no_field_for_a_value() -> None:
    assert find("cache-key") is CacheKey
    assert Lookup.__struct_fields__ == ("key", "tenant", "use")
    assert list(inspect.signature(CacheKey.step).parameters) == ["self", "state", "facts", "now_ms"]


def test_it_brings_in_nothing_that_a_hot_path_has_no_use_for() -> None:
    code = "import sys; import drillmaster.guards.cache_key; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"asyncio", "socket", "ssl", "click", "hypothesis", "openai", "anthropic", "redis", "jinja2"}
