"""Many runs that start in one folder at the same moment: one has it, the others are told and change nothing."""

import json
import random
import subprocess
import time

import pytest
from boxes import FERRY, ferry

PAIRS = 40


def read_log(out) -> list[int]:
    return [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_of_two_at_once_one_runs_and_is_whole(box, seed, resumed):
    pick = random.Random(f"{seed} {resumed}")
    name = f"pairs-{resumed}"
    out = box.folder / name
    steps = met = 0
    for number in range(PAIRS):
        where = f"seed {seed}, pair {number}"
        if resumed and number == 0:
            box.train(name, train__steps=1)
            steps = 1
        flags = ["--resume"] if resumed else []
        if not resumed:
            out = box.folder / f"{name}-{number}"
        job = {"train__steps": steps + 4, "train__save_every": 1, "out": str(out)}
        file, _ = box.write_job(name, **job)
        both = []
        for _ in range(2):
            command = [FERRY, "train", str(file), *flags]
            both.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            time.sleep(pick.choice([0, 0, 0.02, 0.2, 0.6]))
        ends = [process.communicate(timeout=300) for process in both]
        codes = [process.returncode for process in both]
        texts = [text + errors for text, errors in ends]
        # The second may come when the first has ended already.
        assert codes.count(0) >= 1, f"{where}: {codes}\n" + "\n".join(texts)
        met += any("is in use by" in text for text in texts)
        for code, text in zip(codes, texts, strict=True):
            told = "is in use by" in text or "was saved by an earlier run" in text or "nothing to do" in text
            assert code == 0 or (code == 2 and told), f"{where}: {code}\n{text}"
        steps += 4 if resumed else 0
        last = steps if resumed else 4
        assert read_log(out) == list(range(1, last + 1)), where
        assert (out / "checkpoints" / f"step-{last:06d}" / "model.safetensors").exists(), where
    assert met > 0, f"seed {seed}: no two were in the folder at once"
    ferry("train", str(box.folder / f"{name}.yaml"), "--resume", f"train.steps={last + 1}", f"out={out}")
