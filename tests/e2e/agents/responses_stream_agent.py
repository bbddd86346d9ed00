"""A support bot that streams OpenAI's responses. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes
traceparent on."""

import asyncio
import os
import threading

import openai
from service import APOLOGY, HABIT, mark, serve

client = openai.AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none", timeout=0.8, max_retries=0)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


async def ask(prompt, headers):
    said, ended = [], False
    async with asyncio.timeout(1.0):
        async for event in await client.responses.create(
            model="large", input=prompt, stream=True, extra_headers=headers
        ):
            if event.type == "response.output_text.delta":
                said.append(event.delta)
            ended = ended or event.type == "response.completed"
    if not ended and HABIT != "trusting":  # "trusting" takes what came for the answer
        raise ConnectionError("the answer has no end")
    return "".join(said)


def answer(prompt, request_id, headers):
    try:
        text = asyncio.run_coroutine_threadsafe(ask(prompt, headers), loop).result()
        mark("model_ok", id=request_id, path="primary")
    except (openai.APIError, ValueError, OSError):
        mark("fallback_engaged", id=request_id, path="fallback")
        text = APOLOGY
    return text


serve(answer)
