"""Capped runs equal the run in memory, bit for bit, and plain PyTorch's within rounding."""

import json
from dataclasses import dataclass

import pytest
import torch
from conftest import STEPS, Box, Run, expect_predicted_peaks, machine, make_model, make_tokens, same_bits, states_bytes
from ferry_tools import token_file
from safetensors.torch import load_file


def budget(box: Box) -> str:
    return f"{states_bytes(box.model) // 8} B"


EVERY_STEP = {"train__save_every": 1, "train__keep": STEPS}


@pytest.fixture(scope="module")
def resident(box) -> dict[int, Run]:
    return {m: box.train(f"resident-{m}", train__micro_batches=m, **EVERY_STEP) for m in (1, 3, 4)}


@pytest.mark.parametrize("micro_batches", [1, 3, 4])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_mobius_equals_resident(box, resident, devices, micro_batches):
    run = box.train(
        f"mobius-{devices}-{micro_batches}",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, devices)),
        train__micro_batches=micro_batches,
    )
    same_bits(run, resident[micro_batches])
    expect_predicted_peaks(run)
    for place, peak in run.summary["measured_peak_bytes"].items():
        assert place == "host" or peak <= states_bytes(box.model) // 8


MANY = {"train__micro_batches": 60, "train__micro_batch_size": 1, "train__steps": 2}


@pytest.fixture(scope="module")
def resident_60(box) -> Run:
    return box.train("resident-60", **MANY)


def test_many_micro_batches_that_are_planned_as_few_equal_resident(box, resident_60):
    """Their plan is large, so what is best for a step of four is written with all of them."""
    run = box.train("mobius-60", strategy="mobius", budget__device=budget(box), **MANY)
    assert (run.out / "plan").read_text().count("\ntask ") > 8000
    same_bits(run, resident_60, 2)
    expect_predicted_peaks(run)


@pytest.mark.parametrize("devices", [1, 2])
def test_micro_batches_in_rounds_equal_resident(box, resident_60, devices):
    """DRAM has no room for the inputs of all of them, and gradient sums rest there between rounds."""
    states = states_bytes(box.model)
    run = box.train(
        f"rounds-{devices}",
        strategy="mobius",
        budget__device=f"{states // 4} B",
        budget__host=f"{states * 9 // 5} B",
        machine=str(machine(box.folder, devices)),
        **MANY,
    )
    assert "rounds, each forward and backward" in run.text
    same_bits(run, resident_60, 2)
    expect_predicted_peaks(run)


@pytest.mark.parametrize("devices", [1, 2])
def test_without_a_drive_devices_hold_what_dram_does_not(box, resident, devices):
    """DRAM has room for half of the states; they and the gradient sums, of a run that clips, find theirs."""
    states = states_bytes(box.model)
    run = box.train(
        f"half-of-dram-{devices}",
        strategy="mobius",
        budget__host=f"{states // 2} B",
        budget__device=f"{states if devices == 1 else states * 3 // 4} B",
        machine=str(machine(box.folder, devices)),
    )
    assert run.summary["predicted_peak_bytes"].keys() == {"host", *(f"gpu{d}" for d in range(devices))}
    assert run.summary["predicted_peak_bytes"]["host"] <= states // 2
    same_bits(run, resident[3])
    expect_predicted_peaks(run)


def test_the_process_holds_the_predicted_host_memory_and_little_more(tmp_path):
    """Of a model that is not tiny: loading, kernels and a checkpoint are within 5 % of the plan."""
    model = make_model(tmp_path / "base", hidden_size=512, intermediate_size=1024, num_hidden_layers=10)
    box = Box(tmp_path, model, make_tokens(tmp_path / "data.tokens", 5))
    whole = {"train__micro_batches": 1, "train__micro_batch_size": 1, "train__steps": 2}
    run = box.train("large", strategy="mobius", budget__device="64 MiB", **whole)
    expect_predicted_peaks(run)
    predicted = run.summary["predicted_peak_bytes"]["host"]
    assert predicted > 300 << 20
    assert predicted <= run.summary["measured_peak_bytes"]["host"] <= 1.05 * predicted


STREAMING = ["roundpipe", "harmony-pp", "harmony-dp", "zero", "fuyou"]


@pytest.mark.parametrize("strategy", STREAMING)
@pytest.mark.parametrize("devices,micro_batches", [(2, 4), (4, 3)])
def test_every_streaming_strategy_equals_resident(box, resident, strategy, devices, micro_batches):
    run = box.train(
        f"{strategy}-{devices}-{micro_batches}",
        strategy=strategy,
        budget__device=budget(box),
        machine=str(machine(box.folder, devices)),
        train__micro_batches=micro_batches,
    )
    same_bits(run, resident[micro_batches])


