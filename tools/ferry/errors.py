"""What the program's exit codes mean (docs/formats/cli.md), as exceptions."""


class FerryError(Exception):
    """Anything that kept a command from ending with 0. Its text is what the program said."""


class UserError(FerryError):
    """What was asked is wrong: a job, a machine, a plan, data, an option; or training diverged."""


class ResourceError(FerryError):
    """The machine refused: memory, disk space, a device, a permission."""


class DoesNotFit(FerryError):
    """The job does not fit. `answer` is what `ferry plan --json` says of it."""

    def __init__(self, answer: dict):
        self.answer = answer
        self.place: str = answer["place"]
        self.need_bytes: int = answer["need_bytes"]
        self.have_bytes: int = answer["have_bytes"]
        self.limit: str = answer["limit"]
        self.breakdown: dict[str, int] = answer["breakdown"]
        self.remedies: list[dict] = answer["remedies"]
        tries = "".join(f"\n  try: {remedy['change']}" for remedy in self.remedies)
        super().__init__(
            f"{self.place} needs {self.need_bytes} bytes and has {self.have_bytes} ({self.limit}){tries}"
        )


class Interrupted(FerryError):
    """The run was asked to stop. `checkpoint` is where it goes on from; None: nothing was saved."""

    def __init__(self, checkpoint: str | None):
        self.checkpoint = checkpoint
        super().__init__(f"interrupted; saved as {checkpoint}" if checkpoint else "interrupted; nothing was saved")
