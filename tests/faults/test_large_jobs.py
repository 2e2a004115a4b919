"""A model of hundreds of layers, or a step of a thousand micro-batches, is planned within a minute of processor time."""

import json
import resource
from pathlib import Path

import pytest
from boxes import ferry

DESKTOP = Path(__file__).parents[2] / "machines" / "desktop-4090.yaml"


def processor_time() -> float:
    """Of all programs that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(("layers", "hidden", "micro_batches"), [(400, 2048, 8), (24, 4096, 1000)])
def test_a_large_job_is_planned(tmp_path, layers, hidden, micro_batches):
    heads = {"num_attention_heads": hidden // 128, "num_key_value_heads": 8}
    sizes = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers, "vocab_size": 32000}
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5} | sizes | heads
    (tmp_path / "config.json").write_text(json.dumps(config))
    job = {
        "model": str(tmp_path),
        "machine": str(DESKTOP),
        "data": {"train": "rows.jsonl", "sequence": 1024},
        "train": {"steps": 1, "micro_batches": micro_batches},
        "budget": {"drive": "1TB"},
        "plan": {"profile": "estimate"},
        "out": str(tmp_path / "out"),
    }
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    before = processor_time()
    answer = json.loads(ferry("plan", str(tmp_path / "job.yaml"), "--json").stdout)
    assert answer["fits"] and len(answer["tasks"]) > 20 * layers
    assert processor_time() - before < 60
