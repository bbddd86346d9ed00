"""The properties find what is wrong with keys that people write, and let by what is right."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest

from drillmaster.rules.cache_keys import MEMO, Field, KeyType
from drillmaster.rules.cache_keys.properties import Make, prove_function, prove_type

FIELDS = (Field(name="cartId", kind="id"), Field(name="catalogVersion", kind="id"))
SECRET = b"0123456789abcdef"


def checked(tenant: str, fields: Mapping[str, Any], names: tuple[str, ...] = ("cartId", "catalogVersion")) -> None:
    """Refuse what a careful function refuses."""
    if type(tenant) is not str or not (tenant.isascii() and tenant.replace("_", "").isalnum() and len(tenant) >= 8):
        raise ValueError("tenant")
    if set(fields) != set(names) or tenant == "undefined" or tenant.lower() != tenant:
        raise ValueError("fields")
    for value in fields.values():
        if type(value) is not str or not value or not value.isprintable() or " " in value or len(value) > 200:
            raise ValueError("value")
        if value in ("undefined", "[object Object]") or unicodedata.normalize("NFC", value) != value:
            raise ValueError("value")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def careful(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart-v3:{tenant}:" + digest(json.dumps([tenant, fields["cartId"], fields["catalogVersion"]]))


def article(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart-v3:{tenant}:" + digest(f"cart-v3|{tenant}|cart|{fields['cartId']}|cat:{fields['catalogVersion']}")


def glued(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart-v3:{tenant}:" + digest(fields["cartId"] + fields["catalogVersion"])


def unbound(tenant: str, fields: Mapping[str, Any]) -> str:
    return "cart-v3:" + careful(tenant, fields)[-32:] + ":" + tenant[:8]


def without_tenant(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return "cart-v3:tenant_north_01:" + digest(json.dumps([fields["cartId"], fields["catalogVersion"]]))


def forgetful(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart-v3:{tenant}:" + digest(fields["cartId"])


def ordered(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart-v3:{tenant}:" + digest(json.dumps([tenant, list(fields.items())]))


def careless_of_types(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, {name: str(value) for name, value in fields.items()})
    return f"cart-v3:{tenant}:" + digest(json.dumps([tenant, str(fields["cartId"]), str(fields["catalogVersion"])]))


def dropping(tenant: str, fields: Mapping[str, Any]) -> str:
    return careful(tenant, {name: fields[name] for name in ("cartId", "catalogVersion")})


def random_at(tenant: str, fields: Mapping[str, Any], seen: list[int] = [0]) -> str:  # noqa: B006 - a state, as a model has
    seen[0] += 1
    return careful(tenant, fields)[:-4] + f"{seen[0]:04x}"


def caption(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, fields)
    return f"cart of {tenant} with {digest(str(sorted(fields.items())))}"


def spaces(tenant: str, fields: Mapping[str, Any]) -> str:
    checked(tenant, {name: value.replace(" ", "_") if type(value) is str else value for name, value in fields.items()})
    return f"cart-v3:{tenant}:" + digest(json.dumps([tenant, fields["cartId"], fields["catalogVersion"]]))


def nothing(tenant: str, fields: Mapping[str, Any]) -> str:
    raise ValueError("no")


def test_a_careful_function_is_let_by() -> None:
    prove_function(careful, FIELDS)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (article, "one key for two identities"),
        (glued, "one key for two identities"),
        (unbound, "cannot be found in"),
        (without_tenant, "one key for two identities|two tenants share"),
        (forgetful, "one key for two identities"),
        (ordered, "the order of fields"),
        (careless_of_types, "give one key"),
        (dropping, "not declared was dropped"),
        (random_at, "two keys for one identity|the order of fields"),
        (caption, "a key with a space"),
        (spaces, "was taken for a value"),
        (nothing, "refuses everything"),
    ],
)
def test_what_people_write_is_found_out(make: Make, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        prove_function(make, FIELDS)


@pytest.mark.parametrize(
    "kind",
    [
        KeyType(name="cart", version=3, fields=FIELDS),
        KeyType(name="one", version=1, fields=(Field(name="id", kind="id", clear=True),), keyed="k1"),
        KeyType(
            name="page",
            version=12,
            fields=(
                Field(name="site", kind="id", clear=True),
                Field(name="title", kind="text"),
                Field(name="number", kind="whole", clear=True),
                Field(name="draft", kind="boolean", optional=True),
                Field(name="body", kind="digest"),
            ),
            digest_chars=64,
        ),
        MEMO,
    ],
    ids=lambda kind: kind.head,
)
def test_every_declared_type_has_the_properties(kind: KeyType) -> None:
    prove_type(kind, secret=SECRET if kind.keyed else None)


def test_one_tenant_proves_nothing() -> None:
    with pytest.raises(ValueError, match="two at least"):
        prove_function(careful, FIELDS, tenants=("tenant_north_01",))
