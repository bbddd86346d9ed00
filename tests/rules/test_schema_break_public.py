"""The law of breaking changes on what public APIs announced, and on the kinds that public comparers name in their own suites.

The documents are ours, in the shape of theirs; what is said of each change is what its authors said of it.
"""

# ruff: noqa: E501  # a case is one row

import json
from collections.abc import Callable
from typing import Any

import pytest

from drillmaster.rules.schema_break import breaks

S: dict[str, Any] = {"type": "string"}
Edit = Callable[[Any], Any]


def found(old: Any, edit: Edit) -> set[str]:
    new = json.loads(json.dumps(old))  # as a file has it: nothing is shared
    edit(new)
    return {one.rule for one in breaks(old, new) if one.level != "note"}


# Changes that two public APIs announced as breaking: GitHub's REST API of 2026-03-10, Kubernetes 1.22.


def hub() -> dict[str, Any]:
    limit = {
        "type": "object",
        "required": ["limit", "remaining"],
        "properties": {"limit": {"type": "integer"}, "remaining": {"type": "integer"}},
    }
    hook = {"name": "pre_receive_hook_id", "in": "path", "required": True, "schema": {"type": "integer"}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "hub", "version": "2022-11-28"},
        "paths": {
            "/rate_limit": {"get": {"operationId": "rate-limit/get", "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {
                "type": "object", "required": ["resources", "rate"],
                "properties": {"resources": {"type": "object", "required": ["core"], "properties": {"core": limit}}, "rate": {**limit, "deprecated": True}},
            }}}}}}},
            "/orgs/{org}/teams": {
                "parameters": [{"name": "org", "in": "path", "required": True, "schema": S}],
                "post": {"operationId": "teams/create", "requestBody": {"required": True, "content": {"application/json": {"schema": {
                    "type": "object", "required": ["name"], "properties": {"name": S, "permission": {**S, "enum": ["pull", "push"], "default": "pull", "deprecated": True}}}}}},
                    "responses": {"201": {"description": "made"}}}},
            "/repos/{repo}/contents/{path}": {
                "parameters": [{"name": "repo", "in": "path", "required": True, "schema": S}, {"name": "path", "in": "path", "required": True, "schema": S}],
                "get": {"operationId": "repos/get-content", "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {
                    "type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {**S, "enum": ["dir", "file", "symlink"]}}}}}}}}}},
            "/admin/pre-receive-hooks/{pre_receive_hook_id}": {"delete": {"operationId": "hooks/delete", "parameters": [hook], "responses": {"204": {"description": "gone"}}}},
            "/apis/extensions/v1beta1/ingresses": {"get": {"operationId": "listIngress", "deprecated": True, "responses": {"200": {"description": "ok"}}}},
            "/apis/networking.k8s.io/v1/ingresses": {"get": {"operationId": "listNetworkingIngress", "responses": {"200": {"description": "ok"}}}},
        },
    }  # fmt: skip  # short rows


def of_answer(root: Any, path: str) -> Any:
    return root["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]


def rate_gone(root: Any) -> None:
    schema = of_answer(root, "/rate_limit")
    del schema["properties"]["rate"]
    schema["required"] = ["resources"]


def permission_gone(root: Any) -> None:
    del root["paths"]["/orgs/{org}/teams"]["post"]["requestBody"]["content"]["application/json"]["schema"][
        "properties"
    ]["permission"]


def submodules(root: Any) -> None:
    of_answer(root, "/repos/{repo}/contents/{path}")["items"]["properties"]["type"]["enum"].append("submodule")


def hook_by_name(root: Any) -> None:
    root["paths"]["/admin/pre-receive-hooks/{pre_receive_hook_id}"]["delete"]["parameters"][0]["schema"] = S


ANNOUNCED: list[tuple[str, Edit, set[str]]] = [
    ("a property that was deprecated for years leaves an answer", rate_gone, {"response-property-removed"}),
    ("a property leaves a request", permission_gone, {"request-property-removed"}),
    ("a kind of entry has a name of its own", submodules, {"response-enum-value-added"}),
    ("an id in the path is text and no number", hook_by_name, {"request-type-narrowed"}),
    ("a beta that ended", lambda r: r["paths"].pop("/apis/extensions/v1beta1/ingresses"), {"path-removed"}),
]


@pytest.mark.parametrize(("name", "edit", "rules"), ANNOUNCED, ids=[row[0] for row in ANNOUNCED])
def test_what_its_authors_announced_as_breaking_is_found(name: str, edit: Edit, rules: set[str]) -> None:
    assert found(hub(), edit) == rules


def test_a_release_that_says_it_breaks_is_told_whole() -> None:
    def release(root: Any) -> None:
        for _, edit, _ in ANNOUNCED[:4]:
            edit(root)

    assert found(hub(), release) == set().union(*(rules for _, _, rules in ANNOUNCED[:4]))


ADDITIVE: list[tuple[str, Edit]] = [
    ("an operation more", lambda r: r["paths"].update({"/meta": {"get": {"responses": {"200": {"description": "x"}}}}})),
    ("an optional parameter more", lambda r: r["paths"]["/rate_limit"]["get"].update(parameters=[{"name": "q", "in": "query", "schema": S}])),
    ("an optional header of requests more", lambda r: r["paths"]["/rate_limit"]["get"].update(parameters=[{"name": "X-Version", "in": "header", "schema": S}])),
    ("a field of an answer more", lambda r: of_answer(r, "/rate_limit")["properties"].update(at=S)),
    ("a header of answers more", lambda r: r["paths"]["/rate_limit"]["get"]["responses"]["200"].update(headers={"X-Left": {"schema": S}})),
    ("a value more that requests may have", lambda r: r["paths"]["/orgs/{org}/teams"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]["permission"]["enum"].append("admin")),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "edit"), ADDITIVE, ids=[row[0] for row in ADDITIVE])
