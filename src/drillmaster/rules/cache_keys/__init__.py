"""The law of cache keys: which string names one object of one tenant, and what no key can be.

1. A key is made from typed fields and from nothing else: `NAME-vN:TENANT[:CLEAR...]:[ID.]DIGEST`. Schema and version come
   first, the tenant stands in the clear, then the fields that the type shows, then a digest over all of them.
2. What is digested is a JSON array in canonical form (RFC 8785) of schema, version, tenant and each field with its name. Text
   in it is quoted, so no value can move its end into the next one: two identities have two texts. Nothing is joined by a
   sign.
3. A field has one type, matched exactly: 42 is no "42", true is no 1. Text is in normal form C, without a space, without a
   character that cannot be seen, and is not what other languages write for nothing (`undefined`, `null`, `NaN`). A field that
   is not declared is refused, one that is missing too, unless it is optional; then it is left out, not written as something.
4. The tenant is small letters, digits, `_` and `-`. It cannot hold the sign that parts a key, and has no second spelling.
5. No secret goes into a key, whether it is seen there or only digested.
6. The digest is SHA-256, cut to 32 hex digits or more. 128 bits: among a billion objects of one tenant two share a key by
   chance less often than once in 10^20, and no cut makes two tenants meet. Whoever can choose fields needs 2^64 trials for a pair
   of their own. With `keyed` it is HMAC-SHA-256: without the secret nobody finds out a short id by trying. The secret's name
   stands in the key, so a key made with another secret is another key.
7. A key can be read back: schema, version, tenant, what stands in the clear. What cannot be read back by a declared type is
   no key, whoever wrote it. A caption, a summary, a URL has no schema, or no tenant, or no digest.
8. The result of a tool is one user's: its key has the user in the clear and a digest over the tool's name and its arguments.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal

import msgspec

__all__ = [
    "FAULTS",
    "MAX_KEY",
    "MEMO",
    "Field",
    "KeyType",
    "Minted",
    "Parsed",
    "memo_key",
    "mint",
    "parse",
    "types_fault",
]

MAX_KEY = 250
"""Characters of a key; what memcached takes."""
MIN_SECRET_BYTES = 16

FAULTS: dict[str, str] = {
    "tenant-unbound": "No tenant, or one that is not written as tenants are.",
    "tenant-reserved": "The tenant is what a language writes for nothing.",
    "field-missing": "A field that makes the identity is not there.",
    "field-unknown": "A field that the type does not have: dropped, two objects would share a key.",
    "field-type": "A value of another type than the field's.",
    "field-empty": "An empty value.",
    "field-space": "A space, of whatever kind.",
    "field-hidden": "A character that cannot be seen, or half of one.",
    "field-form": "Text that is not in normal form C, so that it has a second spelling.",
    "field-signs": "A character that this field cannot have.",
    "field-range": "Too long, or a whole number that not every reader holds exactly.",
    "field-reserved": "What a language writes for nothing.",
    "secret-in-key": "It has the shape of a secret.",
    "secret-missing": "The type is keyed, and no secret of at least 16 bytes was given.",
    "secret-unasked": "A secret was given for a type that is not keyed.",
    "args-unusable": "Arguments that JSON cannot hold without loss.",
    "not-text": "It is no text.",
    "key-empty": "It is empty.",
    "key-space": "A space in a key.",
    "key-hidden": "A character outside printable ASCII.",
    "key-long": "Longer than a key can be.",
    "schema-unknown": "It begins with no declared schema.",
    "version-unknown": "The schema is known, and this version of it is not declared.",
    "key-shape": "Behind the tenant it is not what the type writes.",
}
"""Why something is no key, by id. No text of anybody's is in it."""

Kind = Literal["id", "text", "whole", "boolean", "digest"]
_MAX_WHOLE = 2**53 - 1
_RESERVED = frozenset({"undefined", "null", "none", "nil", "nan", "infinity", "-infinity", "[object object]"})
_TENANT = re.compile(r"[a-z0-9_-]{1,64}")
_ID = re.compile(r"[\x21-\x7e]+")
_CLEAR = re.compile(r"[A-Za-z0-9_.~-]+")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,15}")
_HEX = re.compile(r"[0-9a-f]{64}")
_HEAD = re.compile(r"([a-z][a-z0-9-]{0,31})-v([1-9][0-9]{0,4})")
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800") | frozenset(
    chr(one) for one in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)


class Field(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of an identity."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_]{0,39}\Z")]
    kind: Kind
    """`id`: printable ASCII. `text`: any script. `whole`, `boolean`. `digest`: 64 hex digits of a SHA-256."""
    optional: bool = False
    clear: bool = False
    """It stands in the key to be read: letters, digits, `_ . ~ -`. Never for what names a person."""
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 128

    def __post_init__(self) -> None:
        if self.clear and self.kind == "text":
            raise ValueError(f"{self.name}: text of any script cannot stand in the clear; make it an id, or digest it")


