"""The pytest plugin: a model provider with faults on the wire, for an agent's own tests.

1. Every pytest run of an environment with drillmaster loads this file: it imports nothing but pytest, and a run that uses no
   fixture and no marker of it is what it was.
2. Nothing is patched. The agent under test talks HTTP to an address on loopback; what it does with that is its own.
3. The process behind the fixtures starts with the first test that uses them, once a session; under xdist a worker is one.
4. A host other than loopback is said twice: in `drillmaster_upstream`, and by `--drillmaster-allow-host` on the command line.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from drillmaster.backstage.child import Child
    from drillmaster.backstage.provider import Provider

__all__: list[str] = []

DUMMY_KEY = "sk-standin-0000"

_MARKER = (
    "fault(mode, *, params={}, when={}, share=1.0, nth=[], skip=0, every=1, first=None, may_miss=False, **parameters): "
    "the requests that the test's body sends to `provider` meet this fault on the wire, as within "
    "`with provider.fault(...)`. Several are tried from top to bottom. The test fails where nobody met it. Example: "
    '@pytest.mark.fault("stall", after_events=3, when={"stream": True}). All faults: docs/reference/faults.md of drillmaster.'
)
_FAULTED = "fault"
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

_provider = pytest.StashKey["Provider"]()


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
    config.addinivalue_line("markers", _MARKER)
    _upstream(config)


def _upstream(config: pytest.Config) -> str | None:
    """The user's endpoint, without the `/v1` at its end that clients bring themselves. Raises UsageError."""
    url = config.getoption("drillmaster_upstream") or config.getini("drillmaster_upstream")
    if not url:
        return None
    import re
    from urllib.parse import urlsplit

    try:
        host = urlsplit(str(url)).hostname or ""
    except ValueError as error:
        raise pytest.UsageError(
            f"drillmaster_upstream: found {error}, wanted a URL; write it as http://127.0.0.1:8000"
        ) from None
    loopback = host in ("localhost", "::1") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None
    if not loopback and host != str(config.getoption("drillmaster_allow_host")).lower():
        raise pytest.UsageError(
            f"drillmaster_upstream: found {host or 'no host'}, which is not loopback, wanted a host that was said twice; "
            f"add --drillmaster-allow-host {host or 'HOST'}, or leave it out to have the stand-in provider"
        )
    return str(url).rstrip("/").removesuffix("/v1")


@pytest.fixture(scope="session")
def _drillmaster(request: pytest.FixtureRequest) -> "Iterator[Child]":
    from drillmaster.backstage.child import Child

    config = request.config
    child = Child(upstream=_upstream(config), dialect=str(config.getini("drillmaster_dialect")))
    try:
        yield child
    finally:
        child.close()


@pytest.fixture(scope="session")
def provider_url(_drillmaster: "Child") -> str:
    """The address of `provider`, http://127.0.0.1:PORT, for what is started once a session: an agent's server, say.

    OpenAI's SDK wants it with `/v1` behind it. Faults are asked for with `provider`, test by test.
    """
    return _drillmaster.url


@pytest.fixture
def provider(request: pytest.FixtureRequest, _drillmaster: "Child") -> "Iterator[Provider]":
    """A model provider on loopback that speaks every API, fails on order, and tells what the wire saw. No key, no cost.

    client = OpenAI(base_url=provider.openai_url, api_key="none")   also anthropic_url, gemini_url, url_for("openrouter")
    with provider.fault("stall", after_events=3): ...               a fault; also @pytest.mark.fault("stall", after_events=3)
    with provider.rules([{"mode": "503", "when": {"model": "big-*"}}, ...]): ...   several at once, each with whom it meets
    provider.answers("Paris.", model="small-*")                     what models say; tool calls and usage too
    provider.attempts                                               what the wire saw: status, end, terminal, retry_count, ...
    provider.assert_met(); provider.assert_attempts(3)

    A fault that nobody met fails the test; may_miss=True allows it.
    """
    from drillmaster.backstage.provider import Provider

    one = Provider(_drillmaster, prefixed=_upstream(request.config) is None)
    request.node.stash[_provider] = one
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def provider_env(
    request: pytest.FixtureRequest, provider: "Provider", monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
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
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A test that asks for a fault and takes no fixture, since its agent reads the environment: the fault brings it.
    names = getattr(item, "fixturenames", None)
    if names is not None and "provider" not in names and item.get_closest_marker(_FAULTED) is not None:
        names.append("provider")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    one = item.stash.get(_provider, None)
    # From the outside in, and from top to bottom: decorators are applied from below.
    marks = list(item.iter_markers(_FAULTED))[::-1]
    if one is None:
        if marks:
            pytest.fail(
                f"{item.nodeid}: @pytest.mark.fault asks for a fault, and the fixture `provider` of this test is not "
                "drillmaster's; give your own another name",
                pytrace=False,
            )
        return (yield)
    complaint = one.start(marks, item.name)
    if complaint:
        pytest.fail(complaint, pytrace=False)
    failed = True
    try:
        result = yield
        failed = False
    finally:
        complaint = one.settle(failed=failed)
    if complaint:
        pytest.fail(complaint, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, pytest.TestReport]:
    report: pytest.TestReport = yield
    one = item.stash.get(_provider, None)
    if one is not None:
        if report.failed and not one.told:
            one.told = True
            report.sections.append(("what the wire saw (drillmaster)", one.wire()))
        if report.when == "teardown":
            del item.stash[_provider]
    return report
