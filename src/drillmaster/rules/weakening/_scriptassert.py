"""One assertion of JavaScript or TypeScript: its canonical text, what it looks at, and how much it leaves open."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drillmaster.rules.weakening._scripttree import arguments, every, imported, plain_number, sources, text, truth
from drillmaster.rules.weakening._shapes import Assertion

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Names", "arguments", "dropped", "every", "imported", "is_matcher", "of", "sources", "text", "truth"]

_DEPTH = 5
_LONG = 600
_CHAIN = frozenset({
    "to", "be", "been", "is", "that", "which", "and", "has", "have", "with", "at", "of", "same", "but", "does",
    "still", "also", "not",
    "resolves", "rejects", "deep", "own", "eventually", "nested", "ordered", "soft", "poll", "a", "an",
})  # fmt: skip  # words
_STRENGTH: dict[str, int] = {
    **dict.fromkeys(("toBe", "toEqual", "toStrictEqual", "toHaveBeenCalledWith", "toHaveBeenNthCalledWith",
                     "toHaveBeenLastCalledWith",
                     "toHaveBeenCalledTimes", "toHaveLength", "toMatchSnapshot", "toMatchInlineSnapshot",
                     "toThrowErrorMatchingSnapshot",
                     "toThrowErrorMatchingInlineSnapshot", "toBeNull", "toBeUndefined", "toBeNaN", "equal",
                     "equals", "eql", "eq", "strictEqual",
    "deepEqual", "deepStrictEqual", "true", "false", "null", "undefined", "toHaveText", "toHaveURL",
    "calledOnceWith" ), 4),
    **dict.fromkeys(("toBeCloseTo", "closeTo", "approximately", "toMatchObject", "lengthOf", "members", "keys",
                     "property", "containSubset"), 3),
    **dict.fromkeys(("toContain", "toContainEqual", "toMatch", "toBeGreaterThan", "toBeGreaterThanOrEqual",
                     "toBeLessThan", "toBeLessThanOrEqual",
                     "toBeInstanceOf", "toBeTypeOf", "include", "contain", "match", "instanceOf", "instanceof",
                     "above", "below", "least", "most",
    "toBeFalsy", "toContainText", "greaterThan", "lessThan", "oneOf", "string", "notEqual", "notStrictEqual",
    "rejects" ), 2),
    **dict.fromkeys(("toBeTruthy", "toBeDefined", "ok", "exist", "exists", "toHaveBeenCalled", "called",
                     "toHaveReturned", "isOk", "isTrue", "any",
                     "toBeInTheDocument", "isDefined"), 1),
}  # fmt: skip  # pairs
# Of what a test of tap, tape, ava or node:test is handed.
_OF_CONTEXT: dict[str, int] = {
    word: strength
    for strength, words in (
        (4, "equal equals is same strictSame deepEqual deepEquals strictEqual deepStrictEqual isEqual true false"),
        (4, "snapshot fail looseEqual"),
        (3, "error ifError throws throwsAsync rejects match has hasStrict like type regex"),
        (
            2,
            "not notSame notEqual notOk notok falsy doesNotThrow resolves notMatch notHas notThrows notDeepEqual notThrowsAsync",
        ),
        (1, "ok truthy assert"),
    )
    for word in words.split()
}
_ALIASES = {
    "is": "equal",
    "truthy": "ok",
    "same": "deepEqual",
    "falsy": "toBeFalsy",
    "throws": "toThrow",
    "like": "toMatchObject",
}
_NEGATED_WEAK = frozenset({"toBeNull", "toBeUndefined", "null", "undefined", "toBeNaN", "toThrow"})
_EQUAL = frozenset(
    {"toBe", "toEqual", "toStrictEqual", "equal", "equals", "eql", "eq", "strictEqual", "deepEqual", "deepStrictEqual"}
)
_BOUNDS = {"toBeLessThan": "<", "toBeLessThanOrEqual": "<", "below": "<", "most": "<", "lessThan": "<", "toBeGreaterThan": ">",
           "toBeGreaterThanOrEqual": ">", "above": ">", "least": ">", "greaterThan": ">"}  # fmt: skip  # pairs
_STAND_IN = re.compile(
    r"(?:jest|vi|vitest|sinon|td|mock)\.(?:fn|stub|spy|fake|function|func|mocked)\b|(?:^|\.)createMock\b"
)
_QUOTES = "\"'`"
_LOSSY = re.compile(r"(?:Math\.(?:round|floor|ceil|trunc|abs)|Number|parseInt|Boolean)\(")
_OPEN = re.compile(
    r"expect\.(?:any|anything|objectContaining|arrayContaining|stringContaining|stringMatching|closeTo)\b|sinon\.match"
)


def is_matcher(name: str) -> bool:
    """Whether a name is that of a matcher which runners bring."""
    return name.startswith("to") and name in _STRENGTH


class Names:
    """What the names of a file, and of one function in it, stand for."""

    def __init__(self, root: "Node") -> None:
        self.single: dict[str, Node] = {}
        self.local: set[str] = set()
        self.mocks: set[str] = set()
        self.helpers: dict[str, Node] = {}
        self.given: dict[str, str] = {}
        self._constants: dict[str, Node] = {}
        self._imported = imported(root)
        self.planned = False
        """Whether the test says how many assertions it will reach."""
        self.contexts = set(_contexts(root))
        """Names of what tests are handed, `t` for the most part."""
        self.mocked: set[str] = set()
        """Names that come from a module which the file puts a stand-in for."""
        for node in every(root, ("function_declaration", "variable_declarator", "call_expression")):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if node.type == "function_declaration":
                self.helpers[text(name)] = node
            elif node.type == "variable_declarator" and name is not None and value is not None:
                if value.type in ("arrow_function", "function_expression"):
                    self.helpers[text(name)] = value
                if name.type == "identifier" and _top(node):
                    self._constants[text(name)] = value
                if _STAND_IN.search(text(value).split("(", 1)[0]):
                    self.mocks.add(text(name))
        stood_in = {
            text(args[0]).strip("\"'`")
            for call in every(root, ("call_expression",))
            if re.fullmatch(r"(?:jest|vi|vitest)\.(?:do)?[mM]ock", text(call.child_by_field_name("function")))
            and (args := arguments(call))
        }
        self.mocked |= set(_spied(root))
        for node in every(root, ("import_statement",)):
            if text(node.child_by_field_name("source")).strip("\"'`") in stood_in:
                self.mocked |= {text(one) for one in every(node, ("identifier",))}

    def of(self, function: "Node") -> "Names":
        """Give the names within one function."""
        inner = Names.__new__(Names)
        inner.helpers, inner.mocks, inner._constants, inner.mocked = (
            self.helpers,
            set(self.mocks),
            self._constants,
            self.mocked,
        )
        inner.contexts, inner.planned = self.contexts, b".plan(" in (function.text or b"") or self.planned
        inner.single, inner.local, inner.given, inner._imported = {}, set(), dict(self.given), self._imported
        parameters = function.child_by_field_name("parameters") or function.child_by_field_name("parameter")
        if parameters is not None:
            inner.local |= {
                text(one) for one in every(parameters, ("identifier", "shorthand_property_identifier_pattern"))
            }
        for node in every(function, ("variable_declarator", "function_declaration")):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None:
                continue
            inner.local |= {text(one) for one in every(name, ("identifier", "shorthand_property_identifier_pattern"))}
            own = node.type == "function_declaration" or (
                value is not None and value.type in ("arrow_function", "function_expression")
            )
            if own and text(name) in self._imported:
                inner.mocked = inner.mocked | {text(name)}
            if (
                name.type == "identifier"
                and value is not None
                and node.parent is not None
                and text(node.parent).startswith("const")
            ):
                inner.single[text(name)] = value
        return inner

    def inside(self, helper: "Node", args: list["Node"]) -> "Names":
        """Give the names within a helper, with what a call hands it in the place of its parameters."""
        inner = self.of(helper)
        parameters = helper.child_by_field_name("parameters")
        names = [one for one in parameters.named_children if one.type != "comment"] if parameters is not None else []
        for name, value in zip(names, args, strict=False):
            word = text(name.child_by_field_name("pattern") or name)
            inner.given[word] = self.canonical(value)
        return inner

    def canonical(self, node: "Node | None", _depth: int = 0, _met: dict[str, str] | None = None) -> str:
        """Give the canonical text of a node."""
        if node is None:
            return ""
        met = _met if _met is not None else {}
        kind = node.type
        if kind in ("comment", "type_annotation", "type_arguments", "optional_chain"):
            return "?." if kind == "optional_chain" else ""
        if kind in (
            "parenthesized_expression",
            "await_expression",
            "as_expression",
            "non_null_expression",
            "satisfies_expression",
        ):
            return self.canonical(node.named_children[0], _depth, met) if node.named_children else ""
        if kind == "string":
            return '"' + text(node)[1:-1].replace('"', '\\"') + '"'
        if kind == "template_string" and not any(one.type == "template_substitution" for one in node.named_children):
            return '"' + text(node)[1:-1].replace('"', '\\"') + '"'
        if kind == "number":
            return f"{plain_number(text(node)):g}" if plain_number(text(node)) is not None else text(node)
        if kind in ("identifier", "shorthand_property_identifier"):
            return self._name(text(node), _depth, met)
        if not node.children:
            return text(node)
        parts = [self.canonical(one, _depth, met) for one in node.children if one.type != ";"]
        while len(parts) > 2 and parts[-2] == ",":
            del parts[-2]  # a comma behind the last one
        spaced = kind in (
            "binary_expression",
            "unary_expression",
            "new_expression",
            "return_statement",
            "lexical_declaration",
        )
        return (" " if spaced else "").join(part for part in parts if part)

    def _name(self, name: str, depth: int, met: dict[str, str]) -> str:
        if name in self.given:
            return self.given[name]
        value = self.single.get(name)
        if value is not None and depth < _DEPTH and len(value.text or b"") <= _LONG:
            return self.canonical(value, depth + 1, met)
        if name in self.local:
            return met.setdefault(name, f"_{len(met)}")
        constant = self._constants.get(name)
        return text(constant) if constant is not None and constant.type in ("number", "string") else name

    def title(self, node: "Node") -> str:
        """Give a test's name."""
        return text(node)[1:-1] if node.type in ("string", "template_string") else text(node)

    def number(self, node: "Node | None") -> float | None:
        """Give the number that a node is, as far as the file itself says it."""
        if node is None:
            return None
        if node.type == "number":
            return plain_number(text(node))
        if node.type == "unary_expression" and text(node).startswith("-"):
            inner = self.number(node.child_by_field_name("argument"))
            return None if inner is None else -inner
        if node.type == "identifier":
            value = self.single.get(text(node)) or self._constants.get(text(node))
            return (
                self.number(value)
                if value is not None and value.type in ("number", "unary_expression", "binary_expression")
                else None
            )
        if node.type == "binary_expression" and text(node.child_by_field_name("operator")) == "*":
            left, right = self.number(node.child_by_field_name("left")), self.number(node.child_by_field_name("right"))
            return None if left is None or right is None else left * right
        return None

    def elements(self, node: "Node | None") -> list[str] | None:
        """Give the rows that a value holds; None: it cannot be told here."""
        if node is None:
            return None
        if node.type == "identifier":
            return self.elements(self.single.get(text(node)) or self._constants.get(text(node)))
        if node.type in ("as_expression", "parenthesized_expression", "satisfies_expression") and node.named_children:
            return self.elements(node.named_children[0])
        if node.type == "array":
            listed = [one for one in node.named_children if one.type != "comment"]
            return (
                None if any(one.type == "spread_element" for one in listed) else [self.canonical(one) for one in listed]
            )
        if node.type == "template_string":  # a table: the first line names the columns
            lines = [line.strip() for line in text(node)[1:-1].splitlines() if line.strip()]
            return lines[1:]
        if node.type == "call_expression" and re.fullmatch(
            r"Object\.(?:entries|keys|values)", text(node.child_by_field_name("function"))
        ):
            args = arguments(node)
            held = args[0] if args else None
            if held is not None and held.type == "identifier":
                held = self.single.get(text(held)) or self._constants.get(text(held))
            return (
                [self.canonical(one) for one in held.named_children if one.type == "pair"]
                if held is not None and held.type == "object"
                else None
            )
        return None

    def own(self, node: "Node") -> bool:
        """Whether an expression calls what the test itself put in the place of something."""
        while node.type in ("await_expression", "parenthesized_expression") and node.named_children:
            node = node.named_children[0]
        if node.type == "identifier" and text(node) in self.single:
            node = self.single[text(node)]
            while node.type in ("await_expression", "parenthesized_expression") and node.named_children:
                node = node.named_children[0]
        if node.type != "call_expression":
            return False
        function = node.child_by_field_name("function")
        name = text(function)
        return (function is not None and (name in self.mocks or name in self.mocked)) or (
            bool(_STAND_IN.search(text(self.single.get(name)).split("(", 1)[0])) if name in self.single else False
        )


