"""Commands. Results go to standard output, errors to standard error: exit code 2 when the user can repair
it, 3 when the machine refused.

`tokenize` and `init` print one JSON object as their last line, which ferry reads.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from ferry_tools.errors import DataError

READER_GONE = 128 + signal.SIGPIPE  # as the shell tells of a program that SIGPIPE ended


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text}")
    return number


def part(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"expected a part below 1, found {text}")
    return number


def weights(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def add_sources(command: argparse.ArgumentParser) -> None:
    command.add_argument("sources", type=Path, nargs="+", help="JSONL, JSON, CSV, .txt, .gz, Parquet, .tokens, folders")
    command.add_argument("--weights", type=weights, help="how often the rows of each come, between commas")
    command.add_argument("--model", type=Path, required=True, help="folder with the tokenizer")
    command.add_argument("--text-key", help="the key that holds the text")
    command.add_argument("--chat-template", help="a name or a file")
    command.add_argument("--on-error", choices=["stop", "skip"], default="stop", help="at a row that cannot be used")
    command.add_argument("--sequence", type=positive, default=1024, help="tokens per row")
    command.add_argument("--held-out", type=part, default=0, help="part of each file's rows, the last ones")
    command.add_argument("--processes", type=positive, help="that tokenise at once, at most")
    command.add_argument("--cache", type=Path, default=Path(".cache/tokens"), help="folder of token files")


def parser() -> argparse.ArgumentParser:
    from ferry_tools.make_model import ARCHITECTURES, DTYPES, PRESETS

    top = argparse.ArgumentParser(prog="ferry", description="the text side of ferry")
    commands = top.add_subparsers(dest="command", required=True)
    add_sources(commands.add_parser("tokenize", help="make a token file, or find it"))
    preview = commands.add_parser("preview", help="show what is learned")
    add_sources(preview)
    preview.add_argument("--samples", type=positive, default=3)
    init = commands.add_parser("init", help="make a model with random weights")
    init.add_argument("out", type=Path)
    init.add_argument("--arch", choices=ARCHITECTURES, default="llama")
    init.add_argument("--preset", choices=sorted(PRESETS), default="nano")
    init.add_argument("--seed", type=int, default=1)
    init.add_argument("--dtype", choices=sorted(DTYPES), default="fp32")
    init.add_argument("--corpus", type=Path, help="text to train the tokenizer on")
    data = commands.add_parser("make-data", help="write arithmetic word problems as JSONL")
    data.add_argument("out", type=Path)
    data.add_argument("--rows", type=positive, default=4000)
    data.add_argument("--seed", type=int, default=1)
    generate = commands.add_parser("generate", help="continue a prompt")
    generate.add_argument("model", type=Path, help="a model's folder, or a run's")
    generate.add_argument("--prompt", required=True)
    generate.add_argument("--chat", action="store_true", help="the prompt is a user's turn")
    generate.add_argument("--system", help="with --chat: the turn before it")
    generate.add_argument("--max-new-tokens", type=positive, default=64)
    events = commands.add_parser("tensorboard", help="follow a run's log as event files, until standard input ends")
    events.add_argument("--log", type=Path, default=Path("log.jsonl"))
    events.add_argument("--to", type=Path, default=Path("tensorboard"), help="folder of the event files")
    events.add_argument("--after", type=int, default=0, help="steps done before the run began")
    events.add_argument("--earlier", type=int, default=0, help="inode of a log that the run is going to replace")
    events.add_argument("--check", action="store_true", help="only say whether the package can be used")
    return top


def question_of(arguments: argparse.Namespace):
    from ferry_tools.make_tokens import Question
    from ferry_tools.mix import Part
    from ferry_tools.processes import MOST_PROCESSES

    shares = arguments.weights or [1.0] * len(arguments.sources)
    if len(shares) != len(arguments.sources):
        raise DataError(f"--weights: {len(shares)} for {len(arguments.sources)} files; expected one for each")
    return Question(
        parts=[Part(path, weight) for path, weight in zip(arguments.sources, shares, strict=True)],
        model=arguments.model,
        sequence=arguments.sequence,
        text_key=arguments.text_key,
        chat_template=arguments.chat_template,
        skips=arguments.on_error == "skip",
        held_out=arguments.held_out,
        processes=arguments.processes or MOST_PROCESSES,
    )


def run(arguments: argparse.Namespace) -> None:
    """Runs one command. Libraries are imported by those that need them: transformers takes seconds."""
    if arguments.command in ("tokenize", "preview"):
        from ferry_tools.make_tokens import make_token_file
        from ferry_tools.preview import preview

        question = question_of(arguments)
        made = make_token_file(question, arguments.cache)
        notes = made.pop("notes")
        if arguments.command == "tokenize":
            print(json.dumps(made))
        else:
            repeats = any(part.weight > 1 for part in question.parts)
            path, held_out = Path(made["path"]), made["held_out"]
            print(preview(path, arguments.model, arguments.sequence, arguments.samples, repeats, held_out, notes))
    elif arguments.command == "init":
        from ferry_tools.make_model import make_model

        made = make_model(
            arguments.out, arguments.arch, arguments.preset, arguments.seed, arguments.dtype, arguments.corpus
        )
        print(json.dumps(made))
    elif arguments.command == "make-data":
        from ferry_tools.make_data import write_problems

        write_problems(arguments.out, arguments.rows, arguments.seed)
    elif arguments.command == "tensorboard":
        try:
            from ferry_tools.tensorboard import write_events
        except ImportError as error:
            raise DataError(
                f"train.report_to: the package tensorboard cannot be used: {error}; try: pip install tensorboard"
            ) from None
        if not arguments.check:
            write_events(arguments.log, arguments.to, arguments.after, arguments.earlier)
    else:
        from ferry_tools.generate import generate

        print(generate(arguments.model, arguments.prompt, arguments.max_new_tokens, arguments.chat, arguments.system))


def main() -> int:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # processes are forked, which its threads do not survive
    try:
        run(parser().parse_args())
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough; nothing is left to be written at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"ferry_tools {' '.join(sys.argv[1:2])}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
