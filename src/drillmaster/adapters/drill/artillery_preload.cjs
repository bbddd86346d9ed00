// Loaded into somebody's Artillery before anything of its own (node --require): a line when a request is sent to the
// target and one when it is over, a mission's name and trace on each, and no connection to an address that is neither loopback
// nor the target's. Node's standard library alone. It ends Artillery when standard input ends: nobody who could stop it is
// there any more.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const { isMainThread, threadId } = require('node:worker_threads');

const said = JSON.parse(process.env.DRILLMASTER_ARTILLERY || 'null');
const BODY_CAP_BYTES = 1000000;
const PER_THREAD = 1000000;
const TELLING = /(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w.~%+=-]{12,}|.{25,}|^(?:sk|pk|key|tok|ghp|xox)[-_]/i;

function install() {
  const out = fs.openSync(said.out, 'a');
  let count = 0;

  function write(kind, fields) {
    const rest = JSON.stringify(fields).slice(1);
    // Whole nanoseconds, which a number of JavaScript cannot hold.
    fs.writeSync(out, `{"k":"${kind}","ns":${process.hrtime.bigint()},${rest}\n`);
  }

  // A request's name: its path without what may be an identifier or a key. The file it is written to is evidence.
  function label(path) {
    const parts = String(path || '').split('?')[0].split('/');
    return parts.map((part) => (TELLING.test(part) ? '*' : part)).join('/').slice(0, 80);
  }

  function resultOf(error) {
    const code = String(error.code || error.name || '');
    if (code === 'ECONNREFUSED') return 'refused';
    if (code === 'ECONNRESET' || code === 'EPIPE') return 'reset';
    if (/TIMEDOUT|Timeout/i.test(code)) return 'timeout';
    if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(code)) return 'tls';
    if (/^HPE_/.test(code)) return 'protocol';
    return 'script';
  }

  function errorIn(body) {
    if (body === null || !body.includes('"error"') || !body.trimStart().startsWith('{')) return false;
    try {
      return Boolean(JSON.parse(body).error);
    } catch {
      return false;
    }
  }

  function watch(request, number) {
    let over = false;
    function end(fields) {
      if (over) return;
      over = true;
      write('e', { n: number, status: null, why: '', ...fields });
    }
    request.prependListener('error', (error) => {
      end({ result: resultOf(error), why: String(error.code || error.name || 'Error').slice(0, 60) });
    });
    request.prependListener('response', (response) => {
      let body = '';
      let size = 0;
      const push = response.push;
      response.push = function (chunk, ...more) {
        if (chunk) {
          size += chunk.length;
          body = size > BODY_CAP_BYTES ? null : body + chunk.toString('utf8');
        } else if (response.complete) {
          const failed = response.statusCode >= 400 ? 'status' : errorIn(body) ? 'error_body' : 'ok';
          end({ status: response.statusCode, result: failed });
        }
        return push.call(this, chunk, ...more);
      };
      response.prependListener('close', () => {
        end({ status: response.statusCode, result: response.complete ? 'ok' : 'cut' });
      });
    });
    request.prependListener('close', () => end({ result: 'cut' }));
  }

  function wrap(module) {
    const original = module.request;
    module.request = function (...given) {
      const request = original.apply(this, given);
      const authority = request.getHeader('host');
      if (authority !== said.authority) return request;
      count += 1;
      const number = threadId * PER_THREAD + count;
      const mission = `m${String(said.first + number).padStart(6, '0')}-${said.run}`;
      const trace = crypto.randomBytes(16).toString('hex');
      if (!request.headersSent) {
        request.setHeader('X-Drill-Mission', mission);
        request.setHeader('X-Drill-Run', said.drill_run);
        request.setHeader('traceparent', `00-${trace}-${crypto.randomBytes(8).toString('hex')}-01`);
      }
      const name = label(request.path);
      write('s', { n: number, mission, trace, method: String(request.method), name });
      watch(request, number);
      return request;
    };
  }

  wrap(http);
  wrap(https);

  const connect = net.Socket.prototype.connect;
  net.Socket.prototype.connect = function (...given) {
    this.prependOnceListener('connect', () => {
      const address = this.remoteAddress || '';
      const plain = address.replace(/^::ffff:/, '');
      if (!address || plain.startsWith('127.') || plain === '::1' || said.addresses.includes(plain)) return;
      write('x', { address: plain });
      this.destroy(new Error('an address that the drill does not permit'));
    });
    return connect.apply(this, given);
  };

  if (isMainThread) {
    process.stdin.on('end', () => {
      process.kill(process.pid, 'SIGTERM');
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 10000).unref();
    });
    process.stdin.on('error', () => {});
    process.stdin.resume();
    process.stdin.unref();
  }
}

if (said !== null) install();
