"""The law of breaking changes, for OpenAPI: pairs in the shape of what people reported of real APIs, and what breaks nobody."""

# ruff: noqa: E501  # a case is one row

import copy
from collections.abc import Callable
from typing import Any

import pytest

from drillmaster.rules.schema_break import breaks

S: dict[str, Any] = {"type": "string"}


def api() -> dict[str, Any]:
    """A small shop: one path with a parameter, a body, an answer, a webhook, and two ways to authorise."""
    order = {
        "type": "object",
        "required": ["id", "status"],
        "properties": {
            "id": {**S, "readOnly": True},
            "status": {**S, "enum": ["open", "paid"]},
            "note": S,
            "secret": {**S, "writeOnly": True},
            "lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "shop", "version": "1.0.0"},
        "servers": [{"url": "https://shop.example.com"}],
        "security": [{"key": []}],
        "paths": {
            "/orders/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": S}],
                "get": {
                    "operationId": "getOrder",
                    "parameters": [
                        {"name": "expand", "in": "query", "schema": {**S, "enum": ["lines", "all"]}},
                        {"name": "X-Trace", "in": "header", "schema": S},
                        {"$ref": "#/components/parameters/filter"},
                    ],
                    "responses": {
                        "200": {
                            "headers": {"ETag": {"required": True, "schema": S}},
                            "content": {
                                "application/json": {"schema": {"$ref": "#/components/schemas/Order"}},
                                "text/csv": {"schema": S},
                            },
                        },
                        "404": {"description": "none"},
                    },
                },
                "put": {
                    "operationId": "putOrder",
                    "security": [{"oauth": ["orders:write"]}, {"key": []}],
                    "requestBody": {
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Order"}},
                            "application/xml": {"schema": S},
                        }
                    },
                    "responses": {"204": {"description": "done"}},
                },
            },
            "/old": {"get": {"deprecated": True, "x-sunset": "2026-10-01", "responses": {"200": {"description": "x"}}}},
        },
        "webhooks": {
            "paid": {
                "post": {
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}},
                    "responses": {"200": {"description": "heard"}},
                }
            }
        },
        "components": {
            "schemas": {
                "Order": order,
                "Line": {"type": "object", "required": ["sku"], "properties": {"sku": S, "n": {"type": "integer"}}},
                "Event": {"type": "object", "required": ["kind"], "properties": {"kind": S, "order": {"$ref": "#/components/schemas/Order"}}},
            },
            "parameters": {
                "filter": {
                    "name": "filter", "in": "query", "style": "deepObject", "explode": True,
                    "schema": {"type": "object", "properties": {"origin": {**S, "enum": ["a", "b", "c"]}}},
                }
            },
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "oauth": {"type": "oauth2", "flows": {"clientCredentials": {
                    "tokenUrl": "https://id.example.com/token", "scopes": {"orders:write": "w"}}}},
            },
        },
    }  # fmt: skip  # short rows


def at(*steps: str | int, to: Any = None, drop: bool = False) -> Callable[[dict[str, Any]], None]:
    """An edit: set what stands at some steps, or drop it."""

    def edit(root: Any) -> None:
        for step in steps[:-1]:
            root = root[step]
        if drop:
            del root[steps[-1]]
        else:
            root[steps[-1]] = to

    return edit


ONE = ("paths", "/orders/{id}")
GET, PUT = (*ONE, "get"), (*ONE, "put")
ORDER = ("components", "schemas", "Order")
OK = (*GET, "responses", "200")


def rules(edit: Callable[[dict[str, Any]], None], *, notes: bool = False, today: str = "") -> set[str]:
    old, new = api(), api()
    edit(new)
    return {one.rule for one in breaks(old, new, today=today) if notes or one.level != "note"}


def turned_swagger(root: dict[str, Any]) -> None:
    root["swagger"] = root.pop("openapi")


def always_sent(root: dict[str, Any]) -> None:
    order = root["components"]["schemas"]["Order"]
    order["properties"]["at"] = {**S, "readOnly": True}
    order["required"].append("at")


