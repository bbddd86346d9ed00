"""Two versions of an OpenAPI document (3.0, 3.1): what a caller of the earlier one meets at the later one.

1. Paths are the same whatever their parameters are called. What is gone is gone; what was renamed was removed and added.
2. Requests are written by callers and responses read by them; in a webhook and a callback it is the other way round.
3. A caller that was let in has to be let in still: one of its ways to authorise has to be enough.
4. An operation that was announced to go (`deprecated` with `x-sunset`) may go when its day has come.
"""

import re
from collections.abc import Iterator
from typing import Any

from drillmaster.rules.schema_break._breaks import REQUEST, RESPONSE, Break, Level, Side, Sides, listed, once, valued
from drillmaster.rules.schema_break._compare import Comparison
from drillmaster.rules.schema_break._nodes import Document, Missing, Node, Part, step

__all__ = ["openapi_breaks"]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
_STYLES = {"query": "form", "cookie": "form", "path": "simple", "header": "simple"}


def openapi_breaks(old: Any, new: Any, *, today: str = "") -> list[Break]:
    """Compare two documents. `today` (`2026-11-30`) is what announced ends are held against; "" ends nothing."""
    return once(_Api(old, new, today).all())


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _nullable(root: Any) -> bool:
    return str(_fields(root).get("openapi", "")).startswith("3.0")


