"""The real endpoint and the way to it, where something is wrong with them: each is refused with its own remedy."""

import asyncio
import datetime
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.errors import Problem, Refused
from drillmaster.plan import Plan
from drillmaster.run.upstream import reach_upstream
from tests.e2e.drills import Drill, connects, drilling, wait_until
from tests.e2e.wirelab import Origin, Reader, plain_answer
from tests.test_sanity import plan

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


class Authorities:
    """One that is known, and one that is not."""

    def __init__(self, folder: Path) -> None:
        self.known, self.other = trustme.CA(), trustme.CA()
        self.known_file, self.other_file = folder / "known.pem", folder / "other.pem"
        self.known.cert_pem.write_to_path(str(self.known_file))
        self.other.cert_pem.write_to_path(str(self.other_file))


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("authorities"))


def serving(certificate: trustme.LeafCert, **more: Any) -> Origin:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    for name, value in more.items():
        setattr(context, name, value)
    return Origin(plain_answer, tls=context)


def looked_at(url: str, ca: Path | None = None, **environ: str) -> str:
    """Look at an endpoint; how it was refused, empty where it was not."""
    this: Plan = plan(proxy={"upstream": url})
    try:
        asyncio.run(reach_upstream(this, ca=ca, environ=environ))
    except Refused as refused:
        return f"found {refused.found}; {refused.remedy}"
    return ""


def test_an_endpoint_that_is_who_it_says_is_reached(authorities: Authorities) -> None:
    origin = serving(authorities.known.issue_cert("localhost"))
    assert looked_at(f"https://localhost:{origin.port}", authorities.known_file) == ""


def test_a_certificate_of_another_name_is_told_with_the_names_it_has(authorities: Authorities) -> None:
    origin = serving(authorities.known.issue_cert("*.models.example", "api.models.example", "127.0.0.2"))
    said = looked_at(f"https://localhost:{origin.port}/v1", authorities.known_file)
    assert "for *.models.example, api.models.example, 127.0.0.2, and not for localhost" in said
    assert f"write https://api.models.example:{origin.port}/v1" in said
    said = looked_at(f"https://127.0.0.1:{origin.port}", authorities.known_file)
    assert "and not for 127.0.0.1" in said


def test_a_certificate_of_another_name_and_an_unknown_authority_is_not_believed_in_its_names(
    authorities: Authorities,
) -> None:
    origin = serving(authorities.other.issue_cert("evil.example"))
    said = looked_at(f"https://localhost:{origin.port}", authorities.known_file)
    assert "evil.example" not in said and "vouches for" in said


def test_an_authority_that_is_not_known_is_to_be_named(authorities: Authorities) -> None:
    origin = serving(authorities.known.issue_cert("localhost"))
    url = f"https://localhost:{origin.port}"
    said = looked_at(url)
    assert "an authority that is not known here" in said and "/proxy/upstream_ca" in said
    said = looked_at(url, authorities.other_file)
    assert f"neither the system nor {authorities.other_file} vouches for" in said
    assert "of the authority that signed it" in said


