"""`ferry` on PATH: goes on as the program."""

import os
import sys

from ferry.errors import ResourceError
from ferry.program import program


def main() -> None:
    try:
        path = program()
    except ResourceError as error:
        sys.exit(f"ferry: {error}")
    os.execv(path, ["ferry", *sys.argv[1:]])


if __name__ == "__main__":
    main()
