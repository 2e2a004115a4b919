"""Checkpoints: resuming goes on as if nothing had happened, under any budget."""

import json
import signal
import subprocess
import time

import torch
from conftest import FERRY, machine, states_bytes


def test_resuming_equals_the_unbroken_run(box):
    whole = box.train("unbroken", train__save_every=4)
    first = box.train("broken", train__steps=4).losses
    second = box.train("broken", "--resume", train__steps=10)
    assert first == whole.losses[:4]
    assert second.losses == whole.losses
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name


def test_a_checkpoint_resumes_under_another_budget_and_strategy(box):
    whole = box.train("whole-run")
    capped = {"strategy": "mobius", "budget__device": f"{states_bytes(box.model) // 8} B"}
    box.train("moved", train__steps=5, machine=str(machine(box.folder, 2)), **capped)
    run = box.train("moved", "--resume")
    assert run.losses == whole.losses
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, run.tensors()[name]), name


def test_a_bf16_run_resumes_bit_for_bit(box):
    whole = box.train("bf16-whole", train__precision="bf16")
    box.train("bf16-broken", train__precision="bf16", train__steps=5)
    run = box.train("bf16-broken", "--resume", train__precision="bf16")
    assert run.losses == whole.losses


def test_only_the_newest_checkpoints_are_kept(box):
    run = box.train("kept", train__save_every=2, train__keep=2)
    assert sorted(p.name for p in (run.out / "checkpoints").iterdir()) == ["step-000008", "step-000010"]


def test_a_damaged_checkpoint_is_refused_by_name(box):
    run = box.train("damaged", train__steps=2)
    file = run.checkpoint / "ferry/optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    again = box.train("damaged", "--resume", train__steps=4, expect=2)
    assert "optimizer.safetensors" in again.text


def test_resuming_with_another_seed_is_refused(box):
    box.train("seeded", train__steps=2)
    assert "seed" in box.train("seeded", "--resume", train__steps=4, train__seed=9, expect=2).text


def test_a_new_run_does_not_mix_with_an_earlier_one(box):
    first = box.train("used", train__steps=2)
    again = box.train("used", train__steps=1, expect=2)
    assert "step-000002" in again.text
    assert "--resume" in again.text
    assert first.checkpoint.is_dir()


def test_resuming_nothing_is_refused(box):
    assert "no checkpoint" in box.train("nothing", "--resume", expect=2).text


def test_the_result_is_a_hugging_face_directory(box):
    from transformers import AutoModelForCausalLM

    run = box.train("loadable", train__steps=1)
    model = AutoModelForCausalLM.from_pretrained(run.checkpoint)
    logits = model(torch.arange(8)[None]).logits
    assert logits.shape == (1, 8, 96)
    assert torch.isfinite(logits).all()


def test_an_interrupt_saves_and_exits_130(box):
    job = box.job("interrupted", train__steps=100000)
    file = box.folder / "interrupted.yaml"
    file.write_text(json.dumps(job))
    process = subprocess.Popen([FERRY, "train", str(file)], stdout=subprocess.PIPE, text=True)
    log = box.folder / "interrupted" / "log.jsonl"
    deadline = time.monotonic() + 60
    while not (log.exists() and len(log.read_text().splitlines()) >= 3):
        assert time.monotonic() < deadline, "no steps within a minute"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    steps = len(log.read_text().splitlines())
    assert (box.folder / "interrupted" / "checkpoints" / f"step-{steps:06d}").is_dir()
    whole = box.train("interrupted", "--resume", train__steps=steps + 2)
    assert len(whole.losses) == steps + 2


def test_evaluation_sees_every_held_out_token_once(box):
    """Two ways to cut the held-out rows into batches give one loss."""
    losses = []
    for name, size in (("eval-2", 2), ("eval-3", 3)):
        run = box.train(
            name,
            train__steps=1,
            train__eval_every=1,
            optim__lr=1e-12,
            train__micro_batch_size=size,
            data__eval_fraction=0.3,
        )
        losses.append(run.summary["eval_loss"])
    assert abs(losses[0] - losses[1]) < 1e-5 * losses[0]