BROKEN: list[tuple[str, Callable[[dict[str, Any]], None], set[str]]] = [
    ("a path gone", at(*ONE, drop=True), {"path-removed"}),
    ("a path renamed", lambda r: r["paths"].update({"/order/{id}": r["paths"].pop("/orders/{id}")}), {"path-removed"}),
    ("a path of another case", lambda r: r["paths"].update({"/Orders/{id}": r["paths"].pop("/orders/{id}")}), {"path-removed"}),
    ("a method gone", at(*PUT, drop=True), {"method-removed"}),
    ("the name of an operation", at(*GET, "operationId", to="fetchOrder"), {"operation-id-changed"}),
    ("the name of an operation gone", at(*GET, "operationId", drop=True), {"operation-id-changed"}),
    ("a parameter gone", at(*GET, "parameters", 0, drop=True), {"parameter-removed"}),
    ("a parameter asked for", at(*GET, "parameters", 0, "required", to=True), {"parameter-became-required"}),
    ("a parameter more, asked for", lambda r: r["paths"]["/orders/{id}"]["get"]["parameters"].append({"name": "q", "in": "query", "required": True, "schema": S}), {"required-parameter-added"}),
    ("a parameter elsewhere", at(*GET, "parameters", 0, "in", to="header"), {"parameter-removed"}),
    ("a value of a parameter gone", at(*GET, "parameters", 0, "schema", "enum", to=["all"]), {"request-enum-value-removed"}),
    ("a value within a deep parameter gone", at("components", "parameters", "filter", "schema", "properties", "origin", "enum", to=["a"]), {"request-enum-value-removed"}),
    ("a parameter spelled otherwise", at("components", "parameters", "filter", "style", to="form"), {"parameter-style-changed"}),
    ("a parameter of the path asks for another type", at(*ONE, "parameters", 0, "schema", to={"type": "integer"}), {"request-type-narrowed"}),
    ("a default changed", lambda r: None, set()),
    ("a body asked for", at(*PUT, "requestBody", "required", to=True), {"request-body-became-required"}),
    ("a body gone", at(*PUT, "requestBody", drop=True), {"request-body-removed"}),
    ("a body new and asked for", at(*GET, "requestBody", to={"required": True, "content": {}}), {"request-body-added"}),
    ("a form of the body gone", at(*PUT, "requestBody", "content", "application/xml", drop=True), {"request-media-type-removed"}),
    ("a form of the answer gone", at(*OK, "content", "text/csv", drop=True), {"response-media-type-removed"}),
    ("an answer gone", at(*PUT, "responses", to={"201": {"description": "x"}}), {"response-success-removed"}),
    ("a version of a form gone", lambda r: versioned(r, "application/json; v=2"), {"response-media-type-removed"}),
    ("a parameter as JSON now", lambda r: as_content(r), {"parameter-style-changed"}),
    ("a tuple that ends", at("components", "schemas", "Order", "properties", "lines", "items", to=False), {"request-value-removed"}),
    ("a header gone", at(*OK, "headers", drop=True), {"response-header-removed"}),
    ("a header may be missing", at(*OK, "headers", "ETag", "required", to=False), {"response-header-became-optional"}),
    # the answer's field was promised: the case that a known tool once missed
    ("an answer's field may be missing", at(*ORDER, "required", to=["id"]), {"response-property-became-optional"}),
    ("an item's field gone", at("components", "schemas", "Line", "properties", to={"n": {"type": "integer"}}), {"request-property-removed", "response-property-removed"}),
    ("a body's field asked for", at(*ORDER, "required", to=["id", "status", "note"]), {"request-property-became-required"}),
    ("a field only readers see asked for less", at(*ORDER, "required", to=["status"]), {"response-property-became-optional"}),
    ("a value gone", at(*ORDER, "properties", "status", "enum", to=["open"]), {"request-enum-value-removed"}),
    ("a value more", at(*ORDER, "properties", "status", "enum", to=["open", "paid", "void"]), {"response-enum-value-added"}),
    ("null now, in 3.1", at(*ORDER, "properties", "note", to={"type": ["string", "null"]}), {"response-became-nullable"}),
    ("a way in gone", at(*PUT, "security", to=[{"oauth": ["orders:write"]}]), {"security-tightened"}),
    ("a scope more", at(*PUT, "security", to=[{"oauth": ["orders:write", "admin"]}, {"key": []}]), {"security-tightened"}),
    ("a second key", at("security", to=[{"key": [], "oauth": []}]), {"security-tightened"}),
    ("a key by another name", at("components", "securitySchemes", "key", "name", to="X-Api-Key"), {"security-scheme-changed"}),
    ("a token from elsewhere", at("components", "securitySchemes", "oauth", "flows", "clientCredentials", "tokenUrl", to="https://x.example.com"), {"security-scheme-changed"}),
    ("a webhook gone", at("webhooks", to={}), {"webhook-removed"}),
    ("a webhook's field may be missing", at("components", "schemas", "Event", "required", to=[]), {"response-property-became-optional"}),
    ("a form read elsewhere", at(*OK, "content", "application/json", "schema", to={"$ref": "https://example.com/order.json"}), {"remote-reference"}),
    ("a dead reference", at(*GET, "parameters", 2, to={"$ref": "#/components/parameters/none"}), {"dead-reference"}),
    ("another kind of document", turned_swagger, {"document-kind-changed"}),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "edit", "found"), BROKEN, ids=[row[0] for row in BROKEN])
