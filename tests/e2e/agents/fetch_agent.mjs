// A support bot in Node on `fetch`. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const { HABIT = "", MARKS, TRACE, PORT, DRILL_LOG, MODEL_BASE_URL } = process.env;
const url = MODEL_BASE_URL.replace(/\/+$/, "").replace(/\/v1$/, "") + "/v1/chat/completions";
let lost = false;

const mark = (event, fields) =>
  MARKS && appendFileSync(DRILL_LOG, JSON.stringify({ t: new Date().toISOString(), event, ...fields }) + "\n");

async function ask(prompt, headers) {
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "large", messages: [{ role: "user", content: prompt }] }),
    signal: AbortSignal.timeout(800),
  });
  if (!reply.ok) throw new Error(`status ${reply.status}`); // fetch rejects on broken connections only
  return (await reply.json()).choices[0].message.content;
}

async function answer(prompt, id, headers) {
  mark("user_request", { id, phase: "start" });
  let text;
  try {
    // "clingy" has seen one failure and never asks the primary again.
    if (HABIT === "clingy" && lost) throw new Error("known to be down");
    text = await ask(prompt, headers);
    mark("model_ok", { id, path: "primary" });
  } catch (error) {
    lost = true;
    // "partial" has an answer for some prompts and none for the others.
    if (HABIT === "unprepared" || (HABIT === "partial" && !prompt.includes("order"))) throw error;
    mark("fallback_engaged", { id, path: "fallback" });
    text = "We are looking into it and will write to you today.";
  }
  mark("user_request", { id, phase: "end", status: 200 });
  return text;
}

createServer(async (request, response) => {
  const prompt = new URL(request.url, "http://localhost").searchParams.get("q");
  const id = request.headers["x-drill-request"];
  const trace = TRACE && request.headers.traceparent;
  try {
    response.end(await answer(prompt, id, trace ? { traceparent: trace } : {}));
  } catch (error) {
    if (HABIT !== "partial") mark("unhandled_exception", { id, kind: error.name });
    mark("user_request", { id, phase: "end", status: 502 });
    response.writeHead(502).end();
  }
}).listen(Number(PORT), "127.0.0.1");