def test_mlps_in_chunks_have_the_bits_of_any_strategy(box):
    """70 rows of 64 tokens are two chunks of an MLP."""
    long = {"train__micro_batch_size": 70, "train__micro_batches": 2}
    kept = box.train("kept-long", plan__activations="keep", **long)
    recomputed = box.train("recomputed-long", plan__activations="recompute", **long)
    streamed = box.train("mobius-long", strategy="mobius", machine=str(machine(box.folder, 2)), **long)
    same_bits(recomputed, kept)
    same_bits(streamed, kept)
    for run in (kept, recomputed, streamed):
        expect_predicted_peaks(run)


def test_rounds_on_two_devices_equal_resident(box, resident):
    run = box.train(
        "rounds",
        strategy="roundpipe",
        plan__round=2,
        budget__device=budget(box),
        machine=str(machine(box.folder, 2)),
        train__micro_batches=4,
    )
    same_bits(run, resident[4])


UNCLIPPED = {"train__micro_batches": 4, "optim__clip": 0}


@pytest.fixture(scope="module")
def tied_resident(tied_box) -> Run:
    return tied_box.train("resident-free", **UNCLIPPED)


@pytest.mark.parametrize("strategy", ["roundpipe", "harmony-dp", "zero"])
def test_tied_embeddings_equal_resident_under_every_streaming_strategy(tied_box, tied_resident, strategy):
    run = tied_box.train(
        f"{strategy}-free",
        strategy=strategy,
        budget__device=budget(tied_box),
        machine=str(machine(tied_box.folder, 2)),
        **UNCLIPPED,
    )
    same_bits(run, tied_resident)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_mobius_on_throttled_links_equals_resident(box, resident, devices):
    run = box.train(
        f"throttled-{devices}",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, devices, "100 MB/s")),
    )
    same_bits(run, resident[3])


def test_tied_embeddings_on_two_devices_equal_resident(tied_box):
    resident = tied_box.train("resident")
    run = tied_box.train(
        "mobius", strategy="mobius", budget__device=budget(tied_box), machine=str(machine(tied_box.folder, 2))
    )
    same_bits(run, resident)


def test_bf16_on_two_devices_equals_resident(box):
    resident = box.train("resident-bf16", train__precision="bf16")
    run = box.train(
        "mobius-bf16",
        train__precision="bf16",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, 2)),
    )
    same_bits(run, resident)


def test_a_shuffled_packed_run_equals_resident(box):
    """Documents of one row do not see each other; their order comes from the seed."""
    packed = {"data__packing": True, "data__shuffle": True, "train__seed": 7}
    resident = box.train("resident-packed", **packed)
    run = box.train(
        "mobius-packed",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, 2)),
        **packed,
    )
    same_bits(run, resident)
    assert resident.losses != box.train("other-seed", **packed | {"train__seed": 8}).losses


def rows(box: Box, step: int, micro_batches: int, size: int, sequence: int) -> list:
    """The rows of a step by the documented rule: row (step M + i) B + j, wrapping at the end."""
    samples = token_file.read(box.tokens).samples
    first = step * micro_batches * size
    return [samples[(first + k) % len(samples)] for k in range(micro_batches * size)]


@dataclass(frozen=True)
class State:
    """Where a run stood before a step: parameters and moments by name."""

    weights: dict[str, torch.Tensor]
    exp_avg: dict[str, torch.Tensor]
    exp_avg_sq: dict[str, torch.Tensor]


def saved_states(box: Box, run: Run) -> list[State]:
    """The model that the run began with, and each of its checkpoints."""
    weights = load_file(box.model / "model.safetensors")
    zeros = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    states = [State(weights, zeros, zeros)]
    for folder in sorted((run.out / "checkpoints").iterdir()):
        moments = load_file(folder / "ferry/optimizer.safetensors")
        parts = [{name: moments[f"{name}.{part}"] for name in weights} for part in ("exp_avg", "exp_avg_sq")]
        states.append(State(load_file(folder / "model.safetensors"), *parts))
    return states


def round_sums(model) -> dict[str, torch.Tensor]:
    """Rounds every gradient to bf16, to nearest even; a sum in fp32 is what a run has. Where the fp32 sum of
    a run lies on the same side of every tie, by name: it is off by less than what moves this one here."""
    sure = {}
    for name, parameter in model.named_parameters():
        exact = parameter.grad.clone()
        reach = 1e-4 * exact.abs() + 1e-5 * exact.norm() / exact.numel() ** 0.5
        sure[name] = (exact - reach).float().bfloat16() == (exact + reach).float().bfloat16()
        parameter.grad.copy_(exact.float().bfloat16())
    return sure


