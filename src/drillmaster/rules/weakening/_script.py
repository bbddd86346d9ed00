"""Tests in JavaScript and TypeScript, read by tree-sitter: what each one asserts, and what keeps it from running."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from drillmaster.rules.weakening import _scriptassert as scriptassert
from drillmaster.rules.weakening._scriptalias import Alias, aliases, resolved
from drillmaster.rules.weakening._shapes import Assertion, Suite, Test, Unparsed

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["read"]

MAX_BYTES = 4 << 20
MAX_ASSERTS = 2_000
MAX_CALLS = 20_000
"""Of any function, in one test."""
_MOST_ERRORS = 20
_DEPTH = 4
_SUITES = frozenset({"describe", "context", "suite", "xdescribe", "fdescribe", "xcontext", "fcontext"})
_TESTS = frozenset(
    {"it", "test", "specify", "fit", "xit", "xtest", "ftest", "xspecify", "Deno.test", "QUnit.test", "bench"}
)
_KEEPS_OUT = frozenset({"skip", "todo", "fixme", "failing", "fails", "skipIf", "runIf", "ignore"})
_NO_TESTS = frozenset({"beforeEach", "afterEach", "beforeAll", "afterAll", "before", "after", "use", "step",
                       "extend", "setTimeout", "slow", "info",
                       "expect", "configure"})  # fmt: skip  # words
_OWN = frozenset({"expect", "assert", "test", "it", "describe"})
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "generator_function"})
_LAX_KEYS = frozenset({"testPathIgnorePatterns", "modulePathIgnorePatterns", "passWithNoTests", "retry", "retries",
                       "allowOnly", "testMatch", "testRegex",
    "testIgnore", "grep", "grepInvert", "forbidOnly", "updateSnapshots", "dangerouslyIgnoreUnhandledErrors"
    })  # fmt: skip  # words
_LIBRARIES = re.compile(
    r"(?:node:)?(?:fs|path|url|util|assert|os|test|buffer|events|stream|timers|crypto)(?:/.*)?|@jest/globals|vitest|chai|mocha|ava|jest|sinon|expect"
)
_SAYS = re.compile(r"\bthrow\b|\bexpect\s*\(|\bassert\b|\bfail\s*\(|\breject\s*\(|\bdone\s*\(\s*\w|\bnext\s*\(\s*\w")
_GLOBALS = re.compile(
    r"\b(?:fetch|page|browser|cy|window|document|request|app|server|supertest|screen|render|XMLHttpRequest|WebSocket)\b"
)


def read(before: bytes | None, after: bytes | None, path: str) -> tuple[Suite | None, Suite | None]:
    """Read both versions of one file; None: it is not there. What is the same in both is told by name alone.

    Raises Unparsed; without the extra that reads it, with the command that brings it. Newer syntax than the grammar's is let be
    where it is a few lines that stand in both.
    """
    was, unclear = _opened(before, path, None) if before is not None else (None, Counter[str]())
    now, _ = _opened(after, path, unclear) if after is not None else (None, unclear)
    try:
        files = [one for one in (was, now) if one is not None]
        for one in files:
            one.gather()
        same = frozenset[str]()
        if was is not None and now is not None and was.rest() == now.rest():
            same = frozenset(name for name, text in now.texts.items() if was.texts.get(name) == text)
        return was.suite(same) if was is not None else None, now.suite(same) if now is not None else None
    except RecursionError:
        raise Unparsed("what is nested too deeply to be read", "split the expression") from None


def _opened(data: bytes, path: str, known: Counter[str] | None) -> tuple["_File | None", Counter[str]]:
    """Read one version, and give the lines in it that are not clear; None for one that is not clear as a whole.

    `known` are the unclear lines of the other version; None: this is the old one, which may have any.
    """
    if len(data) > MAX_BYTES:
        raise Unparsed(f"{len(data):,} bytes of script", "split the file: no test is read in one so long")
    try:
        data.decode("utf-8")
        root = _parsed(data, path)
        if not root.has_error:
            return _File(root, path, data), Counter()
        lines = data.split(b"\n")
        errors = list(_errors(root))
        unclear = Counter(
            line.decode().strip() for one in errors for line in lines[one.start_point[0] : one.end_point[0] + 1]
        )
        few = len(errors) <= _MOST_ERRORS and unclear.total() <= _MOST_ERRORS
        if few and (known is None or not unclear - known):
            return _File(root, path, data), unclear
        if known is None:
            return None, Counter()  # it ran as little as if it were not there
    except UnicodeDecodeError:
        if known is None:
            return None, Counter()
        raise Unparsed("no UTF-8", "save it as UTF-8") from None
    except RecursionError:
        raise Unparsed("what is nested too deeply to be read", "split the expression") from None
    line = errors[0].start_point[0] + 1 if errors else 1
    remedy = f"npx tsc --noEmit --allowJs {path.rpartition('/')[2]} says what is wrong"
    raise Unparsed(f"no script that parses, in line {line}", remedy)


def _parsed(data: bytes, path: str) -> "Node":
    """Parse as what the suffix says, or as a wider language where that leaves errors."""
    try:
        import tree_sitter_javascript as javascript
        import tree_sitter_typescript as typescript
        from tree_sitter import Language, Parser
    except ImportError:
        raise Unparsed("no reader of JavaScript and TypeScript here", "pip install 'drillmaster[oracle]'") from None
    tsx, plain = typescript.language_tsx, typescript.language_typescript
    low = path.lower()
    ways = [plain, tsx] if low.endswith((".ts", ".mts", ".cts")) else [tsx]
    ways = [javascript.language, tsx] if low.endswith((".js", ".jsx", ".mjs", ".cjs")) else ways
    try:
        roots = []
        for way in ways:
            roots.append(Parser(Language(way())).parse(data).root_node)
            if not roots[-1].has_error:
                return roots[-1]
        return roots[0]
    except (ValueError, TypeError):
        raise Unparsed("readers of other versions", "pip install --upgrade 'drillmaster[oracle]'") from None


def _errors(root: "Node") -> Iterator["Node"]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        waiting += [one for one in reversed(node.children) if one.has_error or one.is_missing]


class _Place(NamedTuple):
    swallowed: bool = False
    conditional: bool = False


class _Called(NamedTuple):
    """A call of a runner's function: `it.only.each(table)(name, body)`."""

    base: str
    words: tuple[str, ...]
    table: "Node | None"