class _Api:
    def __init__(self, old: Any, new: Any, today: str) -> None:
        self.old = Document(old, nullable=_nullable(old))
        self.new = Document(new, nullable=_nullable(new))
        self.today = today
        self.compare = Comparison(self.old, self.new, defaults=True, today=today)

    def all(self) -> Iterator[Break]:
        a, b = _fields(self.old.root), _fields(self.new.root)
        yield from self._paths(_fields(a.get("paths")), _fields(b.get("paths")))
        yield from self._hooks(a, b)
        yield from self._schemes(a, b)
        gone = {s["url"] for s in map(_fields, _items(a.get("servers"))) if isinstance(s.get("url"), str)} - {
            s["url"] for s in map(_fields, _items(b.get("servers"))) if isinstance(s.get("url"), str)
        }
        for url in sorted(gone):
            yield Break(
                rule="server-removed",
                level="note",
                was="/servers",
                says=f"{valued(url)} is no longer named as a server",
            )

    # References of any part: path items, parameters, bodies, responses, headers

    def _whole(self, document: Document, at: str, value: Any) -> Part:
        seen = set()
        while isinstance(value, dict) and isinstance(value.get("$ref"), str) and at not in seen:
            seen.add(at)
            target = document.resolve(value["$ref"], at)
            at, value = target.at, target.value
        return Part(at, value)

    # Paths

    def _paths(self, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Break]:
        known = {_template(path): path for path in b}
        for path, item in a.items():
            if not path.startswith("/"):
                continue
            at = step("/paths", path)
            if _template(path) not in known:
                yield from self._path_gone(path, at, item)
                continue
            other = known[_template(path)]
            try:
                old = self._whole(self.old, at, item)
                new = self._whole(self.new, step("/paths", other), b[other])
            except Missing as missing:
                yield self.compare.missing(missing, path)
                continue
            yield from self._item(path, old, new, REQUEST, RESPONSE)

    def _path_gone(self, path: str, at: str, item: Any) -> Iterator[Break]:
        try:
            part = self._whole(self.old, at, item)
        except Missing:
            part = Part(at, {})
        operations = [_fields(part.value[m]) for m in METHODS if isinstance(_fields(part.value).get(m), dict)]
        level: Level = "note" if operations and all(self._ended(one) for one in operations) else "break"
        methods = listed(m.upper() for m in METHODS if m in _fields(part.value)) or "a call"
        yield Break(
            rule="path-removed", level=level, was=at, says=f"{path}: a caller that still sends {methods} here gets 404"
        )

    def _ended(self, operation: dict[str, Any]) -> bool:
        sunset = operation.get("x-sunset")
        return (
            operation.get("deprecated") is True
            and isinstance(sunset, str)
            and re.match(r"\d{4}-\d{2}-\d{2}", sunset) is not None
            and bool(self.today)
            and sunset[:10] <= self.today
        )

    def _item(self, name: str, old: Part, new: Part, asks: Sides, answers: Sides) -> Iterator[Break]:
        a, b = _fields(old.value), _fields(new.value)
        for method in METHODS:
            if not isinstance(a.get(method), dict):
                continue
            place = f"{method.upper()} {name}"
            if not isinstance(b.get(method), dict):
                level: Level = "note" if self._ended(a[method]) else "break"
                says = f"{place}: a caller that still sends {method.upper()} gets 405"
                yield Break(rule="method-removed", level=level, was=step(old.at, method), at=new.at, says=says)
                continue
            try:
                yield from self._operation(place, old, new, method, asks, answers)
            except Missing as missing:
                yield self.compare.missing(missing, place)

    def _operation(self, place: str, old: Part, new: Part, method: str, asks: Sides, answers: Sides) -> Iterator[Break]:
        a, b = old.value[method], new.value[method]
        was, at = step(old.at, method), step(new.at, method)
        if isinstance(a.get("operationId"), str) and a["operationId"] != b.get("operationId"):
            says = f"{place}: a client that was generated calls {valued(a['operationId'])}, which is no more"
            yield Break(rule="operation-id-changed", level="break", at=at, was=step(was, "operationId"), says=says)
        yield from self._parameters(place, old, new, method, asks)
        yield from self._body(place, Part(was, a), Part(at, b), asks)
        yield from self._responses(place, Part(was, a), Part(at, b), answers)
        yield from self._security(place, a, b, was, at)
        callbacks, later = _fields(a.get("callbacks")), _fields(b.get("callbacks"))
        for name, callback in callbacks.items():
            if name not in later:
                says = f"{place}: a caller that waits for the callback {valued(name)} waits in vain"
                yield Break(rule="callback-removed", level="break", was=step(was, "callbacks", name), at=at, says=says)
                continue
            one = self._whole(self.old, step(was, "callbacks", name), callback)
            two = self._whole(self.new, step(at, "callbacks", name), later[name])
            for url, item in _fields(one.value).items():
                if url in _fields(two.value):
                    inner = Part(step(one.at, url), item), Part(step(two.at, url), two.value[url])
                    yield from self._item(f"{place} callback {name}", *inner, answers, asks)

    # Parameters

    def _parameters_of(self, document: Document, item: Part, method: str) -> dict[tuple[str, str], Part]:
        found: dict[tuple[str, str], Part] = {}
        for at, rows in (
            (step(item.at, "parameters"), _items(item.value.get("parameters"))),
            (step(item.at, method, "parameters"), _items(item.value[method].get("parameters"))),
        ):
            for i, row in enumerate(rows):
                part = self._whole(document, step(at, i), row)
                where, name = _fields(part.value).get("in"), _fields(part.value).get("name")
                if not isinstance(where, str) or not isinstance(name, str):
                    continue
                if where == "header" and name.lower() in _IGNORED_HEADERS:
                    continue
                found[where, name.lower() if where == "header" else name] = part
        return found

    def _parameters(self, place: str, old: Part, new: Part, method: str, asks: Sides) -> Iterator[Break]:
        a = self._parameters_of(self.old, old, method)
        b = self._parameters_of(self.new, new, method)
        renamed = self._path_names(old, new, place)
        for key, part in a.items():
            where, name = key
            other = b.get((where, renamed.get(name, name)) if where == "path" else key)
            if other is None:
                says = f"{place}: a caller that still sends the {where} parameter `{name}` is not heard, or is refused"
                level: Level = "note" if self._ended(part.value) else "break"
                yield Break(rule="parameter-removed", level=level, was=part.at, at=step(new.at, method), says=says)
                continue
            yield from self._parameter(place, where, name, part, other, asks)
        for key, part in b.items():
            where, name = key
            if key in a or where == "path":
                continue
            if part.value.get("required") is True:
                defaulted = "default" in _fields(part.value.get("schema"))
                says = f"{place}: a caller that still leaves out the {where} parameter `{name}` is refused"
                level = "note" if defaulted else "break"
                yield Break(rule="required-parameter-added", level=level, at=part.at, says=says)

    def _path_names(self, old: Part, new: Part, place: str) -> dict[str, str]:
        olds, news = (
            re.findall(r"\{([^{}]+)\}", old.at.replace("~1", "/")),
            re.findall(r"\{([^{}]+)\}", new.at.replace("~1", "/")),
        )
        return dict(zip(olds, news, strict=True)) if len(olds) == len(news) else {}

    def _parameter(self, place: str, where: str, name: str, old: Part, new: Part, asks: Sides) -> Iterator[Break]:
        a, b = old.value, new.value
        trail = f"{place}, {where} parameter `{name}`"
        if b.get("required") is True and a.get("required") is not True:
            level: Level = "note" if "default" in _fields(b.get("schema")) else "break"
            says = f"{trail}: a caller that still leaves it out is refused"
            yield Break(
                rule="parameter-became-required", level=level, at=step(new.at, "required"), was=old.at, says=says
            )
        style = [one.get("style", _STYLES.get(where)) for one in (a, b)]
        spread = [one.get("explode", one.get("style", _STYLES.get(where)) == "form") for one in (a, b)]
        if style[0] != style[1] or spread[0] != spread[1] or ("content" in a) != ("content" in b):
            says = f"{trail}: a caller that still writes it as {style[0]} is not understood"
            yield Break(rule="parameter-style-changed", level="break", at=new.at, was=old.at, says=says)
        if where == "query" and a.get("allowEmptyValue") is True and b.get("allowEmptyValue") is not True:
            says = f"{trail}: a caller that still sends it empty is refused"
            yield Break(rule="parameter-empty-refused", level="break", at=new.at, was=old.at, says=says)
        if "schema" in a and "schema" in b:
            yield from self._schema(
                Part(step(old.at, "schema"), a["schema"]), Part(step(new.at, "schema"), b["schema"]), asks, trail
            )
        elif "content" in a and "content" in b:
            yield from self._media(
                Part(step(old.at, "content"), a["content"]), Part(step(new.at, "content"), b["content"]), asks, trail
            )

    def _schema(self, old: Part, new: Part, sides: Sides, trail: str) -> Iterator[Break]:
        yield from self.compare.schemas(Node((old,)), Node((new,)), sides, trail)

    # Bodies

    def _body(self, place: str, old: Part, new: Part, asks: Sides) -> Iterator[Break]:
        a, b = old.value.get("requestBody"), new.value.get("requestBody")
        trail = f"{place}, body"
        if a is None and b is None:
            return
        one = self._whole(self.old, step(old.at, "requestBody"), a)
        two = self._whole(self.new, step(new.at, "requestBody"), b)
        side: Side = "request" if asks == REQUEST else "response"
        if b is None:
            says = f"{trail}: a caller that still sends one is not heard"
            yield Break(rule=f"{side}-body-removed", level="break", was=one.at, at=new.at, says=says)
            return
        needs = _fields(two.value).get("required") is True
        if needs and _fields(one.value).get("required") is not True and asks == REQUEST:
            says = f"{trail}: a caller that still sends none is refused"
            rule = "request-body-added" if a is None else "request-body-became-required"
            yield Break(rule=rule, level="break", at=two.at, was=one.at if a is not None else "", says=says)
        if a is not None:
            content = Part(step(one.at, "content"), _fields(one.value).get("content"))
            yield from self._media(
                content, Part(step(two.at, "content"), _fields(two.value).get("content")), asks, trail
            )

    def _media(self, old: Part, new: Part, sides: Sides, trail: str) -> Iterator[Break]:
        a, b = _fields(old.value), _fields(new.value)
        known = {_media_name(name): name for name in b}
        for name, media in a.items():
            other = known.get(_media_name(name))
            if other is None:
                side = "request" if sides == REQUEST else "response"
                what = f"sends {name} gets 415" if sides == REQUEST else f"asks for {name} gets 406, or another form"
                yield Break(
                    rule=f"{side}-media-type-removed",
                    level="break",
                    was=step(old.at, name),
                    at=new.at,
                    says=f"{trail}: a caller that still {what}",
                )
                continue
            one, two = _fields(media), _fields(b[other])
            if "schema" in one or "schema" in two:
                was = Part(step(old.at, name, "schema"), one.get("schema", True))
                now = Part(step(new.at, other, "schema"), two.get("schema", True))
                yield from self._schema(was, now, sides, trail)

    # Answers

    def _responses(self, place: str, old: Part, new: Part, answers: Sides) -> Iterator[Break]:
        a, b = _fields(old.value.get("responses")), _fields(new.value.get("responses"))
        for code, response in a.items():
            if code.startswith("x-"):
                continue
            other = (
                code if code in b else next((c for c in b if c.upper() == f"{code[:1]}XX" and code[:1].isdigit()), None)
            )
            was = step(old.at, "responses", code)
            if other is None:
                success = code.startswith("2")
                says = f"{place}: a caller that waits for {code} " + (
                    "gets something else" if success else "meets another error than it knows"
                )
                rule = "response-success-removed" if success else "response-error-removed"
                yield Break(rule=rule, level="break" if success else "note", was=was, at=new.at, says=says)
                continue
            one = self._whole(self.old, was, response)
            two = self._whole(self.new, step(new.at, "responses", other), b[other])
            trail = f"{place}, answer {code}"
            yield from self._headers(trail, one, two, answers)
            content = Part(step(one.at, "content"), _fields(one.value).get("content"))
            yield from self._media(
                content, Part(step(two.at, "content"), _fields(two.value).get("content")), answers, trail
            )
        for code in b:
            if code.startswith("2") and code not in a and f"{code[0]}XX" not in a and "default" not in a:
                says = f"{place}: a caller may get {code} as well"
                yield Break(rule="response-success-added", level="note", at=step(new.at, "responses", code), says=says)

    def _headers(self, trail: str, old: Part, new: Part, answers: Sides) -> Iterator[Break]:
        a, b = _fields(_fields(old.value).get("headers")), _fields(_fields(new.value).get("headers"))
        known = {name.lower(): name for name in b}
        for name, header in a.items():
            if name.lower() == "content-type":
                continue
            was = self._whole(self.old, step(old.at, "headers", name), header)
            if name.lower() not in known:
                says = f"{trail}: a caller that reads the header {name} finds none"
                yield Break(rule="response-header-removed", level="break", was=was.at, at=new.at, says=says)
                continue
            other = known[name.lower()]
            now = self._whole(self.new, step(new.at, "headers", other), b[other])
            if _fields(was.value).get("required") is True and _fields(now.value).get("required") is not True:
                says = f"{trail}: a caller that counts on the header {name} may find none"
                yield Break(rule="response-header-became-optional", level="break", at=now.at, was=was.at, says=says)
            spread = [_fields(one.value).get("explode") is True for one in (was, now)]
            if spread[0] != spread[1] or ("content" in _fields(was.value)) != ("content" in _fields(now.value)):
                says = f"{trail}: a caller that takes the header {name} apart as before misreads it"
                yield Break(rule="response-header-style-changed", level="break", at=now.at, was=was.at, says=says)
            if "schema" in _fields(was.value) and "schema" in _fields(now.value):
                one, two = step(was.at, "schema"), step(now.at, "schema")
                pair = Part(one, was.value["schema"]), Part(two, now.value["schema"])
                yield from self._schema(*pair, answers, f"{trail}, header {name}")

    # Who is let in

    def _security(self, place: str, a: dict[str, Any], b: dict[str, Any], was: str, at: str) -> Iterator[Break]:
        before = _ways(a.get("security", _fields(self.old.root).get("security")))
        after = _ways(b.get("security", _fields(self.new.root).get("security")))
        for way in before:
            if not any(_enough(way, other) for other in after):
                shown = listed(sorted(way)) or "nothing"
                wanted = " or ".join(" with ".join(sorted(other)) or "nothing" for other in after)
                says = f"{place}: a caller that authorises with {shown} gets 401 or 403; {wanted} is wanted"
                lost = {
                    scope for one in after for name, scopes in one.items() for scope in scopes - way.get(name, scopes)
                }
                if lost:
                    says += f" (scopes {listed(sorted(lost))})"
                yield Break(
                    rule="security-tightened",
                    level="break",
                    at=step(at, "security"),
                    was=step(was, "security"),
                    says=says,
                )
        if any(not way for way in after) and not any(not way for way in before):
            says = f"{place}: whoever calls is let in now without authorising"
            yield Break(rule="security-dropped", level="note", at=at, was=step(was, "security"), says=says)

    def _schemes(self, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Break]:
        olds = _fields(_fields(a.get("components")).get("securitySchemes"))
        news = _fields(_fields(b.get("components")).get("securitySchemes"))
        for name, scheme in olds.items():
            was = step("/components/securitySchemes", name)
            if name not in news:
                continue  # an operation that asks for it tells
            one, two = _fields(scheme), _fields(news[name])
            words = [
                w
                for w in ("type", "in", "name", "scheme", "openIdConnectUrl", "flows")
                if _bare(one.get(w)) != _bare(two.get(w))
            ]
            if words == ["flows"] and _flows_grew(_fields(one.get("flows")), _fields(two.get("flows"))):
                words = []
            if words:
                says = (
                    f"a caller that authorises by {valued(name)} as before is not understood: {listed(words)} changed"
                )
                yield Break(rule="security-scheme-changed", level="break", at=was, was=was, says=says)

    def _hooks(self, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Break]:
        for word in ("webhooks", "x-webhooks"):
            olds, news = _fields(a.get(word)), _fields(b.get(word))
            for name, item in olds.items():
                at = step("", word, name)
                if name not in news:
                    says = f"webhook {valued(name)}: a partner that waits for it waits in vain"
                    yield Break(rule="webhook-removed", level="break", was=at, says=says)
                    continue
                try:
                    one, two = self._whole(self.old, at, item), self._whole(self.new, at, news[name])
                except Missing as missing:
                    yield self.compare.missing(missing, f"webhook {name}")
                    continue
                yield from self._item(f"webhook {name}", one, two, RESPONSE, REQUEST)


