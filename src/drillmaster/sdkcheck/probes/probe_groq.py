"""groq: `chat.completions.create`."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("groq")
caught = (sdk.APIError,)


def client(job: Any) -> Any:
    return sdk.Groq(api_key=job["key"], base_url=job["url"], timeout=job["limit_s"])


def defaults() -> Any:
    one = sdk.Groq(api_key="none", base_url="http://127.0.0.1:9")
    return {"connect_s": one.timeout.connect, "read_s": one.timeout.read, "retries": one.max_retries}


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}]}
    if not job["stream"]:
        answer = one.chat.completions.create(**asked)
        if isinstance(answer, str):
            return {"kind": "str", "text": answer}
        if not answer.choices:
            return {"kind": type(answer).__name__, "text": None, "note": f"choices={answer.choices!r}"}
        choice = answer.choices[0]
        return {"kind": type(answer).__name__, "text": choice.message.content, "finish": choice.finish_reason}
    text, finish = "", None
    for event in one.chat.completions.create(stream=True, **asked):
        for choice in event.choices or ():
            text += (choice.delta.content if choice.delta else None) or ""
            finish = choice.finish_reason or finish
    return {"kind": "stream", "text": text, "finish": finish}
