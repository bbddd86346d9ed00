"""The cache key gate: are the keys that live in a shared cache the ones that the code is meant to make?

1. A key is what a declared type can read back (`rules.cache_keys`). Every other is told by what is wrong with it: no declared
   schema or version, no tenant, a space, the shape of a secret, something else behind the tenant.
2. Other keys may live in the same store, where the policy names their prefix and why. They are counted, and of those that are
   locks or topics the names are held against the keys. A prefix that a declared key could begin with is refused.
3. A key is a key alone. Found in an entity tag, in the name of a lock or of a topic it fails, and so does a tag that is the
   digest in a key or a hash of a key, or the beginning of one, in hex digits or base64: it would stay the same while the bytes
   change. What the policy says has to be compared was handed in, or the verdict is refused.
4. One digest under two tenants shows that the tenant is not in it: such keys were made in another way.
5. A dump is whole, dated and fresh, and has at least so many keys. None of its keys is printed: a caption may be a prompt.
   Told are row, length, and a fingerprint where the key is too long to be guessed from it.
"""

import base64
import bisect
import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal
from urllib.parse import unquote

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.gates import Gate
from drillmaster.policy import seconds_text
from drillmaster.rules.cache_keys import MAX_KEY, KeyType, parse, types_fault
from drillmaster.screen import key_hash, screen_text
from drillmaster.verdict import Absent, Check, Cite, Exact, Measure, Role, Status, Verdict

__all__ = ["CacheKeys", "Keys", "Other", "Use", "gate"]

Use = Literal["etag", "lock", "topic"]
MAX_SKEW_S = 60.0
_CITED = 20
_TOLD = 5
_GUESSABLE = 20
_HEX = re.compile("[0-9a-f]{16,128}")
"""Fewer digits of a hash are anybody's by chance."""
_BASE64 = re.compile("[A-Za-z0-9+/_-]{11,}={0,2}")
_NAMES: dict[Use, str] = {"etag": "entity tags", "lock": "names of locks", "topic": "names of topics"}
_WHERE: dict[str, str] = {
    "schema-unknown": "schema",
    "version-unknown": "schema",
    "tenant-unbound": "tenant",
    "tenant-reserved": "tenant",
    "key-space": "whitespace",
    "key-hidden": "whitespace",
    "secret-in-key": "secret",
}
_MAKE = 'make it with the guard: CacheKey.key("cart-v3", tenant, fields)'


