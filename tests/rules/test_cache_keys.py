"""Which string names one object of one tenant, and what no key can be."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.rules.cache_keys import FAULTS, MAX_KEY, MEMO, Field, KeyType, memo_key, mint, parse, types_fault

CART = KeyType(
    name="cart", version=3, fields=(Field(name="cartId", kind="id"), Field(name="catalogVersion", kind="id"))
)
PAGE = KeyType(
    name="page",
    version=1,
    fields=(
        Field(name="site", kind="id", clear=True),
        Field(name="title", kind="text"),
        Field(name="number", kind="whole", clear=True),
        Field(name="draft", kind="boolean", clear=True, optional=True),
    ),
    digest_chars=64,
    keyed="k7",
)
NORTH, SOUTH = "tenant_north_01", "tenant_south_09"
IDS = {"cartId": "cart_42", "catalogVersion": "2026-09-20"}
SECRET = b"0123456789abcdef"


def made(**fields: Any) -> str:
    minted = mint(CART, NORTH, {**IDS, **fields})
    assert minted.fault in {"", *FAULTS}
    assert bool(minted.key) != bool(minted.fault)
    return minted.key or minted.fault


def test_the_article_s_own_invariants() -> None:
    here, there = mint(CART, NORTH, IDS).key, mint(CART, SOUTH, IDS).key
    assert here == mint(CART, NORTH, dict(reversed(IDS.items()))).key
    assert here != there
    assert re.fullmatch(r"cart-v3:tenant_north_01:[0-9a-f]{32}", here)
    assert re.fullmatch(r"cart-v3:tenant_south_09:[0-9a-f]{32}", there)
    assert mint(CART, "t", {"cartId": "x", "catalogVersion": "1"}).fault == "tenant-unbound"


def test_the_key_is_the_digest_of_a_text_that_anybody_can_write_down() -> None:
    text = b'["cart",3,"tenant_north_01",[["cartId","cart_42"],["catalogVersion","2026-09-20"]]]'
    assert mint(CART, NORTH, IDS).key == "cart-v3:tenant_north_01:" + hashlib.sha256(text).hexdigest()[:32]


def test_no_sign_moves_the_end_of_a_field() -> None:
    for sign in '|:,;/!=&"\\[]':
        one = made(cartId=f"a{sign}cat:1", catalogVersion="2")
        two = made(cartId="a", catalogVersion=f"1{sign}cat:2")
        three = made(cartId=f"a{sign}cat", catalogVersion=f"1{sign}2")
        assert len({one, two, three}) == 3
        assert all(key.startswith("cart-v3:") for key in (one, two, three))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        # only text is text: what would be written the same is refused
        *((value, "field-type") for value in (42, 4.2, True, None, {"a": 1}, {"b": 2}, [1, 2], ("a",), b"cart_42")),
        ("", "field-empty"),
        (" ", "field-space"),
        ("shared grocery cart for returning user", "field-space"),
        ("a\u00a0b", "field-space"),
        ("a\u3000b", "field-space"),
        ("a\nb", "field-space"),
        ("a\x00b", "field-hidden"),
        ("a\x7fb", "field-hidden"),
        ("a\u200bb", "field-hidden"),
        ("a\u202eb", "field-hidden"),
        ("a\u3164b", "field-hidden"),
        ("a\ufe0fb", "field-hidden"),
        ("\ud800", "field-hidden"),
        ("\udfff", "field-hidden"),
        ("购物车摘要", "field-signs"),
        ("café", "field-signs"),
        ("x" * 129, "field-range"),
        *((word, "field-reserved") for word in ("undefined", "null", "None", "NaN", "NULL")),
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "secret-in-key"),
        ("postgres://app:hunter22@db.internal/prod", "secret-in-key"),
        ("AKIAIOSFODNN7EXAMPLQ", "secret-in-key"),
    ],
)
def test_a_value_that_is_none_has_a_reason(value: object, fault: str) -> None:
    assert made(cartId=value) == fault


def test_whatever_has_another_identity_is_not_dropped_or_filled_in() -> None:
    assert made(userId="u-1") == "field-unknown"
    assert mint(CART, NORTH, {"cartId": "a"}).fault == "field-missing"
    assert mint(CART, NORTH, {"cartId": "a"}).where == "catalogVersion"
    assert mint(CART, NORTH, {**IDS, 5: "x"}).fault == "field-unknown"  # type: ignore[dict-item]
    assert mint(CART, NORTH, [("cartId", "a")]).fault == "field-unknown"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tenant", "fault"),
    [
        *((one, "tenant-unbound") for one in (None, True, 5, [NORTH], "", "t", "acme", "Tenant_North", "tenant north")),
        *(
            (one, "tenant-unbound")
            for one in ("tenant:north", "tenant|north", "tenant!north", "tenant.north", "x" * 65)
        ),
        *(
            (one, "tenant-unbound")
            for one in ("tenant_nörth_01", "ｔｅｎａｎｔ＿０１", "tenant\u200b01", "tenant_01\n")
        ),
        *((one, "tenant-reserved") for one in ("undefined", "undefined_", "_infinity", "--------")),
    ],
)
def test_a_tenant_that_is_none_has_a_reason(tenant: object, fault: str) -> None:
    assert mint(CART, tenant, IDS).fault == fault


def test_a_short_tenant_is_taken_where_a_policy_says_so() -> None:
    short = msgspec.structs.replace(CART, min_tenant_chars=4)
    assert mint(short, "acme", IDS).key.startswith("cart-v3:acme:")
    assert mint(short, "null", IDS).fault == "tenant-reserved"


def test_text_of_any_script_has_one_form() -> None:
    page = {"site": "shop", "title": "カート", "number": 4}
    assert mint(PAGE, NORTH, page, secret=SECRET).key
    assert mint(PAGE, NORTH, {**page, "title": "cafe\u0301"}, secret=SECRET).fault == "field-form"
    assert mint(PAGE, NORTH, {**page, "title": "caf\u00e9"}, secret=SECRET).key


def test_a_keyed_digest_needs_its_secret_and_says_which() -> None:
    page = {"site": "shop", "title": "a", "number": -4, "draft": True}
    key = mint(PAGE, NORTH, page, secret=SECRET).key
    assert re.fullmatch(r"page-v1:tenant_north_01:shop:-4:true:k7\.[0-9a-f]{64}", key)
    assert mint(PAGE, NORTH, page, secret=SECRET + b"!").key != key
    for secret in (None, b"", b"short", "0123456789abcdef"):
        assert mint(PAGE, NORTH, page, secret=secret).fault == "secret-missing"  # type: ignore[arg-type]
    assert mint(CART, NORTH, IDS, secret=SECRET).fault == "secret-unasked"


def test_a_key_reads_back_to_what_stands_in_the_clear() -> None:
    page = {"site": "shop", "title": "a", "number": -4}
    parsed = parse((CART, PAGE), mint(PAGE, NORTH, page, secret=SECRET).key)
    assert (parsed.fault, parsed.head, parsed.tenant, parsed.keyed) == ("", "page-v1", NORTH, "k7")
    assert parsed.clear == {"site": "shop", "number": -4}


KEY = mint(CART, NORTH, IDS).key


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        # what the article's own check lets by
        ("shared_grocery_cart_for_returning_user", "schema-unknown"),
        ("the_cart", "schema-unknown"),
        ("", "key-empty"),
        ("a" * 80, "schema-unknown"),
        ("shared grocery cart for returning user", "key-space"),
        ("cart\u200bv3", "key-hidden"),
        ("购物车摘要", "key-hidden"),
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "schema-unknown"),
        ("postgres://u:p@h/db", "schema-unknown"),
        *((one, "not-text") for one in (None, 5, True, ["cart-v3"], {"key": 1}, KEY.encode())),
        # nearly ours
        (KEY.upper(), "schema-unknown"),
        (KEY + " ", "key-space"),
        (KEY + "\n", "key-space"),
        (KEY + ":", "key-shape"),
        (KEY[:-1], "key-shape"),
        (KEY + "0", "key-shape"),
        (KEY[:-1] + "G", "key-shape"),
        (KEY.replace("cart-v3", "cart-v2"), "version-unknown"),
        (KEY.replace("cart-v3", "cart-v03"), "schema-unknown"),
        (KEY.replace("cart-v3", "cart"), "schema-unknown"),
        ("cart-v3", "tenant-unbound"),
        ("cart-v3:", "tenant-unbound"),
        (KEY.replace(NORTH, "undefined"), "tenant-reserved"),
        (KEY.replace(NORTH, "Tenant_North"), "tenant-unbound"),
        (KEY.replace(NORTH + ":", ""), "tenant-reserved"),
        ('"' + KEY + '"', "schema-unknown"),
        (KEY + "x" * MAX_KEY, "key-long"),
        ("cart-v3:tenant_north_01:summary_of_the_cart", "key-shape"),
        ("cart-v3:tenant_north_01:k7." + "a" * 32, "key-shape"),
    ],
)
def test_what_is_not_ours_is_no_key(text: object, fault: str) -> None:
    expected = {"tenant-reserved", "tenant-unbound", "key-shape"} if text == KEY.replace(NORTH + ":", "") else {fault}
    assert parse((CART,), text).fault in expected


@given(st.text(max_size=100))
@example("cart-v3:tenant_north_01:" + "0" * 31 + "g")
@example("page-v1:tenant_north_01::::")
def test_reading_never_raises_and_what_is_read_is_written_the_same(text: str) -> None:
    parsed = parse((CART, PAGE), text)
    if parsed.fault:
        assert parsed.fault in FAULTS
        assert not parsed.tenant
    else:
        assert text.startswith(f"{parsed.head}:{parsed.tenant}:") and text.endswith(parsed.digest)


@given(st.text("pagecrt-v13:tenan_ohs0.k7truefl-4", max_size=90))
def test_nothing_that_only_looks_like_a_key_reads_back_as_two(text: str) -> None:
    one, two = parse((CART, PAGE), f"page-v1:{text}"), parse((PAGE, CART), f"page-v1:{text}")
    assert one == two


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    ANYTHING, ANYTHING, st.one_of(ANYTHING, st.dictionaries(st.sampled_from(["cartId", "catalogVersion"]), ANYTHING))
)
def test_whatever_is_handed_in_there_is_a_key_or_a_reason(tenant: Any, value: Any, fields: Any) -> None:
    for minted in (mint(CART, tenant, fields), mint(CART, NORTH, {**IDS, "cartId": value})):
        assert bool(minted.key) != bool(minted.fault)
        assert minted.fault in {"", *FAULTS}
        if minted.key:
            assert not parse((CART,), minted.key).fault


def test_a_tool_s_result_is_one_user_s() -> None:
    args = {"city": "Oslo", "days": 3, "units": ["c", None, True]}
    key = memo_key(NORTH, user="u-17", tool="weather/forecast", args=args).key
    assert re.fullmatch(r"memo-v1:tenant_north_01:u-17:[0-9a-f]{32}", key)
    assert key == memo_key(NORTH, user="u-17", tool="weather/forecast", args=dict(reversed(args.items()))).key
    others = [
        memo_key(NORTH, user="u-18", tool="weather/forecast", args=args),
        memo_key(SOUTH, user="u-17", tool="weather/forecast", args=args),
        memo_key(NORTH, user="u-17", tool="weather/forecast2", args=args),
        memo_key(NORTH, user="u-17", tool="weather/forecast", args={**args, "days": 4}),
        memo_key(NORTH, user="u-17", tool="weather/forecast", args={**args, "days": "3"}),
        memo_key(NORTH, user="u-17", tool="weather/forecast", args={**args, "days": True}),
        memo_key(NORTH, user="u-17", tool="weather/forecast", args=args, contract="cd" * 32),
    ]
    assert len({key, *(one.key for one in others)}) == 8
    assert parse((MEMO,), key).clear == {"user": "u-17"}


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"args": None}, "args-unusable"),
        ({"args": "city=Oslo"}, "args-unusable"),
        ({"args": [1]}, "args-unusable"),
        ({"args": {"n": float("nan")}}, "args-unusable"),
        ({"args": {"n": 2**53 + 1}}, "args-unusable"),
        ({"args": {"n": "\ud800"}}, "args-unusable"),
        ({"args": {1: "n"}}, "args-unusable"),
        ({"args": {"n": b"x"}}, "args-unusable"),
        ({"user": "ada@example.com"}, "field-signs"),
        ({"user": None}, "field-type"),
        ({"user": ""}, "field-empty"),
        ({"user": "undefined"}, "field-reserved"),
        ({"tool": "a caption of the call"}, "field-space"),
        ({"contract": "latest"}, "field-signs"),
    ],
)
def test_a_result_that_is_nobody_s_is_kept_nowhere(changed: dict[str, Any], fault: str) -> None:
    usual: dict[str, Any] = {"user": "u-17", "tool": "weather", "args": {}}
    assert memo_key(NORTH, **{**usual, **changed}).fault == fault


def test_arguments_inside_each_other_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert memo_key(NORTH, user="u-17", tool="t", args=deep).fault == "args-unusable"


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "Cart"},
        {"name": "cart:v"},
        {"version": 0},
        {"fields": ()},
        {"digest_chars": 16},
        {"keyed": "K:7"},
        {"min_tenant_chars": 0},
        {"fields": [{"name": "a", "kind": "id"}, {"name": "a", "kind": "whole"}]},
        {"fields": [{"name": "a", "kind": "id", "optional": True}]},
        {"fields": [{"name": "a", "kind": "text", "clear": True}]},
        {"extra": 1},
    ],
)
def test_a_type_that_would_make_no_good_keys_is_refused(changed: dict[str, Any]) -> None:
    usual = {"name": "cart", "version": 3, "fields": [{"name": "cartId", "kind": "id"}]}
    assert msgspec.convert(usual, KeyType).head == "cart-v3"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**usual, **changed}, KeyType)


def test_a_schema_and_version_are_declared_once() -> None:
    assert types_fault((CART, PAGE)) == ""
    assert types_fault((CART, PAGE, CART)) == "cart-v3 is declared twice"


TABLE = json.loads(files("drillmaster.rules").joinpath("_cases/cache_keys.json").read_text(encoding="utf-8"))
DECLARED = {one.name: one for one in msgspec.convert(TABLE["types"], list[KeyType])}


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_the_table_of_cases_holds(case: dict[str, Any]) -> None:
    kind = DECLARED[case["type"]]
    secret = TABLE["secrets"][kind.keyed].encode() if kind.keyed else None
    minted = mint(kind, case["tenant"], case["fields"], secret=secret)
    assert (minted.key, minted.fault) == (case["key"], case["fault"])


class TwoFaced(dict[str, object]):
    """Says that it has a field, and has none."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> object:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(["cartId"])


class Torn(Mapping[str, object]):
    """Breaks when it is read."""

    def __getitem__(self, name: str) -> object:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(["cartId"])

    def __len__(self) -> int:
        return 1


class Far(Torn):
    """Breaks as what is kept elsewhere does."""

    def __getitem__(self, name: str) -> object:
        raise OSError(name)


@pytest.mark.parametrize("fields", [TwoFaced(), Torn(), Far(), None, 5, "cartId", [("cartId",)]])
def test_a_mapping_that_breaks_makes_no_key_and_raises_nothing(fields: Any) -> None:
    assert mint(MEMO, "tenant_north_01", fields).key == ""


def test_a_number_of_thousands_of_digits_is_no_argument() -> None:
    said = memo_key("tenant_north_01", user="u1", tool="t", args={"a": 10**5_000})
    assert (said.key, said.fault) == ("", "args-unusable")