def plain_pytorch(
    model, state: State, step: int, chosen: list, sure: dict[str, torch.Tensor] | None = None
) -> tuple[float, State]:
    """A step from this state as one would write it with torch and transformers alone, in float64. Given
    `sure` the whole gradient is rounded to bf16, the norm is that of before, and it takes round_sums()."""
    parameters = dict(model.named_parameters())
    decayed = [p for p in parameters.values() if p.dim() >= 2]
    other = [p for p in parameters.values() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
    for name, parameter in parameters.items():
        parameter.data.copy_(state.weights[name])
        optimizer.state[parameter] = {
            "step": torch.tensor(float(step)),
            "exp_avg": state.exp_avg[name].double(),
            "exp_avg_sq": state.exp_avg_sq[name].double(),
        }
    ids = torch.zeros(len(chosen), 32, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for j, sample in enumerate(chosen):
        kept = min(len(sample.ids), 32)
        ids[j, :kept] = torch.tensor(sample.ids[:kept])
        for t in range(1, kept):
            if sample.learned[t]:
                labels[j, t - 1] = sample.ids[t]
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    if sure is not None:
        sure.update(round_sums(model))
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, norm)
    optimizer.step()
    moments = {
        part: {name: optimizer.state[parameter][part] for name, parameter in parameters.items()}
        for part in ("exp_avg", "exp_avg_sq")
    }
    return loss.item(), State({name: p.detach() for name, p in parameters.items()}, **moments)


def updated(weight: torch.Tensor, after: State, name: str, step: int) -> torch.Tensor:
    """AdamW's weight in float64, from the moments that the run itself has after the step."""
    m = after.exp_avg[name].double() / (1 - 0.9 ** (step + 1))
    v = after.exp_avg_sq[name].double() / (1 - 0.999 ** (step + 1))
    decay = 0.1 if weight.dim() >= 2 else 0.0
    return weight.double() * (1 - 1e-2 * decay) - 1e-2 * m / (v.sqrt() + 1e-8)


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found.double() - expected).norm() / expected.norm()).item()


LOSS_BOUND, MOMENTS_BOUND, WEIGHTS_BOUND = 2e-6, 3e-5, 1e-6


def expect_every_step_of_plain_pytorch(box: Box, run: Run, micro_batches: int) -> None:
    """Compares each step with float64 begun where ferry itself stood: what one step in fp32 rounds,
    not what ten at a high rate make of it, which differs between CPUs. The bounds are eight times
    what any kernels of torch and its libraries needed (scripts/test-kernels), or more."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(box.model, dtype=torch.float64)
    states = saved_states(box, run)
    assert len(states) == STEPS + 1
    for step, (before, after) in enumerate(zip(states, states[1:])):
        loss, expected = plain_pytorch(model, before, step, rows(box, step, micro_batches, 2, 32))
        assert run.losses[step] == pytest.approx(loss, rel=LOSS_BOUND)
        for name, weight in before.weights.items():
            assert off(after.exp_avg[name], expected.exp_avg[name]) < MOMENTS_BOUND, (step, name)
            assert off(after.exp_avg_sq[name], expected.exp_avg_sq[name]) < MOMENTS_BOUND, (step, name)
            assert off(after.weights[name], updated(weight, after, name, step)) < WEIGHTS_BOUND, (step, name)


@pytest.mark.parametrize("tied", [False, True])
def test_every_step_of_a_model_with_a_padding_token_equals_plain_pytorch(tmp_path, tied):
    """It stands within the samples, where its embedding gets no gradient, but a tied head's part."""
    model = make_model(tmp_path / "base", num_hidden_layers=2, pad_token_id=7, tie_word_embeddings=tied)
    padded = Box(tmp_path, model, make_tokens(tmp_path / "data.tokens", 37))
    assert any(7 in row.ids[:-1] for row in rows(padded, 0, 3, 2, 32))
    run = padded.train("padded", strategy="mobius", machine=str(machine(tmp_path, 2)), **EVERY_STEP)
    expect_every_step_of_plain_pytorch(padded, run, 3)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_every_step_of_resident_equals_plain_pytorch(box, resident, micro_batches):
    run = resident[micro_batches]
    expect_every_step_of_plain_pytorch(box, run, micro_batches)
    assert run.losses[-1] < run.losses[0]


def test_every_step_of_gpt2_on_two_devices_equals_plain_pytorch(gpt2_box):
    """Tied head, biases and learned positions, through stages."""
    run = gpt2_box.train(
        "mobius",
        strategy="mobius",
        budget__device=f"{states_bytes(gpt2_box.model) // 3} B",
        machine=str(machine(gpt2_box.folder, 2)),
        **EVERY_STEP,
    )
    same_bits(run, gpt2_box.train("resident"))
    expect_every_step_of_plain_pytorch(gpt2_box, run, 3)


# Sums that are not rounded are off by 1.7e-3 over a whole model.
ROUNDING = 1e-3


