"""What the documents name is there: links lead somewhere, paths exist, "`name` (`file`)" stands in that file, and the
texts that errors.md explains stand in a program.

Paths count from the root or from src/; rooms also from the folder that has them, and on a folder's README paths
may lead anywhere below it.
"""

import re
from functools import cache
from pathlib import Path

import layers
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "src/*/README.md", "tests/*.md", "tools/**/*.md") for page in ROOT.glob(pattern)
)
# Pages that tell where code is. The others show files of a user's: job.yaml, runs/gsm8k/plan.
MAPS = [
    page
    for page in PAGES
    if page.name == "README.md" and page.parent != ROOT
    or page.parent.name == "decisions"
    or page.name in ("ARCHITECTURE.md", "glossary.md", "papers.md", "planner.md", "training.md")
]
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"[\w./+*-]+\.(?:h|cc|py|js)|(?:bench|cmake|docs|examples|machines|src|tests)/[\w./+*-]+")
FOLDER = re.compile(r"[\w.-]+(?:/[\w.-]+)*/")
NAME = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
CODE_NAME = re.compile(r"[a-z]\w*_\w+|[A-Z]\w*[a-z]\w*[A-Z]\w*|\w+::[\w:]+")  # snake_case, CamelCase or qualified
CASE = re.compile(r"([A-Z]\w+)\.([A-Z]\w+)")


def paragraphs(text: str) -> list[str]:
    """The paragraphs, list items and table rows of a page as one line each, without blocks of code."""
    text = re.sub(r"^```.*?^```", "\n", text, flags=re.M | re.S)
    text = re.sub(r"\n(?=[-|#] ?|\d+\. )", "\n\n", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]


def slug(heading: str) -> str:
    """A heading's anchor, as forges make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def find(path: str, page: Path) -> list[Path]:
    """The files or folders that a path on a page can stand for."""
    found = [*ROOT.glob(path), *ROOT.glob("src/" + path)]
    if path.endswith("/"):
        found += ROOT.glob("src/*/" + path)
    if page.name == "README.md":
        found += page.parent.glob("**/" + path)
    return found


@cache
def sources() -> list[str]:
    """The texts of all sources, a header and its .cc file as one."""
    files = [path for path in ROOT.glob("src/**/*") if path.suffix in (".h", ".cc", ".in", ".js", ".txt")]
    for folder in ("bench", "tests", "tools", "scripts"):
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts: dict[Path, str] = {}
    for path in sorted(files):
        if path != Path(__file__):
            texts[path.with_suffix("")] = texts.get(path.with_suffix(""), "") + path.read_text(errors="ignore")
    return list(texts.values())


def stands_in(name: str, text: str) -> bool:
    return all(re.search(rf"\b{part}\b", text) for part in name.split("::"))


def is_test(suite: str, case: str) -> bool:
    return any(re.search(rf"TEST(_F|_P)?\({suite},\s*{case}\)", text) for text in sources())


def names_before(text: str) -> list[str]:
    """The names in backticks that end a text: "by `a`, `b` and `c` " gives c, b, a."""
    names = []
    while match := re.search(r"`([^`]+)`(?:,| and|, and)?\s*$", text):
        names.append(match.group(1))
        text = text[: match.start()]
    return names


def broken_links(text: str, page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name) if name else page
        if not there.exists():
            broken.append(f"{target}: no such file")
        elif anchor:
            here = text if there == page else there.read_text()
            if anchor not in {slug(line.lstrip("#")) for line in here.splitlines() if line.startswith("#")}:
                broken.append(f"{target}: no such heading")
    return broken


def wrong_names(text: str, page: Path) -> list[str]:
    """Paths that do not exist, names that do not stand in the file behind them, names that stand nowhere."""
    wrong = []
    for paragraph in paragraphs(text):
        for span in SPAN.findall(paragraph):
            word = span.split()[0] if span.split() else ""
            if FILE.fullmatch(word) or FOLDER.fullmatch(span):
                wrong += [] if find(word, page) else [f"`{word}`: no such path"]
            elif case := CASE.fullmatch(span):
                wrong += [] if is_test(*case.groups()) else [f"`{span}`: no such test"]
            elif CODE_NAME.fullmatch(span) and not any(stands_in(span, text) for text in sources()):
                wrong.append(f"`{span}` stands nowhere")
        for match in re.finditer(r"\(`([^`]+)`", paragraph):
            if not FILE.fullmatch(match.group(1)):
                continue
            files = [file for file in find(match.group(1), page) if file.is_file()]
            pairs = {pair for file in files for pair in file.parent.glob(file.stem + ".*")}
            held = "\n".join(pair.read_text() for pair in pairs)
            for name in names_before(paragraph[: match.start()]):
                if NAME.fullmatch(name) and not stands_in(name, held):
                    wrong.append(f"`{name}` does not stand in `{match.group(1)}`")
    return wrong


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page):
    assert broken_links(page.read_text(), page) == []


@pytest.mark.parametrize("page", MAPS, ids=page_id)
def test_what_a_page_names_is_where_it_says(page):
    assert wrong_names(page.read_text(), page) == []


def test_files_that_comments_name_are_there():
    wrong = []
    for path in (path for folder in ("src", "bench", "tests") for path in (ROOT / folder).rglob("*.*")):
        if path.suffix not in (".h", ".cc", ".js"):
            continue
        comments = "\n".join(re.findall(r"(?<!:)//(.*)", path.read_text()))
        for name in re.findall(r"[\w/]+\.(?:h|cc|md)\b", comments):
            if not [*(ROOT / "src").rglob(name), *ROOT.glob(name), *ROOT.glob("docs/**/" + name)]:
                wrong.append(f"{page_id(path)}: {name}")
    assert wrong == []


def told_order(table: str) -> dict[str, set[str]]:
    """What a table of folders, or of rooms, says that each may see."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines() if row.startswith("| `")]
    return {
        name.strip(" `/"): set() if row[2] == "-" else set(row[2].split(", ")) for row in rows for name in row[0].split(",")
    }


