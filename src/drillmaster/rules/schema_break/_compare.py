"""Two versions of a schema: what was accepted and is not, and what may come and did not.

1. On the side of a request the writer is somebody else: what was accepted has to stay accepted.
2. On the side of a response the reader is: what may come has to be what could come before.
3. A schema whose side nobody says is both. There, what only a reader with a narrow mind trips over is a note.
4. Choices are matched by what they accept, not by their place in a list. Circles are entered once, and the whole has a bound.
"""

from collections import deque
from collections.abc import Callable, Iterator

from drillmaster.rules.schema_break._breaks import REQUEST, RESPONSE, Break, Level, Sides, once, valued
from drillmaster.rules.schema_break._keywords import (
    ANY,
    Pair,
    arrays_of,
    conditions_of,
    counts_of,
    default_of,
    discriminator_of,
    gone,
    multiples_of,
    range_of,
    types_of,
    values_of,
    words_of,
)
from drillmaster.rules.schema_break._nodes import ALL_TYPES, Document, Missing, Node, Part
from drillmaster.rules.schema_break._shapes import (
    OF_ARRAYS,
    OF_NUMBERS,
    OF_OBJECTS,
    OF_STRINGS,
    Shape,
    shape_of,
)

__all__ = ["Comparison", "unfollowed"]

MAX_PAIRS = 20_000
"""Pairs of schemas that are compared in one document; past it the rest is unclear."""
_MAX_NESTED = 6
_MAX_PIECES = 64
_STRICT = frozenset({"response-property-added", "response-additional-opened"})
_META = ("http://json-schema.org/", "https://json-schema.org/")
"""The schemas of schemas, which every validator has."""