class _File:
    def __init__(self, root: "Node", path: str, data: bytes) -> None:
        self.root = root
        self._data = data
        self.texts: dict[str, bytes] = {}
        self._found: dict[str, Callable[[], Test]] = {}
        self._ranges: list[tuple[int, int]] = []
        self.names = scriptassert.Names(root)
        self._aliases = aliases(root, _SUITES | _TESTS)
        self.settings: list[str] = []
        self.tests: dict[str, Test] = {}
        self.reaches = False
        self._config = re.search(r"\.(?:config|conf|workspace)\.\w+$|\.mocharc", path) is not None

    def gather(self) -> None:
        """Find the tests, without looking into one."""
        self._gather(self.root, (), (), [])
        self._ranges += [
            (node.start_byte, node.end_byte) for node in scriptassert.every(self.root, ("import_statement",))
        ]

    def rest(self) -> bytes:
        """Give what is no test and no import."""
        kept, at = [], 0
        for begin, end in sorted(self._ranges):
            if begin >= at:
                kept.append(self._data[at:begin].strip())
                at = end
        return b"\n".join(part for part in (*kept, self._data[at:].strip()) if part)

    def suite(self, same: frozenset[str] = frozenset()) -> Suite:
        """Give all of the file; of the tests named in `same` no more than the name."""
        for name, made in self._found.items():
            self.tests[name] = Test(name=name, line=0, body="") if name in same else made()
        if self._config:
            for node in scriptassert.every(self.root, ("pair",)):
                key = scriptassert.text(node.child_by_field_name("key")).strip("\"'")
                if key in _LAX_KEYS:
                    self.settings.append(f"{key}: {self.names.canonical(node.child_by_field_name('value'))}")
        self.settings += self._around()
        sources = set(scriptassert.sources(self.root))
        reaches = self.reaches or any(not _LIBRARIES.fullmatch(one) for one in sources)
        reaches = reaches or _GLOBALS.search(scriptassert.text(self.root)) is not None
        return Suite(
            tests=tuple(self.tests.values()),
            settings=tuple(self.settings),
            imports=scriptassert.imported(self.root),
            reaches_product=reaches or not self.tests,
        )

    def _around(self) -> Iterator[str]:
        """Give what stands around the tests and takes their failures away."""
        yield from (f"{name} is this file's own" for name in sorted(_OWN & self.names.helpers.keys()))
        for call in scriptassert.every(self.root, ("call_expression",)):
            said = scriptassert.text(call.child_by_field_name("function"))
            if said == "process.exit":
                yield f"ends the run: {self.names.canonical(call)}"
            elif said in ("beforeEach", "beforeAll", "before", "test.beforeEach", "test.beforeAll"):
                if re.search(r"\.(?:skip|fixme)\(|\bpending\(", scriptassert.text(call)):
                    yield f"skip: {self.names.canonical(call)}"
            elif said == "expect.extend":
                for one in scriptassert.every(call, ("pair", "method_definition")):
                    key = scriptassert.text(one.child_by_field_name("key") or one.child_by_field_name("name"))
                    if scriptassert.is_matcher(key):
                        yield f"{key} is this file's own"

    def _unused(self, function: "Node") -> bool:
        """Whether a function of the file is named nowhere but where it stands."""
        name = scriptassert.text(function.child_by_field_name("name"))
        above = function.parent
        exported = above is not None and above.type == "export_statement"
        return not exported and len(re.findall(rf"\b{re.escape(name)}\b", scriptassert.text(self.root))) == 1

    def _gather(
        self, node: "Node", path: tuple[str, ...], marks: tuple[str, ...], rows: list[list[str] | None]
    ) -> None:
        for child in node.named_children:
            if child.type == "call_expression" and (called := _called(child, self._aliases)) is not None:
                self._runner(child, called, path, marks, rows)
            elif child.type == "if_statement":
                condition = child.child_by_field_name("condition")
                truth = scriptassert.truth(condition)
                if truth is not False and (body := child.child_by_field_name("consequence")) is not None:
                    self._gather(
                        body, path, (*marks, *(() if truth else (f"if {self.names.canonical(condition)}",))), rows
                    )
                if truth is not True and (other := child.child_by_field_name("alternative")) is not None:
                    self._gather(other, path, (*marks, f"else of {self.names.canonical(condition)}"), rows)
            elif child.type == "call_expression" and (listed := self._each(child)) is not None:
                self._gather(child, path, marks, [*rows, listed])
            elif child.type == "for_in_statement":
                self._gather(child, path, marks, [*rows, self.names.elements(child.child_by_field_name("right"))])
            elif child.type == "return_statement" and node.type == "statement_block" and path:
                self._gather(child, path, marks, rows)
                break  # what stands behind it in this block is never reached
            elif child.type == "function_declaration" and self._unused(child):
                continue
            elif child.type not in ("comment", "string", "template_string", "class_declaration"):
                self._gather(child, path, marks, rows)

    def _each(self, call: "Node") -> list[str] | None:
        function = call.child_by_field_name("function")
        if function is None or function.type != "member_expression":
            return None
        if scriptassert.text(function.child_by_field_name("property")) not in ("forEach", "map"):
            return None
        return self.names.elements(function.child_by_field_name("object"))

    def _runner(
        self, call: "Node", called: _Called, path: tuple[str, ...], marks: tuple[str, ...], rows: list[list[str] | None]
    ) -> None:
        args = scriptassert.arguments(call)
        body = next((one for one in reversed(args) if one.type in _FUNCTIONS), None)
        titled = bool(args) and (args[0].type in ("string", "template_string") or body is not None)
        if not titled or set(called.words) & _NO_TESTS:
            if set(called.words) & {"skip", "fixme", "fail"} and not path:
                self.settings.append(f"skip: {self.names.canonical(call)}")
            return
        title = args[0] if args and args[0].type not in _FUNCTIONS else None
        name = (*path, self.names.title(title) if title is not None else "")
        own = list(marks)
        own += [word for word in called.words if word in _KEEPS_OUT]
        own += ["skip"] if called.base.startswith("x") else []
        own += [f"{key}" for key in self._options(args) if key in ("skip", "todo", "retry", "fails", "failing")]
        if (
            "only" in called.words
            or called.base in ("fit", "fdescribe", "fcontext", "ftest")
            or "only" in self._options(args)
        ):
            self.settings.append(f"only: {' > '.join(name)}")
        tables = [*rows, self.names.elements(called.table)] if called.table is not None else rows
        if called.base in _SUITES or "describe" in called.words:
            if body is not None:
                self._gather(body, name, tuple(own), tables)
            return
        if body is None:
            own.append("todo")
        whole = " > ".join(name)
        while whole in self._found:  # runners run both
            whole += " (again)"
        self.texts[whole] = call.text or b""
        self._ranges.append((call.start_byte, call.end_byte))
        self._found[whole] = partial(self._test, call, whole, body, args, tuple(own), tables)

    def _options(self, args: list["Node"]) -> dict[str, "Node"]:
        found = {}
        for one in args[1:]:
            for pair in one.named_children if one.type == "object" else ():
                key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
                if key is not None and value is not None and scriptassert.truth(value) is not False:
                    found[scriptassert.text(key)] = value
        return found

    def _test(
        self,
        call: "Node",
        name: str,
        body: "Node | None",
        args: list["Node"],
        marks: tuple[str, ...],
        rows: list[list[str] | None],
    ) -> Test:
        walk = _Walk(self, body)
        if body is not None:
            parameters = body.child_by_field_name("parameters") or body.child_by_field_name("parameter")
            self.reaches = self.reaches or (
                parameters is not None and "{" in scriptassert.text(parameters) and not rows
            )
            walk.visit(body.child_by_field_name("body") or body, _Place())
        walk.in_bounds(name)
        timeouts = [value for one in args[1:] if (value := self.names.number(one)) is not None]
        options = self._options(args)
        timeouts += [value for one in ("timeout",) if (value := self.names.number(options.get(one))) is not None]
        counted: Counter[str] = Counter()
        for one in (*rows, *walk.rows):
            counted.update(one or ())
        return Test(
            name=name,
            line=call.start_point[0] + 1,
            body=self.names.canonical(body) if body is not None else "pass",
            asserts=tuple(walk.asserts),
            marks=(*marks, *walk.marks, *(["no row"] if [] in rows else [])),
            rows=None if None in rows else tuple(sorted(counted.elements())),
            timeouts=tuple(sorted(walk.timeouts)),
            limit_s=min(timeouts, default=None),
        )


