"""Properties that every kind of cache key has to have, to be run by a team's own tests through Hypothesis.

1. `prove_type` takes a declared `KeyType`; `prove_function` any function from a tenant and fields to a key.
2. Tried are: the same identity gives the same key, in whatever order its fields are named; another tenant, and any other
   field, gives another; what is moved from the end of one field into the next gives another; a value of another type that is
   written the same is refused, or gives another; the tenant stands in the clear, and can be read back; a key is short, ASCII,
   and without a space.
3. An AssertionError says which property does not hold and for which values. A function refuses a value by raising ValueError,
   TypeError or Problem; whatever refuses everything proves nothing, and fails too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drillmaster.errors import Problem
from drillmaster.rules.cache_keys import MAX_KEY, Field, KeyType, mint, parse

__all__ = ["Make", "prove_function", "prove_type"]

Make = Callable[[str, Mapping[str, Any]], str]
SIGNS = "|:,;/!=&#%.~_- "
"""What keys are joined with in the field."""


def prove_type(kind: KeyType, *, secret: bytes | None = None, max_examples: int = 200) -> None:
    """Run the properties on a declared type. Raises AssertionError where one does not hold."""

    def make(tenant: str, fields: Mapping[str, Any]) -> str:
        minted = mint(kind, tenant, fields, secret=secret)
        if minted.fault:
            raise ValueError(minted.fault)
        return minted.key

    def tenant_of(key: str) -> str:
        parsed = parse((kind,), key)
        assert not parsed.fault, f"a key that was just made cannot be read back: {parsed.fault}"
        return parsed.tenant

    prove_function(make, kind.fields, tenant_of=tenant_of, max_examples=max_examples)


def prove_function(
    make: Make,
    fields: tuple[Field, ...],
    *,
    tenants: tuple[str, ...] = ("tenant_north_01", "tenant_south_09", "tenant_north_0", "tenant_north_011"),
    tenant_of: Callable[[str], str] | None = None,
    max_examples: int = 200,
) -> None:
    """Run the properties on a function. `tenants` are two at least that it takes; `tenant_of` reads one back from a key."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    if len(set(tenants)) < 2:
        raise ValueError("tenants: wanted two at least, or nothing shows that they are kept apart")
    made = [0]

    def key_of(tenant: str, identity: Mapping[str, Any]) -> str | None:
        try:
            key = make(tenant, identity)
        except (ValueError, TypeError, Problem):
            return None
        made[0] += 1
        return key

    quiet = settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    identities = st.fixed_dictionaries({one.name: _values(one) for one in fields})
    pairs = st.one_of(st.tuples(identities, identities), _near(fields))

    @quiet
    @given(st.sampled_from(tenants), st.sampled_from(tenants), pairs)
    def apart(tenant: str, other: str, pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
        one, two = pair
        first, second = key_of(tenant, one), key_of(other, two)
        same = tenant == other and _same(one, two)
        if first is not None and second is not None:
            assert (first == second) == same, (
                f"one key for two identities: {first!r} from {tenant, one} and {other, two}"
                if not same
                else f"two keys for one identity: {first!r} and {second!r} from {one}"
            )
        across = key_of(other, one)
        if first is not None and across is not None and tenant != other:
            assert first != across, f"two tenants share {first!r}: {tenant} and {other}, of {one}"
        if first is not None:
            _shaped(first, tenant, tenant_of)
            assert key_of(tenant, dict(reversed(one.items()))) == first, f"the order of fields changes the key of {one}"

    usual = {one.name: _usual(one) for one in fields}
    told = {key_of(tenants[0], usual) for _ in range(5)}
    assert len(told) == 1, f"two keys for one identity: {sorted(map(str, told))[:2]} from {usual}"
    apart()
    assert made[0] >= max_examples, f"{made[0]} keys were made: whatever refuses everything proves nothing"
    _borders(key_of, fields, tenants[0])
    _types_apart(key_of, fields, tenants[0])
    _complete(key_of, fields, tenants[0])


def _shaped(key: str, tenant: str, tenant_of: Callable[[str], str] | None) -> None:
    assert type(key) is str and key, f"no key: {key!r}"
    assert key.isascii() and key.isprintable() and " " not in key, (
        f"a key with a space, or not of printable ASCII: {key!r}"
    )
    assert len(key) <= MAX_KEY, f"a key of {len(key)} characters: {key!r}"
    assert tenant in key, f"the tenant {tenant} cannot be found in {key!r}"
    if tenant_of is not None:
        assert tenant_of(key) == tenant, f"{key!r} reads back as another tenant's than {tenant}"


def _borders(key_of: Callable[[str, Mapping[str, Any]], str | None], fields: tuple[Field, ...], tenant: str) -> None:
    """Move the border between two fields, for whatever they may be joined by: tried one by one, since chance finds few."""
    usual = {one.name: _usual(one) for one in fields}
    words = [one for one in fields if one.kind in ("id", "text")]
    for left in words:
        for right in words:
            names = {"", right.name, right.name.lower(), right.name[:3].lower(), right.name[:1].lower()}
            joins = {f"{sign}{name}{of}" for sign in ("", *SIGNS) for name in names for of in ("", *SIGNS)}
            for join in sorted({*joins, '","', "','", '", "', '"],["'}) if left is not right else ():
                one = {**usual, left.name: f"a{join}1", right.name: "2"}
                two = {**usual, left.name: "a", right.name: f"1{join}2"}
                first, second = key_of(tenant, one), key_of(tenant, two)
                assert first is None or first != second, f"one key for two identities: {first!r} from {one} and {two}"


def _types_apart(
    key_of: Callable[[str, Mapping[str, Any]], str | None], fields: tuple[Field, ...], tenant: str
) -> None:
    usual = {one.name: _usual(one) for one in fields}
    for one in fields:
        twins = [
            (42, "42"),
            (True, "true"),
            (True, "True"),
            (True, 1),
            (None, "null"),
            (None, "undefined"),
            (None, ""),
            ({"a": 1}, {"b": 2}),
            ([1, 2], "1,2"),
            ("\ud800", "\udfff"),
            ("e\u0301", "\u00e9"),
        ]
        for left, right in twins:
            first, second = (key_of(tenant, {**usual, one.name: value}) for value in (left, right))
            assert first is None or first != second, f"{one.name}: {left!r} and {right!r} give one key, {first!r}"
        for value in (" ", "a b", "a\u200bb", "a\nb", "", "undefined", "[object Object]", "x" * 5000, float("nan")):
            key = key_of(tenant, {**usual, one.name: value})
            assert key is None, f"{one.name}: {value!r:.40} was taken for a value, and gave {key!r}"


def _complete(key_of: Callable[[str, Mapping[str, Any]], str | None], fields: tuple[Field, ...], tenant: str) -> None:
    usual = {one.name: _usual(one) for one in fields}
    assert key_of(tenant, usual) is not None, f"a plain identity is refused: {usual}"
    key = key_of(tenant, {**usual, "user_id_that_nobody_declared": "u-1"})
    assert key is None, f"a field that is not declared was dropped: {key!r}"
    for one in fields:
        short = {name: value for name, value in usual.items() if name != one.name}
        key = key_of(tenant, short)
        assert one.optional or key is None, f"{one.name} can be left out: {key!r}"
    for bad in ("undefined", "", " ", "A Tenant", "tenant:north", "t", None, ["tenant_north_01"], "tenant_nörth_01"):
        key = key_of(bad, usual)  # type: ignore[arg-type]  # what must not get through
        assert key is None, f"{bad!r} was taken for a tenant: {key!r}"


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return [(name, type(value), value) for name, value in sorted(one.items())] == [
        (name, type(value), value) for name, value in sorted(two.items())
    ]


def _usual(field: Field) -> Any:
    return {"whole": 7, "boolean": True, "digest": "ab" * 32}.get(field.kind, "a1")


def _values(field: Field) -> Any:
    from hypothesis import strategies as st

    few = min(field.max_chars, 12)
    if field.kind == "whole":
        return st.one_of(st.integers(-3, 30), st.integers(-(2**53) + 1, 2**53 - 1))
    if field.kind == "boolean":
        return st.booleans()
    if field.kind == "digest":
        return st.text("0123456789abcdef", min_size=64, max_size=64)
    return st.one_of(
        st.text("ab1" + ("_.~-" if field.clear else SIGNS), min_size=1, max_size=few),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=few),
    )


def _near(fields: tuple[Field, ...]) -> Any:
    """Two identities that differ in one field alone."""
    from hypothesis import strategies as st

    def changed(drawn: tuple[dict[str, Any], int, dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        one, at, other = drawn
        name = fields[at % len(fields)].name
        return one, {**one, name: other[name]}

    identities = st.fixed_dictionaries({one.name: _values(one) for one in fields})
    return st.tuples(identities, st.integers(0, 31), identities).map(changed)
