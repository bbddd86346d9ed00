"""Which requests a fault's rules meet: matchers, counts, times and shares. No clock, no socket; the time is given.

1. Rules are tried in order, each on its own: one takes a request or leaves it. All that take it act on it in that order: a
   rule whose fault has sent nothing and asked for no more (a delay) hands the request on to the next.
2. A request is counted by a rule when it fits `when` and came within the rule's times (`schedule`, `flap`). Of the
   counted, `nth`, or `skip`, `every` and `first`, choose by number, so in the order of arrival.
3. Of the chosen, `share` takes some by lot, and the lot is no coin: a hash of the seed, the rule's name, the request's
   fingerprint and how often this rule has seen that fingerprint. The same seed and the same requests give the same fates,
   in whatever order they arrive and on whatever connections.
4. The fingerprint is method, target and body, without the drill's own nonces. Headers are not in it: traces and dates differ
   from run to run.
5. `model`, `stream`, `tools` and `share` need the body. A body over `MATCH_BYTES` is not waited for: such a request is left
   alone and counted as undecided. So is one in a coding that we cannot read, where a rule looks into it.
"""

import fnmatch
import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

__all__ = [
    "MATCH_BYTES",
    "MAX_RULES",
    "Aim",
    "Asked",
    "Flap",
    "Ramp",
    "Rule",
    "Rules",
    "When",
    "Wrong",
    "could_fit",
    "faster",
    "fingerprint",
    "label",
    "most_taken",
    "named",
    "on_ratio",
    "told",
    "unreached",
    "what_is_wrong",
    "with_params",
    "words",
]

MATCH_BYTES = 16 * 1024 * 1024
MAX_RULES = 32
MAX_RULE_BYTES = 3_000
"""Of one rule as JSON: it has to fit a line of evidence."""
MAX_FINGERPRINTS = 65_536
MAX_LABELLED = 4
MAX_SAID = 60
"""Of the value of a parameter, where a fault is told in short words."""

_NONCE = re.compile(rb"dmn[0-9a-f]{16}")
_KEY = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_METHOD = re.compile(r"[A-Za-z-]{1,20}")
_QUERY = re.compile(r"\?[^/?*]*=")
_HOP = frozenset(
    (
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    )
)
"""Fields of the connection and of the framing: no rule sees them."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class When(_Part, frozen=True, kw_only=True):
    """What a request must look like; all that is said must hold. Patterns know `*`, `?` and `[abc]`, and mind case."""

    method: str | None = None
    path: str | None = None
    """Pattern of the path, without the query: `/v1/chat/*`."""
    header: dict[str, str] = {}
    """Name of a field, in any case, to the pattern of its value; `"*"`: it is there."""
    dialect: str | None = None
    """Which API the request speaks, as the attempts' lines call it: `openai_chat`."""
    model: str | None = None
    """Pattern of the model that the request names."""
    stream: bool | None = None
    """Whether it asks for a stream; a request that does not say asks for none."""
    tools: bool | None = None
    """Whether it offers the model tools."""
    key: str | None = None
    """The credential, by the first 16 hex digits of its sha256, as the attempts' lines show it."""


class Flap(_Part, frozen=True, kw_only=True):
    """On for `on_s`, then off for `off_s`, and again, from the injection."""

    on_s: float
    off_s: float


class Ramp(_Part, frozen=True, kw_only=True):
    """The share moves evenly from `share` to `to` within `over_s` of the injection, and stays there."""

    to: float
    over_s: float


class Rule(_Part, frozen=True, kw_only=True):
    """One fault, and which requests it meets."""

    mode: str | int
    """A fault's tag, as in `fault.mode`."""
    params: dict[str, Any] = {}
    name: str = ""
    """How evidence calls it; without one it is `r1`, `r2`, … by its place."""
    when: When = When()
    share: float = 1.0
    """0 < share <= 1, of the requests that are chosen; by lot, the same lot each time (see `seed`)."""
    ramp: Ramp | None = None
    nth: tuple[int, ...] = ()
    """These of the counted requests, from 1; in place of `skip`, `every` and `first`."""
    skip: int = 0
    """Leave the first so many alone."""
    every: int = 1
    """Then each so-manieth."""
    first: int | None = None
    """And no more than so many."""
    schedule: tuple[tuple[float, float], ...] = ()
    """Spans in seconds from the injection, `[from, until]`; outside of them the rule is off."""
    flap: Flap | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "mode", str(self.mode))

    @property
    def tag(self) -> str:
        return str(self.mode)

    @property
    def looks_inside(self) -> bool:
        """Whether it takes what the body says to decide."""
        when = self.when
        return when.model is not None or when.stream is not None or when.tools is not None

    @property
    def reads_body(self) -> bool:
        """Whether it takes the body to decide."""
        return self.looks_inside or self.share < 1 or self.ramp is not None

    @property
    def plain(self) -> bool:
        """Whether it meets every request."""
        return self == Rule(mode=self.mode, params=self.params, name=self.name)


