"""A support bot that streams from the `anthropic` SDK. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes
traceparent on."""

import asyncio
import os
import threading

import anthropic
import httpx2
from service import APOLOGY, HABIT, mark, serve

WHOLE_ANSWER_S = None if HABIT in ("narrow", "patient") else 1.0
# "narrow" trusts that a class called APIError is what every error of the API is.
CAUGHT = anthropic.APIError if HABIT == "narrow" else (anthropic.APIError, httpx2.HTTPError, ValueError, OSError)

client = anthropic.AsyncAnthropic(base_url=os.environ["ANTHROPIC_BASE_URL"], api_key="none", timeout=0.8, max_retries=0)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


async def ask(prompt, headers):
    said, ended = [], False
    async with asyncio.timeout(WHOLE_ANSWER_S):
        stream = await client.messages.create(
            model="large",
            max_tokens=200,
            messages=[{"role": "user", "content": prompt}],
            stream=True,
            extra_headers=headers,
        )
        async for event in stream:
            if event.type == "content_block_delta":
                said.append(event.delta.text)
            ended = ended or event.type == "message_stop"
    # "narrow" and "trusting" take what came for the answer.
    if not ended and HABIT not in ("narrow", "trusting"):
        raise ConnectionError("the answer has no end")
    return "".join(said)


def answer(prompt, request_id, headers):
    try:
        text = asyncio.run_coroutine_threadsafe(ask(prompt, headers), loop).result()
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        mark("fallback_engaged", id=request_id, path="fallback")
        text = APOLOGY
    return text


serve(answer)