def test_a_certificate_that_signed_itself_is_its_own_authority(tmp_path: Path) -> None:
    itself = trustme.CA()
    file = tmp_path / "itself.pem"
    itself.cert_pem.write_to_path(str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    itself.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    context.load_cert_chain(file, tmp_path / "key.pem")
    origin = Origin(plain_answer, tls=context)
    said = looked_at(f"https://localhost:{origin.port}")
    assert "signed itself" in said and "/proxy/upstream_ca" in said


@pytest.mark.parametrize("days", [-1, 400])
def test_a_certificate_whose_time_is_not_now_points_at_the_clock(authorities: Authorities, days: int) -> None:
    now = datetime.datetime.now(datetime.UTC)
    span = {"not_after": now + datetime.timedelta(days=days)} if days < 0 else {}
    if days > 0:
        span = {"not_before": now + datetime.timedelta(days=1), "not_after": now + datetime.timedelta(days=days)}
    origin = serving(authorities.known.issue_cert("localhost", **span))
    said = looked_at(f"https://localhost:{origin.port}", authorities.known_file)
    assert "whose time is not now" in said and "date -u" in said


def test_https_for_an_endpoint_without_tls_is_told() -> None:
    origin = Origin(lambda reader, sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    said = looked_at(f"https://127.0.0.1:{origin.port}/v1")
    assert "no TLS" in said and f"write http://127.0.0.1:{origin.port}/v1" in said


def test_tls_that_is_too_old_is_no_plain_http(authorities: Authorities) -> None:
    old = {"maximum_version": ssl.TLSVersion.TLSv1_1, "minimum_version": ssl.TLSVersion.TLSv1_1}
    with pytest.warns(DeprecationWarning):
        origin = serving(authorities.known.issue_cert("localhost"), **old)
    said = looked_at(f"https://localhost:{origin.port}", authorities.known_file)
    assert "handshake that failed" in said and "openssl s_client" in said and "http://" not in said


def test_a_machine_that_gets_out_through_another_proxy_alone_is_told_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        url = f"https://127.0.0.1:{held.getsockname()[1]}"
    said = looked_at(url, HTTPS_PROXY="http://u:" + "secret@gate.example:3128")
    assert "HTTPS_PROXY is set here" in said and "gateway" in said and "secret" not in said
    assert "curl -v" in looked_at(url) and "refused" in looked_at(url)


def test_an_authority_s_file_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Problem, match="named pipe"):
        asyncio.run(reach_upstream(plan(proxy={"upstream": "https://127.0.0.1:9"}), ca=tmp_path / "fifo"))


@pytest.fixture
def drill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drill]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield from drilling(tmp_path)


def refused(drill: Drill, upstream: str) -> str:
    drill.plan(proxy={"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": upstream})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and drill.own_processes() == [], done.stderr
    return done.stderr


def answering(status: bytes, *fields: bytes) -> Origin:
    def answer(reader: Reader, sock: socket.socket) -> None:
        if reader.request() is not None:
            sock.sendall(b"\r\n".join([b"HTTP/1.1 " + status, b"Content-Length: 0", *fields, b"", b""]))

    return Origin(answer)


def test_http_for_an_endpoint_with_tls_is_told_before_an_agent_starts(drill: Drill, authorities: Authorities) -> None:
    origin = serving(authorities.known.issue_cert("localhost"))
    said = refused(drill, f"http://localhost:{origin.port}/v1")
    assert "speaks TLS" in said and f"write https://localhost:{origin.port}/v1 in /proxy/upstream" in said


def test_an_endpoint_that_sends_everybody_on_to_https_would_be_gone_past(drill: Drill) -> None:
    origin = answering(b"301 Moved Permanently", b"Location: https://127.0.0.1/v1/x")
    said = refused(drill, f"http://127.0.0.1:{origin.port}/v1")
    assert "goes past the proxy" in said and "write https://127.0.0.1/v1 in /proxy/upstream" in said


def test_an_endpoint_that_does_not_like_our_question_is_an_endpoint(drill: Drill) -> None:
    origin = answering(b"400 Bad Request")
    assert "pass      proxy_passes  the real endpoint said status 400" in refused(
        drill, f"http://127.0.0.1:{origin.port}"
    )


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_an_agent_that_the_drill_starts_is_kept_off_other_proxies(drill: Drill, variable: str) -> None:
    env = {variable: "http://127.0.0.1:9", "NO_PROXY": "corp"}
    drill.plan(worker={"cmd": drill.agent(), "ready_s": 15, "env": env})
    done = drill.run("--rehearsal")
    assert done.returncode == 0 and "is set for it" not in done.stderr, done.stderr


@pytest.mark.parametrize(("kind", "place"), [("healthy", "agent_uses_proxy"), ("none", "target_answers")])
def test_an_agent_of_ones_own_that_is_led_away_is_told_which_variable_does_it(
    drill: Drill, kind: str, place: str
) -> None:
    led = {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "corp"}
    drill.env |= led
    env = {**drill.env, "MODEL_BASE_URL": f"http://127.0.0.1:{drill.proxy_port}"}
    drill.processes.append(
        subprocess.Popen(drill.agent(kind), cwd=drill.folder, env=env, stdout=subprocess.DEVNULL, text=True)
    )
    wait_until(lambda: connects(drill.agent_port), what="the agent")
    drill.plan(kind=None)
    done = drill.run("--rehearsal")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and place in last, done.stderr
    assert "HTTP_PROXY is set here" in last and "export NO_PROXY=corp,127.0.0.1" in last
    assert "warning: the agent: HTTP_PROXY" in done.stderr