def test_the_tables_of_folders_and_rooms_are_those_that_are_checked():
    text = (ROOT / "ARCHITECTURE.md").read_text()

    def table(title: str) -> str:
        return text.split(title, 1)[1].split("\n\n", 1)[0]

    assert told_order(table("| folder |")) == layers.MAY_SEE
    for folder, rooms in layers.ROOMS.items():
        assert told_order(table(f"| room of `{folder}/` |")) == rooms


@pytest.mark.parametrize("folder", layers.MAY_SEE)
def test_a_readme_says_whom_its_folder_sees(folder):
    text = " ".join((ROOT / "src" / folder / "README.md").read_text().split())
    sees, seen_by = re.search(r"Sees: ([^.]*)\. Seen by: ([^.]*)\.", text).groups()
    assert set(sees.split(", ")) - {"nothing"} == layers.MAY_SEE[folder]
    others = set(layers.MAY_SEE) - {folder}
    named = others if seen_by == "all" else set(seen_by.split(", ")) - {"nobody"}
    assert named == {other for other in others if folder in layers.MAY_SEE[other]}


def test_a_wrong_name_path_or_link_is_caught():
    page = ROOT / "docs/planner.md"
    text = "By `drive`, `parse_plan` and `solve_it` (`exec/driver.h`); `exec/drive.h`, `no_such_name`, `Suite.NoSuchTest`."
    assert wrong_names(text, page) == [
        "`solve_it` stands nowhere",
        "`exec/drive.h`: no such path",
        "`no_such_name` stands nowhere",
        "`Suite.NoSuchTest`: no such test",
        "`solve_it` does not stand in `exec/driver.h`",
        "`parse_plan` does not stand in `exec/driver.h`",
    ]
    assert broken_links("[a](papers.md), [b](paper.md), [c](papers.md#mobius), [d](papers.md#moebius)", page) == [
        "paper.md: no such file",
        "papers.md#moebius: no such heading",
    ]


STRING = r'"(?:[^"\\\n]|\\.)*"'
LITERALS = re.compile(rf"{STRING}(?:\s*{STRING})*")
# What stands for something else in a text of errors.md: a word in capitals, a number, what is in quotes; and signs.
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z]*\b|\d[\d.e+]*|'[^']*'|\.\.\.|[\[\]{}%=:;,?()\"]")

# Texts that the programs put together of shorter parts.
COMPOSED = [
    "is a device; ...", "FOLDER is in use by process N on HOST since TIME: COMMAND",
    'tensor "T", element N: V is beyond the largest F16', "and a swap file of SIZE",
    "the chat template refuses the prompt: REASON",
]  # fmt: skip


@cache
def said() -> str:
    """Every string of the programs, those that stand side by side as one."""
    files = [*ROOT.glob("src/**/*.cc"), *ROOT.glob("src/**/*.h"), *ROOT.glob("tools/**/*.py")]
    texts = [path.read_text() for path in files if not path.stem.endswith("_test") and "tests" not in path.parts]
    strings = (re.sub(r'"\s*"', "", string) for text in texts for string in LITERALS.findall(text))
    return "\n".join(string.replace("\\n", "\n").replace('\\"', '"') for string in strings)


def phrases(text: str) -> list[str]:
    """The parts of a text of errors.md that stand there word for word, where they are more than a word or two."""
    return [part.strip() for part in PLACEHOLDER.split(text) if len(part.strip()) >= 8]


def unsaid(page: str) -> list[str]:
    """The texts in the first columns of a page's tables of which no phrase is in the programs' strings."""
    columns = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    texts = [text for column in columns for text in SPAN.findall(column)]
    return [text for text in texts if phrases(text) and not any(phrase in said() for phrase in phrases(text))]


def test_every_error_that_is_explained_is_one_that_is_told():
    page = (ROOT / "docs/errors.md").read_text()
    assert unsaid(page + "| `no program tells this` | 2 | a slip | none |\n") == [*COMPOSED, "no program tells this"]
    assert len(SPAN.findall(page)) > 400