def test_what_breaks_a_caller_is_told(name: str, edit: Callable[[dict[str, Any]], None], found: set[str]) -> None:
    assert rules(edit) == found


def versioned(root: dict[str, Any], name: str) -> None:
    content = root["paths"]["/orders/{id}"]["get"]["responses"]["200"]["content"]
    content[name] = content.pop("application/json")


def as_content(root: dict[str, Any]) -> None:
    parameter = root["paths"]["/orders/{id}"]["get"]["parameters"][0]
    parameter["content"] = {"application/json": {"schema": parameter.pop("schema")}}


def renamed_parameter(root: dict[str, Any]) -> None:
    item = root["paths"].pop("/orders/{id}")
    item["parameters"][0]["name"] = "order_id"
    root["paths"]["/orders/{order_id}"] = item


def moved_parameter(root: dict[str, Any]) -> None:
    item = root["paths"]["/orders/{id}"]
    shared = item.pop("parameters")
    for method in ("get", "put"):
        item[method]["parameters"] = [*shared, *item[method].get("parameters", [])]


def inlined(root: dict[str, Any]) -> None:
    item = root["paths"]["/orders/{id}"]
    item["get"]["parameters"][2] = root["components"]["parameters"].pop("filter")
    item["get"]["responses"]["200"]["content"]["application/json"]["schema"] = copy.deepcopy(
        root["components"]["schemas"]["Order"]
    )


