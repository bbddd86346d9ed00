"""Keyword by keyword: what one pair of schemas lost and gained, told to whoever meets it."""

from collections.abc import Callable, Iterator

import msgspec

from drillmaster.rules.schema_break._breaks import BOTH, Break, Level, Sides, listed, valued
from drillmaster.rules.schema_break._nodes import ALL_TYPES, Node, Part, step
from drillmaster.rules.schema_break._shapes import OF_ARRAYS, OF_OBJECTS, OF_STRINGS, OPAQUE, Bound, Shape

__all__ = [
    "ANY",
    "Pair",
    "arrays_of",
    "conditions_of",
    "counts_of",
    "default_of",
    "discriminator_of",
    "gone",
    "multiples_of",
    "range_of",
    "types_of",
    "values_of",
    "words_of",
]

ANY = Node((Part("", {}, leaf=True),))  # a leaf, so that it is nowhere taken for the root


class Pair(msgspec.Struct):
    """Two nodes at one place, what they ask, and who is on the other side."""

    old: Node
    new: Node
    a: Shape
    b: Shape
    sides: Sides
    trail: str
    follow: Callable[[Node, Node, Sides, str], None]

    @property
    def both(self) -> set[str]:
        return set(ALL_TYPES if self.a.types is None else self.a.types) & set(
            ALL_TYPES if self.b.types is None else self.b.types
        )


def _lost(
    pair: Pair,
    rule: str,
    said: str,
    *,
    at: str,
    was: str,
    level: Level = "break",
    old: str = "",
    since: str = "",
) -> Iterator[Break]:
    if "request" in pair.sides:
        yield Break(
            rule=f"request-{rule}",
            level=level,
            at=at,
            was=was,
            old=old,
            since=since,
            says=f"{pair.trail or 'value'}: a caller that still {said}",
        )


def _gained(
    pair: Pair, rule: str, said: str, *, at: str, was: str, soft: bool = False, level: Level = "break"
) -> Iterator[Break]:
    if "response" in pair.sides:
        if soft and pair.sides == BOTH:
            level = "note"
        yield Break(
            rule=f"response-{rule}", level=level, at=at, was=was, says=f"{pair.trail or 'value'}: a reader that {said}"
        )


def gone(pair: Pair, what: str, gone: bool, words: str) -> Iterator[Break]:
    at, was = pair.new.at, pair.old.at
    if gone:
        yield from _lost(pair, f"{what}-removed", f"sends {words} is refused", at=at, was=was)
    else:
        yield from _gained(pair, f"{what}-added", f"expected nothing may get {words}", at=at, was=was)


def types_of(pair: Pair) -> Iterator[Break]:
    a = ALL_TYPES if pair.a.types is None else pair.a.types
    b = ALL_TYPES if pair.b.types is None else pair.b.types
    at, was = pair.b.types_at or pair.new.at, pair.a.types_at or pair.old.at
    lost, gained = a - b, b - a
    if all(one.values is not None or one.types == frozenset({"null"}) for one in (pair.a, pair.b)) and a != b:
        return  # the constants themselves say more
    if lost == {"null"}:
        yield from _lost(pair, "became-not-nullable", "sends null is refused", at=at, was=was)
    elif lost:
        said = f"sends {_named(lost)} is refused; {_named(b)} is wanted"
        yield from _lost(pair, "type-narrowed", said, at=at, was=was)
    if gained == {"null"}:
        yield from _gained(pair, "became-nullable", "counts on a value may get null", at=at, was=was)
    elif gained:
        said = f"knows {_named(a)} may get {_named(gained)}"
        yield from _gained(pair, "type-widened", said, at=at, was=was, soft=False)


def _named(types: frozenset[str]) -> str:
    if types >= ALL_TYPES:
        return "any value"
    return " or ".join(sorted(types - {"integer"} if "number" in types else types))


def _null_as_value(shape: Shape) -> Shape:
    """Take the type null for the one constant that it is, where the other side is told in constants."""
    if shape.values is not None or shape.types != frozenset({"null"}):
        return shape
    return msgspec.structs.replace(shape, values={"null": None}, values_at=shape.types_at)


