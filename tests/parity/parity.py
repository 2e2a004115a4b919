"""Holds ferry's blocks against transformers on the same weights: logits, loss, every gradient.

fp32: the relative error (norm of the difference over norm of the reference) of the logits, of the
loss and of each gradient is at most 1e-5.

bf16 (where the CPU computes in it): the reference is transformers in fp32 on the same bf16 weights.
Ferry's relative error must be at most 1.1 times that of transformers' own bf16 run, for the logits
and for all gradients together (one norm over all of them), per model. A ratio of two roundings is a
matter of luck, and of the CPU's kernels, so errors are root mean squares over seeds. The loss is one
number, so its error is taken over all models too; and each tensor's is the geometric mean over a
model's tensors of the ratio of the two errors. No single tensor's error may be more than twice that
of transformers'.

Usage: parity.py PARITY_PROGRAM [--print]
"""

import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import models
import torch

BATCH, TIME, CHUNK_ROWS = 3, 40, 50  # the last chunk is a short one
FP32_BOUND, BF16_BOUND, BF16_TENSOR_BOUND = 1e-5, 1.1, 2.0
BF16_SEEDS = (2, 3, 4)


@dataclass
class Outcome:
    """What one run computed, in fp32. A tied head's gradient is in its embedding's."""

    logits: torch.Tensor
    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]


@dataclass
class Case:
    """A model, its batch, and where ferry finds both."""

    name: str
    model: torch.nn.Module
    ids: torch.Tensor
    labels: torch.Tensor
    directory: Path
    reference: Outcome
    theirs: Outcome | None  # transformers in bf16


