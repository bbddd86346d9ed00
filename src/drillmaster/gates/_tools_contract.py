"""What is wrong with one tool's contract, one server or one descriptor: reasons, by the check that each belongs to.

1. A contract says who stands behind it: origin `human`, signed by a person on the list of signers, privileges from the closed
   list. A model sets none of these, and its `draft_note` reaches no loader.
2. What it runs is judged by `rules.argv`, what it takes in by `rules.schema_open`, its words by `rules.names`.
3. A server elsewhere is one that the policy names by its whole URL. What else decides what runs (environment, working
   folder, a shell, a helper) is not for a contract to say.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster.errors import Problem
from drillmaster.gates._tools_evidence import Limits, ServerEntry, article_hash
from drillmaster.rules import argv, names, schema_open
from drillmaster.rules.free_lane import HUMAN, human
from drillmaster.screen import screen_argv
from drillmaster.strict import SECRET_NAME, shown

__all__ = [
    "Reason",
    "Side",
    "contradictions",
    "named",
    "of_command",
    "of_environment",
    "of_literals",
    "of_server",
    "of_tool",
    "of_words",
    "sounds_like_more",
    "url_wrong",
]


class Reason(msgspec.Struct, frozen=True):
    """Why not: the check, whose contract, what was found, and what the article calls it ("": it has no word for it)."""

    check: str
    subject: str
    found: str
    article: str = ""


class Side(msgspec.Struct, frozen=True):
    """Something a person should know that changes no status."""

    id: str
    subject: str
    found: str


_TOOL_FIELDS = frozenset(
    {
        "name",
        "origin",
        "signed_by",
        "privileges",
        "command",
        "inputSchema",
        "schema_hash",
        "title",
        "description",
        "annotations",
    }
)
_OURS = frozenset({"server", "wire_sha256", "outputSchema", "icons", "_meta", "execution"})
_REMOTE = frozenset({"url", "transport", "headers", "endpoint", "uri", "remote", "httpUrl", "serverUrl"})
_ENVIRONMENT = frozenset({"env", "cwd", "shell", "envFile", "environment", "user", "uid", "stdin", "preexec", "args"})
_SERVER_FIELDS = frozenset(
    {
        "type", "transport", "command", "args", "env", "envFile", "cwd", "url", "headers", "headersHelper", "oauth", "auth",
        "timeout", "alwaysLoad", "disabled", "description", "gallery", "version", "dev", "sandboxEnabled", "sandbox", "name",
        "icon", "tools",
        # Of other clients, which these leave alone; none decides what runs.
        "enabled", "isActive", "timeout_ms", "timeoutMs", "initTimeout", "startupTimeout", "displayName", "title", "comment",
        "_comment", "$comment", "notes", "tags",
    }
)  # fmt: skip  # words, a line at a time
_TRANSPORTS = {
    "stdio": "stdio", "http": "remote", "sse": "remote", "streamable-http": "remote", "streamableHttp": "remote",
    "streamable_http": "remote", "ws": "remote", "local": "stdio",
}  # fmt: skip  # pairs
_LOADING = (
    r"(LD_.*|DYLD_.*|GCONV_PATH|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED|PYTHON(PATH|STARTUP|HOME|"
    r"USERBASE|BREAKPOINT|INSPECT|WARNINGS|EXECUTABLE)|BASH_ENV|ENV|ZDOTDIR|SHELL|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|PATH|"
    r"PATHEXT|COMSPEC|PERL5(LIB|OPT|DB)|PERLLIB|RUBY(OPT|LIB)|GEM_(HOME|PATH)|LUA_(INIT|PATH|CPATH).*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|"
    r"JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|SSH_ASKPASS|EDITOR|VISUAL|PAGER|BROWSER|TERMINFO|NPM_CONFIG_.*|UV_(.*INDEX.*|FIND_LINKS|PYTHON.*|CONFIG_FILE)|PIP_.*|BUN_.*|DENO_.*|"
    r"DOCKER_(HOST|CONFIG|CONTEXT)|COMPOSE_.*|DOTNET_STARTUP_HOOKS|CORECLR_.*|PHPRC|PHP_INI_SCAN_DIR|R_PROFILE.*|JULIA_.*|"
    r"SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|HOME|USERPROFILE|TMPDIR)"
)
_BRIDGES = r"(^|[/@])(mcp-remote|mcp-proxy|mcp-bridge|supergateway|mcp-superassistant-proxy)(@|==|$)"
_HARMLESS_ENV = r"(PYTHONWARNINGS|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL)|GIT_TERMINAL_PROMPT)"
_CHANGES = (
    r"(^|_)(delete|remove|drop|destroy|purge|wipe|truncate|kill|write|overwrite|create|update|insert|push|merge|exec|execute|run|"
    r"shell|deploy|send|publish|upload|move|rename|chmod|install|grant|revoke|pay|transfer)(_|$)"
)
_ARGV = {
    "shape": ("command-shape", ""),
    "shell": ("command-is-shell", "command_is_shell"),
    "evaluates": ("command-is-shell", "command_is_shell"),
    "runs-others": ("command-is-shell", "command_is_shell"),
    "fetches": ("command-is-shell", "command_is_shell"),
    "unpinned": ("launcher-unpinned", ""),
    "mount": ("host-mount", ""),
}
_SCHEMA = {
    "open": ("open-object-schema", "open_object_schema"),
    "any": ("open-object-schema", "open_object_schema"),
    "required-empty": ("required-empty", "required_empty"),
    "required-missing": ("required-empty", "required_empty"),
    "reference": ("schema-reference", ""),
    "command": ("command-property", ""),
}


def named(tool: dict[str, Any]) -> str:
    """What to call a contract that may have no name."""
    name = tool.get("name")
    return name if isinstance(name, str) and name.strip() else "(no name)"


def of_tool(tool: dict[str, Any], gate: Limits, *, ours: bool, servers: frozenset[str]) -> Iterator[Reason]:
    """Judge one entry of the allow-list."""
    who = named(tool)
    for fault in names.name_faults(tool.get("name")):
        yield Reason("tool-name", who, fault.found)
    yield from _fields(tool, who, ours)
    if tool.get("origin") != "human":
        yield Reason("origin-not-human", who, _said(tool, "origin"), "origin_not_human")
    yield from _signed_by(tool, who, gate.signers)
    yield from _privileges(tool, who, gate)
    if ours and "server" in tool:
        if not isinstance(tool["server"], str) or tool["server"] not in servers:
            yield Reason("command-not-listed", who, f"server {shown(tool['server'])}, which the list does not have")
        if "command" in tool:
            yield Reason("command-shape", who, "a command beside a server: one of the two starts it")
    else:
        yield from of_command(tool.get("command"), who, gate)
    for wrong in schema_open.faults(tool.get("inputSchema")):
        check, word = _SCHEMA.get(wrong.kind, ("schema-invalid", ""))
        yield Reason(check, who, f"inputSchema{wrong.at}: {wrong.found}", word)
    if "schema_hash" in tool:
        try:
            wanted = article_hash(tool)
        except Problem:
            wanted = ""
        if tool["schema_hash"] != wanted:
            found = f"found {shown(tool['schema_hash'])}, and it is {wanted[:16]}…"
            yield Reason("schema-hash-mismatch", who, found, "schema_hash_mismatch")
    yield from of_words({key: value for key, value in tool.items() if key not in ("name", "command")}, who)


def _fields(tool: dict[str, Any], who: str, ours: bool) -> Iterator[Reason]:
    for field in tool:
        if field == "draft_note":
            yield Reason("draft-note", who, "a draft_note, which is for a reviewer and for no loader")
        elif field in _REMOTE:
            yield Reason("remote-server", who, f"{field}, in a contract of a local tool")
        elif field in _ENVIRONMENT:
            yield Reason("start-environment", who, f"{field}, which decides what runs beside the command")
        elif field not in _TOOL_FIELDS and not (ours and field in _OURS):
            yield Reason("unknown-field", who, f"the field {shown(field)}")


def _signed_by(tool: dict[str, Any], who: str, signers: tuple[str, ...]) -> Iterator[Reason]:
    said = tool.get("signed_by")
    word = "signed_by_model_or_empty"
    if not isinstance(said, str) or not said.strip():
        yield Reason("signed-by-model-or-empty", who, _said(tool, "signed_by"), word)
        return
    if said in signers:
        return
    _, wrong = human(HUMAN + said)
    if wrong or said != said.strip() or re.match(r"\s*(model|agent|bot|llm)\s*:", said, re.IGNORECASE):
        yield Reason(
            "signed-by-model-or-empty", who, f"signed_by {shown(said)}: {wrong or 'no name of a person'}", word
        )
    else:
        yield Reason("signed-by-stranger", who, f"signed_by {shown(said)}, who is not among the signers of the policy")


def _privileges(tool: dict[str, Any], who: str, gate: Limits) -> Iterator[Reason]:
    said = tool.get("privileges")
    if not isinstance(said, list) or not said:
        yield Reason("privileges-empty", who, _said(tool, "privileges"), "privileges_empty")
        return
    texts = [one for one in said if isinstance(one, str)]
    for one in said:
        if not isinstance(one, str) or one not in gate.privileges:
            word = one if isinstance(one, str) else "?"
            yield Reason("privilege-unknown", who, f"privilege {shown(one)}", f"privilege_unknown:{word}")
    if len(set(texts)) != len(texts):
        yield Reason("privileges-repeated", who, f"a privilege twice in {', '.join(texts)}")
    if len(set(texts)) > gate.max_privileges:
        yield Reason(
            "privileges-many", who, f"{len(set(texts))} privileges, and at most {gate.max_privileges} go together"
        )
    yield from contradictions(tool, texts, who, gate)


def contradictions(tool: dict[str, Any], privileges: list[str], who: str, gate: Limits) -> Iterator[Reason]:
    """Say where a tool's own hints and its privileges cannot both be true. A hint that is absent says nothing."""
    hints = tool.get("annotations")
    if hints is None or not privileges:
        return
    if not isinstance(hints, dict):
        yield Reason("privileges-contradict", who, f"annotations {shown(hints)}, where an object is wanted")
        return
    for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"):
        if hint in hints and not isinstance(hints[hint], bool):
            yield Reason("privileges-contradict", who, f"{hint} {shown(hints[hint])}, which is neither true nor false")
    reads_only = all(gate.privileges.get(one) == "reads" for one in privileges)
    if reads_only and hints.get("destructiveHint") is True:
        yield Reason("privileges-contradict", who, "it says that it destroys, and may only read")
    elif reads_only and hints.get("readOnlyHint") is False:
        yield Reason("privileges-contradict", who, "it says that it changes things, and may only read")
    if not reads_only and hints.get("readOnlyHint") is True:
        yield Reason("privileges-contradict", who, "it says that it only reads, and may write")
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True:
        yield Reason("privileges-contradict", who, "it says that it only reads and that it destroys")


