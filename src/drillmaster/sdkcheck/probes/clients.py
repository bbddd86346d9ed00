"""How each Python client is called, and what of its answer is looked at: a class a client, shared parts in their parents.

Runs in the interpreter under check: standard library alone, Python 3.9 or later. `PROBES` names them. A job holds `url`,
`key`, `model`, `prompt`, `stream` and `limit_s`, the client's time limit. What `call` returns holds `kind`, `text` and
`finish`, or a `note` where the answer is not one.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
from collections.abc import Iterable
from typing import Any

NOWHERE = "http://127.0.0.1:9"


class Probe:
    """One client. `sdk` is the module it lives in, `error` the class that a fallback's `except` would name."""

    sdk = ""
    error = ""

    def __init__(self) -> None:
        self.lib: Any = importlib.import_module(self.sdk)
        module, _, name = self.error.rpartition(".")
        self.caught: tuple[type[BaseException], ...] = (getattr(importlib.import_module(module), name),)

    def defaults(self) -> dict[str, Any]:
        """What the client limits by itself: `connect_s`, `read_s`, `total_s` (None: nothing) and `retries`."""
        raise NotImplementedError

    def client(self, job: dict[str, Any]) -> Any:
        raise NotImplementedError

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


def limits(of: Any, retries: int) -> dict[str, Any]:
    """Read a `Timeout` of httpx or httpx2, or one number for all of it; None: no limit at all."""
    if isinstance(of, (int, float)):
        return {"connect_s": of, "read_s": of, "retries": retries}
    return {"connect_s": getattr(of, "connect", None), "read_s": getattr(of, "read", None), "retries": retries}


def said(answer: Any, text: Any, finish: Any, hollow: str = "") -> dict[str, Any]:
    """What is looked at of an answer. `hollow` names a field that should hold it, and holds nothing."""
    if isinstance(answer, str):
        return {"kind": "str", "text": answer}
    kind = type(answer).__name__
    if hollow:
        return {"kind": kind, "text": None, "note": hollow}
    return {"kind": kind, "text": text, "finish": None if finish is None else str(getattr(finish, "value", finish))}


def whole_chat(answer: Any) -> dict[str, Any]:
    """An answer in the shape of OpenAI's chat API, as an object."""
    choices = getattr(answer, "choices", None)
    if not choices:
        return said(answer, None, None, f"choices={choices!r}")
    return said(answer, choices[0].message.content, choices[0].finish_reason)


def streamed_chat(events: Iterable[Any]) -> dict[str, Any]:
    """The same, streamed."""
    text, finish = "", None
    for event in events:
        for choice in event.choices or ():
            text += (choice.delta.content if choice.delta else None) or ""
            finish = choice.finish_reason or finish
    return said(events, text, finish)


class Stainless(Probe):
    """openai, anthropic and groq: made by one generator, and alike."""

    kind = ""
    path = ""

    def made(self, **options: Any) -> Any:
        return getattr(self.lib, self.kind)(**options)

    def defaults(self) -> dict[str, Any]:
        one = self.made(api_key="none", base_url=NOWHERE)
        return limits(one.timeout, one.max_retries)

    def client(self, job: dict[str, Any]) -> Any:
        return self.made(api_key=job["key"], base_url=job["url"] + self.path, timeout=job["limit_s"])


def asked_chat(job: dict[str, Any]) -> dict[str, Any]:
    return {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}]}


class OpenAI(Stainless):
    """`chat.completions.create`."""

    sdk, kind, path, error = "openai", "OpenAI", "/v1", "openai.APIError"

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        answer = one.chat.completions.create(stream=job["stream"], **asked_chat(job))
        return streamed_chat(answer) if job["stream"] else whole_chat(answer)


class Groq(OpenAI):
    sdk, kind, path, error = "groq", "Groq", "", "groq.APIError"


class OpenAIResponses(OpenAI):
    """`responses.create`."""

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        answer = one.responses.create(model=job["model"], input=job["prompt"], stream=job["stream"])
        if not job["stream"]:
            output = getattr(answer, "output", None)
            if not output:
                return said(answer, None, None, f"output={output!r}")
            return said(answer, answer.output_text, answer.status)
        text, finish = "", None
        for event in answer:
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type in ("response.completed", "response.incomplete", "response.failed"):
                finish = event.response.status
            elif event.type == "error":
                finish = "error event"
        return said(answer, text, finish)


class Anthropic(Stainless):
    """`messages.create`. In old releases (0.28) it has a time limit of its own, which is stronger than the client's."""

    sdk, kind, error = "anthropic", "Anthropic", "anthropic.APIError"
    method = "create"

    def defaults(self) -> dict[str, Any]:
        one = self.made(api_key="none", base_url=NOWHERE)
        own = inspect.signature(getattr(one.messages, self.method)).parameters["timeout"].default
        return limits(own if isinstance(own, (int, float)) else one.timeout, one.max_retries)

    def asked(self, job: dict[str, Any]) -> dict[str, Any]:
        return {**asked_chat(job), "max_tokens": 500, "timeout": job["limit_s"]}

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        answer = one.messages.create(stream=job["stream"], **self.asked(job))
        if not job["stream"]:
            content = getattr(answer, "content", None)
            if not content:
                return said(answer, None, None, f"content={content!r}")
            return said(answer, "".join(getattr(block, "text", "") for block in content), answer.stop_reason)
        text, finish = "", None
        for event in answer:
            if event.type == "content_block_delta":
                text += getattr(event.delta, "text", "")
            elif event.type == "message_delta":
                finish = event.delta.stop_reason or finish
        return said(answer, text, finish)


