"""What the gate `imports` looks for, by name: model SDKs, network clients, and where a body or a prompt is read.

1. The lists are closed. A policy can add to each, and take nothing away; a person lets one thing pass by an exception.
2. A listed name means the module and all below it. A name that a team may well use for something else (`agents`, `llm`) is
   not meant where the repository has a module of its own of that name; it is followed instead.
3. A read is an attribute, a key or a field by one of these names, whatever it is of: nobody knows a type from a name.
"""

import re

__all__ = [
    "CALLS",
    "DATA",
    "MODELS",
    "NETWORK",
    "PARAMETERS",
    "READS",
    "SCRIPT_MODELS",
    "SCRIPT_NETWORK",
    "listed",
    "on_shelf",
    "script_listed",
]

MODELS = frozenset(
    {
        "openai", "anthropic", "cohere", "groq", "ollama", "mistralai", "litellm", "instructor", "replicate", "together",
        "fireworks", "ai21", "voyageai", "cerebras", "xai_sdk", "writerai", "dashscope", "zhipuai", "qianfan", "aleph_alpha_client",
        "google.generativeai", "google.genai", "google.ai.generativelanguage", "google.cloud.aiplatform", "google.adk", "vertexai",
        "azure.ai.inference", "azure.ai.openai", "azure.ai.agents", "azure.ai.projects", "ibm_watsonx_ai", "huggingface_hub",
        "transformers", "sentence_transformers", "vllm", "sglang", "llama_cpp", "ctransformers", "gpt4all", "mlx_lm", "exllamav2",
        "lmstudio", "modelscope", "petals", "predibase", "g4f", "langchain", "langchain_core", "langchain_community",
        "langchain_openai", "langchain_anthropic", "langchain_google_genai", "langchain_google_vertexai", "langchain_aws",
        "langchain_mistralai", "langchain_ollama", "langchain_groq", "langchain_cohere", "langchain_huggingface", "langgraph",
        "langgraph_sdk", "llama_index", "dspy", "guidance", "outlines", "semantic_kernel", "haystack", "autogen", "autogen_core",
        "autogen_agentchat", "autogen_ext", "crewai", "pydantic_ai", "smolagents", "agents", "strands", "aisuite", "magentic",
        "mirascope", "marvin", "ell", "baml_py", "baml_client", "agno", "letta", "letta_client", "mem0", "txtai", "llm",
        "claude_agent_sdk", "claude_code_sdk", "portkey_ai", "openrouter", "nemoguardrails", "guardrails", "spacy_llm",
        "oci.generative_ai_inference", "databricks_langchain", "perplexity", "deepseek", "browser_use", "copilot",
    }
)  # fmt: skip  # words
_ALSO_OWN = frozenset(
    {
        "agents", "llm", "together", "replicate", "guidance", "marvin", "instructor", "ell", "fireworks", "strands", "outlines",
        "copilot", "guardrails", "perplexity", "haystack", "deepseek", "letta", "cerebras", "agno", "ollama",
    }
)  # fmt: skip  # words
NETWORK = frozenset(
    {
        "socket", "_socket", "ssl", "http.client", "http.server", "urllib.request", "urllib3", "requests", "httpx", "httpx2",
        "httpcore", "aiohttp", "websockets", "websocket", "grpc", "grpclib", "boto3", "botocore", "aiobotocore", "aioboto3",
        "pycurl", "smtplib", "ftplib", "poplib", "imaplib", "nntplib", "telnetlib", "xmlrpc", "socketserver", "paramiko",
        "asyncssh", "tornado", "twisted", "treq", "httplib2", "niquests", "curl_cffi", "requests_html", "pyppeteer", "playwright",
        "selenium", "mcp", "fastmcp", "zmq", "nats", "pika", "aio_pika", "kafka", "confluent_kafka", "aiokafka", "redis", "valkey",
        "psycopg", "psycopg2", "asyncpg", "pymongo", "motor", "pymysql", "aiomysql", "sqlalchemy", "subprocess",
        "logging.handlers.HTTPHandler", "logging.handlers.SocketHandler", "logging.handlers.DatagramHandler",
        "logging.handlers.SMTPHandler", "logging.handlers.SysLogHandler", "urllib.robotparser",
        "concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process",
        "multiprocessing", "pty", "pexpect", "sh", "plumbum", "_posixsubprocess", "posix", "asyncio.subprocess", "webbrowser",
    }
)  # fmt: skip  # words
"""What reaches over a network, and what starts a program that can."""
SCRIPT_MODELS = frozenset(
    {
        "openai", "@anthropic-ai", "@google/generative-ai", "@google/genai", "@google-cloud/vertexai", "@google-cloud/aiplatform",
        "@mistralai", "cohere-ai", "groq-sdk", "ollama", "ai", "@ai-sdk", "langchain", "@langchain", "llamaindex", "@llamaindex",
        "@huggingface", "replicate", "together-ai", "@aws-sdk/client-bedrock-runtime", "@aws-sdk/client-bedrock-agent-runtime",
        "@azure/openai", "@azure-rest/ai-inference", "node-llama-cpp", "@xenova/transformers", "@mastra", "@openai", "openai-edge",
        "@openrouter", "portkey-ai", "@cerebras", "fireworks-ai", "@fal-ai", "modelfusion", "@instructor-ai",
        "@ibm-cloud/watsonx-ai",
        "@lmstudio", "@copilotkit", "genkit", "@genkit-ai", "@baml", "voyageai", "gpt4all", "@mlc-ai/web-llm",
    }
)  # fmt: skip  # words
SCRIPT_NETWORK = frozenset(
    {
        "http", "https", "http2", "net", "tls", "dgram", "dns", "child_process", "cluster", "worker_threads", "axios", "got",
        "node-fetch", "cross-fetch", "isomorphic-fetch", "undici", "ws", "superagent", "ky", "request", "needle", "phin", "wretch",
        "socket.io-client", "@grpc/grpc-js", "@aws-sdk", "aws-sdk", "@modelcontextprotocol", "ioredis", "redis", "pg", "mysql2",
        "mongodb", "execa", "puppeteer", "playwright", "eventsource", "ofetch", "zx", "nats", "kafkajs", "amqplib",
    }
)  # fmt: skip  # words