def sounds_like_more(tool: dict[str, Any], gate: Limits) -> Iterator[Side]:
    """Say where only the name of a tool speaks of changes; that is a hint for the reader, and no proof."""
    said = tool.get("privileges")
    texts = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
    if texts and all(gate.privileges.get(one) == "reads" for one in texts):
        plain = re.sub(r"(?<=[a-z])(?=[A-Z])|[-./]", "_", named(tool)).casefold()
        match = re.search(_CHANGES, plain)
        if match:
            yield Side("name-says-more", named(tool), f"its name says {match[2]}, and it may only read")


def of_command(command: object, who: str, gate: Limits) -> Iterator[Reason]:
    for fault in argv.faults(command, gate.listed()):
        check, word = _ARGV.get(fault.kind, ("command-not-listed", ""))
        yield Reason(check, who, f"command/{fault.at}: {fault.found}", word)
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list | tuple) else []
    if any(re.search(_BRIDGES, word) for word in words[:8]):
        for word in words:
            if re.match(r"(https?|wss?|sse):", word, re.IGNORECASE) and (url_wrong(word) or word not in gate.urls):
                yield Reason("remote-server", who, f"a bridge to {_shown_url(word)}, which the policy does not name")


def of_words(value: object, who: str) -> Iterator[Reason]:
    """Judge every text that a model will read and a person approves."""
    for at, text in names.words_of(value):
        for fault in names.hidden(text):
            yield Reason("hidden-text", who, f"{at or 'it'}: {fault.found}")
        for fault in names.instructs(text):
            yield Reason("hidden-order", who, f"{at or 'it'}: {fault.found}")


