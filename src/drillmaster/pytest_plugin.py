"""The pytest plugin: a model provider with faults on the wire, for an agent's own tests.

1. Every pytest run of an environment with drillmaster loads this file: it imports nothing but pytest, and a run that uses no
   fixture and no marker of it is what it was.
2. Nothing is patched. The agent under test talks HTTP to an address on loopback; what it does with that is its own.
3. The process behind the fixtures starts with the first test that uses them, once a session; under xdist a worker is one.
4. A pytest too old for these hooks is left as it was; the fixtures say so where they are asked for.
5. A host other than loopback is said twice: in `drillmaster_upstream`, and by `--drillmaster-allow-host` on the command line.
"""

# Names that an old pytest lacks stand in annotations alone: it has to get past this file.
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from drillmaster.backstage.child import Child
    from drillmaster.backstage.provider import Provider

__all__: list[str] = []

DUMMY_KEY = "sk-standin-0000"

_URLS = {
    "ANTHROPIC_BASE_URL": "anthropic",
    "AZURE_OPENAI_ENDPOINT": "azure_openai",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "GROQ_BASE_URL": "groq",
    "MODEL_BASE_URL": "plain",
    "OLLAMA_HOST": "ollama",
    "OPENAI_API_BASE": "openai_chat",
    "OPENAI_BASE_URL": "openai_chat",
    "OPENROUTER_BASE_URL": "openrouter",
}
_KEYS = (
    "ANTHROPIC_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
)

# What leads an SDK to another address than that of its base URL.
_ELSEWHERE = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")

_AROUND = "drillmaster-around"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drillmaster", "faults on the wire of a model provider (drillmaster)")
    group.addoption(
        "--drillmaster-upstream",
        metavar="URL",
        help="An endpoint behind `provider` in place of the stand-in: http://127.0.0.1:8000. Also drillmaster_upstream= in ini.",
    )
    group.addoption(
        "--drillmaster-allow-host",
        metavar="HOST",
        help="Say an upstream's host that is not loopback a second time. It may cost money.",
    )
    parser.addini(
        "drillmaster_upstream", "An endpoint behind `provider` in place of the stand-in provider.", default=""
    )
    parser.addini(
        "drillmaster_dialect",
        "The API that it speaks, where paths are shared: mistral, ollama. Default: auto.",
        default="auto",
    )


def pytest_configure(config: pytest.Config) -> None:
    _upstream(config)
    try:
        from drillmaster.backstage import around
    except (AttributeError, TypeError):  # pytest before 7, pluggy before 1.2
        return
    around.register(config)
    config.pluginmanager.register(around, _AROUND)


def _upstream(config: pytest.Config) -> str | None:
    """The user's endpoint, without the `/v1` at its end that clients bring themselves. Raises UsageError."""
    url = config.getoption("drillmaster_upstream") or config.getini("drillmaster_upstream")
    if not url:
        return None
    import contextlib
    import ipaddress
    from urllib.parse import urlsplit

    loopback = False
    try:
        host = urlsplit(str(url)).hostname or ""
    except ValueError as error:
        raise pytest.UsageError(
            f"drillmaster_upstream: found {error}, wanted a URL; write it as http://127.0.0.1:8000"
        ) from None
    with contextlib.suppress(ValueError):  # a name is no address
        loopback = ipaddress.ip_address(host).is_loopback
    loopback = loopback or host == "localhost"
    if not loopback and (not host or host != (config.getoption("drillmaster_allow_host") or "").lower()):
        raise pytest.UsageError(
            f"drillmaster_upstream: found {host or 'no host'}, which is not loopback, wanted a host that was said twice; "
            f"add --drillmaster-allow-host {host or 'HOST'}, or leave it out to have the stand-in provider"
        )
    return str(url).rstrip("/").removesuffix("/v1")


@pytest.fixture(scope="session")
def _drillmaster(request: pytest.FixtureRequest) -> Iterator[Child]:
    from drillmaster.backstage.child import Child

    config = request.config
    child = Child(upstream=_upstream(config), dialect=str(config.getini("drillmaster_dialect")))
    try:
        yield child
    finally:
        child.close()


@pytest.fixture(scope="session")
def provider_url(_drillmaster: Child) -> str:
    """The address of `provider`, http://127.0.0.1:PORT, for what is started once a session: an agent's server, say.

    OpenAI's SDK wants it with `/v1` behind it. Faults are asked for with `provider`, test by test.
    """
    return _drillmaster.url


@pytest.fixture
def provider(request: pytest.FixtureRequest, _drillmaster: Child) -> Iterator[Provider]:
    """A model provider on loopback that speaks every API, fails on order, and tells what the wire saw. No key, no cost.

    client = OpenAI(base_url=provider.openai_url, api_key="none")   also anthropic_url, gemini_url, url_for("openrouter")
    with provider.fault("stall", after_events=3): ...               a fault; also @pytest.mark.fault("stall", after_events=3)
    with provider.rules([{"mode": "503", "when": {"model": "big-*"}}, ...]): ...   several at once, each with whom it meets
    provider.answers("Paris.", model="small-*")                     what models say; tool calls and usage too
    provider.attempts                                               what the wire saw: status, end, terminal, retry_count, ...
    provider.assert_met(); provider.assert_attempts(3)

    A fault that nobody met fails the test; may_miss=True allows it.
    """
    around = request.config.pluginmanager.get_plugin(_AROUND)
    if around is None:
        pytest.fail(
            "drillmaster's fixtures want pytest 7.4 and pluggy 1.2, or newer; pip install -U pytest", pytrace=False
        )
    from drillmaster.backstage.provider import Provider

    one = Provider(_drillmaster, prefixed=_upstream(request.config) is None)
    around.hold(request.node, one)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def provider_env(request: pytest.FixtureRequest, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lead SDKs to `provider` by environment: OPENAI_BASE_URL, ANTHROPIC_BASE_URL, MODEL_BASE_URL and more, with dummy keys.

    NO_PROXY is given loopback, so that no proxy of yours stands between. Gives the variables, for a process of your own. With
    an upstream of yours, keys that are set stay as they are.
    """
    import os

    own = _upstream(request.config) is not None
    variables = {name: provider.url_for(dialect) for name, dialect in _URLS.items()}
    variables |= {name: DUMMY_KEY for name in _KEYS if not (own and os.environ.get(name))}
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "")
        variables[name] = (
            known if known == "*" else ",".join(part for part in (known, "127.0.0.1", "localhost") if part)
        )
    if os.environ.get("GOOGLE_API_KEY") and not own:
        variables["GOOGLE_API_KEY"] = DUMMY_KEY  # that SDK takes it before the other
    for name in _ELSEWHERE:
        if os.environ.get(name) and not own:
            variables[name] = "false"
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables
