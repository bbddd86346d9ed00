"""`drillmaster standin`: a model provider and an agent to drill, where there is none at hand."""

import os

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.group(cls=Verb)
def command() -> None:
    """Start a stand-in: a model provider, or an agent that uses one.

    \b
    Examples:
      drillmaster standin provider --port 9000
      drillmaster proxy --upstream http://127.0.0.1:9000
      MODEL_BASE_URL=http://127.0.0.1:8081 drillmaster standin agent --port 8000
      curl 'http://127.0.0.1:8000/answer?q=hello'
    """


_host = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
_allow = click.option("--allow-host", metavar="ADDR", help="Say an address that is not loopback a second time.")
_parent = click.option("--die-with-parent", is_flag=True, help="End when the process that started this one ends.")


@command.command()
@_host
@_allow
@click.option("--port", default=9000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--latency-ms", default=60.0, show_default=True, type=click.FloatRange(0, 60_000), help="Median.")
@click.option("--token-ms", default=2.0, show_default=True, type=click.FloatRange(0, 10_000), help="Gap in streams.")
@click.option("--seed", default=1, show_default=True, help="Seeds the latencies.")
@click.option(
    "--dialect",
    metavar="NAME",
    help="Whose API it is, where paths are shared: mistral, ollama, groq, ...",
    shell_complete=completions.dialects,
)
@_parent
def provider(
    host: str,
    allow_host: str | None,
    port: int,
    latency_ms: float,
    token_ms: float,
    seed: int,
    dialect: str | None,
    die_with_parent: bool,
) -> None:
    """A model provider that speaks every dialect, streaming and not, and an MCP server at /mcp.

    Any model name is served; /v1/models lists standin-large and standin-small. The same prompt gets the same answer. A
    tool is called when the prompt names it. No key is asked for. Prints its address and serves until SIGTERM.

    The path says which API is asked. Where several have the same, --dialect does, or the path's first part:
    http://127.0.0.1:9000/mistral/v1/chat/completions.

    \b
    Examples:
      drillmaster standin provider --port 9000 --latency-ms 200
      curl http://127.0.0.1:9000/v1/models
    """
    from drillmaster import dialects
    from drillmaster.standins import check_host
    from drillmaster.standins.provider import Latency
    from drillmaster.standins.provider_http import serve

    check_host(host, allow_host)
    if dialect is not None:
        dialects.load(dialect)
    latency = Latency(median_ms=latency_ms, token_ms=token_ms, seed=seed)
    serve(host, port, latency, dialect=dialect, die_with_parent=die_with_parent)


@command.command()
@_host
@_allow
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--timeout-s", default=2.0, show_default=True, type=click.FloatRange(0.05, 600), help="Per model call.")
@click.option("--stream", is_flag=True, help="Ask the models for streams.")
@click.option("--list-bugs", is_flag=True, help="List what STANDIN_BUG can be, and what is wrong with each agent.")
@_parent
def agent(
    host: str,
    allow_host: str | None,
    port: int,
    timeout_s: float,
    stream: bool,
    list_bugs: bool,
    die_with_parent: bool,
) -> None:
    """An agent: GET or POST /answer?q=..., a primary model, a fallback, and a timeline.

    MODEL_BASE_URL (or OPENAI_BASE_URL) is the primary; FALLBACK_BASE_URL is the fallback, without it a stored text is;
    DRILL_LOG is the timeline. STANDIN_BUG switches one mistake on. It is an environment variable and no option, since a
    drill records the command line of the worker it starts.

    \b
    Examples:
      MODEL_BASE_URL=http://127.0.0.1:8081 DRILL_LOG=$PWD/drill.jsonl drillmaster standin agent
      drillmaster standin agent --list-bugs
      STANDIN_BUG=wrong-except MODEL_BASE_URL=http://127.0.0.1:8081 drillmaster standin agent
    """
    from drillmaster.standins import check_host
    from drillmaster.standins.agent import BUGS
    from drillmaster.standins.agent_http import serve

    if list_bugs:
        for name, kind in BUGS.items():
            click.echo(f"{name:18} {(kind.__doc__ or '').strip()}")
        return
    check_host(host, allow_host)
    serve(
        host,
        port,
        environ=os.environ,
        timeout_s=timeout_s,
        stream=stream,
        die_with_parent=die_with_parent,
    )


@command.command()
@_host
@_allow
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1, 8), help="Processes that share the port."
)
@click.option(
    "--model-ms",
    default=1300.0,
    show_default=True,
    type=click.FloatRange(0, 60_000),
    help="Of both model calls together.",
)
@click.option(
    "--tool-limit-ms", default=300.0, show_default=True, type=click.FloatRange(1, 60_000), help="Of one attempt."
)
@click.option("--list-bugs", is_flag=True, help="List what STANDIN_BUG can be, and what is wrong with each agent.")
@_parent
def concierge(
    host: str,
    allow_host: str | None,
    port: int,
    workers: int,
    model_ms: float,
    tool_limit_ms: float,
    list_bugs: bool,
    die_with_parent: bool,
) -> None:
    """An agent that acts: POST /agent/mission, its WebSocket twin, and a refund tool behind chaos flags.

    A mission is {user_id, history: [{role, content}], metadata: {force_refund_limit}}. The model is built in, so that 200
    missions at once go on two cores. CHAOS_URL is the flag server, DRILL_LOG the timeline, DRILL_TRANSCRIPTS the folder of
    transcripts; an alert of failing tools goes to ALERT_URL with ALERT_TOKEN, as Alertmanager words it. STANDIN_BUG
    switches one mistake on.

    \b
    Examples:
      drillmaster standin concierge --port 8090
      drillmaster standin concierge --list-bugs
      STANDIN_BUG=no-retry drillmaster standin concierge
    """
    from drillmaster.standins import check_host
    from drillmaster.standins.concierge import CONCIERGE_BUGS, Pace
    from drillmaster.standins.concierge_http import serve_concierge

    if list_bugs:
        for name, kind in CONCIERGE_BUGS.items():
            click.echo(f"{name:18} {(kind.__doc__ or '').strip()}")
        return
    check_host(host, allow_host)
    pace = Pace(
        first_model_s=model_ms * 0.7 / 1000, second_model_s=model_ms * 0.3 / 1000, tool_limit_s=tool_limit_ms / 1000
    )
    serve_concierge(host, port, environ=os.environ, pace=pace, workers=workers, die_with_parent=die_with_parent)
