"""A real model server: llama.cpp's, with a language model of 120,000 weights drawn by a seed, made when a test asks for it.

llama.cpp comes with the package `xllamacpp` (MIT) and models are written with `gguf` (MIT); with numpy that is 180 MB, too much to
share an environment with everything else. DRILLMASTER_LLAMA_PYTHON names a Python that has both.
"""

import contextlib
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PYTHON", "Llama", "llama"]

PYTHON = os.environ.get("DRILLMASTER_LLAMA_PYTHON")

MAKE = """\
import sys
import gguf
import numpy

EMBEDDING, FEED_FORWARD, LAYERS, HEADS = 64, 128, 2, 4
words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
words += [f"\\u2581{word}" for word in "the cat sat on a mat and ran home again then slept".split()]
draw = numpy.random.default_rng(7)


def weights(*shape):
    return (draw.standard_normal(shape) * 0.05).astype(numpy.float32)


model = gguf.GGUFWriter(sys.argv[1], "llama")
model.add_context_length(2048)
model.add_embedding_length(EMBEDDING)
model.add_block_count(LAYERS)
model.add_feed_forward_length(FEED_FORWARD)
model.add_head_count(HEADS)
model.add_head_count_kv(HEADS)
model.add_layer_norm_rms_eps(1e-5)
model.add_rope_dimension_count(EMBEDDING // HEADS)
model.add_vocab_size(len(words))
model.add_tokenizer_model("llama")
model.add_token_list(words)
model.add_token_scores([0.0] * 3 + [-100.0] * 256 + [-1.0] * (len(words) - 259))
model.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(words) - 259))
model.add_bos_token_id(1)
model.add_eos_token_id(2)
model.add_unk_token_id(0)
model.add_chat_template("{% for m in messages %}{{ m['content'] }}\\n{% endfor %}")
ones = numpy.ones(EMBEDDING, numpy.float32)
model.add_tensor("token_embd.weight", weights(len(words), EMBEDDING))
model.add_tensor("output.weight", weights(len(words), EMBEDDING))
model.add_tensor("output_norm.weight", ones)
for layer in range(LAYERS):
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        model.add_tensor(f"blk.{layer}.{name}.weight", weights(EMBEDDING, EMBEDDING))
    model.add_tensor(f"blk.{layer}.ffn_gate.weight", weights(FEED_FORWARD, EMBEDDING))
    model.add_tensor(f"blk.{layer}.ffn_up.weight", weights(FEED_FORWARD, EMBEDDING))
    model.add_tensor(f"blk.{layer}.ffn_down.weight", weights(EMBEDDING, FEED_FORWARD))
    model.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
    model.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
model.write_header_to_file()
model.write_kv_data_to_file()
model.write_tensors_to_file()
model.close()
"""
SERVE = """\
import sys
import xllamacpp

wanted = xllamacpp.CommonParams()
wanted.model.path = sys.argv[1]
wanted.n_ctx, wanted.n_parallel, wanted.warmup, wanted.endpoint_metrics = 4096, 4, False, True
wanted.cpuparams.n_threads = 1
server = xllamacpp.Server(wanted)
print("LISTENING", server.listening_address, flush=True)
sys.stdin.read()
"""


class Llama:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def counted(self, name: str) -> float:
        """What the server itself counts: `prompt_tokens_total`, `tokens_predicted_total`."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"llamacpp:{name} "))


@contextlib.contextmanager
def llama(folder: Path) -> Iterator[Llama]:
    """Make the model and serve it, on loopback, with four slots."""
    assert PYTHON is not None
    model = folder / "tiny.gguf"
    subprocess.run([PYTHON, "-c", MAKE, str(model)], check=True, timeout=60)
    with (folder / "llama.log").open("wb") as log:
        process = subprocess.Popen(
            [PYTHON, "-c", SERVE, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        told = (line.split() for line in process.stdout)
        yield Llama(next(words[1] for words in told if words[:1] == ["LISTENING"]))
    finally:
        process.kill()
        process.communicate()
