"""What a request asks of a model, read from each API's own shape, and refused with 400 where a provider would refuse it.

One function an API; all give an `Asked`. Nothing here words an answer.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["READERS", "Asked", "Bad", "Tool", "arguments_for", "read_object", "wanted_tools"]

_MAX_DEPTH = 4


class Bad(Exception):
    """A request that a provider refuses with 400."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class Tool(msgspec.Struct, frozen=True):
    """A tool that the model may call, and the schema of its arguments."""

    name: str
    schema: dict[str, Any]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request for words."""

    model: str
    prompt: str
    last: str
    """The text of the last message; empty when that is a tool's answer."""
    limit: int | None = None
    """Tokens at most."""
    stream: bool = False
    usage_in_stream: bool = True
    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    """`auto`, `none`, `required`, or `=NAME`."""


def read_object(body: bytes) -> dict[str, Any]:
    """The request as an object. Raises Bad."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Bad("the body of the request is not JSON") from None
    if not isinstance(value, dict):
        raise Bad("the body of the request is JSON but not an object")
    return value


def wanted_tools(asked: Asked) -> tuple[Tool, ...]:
    """The tools that this answer calls: what the request forces, or what its last message names."""
    if asked.choice == "none" or not asked.tools:
        return ()
    if asked.choice.startswith("="):
        return tuple(tool for tool in asked.tools if tool.name == asked.choice[1:])
    named = tuple(tool for tool in asked.tools if tool.name in asked.last)
    return named or (asked.tools[:1] if asked.choice == "required" else ())


def arguments_for(schema: dict[str, Any]) -> str:
    """Arguments that a schema accepts, as JSON: its required properties, with the plainest value of each type."""
    return json.dumps(_example(schema, _MAX_DEPTH), ensure_ascii=False)


def _example(schema: object, depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    if kind == "object":
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = required if isinstance(required, list) else list(properties)
        return {str(name): _example(properties.get(name), depth - 1) for name in names}
    if kind == "array":
        return [_example(schema.get("items"), depth - 1)] if schema.get("minItems") else []
    return {"string": "text", "integer": 1, "number": 1.5, "boolean": True}.get(kind)


# Pieces of requests that several APIs share


def _model(call: dict[str, Any]) -> str:
    model = call.get("model")
    if not isinstance(model, str) or not model:
        raise Bad("model: a name is required", "model")
    return model


def _text(content: object, where: str) -> str:
    """The text of a message: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = []
        for part in content:
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise Bad(f"{where}: each part is an object with a type", where)
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
        return "".join(texts)
    raise Bad(f"{where}: a string or a list of parts is required", where)


def _conversation(call: dict[str, Any], roles: tuple[str, ...]) -> list[tuple[str, str]]:
    """Role and text of each message."""
    messages = call.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Bad("messages: at least one message is required", "messages")
    said = []
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise Bad(f"messages.{i}: an object is required", "messages")
        if message.get("role") not in roles:
            raise Bad(f"messages.{i}.role: one of {', '.join(roles)} is required", "messages")
        if message.get("content") is None and message.get("tool_calls"):
            said.append((message["role"], ""))  # a model that calls tools need not say anything
            continue
        said.append((message["role"], _text(message.get("content"), f"messages.{i}.content")))
    return said


def _flag(call: dict[str, Any], name: str, otherwise: bool) -> bool:
    value = call.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise Bad(f"{name}: true or false", name)
    return value


