// A support bot in Node that streams from the `openai` package. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1
// passes traceparent on. NODE_MODULES is where the package was installed.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const { HABIT = "", MARKS, TRACE, PORT, DRILL_LOG, OPENAI_BASE_URL, NODE_MODULES } = process.env;
const { OpenAI } = createRequire(`${NODE_MODULES}/`)("openai");
const client = new OpenAI({ baseURL: OPENAI_BASE_URL, apiKey: "none", timeout: 800, maxRetries: 0 });

const mark = (event, fields) =>
  MARKS && appendFileSync(DRILL_LOG, JSON.stringify({ t: new Date().toISOString(), event, ...fields }) + "\n");

async function ask(prompt, headers, show) {
  let finish = null;
  const signal = HABIT === "patient" ? undefined : AbortSignal.timeout(1000);
  const stream = await client.chat.completions.create(
    { model: "large", messages: [{ role: "user", content: prompt }], stream: true },
    { headers, signal },
  );
  for await (const { choices } of stream) {
    if (!choices.length) continue;
    show(choices[0].delta.content ?? "");
    finish = choices[0].finish_reason ?? finish;
  }
  // "trusting" takes what came for the answer.
  if (!finish && HABIT !== "trusting") throw new Error("the answer has no end");
}

async function answer(prompt, id, headers, response) {
  let text = "";
  // "replay" shows each word at once, and asks again when the stream broke: from its start, in the same answer.
  const show = HABIT === "replay" ? (words) => words && response.write(words) : (words) => (text += words);
  try {
    try {
      await ask(prompt, headers, show);
    } catch (error) {
      if (HABIT !== "replay") throw error;
      await ask(prompt, headers, show);
    }
    mark("model_ok", { id, path: "primary" });
  } catch (error) {
    if (HABIT === "narrow" && !(error instanceof OpenAI.APIError)) throw error;
    mark("fallback_engaged", { id, path: "fallback" });
    text = "We are looking into it and will write to you today.";
  }
  return text;
}

createServer(async (request, response) => {
  const prompt = new URL(request.url, "http://localhost").searchParams.get("q");
  const id = request.headers["x-drill-request"];
  const trace = TRACE && request.headers.traceparent;
  mark("user_request", { id, phase: "start" });
  try {
    response.end(await answer(prompt, id, trace ? { traceparent: trace } : {}, response));
    mark("user_request", { id, phase: "end", status: 200 });
  } catch (error) {
    mark("unhandled_exception", { id, kind: error.constructor.name });
    mark("user_request", { id, phase: "end", status: 502 });
    if (!response.headersSent) response.writeHead(502);
    response.end();
  }
}).listen(Number(PORT), "127.0.0.1");