def of_server(
    entry: ServerEntry, gate: Limits, commands: list[list[str]], urls: frozenset[str]
) -> Iterator[Reason | Side]:
    """Judge one server of a client's configuration; `commands` and `urls` are what the allow-list has."""
    who, value = f"{entry.place}: {entry.name}", entry.value
    for fault in names.hidden(entry.name):
        yield Reason("hidden-text", who, fault.found)
    if not isinstance(value, dict):
        yield Reason("unknown-field", who, f"{shown(value)}, where an object is wanted")
        return
    for field in value:
        if field == "shell" or field in ("user", "uid"):
            yield Reason("start-environment", who, f"{field}, which decides what runs beside the command")
        elif field in ("autoApprove", "alwaysAllow", "trust"):
            yield Reason("unknown-field", who, f"{field}, by which a client asks nobody before a call")
        elif field not in _SERVER_FIELDS:
            yield Reason("unknown-field", who, f"the field {shown(field)}")
    kind = value.get("type", value.get("transport"))
    meant = _TRANSPORTS.get(kind) if isinstance(kind, str) else None
    if kind is not None and meant is None:
        yield Reason("unknown-field", who, f"type {shown(kind)}, which is none of stdio, http, sse")
    if "url" in value or meant == "remote":
        if "command" in value:
            yield Reason("remote-server", who, "a command and a URL: nobody can say which is used")
        yield from _remote(value, who, gate, urls)
    else:
        yield from _local(value, who, gate, commands)
    yield from of_words({"description": value.get("description", "")}, who)


