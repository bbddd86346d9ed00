"""A support bot on the `anthropic` SDK. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import os

import anthropic
from service import APOLOGY, HABIT, mark, serve

client = anthropic.Anthropic(
    base_url=os.environ["ANTHROPIC_BASE_URL"],
    api_key="none",
    timeout=0.2 if HABIT == "stubborn" else 0.8,
    max_retries=0,
)


# "hopeful" waits for the errors of Python's own sockets; no error of the SDK is one.
CAUGHT = OSError if HABIT == "hopeful" else anthropic.APIError


def ask(prompt, headers, again=7 if HABIT == "stubborn" else 0):
    try:
        reply = client.messages.create(
            model="large", max_tokens=200, messages=[{"role": "user", "content": prompt}], extra_headers=headers
        )
        return reply.content[0].text
    except anthropic.APIError:
        if not again:
            raise
        return ask(prompt, headers, again - 1)  # "stubborn": at once, and eight times in all


def answer(prompt, request_id, headers):
    try:
        text = ask(prompt, headers)
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        mark("fallback_engaged", id=request_id, path="fallback")
        text = APOLOGY
    return text


serve(answer)
