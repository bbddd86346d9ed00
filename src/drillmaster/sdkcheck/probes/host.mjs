// Runs under the Node that is checked, and imports nothing of drillmaster: the same words on stdin and stdout as host.py.
// `host.mjs find DIR NAME...` says which packages DIR/node_modules holds. `host.mjs serve DIR CLIENT...` tells the defaults
// of each client, then takes jobs, one JSON object a line, side by side: a call that does not return is aborted.
import { AsyncLocalStorage } from "node:async_hooks";
import dgram from "node:dgram";
import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import net from "node:net";
import path from "node:path";
import readline from "node:readline";
import { setTimeout } from "node:timers/promises";
import clients from "./clients.mjs";

const [verb, folder, ...names] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), "probe.cjs"));
const tell = (row) => process.stdout.write(JSON.stringify(row) + "\n");
const clip = (text) => (typeof text === "string" ? text.slice(0, 300) : text);

// How long this process was ready to run and was not let, so far; 0 where the kernel does not say.
function starved() {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]) / 1e9;
  } catch {
    return 0;
  }
}

const jobs = new AsyncLocalStorage();

// No packet leaves loopback: what would is refused, and told. A name such as 127.example is no address.
const home = (host) => host === undefined || host === null || /^(127(\.\d{1,3}){3}|::1|localhost)$/.test(host);
const refused = (host) => {
  jobs.getStore()?.left.push(String(host));
  return new Error(`sdk-check allows loopback only, not ${host}`);
};

// What `connect` is told: an object, a port and perhaps a host, a path; as they come or in a list.
function host(args) {
  const [to, second] = Array.isArray(args[0]) ? args[0] : args;
  if (typeof to === "object" && to !== null) return to.path === undefined ? to.host : undefined;
  return typeof second === "string" ? second : undefined;
}

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const to = host(args);
  if (home(to)) return connect.apply(this, args);
  this.destroy(refused(to));
  return this;
};
const send = dgram.Socket.prototype.send;
dgram.Socket.prototype.send = function (...args) {
  const to = args.slice(1).find((arg) => typeof arg === "string");
  if (!home(to)) throw refused(to);
  return send.apply(this, args);
};
for (const [module, names] of [
  [dns, ["lookup", "resolve", "resolve4", "resolve6"]],
  [dns.promises, ["lookup", "resolve", "resolve4", "resolve6"]],
]) {
  for (const name of names) {
    const ask = module[name];
    module[name] = function (to, ...more) {
      if (home(to)) return ask.call(this, to, ...more);
      const error = refused(to);
      const back = more.at(-1);
      if (module === dns.promises) return Promise.reject(error);
      process.nextTick(back, error);
    };
  }
}
syncBuiltinESMExports();

// An error that no promise carries would end a program that uses this client; here it ends the job that it belongs to.
const lost = (error) => jobs.getStore()?.over({ how: "crashed", message: clip(`uncaught ${error}`) });
process.on("uncaughtException", lost);
process.on("unhandledRejection", lost);

function find() {
  const found = {};
  for (const name of names) {
    try {
      found[name] = JSON.parse(readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8")).version;
    } catch {
      continue; // it is not there
    }
  }
  return { version: process.versions.node, found };
}

async function call(probe, job, began) {
  try {
    const client = probe.client(job);
    for (let i = 1; i < job.calls; i++) {
      await probe.call(client, job);
      await setTimeout(50); // a connection is free again a moment after the answer it brought
    }
    began.at = performance.now();
    const said = await probe.call(client, job);
    return { how: "returned", ...said, text: clip(said.text) };
  } catch (error) {
    const name = error instanceof DOMException ? error.name : error?.constructor?.name ?? typeof error;
    const cause = error?.cause?.code ? ` (${error.cause.code})` : "";
    const caught = probe.caught(error);
    const message = clip(String(error?.message ?? error) + cause);
    return { how: "raised", class: `${caught ? probe.name + "." : ""}${name}`, caught, message };
  }
}

function run(probe, job) {
  const aborted = new AbortController();
  const began = { at: performance.now() };
  const before = starved();
  const left = [];
  let told = false;
  const over = (row) => {
    if (told) return;
    told = true;
    clearTimeout(timer);
    const seconds = Math.round(performance.now() - began.at) / 1000;
    tell({ id: job.id, ...row, seconds, starved_s: starved() - before, left_loopback: left.slice(0, 5) });
    aborted.abort();
  };
  const timer = globalThis.setTimeout(() => over({ how: "waiting" }), job.kill_s * 1000);
  jobs.run({ left, over }, () => call(probe, { ...job, signal: aborted.signal }, began).then(over));
}

if (verb === "find") {
  tell(find());
} else {
  const ready = {};
  for (const name of names) {
    try {
      ready[name] = clients[name](require);
      tell({ client: name, defaults: ready[name].defaults() });
    } catch (error) {
      tell({ client: name, message: clip(String(error?.message ?? error)) });
    }
  }
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const job = JSON.parse(line);
    run(ready[job.client], job);
  });
  lines.on("close", () => process.exit(0));
}
