"""Checkpoints: resuming goes on as if nothing had happened, under any budget."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from conftest import FERRY, contents, machine, states_bytes


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


def test_an_evaluation_that_an_interruption_left_out_is_made_up_for(box):
    every = {"train__eval_every": 2, "data__eval_fraction": 0.1}
    first = box.train("evaluated", train__steps=4, **every)
    made = {line["step"]: line["eval_loss"] for line in first.log if "eval_loss" in line}
    assert list(made) == [2, 4]
    log = first.out / "log.jsonl"
    # As a signal leaves it that comes during step 4.
    lines = [line for line in first.log if not ("eval_loss" in line and line["step"] == 4)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    second = box.train("evaluated", "--resume", train__steps=5, **every)
    again = {line["step"]: line["eval_loss"] for line in second.log if "eval_loss" in line}
    assert again == made, "once each, with the weights of its step"


def test_lines_of_the_log_that_are_of_no_step_are_left_out(box):
    first = box.train("log", train__steps=2)
    losses, log = first.losses, first.out / "log.jsonl"
    foreign = ['{"step": "two", "loss": 1}', '{"step": [1], "loss": 1}', '{"step": 1.5}', '{"loss": 1}', "2", "{"]
    log.write_text("\n".join([*foreign, log.read_text()]))
    second = box.train("log", "--resume", train__steps=4)
    assert second.losses[:2] == losses
    assert [line["step"] for line in second.log] == [1, 2, 3, 4]


def test_a_bf16_run_resumes_bit_for_bit(box):
    whole = box.train("bf16-whole", train__precision="bf16")
    box.train("bf16-broken", train__precision="bf16", train__steps=5)
    run = box.train("bf16-broken", "--resume", train__precision="bf16")
    assert run.losses == whole.losses


def test_a_resumed_run_plans_for_as_many_clipped_steps_as_it_has_seen(box, tmp_path, monkeypatch):
    monkeypatch.setenv("FERRY_CACHE", str(tmp_path))

    def expected() -> set[str]:
        plans = [json.loads(plan.read_text())["question"] for plan in tmp_path.glob("plans/*.json")]
        return {re.search(r"clipped: (\S+)", plan)[1] for plan in plans}

    box.train("clipped", train__steps=10, optim__clip=1e-3)
    assert expected() == {"null"}, "a new run knows of none"
    box.train("clipped", "--resume", train__steps=11, optim__clip=1e-3)
    assert expected() == {"null", "1"}, "every step's norm is above 0.001"
    box.train("clipped", "--resume", train__steps=12, optim__clip=1e-3, plan__clipped=0.5)
    assert expected() == {"null", "1", "0.5"}, "the job's own word counts"


def test_only_the_newest_checkpoints_are_kept(box):
    run = box.train("kept", train__save_every=2, train__keep=2)
    assert sorted(p.name for p in (run.out / "checkpoints").iterdir()) == ["step-000008", "step-000010"]


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_refused_and_an_older_sound_one_named(box):
    run = box.train("damaged", train__steps=6, train__save_every=2, train__keep=3)
    folder = run.out / "checkpoints"
    damage(folder / "step-000006" / "ferry" / "optimizer.safetensors")
    (folder / "step-000004" / "config.json").write_text("{}")
    before = contents(run.out)
    said = box.train("damaged", "--resume", train__steps=8, expect=2).text
    assert "step-000006/ferry/optimizer.safetensors: damaged" in said
    assert f"try: --resume 2, whose checksums are right: {folder}/step-000002" in said
    assert contents(run.out) == before
    assert "--resume 2, whose checksums" in box.train("damaged", "--resume", "4", train__steps=8, expect=2).text
    damage(folder / "step-000002" / "model.safetensors")
    assert "no older checkpoint is sound" in box.train("damaged", "--resume", train__steps=8, expect=2).text


@pytest.fixture(scope="module")
def saved(box):
    """A run of two steps."""
    return box.train("saved", train__steps=2, data__eval_fraction=0.1)


def refusal(program: Path, box, *words: str) -> str:
    """What `ferry --resume` of the run `saved` says that it is refused with."""
    command = [program, "train", box.folder / "saved.yaml", "--resume", "train.steps=3", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("data.sequence=16", "data.sequence: then 32, now 16"), ("data.shuffle=true", "data.shuffle"),
        ("data.packing=true", "data.packing"), ("data.text_key=body", "data.text_key"),
        ("train.micro_batches=1", "train.micro_batches: then 3, now 1"),
        ("train.micro_batch_size=1", "train.micro_batch_size: then 2, now 1"), ("train.seed=9", "train.seed"),
    ],
)  # fmt: skip
def test_other_rows_are_refused_at_once(box, saved, ferry_alone, change, key):
    said = refusal(ferry_alone, box, change)
    name = key.split(":")[0]
    assert key in said and f"--allow {name} to go on all the same" in said
    assert f"or a new run with model: {saved.checkpoint}" in said


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"num_attention_heads": 8, "head_dim": 8}, "model.heads: then 4, now 8"),
        ({"rope_theta": 500.0, "rope_parameters": None}, "model.positions"),
        ({"tie_word_embeddings": True}, "model.tied: then false, now true"),
        ({"num_hidden_layers": 13}, "model.layers: then 14, now 13"),
    ],
)
def test_another_network_is_refused_at_once(box, saved, ferry_alone, tmp_path, config, key):
    shutil.copytree(box.model, tmp_path / "base")
    file = tmp_path / "base" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    said = refusal(ferry_alone, box, f"model={tmp_path}/base", "--allow", "data.sequence")
    assert key in said and "--allow" not in said


def with_another_token(box) -> str:
    """The tokens under the same header, but for one."""
    content = bytearray(box.tokens.read_bytes())
    content[80 + 8 * 38] ^= 1
    other = box.folder / "other.tokens"
    other.write_bytes(content)
    return str(other)


def test_other_tokens_and_numbers_are_refused_when_they_are_known(box, saved):
    before = contents(saved.out)
    assert "data.eval_fraction: then 3 rows, now 7 rows" in refusal(FERRY, box, "data.eval_fraction=0.2")
    assert "train.precision: then fp32, now bf16" in refusal(FERRY, box, "train.precision=bf16")
    assert "data.train: then " in refusal(FERRY, box, f"data.train={with_another_token(box)}")
    assert contents(saved.out) == before


def test_other_held_out_rows_are_refused(box):
    run = box.train("held-out", train__steps=1, data__eval=str(box.tokens))
    before = contents(run.out)
    changed = {"train__steps": 2, "data__eval": with_another_token(box)}
    assert "\n  data.eval: then " in box.train("held-out", "--resume", expect=2, **changed).text
    assert contents(run.out) == before


def test_what_has_changed_is_said_and_what_is_allowed_goes_on(box):
    box.train("listed", train__steps=2)
    changes = {"optim__lr": 1e-3, "train__steps": 4, "data__sequence": 16}
    variable = "ATEN_CPU_CAPABILITY"
    other = "avx2" if os.environ.get(variable) == "default" else "default"
    before = os.environ.pop(variable, None)
    os.environ[variable] = other
    try:
        run = box.train("listed", "--resume", "--allow", "sequence", **changes)
    finally:
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before
    assert len(run.losses) == 4
    assert "changed since step 2: optim.lr: then 0.01, now 0.001\n" in run.text
    changed = re.compile(r"^changed since step \d+: ([\w.]+): then ", re.MULTILINE)
    assert changed.findall(run.text) == ["data.sequence", "optim.lr", "processor", "train.steps"]
    # What was allowed is the checkpoint's own now.
    again = box.train("listed", "--resume", **changes | {"train__steps": 5})
    assert changed.findall(again.text) == ["processor", "train.steps"]


def test_other_batches_go_on_where_the_data_stood(box):
    """Three steps of 6 rows, then two of 3: as many rows are behind each checkpoint as were learned."""
    changes = {"train__save_every": 1, "train__keep": 9}
    box.train("halved", train__steps=3, **changes)
    smaller = changes | {"train__steps": 5, "train__micro_batch_size": 1}
    run = box.train("halved", "--resume", "--allow", "micro_batch_size", **smaller)
    manifests = sorted((run.out / "checkpoints").glob("*/ferry/manifest.json"))
    assert [json.loads(file.read_text())["sequences"] for file in manifests] == [6, 12, 18, 21, 24]
    of_threes = box.train("threes", train__steps=8, train__micro_batch_size=1)
    tokens = [[line["tokens"] for line in each.log if "loss" in line] for each in (run, of_threes)]
    assert tokens[0][3:] == tokens[1][6:], "rows 18 to 23"
    assert tokens[0][3:] != tokens[1][3:5], "and not 9 to 14"
    text = box.train("halved", "--resume", "--dry-run", "train.epochs=1", **smaller).text
    (rows, steps) = map(int, re.search(r"1 epochs of (\d+) rows: (\d+) steps", text).groups())
    assert steps == 5 + -(-(rows - 24) // 3), "those done, and the rest of the epoch in threes"


def test_a_choice_of_kernels_in_the_environment_is_said(box, monkeypatch):
    """MKL_CBWR and the like move the last bits, as another processor does."""
    box.train("kernels", train__steps=1)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    text = box.train("kernels", "--resume", train__steps=2).text
    assert re.search(r"changed since step 1: processor: then .*, now .*, MKL_CBWR=COMPATIBLE", text), text


def test_what_follows_allow_is_no_name(box):
    box.train("allowed", train__steps=1)
    words = ["--resume", "--allow", "sequence", "data.sequence=16", "train.steps=2"]
    assert len(box.train("allowed", *words).losses) == 2


def test_a_resume_with_nothing_to_do_says_so_and_writes_nothing(box, saved, ferry_alone):
    before = contents(saved.out)
    command = [ferry_alone, "train", box.folder / "saved.yaml", "--resume"]
    for words in ([], ["train.steps=1"]):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True, timeout=60)
        assert f"{saved.checkpoint}: nothing to do: 2 of {1 if words else 2} steps are done" in done.stdout
    assert contents(saved.out) == before


def test_a_checkpoint_of_the_first_release_is_a_model_to_begin_with(box, saved, ferry_alone, tmp_path):
    folder = tmp_path / "checkpoints" / "step-000002"
    shutil.copytree(saved.checkpoint, folder)
    shutil.move(folder / "ferry" / "manifest.json", folder / "manifest.json")
    said = refusal(ferry_alone, box, f"out={tmp_path}")
    assert f"{folder} was saved by ferry 0.1" in said and f"try: a new run with model: {folder}" in said


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


def test_an_upload_may_still_run_when_its_slots_last_reader_is_enqueued_again(tied_box):
    """Evaluation waits for nothing on the host, so the device is given two steps at once."""
    throttled = {"strategy": "roundpipe", "machine": str(machine(tied_box.folder, 1, "20 MB/s"))}
    rows = {"data__eval_fraction": 0.7, "train__micro_batches": 2, "train__micro_batch_size": 1}
    run = tied_box.train("two-steps-ahead", train__steps=1, train__eval_every=1, **rows, **throttled)
    other = tied_box.train("in-memory", train__steps=1, train__eval_every=1, **rows)
    assert run.log[1]["eval_loss"] == other.log[1]["eval_loss"]


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