class Other(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of the same store that are no cache keys."""

    prefix: Annotated[str, msgspec.Meta(min_length=3, max_length=100)]
    what: Literal["lock", "topic", "other"]
    why: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """What lives in a store, at one time. `names` are other names by their use; a use that is not there was not handed in."""

    source: str
    keys: tuple[str, ...]
    taken_ns: int | None
    """Wall time; None: nobody knows when."""
    cut: str = ""
    """Where the dump ends before its end; "" else."""
    names: dict[Use, tuple[str, ...]] = {}
    file: str = ""
    """The file of which `keys` are the lines, "" where they are of none."""
    now_ns: int = 0


class CacheKeys(Gate[Keys], frozen=True, kw_only=True, tag="cache-keys"):
    """Whether a store's keys are made as they should be, each of one tenant, and used as nothing else.

    Happens: before a release, or every night, the keys of a shared cache are listed and read back.
    Breaks: keys that a model worded, that have no tenant or a space in them, that hold a secret, or that are a tag or a lock too.
    Looks like: counts by fault, each with rows and lengths; the keys themselves are not printed.
    Cannot show: that a value is its key's; that the tenant in a key was the one who asked; keys that came and went in between.
    """

    types: Annotated[tuple[KeyType, ...], msgspec.Meta(min_length=1, max_length=200)]
    """Every schema and version that may live there."""
    tenants: tuple[str, ...]
    """The tenants that there are; []: any that is written as one."""
    others: tuple[Other, ...]
    """Other keys of the same store, by their prefix."""
    compare: tuple[Use, ...]
    """Which other names have to be handed in and held against the keys."""
    min_keys: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
    """Fewer cache keys: nothing was looked at."""
    max_keys: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
    """More: the listing stops, and is refused."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
    """How old a listing may be."""
    hosts: tuple[str, ...]
    """Hosts besides this machine whose Redis may be asked; the command line has to repeat the one that is meant."""

    def __post_init__(self) -> None:
        fault = types_fault(self.types)
        if fault:
            raise ValueError(f"types: {fault}")
        for one in self.others:
            head = next((kind.head for kind in self.types if _meet(one.prefix, f"{kind.head}:")), None)
            if head is not None:
                raise ValueError(
                    f"others: {one.prefix} is how keys of {head} begin; name a prefix that none of them has"
                )
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("compare: found one twice, wanted each once")
        if self.max_keys < self.min_keys:
            raise ValueError("max_keys: found fewer than min_keys")

    def checks(self, evidence: Keys) -> Iterator[Check]:
        sorted_ = _Sorted(self, evidence)
        yield self._whole(evidence)
        yield self._fresh(evidence)
        yield _check(
            "examined",
            "refused" if sorted_.looked_at < self.min_keys else "pass",
            f"{sorted_.looked_at} cache keys were read; {sorted_.others} other keys by {len(self.others)} prefixes were not",
            role="admission",
            observed=Exact(sorted_.looked_at),
            limit=self.min_keys,
            remedy="list the store that the service uses, database and all: an empty one shows nothing",
        )
        yield from self._handed_in(evidence)
        for id_, title, remedy in _FAULTS:
            rows = sorted_.faults.get(id_, [])
            yield _check(
                id_,
                "fail" if rows else "pass",
                title,
                observed=Exact(len(rows)),
                limit=0,
                why=_told(evidence, rows, secret=id_ == "secret"),
                remedy=remedy,
                cites=_cites(evidence, rows),
            )
        yield self._known(evidence, sorted_)
        yield self._apart(evidence, sorted_)
        for use in self.compare:
            yield self._reused(use, sorted_, evidence)

    def headline(self, evidence: Keys) -> tuple[str, ...]:
        heads = ", ".join(kind.head for kind in self.types)
        return (f"{len(evidence.keys)} keys of {evidence.source}; cache keys are {heads}",)

    def closing(self, evidence: Keys, verdict: Verdict) -> tuple[str, ...]:
        return ("none of these keys is printed: what is no key of ours may be a prompt",) if verdict.exit else ()

    # Admissions

    def _whole(self, dump: Keys) -> Check:
        over = len(dump.keys) > self.max_keys
        return _check(
            "whole",
            "refused" if dump.cut or over else "pass",
            "the listing goes to its end",
            role="admission",
            observed=Exact(len(dump.keys)),
            limit=self.max_keys,
            why=dump.cut or ("more keys than the policy lets be listed" if over else ""),
            remedy="list again, or have the policy's owner raise max_keys",
        )

    def _fresh(self, dump: Keys) -> Check:
        age_s = None if dump.taken_ns is None else (dump.now_ns - dump.taken_ns) / 1e9
        wrong = age_s is None or age_s < -MAX_SKEW_S or age_s > self.max_age_s
        why = (
            "nobody knows when it was taken"
            if age_s is None
            else "it is from the future"
            if age_s < 0
            else "it is older"
        )
        return _check(
            "fresh",
            "refused" if wrong else "pass",
            f"the listing is no older than {seconds_text(self.max_age_s)}"
            + ("" if dump.taken_ns is None else f": {rfc3339(dump.taken_ns, digits=0)}"),
            role="admission",
            observed=Absent(why) if age_s is None else Exact(max(age_s, 0.0)),
            limit=self.max_age_s,
            unit="s",
            why=why,
            remedy="list the keys again; of a list of lines say when: --taken-at TIME",
        )

    def _handed_in(self, dump: Keys) -> Iterator[Check]:
        for use in self.compare:
            names = dump.names.get(use, ())
            yield _check(
                f"names.{use}",
                "pass" if names else "refused",
                f"{len(names)} {_NAMES[use]} were handed in",
                role="admission",
                observed=Exact(len(names)) if use in dump.names else Absent("not handed in"),
                limit=1,
                remedy=f"hand them in: --{use}s FILE, one a line; or have the policy's owner take {use} out of compare",
            )

    # Judgements

    def _known(self, dump: Keys, sorted_: "_Sorted") -> Check:
        strange = [row for row, tenant in sorted_.tenants if self.tenants and tenant not in self.tenants]
        return _check(
            "known-tenant",
            "fail" if strange else "pass",
            f"every tenant is one of the {len(self.tenants)} that there are"
            if self.tenants
            else "any tenant may be there",
            observed=Exact(len(strange)),
            limit=0 if self.tenants else None,
            why=_told(dump, strange),
            remedy="find out who wrote them: a tenant that nobody knows is somebody's mistake, or somebody's probe",
            cites=_cites(dump, strange),
        )

    def _apart(self, dump: Keys, sorted_: "_Sorted") -> Check:
        shared = sorted(row for rows in sorted_.shared.values() for row in rows)
        return _check(
            "tenant-in-digest",
            "fail" if shared else "pass",
            "no two tenants have one digest",
            observed=Exact(len(shared)),
            limit=0,
            why=_told(dump, shared),
            remedy=f"the tenant is not in what was digested; {_MAKE}",
            cites=_cites(dump, shared),
        )

    def _reused(self, use: Use, sorted_: "_Sorted", dump: Keys) -> Check:
        names = dump.names.get(use, ())
        hit = [at for at, name in enumerate(names, 1) if sorted_.reused(name, of_bytes=use == "etag")]
        remedy = {
            "etag": "tag with a hash of the bytes that are sent: drillmaster.rules.etags.strong_etag(body)",
            "lock": "name the lock after what it protects, in a namespace of its own",
            "topic": "name the topic after what is said on it, in a namespace of its own",
        }[use]
        return _check(
            f"reuse.{use}",
            "fail" if hit else "pass",
            f"no cache key is one of {len(names)} {_NAMES[use]}, or in one",
            observed=Exact(len(hit)),
            limit=0,
            why=f"{len(hit)} of them, such as number {', '.join(map(str, hit[:_TOLD]))}" if hit else "",
            remedy=remedy,
        )


class _Sorted:
    """The keys of a dump, each read once."""

    def __init__(self, gate: CacheKeys, dump: Keys) -> None:
        self._types = gate.types
        self.faults: dict[str, list[int]] = {}
        self.tenants: list[tuple[int, str]] = []
        self.shared: dict[str, list[int]] = {}
        self.looked_at = self.others = 0
        prefixes = tuple(one.prefix for one in gate.others)
        seen: dict[str, tuple[str, int]] = {}
        self._digests: set[str] = set()
        self._keys: list[str] = []
        for row, key in enumerate(dump.keys, 1):
            if prefixes and key.startswith(prefixes):
                self.others += 1
                continue
            self.looked_at += 1
            parsed = parse(self._types, key)
            if parsed.fault:
                fault = "secret" if screen_text(key) != key else _WHERE.get(parsed.fault, "shape")
                self.faults.setdefault(fault, []).append(row)
                continue
            self.tenants.append((row, parsed.tenant))
            self._digests.add(parsed.digest)
            self._keys.append(key)
            named = f"{parsed.head}.{parsed.digest}"
            tenant, first = seen.setdefault(named, (parsed.tenant, row))
            if tenant != parsed.tenant:
                self.shared.setdefault(named, [first]).append(row)
        self._hashes: list[str] | None = None
        self._shapes = [_shape(kind) for kind in self._types]

    def reused(self, name: str, *, of_bytes: bool) -> bool:
        """Whether a name holds a key of ours, or, of a tag, is a hash of one or the beginning of one."""
        return any(self._holds(text) or (of_bytes and self._tags(text)) for text in _readings(name))

    def _holds(self, text: str) -> bool:
        for shape in self._shapes:
            for match in shape.finditer(text):
                if not parse(self._types, ":".join(match.groups())).fault:
                    return True
        return False

    def _tags(self, text: str) -> bool:
        if self._hashes is None:
            self._hashes = sorted({*_hashes(self._keys), *self._digests})
        for run in _HEX.findall(text.lower()):
            at = bisect.bisect_left(self._hashes, run)
            if self._hashes[at : at + 1] and self._hashes[at].startswith(run):
                return True
        return False


def _shape(kind: KeyType) -> "re.Pattern[str]":
    """Give how a key of that type looks inside a longer name, its parts joined by what names are joined by."""
    shown = sum(one.clear for one in kind.fields)
    keyed = re.escape(f"{kind.keyed}.") if kind.keyed else ""
    join = (
        "[:/|]" if shown else "[:/|.]"
    )  # what stands in the clear may have dots of its own: nobody knows which one parts
    clear = rf"{join}([A-Za-z0-9_.~-]{{0,{MAX_KEY}}})" * shown
    digest = f"{keyed}[0-9a-f]{{{kind.digest_chars}}}"
    return re.compile(rf"({re.escape(kind.head)}){join}([a-z0-9_-]{{1,64}}){clear}{join}({digest})(?![0-9a-f])")


def _readings(name: str) -> Iterator[str]:
    """Give a name as it is, in small letters, without the escapes of a URL, and as what it is in base64: text and hex digits."""
    text = name.removeprefix("W/").strip("\"' \t")
    plain = unquote(text) if "%" in text else text
    yield from dict.fromkeys((text, plain, plain.lower()))
    if len(text) <= 2 * MAX_KEY and _BASE64.fullmatch(text):
        digits = text.rstrip("=").replace("-", "+").replace("_", "/")
        with contextlib.suppress(ValueError):
            data = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
            yield data.decode("ascii", "replace")
            yield data.hex()


def _hashes(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        data = key.encode()
        yield hashlib.sha256(data).hexdigest()
        yield hashlib.sha1(data, usedforsecurity=False).hexdigest()
        yield hashlib.md5(data, usedforsecurity=False).hexdigest()


def _meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


_FAULTS = (
    ("schema", "every key begins with a declared schema and version", f"declare it, or stop making it; {_MAKE}"),
    ("tenant", "every key has a tenant in the clear, written as tenants are", _MAKE),
    ("whitespace", "no key has a space, or a character that cannot be seen", _MAKE),
    (
        "secret",
        "no key has the shape of a secret",
        "revoke it, delete the key, and make keys of fields that may be seen",
    ),
    ("shape", "behind the tenant every key is what its type writes", _MAKE),
)


def _check(
    id_: str,
    status: Status,
    title: str,
    *,
    role: Role = "judgement",
    observed: Measure | None = None,
    limit: float | None = None,
    unit: str = "",
    why: str = "",
    remedy: str = "",
    cites: tuple[Cite, ...] = (),
) -> Check:
    red = status != "pass"
    return Check(
        id=id_,
        role=role,
        status=status,
        title=title,
        observed=observed,
        limit=limit,
        unit=unit,
        why=why if red else "",
        remedy=remedy if red else "",
        cites=cites if red else (),
    )


def _told(dump: Keys, rows: list[int], *, secret: bool = False) -> str:
    said = []
    for row in rows[:_TOLD]:
        key = dump.keys[row - 1]
        mark = f", {key_hash(key.encode('utf-8', 'backslashreplace'))}" if len(key) >= _GUESSABLE and not secret else ""
        said.append(f"row {row} ({len(key)} characters{mark})")
    more = f" and {len(rows) - _TOLD} more" if len(rows) > _TOLD else ""
    return "; ".join(said) + more


def _cites(dump: Keys, rows: list[int]) -> tuple[Cite, ...]:
    return tuple(Cite(dump.file, row) for row in rows[:_CITED]) if dump.file else ()


gate = CacheKeys