def _local(value: dict[str, Any], who: str, gate: Limits, commands: list[list[str]]) -> Iterator[Reason | Side]:
    args = value.get("args", [])
    if not isinstance(args, list):
        yield Reason("command-shape", who, f"args {shown(args)}, where a list is wanted")
        return
    program = value.get("command")
    if isinstance(program, str) and re.search(r"\s", program.strip()) and "\\" not in program and not args:
        command: object = program  # one line for a shell
    else:
        command = [program, *args]
    yield from of_command(command, who, gate)
    if isinstance(command, list) and _plain(command) not in [_plain(one) for one in commands]:
        yield Reason("server-not-listed", who, "its command is no command of the allow-list, word for word")
    yield from of_environment(value.get("env"), who)
    yield from of_literals([program, *args], who)
    if "envFile" in value:
        yield Side("env-file", who, "an envFile, which this gate does not read: what it sets is not judged")
    if "cwd" in value and not _inside(value["cwd"]):
        yield Reason("start-environment", who, f"cwd {shown(value['cwd'])}, outside the repository")
    for field in ("headers", "headersHelper"):
        if field in value:
            yield Reason("unknown-field", who, f"{field}, at a local server")


def _remote(value: dict[str, Any], who: str, gate: Limits, urls: frozenset[str]) -> Iterator[Reason | Side]:
    url = value.get("url")
    wrong = url_wrong(url)
    if wrong:
        yield Reason("remote-server", who, wrong)
    elif url not in gate.urls:
        yield Reason("remote-server", who, f"{_shown_url(str(url))}, which the policy does not name")
    elif urls and url not in urls:
        yield Reason("server-not-listed", who, f"{_shown_url(str(url))}, which the allow-list does not have")
    if "headersHelper" in value:
        yield Reason("command-is-shell", who, "a headersHelper, which is run by a shell", "command_is_shell")
    headers = value.get("headers")
    if headers is not None and not (
        isinstance(headers, dict) and all(isinstance(one, str) for one in headers.values())
    ):
        yield Reason("unknown-field", who, "headers that are no texts by name")
    yield from _literal_secrets(headers, who)
    for field in ("args", "env", "cwd"):
        if value.get(field):
            yield Reason("unknown-field", who, f"{field}, at a server elsewhere")