class AnthropicHelper(Anthropic):
    """The `messages.stream()` helper."""

    method = "stream"

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        with one.messages.stream(**self.asked(job)) as stream:
            text = "".join(stream.text_stream)
            return said(stream, text, stream.get_final_message().stop_reason)


class GoogleGenAI(Probe):
    """`models.generate_content` and its stream."""

    sdk, error = "google.genai", "google.genai.errors.APIError"

    def defaults(self) -> dict[str, Any]:
        options = self.lib.types.HttpOptions()
        limit_ms, again = getattr(options, "timeout", None), getattr(options, "retry_options", None)
        limit_s = None if limit_ms is None else limit_ms / 1000
        return {"connect_s": limit_s, "read_s": limit_s, "retries": 0 if again is None else 4}

    def client(self, job: dict[str, Any]) -> Any:
        options = self.lib.types.HttpOptions(base_url=job["url"], timeout=round(job["limit_s"] * 1000))
        return self.lib.Client(api_key=job["key"], http_options=options)

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        asked = {"model": job["model"], "contents": job["prompt"]}
        if not job["stream"]:
            answer = one.models.generate_content(**asked)
            if not answer.candidates:
                return said(answer, None, None, f"candidates={answer.candidates!r}")
            return said(answer, answer.text, answer.candidates[0].finish_reason)
        text, finish, events = "", None, one.models.generate_content_stream(**asked)
        for event in events:
            text += event.text or ""
            for candidate in event.candidates or ():
                finish = candidate.finish_reason or finish
        return said(events, text, finish)


class MistralAI(Probe):
    """`chat.complete` and `chat.stream`."""

    def __init__(self) -> None:
        self.lib = _first("mistralai.client.Mistral", "mistralai.Mistral")
        names = (f"{module}.{name}" for name in ("MistralError", "SDKError") for module in _MISTRAL_ERRORS)
        self.caught = (_first(*names),)

    def defaults(self) -> dict[str, Any]:
        # The client's own limit is overridden by the `None` of each request: nothing limits a call.
        return limits(None, 0)

    def client(self, job: dict[str, Any]) -> Any:
        limit_ms = round(job["limit_s"] * 1000)
        return self.lib(api_key=job["key"], server_url=job["url"] + "/mistral", timeout_ms=limit_ms)

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        if not job["stream"]:
            return whole_chat(one.chat.complete(**asked_chat(job)))
        answer = one.chat.stream(**asked_chat(job))
        with answer if hasattr(answer, "__exit__") else contextlib.nullcontext(answer) as events:
            return streamed_chat(event.data for event in events)


_MISTRAL_ERRORS = ("mistralai.client.errors", "mistralai.client.models", "mistralai.models")


def _first(*names: str) -> Any:
    """The first of these that is there: a package moved them from version to version. Raises ImportError."""
    for name in names:
        module, _, last = name.rpartition(".")
        try:
            return getattr(importlib.import_module(module), last)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(names)}")


class LiteLLM(Probe):
    """`completion` with an `openai/` model."""

    sdk, error = "litellm", "openai.APIError"  # litellm's own classes descend from it
    provider, path = "openai", "/v1"
    own_retries = 2

    def defaults(self) -> dict[str, Any]:
        limit_s, retries = float(self.lib.request_timeout), self.lib.num_retries
        return {"connect_s": limit_s, "read_s": limit_s, "retries": self.own_retries if retries is None else retries}

    def client(self, job: dict[str, Any]) -> Any:
        return {"api_key": job["key"], "api_base": job["url"] + self.path, "timeout": job["limit_s"], "max_tokens": 500}

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        asked = {**asked_chat(job), **one, "model": f"{self.provider}/{job['model']}"}
        answer = self.lib.completion(stream=job["stream"], **asked)
        return streamed_chat(answer) if job["stream"] else whole_chat(answer)


class LiteLLMAnthropic(LiteLLM):
    """`completion` with an `anthropic/` model."""

    provider, path, own_retries = "anthropic", "", 0


