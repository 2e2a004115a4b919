"""Pipelines on several devices equal the run on one, bit for bit: same sums, same updates."""

import json

import pytest
from conftest import Box, Run, expect_predicted_peaks, machine, same_bits, states_bytes

STEPS = 4


def train(box: Box, name: str, *flags: str, devices: int = 1, rate: str | None = None, **changes) -> Run:
    """A short run on so many devices; on one it is `resident`."""
    machine_file = str(machine(box.folder, devices, rate))
    return box.train(f"pipelines-{name}", *flags, machine=machine_file, **{"train__steps": STEPS} | changes)


@pytest.fixture(scope="module")
def resident(box) -> dict[int, Run]:
    return {m: train(box, f"whole-{m}", train__micro_batches=m) for m in (1, 4, 8)}


@pytest.mark.parametrize(
    ("strategy", "devices", "micro_batches"),
    [("gpipe", 2, 4), ("1f1b", 2, 1), ("1f1b", 4, 8), ("interleaved", 2, 4), ("mixed-pipe", 4, 4)],
)
def test_a_pipeline_equals_resident(box, resident, strategy, devices, micro_batches):
    run = train(
        box,
        f"{strategy}-{devices}-{micro_batches}",
        strategy=strategy,
        devices=devices,
        train__micro_batches=micro_batches,
    )
    same_bits(run, resident[micro_batches], STEPS)
    expect_predicted_peaks(run)


def test_a_pipeline_on_throttled_links_equals_resident(box, resident):
    run = train(box, "throttled", strategy="1f1b", devices=4, rate="100 MB/s", train__micro_batches=4)
    same_bits(run, resident[4], STEPS)


def test_each_device_trains_within_its_own_budget(box, resident):
    """Twice the smaller budget would not hold the states, and a smaller device does not shrink the larger."""
    states = states_bytes(box.model)
    budgets = {"gpu0": states * 5 // 4, "gpu1": states * 3 // 5}
    run = train(
        box,
        "unequal",
        strategy="1f1b",
        devices=2,
        train__micro_batches=4,
        budget__device={name: f"{size} B" for name, size in budgets.items()},
    )
    same_bits(run, resident[4], STEPS)
    peaks = run.summary["measured_peak_bytes"]
    assert budgets["gpu1"] < peaks["gpu0"] <= budgets["gpu0"]
    assert 0 < peaks["gpu1"] <= budgets["gpu1"]


@pytest.mark.parametrize("strategy", ["1f1b", "mobius"])
def test_logical_devices_on_one_accelerator_equal_resident(box, resident, strategy):
    """They share its link and torch's limit, and each is told what it held."""
    devices = [{"kind": "sim", "index": 0, "memory": "2 GiB", "threads": 1, "up": "1 GB/s", "down": "1 GB/s"}] * 2
    file = box.folder / "machine-logical.yaml"
    file.write_text(json.dumps({"name": "logical", "host": {"cores": 2, "memory": "8 GiB"}, "devices": devices}))
    run = box.train(f"logical-{strategy}", machine=str(file), strategy=strategy, train__steps=STEPS, train__micro_batches=4)
    same_bits(run, resident[4], STEPS)
    expect_predicted_peaks(run)
    assert set(run.summary["measured_peak_bytes"]) == set(run.log[-1]["peak_bytes"]) == {"gpu0", "gpu1", "host"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_tied_pipeline_equals_resident(tied_box, precision):
    """The head's device gets the embedding's weights and gives its gradient sum."""
    whole = train(tied_box, f"whole-{precision}", train__precision=precision)
    for strategy, devices in (("1f1b", 2), ("interleaved", 4)):
        run = train(
            tied_box, f"{strategy}-{precision}", strategy=strategy, devices=devices, train__precision=precision
        )
        same_bits(run, whole, STEPS)


def test_without_clipping_devices_update_on_their_own(box):
    whole = train(box, "whole-free", optim__clip=0)
    run = train(box, "free", strategy="interleaved", devices=2, optim__clip=0)
    same_bits(run, whole, STEPS)


def test_gpt2_in_a_pipeline_equals_resident(gpt2_box):
    run = train(gpt2_box, "1f1b", strategy="1f1b", devices=4)
    same_bits(run, train(gpt2_box, "whole"), STEPS)


def test_the_jobs_own_cut_is_run(box, resident):
    """Five stages on two devices, there and back."""
    own_cut = {"plan__stages": [3, 9, 1, 10, 8], "plan__map": "v"}
    run = train(box, "own-cut", strategy="1f1b", devices=2, train__micro_batches=4, **own_cut)
    same_bits(run, resident[4], STEPS)


def test_a_pipeline_evaluates_on_the_memory_that_it_trains_on(tied_box):
    held_out = {"train__eval_every": 2, "data__eval_fraction": 0.3}
    whole = train(tied_box, "evaluated", **held_out)
    run = train(tied_box, "evaluated-1f1b", strategy="1f1b", devices=4, **held_out)
    same_bits(run, whole, STEPS)
    losses = [[line["eval_loss"] for line in r.log if "eval_loss" in line] for r in (whole, run)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2


def test_a_checkpoint_of_a_pipeline_resumes_under_other_strategies(box, resident):
    train(box, "handed-on", strategy="interleaved", devices=4, train__micro_batches=4, train__steps=1)
    train(box, "handed-on", "--resume", train__micro_batches=4, train__steps=2)
    run = train(box, "handed-on", "--resume", strategy="1f1b", devices=2, train__micro_batches=4)
    same_bits(run, resident[4], STEPS)
