// @anthropic-ai/sdk: `messages.create`.
export default function (require) {
  const { Anthropic } = require("@anthropic-ai/sdk");
  return {
    name: "Anthropic",
    client: (job) => new Anthropic({ apiKey: job.key, baseURL: job.url, timeout: job.limit_s * 1000 }),
    caught: (error) => error instanceof Anthropic.APIError,
    defaults: () => {
      const one = new Anthropic({ apiKey: "none", baseURL: "http://127.0.0.1:9" });
      return { connect_s: one.timeout / 1000, read_s: one.timeout / 1000, retries: one.maxRetries };
    },
    call: async (one, job) => {
      const asked = { model: job.model, max_tokens: 500, messages: [{ role: "user", content: job.prompt }] };
      if (!job.stream) {
        const answer = await one.messages.create(asked);
        if (typeof answer === "string") return { kind: "str", text: answer };
        if (!answer.content) return { kind: "object", text: null, note: `content=${JSON.stringify(answer.content)}` };
        return { kind: "object", text: answer.content.map((b) => b.text ?? "").join(""), finish: answer.stop_reason };
      }
      let text = "";
      let finish = null;
      for await (const event of await one.messages.create({ ...asked, stream: true })) {
        if (event.type === "content_block_delta") text += event.delta?.text ?? "";
        else if (event.type === "message_delta") finish = event.delta?.stop_reason ?? finish;
      }
      return { kind: "stream", text, finish };
    },
  };
}
