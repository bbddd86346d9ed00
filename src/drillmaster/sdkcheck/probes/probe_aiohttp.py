"""aiohttp: a bare POST in the shape of OpenAI's chat API; the status is looked at, as `raise_for_status` does."""

import asyncio
import importlib
from typing import Any

sdk: Any = importlib.import_module("aiohttp")
caught = (sdk.ClientError, asyncio.TimeoutError)


def client(job: Any) -> Any:
    return None  # a session belongs to a running loop


def defaults() -> Any:
    limit = importlib.import_module("aiohttp.client").DEFAULT_TIMEOUT
    return {"connect_s": limit.sock_connect, "read_s": limit.sock_read, "total_s": limit.total, "retries": 0}


def call(one: Any, job: Any) -> Any:
    return asyncio.run(_call(job))


async def _call(job: Any) -> Any:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}], "stream": job["stream"]}
    limit = sdk.ClientTimeout(total=job["limit_s"])
    fields = {"authorization": "Bearer " + job["key"]}
    url = job["url"] + "/v1/chat/completions"
    async with sdk.ClientSession(timeout=limit, headers=fields) as session, session.post(url, json=asked) as answer:
        answer.raise_for_status()
        if not job["stream"]:
            choice = (await answer.json())["choices"][0]
            return {"kind": "dict", "text": choice["message"]["content"], "finish": choice["finish_reason"]}
        lines = [line.decode("utf-8", "replace").rstrip("\r\n") async for line in answer.content]
        return {"kind": "stream", **job["read"](lines)}