def values_of(pair: Pair) -> Iterator[Break]:
    a, b = pair.a, pair.b
    if (a.values is None) != (b.values is None):
        a, b = _null_as_value(a), _null_as_value(b)
    at, was = b.values_at or pair.new.at, a.values_at or pair.old.at
    if a.values is not None and b.values is not None:
        for text in sorted(a.values.keys() - b.values.keys()):
            said, since = f"sends {valued(a.values[text])} is refused", a.announced.get(text, "")
            if "request" in pair.sides:
                yield from _lost(pair, "enum-value-removed", said, at=at, was=was, old=text, since=since)
            else:
                said = f"{pair.trail or 'value'}: {valued(a.values[text])} comes no more; a reader that waits for it waits in vain"
                yield Break(
                    rule="response-enum-value-removed", level="note", at=at, was=was, old=text, since=since, says=said
                )
        for text in sorted(b.values.keys() - a.values.keys()):
            said = f"knows {listed(valued(v) for v in a.values.values())} may get {valued(b.values[text])}"
            soft = a.open_values or text == "null"
            if a.open_values:
                yield from _gained(pair, "enum-value-added", said, at=at, was=was, level="note")
            else:
                yield from _gained(pair, "enum-value-added", said, at=at, was=was, soft=not soft)
    elif b.values is not None:
        said = f"sends anything but {listed(valued(v) for v in b.values.values())} is refused"
        yield from _lost(pair, "became-enum", said, at=at, was=pair.old.at)
    elif a.values is not None:
        said = f"knows {listed(valued(v) for v in a.values.values())} may get any other value"
        yield from _gained(pair, "enum-dropped", said, at=pair.new.at, was=was, soft=True)


def range_of(pair: Pair, rule: str, a: Bound | None, b: Bound | None, sign: int) -> Iterator[Break]:
    """Compare one end of a range. `sign` 1: the lower end."""
    if a is not None and b is not None and (a.value, a.exclusive) == (b.value, b.exclusive):
        return
    edge = "below" if sign > 0 else "above"
    tighter = b is not None and (a is None or (sign * b.value, b.exclusive) > (sign * a.value, a.exclusive))
    if tighter and b is not None:
        least = f"{edge} {b.value:g}" + (", or that itself," if b.exclusive else "")
        yield from _lost(
            pair, f"{rule}-tightened", f"sends a number {least} is refused", at=b.at, was=a.at if a else pair.old.at
        )
    elif a is not None:
        said = f"counts on nothing {edge} {a.value:g} may get it"
        yield from _gained(pair, f"{rule}-loosened", said, at=b.at if b else pair.new.at, was=a.at, soft=True)


def multiples_of(pair: Pair) -> Iterator[Break]:
    a, b = pair.a.multiples, pair.b.multiples
    for text in b.keys() - a.keys():
        if not any(float(text) and (float(one) / float(text)).is_integer() for one in a):
            said = f"sends what is no multiple of {text} is refused"
            yield from _lost(pair, "multiple-tightened", said, at=b[text], was=pair.old.at)
    for text in a.keys() - b.keys():
        if not any(float(text) and (float(one) / float(text)).is_integer() for one in b):
            said = f"counts on multiples of {text} may get others"
            yield from _gained(pair, "multiple-loosened", said, at=pair.new.at, was=a[text], soft=True)


_COUNTED = {
    "Length": ("characters", OF_STRINGS),
    "Items": ("items", OF_ARRAYS),
    "Properties": ("fields", OF_OBJECTS),
    "Contains": ("items of that kind", OF_ARRAYS),
}


def counts_of(pair: Pair) -> Iterator[Break]:
    for word in sorted(pair.a.counts.keys() | pair.b.counts.keys()):
        things, kinds = _COUNTED[word[3:]]
        if not pair.both & kinds:
            continue
        # A lower end that is not written is zero; an upper one is none.
        a, b = pair.a.counts.get(word), pair.b.counts.get(word)
        least = word.startswith("min")
        none = 0.0 if least else float("inf")
        old, new = a[0] if a else none, b[0] if b else none
        at, was = b[1] if b else pair.new.at, a[1] if a else pair.old.at
        edge = "fewer" if least else "more"
        if new > old if least else new < old:
            said = f"sends {edge} than {new:g} {things} is refused"
            yield from _lost(pair, f"{_dashed(word)}-tightened", said, at=at, was=was)
        elif new != old:
            said = f"counts on no {edge} than {old:g} {things} may get them"
            yield from _gained(pair, f"{_dashed(word)}-loosened", said, at=at, was=was, soft=True)


def _dashed(word: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in word)


_WIDER = {"int32": "int64", "float": "double"}