def _template(path: str) -> str:
    return re.sub(r"\{[^{}]*\}", "{}", path).rstrip("/") or "/"


def _media_name(name: str) -> str:
    """A media type with its parameters, which may hold a version; the charset is no part of a contract in JSON."""
    kind, *parameters = (part.strip().lower() for part in name.split(";"))
    return "; ".join([kind, *sorted(one for one in parameters if one and not one.startswith("charset="))])


def _ways(security: Any) -> list[dict[str, frozenset[str]]]:
    """List the ways to authorise: each a set of schemes with their scopes. None written, or none asked: one empty way."""
    rows = [row for row in _items(security) if isinstance(row, dict)]
    if not rows:
        return [{}]
    return [{name: frozenset(map(str, _items(scopes))) for name, scopes in row.items()} for row in rows]


def _enough(way: dict[str, frozenset[str]], other: dict[str, frozenset[str]]) -> bool:
    return all(name in way and scopes <= way[name] for name, scopes in other.items())


def _bare(value: Any) -> Any:
    """A value without the words that are for people."""
    if isinstance(value, dict):
        return {name: _bare(one) for name, one in value.items() if name != "description"}
    return value


def _flows_grew(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether each flow is there still, at its addresses, with at least its scopes."""
    for name, flow in a.items():
        one, two = _fields(flow), _fields(b.get(name))
        if name not in b or any(one.get(w) != two.get(w) for w in ("authorizationUrl", "tokenUrl", "refreshUrl")):
            return False
        if not _fields(one.get("scopes")).keys() <= _fields(two.get("scopes")).keys():
            return False
    return True