def _contexts(root: "Node") -> Iterator[str]:
    for call in every(root, ("call_expression",)):
        called = text(call.child_by_field_name("function"))
        if re.fullmatch(r"(?:\w+\.)?(?:test|it|specify)(?:\.\w+)?|tap|tape", called):
            for one in arguments(call):
                parameters = one.child_by_field_name("parameters") or one.child_by_field_name("parameter")
                first = parameters if parameters is not None and parameters.type == "identifier" else None
                if parameters is not None and first is None and parameters.named_children:
                    first = parameters.named_children[0]
                    first = first.child_by_field_name("pattern") or first
                if first is not None and first.type == "identifier" and text(first) not in ("done", "cb"):
                    yield text(first)


def _spied(root: "Node") -> Iterator[str]:
    """Give what the file lets answer in its own words: `vi.spyOn(pay, 'charge').mockReturnValue(3)`."""
    for call in every(root, ("call_expression",)):
        if re.fullmatch(r"(?:jest|vi)\.spyOn", text(call.child_by_field_name("function"))) and call.parent is not None:
            args = arguments(call)
            if len(args) > 1 and text(call.parent.child_by_field_name("property")).startswith("mock"):
                yield f"{text(args[0])}.{text(args[1]).strip(_QUOTES)}"


def _top(node: "Node") -> bool:
    above = node.parent.parent if node.parent is not None else None
    return above is not None and above.type in ("program", "export_statement")