def of_environment(env: object, who: str) -> Iterator[Reason | Side]:
    """Judge what a server is given in its environment: names that decide what is loaded are refused."""
    if env is None:
        return
    if not isinstance(env, dict):
        yield Reason(
            "start-environment",
            who,
            f"env that is {'text' if isinstance(env, str) else shown(env)}, where an object is wanted",
        )
        return
    for name, value in env.items():
        if not isinstance(value, str | int | float | bool) and value is not None:
            yield Reason("start-environment", who, f"env {name}: {shown(value)}, where a text is wanted")
        if re.fullmatch(_LOADING, name, re.IGNORECASE) and not re.fullmatch(_HARMLESS_ENV, name):
            yield Reason("start-environment", who, f"env {name}, which decides what is loaded or whom it trusts")
        elif "=" in name or not name.strip() or not name.isprintable():
            yield Reason("start-environment", who, "env with a name that is none")
    yield from _literal_secrets(env, who)


def _literal_secrets(given: object, who: str) -> Iterator[Side]:
    for name, value in given.items() if isinstance(given, dict) else ():
        is_literal = (
            isinstance(value, str) and len(value) >= 12 and "$" not in value and not value.startswith(("<", "your"))
        )
        if (
            is_literal
            and SECRET_NAME.search(name)
            and not re.search(r"your[-_ ]|xxx|\.\.\.|example", value, re.IGNORECASE)
        ):
            yield Side(
                "literal-secret", who, f"{name} has its value in the file; a reference such as ${{{name}}} keeps it out"
            )


def of_literals(command: object, who: str) -> Iterator[Side]:
    """Say that a word of a command is a secret: whoever may read the file has it, and so has every list of processes."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list | tuple) else []
    plain = screen_argv(words)
    for before, word, screened in zip(["", *words], words, plain, strict=False):
        if "$" in word or before in ("-u", "-p"):  # a reference; a user or a port
            continue
        if word != screened and not re.search(r"your[-_ ]|xxx|\.\.\.|example", word, re.IGNORECASE):
            yield Side(
                "literal-secret",
                who,
                f"{screened}: a secret has its value in a command; hand it over in the environment",
            )


def url_wrong(url: object) -> str:
    """Say why a URL cannot be pinned; "": it can."""
    if not isinstance(url, str) or not url.strip():
        return f"url {shown(url)}" if url is not None else "no url"
    if "$" in url:
        return "a URL with a variable, which is known to nobody before it is used"
    if names.hidden(url) or not url.isascii() or url != url.strip() or "\\" in url:
        return "a URL with characters that can be taken for others"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return "a URL that is none"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "a URL with a user, a password or a fragment"
    if parts.scheme != "https" and not (parts.scheme == "http" and host in ("localhost", "127.0.0.1", "::1")):
        return f"{_shown_url(url)}, which is neither https nor loopback"
    return "" if host else "a URL without a host"


def _shown_url(url: str) -> str:
    """Show where a URL leads; its path is often the key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{'/…' if parts.path.strip('/') else ''}"[:120]


def _plain(command: list[Any]) -> list[str]:
    return [argv.within(word) or word if isinstance(word, str) and "/" in word else str(word) for word in command]


def _inside(cwd: object) -> bool:
    if not isinstance(cwd, str) or not cwd:
        return False
    return (
        cwd in (".", "./")
        or argv.within(cwd) is not None
        or re.fullmatch(r"\$\{(workspaceFolder|CLAUDE_PROJECT_DIR(:-\.)?|CLAUDE_PLUGIN_ROOT)\}/?", cwd) is not None
    )


def _said(tool: dict[str, Any], field: str) -> str:
    return f"{field} {shown(tool[field])}" if field in tool else f"no {field}"
