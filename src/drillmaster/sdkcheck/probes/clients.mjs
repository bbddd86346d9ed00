// How each client of Node's is called, and what of its answer is looked at. A client is a function that takes `require`.
const asked = (job) => ({ model: job.model, messages: [{ role: "user", content: job.prompt }] });
const NOWHERE = "http://127.0.0.1:9";

// What Node's fetch (undici) limits by itself, under every client that is built on it.
const UNDICI = { connect_s: 10, read_s: 300, body_s: 300 };

// `field` should hold the answer; where it holds nothing, a note says so.
function said(answer, field, read) {
  if (typeof answer === "string") return { kind: "str", text: answer };
  const held = answer?.[field];
  if (!held?.length) return { kind: "object", text: null, note: `${field}=${JSON.stringify(held)}` };
  return { kind: "object", ...read(held) };
}

const wholeChat = (answer) =>
  said(answer, "choices", ([choice]) => ({ text: choice.message.content, finish: choice.finish_reason }));

async function streamedChat(events) {
  let text = "";
  let finish = null;
  for await (const event of events) {
    for (const choice of event.choices ?? []) {
      text += choice.delta?.content ?? "";
      finish = choice.finish_reason ?? finish;
    }
  }
  return { kind: "stream", text, finish };
}

// openai and @anthropic-ai/sdk: made by one generator, and alike.
const stainless = (Kind, name, path, call) => ({
  name,
  client: (job) => new Kind({ apiKey: job.key, baseURL: job.url + path, timeout: job.limit_s * 1000 }),
  caught: (error) => error instanceof Kind.APIError,
  defaults: () => {
    const one = new Kind({ apiKey: "none", baseURL: NOWHERE });
    return { ...UNDICI, read_s: Math.min(UNDICI.read_s, one.timeout / 1000), retries: one.maxRetries };
  },
  call,
});

// `chat.completions.create`.
const openai = (require) =>
  stainless(require("openai").OpenAI, "openai", "/v1", async (one, job) => {
    const options = { signal: job.signal };
    const answer = await one.chat.completions.create({ ...asked(job), stream: job.stream }, options);
    return job.stream ? streamedChat(answer) : wholeChat(answer);
  });

// `messages.create`.
const anthropic = (require) =>
  stainless(require("@anthropic-ai/sdk").Anthropic, "Anthropic", "", async (one, job) => {
    const options = { signal: job.signal };
    const answer = await one.messages.create({ ...asked(job), max_tokens: 500, stream: job.stream }, options);
    if (!job.stream) {
      const read = (content) => ({ text: content.map((block) => block.text ?? "").join(""), finish: answer.stop_reason });
      return said(answer, "content", read);
    }
    let text = "";
    let finish = null;
    for await (const event of answer) {
      if (event.type === "content_block_delta") text += event.delta?.text ?? "";
      else if (event.type === "message_delta") finish = event.delta?.stop_reason ?? finish;
    }
    return { kind: "stream", text, finish };
  });

// Node's own fetch: a bare POST in the shape of OpenAI's chat API; `ok` is looked at, and any Error is what a catch sees.
const bare = () => ({
  name: "fetch",
  client: () => null,
  caught: () => true, // `catch` has no classes: a fallback that stands there engages on whatever is thrown
  defaults: () => ({ ...UNDICI, retries: 0 }),
  call: async (one, job) => {
    const answer = await fetch(job.url + "/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer " + job.key },
      body: JSON.stringify({ ...asked(job), stream: job.stream }),
      signal: AbortSignal.any([job.signal, AbortSignal.timeout(job.limit_s * 1000)]),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    if (!job.stream) return wholeChat(await answer.json());
    const lines = (await answer.text()).split("\n").filter((line) => line.startsWith("data: ") && line !== "data: [DONE]");
    return streamedChat(lines.map((line) => JSON.parse(line.slice(6))));
  },
});

export default { "node-openai": openai, "node-anthropic": anthropic, "node-fetch": bare };