def test_what_its_authors_call_additive_is_let_be(name: str, edit: Edit) -> None:
    assert found(hub(), edit) == set()


# The kinds that public comparers (openapi-diff, oasdiff) name in their suites


def pets() -> dict[str, Any]:
    kind = {**S, "enum": ["cat", "dog"]}
    age = {"type": "number", "minimum": 0, "maximum": 50}
    name = {**S, "minLength": 1, "maxLength": 20}
    return {
        "openapi": "3.0.3",
        "info": {"title": "pets", "version": "1"},
        "servers": [{"url": "https://pets.example.com/v1"}],
        "paths": {"/pets": {
            "get": {
                "operationId": "list", "tags": ["pets"], "security": [{"oauth": ["r"]}],
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100, "default": 20}},
                    {"name": "tags", "in": "query", "explode": True, "allowEmptyValue": True, "schema": {"type": "array", "items": S, "maxItems": 5}},
                    {"name": "q", "in": "query", "schema": {**S, "minLength": 1, "maxLength": 10, "pattern": "^[a-z]+$"}},
                ],
                "responses": {
                    "200": {"description": "ok", "headers": {"X-Next": {"required": True, "explode": True, "schema": S}},
                            "content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}},
                    "default": {"description": "error", "content": {"application/json": {"schema": S}}},
                },
            },
            "post": {
                "operationId": "add", "security": [{"key": []}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/New"}}, "application/xml": {"schema": {"$ref": "#/components/schemas/New"}}}},
                "responses": {"201": {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
                "callbacks": {"done": {"{$request.body#/url}": {"post": {
                    "requestBody": {"content": {"application/json": {"schema": {"type": "object", "required": ["id"], "properties": {"id": S}}}}},
                    "responses": {"200": {"description": "heard"}}}}}},
            },
        }},
        "components": {
            "schemas": {
                "Pet": {"type": "object", "required": ["id", "name"], "properties": {
                    "id": {"type": "integer", "format": "int64"}, "name": name, "kind": kind, "age": age, "memo": {**S, "default": "x"}}},
                "New": {"type": "object", "required": ["name"], "properties": {
                    "name": name, "kind": kind, "age": age, "size": {"type": "integer"}, "note": {**S, "nullable": True}, "serial": {**S, "readOnly": True},
                    "shape": {"oneOf": [{"$ref": "#/components/schemas/Round"}, {"$ref": "#/components/schemas/Long"}],
                              "discriminator": {"propertyName": "t", "mapping": {"r": "#/components/schemas/Round", "l": "#/components/schemas/Long"}}}}},
                "Round": {"type": "object", "required": ["t"], "properties": {"t": S, "x": S}},
                "Long": {"type": "object", "required": ["t"], "properties": {"t": S, "y": S}},
            },
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "K"},
                "oauth": {"type": "oauth2", "flows": {"authorizationCode": {
                    "authorizationUrl": "https://id.example.com/a", "tokenUrl": "https://id.example.com/t", "refreshUrl": "https://id.example.com/r",
                    "scopes": {"r": "read", "w": "write"}}}},
            },
        },
    }  # fmt: skip  # short rows


def get(root: Any) -> Any:
    return root["paths"]["/pets"]["get"]


def post(root: Any) -> Any:
    return root["paths"]["/pets"]["post"]


def asked(root: Any, i: int) -> Any:
    return get(root)["parameters"][i]


def schema(root: Any, i: int) -> Any:
    return asked(root, i)["schema"]


def pet(root: Any, name: str) -> Any:
    return root["components"]["schemas"]["Pet"]["properties"][name]


def new(root: Any, name: str) -> Any:
    return root["components"]["schemas"]["New"]["properties"][name]