def run_transformers(model: torch.nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> Outcome:
    """One forward and backward; the loss is taken over fp32 logits, as transformers does."""
    model.zero_grad()
    logits = model(input_ids=ids, use_cache=False).logits.float()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    gradients = {name: p.grad.float() for name, p in model.named_parameters()}
    return Outcome(logits.detach(), loss.detach(), gradients)


def prepare(name: str, directory: Path, seed: int, bf16: bool) -> Case:
    """Builds the model, runs transformers on it, and writes what ferry needs."""
    model = models.build(models.configurations()[name], seed)
    if bf16:
        model.bfloat16()
    ids = torch.randint(model.config.vocab_size, (BATCH, TIME))
    if model.config.pad_token_id is not None:
        ids[:, ::7] = model.config.pad_token_id
    labels = torch.randint(model.config.vocab_size, (BATCH, TIME))
    labels[0, 30:] = labels[1, 5] = -100
    models.write_model(directory, model)
    models.write_raw(directory / "ids.raw", ids)
    models.write_raw(directory / "labels.raw", labels)
    scale = 1.0 / (labels != -100).sum().item()
    precision = "bf16" if bf16 else "fp32"
    (directory / "batch.txt").write_text(f"{BATCH} {TIME} {precision} {scale!r} {CHUNK_ROWS} 1\n")
    theirs = run_transformers(model, ids, labels) if bf16 else None
    reference = run_transformers(model.float(), ids, labels)
    return Case(name, model, ids, labels, directory, reference, theirs)


def read_raw(path: Path, like: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32).view(like.shape)


def read_ours(case: Case) -> Outcome:
    """What parity_program wrote."""
    reference = case.reference
    return Outcome(
        read_raw(case.directory / "logits.raw", reference.logits),
        read_raw(case.directory / "loss.raw", reference.loss),
        {
            name: read_raw(case.directory / f"{name}.grad.raw", gradient)
            for name, gradient in reference.gradients.items()
        },
    )


def relative_error(found: torch.Tensor, reference: torch.Tensor) -> float:
    difference = found.double() - reference.double()
    return (difference.norm() / reference.double().norm()).item()


def flat(gradients: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


def fp32_problems(cases: list[Case], verbose: bool) -> list[str]:
    problems = []
    for case in cases:
        ours = read_ours(case)
        errors = {
            "logits": relative_error(ours.logits, case.reference.logits),
            "loss": relative_error(ours.loss, case.reference.loss),
        }
        for name, gradient in case.reference.gradients.items():
            errors[f"gradient of {name}"] = relative_error(ours.gradients[name], gradient)
        worst = max(errors, key=lambda what: errors[what])
        if verbose:
            print(f"fp32 {case.name}: logits {errors['logits']:.1e}, worst {errors[worst]:.1e} ({worst})")
        # Written so that a NaN is a problem too.
        problems += [
            f"fp32 {case.name}: {what} is off by {error:.2e}"
            for what, error in errors.items()
            if not error <= FP32_BOUND
        ]
    return problems


def error_ratio(runs: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> float:
    """Ferry's error over transformers', each the root mean square over runs of (ours, theirs, reference)."""
    ours = math.hypot(*(relative_error(found, reference) for found, _, reference in runs))
    return ours / math.hypot(*(relative_error(found, reference) for _, found, reference in runs))


def bf16_ratios(outcomes: list[tuple[Outcome, Outcome, Outcome]]) -> tuple[dict[str, float], dict[str, float]]:
    """Of one model's runs: the ratios that summarise it, and each gradient's own."""
    tensors = {
        name: error_ratio([tuple(run.gradients[name] for run in runs) for runs in outcomes])
        for name in outcomes[0][0].gradients
    }
    summary = {
        "logits": error_ratio([tuple(run.logits for run in runs) for runs in outcomes]),
        "gradients": error_ratio([tuple(flat(run.gradients) for run in runs) for runs in outcomes]),
        "tensor by tensor": math.exp(sum(map(math.log, tensors.values())) / len(tensors)),
    }
    return summary, tensors


def bf16_problems(cases: list[Case], verbose: bool) -> list[str]:
    outcomes: dict[str, list[tuple[Outcome, Outcome, Outcome]]] = {}
    for case in cases:
        assert case.theirs is not None
        outcomes.setdefault(case.name, []).append((read_ours(case), case.theirs, case.reference))
    ratios, worst_ratios = {}, {}
    for name, some in outcomes.items():
        summary, tensors = bf16_ratios(some)
        worst = max(tensors, key=lambda tensor: tensors[tensor])
        if verbose:
            print(
                f"bf16 {name}:",
                ", ".join(f"{what} {ratio:.3f}" for what, ratio in summary.items()),
                f"(worst {tensors[worst]:.2f}, {worst})",
            )
        worst_ratios[f"bf16 {name}: gradient of {worst}"] = tensors[worst]
        ratios.update({f"bf16 {name}: {what}": ratio for what, ratio in summary.items()})
    losses = [tuple(run.loss for run in runs) for some in outcomes.values() for runs in some]
    ratios["bf16 loss over all models"] = error_ratio(losses)
    if verbose:
        print(f"bf16 loss over all models: {ratios['bf16 loss over all models']:.3f}")
    return [
        f"{what}: the error is {ratio:.3f} times transformers' own"
        for some, bound in ((ratios, BF16_BOUND), (worst_ratios, BF16_TENSOR_BOUND))
        for what, ratio in some.items()
        if not ratio <= bound
    ]


def cpu_computes_in_bf16() -> bool:
    flags = Path("/proc/cpuinfo")
    return flags.exists() and "avx512_bf16" in flags.read_text()


def main(program: str, verbose: bool) -> int:
    torch.set_num_threads(1)
    names = list(models.configurations())
    with tempfile.TemporaryDirectory() as folder:
        seeds = {"fp32": (1,), "bf16": BF16_SEEDS if cpu_computes_in_bf16() else ()}
        cases: dict[str, list[Case]] = {"fp32": [], "bf16": []}
        for precision, some in seeds.items():
            for seed in some:
                for name in names:
                    directory = Path(folder) / f"{precision} {seed} {name}"
                    directory.mkdir()
                    cases[precision].append(prepare(name, directory, seed, precision == "bf16"))
        directories = [case.directory for some in cases.values() for case in some]
        subprocess.run([program, "run", *directories], check=True)
        problems = fp32_problems(cases["fp32"], verbose)
        if cases["bf16"]:
            problems += bf16_problems(cases["bf16"], verbose)
        else:
            print("bf16 is skipped: this CPU has no avx512_bf16")
    print("\n".join(problems) or f"{len(names)} models agree with transformers")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--print" in sys.argv[2:]))
