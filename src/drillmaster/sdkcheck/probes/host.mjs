// Runs under the Node that is checked, and imports nothing of drillmaster.
// host.mjs find DIR NAME... | host.mjs defaults DIR PROBE JSON | host.mjs call DIR PROBE JSON: one JSON object on stdout.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import net from "node:net";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [verb, folder, ...rest] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), "probe.cjs"));
const say = (row) => process.stdout.write(JSON.stringify(row), () => process.exit(0));
const clip = (text) => (typeof text === "string" ? text.slice(0, 300) : text);

// No packet leaves loopback: what would is refused, and told.
const left = [];
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const asked = Array.isArray(args[0]) ? args[0][0] : args[0];
  const host = typeof asked === "object" && asked !== null ? asked.host ?? "localhost" : "localhost";
  if (!/^(127\.|::1$|localhost$)/.test(host)) {
    left.push(host);
    this.destroy(new Error(`sdk-check allows loopback only, not ${host}`));
    return this;
  }
  return connect.apply(this, args);
};

if (verb === "find") {
  const found = {};
  for (const name of rest) {
    try {
      found[name] = JSON.parse(readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8")).version;
    } catch {
      continue; // it is not there
    }
  }
  say({ node: process.versions.node, found });
} else {
  const probe = (await import(pathToFileURL(rest[0]).href)).default(require);
  if (verb === "defaults") {
    say(probe.defaults());
  } else {
    const job = JSON.parse(rest[1]);
    let began = performance.now();
    let row;
    try {
      const client = probe.client(job);
      for (let i = 1; i < job.calls; i++) await probe.call(client, job);
      began = performance.now();
      const said = await probe.call(client, job);
      row = { how: "returned", ...said, text: clip(said.text) };
    } catch (error) {
      const name = error?.constructor?.name ?? typeof error;
      const cause = error?.cause?.code ? ` (${error.cause.code})` : "";
      const own = probe.caught(error);
      row = { how: "raised", class: `${own ? probe.name + "." : ""}${name}`, caught: own };
      row.message = clip(String(error?.message ?? error) + cause);
    }
    row.seconds = Math.round(performance.now() - began) / 1000;
    row.left_loopback = left.slice(0, 5);
    say(row);
  }
}