def of(node: "Node", names: Names) -> Assertion | None:
    """Give the assertion that a node is; None: it is none."""
    words: list[str] = []
    here: Node | None = node
    root = None
    while here is not None:
        if here.type == "member_expression":
            words.append(text(here.child_by_field_name("property")))
            here = here.child_by_field_name("object")
        elif here.type == "call_expression":
            function = here.child_by_field_name("function")
            if (
                function is not None
                and function.type == "identifier"
                and text(function) in ("expect", "assert", "expectTypeOf", "assertThat")
            ):
                root = here
                break
            if function is not None and text(function) in ("expect.soft", "expect.poll", "chai.expect"):
                root = here
                break
            here = function
        else:
            break
    line = node.start_point[0] + 1
    if root is None:
        return _by_function(node, words, here, line, names)
    if text(root.child_by_field_name("function")) == "assert":
        return _truthy(node, arguments(root), line, names) if not words else None
    if not words:
        return None
    return _expected(node, root, words, line, names)


def _by_function(node: "Node", words: list[str], base: "Node | None", line: int, names: Names) -> Assertion | None:
    """Of `assert.equal(a, b)`, `t.is(a, b)`, `cy.get(x).should(...)` and the like."""
    if node.type != "call_expression" or not words:
        return None
    said, args = text(base), arguments(node)
    canonical = names.canonical(node)
    if words[0] in ("should", "and") and said == "cy":
        loose = bool(args) and text(args[0]).strip("\"'") in ("exist", "be.visible", "be.ok")
        return Assertion(text=canonical, subject=canonical, strength=1 if loose else 3, line=line)
    context = said in names.contexts
    if (said not in ("assert", "chai") and not context) or (context and len(words) > 2):
        return None
    if context and words[0] not in _OF_CONTEXT:
        return None
    if words[0] == "fail" and context:
        return Assertion(text="fail()", subject="fail()", strength=4, line=line)
    word = _ALIASES.get(words[0], words[0])
    if word in ("ok", "isOk", "isTrue"):
        made = _truthy(node, args, line, names)
        if made.tautology and context and names.planned:  # it is counted: that it is reached is what it says
            return Assertion(text=canonical, subject=canonical, strength=1, line=line)
        return made
    subject = names.canonical(args[0]) if args else canonical
    if word in _EQUAL and len(args) > 1 and _one(args[0], args[1], names):
        return Assertion(text=canonical, subject=subject, strength=0, line=line, tautology=True)
    return Assertion(
        text=canonical,
        subject=subject,
        strength=_OF_CONTEXT.get(words[0], 3) if context else _STRENGTH.get(word, 3),
        line=line,
        own_mock=bool(args) and names.own(args[0]),
    )