class LangChainOpenAI(Probe):
    """`ChatOpenAI.invoke` and `.stream`."""

    sdk, error = "langchain_openai", "openai.APIError"

    def defaults(self) -> dict[str, Any]:
        chat = self.lib.ChatOpenAI(model="none", api_key="none", base_url=NOWHERE)
        one = chat.root_client if hasattr(chat, "root_client") else chat.client._client
        return limits(one.timeout, one.max_retries)

    def client(self, job: dict[str, Any]) -> Any:
        url = job["url"] + "/v1"
        return self.lib.ChatOpenAI(model=job["model"], api_key=job["key"], base_url=url, timeout=job["limit_s"])

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        text, finish = "", None
        answers = one.stream(job["prompt"]) if job["stream"] else (one.invoke(job["prompt"]),)
        for answer in answers:
            text += str(answer.content)
            finish = answer.response_metadata.get("finish_reason") or finish
        return said(answers if job["stream"] else answers[0], text, finish)


class Raw(Probe):
    """A bare POST in the shape of OpenAI's chat API; the status is looked at, as `raise_for_status` does."""

    def post(self, job: dict[str, Any]) -> dict[str, Any]:
        return {"url": job["url"] + "/v1/chat/completions", "json": {**asked_chat(job), "stream": job["stream"]}}

    def fields(self, job: dict[str, Any]) -> dict[str, str]:
        return {"authorization": "Bearer " + job["key"]}


def whole_raw(body: Any) -> dict[str, Any]:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not choices:
        return said(body, None, None, f"choices={choices!r}")
    return said(body, choices[0]["message"]["content"], choices[0]["finish_reason"])


def streamed_raw(lines: Iterable[str]) -> dict[str, Any]:
    """What a hand-written reader of the stream makes of its lines."""
    text, finish = "", None
    for line in lines:
        line = line.rstrip("\r\n")  # httpx before 0.24 leaves its end on it
        if line.startswith("data: ") and line != "data: [DONE]":
            for choice in json.loads(line[6:]).get("choices") or ():
                text += choice.get("delta", {}).get("content") or ""
                finish = choice.get("finish_reason") or finish
    return said(lines, text, finish)


class HTTPX(Raw):
    sdk, error = "httpx", "httpx.HTTPError"

    def defaults(self) -> dict[str, Any]:
        return limits(self.lib.Client(trust_env=False).timeout, 0)

    def client(self, job: dict[str, Any]) -> Any:
        return self.lib.Client(timeout=job["limit_s"], trust_env=False, headers=self.fields(job))

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        if not job["stream"]:
            answer = one.post(**self.post(job))
            answer.raise_for_status()
            return whole_raw(answer.json())
        with one.stream("POST", **self.post(job)) as answer:
            answer.raise_for_status()
            return streamed_raw(answer.iter_lines())


class HTTPX2(HTTPX):
    sdk, error = "httpx2", "httpx2.HTTPError"


class Requests(Raw):
    sdk, error = "requests", "requests.RequestException"

    def defaults(self) -> dict[str, Any]:
        return limits(None, 0)  # `timeout=None`: requests has no limit of its own

    def client(self, job: dict[str, Any]) -> Any:
        one = self.lib.Session()
        one.trust_env = False
        one.headers.update(self.fields(job))
        return one

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        answer = one.post(timeout=job["limit_s"], stream=job["stream"], **self.post(job))
        answer.raise_for_status()
        if not job["stream"]:
            return whole_raw(answer.json())
        return streamed_raw(line.decode("utf-8", "replace") for line in answer.iter_lines())


class AIOHTTP(Raw):
    sdk, error = "aiohttp", "aiohttp.ClientError"

    def __init__(self) -> None:
        super().__init__()
        self.caught += (asyncio.TimeoutError,)

    def defaults(self) -> dict[str, Any]:
        limit = importlib.import_module("aiohttp.client").DEFAULT_TIMEOUT
        return {"connect_s": limit.sock_connect, "read_s": limit.sock_read, "total_s": limit.total, "retries": 0}

    def client(self, job: dict[str, Any]) -> Any:
        loop = asyncio.new_event_loop()
        return loop, loop.run_until_complete(self._session(job))

    async def _session(self, job: dict[str, Any]) -> Any:
        return self.lib.ClientSession(timeout=self.lib.ClientTimeout(total=job["limit_s"]), headers=self.fields(job))

    def call(self, one: Any, job: dict[str, Any]) -> dict[str, Any]:
        loop, session = one
        answer: dict[str, Any] = loop.run_until_complete(self._call(session, job))
        return answer

    async def _call(self, session: Any, job: dict[str, Any]) -> dict[str, Any]:
        async with session.post(**self.post(job)) as answer:
            answer.raise_for_status()
            if not job["stream"]:
                return whole_raw(await answer.json())
            return streamed_raw([line.decode("utf-8", "replace").rstrip("\r\n") async for line in answer.content])


PROBES: dict[str, type[Probe]] = {
    "openai": OpenAI,
    "openai-responses": OpenAIResponses,
    "anthropic": Anthropic,
    "anthropic-helper": AnthropicHelper,
    "google-genai": GoogleGenAI,
    "mistralai": MistralAI,
    "groq": Groq,
    "litellm": LiteLLM,
    "litellm-anthropic": LiteLLMAnthropic,
    "langchain-openai": LangChainOpenAI,
    "httpx": HTTPX,
    "httpx2": HTTPX2,
    "requests": Requests,
    "aiohttp": AIOHTTP,
}