def header(root: Any) -> Any:
    return get(root)["responses"]["200"]["headers"]["X-Next"]


def flow(root: Any) -> Any:
    return root["components"]["securitySchemes"]["oauth"]["flows"]["authorizationCode"]


INCOMPATIBLE: list[tuple[str, Edit, str]] = [
    ("parameter: maximum decreased", lambda r: schema(r, 0).update(maximum=50), "request-maximum-tightened"),
    ("parameter: minimum increased", lambda r: schema(r, 0).update(minimum=5), "request-minimum-tightened"),
    ("parameter: maximum exclusive", lambda r: schema(r, 0).update(exclusiveMaximum=True), "request-maximum-tightened"),
    ("parameter: minimum exclusive", lambda r: schema(r, 0).update(exclusiveMinimum=True), "request-minimum-tightened"),
    ("parameter: default changed", lambda r: schema(r, 0).update(default=10), "request-default-changed"),
    ("parameter: default removed", lambda r: schema(r, 0).pop("default"), "request-default-removed"),
    ("parameter: format added", lambda r: schema(r, 2).update(format="uuid"), "request-format-added"),
    ("parameter: longest decreased", lambda r: schema(r, 2).update(maxLength=5), "request-max-length-tightened"),
    ("parameter: shortest increased", lambda r: schema(r, 2).update(minLength=2), "request-min-length-tightened"),
    ("parameter: pattern changed", lambda r: schema(r, 2).update(pattern="^b+$"), "request-pattern-changed"),
    ("parameter: values listed", lambda r: schema(r, 2).update(enum=["a"]), "request-became-enum"),
    ("parameter: explode changed", lambda r: asked(r, 1).update(explode=False), "parameter-style-changed"),
    ("parameter: style changed", lambda r: asked(r, 1).update(style="pipeDelimited"), "parameter-style-changed"),
    ("parameter: may be empty no more", lambda r: asked(r, 1).update(allowEmptyValue=False), "parameter-empty-refused"),
    ("parameter: nothing said of empty any more", lambda r: asked(r, 1).pop("allowEmptyValue"), "parameter-empty-refused"),
    ("parameter: fewer items", lambda r: schema(r, 1).update(maxItems=2), "request-max-items-tightened"),
    ("parameter: items once", lambda r: schema(r, 1).update(uniqueItems=True), "request-unique-items-added"),
    ("body: required", lambda r: post(r)["requestBody"].update(required=True), "request-body-became-required"),
    ("body: content decreased", lambda r: post(r)["requestBody"]["content"].pop("application/xml"), "request-media-type-removed"),
    ("body: property read-only", lambda r: new(r, "size").update(readOnly=True), "request-property-became-read-only"),
    ("body: not nullable", lambda r: new(r, "note").update(nullable=False), "request-became-not-nullable"),
    ("body: a choice gone", lambda r: new(r, "shape")["oneOf"].pop(), "request-property-removed"),
    ("body: told apart by another field", lambda r: new(r, "shape")["discriminator"].update(propertyName="x"), "discriminator-changed"),
    ("body: a name of a choice gone", lambda r: new(r, "shape")["discriminator"]["mapping"].pop("l"), "request-discriminator-value-removed"),
    ("body: a name means another choice", lambda r: new(r, "shape")["discriminator"]["mapping"].update(l="#/components/schemas/Round"), "discriminator-value-changed"),
    ("body: a number became whole", lambda r: new(r, "age").update(type="integer"), "request-type-narrowed"),
    ("body: no other fields", lambda r: r["components"]["schemas"]["New"].update(additionalProperties=False), "request-additional-closed"),
    ("answer: maximum increased", lambda r: pet(r, "age").update(maximum=60), "response-maximum-loosened"),
    ("answer: maximum deleted", lambda r: pet(r, "age").pop("maximum"), "response-maximum-loosened"),
    ("answer: minimum decreased", lambda r: pet(r, "age").update(minimum=-1), "response-minimum-loosened"),
    ("answer: longest increased", lambda r: pet(r, "name").update(maxLength=30), "response-max-length-loosened"),
    ("answer: property write-only", lambda r: pet(r, "memo").update(writeOnly=True), "response-property-became-write-only"),
    ("answer: values increased", lambda r: pet(r, "kind").update(enum=["cat", "dog", "eel"]), "response-enum-value-added"),
    ("answer: content decreased", lambda r: post(r)["responses"]["201"]["content"].clear(), "response-media-type-removed"),
    ("header: gone", lambda r: get(r)["responses"]["200"]["headers"].clear(), "response-header-removed"),
    ("header: required no more", lambda r: header(r).update(required=False), "response-header-became-optional"),
    ("header: explode changed", lambda r: header(r).update(explode=False), "response-header-style-changed"),
    ("security: authorization URL", lambda r: flow(r).update(authorizationUrl="https://x.example.com"), "security-scheme-changed"),
    ("security: token URL", lambda r: flow(r).update(tokenUrl="https://x.example.com"), "security-scheme-changed"),
    ("security: refresh URL", lambda r: flow(r).update(refreshUrl="https://x.example.com"), "security-scheme-changed"),
    ("security: scope gone", lambda r: flow(r)["scopes"].pop("r"), "security-scheme-changed"),
    ("security: another type", lambda r: r["components"]["securitySchemes"].update(key={"type": "http", "scheme": "basic"}), "security-scheme-changed"),
    ("security: a scope more is asked for", lambda r: get(r).update(security=[{"oauth": ["r", "w"]}]), "security-tightened"),
    ("callback: gone", lambda r: post(r).pop("callbacks"), "callback-removed"),
    ("callback: property optional", lambda r: post(r)["callbacks"]["done"]["{$request.body#/url}"]["post"]["requestBody"]["content"]["application/json"]["schema"].update(required=[]), "response-property-became-optional"),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "edit", "rule"), INCOMPATIBLE, ids=[row[0] for row in INCOMPATIBLE])
