// A support bot in Node that reads a model's stream with `fetch` alone. HABIT selects a mistake; MARKS=1 writes a timeline;
// TRACE=1 passes traceparent on.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const { HABIT = "", MARKS, TRACE, PORT, DRILL_LOG, MODEL_BASE_URL } = process.env;
const url = MODEL_BASE_URL.replace(/\/+$/, "").replace(/\/v1$/, "") + "/v1/chat/completions";

const mark = (event, fields) =>
  MARKS && appendFileSync(DRILL_LOG, JSON.stringify({ t: new Date().toISOString(), event, ...fields }) + "\n");

async function ask(prompt, headers) {
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "large", messages: [{ role: "user", content: prompt }], stream: true }),
    signal: AbortSignal.timeout(1000),
  });
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  let text = "", rest = "", finish = null;
  const decoder = new TextDecoder();
  for await (const bytes of reply.body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      let event;
      try {
        event = JSON.parse(line.slice(6));
      } catch (error) {
        if (HABIT === "careless") continue; // "careless" logs nothing and reads on
        throw error;
      }
      if (event.error && HABIT !== "careless") throw new Error(event.error.message);
      text += event.choices?.[0]?.delta?.content ?? "";
      finish = event.choices?.[0]?.finish_reason ?? finish;
    }
  }
  if (!finish && HABIT !== "careless") throw new Error("the answer has no end");
  return text;
}

async function answer(prompt, id, headers) {
  try {
    const text = await ask(prompt, headers);
    mark("model_ok", { id, path: "primary" });
    return text;
  } catch (error) {
    mark("fallback_engaged", { id, path: "fallback" });
    return "We are looking into it and will write to you today.";
  }
}

createServer(async (request, response) => {
  const prompt = new URL(request.url, "http://localhost").searchParams.get("q");
  const id = request.headers["x-drill-request"];
  const trace = TRACE && request.headers.traceparent;
  mark("user_request", { id, phase: "start" });
  const text = await answer(prompt, id, trace ? { traceparent: trace } : {});
  mark("user_request", { id, phase: "end", status: 200 });
  response.end(text);
}).listen(Number(PORT), "127.0.0.1");