def _limit(call: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = call.get(name)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise Bad(f"{name}: a whole number of at least 1", name)
        return value
    return None


def _tools(found: object, where: str, schema: str, inner: str | None = None) -> tuple[Tool, ...]:
    """Tools out of a list; `inner` is the field that holds a function where the API wraps it."""
    if found is None:
        return ()
    if not isinstance(found, list):
        raise Bad(f"{where}: a list is required", where)
    tools = []
    for i, entry in enumerate(found):
        value = entry.get(inner) if inner is not None and isinstance(entry, dict) else entry
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            if isinstance(entry, dict) and entry.get("type") not in (None, "function", "custom"):
                continue  # a tool of the provider's own
            raise Bad(f"{where}.{i}: a tool with a name is required", where)
        tools.append(Tool(value["name"], value[schema] if isinstance(value.get(schema), dict) else {}))
    return tuple(tools)


def _choice(value: object) -> str:
    """`tool_choice` as OpenAI and its kin have it."""
    if isinstance(value, str):
        return {"any": "required"}.get(value, value)
    if isinstance(value, dict):
        inner = value.get("function", value)
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            return f"={inner['name']}"
    return "auto"


def _joined(said: list[tuple[str, str]]) -> str:
    return "\n".join(text for _, text in said)


# The APIs


def read_chat(path: str, headers: dict[str, str], call: dict[str, Any]) -> Asked:
    """Chat completions. Raises Bad."""
    model = call.get("model")
    if deployment := re.search(r"/deployments/([^/]+)/", path):
        model = model if isinstance(model, str) and model else deployment[1]
    model = _model({"model": model})
    said = _conversation(call, ("developer", "system", "user", "assistant", "tool", "function"))
    stream = _flag(call, "stream", False)
    limit = _limit(call, "max_completion_tokens", "max_tokens")
    options = call.get("stream_options")
    if options is not None and not stream:
        raise Bad("stream_options: only where stream is true", "stream_options")
    if options is not None and not isinstance(options, dict):
        raise Bad("stream_options: an object", "stream_options")
    return Asked(
        model=model,
        prompt=_joined(said),
        last=said[-1][1] if said[-1][0] == "user" else "",
        limit=limit,
        stream=stream,
        usage_in_stream=bool(options and options.get("include_usage")),
        tools=_tools(call.get("tools"), "tools", "parameters", "function"),
        choice=_choice(call.get("tool_choice")),
    )


def read_responses(path: str, headers: dict[str, str], call: dict[str, Any]) -> Asked:
    """OpenAI's responses. Raises Bad."""
    model = _model(call)
    given = call.get("input")
    said: list[tuple[str, str]] = []
    if isinstance(given, str):
        said.append(("user", given))
    elif isinstance(given, list) and given:
        for i, item in enumerate(given):
            if not isinstance(item, dict):
                raise Bad(f"input.{i}: an object is required", "input")
            if item.get("type", "message") == "message":
                said.append((str(item.get("role")), _text(item.get("content"), f"input.{i}.content")))
            else:
                said.append(("tool", str(item.get("output", ""))))
    else:
        raise Bad("input: a text or a list of items is required", "input")
    if isinstance(call.get("instructions"), str):
        said.insert(0, ("developer", call["instructions"]))
    return Asked(
        model=model,
        prompt=_joined(said),
        last=said[-1][1] if said[-1][0] == "user" else "",
        limit=_limit(call, "max_output_tokens"),
        stream=_flag(call, "stream", False),
        tools=_tools(call.get("tools"), "tools", "parameters"),
        choice=_choice(call.get("tool_choice")),
    )


def read_messages(path: str, headers: dict[str, str], call: dict[str, Any]) -> Asked:
    """Anthropic's messages. Raises Bad."""
    if "anthropic-version" not in headers:
        raise Bad("anthropic-version: the header is required")
    model = _model(call)
    said = _conversation(call, ("user", "assistant"))
    limit = _limit(call, "max_tokens")
    if limit is None:
        raise Bad("max_tokens: the field is required")
    prompt = _joined(said)
    if call.get("system") is not None:
        prompt = f"{_text(call['system'], 'system')}\n{prompt}"
    choice = call.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else "auto"
    return Asked(
        model=model,
        prompt=prompt,
        last=said[-1][1] if said[-1][0] == "user" else "",
        limit=limit,
        stream=_flag(call, "stream", False),
        tools=_tools(call.get("tools"), "tools", "input_schema"),
        choice=_choice(choice if kind == "tool" else kind),
    )


def read_gemini(path: str, headers: dict[str, str], call: dict[str, Any]) -> Asked:
    """Gemini's generateContent. Raises Bad."""
    match = re.search(r"/models/([^/:]+):(\w+)", path)
    contents = call.get("contents")
    if not isinstance(contents, list) or not contents:
        raise Bad("* GenerateContentRequest.contents: contents is not specified", "contents")
    said: list[tuple[str, str]] = []
    for i, content in enumerate(contents):
        parts = content.get("parts") if isinstance(content, dict) else None
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise Bad(f"* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.", "contents")
        text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        is_tool = any(_either(part, "functionResponse") for part in parts)
        said.append(("tool" if is_tool else str(content.get("role", "user")), text))
    config = _either(call, "generationConfig")
    declared: list[Any] = []
    for entry in call.get("tools") or ():
        found = _either(entry, "functionDeclarations") if isinstance(entry, dict) else None
        declared += found if isinstance(found, list) else []
    tools = tuple(
        Tool(one["name"], _either(one, "parametersJsonSchema") or one.get("parameters") or {})
        for one in declared
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    )
    tool_config = _either(call, "toolConfig")
    calling = _either(tool_config, "functionCallingConfig") if isinstance(tool_config, dict) else None
    calling = calling if isinstance(calling, dict) else {}
    choice = {"ANY": "required", "NONE": "none"}.get(str(calling.get("mode")), "auto")
    allowed = _either(calling, "allowedFunctionNames")
    if choice == "required" and isinstance(allowed, list) and allowed:
        choice = f"={allowed[0]}"
    return Asked(
        model=match[1] if match else "unknown",
        prompt=_joined(said),
        last=said[-1][1] if said[-1][0] == "user" else "",
        limit=_limit(config, "maxOutputTokens", "max_output_tokens") if isinstance(config, dict) else None,
        stream=match is not None and match[2] == "streamGenerateContent",
        tools=tools,
        choice=choice,
    )


def _either(value: dict[str, Any], name: str) -> Any:
    """A field by its camelCase name or its snake_case one: protobuf's JSON takes both, and the SDK mixes them."""
    found = value.get(name)
    return value.get(re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name)) if found is None else found


def read_ollama(path: str, headers: dict[str, str], call: dict[str, Any]) -> Asked:
    """Ollama's own chat and generate. Raises Bad."""
    model = _model(call)
    if path.partition("?")[0].endswith("/api/generate"):
        said = [("user", _text(call.get("prompt"), "prompt"))]
    else:
        said = _conversation(call, ("system", "user", "assistant", "tool"))
    options = call.get("options")
    return Asked(
        model=model,
        prompt=_joined(said),
        last=said[-1][1] if said[-1][0] == "user" else "",
        limit=_limit(options, "num_predict") if isinstance(options, dict) else None,
        stream=_flag(call, "stream", True),
        tools=_tools(call.get("tools"), "tools", "parameters", "function"),
    )


READERS: dict[str, Callable[[str, dict[str, str], dict[str, Any]], Asked]] = {
    "chat": read_chat,
    "responses": read_responses,
    "messages": read_messages,
    "gemini": read_gemini,
    "ollama": read_ollama,
}
