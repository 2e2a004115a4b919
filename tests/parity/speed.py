"""Times layer 0's blocks, recomputing backward included, beside transformers' own layer with torch's
checkpointing. Not a test: run it by hand on an idle machine. On a shared one trust the least times.

Usage: speed.py PARITY_PROGRAM [REPEATS]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import models
import torch
import transformers
from torch.utils.checkpoint import checkpoint

BATCH, TIME, HIDDEN, VOCAB = 2, 256, 512, 8192
LLAMA = transformers.LlamaConfig(
    hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=4,
    intermediate_size=1408, vocab_size=VOCAB, max_position_embeddings=TIME, pad_token_id=None,
)  # fmt: skip
GPT2 = transformers.GPT2Config(
    n_embd=HIDDEN, n_layer=1, n_head=8, vocab_size=VOCAB, n_positions=TIME,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip


def least_seconds(repeats: int, work) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def their_seconds(model, dtype: torch.dtype, repeats: int) -> float:
    """One layer, forward without a graph, then checkpointed backward: recompute + gradients."""
    x = torch.randn(BATCH, TIME, HIDDEN, dtype=dtype, requires_grad=True)
    dy = torch.randn(BATCH, TIME, HIDDEN, dtype=dtype)
    if isinstance(model.config, transformers.GPT2Config):
        layer, extra = model.transformer.h[0], {}
    else:
        position = torch.arange(TIME).unsqueeze(0)
        layer = model.model.layers[0]
        extra = {"position_embeddings": model.model.rotary_emb(x, position)}

    def work():
        y = checkpoint(layer, x, use_reentrant=False, **extra)
        y = y[0] if isinstance(y, tuple) else y
        torch.autograd.grad(y, [x, *layer.parameters()], dy)

    return least_seconds(repeats, work)


def main(program: str, repeats: int) -> None:
    for config in (LLAMA, GPT2):
        for dtype, precision in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            model = models.build(config, seed=1).to(dtype)
            with tempfile.TemporaryDirectory() as folder:
                models.write_model(Path(folder), model)
                for threads in (1, 2):
                    torch.set_num_threads(threads)
                    batch = f"{BATCH} {TIME} {precision} 1 1 {threads}\n"
                    (Path(folder) / "batch.txt").write_text(batch)
                    theirs = their_seconds(model, dtype, repeats)
                    lines = subprocess.run(
                        [program, "time", folder, str(repeats)],
                        check=True, capture_output=True, text=True,
                    ).stdout.splitlines()  # fmt: skip
                    rows = {kind: (float(f), float(b)) for kind, f, b in map(str.split, lines)}
                    ours = sum(sum(rows[kind]) for kind in ("attention", "mlp"))
                    print(
                        f"{config.model_type} {precision} {threads} threads: ours {ours * 1e3:.2f} ms,",
                        f"transformers {theirs * 1e3:.2f} ms, ratio {ours / theirs:.3f};",
                        ", ".join(f"{k} {f * 1e3:.2f}+{b * 1e3:.2f}" for k, (f, b) in rows.items()),
                    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30)