def words_of(pair: Pair, rule: str, a: dict[str, str], b: dict[str, str]) -> Iterator[Break]:
    gone, new = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    if gone and new:
        if len(gone) == len(new) == 1 and _WIDER.get(gone[0]) == new[0]:
            yield from _gained(
                pair, f"{rule}-widened", f"holds {gone[0]} may get {new[0]}", at=b[new[0]], was=a[gone[0]]
            )
        elif len(gone) == len(new) == 1 and _WIDER.get(new[0]) == gone[0]:
            yield from _lost(pair, f"{rule}-narrowed", f"sends {gone[0]} is refused", at=b[new[0]], was=a[gone[0]])
        else:
            level: Level = "unclear" if rule == "pattern" else "break"
            was, at = a[gone[0]], b[new[0]]
            old, now = valued(gone[0]), valued(new[0])
            yield from _lost(
                pair,
                f"{rule}-changed",
                f"writes it as {old} may be refused: {now} is wanted",
                at=at,
                was=was,
                level=level,
            )
            said = f"reads it as {old} may get {now}"
            yield from _gained(pair, f"{rule}-changed", said, at=at, was=was, level=level)
    elif new:
        said = f"writes it otherwise than as {valued(new[0])} is refused"
        yield from _lost(pair, f"{rule}-added", said, at=b[new[0]], was=pair.old.at)
    elif gone:
        said = f"reads it as {valued(gone[0])} may get anything"
        yield from _gained(pair, f"{rule}-removed", said, at=pair.new.at, was=a[gone[0]], soft=True)


def arrays_of(pair: Pair) -> Iterator[Break]:
    a, b = pair.a, pair.b
    for i in range(max(len(a.prefix), len(b.prefix))):
        old = a.prefix[i] if i < len(a.prefix) else a.rest or ANY
        new = b.prefix[i] if i < len(b.prefix) else b.rest or ANY
        pair.follow(old, new, pair.sides, f"{pair.trail}[{i}]")
    if a.rest or b.rest:
        pair.follow(a.rest or ANY, b.rest or ANY, pair.sides, f"{pair.trail}[]")
    if b.unique and not a.unique:
        yield from _lost(pair, "unique-items-added", "sends an item twice is refused", at=b.unique, was=pair.old.at)
    if a.unique and not b.unique:
        said = "counts on each item once may get one twice"
        yield from _gained(pair, "unique-items-removed", said, at=pair.new.at, was=a.unique, soft=True)


def conditions_of(pair: Pair) -> Iterator[Break]:
    a, b = pair.a.opaque, pair.b.opaque
    for word in sorted(a.keys() | b.keys()):
        if not pair.both & OPAQUE[word]:
            continue
        if word in a and word in b:
            if a[word][1] is None or a[word][1] != b[word][1]:
                said = f"{pair.trail or 'value'}: `{word}` changed; whether somebody is refused cannot be told"
                yield Break(rule="condition-changed", level="unclear", at=b[word][0], was=a[word][0], says=said)
        elif word in b:
            said = f"does not meet the new `{word}` is refused"
            yield from _lost(pair, "condition-added", said, at=b[word][0], was=pair.old.at, level="unclear")
        else:
            said = f"counts on `{word}` may get what it kept out"
            yield from _gained(pair, "condition-removed", said, at=pair.new.at, was=a[word][0], soft=True)


def default_of(pair: Pair) -> Iterator[Break]:
    """A default is what a caller gets that leaves a value out; one that is written for the first time breaks nobody."""
    a, b = pair.a.default, pair.b.default
    if a is None or "request" not in pair.sides or (b is not None and a[0] == b[0]):
        return
    level: Level = "break" if pair.sides != BOTH else "note"
    where = pair.trail or "value"
    if b is None:
        said = f"{where}: a caller that leaves it out can no longer count on {a[0][:60]}"
        yield Break(rule="request-default-removed", level=level, at=pair.new.at, was=a[1], says=said)
    else:
        said = f"{where}: a caller that leaves it out now gets {b[0][:60]} in place of {a[0][:60]}"
        yield Break(rule="request-default-changed", level=level, at=b[1], was=a[1], says=said)


def discriminator_of(pair: Pair) -> Iterator[Break]:
    a, b = pair.a.discriminator, pair.b.discriminator
    assert a is not None
    if b is None or a[0] != b[0]:
        said = f"{pair.trail or 'value'}: whoever tells the choices apart by `{a[0]}` no longer can"
        yield Break(rule="discriminator-changed", level="break", at=b[1] if b else pair.new.at, was=a[1], says=said)
        return
    for name in sorted(a[2].keys() - b[2].keys()):
        said = f"sends {valued(name)} as `{a[0]}` is not understood"
        yield from _lost(pair, "discriminator-value-removed", said, at=b[1], was=step(a[1], "mapping", name))
    for name in sorted(a[2].keys() & b[2].keys()):
        old, new = (one[2][name].rpartition("/")[2] for one in (a, b))  # a name alone is a schema of the document
        if old != new:
            said = f"{pair.trail or 'value'}: {valued(name)} as `{a[0]}` meant {valued(old)} and means {valued(new)}"
            at, was = step(b[1], "mapping", name), step(a[1], "mapping", name)
            yield Break(rule="discriminator-value-changed", level="break", at=at, was=was, says=said)