def _truthy(node: "Node", args: list["Node"], line: int, names: Names) -> Assertion:
    canonical = names.canonical(node)
    held = truth(args[0]) is True if args else True
    strength = 2 if args and args[0].type == "binary_expression" else 1
    if args and args[0].type == "binary_expression" and text(args[0].child_by_field_name("operator")) in ("===", "=="):
        strength = 4
    looked = (
        args[0].child_by_field_name("left")
        if args and args[0].type == "binary_expression"
        else args[0]
        if args
        else node
    )
    return Assertion(
        text=canonical, subject=names.canonical(looked), strength=0 if held else strength, line=line, tautology=held
    )


def _expected(node: "Node", root: "Node", words: list[str], line: int, names: Names) -> Assertion | None:
    matcher = next((word for word in words if word not in _CHAIN), None)
    if matcher is None:
        matcher = "a" if {"a", "an"} & set(words) else None
    if node.type == "member_expression" and matcher is not None and re.match(r"to[A-Z]", matcher):
        return None  # named, and not called
    if matcher is None or matcher in ("objectContaining", "any", "anything", "extend", "assertions", "hasAssertions"):
        return None
    negated = "not" in words
    args = arguments(node) if node.type == "call_expression" else []
    looked = arguments(root)
    subject = names.canonical(looked[0]) if looked else ""
    canonical = names.canonical(node)
    strength = _STRENGTH.get(matcher, 3)
    if matcher in ("toThrow", "toThrowError", "throw", "throws"):
        strength = 3 if args and not _fits_all(args[0]) else 2
    if matcher == "toHaveProperty":
        strength = 3 if len(args) > 1 else 2
    if negated:
        strength = 1 if matcher in _NEGATED_WEAK else min(strength, 2)
    if matcher in _EQUAL and args:
        said = names.canonical(args[0])
        if said.startswith(("expect.anything", "expect.any(")):
            strength = 1
        elif _OPEN.search(said):
            strength = min(strength, 3)
        elif said == subject and "(" in said:
            strength = 1
        elif looked:
            strength = min(strength, _exact(looked[0], subject))
    holds = _always(matcher, looked, args, names) if not negated else False
    tolerance = None
    if matcher == "toBeCloseTo":
        digits = names.number(args[1]) if len(args) > 1 else 2.0
        tolerance = None if digits is None or abs(digits) > 300 else math.pow(10, -digits) / 2
    elif matcher in ("closeTo", "approximately") and len(args) > 1:
        tolerance = names.number(args[1])
    limit = names.number(args[0]) if matcher in _BOUNDS and args and not negated else None
    return Assertion(
        text=canonical,
        subject=subject,
        strength=0 if holds else strength,
        line=line,
        tolerance=tolerance,
        bound=None if limit is None else (_BOUNDS[matcher], limit),
        tautology=holds,
        swallowed={"resolves", "rejects"} & set(words) != set() and dropped(node),
        own_mock=bool(looked) and names.own(looked[0]),
        inline_snapshot=matcher.endswith("InlineSnapshot"),
    )


