"""A JavaScript or TypeScript module by its syntax tree (tree-sitter, extra `oracle`): as `_imports_python` has it of Python.

1. `import`, `export ... from`, `import x = require()`, `require` and `import()` with a constant are imports; an import of
   types is one.
2. `require` and `import()` of anything else, `eval`, `Function`, `createRequire`, `Reflect.get` and names with escapes in
   them are what nobody can follow.
3. A read is `.NAME`, `["NAME"]`, a name that is taken apart (`const {body} = request`), a parameter or a field.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from drillmaster.gates._imports_names import CALLS, PARAMETERS, READS
from drillmaster.gates._imports_shapes import Hit, Imported, Scan, Unparsed

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["scan"]

MAX_BYTES = 4 << 20
_REACHES = frozenset(
    {
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "EventSource",
        "sendBeacon",
        "WebTransport",
        "importScripts",
        "Deno",
        "Bun",
    }
)
_RUNS = frozenset(
    {
        "eval",
        "Function",
        "createRequire",
        "require",
        "runInContext",
        "runInNewContext",
        "runInThisContext",
        "compileFunction",
        "dlopen",
        "_load",
        "_linkedBinding",
        "WebAssembly",
    }
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\s\S]))")
_AROUND = ("parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression")
_IDENTIFIERS = (
    "identifier",
    "property_identifier",
    "shorthand_property_identifier",
    "shorthand_property_identifier_pattern",
)


@lru_cache(maxsize=4_096)
def scan(data: bytes, suffix: str) -> Scan:
    """Read one module of that suffix. Raises Unparsed; without the extra that reads it, with the command that brings it."""
    if len(data) > MAX_BYTES:
        raise Unparsed(f"{len(data):,} bytes of script")
    try:
        data.decode("utf-8")
        root = _parsed(data, suffix)
        if root.has_error:
            raise Unparsed("no script that parses")
        return _Walk(root).scan()
    except UnicodeDecodeError:
        raise Unparsed("no UTF-8") from None
    except RecursionError:
        raise Unparsed("what is nested too deeply to be read") from None


def _parsed(data: bytes, suffix: str) -> "Node":
    try:
        import tree_sitter_javascript as javascript
        import tree_sitter_typescript as typescript
        from tree_sitter import Language, Parser
    except ImportError:
        raise Unparsed("no reader of JavaScript and TypeScript here: pip install 'drillmaster[oracle]'") from None
    plain, tsx = typescript.language_typescript, typescript.language_tsx
    ways = {".ts": (plain,), ".mts": (plain,), ".cts": (plain,), ".tsx": (tsx,)}.get(suffix, (javascript.language, tsx))
    roots = [Parser(Language(way())).parse(data).root_node for way in ways]
    return next((one for one in roots if not one.has_error), roots[0])


class _Walk:
    def __init__(self, root: "Node") -> None:
        self._root = root
        self._texts: dict[str, set[str]] = {}
        self._told: set[int] = set()
        """Nodes that were told with what they stand in."""
        self.imports: list[Imported] = []
        self.dynamic: list[Hit] = []
        self.reads: list[Hit] = []
        self.reaches: list[Hit] = []

    def scan(self) -> Scan:
        for node in _every(self._root):
            name, value = node.child_by_field_name("name"), _string(node.child_by_field_name("value"))
            if node.type == "variable_declarator" and name is not None and value is not None:
                self._texts.setdefault(_text(name), set()).add(value)
        for node in _every(self._root):
            self._node(node)
        return Scan(
            imports=tuple(self.imports),
            dynamic=tuple(self.dynamic),
            reads=tuple(self.reads),
            reaches=tuple(self.reaches),
        )

    def _node(self, node: "Node") -> None:
        line, kind = node.start_point[0] + 1, node.type
        if kind in ("import_statement", "export_statement", "import_require_clause"):
            source = node.child_by_field_name("source")
            if source is not None:
                self.imports.append(Imported(line, _string(source) or ""))
        elif kind in ("call_expression", "new_expression"):
            self._call(node, line)
        elif kind == "member_expression":
            self._member(node, line)
        elif kind == "subscript_expression":
            for key in self._known(node.child_by_field_name("index")):
                if key in READS or key in CALLS:
                    self.reads.append(Hit(line, f'["{key}"]'))
                elif key in _RUNS or key in _REACHES or key == "constructor":
                    self.dynamic.append(Hit(line, f'["{key}"]'))
        elif kind == "with_statement":
            self.dynamic.append(Hit(line, "with"))
        elif kind in _IDENTIFIERS:
            self._identifier(node, line)
        elif kind in ("pair_pattern", "property_signature", "public_field_definition", "field_definition"):
            key_node = node.child_by_field_name("key") or node.child_by_field_name("name")
            key_node = key_node or node.child_by_field_name("property")
            if key_node is not None and key_node.type == "computed_property_name":
                keys = self._known(key_node.named_children[0] if key_node.named_children else None)
            else:
                keys = (_string(key_node) or _text(key_node),)
            self.reads += [Hit(line, key) for key in keys if key in (READS if kind == "pair_pattern" else PARAMETERS)]
            if kind == "pair_pattern":
                self._taken_apart(keys, line)

    def _call(self, node: "Node", line: int) -> None:
        called = node.child_by_field_name("function") or node.child_by_field_name("constructor")
        name = _text(called)
        given = node.child_by_field_name("arguments")
        values = [one for one in given.named_children if one.type != "comment"] if given is not None else []
        known = self._known(values[0]) if values else ()
        first = known[0] if known else None
        if name in (
            "require",
            "import",
            "require.resolve",
            "module.require",
            "import.meta.resolve",
            "process.getBuiltinModule",
        ):
            if called is not None:
                self._tell(called)
            if first is None:
                self.dynamic.append(Hit(line, f"{name}()"))
            self.imports += [Imported(line, one) for one in known]
        elif name in ("Worker", "SharedWorker") and node.type == "new_expression":
            if first is None:
                self.dynamic.append(Hit(line, f"new {name}()"))
            self.imports += [Imported(line, one) for one in known]
        elif name.startswith("import.meta.") or name == "require.context":
            if called is not None:
                self._tell(called)
            self.dynamic.append(Hit(line, f"{name}()"))
        elif name in ("setTimeout", "setInterval", "setImmediate") and first is not None:
            self.dynamic.append(Hit(line, f"{name}() of a text"))
        elif name in ("Reflect.get", "Object.getOwnPropertyDescriptor"):
            key = _string(values[1]) if len(values) > 1 else None
            if key is None:
                self.dynamic.append(Hit(line, f"{name}()"))
            elif key in READS:
                self.reads.append(Hit(line, f".{key}"))
        elif called is not None and called.type == "member_expression":
            method = _text(called.child_by_field_name("property"))
            if method in CALLS:
                self.reads.append(Hit(line, f".{method}()"))
            elif method == "get" and first in READS:
                self.reads.append(Hit(line, f'["{first}"]'))

    def _known(self, node: "Node | None") -> tuple[str, ...]:
        """Give the texts that an expression can be, as far as they stand here; (): it is computed."""
        text = _string(node)
        if text is not None:
            return (text,)
        return tuple(sorted(self._texts.get(_text(node), ()))) if node is not None and node.type == "identifier" else ()

    def _tell(self, node: "Node") -> None:
        self._told |= {one.id for one in _every(node)}

    def _member(self, node: "Node", line: int) -> None:
        name = node.child_by_field_name("property")
        said = _text(name)
        if node.id in self._told:
            return
        above = node.parent
        makes = above is not None and (
            above.type in ("call_expression", "new_expression")
            or _text(above.child_by_field_name("property")) in ("constructor", "_load")
        )
        if said in READS:
            self.reads.append(Hit(line, f".{said}"))
        elif said == "constructor" and makes:
            self.dynamic.append(Hit(line, ".constructor"))
        elif said in _RUNS - {"require"} or _text(node) in (
            "module.require",
            "globalThis.require",
            "process.binding",
            "process.mainModule",
        ):
            self.dynamic.append(Hit(line, f".{said}"))
        elif said in _REACHES:
            self.reaches.append(Hit(line, f".{said}"))

    def _taken_apart(self, keys: tuple[str, ...], line: int) -> None:
        """`const {fetch: get} = globalThis`: from then on it has another name."""
        self.dynamic += [Hit(line, key) for key in keys if key in _RUNS]
        self.reaches += [Hit(line, key) for key in keys if key in _REACHES]

    def _identifier(self, node: "Node", line: int) -> None:
        said = _text(node)
        if "\\" in said:
            self.dynamic.append(Hit(line, "a name with escapes in it"))
        elif node.type == "shorthand_property_identifier_pattern":
            if said in READS:
                self.reads.append(Hit(line, said))
            self._taken_apart((said,), line)
        elif node.type == "identifier" and node.id not in self._told:
            if said in _RUNS:
                self.dynamic.append(Hit(line, said))
            elif said in _REACHES:
                self.reaches.append(Hit(line, said))
            elif said in PARAMETERS and _is_parameter(node):
                self.reads.append(Hit(line, said))


def _is_parameter(node: "Node") -> bool:
    above = node.parent
    while above is not None and above.type in (
        "required_parameter",
        "optional_parameter",
        "assignment_pattern",
        "rest_pattern",
    ):
        above = above.parent
    if above is None:
        return False
    if above.type == "arrow_function":
        one = above.child_by_field_name("parameter")
        return one is not None and one.id == node.id
    return above.type in ("formal_parameters", "import_specifier", "import_clause")


def _every(root: "Node") -> Iterator["Node"]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.named_children)


def _text(node: "Node | None") -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


def _string(node: "Node | None") -> str | None:
    """Give the text that a literal is, its escapes read, or several are that are put together; None: it is computed."""
    while node is not None and node.type in _AROUND and node.named_children:
        node = node.named_children[0]
    if node is not None and node.type == "binary_expression" and _text(node.child_by_field_name("operator")) == "+":
        left, right = (_string(node.child_by_field_name(side)) for side in ("left", "right"))
        return None if left is None or right is None else left + right
    if node is None or node.type not in ("string", "template_string"):
        return None
    if any(one.type == "template_substitution" for one in node.named_children):
        return None
    return _ESCAPE.sub(_meant, _text(node)[1:-1])


def _meant(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        number = int(digits, 16)
        return chr(number) if number < 0x110000 else ""
    return "" if match[4] in ("\n", "\r\n") else {"n": "\n", "t": "\t", "r": "\r"}.get(match[4], match[4])
