"""The predicted step over the memory of each GPU, as a table and as the picture of docs/planner.md.

Plans two jobs, each with 8 to 160 GiB per GPU, as `ferry plan` answers them: the 15B example of
docs/planner.md on four GPUs, and a Qwen2.5-7B shape (28 layers, hidden 3584, 8 micro-batches of
1 x 1024) on machines/desktop-4090.yaml. The machines' memory is changed and nothing else. Takes some
minutes the first time and seconds when the plans are kept (docs/planner.md, "Kept plans").

    .venv/bin/python bench/step_over_memory.py [--svg docs/step_over_memory.svg] [--from 8] [--to 160] [--by 8]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
DOES_NOT_FIT = 4

GPT_15B = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_layer": 48,
    "n_embd": 5120,
    "n_head": 40,
    "n_positions": 1024,
    "vocab_size": 50257,
}
QWEN_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
    "vocab_size": 152064,
}


@dataclass(frozen=True)
class Case:
    name: str
    model: dict
    machine: str
    colour: str


CASES = (
    Case("15B, four GPUs", GPT_15B, "4x3090ti-2+2", "#2f6fc4"),
    Case("7B, one GPU", QWEN_7B, "desktop-4090", "#c4632f"),
)


@dataclass(frozen=True)
class Answer:
    """Of one plan; seconds."""

    gib: int
    step: float
    bound: float


def plan(case: Case, gib: int, folder: Path) -> Answer | None:
    """None where nothing fits."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(case.model))
    machine = yaml.safe_load((ROOT / "machines" / f"{case.machine}.yaml").read_text())
    for group in machine["devices"]:
        group["memory"] = f"{gib} GiB"
    (folder / "machine.yaml").write_text(json.dumps(machine))
    job = {
        "model": str(model),
        "data": {"sequence": 1024},
        "train": {"micro_batches": 8, "micro_batch_size": 1, "precision": "bf16"},
        "machine": str(folder / "machine.yaml"),
        "plan": {"profile": "estimate"},
        "out": str(folder / "out"),
    }
    (folder / "job.yaml").write_text(json.dumps(job))
    done = subprocess.run([FERRY, "plan", str(folder / "job.yaml"), "--json"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == DOES_NOT_FIT:
        return None
    if done.returncode != 0:
        sys.exit(f"{case.name}, {gib} GiB: exit {done.returncode}\n{done.stdout}{done.stderr}")
    answer = json.loads(done.stdout)
    return Answer(gib, answer["step_seconds"], answer["lower_bound_seconds"])


WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 130, 14, 40
LINE = 15  # between two lines of text


def apart(labels: list[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """(y, text, colour) from the top down, each moved down as far as the one above needs."""
    placed = []
    for at, words, colour in sorted(labels):
        placed.append((max(at, placed[-1][0] + LINE) if placed else at, words, colour))
    return placed


def picture(curves: list[tuple[Case, list[Answer]]], least: int, most: int) -> str:
    """The curves, a dashed line at each case's bound, and axes, as SVG that reads on white and on black."""
    top = max(answer.step for _, answers in curves for answer in answers) * 1.05

    def x(gib: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (gib - least) / max(1, most - least)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / top

    def text(at_x: float, at_y: float, words: str, anchor: str = "middle", colour: str = "#808080") -> str:
        return f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'

    def line(x0: float, y0: float, x1: float, y1: float, style: str) -> str:
        return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {style}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12">'
    ]
    seconds_apart = next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100) if top / step <= 8)
    for i in range(int(top / seconds_apart) + 1):
        at = y(i * seconds_apart)
        parts.append(line(LEFT, at, WIDTH - RIGHT, at, 'stroke="#808080" stroke-opacity="0.25"'))
        parts.append(text(LEFT - 6, at + 4, f"{i * seconds_apart:g} s", "end"))
    for gib in range(-(-least // 16) * 16, most + 1, 16):
        parts.append(line(x(gib), HEIGHT - BOTTOM, x(gib), HEIGHT - BOTTOM + 4, 'stroke="#808080"'))
        parts.append(text(x(gib), HEIGHT - BOTTOM + 17, str(gib)))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "GiB of memory per GPU"))
    labels = []
    for case, answers in curves:
        points = " ".join(f"{x(answer.gib):.1f},{y(answer.step):.1f}" for answer in answers)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{case.colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(a.gib):.1f}" cy="{y(a.step):.1f}" r="2" fill="{case.colour}"/>' for a in answers]
        bound = f'stroke="{case.colour}" stroke-dasharray="4 4"'
        points = " ".join(f"{x(answer.gib):.1f},{y(answer.bound):.1f}" for answer in answers)
        parts.append(f'<polyline points="{points}" fill="none" {bound}/>')
        last = answers[-1]
        labels += [(y(last.step) + 4, case.name, case.colour), (y(last.bound) + 4, "its lower bound", case.colour)]
    parts += [text(WIDTH - RIGHT + 8, at, words, "start", colour) for at, words, colour in apart(labels)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=Path, help="where to draw; without it the table alone is printed")
    parser.add_argument("--from", dest="least", type=int, default=8, help="GiB per GPU; 8")
    parser.add_argument("--to", dest="most", type=int, default=160, help="GiB per GPU; 160")
    parser.add_argument("--by", type=int, default=8, help="GiB between two plans; 8")
    asked = parser.parse_args()
    sizes = range(asked.least, asked.most + 1, asked.by)
    curves = []
    print(f"{'':16} {'GiB per GPU':>12} {'step':>10} {'bound':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            answers = []
            for gib in sizes:
                answer = plan(case, gib, Path(folder))
                if answer is None:
                    print(f"{case.name:16} {gib:12} {'does not fit':>21}", flush=True)
                    continue
                answers.append(answer)
                print(f"{case.name:16} {gib:12} {answer.step:8.2f} s {answer.bound:8.2f} s", flush=True)
            if answers:
                curves.append((case, answers))
    if asked.svg and curves:
        asked.svg.write_text(picture(curves, asked.least, asked.most))
        print(f"picture written to {asked.svg}")


if __name__ == "__main__":
    main()