HARMLESS: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("nothing", lambda r: None),
    ("words for people", lambda r: r["info"].update({"title": "Shop", "description": "x"})),
    ("words on a field", at(*ORDER, "properties", "note", to={**S, "description": "x", "example": "y", "title": "Note"})),
    ("a path more", at("paths", "/new", to={"post": {"responses": {"200": {"description": "x"}}}})),
    ("a method more", at(*ONE, "delete", to={"responses": {"204": {"description": "x"}}})),
    ("a parameter more", lambda r: r["paths"]["/orders/{id}"]["get"]["parameters"].append({"name": "q", "in": "query", "schema": S})),
    ("a parameter more, asked for, with a default", lambda r: r["paths"]["/orders/{id}"]["get"]["parameters"].append({"name": "q", "in": "query", "required": True, "schema": {**S, "default": "x"}})),
    ("another order of parameters", lambda r: r["paths"]["/orders/{id}"]["get"]["parameters"].reverse()),
    ("a parameter's name within the path", renamed_parameter),
    ("parameters from path to operation", moved_parameter),
    ("a header's case", at(*GET, "parameters", 1, "name", to="x-trace")),
    ("a style that was the default", at(*GET, "parameters", 0, "style", to="form")),
    ("references put in place", inlined),
    ("an optional field more", at(*ORDER, "properties", "memo", to=S)),
    ("a field more that answers always have", always_sent),
    ("an optional body more", at(*GET, "requestBody", to={"content": {"application/json": {"schema": S}}})),
    ("a form more", at(*PUT, "requestBody", "content", "text/plain", to={"schema": S})),
    ("a form with a charset", lambda r: r["paths"]["/orders/{id}"]["get"]["responses"]["200"]["content"].update({"text/csv; charset=utf-8": r["paths"]["/orders/{id}"]["get"]["responses"]["200"]["content"].pop("text/csv")})),
    ("an error more", at(*GET, "responses", "429", to={"description": "x"})),
    ("an error gone", at(*GET, "responses", "404", drop=True)),
    ("a code as a range", lambda r: r["paths"]["/orders/{id}"]["put"].update({"responses": {"2XX": {"description": "x"}}})),
    ("a way in more", at(*PUT, "security", to=[{"oauth": ["orders:write"]}, {"key": []}, {"oauth": ["admin"]}])),
    ("the same security, said at the operation", at(*GET, "security", to=[{"key": []}])),
    ("a scope described", at("components", "securitySchemes", "oauth", "flows", "clientCredentials", "scopes", to={"orders:write": "writes", "orders:read": "r"})),
    ("a schema nobody uses", at("components", "schemas", "Spare", to=S)),
    ("deprecated", at(*GET, "deprecated", to=True)),
    ("a server more", lambda r: r["servers"].append({"url": "https://eu.shop.example.com"})),
    ("a server less", at("servers", to=[])),
    ("tags", at(*GET, "tags", to=["orders"])),
    ("a webhook more", at("webhooks", "void", to={"post": {"responses": {"200": {"description": "x"}}}})),
    ("a webhook's field more", at("components", "schemas", "Event", "properties", "at", to=S)),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "edit"), HARMLESS, ids=[row[0] for row in HARMLESS])
def test_what_breaks_no_caller_is_left_alone(name: str, edit: Callable[[dict[str, Any]], None]) -> None:
    assert rules(edit) == set()


def test_a_path_that_was_announced_to_go_may_go_when_its_day_has_come() -> None:
    gone = at("paths", "/old", drop=True)
    assert rules(gone, today="2026-09-30") == {"path-removed"}
    assert rules(gone) == {"path-removed"}
    assert rules(gone, today="2026-10-01") == set()


def test_3_0_and_3_1_say_null_in_their_own_words() -> None:
    old, new = api(), api()
    old["openapi"] = "3.0.3"
    del old["webhooks"], new["webhooks"]
    old["components"]["schemas"]["Order"]["properties"]["note"] = {**S, "nullable": True}
    new["components"]["schemas"]["Order"]["properties"]["note"] = {"type": ["string", "null"]}
    assert [one for one in breaks(old, new) if one.level != "note"] == []


def test_null_beside_allof_is_meant_in_3_0() -> None:
    old, new = api(), api()
    for root in (old, new):
        root["openapi"] = "3.0.3"
        del root["webhooks"]
        root["components"]["schemas"]["Order"]["properties"]["first"] = {
            "allOf": [{"$ref": "#/components/schemas/Line"}]
        }
    new["components"]["schemas"]["Order"]["properties"]["first"]["nullable"] = True
    assert {one.rule for one in breaks(old, new) if one.level != "note"} == {"response-became-nullable"}


def test_an_answer_says_who_gets_what_and_where() -> None:
    old, new = api(), api()
    at("paths", "/orders/{id}", "put", drop=True)(new)
    (one,) = breaks(old, new)
    assert one.says == "PUT /orders/{id}: a caller that still sends PUT gets 405"
    assert one.was == "/paths/~1orders~1{id}/put"
    assert one.at == "/paths/~1orders~1{id}"


@pytest.mark.parametrize("junk", [None, 1, [], "x", {"paths": None}, {"get": []}])
def test_junk_where_a_part_should_be_gives_an_answer(junk: Any) -> None:
    for steps in (
        ("paths",),
        ONE,
        GET,
        (*GET, "parameters"),
        (*GET, "responses"),
        OK,
        (*PUT, "requestBody"),
        (*PUT, "security"),
        ("components",),
        ("webhooks", "paid"),
        ORDER,
    ):
        old, new = api(), api()
        at(*steps, to=junk)(new)
        breaks(old, new)
        breaks(new, old)
        breaks(new, copy.deepcopy(new))