def test_a_kind_that_public_comparers_call_incompatible_is_found(name: str, edit: Edit, rule: str) -> None:
    assert found(pets(), edit) == {rule}


COMPATIBLE: list[tuple[str, Edit]] = [
    ("parameter: maximum increased", lambda r: schema(r, 0).update(maximum=500)),
    ("parameter: maximum deleted", lambda r: schema(r, 0).pop("maximum")),
    ("parameter: minimum decreased", lambda r: schema(r, 0).update(minimum=0)),
    ("parameter: wider format", lambda r: schema(r, 0).update(format="int64")),
    ("parameter: default added", lambda r: schema(r, 2).update(default="a")),
    ("parameter: pattern deleted", lambda r: schema(r, 2).pop("pattern")),
    ("parameter: may be empty now", lambda r: asked(r, 0).update(allowEmptyValue=True)),
    ("parameter: deprecated", lambda r: asked(r, 1).update(deprecated=True)),
    ("parameter: the default of explode, written", lambda r: asked(r, 0).update(explode=True, style="form")),
    ("body: property no longer required", lambda r: r["components"]["schemas"]["New"].update(required=[])),
    ("body: read-only property required", lambda r: r["components"]["schemas"]["New"]["required"].append("serial")),
    ("body: read-only property gone", lambda r: r["components"]["schemas"]["New"]["properties"].pop("serial")),
    ("body: property read-only no more", lambda r: new(r, "serial").pop("readOnly")),
    ("body: values increased", lambda r: new(r, "kind").update(enum=["cat", "dog", "eel"])),
    ("body: a choice more", lambda r: new(r, "shape")["oneOf"].append({"type": "integer"})),
    ("body: a name of a choice more", lambda r: new(r, "shape")["discriminator"]["mapping"].update(round="Round")),
    ("body: a name of a choice, spelled shorter", lambda r: new(r, "shape")["discriminator"]["mapping"].update(l="Long")),
    ("body: a whole number may be any", lambda r: new(r, "size").update(type="number")),
    ("answer: property required", lambda r: r["components"]["schemas"]["Pet"]["required"].append("age")),
    ("answer: property read-only", lambda r: pet(r, "id").update(readOnly=True)),
    ("answer: maximum decreased", lambda r: pet(r, "age").update(maximum=40)),
    ("answer: shortest increased", lambda r: pet(r, "name").update(minLength=2)),
    ("answer: values decreased", lambda r: pet(r, "kind").update(enum=["cat"])),
    ("answer: default changed", lambda r: pet(r, "memo").update(default="y")),
    ("header: more", lambda r: get(r)["responses"]["200"]["headers"].update({"X-Z": {"schema": S}})),
    ("header: deprecated", lambda r: header(r).update(deprecated=True)),
    ("header: style that was the default", lambda r: header(r).update(style="simple")),
    ("security: scope more that nobody has to have", lambda r: flow(r)["scopes"].update(z="z")),
    ("security: fewer scopes asked for", lambda r: get(r).update(security=[{"oauth": []}])),
    ("security: another way in", lambda r: get(r)["security"].append({"key": []})),
    ("a summary and tags", lambda r: get(r).update(summary="z", tags=["z"])),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "edit"), COMPATIBLE, ids=[row[0] for row in COMPATIBLE])
def test_a_kind_that_public_comparers_call_compatible_is_let_be(name: str, edit: Edit) -> None:
    assert found(pets(), edit) == set()


def test_read_only_binds_nobody_in_a_plain_schema() -> None:
    old = {"type": "object", "properties": {"a": S}}
    assert found(old, lambda r: r["properties"]["a"].update(readOnly=True, writeOnly=True)) == set()