class Rules(_Part, frozen=True, kw_only=True):
    """A file of rules alone, as `drillmaster proxy inject --rules` takes it."""

    rules: tuple[Rule, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as far as rules look at it. `model`, `stream`, `tools` and `print` None: its body was not read."""

    method: str
    path: str
    header: Callable[[str], str | None]
    """The value of a field by its name in lower case; several of one name are joined by `, `."""
    dialect: str
    key: str | None
    model: str | None = None
    stream: bool | None = None
    tools: bool | None = None
    print: bytes | None = None
    """Its fingerprint."""
    legible: bool = True
    """False: its body is not there, or in a coding that we cannot read."""


class Wrong(msgspec.Struct, frozen=True):
    """What is wrong with a rule, for an error that names the place."""

    pointer: str
    found: str
    wanted: str
    remedy: str


def fingerprint(method: str, target: bytes, body: bytes) -> bytes:
    """What makes two requests the same to the lot: method, target and body without the drill's nonces."""
    said = hashlib.sha256(b"%b %b\n" % (method.encode("latin-1"), _NONCE.sub(b"", target)))
    said.update(_NONCE.sub(b"", body) if b"dmn" in body else body)
    return said.digest()


def most_taken(rule: Rule, requests: int) -> float:
    """How many of so many requests a rule takes on average, if all fit its `when` and its times."""
    if rule.nth:
        chosen = sum(1 for number in rule.nth if number <= requests)
    else:
        chosen = max(0, requests - rule.skip) // rule.every
        chosen = chosen if rule.first is None else min(chosen, rule.first)
    return chosen * (rule.share if rule.ramp is None else max(rule.share, rule.ramp.to))


def on_ratio(rule: Rule, window_s: float) -> float:
    """For how much of a window of so many seconds a rule is on, by its schedule and flap, 0..1."""
    on_s, until_s = 0.0, 0.0
    for start, end in sorted(rule.schedule) or [(0.0, window_s)]:
        start, end = max(start, until_s), min(end, window_s)
        on_s += max(0.0, end - start)
        until_s = max(until_s, end)
    flap = rule.flap
    return on_s / window_s * (1.0 if flap is None else flap.on_s / (flap.on_s + flap.off_s))


def faster(rule: Rule, factor: float) -> Rule:
    """The rule with its times divided by `factor`."""
    return msgspec.structs.replace(
        rule,
        schedule=tuple((start / factor, end / factor) for start, end in rule.schedule),
        flap=None if rule.flap is None else Flap(on_s=rule.flap.on_s / factor, off_s=rule.flap.off_s / factor),
        ramp=None if rule.ramp is None else Ramp(to=rule.ramp.to, over_s=rule.ramp.over_s / factor),
    )


def label(rules: Iterable[Rule]) -> str:
    """What people call several rules: their faults, the first few of them."""
    tags = list(dict.fromkeys(rule.tag for rule in rules))
    more = [f"{len(tags) - MAX_LABELLED} more"] if len(tags) > MAX_LABELLED + 1 else tags[MAX_LABELLED:]
    return " + ".join((*tags[:MAX_LABELLED], *more))


def named(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules, each with a name."""
    return tuple(r if r.name else msgspec.structs.replace(r, name=f"r{n}") for n, r in enumerate(rules, 1))


def words(rule: Rule) -> str:
    """A rule in short words: `rate-limit (retry_after_s 1) for model gpt-4*, share 0.3`."""
    whom = told(rule)
    return with_params(rule.tag, rule.params) + (f" for {whom}" if whom else "")


def with_params(tag: str, params: dict[str, Any]) -> str:
    """A fault with what was said of it: `rate-limit (retry_after_s 1)`."""
    said = ", ".join(f"{name} {_plainly(value)}" for name, value in params.items())
    return f"{tag} ({said})" if said else tag


def _plainly(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SAID else text[: MAX_SAID - 1] + "…"


def told(rule: Rule) -> str:
    """Whom a rule meets, in short words: `model gpt-4*, first 10, share 0.3`; empty where it meets every request."""
    when = rule.when
    words = [
        f"{name} {value}" for name in ("method", "path", "dialect", "model", "key") if (value := getattr(when, name))
    ]
    words += [f"{name}: {value}" for name, value in when.header.items()]
    words += [] if when.stream is None else ["streams" if when.stream else "whole answers"]
    words += [] if when.tools is None else ["with tools" if when.tools else "without tools"]
    words += [f"number {' '.join(map(str, rule.nth))}"] if rule.nth else []
    words += [f"after the first {rule.skip}"] if rule.skip else []
    words += [f"one in {rule.every}"] if rule.every > 1 else []
    words += [] if rule.first is None else [f"the first {rule.first}"]
    if rule.ramp is not None:
        words.append(f"share {rule.share:g} to {rule.ramp.to:g} in {rule.ramp.over_s:g} s")
    elif rule.share < 1:
        words.append(f"share {rule.share:g}")
    words += [f"{start:g}-{end:g} s" for start, end in rule.schedule]
    words += [f"{rule.flap.on_s:g} s on, {rule.flap.off_s:g} s off"] if rule.flap is not None else []
    return ", ".join(words)


def could_fit(when: When, *, dialect: str, model: str | None) -> bool:
    """Whether a request of which no more is known could look as `when` says. A model that was not read could be any."""
    pattern = _pattern(when.model)
    return (when.dialect is None or when.dialect == dialect) and (
        pattern is None or model is None or pattern.match(model) is not None
    )


class Aim:
    """One rule at work in one window: what it has counted, and whom it takes."""

    __slots__ = (
        "_fields",
        "_first_left",
        "_model",
        "_path",
        "_seed",
        "_seen",
        "counted",
        "matched",
        "rule",
        "taken",
        "undecided",
    )

    def __init__(self, rule: Rule, seed: int) -> None:
        self.rule = rule
        self._seed = seed
        when = rule.when
        self._path = _pattern(when.path)
        self._model = _pattern(when.model)
        self._fields = [(name.lower(), _pattern(value)) for name, value in when.header.items()]
        self._first_left = rule.first
        self._seen: dict[bytes, int] = {}
        self.matched = 0
        """Requests that fit `when`."""
        self.counted = 0
        """Of those, the ones within the rule's times."""
        self.taken = 0
        self.undecided = 0
        """Requests whose body was too large to decide on, or in a coding that we cannot read."""

    def fits(self, asked: Asked) -> bool:
        """Whether the request looks as `when` says."""
        when = self.rule.when
        return not (
            (when.method is not None and asked.method != when.method)
            or (when.dialect is not None and asked.dialect != when.dialect)
            or (when.key is not None and asked.key != when.key)
            or (self._path is not None and not self._path.match(asked.path))
            or not all(_has(asked.header(name), value) for name, value in self._fields)
            or (self._model is not None and not (asked.model is not None and self._model.match(asked.model)))
            or (when.stream is not None and bool(asked.stream) is not when.stream)
            or (when.tools is not None and bool(asked.tools) is not when.tools)
        )

    def takes(self, asked: Asked, since_s: float) -> random.Random | None:
        """Whether it takes this request, `since_s` after the injection: the generator that goes with its fate, or None."""
        rule = self.rule
        if (rule.reads_body and asked.print is None) or (rule.looks_inside and not asked.legible):
            self.undecided += 1
            return None
        if not self.fits(asked):
            return None
        self.matched += 1
        occurrence = 0
        if asked.print is not None:
            occurrence = self._seen[asked.print] = self._seen.pop(asked.print, 0) + 1
            if len(self._seen) > MAX_FINGERPRINTS:
                del self._seen[next(iter(self._seen))]
        if not self._is_on(since_s):
            return None
        self.counted += 1
        if not self._has_the_number(self.counted):
            return None
        fate = self._fate(asked, occurrence)
        share = self._share(since_s)
        if share < 1 and fate.random() >= share:
            return None
        self.taken += 1
        return fate

    def _fate(self, asked: Asked, occurrence: int) -> random.Random:
        """The lot of one request, and after the first draw the generator of its fault's script."""
        what = f"#{self.counted}" if asked.print is None else f"{asked.print.hex()}/{occurrence}"
        return random.Random(f"{self._seed}/{self.rule.name}/{what}")  # noqa: S311 - fates, not secrets

    def _is_on(self, since_s: float) -> bool:
        rule = self.rule
        if rule.schedule and not any(start <= since_s < end for start, end in rule.schedule):
            return False
        flap = rule.flap
        return flap is None or since_s % (flap.on_s + flap.off_s) < flap.on_s

    def _has_the_number(self, number: int) -> bool:
        rule = self.rule
        if rule.nth:
            return number in rule.nth
        if number <= rule.skip or (number - rule.skip) % rule.every:
            return False
        if self._first_left is None:
            return True
        if self._first_left == 0:
            return False
        self._first_left -= 1
        return True

    def _share(self, since_s: float) -> float:
        ramp, share = self.rule.ramp, self.rule.share
        if ramp is None:
            return share
        return share + (ramp.to - share) * min(1.0, since_s / ramp.over_s)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(fnmatch.translate(text))


def _has(value: str | None, pattern: re.Pattern[str] | None) -> bool:
    return value is not None and (pattern is None or pattern.match(value) is not None)


# What makes no sense


def what_is_wrong(rules: tuple[Rule, ...], scopes: Callable[[str], str], pointer: str) -> Iterator[Wrong]:
    """Everything wrong with these rules. `scopes` gives a fault's scope by its tag; `pointer` is where the rules stand."""
    if len(rules) > MAX_RULES:
        yield Wrong(pointer, f"{len(rules)} rules", f"at most {MAX_RULES}", "split them over several windows")
    names: set[str] = set()
    for at, rule in enumerate(named(rules)):
        here = f"{pointer}/{at}"
        for wrong in _one(rule):
            yield Wrong(here + wrong.pointer, wrong.found, wrong.wanted, wrong.remedy)
        if rule.name in names:
            yield Wrong(f"{here}/name", repr(rule.name), "a name of its own", "rename one of the two")
        names.add(rule.name)
        scope = scopes(rule.tag)
        if scope != "exchange" and (len(rules) > 1 or not rule.plain):
            yield Wrong(
                f"{here}/mode",
                f"{rule.tag}, which acts on the {scope} before any request was read",
                "a fault of single requests, or this one alone and without matchers",
                f"write mode: {rule.tag} in place of rules, or choose a fault of requests (drillmaster fault list)",
            )
        if len(msgspec.json.encode(rule)) > MAX_RULE_BYTES:
            yield Wrong(here, "a rule too long for a line of evidence", f"{MAX_RULE_BYTES} bytes at most", "shorten it")


class Striking(Protocol):
    """A fault, as far as the rules behind its own are concerned (`drillmaster.faults.Fault`)."""

    @property
    def hands_on(self) -> bool: ...
    @property
    def needs(self) -> tuple[str, ...]: ...


def unreached(rules: tuple[Rule, ...], faults: Sequence[Striking], pointer: str) -> Iterator[Wrong]:
    """Rules that stand behind one which leaves nothing of what they fit. `faults` are those of the rules, in their order.

    A share, a count, times or other conditions of the one before would leave them something.
    """
    for at, rule in enumerate(rules):
        for before, other in enumerate(rules[:at]):
            everybody = Rule(mode=other.mode, params=other.params, name=other.name, when=other.when)
            if (
                other == everybody
                and other.when in (When(), rule.when)
                and not faults[before].hands_on
                and all(_is_only(need, rule, faults[at]) for need in faults[before].needs)
            ):
                yield Wrong(
                    f"{pointer}/{at}",
                    f"{rule.tag} behind {other.tag} of {pointer}/{before}, which leaves nothing of what this one fits",
                    "a rule that can meet somebody",
                    "put it first, give the other a share, a count or another `when`, or take one out",
                )
                break


def _is_only(need: str, rule: Rule, fault: Striking) -> bool:
    """Whether a rule strikes only such requests as another fault needs."""
    if need == "model":
        return "mcp" not in fault.needs and rule.when.dialect != "mcp"
    said = {"stream": rule.when.stream is True, "whole": rule.when.stream is False, "tools": rule.when.tools is True}
    return need in fault.needs or said.get(need, False)


def _one(rule: Rule) -> Iterator[Wrong]:
    when = rule.when
    if not _NAME.fullmatch(rule.name):
        found = repr(rule.name) if len(rule.name) <= 40 else f"{len(rule.name)} characters"
        yield Wrong("/name", found, "up to 40 letters, digits, `_`, `.`, `-`", "shorten or rename it")
    if when.key is not None and not _KEY.fullmatch(when.key):
        yield Wrong(
            "/when/key",
            "something else",
            "the first 16 hex digits of the credential's sha256; never the credential",
            'printf %s "$OPENAI_API_KEY" | sha256sum | cut -c1-16',
        )
    if when.method is not None and not _METHOD.fullmatch(when.method):
        yield Wrong(
            "/when/method", repr(when.method[:20]), "one method by its name, no pattern", "write POST, or leave it out"
        )
    elif when.method is not None and when.method != when.method.upper():
        yield Wrong("/when/method", repr(when.method), "a method as it is sent", f"write {when.method.upper()}")
    if when.path is not None and not when.path.startswith(("/", "*", "?", "[")):
        yield Wrong("/when/path", repr(when.path), "a pattern of a path, which begins with /", f"write /{when.path}")
    if when.path is not None and _QUERY.search(when.path):
        wanted = "a pattern of the path alone; in one, ? stands for any character"
        yield Wrong("/when/path", "a query", wanted, "write it without what follows the ?")
    for name in when.header:
        if not _TOKEN.fullmatch(name):
            yield Wrong("/when/header", repr(name), "the name of a header field", "write it without colon and spaces")
        elif name.lower() in _HOP:
            yield Wrong("/when/header", name, "a field that goes from the client to the API", "match another field")
    for field, pattern in (("model", when.model), *((f"header/{name}", value) for name, value in when.header.items())):
        if pattern == "":
            yield Wrong(
                f"/when/{field}", "an empty text", "a pattern that something can fit", 'write "*" for any value'
            )
    if not 0 < rule.share <= 1 and not (rule.share == 0 and rule.ramp is not None):
        yield Wrong("/share", str(rule.share), "0 < share <= 1", "write 0.1 for one request in ten")
    yield from _counts(rule)
    yield from _times(rule)


def _counts(rule: Rule) -> Iterator[Wrong]:
    if rule.nth and (rule.skip or rule.every != 1 or rule.first is not None):
        yield Wrong("/nth", "nth together with skip, every or first", "one way of counting", "remove one of them")
    for number in rule.nth:
        if number < 1:
            yield Wrong("/nth", str(number), "numbers from 1", "the first request is 1")
    for field, given, least in (("skip", rule.skip, 0), ("every", rule.every, 1), ("first", rule.first, 1)):
        if given is not None and given < least:
            yield Wrong(f"/{field}", str(given), f"at least {least}", "correct it")


def _times(rule: Rule) -> Iterator[Wrong]:
    ramp, flap = rule.ramp, rule.flap
    if ramp is not None and not 0 <= ramp.to <= 1:
        yield Wrong("/ramp/to", str(ramp.to), "0 <= to <= 1", "write 1 for all requests")
    if ramp is not None and not 0 < ramp.over_s < float("inf"):
        yield Wrong("/ramp/over_s", str(ramp.over_s), "a finite number > 0", "say how many seconds the way takes")
    if ramp is not None and rule.share == ramp.to == 0:
        yield Wrong("/ramp", "from 0 to 0", "a share above 0 at one end", "correct share or ramp.to")
    if flap is not None:
        for field, value in (("on_s", flap.on_s), ("off_s", flap.off_s)):
            if not 0 < value < float("inf"):
                yield Wrong(f"/flap/{field}", str(value), "a finite number > 0", "say how many seconds")
    for at, (start, end) in enumerate(rule.schedule):
        if not 0 <= start < end < float("inf"):
            yield Wrong(f"/schedule/{at}", f"[{start}, {end}]", "0 <= from < until", "seconds from the injection")