READS = frozenset(
    {
        "body", "raw_body", "rawBody", "request_body", "response_body", "text", "content", "prompt", "prompts", "system_prompt",
        "systemPrompt", "user_prompt", "userPrompt", "messages", "completion", "completions", "choices", "output_text",
        "outputText", "transcript", "chat_history", "chatHistory", "tool_calls", "toolCalls", "responseText",
    }
)  # fmt: skip  # words
"""Attributes and keys that hold what somebody wrote."""
CALLS = frozenset(
    {
        "json", "read", "aread", "get_json", "get_data", "form", "iter_bytes", "iter_text", "iter_lines", "iter_content",
        "iter_raw",
        "aiter_bytes", "aiter_text", "aiter_lines", "aiter_raw", "iter_any", "iter_chunked", "readline", "readlines", "arrayBuffer",
        "blob", "formData", "getReader",
    }
)  # fmt: skip  # words
"""Methods that give it, where they are called."""
PARAMETERS = frozenset(
    {
        "body", "raw_body", "rawBody", "request_body", "response_body", "prompt", "prompts", "system_prompt", "systemPrompt",
        "user_prompt", "userPrompt", "messages", "completion", "completions", "transcript", "chat_history", "chatHistory",
    }
)  # fmt: skip  # words
"""Names under which it is handed over: a parameter, a field, a name that is imported."""

DATA = frozenset(
    {
        ".md", ".rst", ".txt", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".tsv", ".ini", ".cfg", ".lock", ".html",
        ".css",
        ".svg", ".png", ".jpg", ".jpeg", ".gif", ".ico", ".typed", ".proto", ".map", ".license", ".in",
    }
)  # fmt: skip  # words
"""Suffixes of files that are no modules of anything."""

_SHELVES = re.compile(
    r"https://(?:esm\.sh/(?:v[0-9]+/|stable/|gh/)?|cdn\.skypack\.dev/|cdn\.jsdelivr\.net/npm/|unpkg\.com/|esm\.run/|jspm\.dev/"
    r"|ga\.jspm\.io/npm:|deno\.land/x/)"
)


def listed(names: tuple[str, ...], known: frozenset[str], *, own: bool) -> str:
    """Give the listed module that one of some dotted names is, or lies below; "": none. `own`: the repository has it."""
    for name in names:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            found = ".".join(parts[:end])
            if found in known and not (own and found in _ALSO_OWN):
                return found
    return ""


def on_shelf(specifier: str) -> str:
    """Give what stands before the package in a URL of one, a version of the shelf itself too; "": it is no such URL."""
    found = _SHELVES.match(specifier)
    return "" if found is None else found[0]


def script_listed(specifier: str, known: frozenset[str]) -> str:
    """Give the listed package that a specifier is, or lies in; "": none."""
    plain = specifier.removeprefix("node:").removeprefix("npm:").removeprefix("jsr:")
    plain = plain.removeprefix(on_shelf(plain))
    parts = plain.split("/")
    # A version stands behind an @ that is not the first character: npm:openai@4.
    names = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return next((bare for name in names if (bare := name[:1] + name[1:].partition("@")[0]) in known), "")