def _fits_all(node: "Node") -> bool:
    """Whether a pattern or a part of a message is found in whatever message."""
    said = text(node)
    if node.type in ("string", "template_string"):
        return len(said) == 2
    if node.type != "regex" or len(said) > 200:
        return False
    try:
        return re.search(said[1:].rpartition("/")[0], "") is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _exact(node: "Node", subject: str) -> int:
    """Say how much an equality leaves open: what was rounded, or has a value to fall back on, is less than all."""
    while node.type in ("await_expression", "parenthesized_expression") and node.named_children:
        node = node.named_children[0]
    if node.type == "binary_expression" and text(node.child_by_field_name("operator")) in ("||", "??"):
        return 2
    return 3 if _LOSSY.match(subject) else 4


def _always(matcher: str, looked: list["Node"], args: list["Node"], names: Names) -> bool:
    if not looked:
        return False
    if matcher in ("toBeTruthy", "ok", "toBeDefined", "exist") and truth(looked[0]) is True:
        return True
    if matcher == "true" and looked[0].type == "true":
        return True
    if matcher in ("toBeFalsy", "false") and truth(looked[0]) is False:
        return True
    if matcher in ("toThrow", "toThrowError", "throw", "throws"):
        return any(True for _ in every(looked[0], ("throw_statement",)))  # what the test throws itself
    if matcher in _EQUAL and args:
        said_so = looked[0].type == "binary_expression" and truth(looked[0]) is True and args[0].type == "true"
        return said_so or _one(looked[0], args[0], names)
    if matcher in ("toBeGreaterThanOrEqual", "least") and args:
        return text(looked[0]).endswith(".length") and text(args[0]) == "0"
    return False


def _one(a: "Node", b: "Node", names: Names) -> bool:
    """Whether two values are one whatever the product does: the same words without a call, or the same plain value."""
    if text(a) == text(b):
        return "(" not in text(a)
    one = names.canonical(a)
    return (
        one == names.canonical(b)
        and re.fullmatch(r'-?[\d.]+(?:e[+-]?\d+)?|"[^"]*"|true|false|null|undefined', one) is not None
    )


def dropped(node: "Node") -> bool:
    """Whether nobody waits for an assertion that is a promise."""
    above = node.parent
    while above is not None and above.type == "parenthesized_expression":
        above = above.parent
    return above is not None and above.type == "expression_statement"
