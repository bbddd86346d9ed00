"""Are the keys of a store the ones that the code is meant to make."""

import base64
import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.gates._cases.cache_keys import GOOD, LIMITS, NORTH, SOUTH, beside, but, key, named
from drillmaster.gates.cache_keys import CacheKeys, Keys
from drillmaster.verdict import Check, conclude


def checks(dump: Keys, gate: CacheKeys = LIMITS) -> dict[str, Check]:
    return {one.id: one for one in gate.checks(dump)}


def red(dump: Keys, gate: CacheKeys = LIMITS) -> set[str]:
    return {id_ for id_, one in checks(dump, gate).items() if one.status != "pass"}


def test_good_keys_pass() -> None:
    assert red(GOOD) == set()
    assert conclude(tuple(LIMITS.checks(GOOD))) == "pass"


HERE = GOOD.keys[0]
DIGEST = HERE.rpartition(":")[2]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        # what the article's own check lets by
        ("shared_grocery_cart_for_returning_user", "schema"),
        ("the_cart", "schema"),
        ("", "shape"),
        ("a" * 80, "schema"),
        ("购物车摘要", "whitespace"),
        ("cart\u200bkey", "whitespace"),
        ("shared grocery cart for returning user", "whitespace"),
        ("ghp_" + "a1B2" * 9, "secret"),
        ("postgres://app:hunter2222@db.internal/prod", "secret"),
        ("http://shop.example.com/cart/summary-of-a-cart", "schema"),
        # nearly ours
        (HERE.replace("v3", "v2"), "schema"),
        (HERE.upper(), "schema"),
        (HERE + "0", "shape"),
        (HERE + ":more", "shape"),
        (f"cart-v3:{NORTH}:the_cart_of_a_returning_user", "shape"),
        (f"cart-v3:{NORTH}", "shape"),
        (HERE.replace(NORTH, "undefined"), "tenant"),
        (HERE.replace(NORTH, "null"), "tenant"),
        (HERE.replace(NORTH, "acme"), "tenant"),
        (HERE.replace(NORTH, "Tenant_North"), "tenant"),
        (
            "cart-v3:" + DIGEST,
            "shape",
        ),  # 32 hex digits are written as a tenant is, and nothing stands behind them
        (HERE + "\n", "whitespace"),
        (HERE + "\udcff", "whitespace"),
        # whole, and of nobody
        (key("tenant_west_02", "a"), "known-tenant"),
        (f"cart-v3:{SOUTH}:{DIGEST}", "tenant-in-digest"),
    ],
)
def test_a_key_that_is_none_of_ours_fails_by_what_is_wrong_with_it(text: str, check: str) -> None:
    assert red(beside(text)) == {check}
    told = checks(beside(text))[check]
    assert told.status == "fail" and told.observed is not None
    assert len(text) < 20 or text not in told.why + told.title + told.remedy
    assert told.cites[-1].line == 5


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("etag", f'"{HERE}"'),
        ("etag", f'W/"{HERE}"'),
        ("etag", HERE),
        ("etag", f'"{DIGEST}"'),
        ("etag", f'W/"{DIGEST.upper()}"'),
        ("lock", HERE),
        ("lock", f"lock:{HERE}"),
        ("lock", f"{HERE}:lock"),
        ("lock", f"locks/{HERE}/1"),
        ("lock", "lock:" + key(NORTH, "not-in-the-dump")),
        ("topic", f"invalidate.{HERE}"),
        ("topic", f"{HERE}#changes"),
        ("topic", "x" * 500 + f":{HERE}:" + "y" * 500),
        # as servers, URLs and libraries write them
        ("etag", f'"{DIGEST}-gzip"'),
        ("etag", f'"{HERE}-gzip"'),
        ("etag", f'"{HERE.upper()}"'),
        ("etag", f'"{HERE.replace(":", "%3A")}"'),
        ("etag", f'W/"{DIGEST[:16]}"'),
        ("etag", base64.b64encode(bytes.fromhex(DIGEST)).decode()),
        ("etag", base64.urlsafe_b64encode(HERE.encode()).decode().rstrip("=")),
        ("etag", base64.b64encode(hashlib.sha256(HERE.encode()).digest()).decode()),
        ("etag", hashlib.sha256(HERE.encode()).hexdigest()[:32]),
        ("lock", f"{HERE}.lock"),
        ("lock", HERE.replace(":", "/")),
        ("topic", HERE.replace(":", "|")),
        ("topic", HERE.replace(":", ".")),
        ("topic", "changes." + HERE.replace(":", ".") + ".v2"),
    ],
)
def test_a_key_that_is_something_else_too_fails(use: str, name: str) -> None:
    assert red(named(use, "something", name)) == {f"reuse.{use}"}
    assert name not in str(checks(named(use, "something", name))[f"reuse.{use}"])


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("etag", '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"'),
        ("lock", "lock:cart-v3"),
        ("lock", f"lock:{NORTH}:cart_42"),
        ("lock", DIGEST),  # a lock may be named by any digest
        ("topic", "cart-v3:changes"),
        ("topic", "cart-v3:" * 200_000),
        ("etag", "cart-v3:" * 200_000),
        ("etag", DIGEST[:15]),
        ("etag", "0" * 32),
        ("lock", HERE + "0"),
        ("topic", "cart-v3.changes"),
        ("topic", f"cart-v3.{NORTH}.cart_42"),
        ("topic", "cart-v3." * 200_000),
    ],
)
def test_what_only_sounds_like_a_key_is_let_by(use: str, name: str) -> None:
    assert red(named(use, name)) == set()


