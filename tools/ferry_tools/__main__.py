"""Commands. Results go to standard output, errors to standard error: exit code 2 when the user can repair
it, 3 when the machine refused.

`tokenize` and `init` print one JSON object as their last line, which ferry reads.
"""

import argparse
import json
import sys
from pathlib import Path

from ferry_tools.errors import DataError


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text}")
    return number


def add_source(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", type=Path, help="JSONL, plain .txt, or a .tokens file")
    command.add_argument("--model", type=Path, required=True, help="folder with the tokenizer")
    command.add_argument("--text-key", help="the key that holds the text")
    command.add_argument("--sequence", type=positive, default=1024, help="tokens per row")
    command.add_argument("--cache", type=Path, default=Path(".cache/tokens"), help="folder of token files")


def parser() -> argparse.ArgumentParser:
    from ferry_tools.make_model import ARCHITECTURES, DTYPES, PRESETS

    top = argparse.ArgumentParser(prog="ferry_tools", description="the text side of ferry")
    commands = top.add_subparsers(dest="command", required=True)
    add_source(commands.add_parser("tokenize", help="make a token file, or find it"))
    preview = commands.add_parser("preview", help="show what is learned")
    add_source(preview)
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
    generate.add_argument("model", type=Path)
    generate.add_argument("--prompt", required=True)
    generate.add_argument("--max-new-tokens", type=positive, default=64)
    return top


def run(arguments: argparse.Namespace) -> None:
    """Runs one command. Libraries are imported by those that need them: transformers takes seconds."""
    if arguments.command in ("tokenize", "preview"):
        from ferry_tools.make_tokens import Source, make_token_file
        from ferry_tools.preview import preview

        source = Source(arguments.source, arguments.model, arguments.text_key, arguments.sequence)
        made = make_token_file(source, arguments.cache)
        if arguments.command == "tokenize":
            print(json.dumps(made))
        else:
            print(preview(Path(made["path"]), arguments.model, arguments.sequence, arguments.samples))
    elif arguments.command == "init":
        from ferry_tools.make_model import make_model

        made = make_model(
            arguments.out, arguments.arch, arguments.preset, arguments.seed, arguments.dtype, arguments.corpus
        )
        print(json.dumps(made))
    elif arguments.command == "make-data":
        from ferry_tools.make_data import write_problems

        write_problems(arguments.out, arguments.rows, arguments.seed)
    else:
        from ferry_tools.generate import generate

        print(generate(arguments.model, arguments.prompt, arguments.max_new_tokens))


def main() -> int:
    try:
        run(parser().parse_args())
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"ferry_tools {' '.join(sys.argv[1:2])}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
