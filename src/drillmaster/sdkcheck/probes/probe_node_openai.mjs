// openai for Node: `chat.completions.create`.
export default function (require) {
  const { OpenAI } = require("openai");
  return {
    name: "openai",
    client: (job) => new OpenAI({ apiKey: job.key, baseURL: job.url + "/v1", timeout: job.limit_s * 1000 }),
    caught: (error) => error instanceof OpenAI.APIError,
    defaults: () => {
      const one = new OpenAI({ apiKey: "none", baseURL: "http://127.0.0.1:9" });
      return { connect_s: one.timeout / 1000, read_s: one.timeout / 1000, retries: one.maxRetries };
    },
    call: async (one, job) => {
      const asked = { model: job.model, messages: [{ role: "user", content: job.prompt }] };
      if (!job.stream) {
        const answer = await one.chat.completions.create(asked);
        if (typeof answer === "string") return { kind: "str", text: answer };
        const choice = answer.choices?.[0];
        if (!choice) return { kind: "object", text: null, note: `choices=${JSON.stringify(answer.choices)}` };
        return { kind: "object", text: choice.message.content, finish: choice.finish_reason };
      }
      let text = "";
      let finish = null;
      for await (const event of await one.chat.completions.create({ ...asked, stream: true })) {
        for (const choice of event.choices ?? []) {
          text += choice.delta?.content ?? "";
          finish = choice.finish_reason ?? finish;
        }
      }
      return { kind: "stream", text, finish };
    },
  };
}