def test_names_that_the_policy_compares_have_to_be_there() -> None:
    assert red(but(names={})) == {"names.etag", "names.lock", "names.topic"}
    assert red(but(names={}), msgspec.structs.replace(LIMITS, compare=())) == set()


def test_other_keys_are_counted_and_do_not_make_up_for_keys() -> None:
    assert "examined" in red(but(keys=("lock:a", "lock:b", "lock:c")))
    (examined,) = [one for one in LIMITS.checks(GOOD) if one.id == "examined"]
    assert examined.title == "3 cache keys were read; 1 other keys by 1 prefixes were not"


@pytest.mark.parametrize(
    "changed",
    [
        {"types": []},
        {"types": [*LIMITS.types, *LIMITS.types]},
        {"others": [{"prefix": "cart-v3:", "what": "other", "why": "x"}]},
        {"others": [{"prefix": "car", "what": "other", "why": "x"}]},
        {"others": [{"prefix": "cart-v3:tenant_north", "what": "other", "why": "x"}]},
        {"others": [{"prefix": "", "what": "other", "why": "x"}]},
        {"others": [{"prefix": "lock:", "what": "other", "why": ""}]},
        {"compare": ["etag", "etag"]},
        {"compare": ["cookie"]},
        {"min_keys": 0},
        {"min_keys": 2_000},
        {"max_age_s": 0},
        {"more": 1},
    ],
)
def test_a_policy_that_would_let_everything_by_is_refused(changed: dict[str, Any]) -> None:
    usual = msgspec.to_builtins(LIMITS)
    assert msgspec.convert(usual, CacheKeys) == LIMITS
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**usual, **msgspec.to_builtins(changed)}, CacheKeys)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_no_texts_raise_and_none_of_them_passes(texts: list[str]) -> None:
    told = red(beside(*texts))
    assert told or all(text.startswith("lock:") or text in GOOD.keys for text in texts)


@given(st.lists(st.sampled_from(["a", "b", "c_1", "x|y", "x:y"]), min_size=2, max_size=8))
def test_whatever_the_guard_makes_passes(carts: list[str]) -> None:
    assert red(but(keys=tuple({key(tenant, one) for one in carts for tenant in (NORTH, SOUTH)}))) == set()
