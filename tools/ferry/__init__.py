"""ferry from Python: the same program, its answers as dicts and its events as an iterator.

    import ferry

    plan = ferry.plan("job.yaml", budget={"device": "64 MiB"})
    print(plan["step_seconds"], plan["places"])
    for event in ferry.train("job.yaml", train={"steps": 100}):
        if event["event"] == "step":
            print(event["step"], event["loss"])

A job is a file or a mapping with its keys (docs/formats/job.md). Keys given beside it win over it, by section or
by name: `optim={"lr": 1e-5}`, `**{"optim.lr": 1e-5}`. What is refused is raised, by who can repair it: UserError,
ResourceError, DoesNotFit with what would fit, Interrupted.
"""

from collections.abc import Sequence
from pathlib import Path

from ferry.errors import DoesNotFit, FerryError, Interrupted, ResourceError, UserError
from ferry.program import Job, answered, arguments_of, job_file
from ferry.training import Run

__all__ = [
    "DoesNotFit", "FerryError", "Interrupted", "Plan", "ResourceError", "Run", "UserError", "plan", "simulate", "train",
]  # fmt: skip


class Plan(dict):
    """What `ferry plan --json` answers; `file` is the plan's. A folder with a run in it keeps the run's plan."""

    @property
    def file(self) -> Path:
        if self["file"] is None:
            raise FileNotFoundError("no plan was written: `out` holds a run; name an `output`")
        return Path(self["file"])


def plan(job: Job, *, output: str | Path | None = None, **overrides: object) -> Plan:
    """Whether and how a job fits; DoesNotFit when it does not. `output`: where the plan is written."""
    to = ["-o", str(output)] if output else []
    with job_file(job) as file:
        return Plan(answered("plan", file, *arguments_of(overrides), *to, "--json"))


def simulate(plan: Plan | str | Path, *, html: str | Path | None = None) -> dict:
    """A plan's predicted timeline, as `ferry simulate --json` tells it. `html`: a page of it."""
    page = ["--html", str(html)] if html else []
    return answered("simulate", str(plan.file if isinstance(plan, Plan) else plan), *page, "--json")


def train(
    job: Job,
    *,
    resume: bool | int = False,
    allow: Sequence[str] = (),
    plan_file: str | Path | None = None,
    **overrides: object,
) -> Run:
    """Runs a job: an iterator of its events, which begins with the first one that is asked for.

    `resume`: True goes on from the newest checkpoint, a number from that after so many steps; `allow` names what
    may have changed since.
    """
    options = [] if resume is False else ["--resume"] if resume is True else [f"--resume={resume}"]
    options += ["--allow", ",".join(allow)] if allow else []
    options += ["--plan", str(plan_file)] if plan_file else []
    return Run(job, [*arguments_of(overrides), *options])