def flattened(moment: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([moment[name].double().flatten() for name in sorted(moment)])


@pytest.mark.parametrize("strategy", ["resident", "mobius"])
def test_every_step_by_rounded_sums_equals_plain_pytorch(box, strategy):
    """The resident update rounds what it reads; for the host the last backward rounds."""
    from transformers import AutoModelForCausalLM

    where = {} if strategy == "resident" else {"budget__device": budget(box)}
    run = box.train(f"oracle-rounded-{strategy}", strategy=strategy, train__gradients="bf16", **where, **EVERY_STEP)
    model = AutoModelForCausalLM.from_pretrained(box.model, dtype=torch.float64)
    states = saved_states(box, run)
    for step, (before, after) in enumerate(zip(states, states[1:])):
        sides: dict[str, torch.Tensor] = {}
        loss, expected = plain_pytorch(model, before, step, rows(box, step, 3, 2, 32), sides)
        assert run.losses[step] == pytest.approx(loss, rel=LOSS_BOUND)
        sure = torch.cat([sides[name].flatten() for name in sorted(sides)])
        assert sure.double().mean() > 0.8
        for found, right in ((after.exp_avg, expected.exp_avg), (after.exp_avg_sq, expected.exp_avg_sq)):
            assert off(flattened(found)[sure], flattened(right)[sure]) < MOMENTS_BOUND, step
        for name, weight in before.weights.items():
            assert off(after.weights[name], updated(weight, after, name, step)) < WEIGHTS_BOUND, (step, name)
    _, exact = plain_pytorch(model, states[0], 0, rows(box, 0, 3, 2, 32))
    assert off(flattened(states[1].exp_avg), flattened(exact.exp_avg)) > ROUNDING


@pytest.mark.parametrize("devices,micro_batches", [(1, 1), (2, 3), (4, 4)])
def test_rounded_sums_equal_resident(box, devices, micro_batches):
    rounded = {"train__gradients": "bf16", "train__micro_batches": micro_batches}
    run = box.train(
        f"mobius-rounded-{devices}",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, devices)),
        **rounded,
    )
    same_bits(run, box.train(f"resident-rounded-{micro_batches}", **rounded))
    expect_predicted_peaks(run)


@pytest.mark.parametrize("strategy", ["roundpipe", "harmony-dp", "zero"])
def test_rounded_sums_of_a_tied_model_equal_resident_under_streaming_strategies(tied_box, strategy):
    """In harmony-dp and zero a sum travels between devices before it is whole, in fp32."""
    rounded = {"train__gradients": "bf16", **UNCLIPPED}
    run = tied_box.train(
        f"{strategy}-rounded",
        strategy=strategy,
        budget__device=budget(tied_box),
        machine=str(machine(tied_box.folder, 2)),
        **rounded,
    )
    same_bits(run, tied_box.train(f"resident-rounded-{strategy}", **rounded))


def test_rounded_sums_of_bf16_on_two_devices_equal_resident(box):
    rounded = {"train__precision": "bf16", "train__gradients": "bf16"}
    run = box.train(
        "mobius-rounded-bf16",
        strategy="mobius",
        budget__device=budget(box),
        machine=str(machine(box.folder, 2)),
        **rounded,
    )
    same_bits(run, box.train("resident-rounded-bf16", **rounded))


def test_micro_batches_equal_one_batch(box):
    """Equal rows per step, cut differently: the loss is normalised over the step's learned tokens."""
    whole = box.train("whole", train__micro_batches=1, train__micro_batch_size=6, train__steps=1)
    parts = box.train("parts", train__micro_batches=6, train__micro_batch_size=1, train__steps=1)
    assert parts.losses == pytest.approx(whole.losses, rel=2 * LOSS_BOUND)
    first, other = saved_states(box, whole)[1], saved_states(box, parts)[1]
    for name, moment in first.exp_avg.items():
        assert off(other.exp_avg[name], moment.double()) < 2 * MOMENTS_BOUND, name


def test_equal_jobs_make_equal_plans(box):
    for name in ("once", "twice"):
        box.train(name, strategy="mobius", train__steps=1, budget__device=budget(box))
    assert (box.folder / "once" / "plan").read_text() == (box.folder / "twice" / "plan").read_text()


def test_the_log_has_what_is_documented(box, resident):
    line = resident[3].log[0]
    assert line["step"] == 1
    assert line["lr"] == 1e-2
    assert set(line["peak_bytes"]) == {"gpu0", "host"}
    for key in ("grad_norm", "tokens", "learned_tokens", "step_seconds", "tokens_per_second", "stall"):
        assert line[key] >= 0
    expected = sum(min(len(s.ids), 32) for s in rows(box, 0, 3, 2, 32))
    assert line["tokens"] == expected
    assert json.loads((resident[3].out / "timeline.json").read_text())["traceEvents"]
