"""An interview of nginx itself, in the clear and over TLS: what is on record is what its own log says."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.e2e.drills import free_ports, wait_until
from tests.e2e.interviewlab import Lab

pytestmark = [pytest.mark.e2e, pytest.mark.needs("nginx")]

CONF = """
daemon off; master_process off; error_log {folder}/error.log; pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
  log_format truth '$status $request_time';
  access_log {folder}/access.log truth;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 7;
  limit_req_zone $binary_remote_addr zone=few:1m rate=50r/s;
  server {{
    listen 127.0.0.1:{clear}; listen 127.0.0.1:{tls} ssl;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/cert.pem;
    location /ok {{ default_type application/json; return 200 '{{"text": "fine"}}'; }}
    location /few {{
      limit_req zone=few; limit_req_status 429; default_type application/json; proxy_pass http://127.0.0.1:{clear}/ok;
    }}
    location /login {{ default_type text/html; return 200 '<html>log in</html>'; }}
  }}
}}
"""


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[tuple[int, int, Path]]:
    folder = tmp_path / "nginx"
    folder.mkdir()
    clear, tls = free_ports(2)
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    (folder / "cert.pem").write_bytes(cert.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, clear=clear, tls=tls))
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    with subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as server:
        try:
            wait_until((folder / "pid").exists, what="nginx")
            yield clear, tls, folder
        finally:
            server.terminate()


def logged(folder: Path, status: int) -> int:
    return sum(line.startswith(f"{status} ") for line in (folder / "access.log").read_text().splitlines())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("over", ["clear", "tls"])
def test_every_call_is_on_record_though_connections_are_closed_again_and_again(
    lab: Lab, nginx: tuple[int, int, Path], over: str
) -> None:
    clear, tls, folder = nginx
    url = f"http://127.0.0.1:{clear}/ok" if over == "clear" else f"https://127.0.0.1:{tls}/ok"
    target = {"url": url, **({} if over == "clear" else {"ca_file": "nginx/ca.pem"})}
    plan = {
        "kind": "plan",
        "drill": "interview",
        "job": "j",
        "target": target,
        "levels": [1, 8],
        "warm": 80,
        "idle_s": 0,
    }
    (lab.folder / "plan.json").write_text(json.dumps(plan))
    done = lab.run("plan.json", "--out", "rows.json")
    assert done.returncode == 0, done.stderr
    rows = lab.rows("rows.json")
    assert {name: rows[name]["n"] for name in ("cold", "warm_c1", "warm_c8")} == {
        "cold": 1,
        "warm_c1": 80,
        "warm_c8": 80,
    }
    assert all(row["error_rate"] == 0 for row in rows.values())
    assert logged(folder, 200) >= 161


def test_a_limit_of_nginx_is_a_429_by_its_name(lab: Lab, nginx: tuple[int, int, Path]) -> None:
    clear, _, folder = nginx
    done = lab.run(f"http://127.0.0.1:{clear}/few", "--levels", "4", "--warm", "60", "--idle", "0")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c4")
    assert level is not None
    assert level.failed.get("http_429", 0) > 30
    assert logged(folder, 429) >= level.failed["http_429"]


def test_a_login_page_is_no_answer(lab: Lab, nginx: tuple[int, int, Path]) -> None:
    clear, _, _ = nginx
    done = lab.run(f"http://127.0.0.1:{clear}/login", "--levels", "1", "--warm", "5", "--idle", "0")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c1")
    assert level is not None and level.failures == 5