class Comparison:
    """Two versions of one document. `defaults`: a field that is asked for and has a default may be left out (OpenAPI).

    `behind`: what takes the request counts on each field that was asked for (tools).
    """

    def __init__(
        self, old: Document, new: Document, *, defaults: bool = False, behind: bool = False, today: str = ""
    ) -> None:
        self.old = old
        self.new = new
        self.defaults = defaults
        self.behind = behind
        self.today = today
        self._left = MAX_PAIRS
        self._known: dict[tuple[object, ...], list[Break]] = {}
        self._told_large = False

    def schemas(self, old: Node, new: Node, sides: Sides, trail: str) -> list[Break]:
        """Compare two schemas with all that they lead to."""
        found = once(self._run(old, new, sides, trail, 0))
        if self._left < 0 and not self._told_large:
            self._told_large = True
            said = (
                f"{trail or 'value'}: more than {MAX_PAIRS:,} pairs of schemas; what was not compared may break anybody"
            )
            found.append(Break(rule="too-large", level="unclear", at=new.at, was=old.at, says=said))
        return found

    def _run(self, old: Node, new: Node, sides: Sides, trail: str, depth: int) -> list[Break]:
        found: list[Break] = []
        waiting: deque[tuple[Node, Node, Sides, str]] = deque([(old, new, sides, trail)])
        seen = set()
        while waiting:
            a, b, here, at = waiting.popleft()
            try:
                a, b = self.old.followed(a), self.new.followed(b)
            except Missing as missing:
                found.append(self.missing(missing, at))
                continue
            key = (a.key, b.key, here)
            if key in seen or not here:
                continue
            seen.add(key)
            self._left -= 1
            if self._left < 0:
                return found  # `schemas` says so
            try:
                found += self._nodes(a, b, here, at, depth, lambda *args: waiting.append(args))
            except Missing as missing:
                found.append(self.missing(missing, at))
        return found

    def _nodes(
        self,
        old: Node,
        new: Node,
        sides: Sides,
        trail: str,
        depth: int,
        follow: Callable[[Node, Node, Sides, str], None],
    ) -> list[Break]:
        olds, news = self.old.alternatives(old), self.new.alternatives(new)
        if olds is None or news is None:
            return self._whole(old, new, trail, "more choices than can be told apart")
        if len(olds) == len(news) == 1:
            pair = Pair(old, new, shape_of(self.old, old), shape_of(self.new, new), sides, trail, follow)
            return list(self._shapes(pair))
        olds, news = self._split(self.old, olds, news), self._split(self.new, news, olds)
        if depth >= _MAX_NESTED:
            return self._whole(old, new, trail, "choices within choices, deeper than is looked")
        found: list[Break] = []
        if "request" in sides:
            found += self._matched(olds, news, REQUEST, sides, trail, depth)
        if "response" in sides:
            found += self._matched(olds, news, RESPONSE, sides, trail, depth)
        return found

    def missing(self, missing: Missing, trail: str) -> Break:
        """Say that a reference was not followed. One to a file beside, the same before and after, is that file's affair."""
        shared = missing.ref in self.old.refs and missing.ref in self.new.refs
        return unfollowed(missing, trail, shared=shared)

    def _whole(self, old: Node, new: Node, trail: str, why: str) -> list[Break]:
        if self.old.closure(old) == self.new.closure(new):
            return []
        a = [self.old.expanded(part.at, part.value) for part in old.parts]
        b = [self.new.expanded(part.at, part.value) for part in new.parts]
        if None not in a and a == b:
            return []
        said = f"{trail}: {why}, and they are not the same: whether somebody is refused cannot be told"
        return [Break(rule="choice-changed", level="unclear", at=new.at, was=old.at, says=said)]

    def _split(self, document: Document, nodes: list[Node], others: list[Node]) -> list[Node]:
        """Take a list of types for the choice that it is, where the other side has one."""
        if len(nodes) != 1 or len(others) == 1:
            return nodes
        types = shape_of(document, nodes[0]).types
        if types is None or not 2 <= len(types - {"integer"} if "number" in types else types) <= 6:
            return nodes
        groups = [OF_NUMBERS & types if one == "number" else frozenset({one}) for one in sorted(types)]
        kept = [one for one in groups if not ("number" in types and one == {"integer"})]
        return [Node(nodes[0].parts, only=one) for one in kept]

    def _matched(
        self, olds: list[Node], news: list[Node], side: Sides, sides: Sides, trail: str, depth: int
    ) -> list[Break]:
        """Find for each choice that has to be covered one that covers it; else say how the nearest falls short."""
        asking, giving = (olds, news) if side == REQUEST else (news, olds)
        found: list[Break] = []
        for place, one in enumerate(asking):
            covered, told = self._covered(one, place, giving, side, trail, depth)
            if covered:
                found += told[0][1]
                continue
            # Perhaps no one choice takes it all, but several do, each its types or constants.
            pieces = self._pieces(self.old if side == REQUEST else self.new, one)
            if not pieces or not all(self._covered(p, place, giving, side, trail, depth)[0] for p in pieces):
                found += self._short(one, told, side, sides, trail)
        return found

    def _covered(
        self, one: Node, place: int, giving: list[Node], side: Sides, trail: str, depth: int
    ) -> tuple[bool, list[tuple[Node, list[Break]]]]:
        """Whether a choice takes all of one; with the notes of that choice, or with what each of them lacks."""
        name = _ref_name(one)
        tried = []
        # The likeliest first: of one name, then of one place.
        order = sorted(range(len(giving)), key=lambda at: (_ref_name(giving[at]) != name, abs(at - place)))
        for other in (giving[at] for at in order):
            pair = (one, other) if side == REQUEST else (other, one)
            told = self._remembered(*pair, side, trail, depth)
            # A choice that would hold the value only by fields it was told not to have is not the one that was meant.
            said = [b for b in told if b.level != "note" or b.rule in _STRICT]
            if not said:
                return True, [(other, told)]
            tried.append((other, said))
        return False, tried

    def _pieces(self, document: Document, one: Node) -> list[Node]:
        """Tell constants, or types, of one choice apart; none where it is one already, or too many."""
        shape = shape_of(document, one)
        if shape.values is not None and 2 <= len(shape.values) <= _MAX_PIECES:
            return [
                Node((*one.parts, Part(f"{shape.values_at}={text}", {"const": value}, leaf=True)), one.only)
                for text, value in shape.values.items()
            ]
        return self._split(document, [one], [one, one]) if shape.values is None and one.only is None else []

    def _remembered(self, old: Node, new: Node, side: Sides, trail: str, depth: int) -> list[Break]:
        key = (old.key, new.key, side)
        if key not in self._known:
            self._known[key] = []  # a circle comes back here: what it asks is being compared already
            self._known[key] = self._run(old, new, side, trail, depth + 1)
        return self._known[key]

    def _short(
        self, one: Node, tried: list[tuple[Node, list[Break]]], side: Sides, sides: Sides, trail: str
    ) -> list[Break]:
        mine = self.old if side == REQUEST else self.new
        theirs = self.new if side == REQUEST else self.old
        near = [
            said
            for other, said in tried
            if _ref_name(one) == _ref_name(other) != "" or _same_kind(shape_of(mine, one), shape_of(theirs, other))
        ]
        if near:
            likely = tried[0][1]
            return likely if any(likely is one for one in near) else min(near, key=len)
        name = _ref_name(one) or "/".join(sorted(shape_of(mine, one).types or ())) or "one choice"
        if side == REQUEST:
            said = f"{trail}: a caller that still sends {name} is refused; that choice is gone"
            return [Break(rule="request-choice-removed", level="break", was=one.at, says=said)]
        level: Level = "break" if sides == RESPONSE or shape_of(mine, one).types == frozenset({"null"}) else "note"
        said = f"{trail}: a reader that knows the earlier choices may get {name} as well"
        return [Break(rule="response-choice-added", level=level, at=one.at, says=said)]

    # One pair of shapes

    def _shapes(self, pair: Pair) -> Iterator[Break]:
        a, b = pair.a, pair.b
        if a.never or b.never:
            if a.never != b.never:
                yield from gone(pair, "value", b.never, "any value")
            return
        yield from types_of(pair)
        yield from values_of(pair)
        kinds = pair.both
        if kinds & OF_NUMBERS:
            yield from range_of(pair, "minimum", a.low, b.low, 1)
            yield from range_of(pair, "maximum", a.high, b.high, -1)
            yield from multiples_of(pair)
        yield from counts_of(pair)
        if kinds & OF_STRINGS:
            yield from words_of(pair, "pattern", a.patterns, b.patterns)
        yield from words_of(pair, "format", a.formats, b.formats)
        if kinds & OF_ARRAYS:
            yield from arrays_of(pair)
        if kinds & OF_OBJECTS:
            yield from self._objects(pair)
        yield from conditions_of(pair)
        yield from default_of(pair)
        if a.discriminator is not None:
            yield from discriminator_of(pair)

    def _objects(self, pair: Pair) -> Iterator[Break]:
        a, b, trail = pair.a, pair.b, pair.trail
        for name in a.props.keys() - b.props.keys():
            yield from self._removed(pair, name)
        for name, node in a.props.items():
            if name in b.props:
                yield from self._turned(pair, name)
                sides = self._sides_of(pair.sides, node, b.props[name])
                pair.follow(node, b.props[name], sides, f"{trail}.{name}" if trail else name)
        for name in sorted(b.props.keys() - a.props.keys()):
            if a.closed is None and (a.extra is not None or name in a.required):
                # It could come before, and was asked for or had a form: that it has one of its own now is no field more.
                pair.follow(a.extra or ANY, b.props[name], pair.sides, f"{trail}.{name}" if trail else name)
            if a.closed is not None and "response" in pair.sides:
                said = f"{trail}: a reader that refuses fields it does not know gets `{name}`"
                yield Break(rule="response-property-added", level="note", at=b.props[name].at, says=said)
        yield from self._required(pair)
        if b.closed is not None and a.closed is None and "request" in pair.sides:
            said = f"{trail}: a caller that still sends a field the schema does not name is refused"
            yield Break(rule="request-additional-closed", level="break", at=b.closed, was=pair.old.at, says=said)
        if a.closed is not None and b.closed is None and "response" in pair.sides:
            said = f"{trail}: a reader may get fields that it was told would not come"
            yield Break(rule="response-additional-opened", level="note", at=pair.new.at, was=a.closed, says=said)
        if a.closed is None and b.closed is None and (a.extra or b.extra):
            pair.follow(a.extra or ANY, b.extra or ANY, pair.sides, f"{trail}.*")
        for text in a.pattern_props.keys() & b.pattern_props.keys():
            pair.follow(a.pattern_props[text], b.pattern_props[text], pair.sides, f"{trail}.({valued(text)})")
        for text in a.pattern_props.keys() - b.pattern_props.keys():
            if b.closed is not None:
                yield from gone(pair, "pattern-property", True, f"fields like {valued(text)}")
        for text in b.pattern_props.keys() - a.pattern_props.keys():
            if a.closed is None and "request" in pair.sides:
                said = f"{trail}: fields like {valued(text)} have to fit now; a caller that sent others is refused"
                yield Break(
                    rule="request-pattern-property-added", level="unclear", at=b.pattern_props[text].at, says=said
                )

    def _removed(self, pair: Pair, name: str) -> Iterator[Break]:
        a, b = pair.a, pair.b
        node = a.props[name]
        shape = shape_of(self.old, node)
        ended = shape.deprecated and bool(shape.sunset) and bool(self.today) and shape.sunset[:10] <= self.today
        level: Level = "note" if ended else "break"
        place = f"{pair.trail}.{name}" if pair.trail else name
        if "request" in pair.sides and not shape.read_only:
            what = "is refused" if b.closed is not None else "is no longer heard: the field is ignored"
            said = f"{place}: a caller that still sends `{name}` {what}"
            yield Break(rule="request-property-removed", level=level, was=node.at, at=pair.new.at, says=said)
        if "response" in pair.sides and not shape.write_only:
            said = f"{place}: a reader that looks for `{name}` finds nothing"
            yield Break(rule="response-property-removed", level=level, was=node.at, at=pair.new.at, says=said)

    def _required(self, pair: Pair) -> Iterator[Break]:
        a, b = pair.a, pair.b
        for name in sorted(b.required.keys() - a.required.keys()):
            if "request" not in pair.sides:
                continue
            shape = shape_of(self.new, b.props[name]) if name in b.props else Shape()
            if shape.read_only:
                continue
            new = name not in a.props
            said = f"{pair.trail or 'value'}: a caller that still leaves out `{name}` is refused"
            level: Level = "note" if self.defaults and shape.default is not None else "break"
            rule = "request-required-property-added" if new else "request-property-became-required"
            yield Break(rule=rule, level=level, at=b.required[name], was="" if new else a.props[name].at, says=said)
        for name in sorted(a.required.keys() - b.required.keys()):
            if self.behind and pair.sides == REQUEST and name in b.props:
                said = f"{pair.trail}: what is behind the tool counts on `{name}`, and a call may leave it out"
                where, was = b.props[name].at, a.required[name]
                yield Break(rule="request-property-became-optional", level="break", at=where, was=was, says=said)
            if "response" not in pair.sides or (name in a.props and name not in b.props):
                continue  # a field that is gone altogether was told already
            if name in a.props and shape_of(self.old, a.props[name]).write_only:
                continue
            said = f"{pair.trail or 'value'}: a reader that counts on `{name}` may find it missing"
            at = b.props[name].at if name in b.props else pair.new.at
            yield Break(rule="response-property-became-optional", level="break", at=at, was=a.required[name], says=said)

    def _turned(self, pair: Pair, name: str) -> Iterator[Break]:
        """A field that one side may no longer write is gone for that side. In a plain JSON Schema the words bind nobody."""
        if not self.new.one_sided:
            return
        node, other = pair.a.props[name], pair.b.props[name]
        a, b = shape_of(self.old, node), shape_of(self.new, other)
        level: Level = "break" if self.defaults else "note"
        place = f"{pair.trail}.{name}" if pair.trail else name
        if "request" in pair.sides and b.read_only and not a.read_only:
            said = f"{place}: a caller that still sends `{name}` is no longer heard, or is refused: it is read-only"
            yield Break(rule="request-property-became-read-only", level=level, at=other.at, was=node.at, says=said)
        if "response" in pair.sides and b.write_only and not a.write_only:
            said = f"{place}: a reader that looks for `{name}` finds nothing: it is write-only"
            yield Break(rule="response-property-became-write-only", level=level, at=other.at, was=node.at, says=said)

    def _sides_of(self, sides: Sides, old: Node, new: Node) -> Sides:
        """A field that only one side ever writes is compared for that side."""
        if not (self.old.one_sided and self.new.one_sided):
            return sides
        a, b = shape_of(self.old, old), shape_of(self.new, new)
        if a.read_only and b.read_only:
            sides -= REQUEST
        if a.write_only and b.write_only:
            sides -= RESPONSE
        return sides


def unfollowed(missing: Missing, trail: str, *, shared: bool) -> Break:
    """Say that a reference was not followed. `shared`: it was there before, just so."""
    beside = missing.remote and "://" not in missing.ref
    known = missing.ref.startswith(_META)
    quiet = known or (beside and shared)
    where = "another file" if beside else "another address, which is never fetched" if missing.remote else "nothing"
    what = "it is judged where it changes" if quiet else "what it asks cannot be compared"
    return Break(
        rule="remote-reference" if missing.remote else "dead-reference",
        level="note" if quiet else "unclear",
        at=missing.at,
        was=missing.at if shared else "",
        says=f"{trail or 'value'}: {valued(missing.ref)} leads to {where}: {what}",
    )


def _ref_name(node: Node) -> str:
    """Give the name that a choice goes by: of the schema it refers to, or its title."""
    value = node.parts[0].value if node.parts else None
    if not isinstance(value, dict):
        return ""
    name = value.get("$ref", value.get("title"))
    return name.rpartition("/")[2] if isinstance(name, str) else ""


def _same_kind(a: Shape, b: Shape) -> bool:
    return a.types is not None and b.types is not None and a.types == b.types and not (a.types >= ALL_TYPES)