def _called(call: "Node", known: dict[str, Alias]) -> _Called | None:
    """Say which function of a runner a call is of; None: of none."""
    function, table = call.child_by_field_name("function"), None
    if function is not None and function.type == "call_expression":  # `it.each(table)(...)`
        given = function.child_by_field_name("arguments")
        table = (
            given.named_children[0]
            if given is not None and given.type == "arguments" and given.named_children
            else given
        )
        function = function.child_by_field_name("function")
        if function is None or not scriptassert.text(function).endswith((".each", ".for", ".skipIf", ".runIf")):
            return None
        table = table if scriptassert.text(function).endswith((".each", ".for")) else None
    if (alias := resolved(function, known, _SUITES | _TESTS)) is not None:
        return _Called(alias[0], alias[1], table)
    words: list[str] = []
    while function is not None and function.type == "member_expression":
        words.append(scriptassert.text(function.child_by_field_name("property")))
        function = function.child_by_field_name("object")
        if function is not None and function.type == "call_expression":
            function = function.child_by_field_name("function")
    base = scriptassert.text(function) if function is not None and function.type == "identifier" else ""
    if base in ("Deno", "QUnit") and words:
        base = f"{base}.{words.pop()}"
    return _Called(base, tuple(words), table) if base in _SUITES | _TESTS else None


