"""What the webhook-path gate looks at: spans, without what they carry, and what a model's span looks like.

1. A span is a model's by its attributes first: names that begin as the conventions for generative AI have them (`gen_ai.`), or as
   the older ones of instrumentations do. So is one with such an event in it.
2. By its name: an operation of the conventions in front (`chat gpt-4o`), or a word that models are called by (`llm.complete`).
3. By whom it calls: any span but a server's that names a host of a model's API, and a client's to a path of one.
4. A policy can say that a name only sounds so. That takes rule 2 off, and never 1 and 3.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Literal

import msgspec

from drillmaster.verdict import Cite

__all__ = ["MODEL_PREFIXES", "Forest", "Kind", "Span", "Spans", "model_of"]

Kind = Literal["unspecified", "internal", "server", "client", "producer", "consumer"]
MODEL_PREFIXES = (
    "gen_ai.", "llm.", "openinference.", "traceloop.", "ai.", "langchain.", "langfuse.", "langsmith.", "aws.bedrock.",
)  # fmt: skip  # words
"""How names of attributes and events begin that only models' spans have."""
_OPERATIONS = re.compile(
    r"(?:chat|text_completion|generate_content|embeddings|create_agent|invoke_agent|invoke_workflow|execute_tool)(?:\s|$)",
    re.IGNORECASE,
)
_WORDS = frozenset(
    {
        "llm", "llms", "gpt", "chatgpt", "openai", "anthropic", "claude", "gemini", "bedrock", "mistral", "ollama", "litellm",
        "vllm", "groq", "completion", "completions", "chatcompletion", "chatcompletions", "prompt", "inference", "embedding",
        "embeddings", "cohere", "deepseek", "generativelanguage", "generatecontent", "streamgeneratecontent", "modelinfer",
        "modelpredict", "modelgenerate", "modelinvoke", "modelcall", "askmodel", "callmodel", "invokemodel", "querymodel",
        "langchain", "langgraph", "llamaindex", "llama", "qwen", "mixtral", "codestral", "grok", "sglang", "huggingface",
        "vertexai", "perplexity", "openrouter", "rerank", "reranker", "haiku", "sonnet", "agentrun", "runagent", "invokeagent",
    }
)  # fmt: skip  # words
_HOSTS = re.compile(
    r"(?:^|\.)(?:openai\.com|openai\.azure\.com|anthropic\.com|generativelanguage\.googleapis\.com"
    r"|(?:[a-z0-9-]+-)?aiplatform\.googleapis\.com"
    r"|deepinfra\.com|sambanova\.ai|z\.ai|novita\.ai|hyperbolic\.xyz|baseten\.co|friendli\.ai|nebius\.(?:ai|com)|upstage\.ai"
    r"|githubcopilot\.com|ollama\.com|siliconflow\.(?:cn|com)|volces\.com|bigmodel\.cn|minimax\.(?:io|chat)|lepton\.ai"
    r"|mistral\.ai|groq\.com|cohere\.(?:ai|com)|together\.(?:ai|xyz)|openrouter\.ai|deepseek\.com|x\.ai|perplexity\.ai"
    r"|huggingface\.(?:co|cloud)|fireworks\.ai|cerebras\.ai|replicate\.com|voyageai\.com|ai21\.com|models\.github\.ai"
    r"|(?:services|inference)\.ai\.azure\.com|cognitiveservices\.azure\.com|dashscope(?:-intl)?\.aliyuncs\.com|moonshot\.(?:ai|cn)"
    r"|integrate\.api\.nvidia\.com|bedrock(?:-agent)?(?:-runtime)?(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com)$"
)
_PATHS = re.compile(
    r"/(?:chat/completions|completions|responses|v1/messages(?:/count_tokens|/batches)?|v1/complete|embeddings|rerank"
    r"|images/generations|audio/(?:transcriptions|translations|speech)|v1/moderations|generate_stream"
    r"|endpoints/[^/]+/invocations(?:-response-stream)?|v2/models/[^/]+/(?:infer|generate(?:_stream)?)"
    r"|api/(?:chat|generate|embed)|model/[^/]+/(?:invoke|converse)(?:-(?:with-response-)?stream)?)/?$"
    r"|:(?:generateContent|streamGenerateContent|predict|embedContent|countTokens)$"
)


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One span: where it hangs, when it was, and of its attributes what a gate asks for. Bodies have no field to arrive in."""

    trace: str
    id: str
    parent: str = ""
    """"": it has none."""
    name: str
    kind: Kind = "internal"
    start_ns: int
    end_ns: int
    """Wall time; 0: it never ended."""
    process: str = ""
    """Which process wrote it, by its resource: service and instance."""
    clock: str = ""
    """Whose clock its times are of: the host where it says one, else the process."""
    signals: tuple[str, ...] = ()
    """Names of attributes and events that only models' spans have."""
    method: str = ""
    path: str = ""
    """Without a query."""
    route: str = ""
    """What the path was matched by, where a framework says so: `/webhooks/{provider}`."""
    host: str = ""
    other_hosts: tuple[str, ...] = ()
    """Further ones that it names as called: a URL's, where a proxy stands between."""
    status: int | None = None
    answered: bool = False
    """It is the sending of a reply's head or of its body (`asgi.event.type` `http.response.start`, `http.response.body`)."""
    stores: bool = False
    """It wrote to a database: an INSERT, an upsert, or an operation that says so, and its status is no error."""
    links: tuple[tuple[str, str], ...] = ()
    dropped: int = 0
    """Attributes, events and links that were thrown away."""
    cite: Cite


