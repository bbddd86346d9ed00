"""Two versions of the tools that an agent may call: what an agent that learned the earlier ones meets.

1. A tool's parameters are a request: the model writes them. Its output, where it is described, is a response. What is behind
   the tool counts on each parameter that was asked for: one that may be left out now breaks it.
2. A tool goes by its name. A renamed one was removed and added.
3. The lists of MCP, OpenAI and Anthropic say the same in other words, and so do files with one tool.
"""

from collections.abc import Iterator
from typing import Any

from drillmaster.rules.schema_break._breaks import REQUEST, RESPONSE, Break, Sides, once, valued
from drillmaster.rules.schema_break._compare import Comparison
from drillmaster.rules.schema_break._nodes import Document, Node, Part, step

__all__ = ["listed_tools", "tool_breaks"]

_INPUTS = ("inputSchema", "input_schema", "parameters")
_OUTPUTS = ("outputSchema", "output_schema")


def listed_tools(root: Any) -> dict[str, Part] | None:
    """Find the tools of a document by name; None where it has none. A name that stands twice is under `name#2` as well."""
    found: dict[str, Part] = {}
    for at, value in _candidates(root):
        if isinstance(value, dict) and isinstance(value.get("function"), dict):
            at, value = step(at, "function"), value["function"]
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return None
        if not any(isinstance(value.get(word), dict) for word in (*_INPUTS, *_OUTPUTS)):
            return None
        name, n = value["name"], 2
        while name in found:
            name, n = f"{value['name']}#{n}", n + 1
        found[name] = Part(at, value)
    return found or None


def _candidates(root: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(root, list):
        yield from ((step("", i), one) for i, one in enumerate(root))
        return
    if not isinstance(root, dict):
        return
    for words in (("tools",), ("result", "tools"), ("functions",)):
        inner: Any = root
        for word in words:
            inner = inner.get(word) if isinstance(inner, dict) else None
        if isinstance(inner, list):
            yield from ((step("", *words, i), one) for i, one in enumerate(inner))
            return
    yield "", root


def tool_breaks(old: Any, new: Any, *, today: str = "") -> list[Break]:
    """Compare two documents of tools."""
    return once(_tools(old, new, today))


def _tools(old: Any, new: Any, today: str) -> Iterator[Break]:
    before, after = listed_tools(old) or {}, listed_tools(new) or {}
    compare = Comparison(Document(old), Document(new), behind=True, today=today)
    for name in after:
        if "#" in name and name.partition("#")[0] in after:
            says = f"tool {valued(name.partition('#')[0])} stands twice: which one is called cannot be told"
            yield Break(rule="tool-twice", level="unclear", at=after[name].at, says=says)
    for name, tool in before.items():
        if name not in after:
            says = f"an agent that still calls {valued(name)} is told that there is no such tool"
            yield Break(rule="tool-removed", level="break", was=tool.at, says=says)
            continue
        for words, sides, what in ((_INPUTS, REQUEST, "parameters"), (_OUTPUTS, RESPONSE, "output")):
            yield from _schema(compare, tool, after[name], words, sides, f"tool {name}, {what}")


def _schema(
    compare: Comparison, old: Part, new: Part, words: tuple[str, ...], sides: Sides, trail: str
) -> Iterator[Break]:
    a, b = (next((Part(step(t.at, w), t.value[w]) for w in words if w in t.value), None) for t in (old, new))
    if a is None and b is None:
        return
    if sides == RESPONSE and b is None and a is not None:
        says = f"{trail}: a reader that counts on its form may get any"
        yield Break(rule="output-schema-removed", level="break", was=a.at, at=new.at, says=says)
        return
    if sides == RESPONSE and a is None:
        return  # a promise more
    yield from compare.schemas(Node((a or Part(old.at, True),)), Node((b or Part(new.at, True),)), sides, trail)
