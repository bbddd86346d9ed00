// Node's own fetch: a bare POST in the shape of OpenAI's chat API; `ok` is looked at, and any Error is what a catch sees.
export default function () {
  return {
    name: "fetch",
    client: () => null,
    caught: () => true, // `catch` has no classes: a fallback that stands there engages on whatever is thrown
    defaults: () => ({ connect_s: 10, read_s: 300, retries: 0 }), // undici's connect, headers and body limits
    call: async (one, job) => {
      const asked = { model: job.model, messages: [{ role: "user", content: job.prompt }], stream: job.stream };
      const answer = await fetch(job.url + "/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer " + job.key },
        body: JSON.stringify(asked),
        signal: AbortSignal.timeout(job.limit_s * 1000),
      });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      if (!job.stream) {
        const choice = (await answer.json()).choices[0];
        return { kind: "object", text: choice.message.content, finish: choice.finish_reason };
      }
      let text = "";
      let finish = null;
      for (const line of (await answer.text()).split("\n")) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        for (const choice of JSON.parse(line.slice(6)).choices ?? []) {
          text += choice.delta?.content ?? "";
          finish = choice.finish_reason ?? finish;
        }
      }
      return { kind: "stream", text, finish };
    },
  };
}