def _leaves(node: "Node | None", kinds: tuple[str, ...]) -> bool:
    """Whether a statement of some kinds stands in a node, and in no function within it."""
    waiting = [node] if node is not None else []
    while waiting:
        here = waiting.pop()
        if here.type in kinds:
            return True
        waiting += [
            one for one in here.named_children if one.type not in _FUNCTIONS and one.type != "function_declaration"
        ]
    return False


class _Walk:
    """One test's function, with the helpers of the file that it calls."""

    def __init__(self, file: _File, body: "Node | None") -> None:
        self.file = file
        self.asserts: list[Assertion] = []
        self.marks: list[str] = []
        self.rows: list[list[str]] = []
        self.timeouts: list[float] = []
        self.names = file.names.of(body) if body is not None else file.names
        self._inside: list[str] = []
        self._calls_left = MAX_CALLS
        given = scriptassert.text(body.child_by_field_name("parameters")) if body is not None else ""
        self._has_done = re.search(r"\b(?:done|cb|callback|resolve|t)\b", given) is not None

    def visit(self, node: "Node", place: _Place) -> bool:
        """Walk a node; whether it always leaves, so that what follows in its block is dead."""
        kind = node.type
        if kind in ("comment", "string", "function_declaration", "class_declaration", "import_statement"):
            return False
        if kind == "if_statement":
            return self._if(node, place)
        if kind == "try_statement":
            self._try(node, place)
            return False
        if kind in ("return_statement", "throw_statement", "continue_statement", "break_statement"):
            self._all(node, place)
            return True
        if kind in ("ternary_expression", "switch_case", "switch_default"):
            self._all(node, place._replace(conditional=True))
            return False
        if kind in ("for_in_statement", "while_statement", "for_statement", "do_statement"):
            return self._loop(node, place)
        if kind == "binary_expression" and scriptassert.text(node.child_by_field_name("operator")) in (
            "&&",
            "||",
            "??",
        ):
            self._all(node, place._replace(conditional=True))
            return False
        if (
            kind == "variable_declarator"
            and (value := node.child_by_field_name("value")) is not None
            and value.type in _FUNCTIONS
        ):
            return False  # a helper: looked at where it is called
        if kind in ("call_expression", "member_expression") and self._assertion(node, place):
            return False
        if kind == "call_expression":
            self._call(node, place)
            return False
        return self._all(node, place) and kind in ("statement_block", "program", "expression_statement")

    def _all(self, node: "Node", place: _Place) -> bool:
        if node.type == "statement_block":
            for one in node.named_children:
                if self.visit(one, place):
                    return True  # and no further
                if one.type == "if_statement" and _leaves(one, ("continue_statement", "break_statement")):
                    place = place._replace(conditional=True)  # what follows is asserted of some rows alone
            return False
        for one in node.named_children:
            self.visit(one, place)
        return False

    def _if(self, node: "Node", place: _Place) -> bool:
        condition = node.child_by_field_name("condition")
        truth = scriptassert.truth(condition)
        under = place._replace(conditional=place.conditional or truth is None)
        left = other = False
        body, rest = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        if truth is not False and body is not None:
            left = self.visit(body, under)
        if truth is not True and rest is not None:
            other = self._all(rest, under)
        if truth is None and left and rest is None and "return" in scriptassert.text(body):
            self.marks.append(f"return if {self.names.canonical(condition)}")
        return (left and truth is True) or (left and other)

    def _try(self, node: "Node", place: _Place) -> None:
        handler = node.child_by_field_name("handler")
        silent = handler is not None and self._silent(handler)
        silent = silent or _leaves(node.child_by_field_name("finalizer"), ("return_statement",))
        body, last = node.child_by_field_name("body"), node.child_by_field_name("finalizer")
        if body is not None:
            self.visit(body, place._replace(swallowed=place.swallowed or silent))
        if handler is not None and (caught := handler.child_by_field_name("body")) is not None:
            self.visit(caught, place._replace(conditional=True))
        if last is not None:
            self._all(last, place)

    def _loop(self, node: "Node", place: _Place) -> bool:
        if scriptassert.truth(node.child_by_field_name("condition")) is False and node.type == "while_statement":
            return False
        rows = self.names.elements(node.child_by_field_name("right")) if node.type == "for_in_statement" else None
        if rows == []:
            return False
        before = len(self.asserts)
        for one in node.named_children:
            self.visit(one, place)
        if rows is not None and len(self.asserts) > before:
            self.rows.append(rows)
        return False

    def _silent(self, handler: "Node") -> bool:
        """Whether a handler takes a failed assertion and goes on as if nothing were."""
        said = scriptassert.text(handler.child_by_field_name("body") or handler)
        if re.search(rf"\b(?:{'|'.join(map(re.escape, sorted(self.names.contexts))) or 't'})\.\w+\(", said):
            return False
        return _SAYS.search(said) is None

    def in_bounds(self, name: str) -> None:
        """Raise Unparsed for a test that nobody can have read."""
        if len(self.asserts) > MAX_ASSERTS:
            raise Unparsed(f"{len(self.asserts):,} assertions in {name}", "write them as a table of rows")

    def _assertion(self, node: "Node", place: _Place) -> bool:
        made = scriptassert.of(node, self.names)
        if made is None:
            return False
        if place.swallowed or place.conditional:
            made = msgspec.structs.replace(
                made, swallowed=made.swallowed or place.swallowed, conditional=place.conditional
            )
        self.asserts.append(made)
        return True

    def _call(self, node: "Node", place: _Place) -> None:
        function = node.child_by_field_name("function")
        said = scriptassert.text(function)
        if re.fullmatch(r"(?:this|t|ctx|context|test|it)\.(?:skip|todo|fixme|fail)|pending", said):
            self.marks.append(f"{said}()" + (" under a condition" if place.conditional else ""))
            return
        last = said.rpartition(".")[2]
        if last == "catch" and function is not None and (held := function.child_by_field_name("object")) is not None:
            silent = any(self._silent(one) for one in scriptassert.arguments(node) if one.type in _FUNCTIONS)
            self.visit(held, place._replace(swallowed=place.swallowed or silent))
            return
        late = said in ("setTimeout", "setImmediate", "process.nextTick", "queueMicrotask", "requestAnimationFrame")
        if (late or (last == "then" and scriptassert.dropped(node))) and not self._has_done:
            self._all(node, place._replace(swallowed=True))  # nobody waits for it
            return
        if last in ("forEach", "map") and function is not None:
            rows = self.names.elements(function.child_by_field_name("object"))
            before = len(self.asserts)
            if rows != []:
                self._all(node, place)
            if rows and len(self.asserts) > before:
                self.rows.append(rows)
            return
        for pair in scriptassert.every(node, ("pair",)):
            if scriptassert.text(pair.child_by_field_name("key")) == "timeout":
                value = self.names.number(pair.child_by_field_name("value"))
                self.timeouts += [] if value is None else [value]
        self._all(node, place)
        self._calls_left -= 1
        if self._calls_left < 0:
            return
        helper = self.file.names.helpers.get(said) if function is not None and function.type == "identifier" else None
        if helper is None or said in self._inside or len(self._inside) >= _DEPTH:
            return
        self._inside.append(said)
        held_names, self.names = self.names, self.names.inside(helper, scriptassert.arguments(node))
        body = helper.child_by_field_name("body")
        if body is not None:
            self.visit(body, place)
        self.names = held_names
        self._inside.pop()
