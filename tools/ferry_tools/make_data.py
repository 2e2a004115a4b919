"""`make-data`: arithmetic word problems in the shape of GSM8K, for demos and tests."""

import json
import random
from pathlib import Path

NAMES = ["Ada", "Ben", "Chen", "Dina", "Emil", "Fay", "Gus", "Hana", "Ivan", "Jo", "Kim", "Leo"]
THINGS = ["apples", "books", "coins", "eggs", "pens", "shells", "stamps", "toys"]
PLACES = ["bag", "box", "jar", "tray"]


def bought(pick: random.Random) -> tuple[str, str, int]:
    name, thing = pick.choice(NAMES), pick.choice(THINGS)
    a, b = pick.randint(2, 40), pick.randint(2, 40)
    question = f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have now?"
    return question, f"{name} has {a} + {b} = {a + b} {thing}.", a + b


def given_away(pick: random.Random) -> tuple[str, str, int]:
    name, thing = pick.choice(NAMES), pick.choice(THINGS)
    a = pick.randint(5, 60)
    b = pick.randint(1, a - 1)
    question = f"{name} has {a} {thing} and gives {b} away. How many {thing} are left?"
    return question, f"{a} - {b} = {a - b} {thing} are left.", a - b


def packed(pick: random.Random) -> tuple[str, str, int]:
    name, thing, place = pick.choice(NAMES), pick.choice(THINGS), pick.choice(PLACES)
    a, b = pick.randint(2, 12), pick.randint(2, 12)
    question = f"{name} fills {a} {place}s with {b} {thing} each. How many {thing} is that in all?"
    return question, f"{a} * {b} = {a * b} {thing} in all.", a * b


def two_steps(pick: random.Random) -> tuple[str, str, int]:
    name, thing, place = pick.choice(NAMES), pick.choice(THINGS), pick.choice(PLACES)
    a, b, c = pick.randint(2, 9), pick.randint(2, 9), pick.randint(2, 30)
    question = (
        f"{name} has {a} {place}s of {b} {thing} and finds {c} more. How many {thing} does {name} have?"
    )
    answer = f"In the {place}s are {a} * {b} = {a * b} {thing}. With the others, {a * b} + {c} = {a * b + c}."
    return question, answer, a * b + c


KINDS = [bought, given_away, packed, two_steps]


def problems(rows: int, seed: int) -> list[dict[str, str]]:
    """Rows with question and answer; the answer ends in `#### n`. Equal for equal seeds."""
    pick = random.Random(seed)
    made = []
    for _ in range(rows):
        question, answer, result = pick.choice(KINDS)(pick)
        made.append({"question": question, "answer": f"{answer}\n#### {result}"})
    return made


def write_problems(path: Path, rows: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in problems(rows, seed)))
