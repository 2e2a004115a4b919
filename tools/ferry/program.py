"""Runs the program `ferry` and turns what it answers into Python."""

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ferry.errors import DoesNotFit, FerryError, Interrupted, ResourceError, UserError

PLACES = (
    Path(__file__).parent / "bin/ferry",  # of an installed package
    Path(__file__).parents[2] / "build/release/ferry",  # of the source folder
)

Job = str | Path | Mapping


def program() -> Path:
    """The program that belongs to this package; else the one on PATH."""
    on_path = shutil.which("ferry")
    for place in (*PLACES, *([Path(on_path)] if on_path else [])):
        if place.exists():
            return place
    raise ResourceError(f"no program ferry in {PLACES[0].parent}, nor on PATH; build or install it (docs/install.md)")


def text_of(value: object) -> str:
    """A value as overrides are written: `true`, `null`, `[0.9, 0.95]`, `{gpu0: 24 GiB}`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value)


def arguments_of(overrides: Mapping) -> list[str]:
    """`{"train": {"steps": 5}, "optim.lr": 1e-5}` as `train.steps=5 optim.lr=1e-05`."""
    arguments = []
    for name, value in overrides.items():
        keys = {f"{name}.{key}": item for key, item in value.items()} if is_section(name, value) else {name: value}
        arguments += [f"{key}={text_of(item)}" for key, item in keys.items()]
    return arguments


def is_section(name: str, value: object) -> bool:
    """`optim={...}` holds keys; `{"budget.device": {...}}` is one key's value."""
    return isinstance(value, Mapping) and "." not in name


@contextmanager
def job_file(job: Job) -> Iterator[str]:
    """The job's path; a mapping is written to a file, which is JSON and so YAML, meanwhile."""
    if not isinstance(job, Mapping):
        yield str(job)
        return
    with tempfile.TemporaryDirectory(prefix="ferry-") as folder:
        file = Path(folder) / "job.yaml"
        file.write_text(json.dumps(job, indent=1, default=str))
        yield str(file)


def failure(code: int, text: str, answer: dict) -> FerryError:
    """The exception of an exit code; `text` is what stood on standard error."""
    said = answer.get("error") or text.strip() or f"ferry ended with exit code {code} and said nothing"
    if code < 0 and code != -signal.SIGINT:
        ended = f"ferry was ended by signal {-code}: {signal.strsignal(-code)}"
        said = f"{text.strip()}\n{ended}".strip()  # a text before it need not be the reason
    if code == 2:
        return UserError(said)
    if code == 3:
        return ResourceError(said)
    if code == 4:
        return DoesNotFit(answer)
    if code in (130, -signal.SIGINT):
        return Interrupted(answer.get("checkpoint"))
    return FerryError(said)


def answered(*arguments: str) -> dict:
    """Runs a command that answers in JSON."""
    done = subprocess.run(
        [program(), *arguments], capture_output=True, text=True, errors="surrogateescape", stdin=subprocess.DEVNULL
    )
    if done.returncode < 0:  # its answer may be half of one
        raise failure(done.returncode, done.stderr, {})
    answer = json.loads(done.stdout) if done.stdout.strip() else {}
    if done.returncode != 0:
        raise failure(done.returncode, done.stderr, answer)
    return answer
