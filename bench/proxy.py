"""What the proxy costs, beside HAProxy and nginx in the same run: `python bench/proxy.py [--seconds 4] [--rounds 3]`.

An nginx origin (994 B of JSON, keep-alive) on plain HTTP and on TLS; `wrk` as the client, 614 B POSTs; each request has a
trace of its own and each answer an id, so that no head is wholly known. Each proxy is one process on one core of its own,
evidence on. CPU is read from /proc/PID/stat around each run; other load on the machine changes rates a lot and the figures a
little, so the ratio to HAProxy's in the same run is what counts. Rounds are interleaved; the table shows medians. Loopback only.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

NGINX_ORIGIN = """
daemon off; worker_processes 1; pid {dir}/origin.pid; error_log /dev/null crit; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; client_max_body_size 64m;
  client_body_temp_path {dir}/ob; proxy_temp_path {dir}/op; fastcgi_temp_path {dir}/of; uwsgi_temp_path {dir}/ou;
  scgi_temp_path {dir}/os;
  default_type application/json; add_header x-request-id $request_id;
  server {{ listen 127.0.0.1:{plain} backlog=1024; location / {{ return 200 '{body}'; }} }}
  server {{ listen 127.0.0.1:{tls} ssl backlog=1024; ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
           location / {{ return 200 '{body}'; }} }}
}}
"""
NGINX_PEER = """
daemon off; worker_processes 1; pid {dir}/peer.pid; error_log /dev/null crit; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s;
  client_body_temp_path {dir}/pb; proxy_temp_path {dir}/pp; fastcgi_temp_path {dir}/pf; uwsgi_temp_path {dir}/pu;
  scgi_temp_path {dir}/ps;
  upstream plain {{ server 127.0.0.1:{plain}; keepalive 64; keepalive_requests 100000000; }}
  upstream tls {{ server 127.0.0.1:{tls}; keepalive 64; keepalive_requests 100000000; }}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
  server {{ listen 127.0.0.1:{peer_plain}; location / {{ proxy_pass http://plain; }} }}
  server {{ listen 127.0.0.1:{peer_tls}; location / {{ proxy_pass https://tls; proxy_ssl_verify on;
           proxy_ssl_trusted_certificate {dir}/ca.pem; proxy_ssl_name localhost; proxy_ssl_server_name on; }} }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn 1024
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend plain
  bind 127.0.0.1:{hap_plain}
  default_backend plain
backend plain
  server o 127.0.0.1:{plain}
frontend tls
  bind 127.0.0.1:{hap_tls}
  default_backend tls
backend tls
  server o 127.0.0.1:{tls} ssl verify required ca-file {dir}/ca.pem sni str(localhost) verifyhost localhost
"""
POST_LUA = """
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer sk-bench-0000000000000000"
wrk.headers["Accept"] = "application/json"
wrk.headers["Accept-Encoding"] = "gzip, deflate"
wrk.headers["User-Agent"] = "bench/1"
wrk.headers["x-stainless-retry-count"] = "0"
wrk.body = '{body}'
local sent = 0
request = function()
  sent = sent + 1
  wrk.headers["traceparent"] = string.format("00-0af7651916cd43dd8448eb21%08x-b7ad6b7169203331-01", sent)
  return wrk.format()
end
"""


def free_ports(count: int) -> list[int]:
    """Ports below the range that outgoing connections take theirs from, or one of those may be in the way."""
    ports: list[int] = []
    port = 20_000 + os.getpid() % 8_000
    while len(ports) < count:
        port += 1
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports


def cpu_s(pid: int) -> float:
    """User and system time of a process and its living children (an nginx worker is a child)."""
    total = 0.0
    todo = [pid]
    while todo:
        one = todo.pop()
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) * TICK_S
            todo += [int(p) for p in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
    return total


def rss_mb(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def wait_port(what: str, port: int) -> None:
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
            return
        time.sleep(0.05)
    raise SystemExit(f"{what}: nothing listens on {port}")


def wrk(port: int, script: Path, connections: int, seconds: float) -> tuple[int, float]:
    """Requests done, and the median latency in µs."""
    out = subprocess.run(
        on_core(
            0,
            [
                "wrk",
                "-t1",
                f"-c{connections}",
                f"-d{seconds:.0f}s",
                "--latency",
                "-s",
                script,
                f"http://127.0.0.1:{port}/",
            ],
        ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if re.search(r"Non-2xx|Socket errors", out):
        raise SystemExit(f"port {port}: {out}")
    done = int(re.search(r"(\d+) requests in", out)[1])
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
    return done, float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def sse_first_byte(port: int, rounds: int) -> float:
    """Median time in ms from the request to the first byte of a streamed answer's body."""
    taken = []
    for _ in range(rounds):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = time.perf_counter()
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            seen = b""
            while b"data:" not in seen:
                seen += sock.recv(65536)
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


SSE_ORIGIN = r"""
import socket, sys, threading, time
def one(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buf = b""
    while b"\r\n\r\n{}" not in buf:
        got = c.recv(65536)
        if not got: return
        buf += got
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(5):
        c.sendall(b"a\r\ndata: {}\n\n\r\n"); time.sleep(0.02)
    c.sendall(b"0\r\n\r\n"); c.close()
s = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256)
while True:
    c, _ = s.accept(); threading.Thread(target=one, args=(c,), daemon=True).start()
"""


def on_core(core: int, argv: list) -> list:
    """Proxies have one core, client and origin another: none of them makes the next one's caches cold."""
    if shutil.which("taskset") and len(os.sched_getaffinity(0)) > 1:
        return ["taskset", "-c", str(sorted(os.sched_getaffinity(0))[core]), *argv]
    return argv


class Processes(contextlib.ExitStack):
    def start(self, argv: list[str], core: int, **extra) -> subprocess.Popen:
        process = subprocess.Popen(on_core(core, argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **extra)
        self.callback(self._stop, process)
        return process

    @staticmethod
    def _stop(process: subprocess.Popen) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def certificates(folder: Path) -> None:
    import trustme

    ca = trustme.CA()
    cert = ca.issue_cert("localhost", "127.0.0.1")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    cert.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))


def hold(port: int, count: int) -> list[socket.socket]:
    """Open `count` requests that are not answered."""
    held = []
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 500 + b'"}]}'
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(request)
        held.append(sock)
    return held


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--seconds", type=float, default=4)
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--ours-only", action="store_true")
    args.add_argument("--python", default=sys.executable, help="the interpreter that runs drillmaster's proxies")
    options = args.parse_args()
    missing = [name for name in ("wrk", "nginx") if not shutil.which(name)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)} (apt-get install wrk nginx-light haproxy)")
    names = ["plain", "tls", "peer_plain", "peer_tls", "hap_plain", "hap_tls", "our_plain", "our_tls", "sse", "our_sse"]
    port = dict(zip(names, free_ports(len(names)), strict=True))
    with tempfile.TemporaryDirectory() as name, Processes() as processes:
        folder = Path(name)
        certificates(folder)
        body = json.dumps(
            {
                "id": "chatcmpl-bench",
                "object": "chat.completion",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": "x" * 770}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
            }
        )
        question = json.dumps({"messages": [{"role": "user", "content": "y" * 545}], "model": "gpt-4o"})
        (folder / "post.lua").write_text(POST_LUA.replace("{body}", question))
        (folder / "origin.conf").write_text(NGINX_ORIGIN.format(dir=folder, body=body, **port))
        (folder / "sse.py").write_text(SSE_ORIGIN)
        processes.start(["nginx", "-c", str(folder / "origin.conf")], 0)
        processes.start([sys.executable, str(folder / "sse.py"), str(port["sse"])], 0)
        targets: dict[str, tuple[int, int | None]] = {"direct": (port["plain"], None)}
        if not options.ours_only:
            (folder / "peer.conf").write_text(NGINX_PEER.format(dir=folder, **port))
            peer = processes.start(["nginx", "-c", str(folder / "peer.conf")], 1)
            targets["nginx"] = (port["peer_plain"], peer.pid)
            targets["nginx, TLS upstream"] = (port["peer_tls"], peer.pid)
            if shutil.which("haproxy"):
                (folder / "haproxy.cfg").write_text(HAPROXY.format(dir=folder, **port))
                hap = processes.start(["haproxy", "-f", str(folder / "haproxy.cfg")], 1)
                targets["HAProxy"] = (port["hap_plain"], hap.pid)
                targets["HAProxy, TLS upstream"] = (port["hap_tls"], hap.pid)
        ours = {}
        for key, upstream in (
            ("our_plain", f"http://127.0.0.1:{port['plain']}"),
            ("our_tls", f"https://localhost:{port['tls']}"),
            ("our_sse", f"http://127.0.0.1:{port['sse']}"),
        ):
            settings = {
                "port": port[key],
                "upstream": upstream,
                "upstream_ca": str(folder / "ca.pem"),
                "events": str(folder / f"{key}.jsonl"),
                "control_path": str(folder / f"{key}.sock"),
            }
            ours[key] = processes.start([options.python, "-m", "drillmaster.proxy", json.dumps(settings)], 1)
        targets["drillmaster"] = (port["our_plain"], ours["our_plain"].pid)
        targets["drillmaster, TLS upstream"] = (port["our_tls"], ours["our_tls"].pid)
        for what, one in port.items():
            if options.ours_only and one in (port["peer_plain"], port["peer_tls"], port["hap_plain"], port["hap_tls"]):
                continue
            wait_port(what, one)

        cpu: dict[str, list[float]] = {}
        rate: dict[str, list[float]] = {}
        p50: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for label, (where, pid) in targets.items():
                before = cpu_s(pid) if pid else 0.0
                done, _ = wrk(where, folder / "post.lua", 32, options.seconds)
                if pid:
                    cpu.setdefault(label, []).append((cpu_s(pid) - before) / done * 1e6)
                rate.setdefault(label, []).append(done / options.seconds)
            for label, (where, _) in targets.items():
                p50.setdefault(label, []).append(wrk(where, folder / "post.lua", 1, max(1, options.seconds // 2))[1])
        direct = statistics.median(p50["direct"])
        print("| target | CPU µs/request, 32 connections | ratio | requests/s | p50 µs, 1 connection | added |")
        print("|---|---|---|---|---|---|")
        for label in targets:
            used = ratio = ""
            if label in cpu:
                used_us = statistics.median(cpu[label])
                used = f"{used_us:.1f}"
                beside = cpu.get("HAProxy, TLS upstream" if "TLS" in label else "HAProxy")
                ratio = f"{used_us / statistics.median(beside):.2f}" if beside else ""
            at_one = statistics.median(p50[label])
            done = f"{statistics.median(rate[label]):,.0f}"
            print(f"| {label} | {used} | {ratio} | {done} | {at_one:.0f} | {at_one - direct:+.0f} |")
        direct_ms, ours_ms = sse_first_byte(port["sse"], 50), sse_first_byte(port["our_sse"], 50)
        print(f"\nfirst event of a stream: {direct_ms:.2f} ms direct, {ours_ms:.2f} ms through drillmaster")

        from drillmaster.proxy.remote import ask

        pid = ours["our_sse"].pid
        before_mb = rss_mb(pid)
        control = str(folder / "our_sse.sock")
        ask(control, "POST", "/inject", {"window": "w", "fault": "hang", "params": {}, "ttl_s": 60})
        held = hold(port["our_sse"], 2_000)
        while ask(control, "GET", "/state")["counts"]["held"] < len(held):
            time.sleep(0.05)
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        after_mb = rss_mb(pid)
        print(f"2,000 hangs: RSS {before_mb:.1f} MB -> {after_mb:.1f} MB, {threads} threads")
        for sock in held:
            sock.close()


if __name__ == "__main__":
    main()