class KeyType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of key. Another list of fields is another `version`."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z", max_length=24)]
    version: Annotated[int, msgspec.Meta(ge=1, le=99_999)]
    fields: Annotated[tuple[Field, ...], msgspec.Meta(min_length=1, max_length=32)]
    digest_chars: Literal[32, 40, 64] = 32
    keyed: Annotated[str, msgspec.Meta(pattern=r"\A(?:[a-z0-9]{1,12})?\Z")] = ""
    """The name of the secret that digests it; "": plain SHA-256, from which a short id can be found by trying."""
    min_tenant_chars: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """A short tenant is more often a mistake than a tenant. `acme` needs 4 here, decided by whoever owns the policy."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.fields]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.head}: a field that stands twice")
        if all(one.optional for one in self.fields):
            raise ValueError(
                f"{self.head}: wanted a field that is not optional: without one it names a tenant, no object"
            )

    @property
    def head(self) -> str:
        """What its keys begin with."""
        return f"{self.name}-v{self.version}"


class Minted(msgspec.Struct, frozen=True):
    """A key, or why there is none. `where` is the declared field that is wrong, "" where it is none of them."""

    key: str
    fault: str = ""
    where: str = ""


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A key read back, or why it is none: `fault`, and then the rest is empty."""

    fault: str = ""
    head: str = ""
    tenant: str = ""
    clear: dict[str, str | int | bool] = {}
    keyed: str = ""
    digest: str = ""


def types_fault(types: Iterable[KeyType]) -> str:
    """Say what is wrong with a list of types: two of one schema and version; "" where nothing is."""
    heads = [one.head for one in types]
    twice = next((head for head in heads if heads.count(head) > 1), "")
    return f"{twice} is declared twice" if twice else ""


def mint(kind: KeyType, tenant: object, fields: Mapping[str, object], *, secret: bytes | None = None) -> Minted:
    """Make the key of an identity, or say why there is none. Raises nothing, whatever is handed in."""
    fault = _tenant_fault(tenant, kind.min_tenant_chars)
    if fault or type(tenant) is not str:
        return Minted("", fault)
    fault = _secret_fault(kind, secret)
    if fault:
        return Minted("", fault)
    declared = {one.name for one in kind.fields}
    handed: object = fields
    if not isinstance(handed, Mapping):
        return Minted("", "field-unknown")
    try:
        # A copy: what is asked twice could answer twice.
        fields = dict(handed)
    except Exception:  # noqa: BLE001 - a mapping of somebody's own raises whatever it likes
        return Minted("", "field-unknown")
    if any(type(name) is not str or name not in declared for name in fields):
        return Minted("", "field-unknown")
    pairs: list[list[object]] = []
    shown: list[str] = []
    for one in kind.fields:
        if one.name not in fields:
            if not one.optional:
                return Minted("", "field-missing", one.name)
            shown += [""] if one.clear else []
            continue
        value = fields[one.name]
        fault = _value_fault(one, value)
        if fault:
            return Minted("", fault, one.name)
        pairs.append([one.name, value])
        shown += [_written(value)] if one.clear else []
    key = ":".join((kind.head, tenant, *shown, _digest(kind, tenant, pairs, secret)))
    return Minted(key) if len(key) <= MAX_KEY else Minted("", "key-long")


def parse(types: Iterable[KeyType], key: object) -> Parsed:
    """Read a key back by the declared types, or say why it is none."""
    if type(key) is not str:
        return Parsed(fault="not-text")
    if not key:
        return Parsed(fault="key-empty")
    if not _ID.fullmatch(key):
        return Parsed(fault="key-space" if any(char.isspace() for char in key) else "key-hidden")
    if len(key) > MAX_KEY:
        return Parsed(fault="key-long")
    head, *rest = key.split(":")
    known = {one.head: one for one in types}
    kind = known.get(head)
    if kind is None:
        named = _HEAD.fullmatch(head)
        same = named is not None and any(one.name == named[1] for one in known.values())
        return Parsed(fault="version-unknown" if same else "schema-unknown")
    if not rest:
        return Parsed(fault="tenant-unbound")
    tenant, *rest = rest
    fault = _tenant_fault(tenant, kind.min_tenant_chars)
    if fault:
        return Parsed(fault=fault)
    return _behind_tenant(kind, tenant, rest)


