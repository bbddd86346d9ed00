"""A support bot on the `openai` SDK. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import os

import openai
from service import APOLOGY, HABIT, mark, serve

client = openai.OpenAI(
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key="none",
    timeout=None if HABIT == "patience" else 0.8,
    max_retries=0,
)
# "narrow" knows error statuses only: a reset and a time limit are other classes of the SDK.
CAUGHT = openai.APIStatusError if HABIT == "narrow" else openai.APIError


def answer(prompt, request_id, headers):
    try:
        reply = client.chat.completions.create(
            model="large", messages=[{"role": "user", "content": prompt}], extra_headers=headers
        )
        text = reply.choices[0].message.content
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        mark("fallback_engaged", id=request_id, path="fallback")
        # "hollow" says that it fell back, and has nothing to say.
        text = "" if HABIT == "hollow" else APOLOGY
    return text


serve(answer)