class Spans(msgspec.Struct, frozen=True, kw_only=True):
    """All spans of the files. `twice`: two that are not the same under one id."""

    spans: tuple[Span, ...]
    now_ns: int
    twice: tuple[Cite, ...] = ()


def model_of(span: Span, *, hosts: Iterable[str] = (), other_names: Iterable[str] = ()) -> str:
    """Say by what a span is a model's; "" where it is none. `hosts` are more hosts of models, whole or as a domain."""
    if span.signals:
        return f"attribute {span.signals[0]}"
    if span.kind != "server":  # its own host and path are those of a server
        more = [one.lower().rstrip(".") for one in hosts]
        for named in (span.host, *span.other_hosts):
            host = named.lower().rstrip(".")
            if host and (_HOSTS.search(host) or any(host == one or host.endswith(f".{one}") for one in more)):
                return f"host {host}"
    if span.kind == "client" and _PATHS.search(span.path):
        return f"path {span.path}"
    if span.name in other_names:
        return ""
    name = span.name if span.name.isascii() else unicodedata.normalize("NFKC", span.name)
    if _OPERATIONS.match(name):
        return f"name {name}"
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower())
    bare = {word.rstrip("0123456789") for word in words}  # gpt4, llama3
    pairs = {one + other for one, other in pairwise(words)}
    return f"name {name}" if not _WORDS.isdisjoint({*words, *bare, *pairs}) else ""


class Forest:
    """Spans by what they hang below and by what links to them."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.known: dict[tuple[str, str], Span] = {}
        self._below: dict[tuple[str, str], list[Span]] = {}
        self._linking: dict[tuple[str, str], list[Span]] = {}
        self._traces: dict[str, list[Span]] = {}
        for span in spans:
            self.known[span.trace, span.id] = span
            self._traces.setdefault(span.trace, []).append(span)
            if span.parent:
                self._below.setdefault((span.trace, span.parent), []).append(span)
            for link in span.links:
                self._linking.setdefault(link, []).append(span)

    def children(self, span: Span) -> list[Span]:
        return self._below.get((span.trace, span.id), [])

    def tree(self, span: Span) -> list[Span]:
        """List a span and all that hangs below it."""
        return self._grown([span], lambda one: self.children(one))

    def came_of(self, accepts: Iterable[Span]) -> Iterator[tuple[Span, ...]]:
        """List what came of each accept span, without itself.

        That is what hangs below it; what of its trace hangs below no accept, and so is no other's; and what hangs below a span
        that links to one of these. A link to a span that no file has may be to one of them too.
        """
        all_of_them = list(accepts)
        trees = [self.tree(accept) for accept in all_of_them]
        owned = {(one.trace, one.id) for tree in trees for one in tree}
        shared: dict[str, dict[tuple[str, str], Span]] = {}
        unknown: dict[str, list[Span]] = {}
        for (trace, id_), those in self._linking.items():
            if (trace, id_) not in self.known:
                unknown.setdefault(trace, []).extend(those)
        for accept, tree in zip(all_of_them, trees, strict=True):
            trace = accept.trace
            if trace not in shared:  # once a trace, however many accepts it has
                free = [one for one in self._traces.get(trace, ()) if (one.trace, one.id) not in owned]
                shared[trace] = self._with_linked(free, unknown.get(trace, ()))
            found = shared[trace] | self._with_linked(tree, ())
            found.pop((trace, accept.id), None)
            yield tuple(sorted(found.values(), key=lambda one: (one.start_ns, one.id)))

    def _with_linked(self, own: list[Span], more: Iterable[Span]) -> dict[tuple[str, str], Span]:
        """Give spans with all that links to them, and what hangs below that or links to it."""
        linked = [span for one in own for span in self._linking.get((one.trace, one.id), ())]
        grown = self._grown(
            [*linked, *more],
            lambda one: [*self.children(one), *self._linking.get((one.trace, one.id), ())],
        )
        return {(one.trace, one.id): one for one in (*own, *grown)}

    def _grown(self, first: list[Span], more: Callable[[Span], list[Span]]) -> list[Span]:
        found: dict[tuple[str, str], Span] = {}
        todo = list(first)
        while todo:
            span = todo.pop()
            if (span.trace, span.id) not in found:
                found[span.trace, span.id] = span
                todo += more(span)
        return list(found.values())