def _behind_tenant(kind: KeyType, tenant: str, rest: list[str]) -> Parsed:
    shown = [one for one in kind.fields if one.clear]
    if len(rest) != len(shown) + 1:
        return Parsed(fault="key-shape")
    clear: dict[str, str | int | bool] = {}
    for one, text in zip(shown, rest, strict=False):  # the digest is left over
        if not text and one.optional:
            continue
        value = _read(one, text)
        if value is None:
            return Parsed(fault="key-shape")
        fault = _value_fault(one, value)
        if fault:
            return Parsed(fault="secret-in-key" if fault == "secret-in-key" else "key-shape")
        clear[one.name] = value
    keyed, dot, digest = rest[-1].rpartition(".")
    if keyed != kind.keyed or bool(dot) != bool(kind.keyed):
        return Parsed(fault="key-shape")
    if len(digest) != kind.digest_chars or re.fullmatch("[0-9a-f]+", digest) is None:
        return Parsed(fault="key-shape")
    return Parsed(head=kind.head, tenant=tenant, clear=clear, keyed=keyed, digest=digest)


MEMO = KeyType(
    name="memo",
    version=1,
    fields=(
        Field(name="user", kind="id", clear=True, max_chars=64),
        Field(name="tool", kind="id"),
        Field(name="args", kind="digest"),
        Field(name="contract", kind="digest", optional=True),
    ),
)
"""The kind of a tool result's key. `user` is an opaque id, no address; `contract` the digest of the tool's pinned contract."""


def memo_key(
    tenant: object,
    *,
    user: object,
    tool: object,
    args: object,
    contract: str | None = None,
    kind: KeyType = MEMO,
    secret: bytes | None = None,
) -> Minted:
    """Make the key under which a tool's result may be kept: for this user alone, and these very arguments.

    `kind` is `MEMO`, or one with the same fields that is keyed.
    """
    from drillmaster.errors import Problem
    from drillmaster.strict import canonical

    if type(args) is not dict:
        return Minted("", "args-unusable", "args")
    try:
        digest = hashlib.sha256(canonical(args)).hexdigest()
    except (Problem, RecursionError, ValueError):  # the last: a number of more digits than Python writes down
        return Minted("", "args-unusable", "args")
    fields: dict[str, object] = {"user": user, "tool": tool, "args": digest}
    if contract is not None:
        fields["contract"] = contract
    return mint(kind, tenant, fields, secret=secret)


def _digest(kind: KeyType, tenant: str, pairs: list[list[object]], secret: bytes | None) -> str:
    from drillmaster.strict.jcs import canonical

    material = canonical([kind.name, kind.version, tenant, pairs])
    if kind.keyed and secret is not None:
        told = hmac.new(secret, material, hashlib.sha256).hexdigest()
        return f"{kind.keyed}.{told[: kind.digest_chars]}"
    return hashlib.sha256(material).hexdigest()[: kind.digest_chars]


def _secret_fault(kind: KeyType, secret: object) -> str:
    if not kind.keyed:
        return "" if secret is None else "secret-unasked"
    return "" if type(secret) is bytes and len(secret) >= MIN_SECRET_BYTES else "secret-missing"


def _tenant_fault(tenant: object, least: int) -> str:
    if type(tenant) is not str or not _TENANT.fullmatch(tenant) or len(tenant) < least:
        return "tenant-unbound"
    return _told_of_tenant(tenant)


@lru_cache(maxsize=4096)  # one tenant has many keys
def _told_of_tenant(tenant: str) -> str:
    if tenant.strip("_-") in _RESERVED or not tenant.strip("_-"):
        return "tenant-reserved"
    return "secret-in-key" if _secretive(tenant) else ""


def _value_fault(field: Field, value: object) -> str:
    if field.kind == "boolean":
        return "" if type(value) is bool else "field-type"
    if field.kind == "whole":
        if type(value) is not int:
            return "field-type"
        return "" if abs(value) <= _MAX_WHOLE else "field-range"
    if type(value) is not str:
        return "field-type"
    if not value:
        return "field-empty"
    if len(value) > field.max_chars:
        return "field-range"
    if field.kind == "digest":
        return "" if _HEX.fullmatch(value) else "field-signs"
    return _text_fault(field, value)


def _text_fault(field: Field, value: str) -> str:
    if not _ID.fullmatch(value):
        if any(char.isspace() for char in value):
            return "field-space"
        if any(unicodedata.category(char)[0] in "CZ" or char in _UNSEEN for char in value):
            return "field-hidden"
        if field.kind == "id":
            return "field-signs"
        if not unicodedata.is_normalized("NFC", value):
            return "field-form"
    if field.clear and not _CLEAR.fullmatch(value):
        return "field-signs"
    if value.casefold() in _RESERVED:
        return "field-reserved"
    return "secret-in-key" if _secretive(value) else ""


def _secretive(value: str) -> bool:
    from drillmaster.screen import screen_text

    return screen_text(value) != value


def _written(value: object) -> str:
    return str(value).lower() if type(value) is bool else str(value)


def _read(field: Field, text: str) -> str | int | bool | None:
    """Read what stands in the clear; None: it is nothing that `mint` writes."""
    if field.kind == "boolean":
        return {"true": True, "false": False}.get(text)
    if field.kind == "whole":
        return int(text) if _WHOLE.fullmatch(text) else None
    return text or None
