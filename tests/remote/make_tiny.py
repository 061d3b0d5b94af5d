"""Writes a Llama of two layers with random weights and a vocabulary of bytes, as GGUF: make_tiny.py FILE. It says nothing of sense."""

import sys

import gguf
import numpy as np

WIDTH, HEADS, HIDDEN, LAYERS, CONTEXT = 64, 4, 128, 2, 2048
# The bytes, behind the three that every such vocabulary has: unknown (2), controls (3), bytes (6).
WORDS = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
TYPES = [2, 3, 3] + [6] * 256
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "

random = np.random.default_rng(1)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("tiny-random")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(HIDDEN)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_vocab_size(len(WORDS))
writer.add_file_type(0)
writer.add_tokenizer_model("llama")
writer.add_token_list(WORDS)
writer.add_token_scores([0.0] * len(WORDS))
writer.add_token_types(TYPES)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)
writer.add_chat_template(TEMPLATE)


def matrix(name, *shape):
    writer.add_tensor(name, (random.standard_normal(shape) * 0.3).astype(np.float32))


def ones(name):
    writer.add_tensor(name, np.ones(WIDTH, np.float32))


matrix("token_embd.weight", len(WORDS), WIDTH)
ones("output_norm.weight")
matrix("output.weight", len(WORDS), WIDTH)
for layer in range(LAYERS):
    block = f"blk.{layer}."
    ones(block + "attn_norm.weight")
    ones(block + "ffn_norm.weight")
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        matrix(block + name + ".weight", WIDTH, WIDTH)
    matrix(block + "ffn_gate.weight", HIDDEN, WIDTH)
    matrix(block + "ffn_up.weight", HIDDEN, WIDTH)
    matrix(block + "ffn_down.weight", WIDTH, HIDDEN)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
