"""The page of to_html() runs in a JavaScript engine: what it draws, and what the cursor brings up.

The engine is V8 without a browser; page_dom.js stands in for the few things that the page asks of
one, records every rectangle, and throws at anything that it does not know.
"""

import json
import math
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from py_mini_racer import MiniRacer

DOM = Path(__file__).with_name("page_dom.js").read_text()

# One micro-batch after the other; steps do not overlap. In microseconds of the step:
#   load  X.0 0-100, X.1 100-200    up  X.0> 100-150    compute  F.0 150-350, F.1 350-550
PLAN = """ferry-plan 1
strategy hand-made
step train micro_batches=2 micro_batch_size=1 sequence=8 precision=fp32
block 0 kind=mlp stage=0
place host kind=host budget=1000 workspace=0
place gpu0 kind=device budget=60000 workspace=0
resource host.load kind=host place=host
resource gpu0.up kind=copy place=gpu0 rate=1e9
resource gpu0.compute kind=compute place=gpu0
value W.0 bytes=600
value X.0 bytes=50000
instance W.0@host offset=0 home
instance X.0@host offset=600
instance X.0@gpu0 offset=0
task X.0 kind=load on=host.load micros=100 after_previous=F.1
task X.1 kind=load on=host.load micros=100
task X.0>gpu0</script> kind=copy on=gpu0.up bytes=50000 reads=X.0@host writes=X.0@gpu0 after=X.0
task F.0 kind=forward on=gpu0.compute micros=200 reads=X.0@gpu0 after=X.0>gpu0</script>
task F.1 kind=forward on=gpu0.compute micros=200 after=X.1
"""
STEP = 550
SPANS = {"X.0": (0, 100), "X.1": (100, 200), "X.0>gpu0</script>": (100, 150), "F.0": (150, 350), "F.1": (350, 550)}
KIND = {"X.0": "load", "X.1": "load", "X.0>gpu0</script>": "copy", "F.0": "forward", "F.1": "forward"}
GUTTER, RIGHT, WIDTH, BAR = 150, 10, 1000, 14  # as in page/view.js
PIXELS = (WIDTH - GUTTER - RIGHT) / (3 * STEP)  # per microsecond when everything is shown


class Tags(HTMLParser):
    """The elements of a page: whether they are closed, their ids, the text of the scripts."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.ids, self.scripts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        if "id" in dict(attributes):
            self.ids.append(dict(attributes)["id"])
        if tag == "script":
            self.scripts.append("")
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def page_of(plan: str | None, folder: Path) -> str:
    arguments = [os.environ["FERRY_PAGE_SAMPLE"]]
    if plan is not None:
        (folder / "plan").write_text(plan)
        arguments.append(str(folder / "plan"))
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


class Browser:
    """A page that has been opened."""

    def __init__(self, page: str, dark: bool, canvas: str = "timeline"):
        tags = Tags(page)
        self.data = json.loads(tags.scripts[0])
        self.engine = MiniRacer()
        try:
            self.open(tags, dark)
            self.drawn(canvas)
        except BaseException:
            self.engine.close()
            raise

    def open(self, tags: Tags, dark: bool):
        self.engine.eval(DOM)
        setup = {"ids": tags.ids, "data": tags.scripts[0], "dark": dark, "width": WIDTH}
        self.engine.eval(f"openPage({json.dumps(setup)})")
        self.engine.eval(tags.scripts[1])

    def call(self, code: str):
        return json.loads(self.engine.eval(f"JSON.stringify({code})"))

    def fire(self, element: str, event: str, **fields):
        """Sends an event; fails when no one listens."""
        self.engine.eval(f"fire({json.dumps(element)}, {json.dumps(event)}, {json.dumps(fields)})")

    def drawn(self, canvas: str = "timeline") -> dict:
        """What a canvas was given since last asked: {fills, strokes, texts, lines}."""
        return self.call(f"takeDrawing({json.dumps(canvas)})")

    def text(self, element: str) -> str:
        return self.call(f"textOf({json.dumps(element)})")

    def tasks_drawn(self) -> dict[str, list[tuple[float, float, float, float]]]:
        """By kind, the boxes (x, y, width, height) of the runs drawn last."""
        colours = self.call("kTaskColours")
        boxes = {kind: [] for kind in self.data["kinds"]}
        for colour, _, *box in self.drawn()["fills"]:
            if colour in colours and box[3] == BAR:
                boxes[self.data["kinds"][colours.index(colour)]].append(box)
        return boxes

    def hover(self, x: float, y: float):
        self.fire("timeline", "pointermove", offsetX=x, offsetY=y)


@pytest.fixture(scope="module")
def small_page(tmp_path_factory) -> str:
    return page_of(PLAN, tmp_path_factory.mktemp("page"))


@pytest.fixture
def open_page():
    """Opens pages, and closes their engines behind the test: an open one keeps Python from ending."""
    opened = []

    def open_one(page: str, dark: bool = False) -> Browser:
        opened.append(Browser(page, dark))
        return opened[-1]

    yield open_one
    for browser in opened:
        browser.engine.close()


@pytest.fixture
def browser(open_page, small_page) -> Browser:
    return open_page(small_page)


def x_of(time: float) -> float:
    return GUTTER + time * PIXELS


def redraw(browser: Browser) -> dict:
    browser.fire("window", "resize")
    return browser.tasks_drawn()


def all_boxes(browser: Browser) -> list:
    return [box for boxes in redraw(browser).values() for box in boxes]


def test_the_page_is_whole_and_names_no_address(small_page):
    tags = Tags(small_page)
    assert tags.open == []
    assert len(tags.scripts) == 2
    assert len(set(tags.ids)) == len(tags.ids)
    assert not re.search(r"https?:|//[a-z]+\.|\bsrc\s*=|\bhref\s*=|@import|url\(", small_page)


def test_every_run_is_one_rectangle_at_its_time(browser):
    boxes = redraw(browser)
    for kind in set(KIND.values()):
        expected = sorted(
            (x_of(step * STEP + start), (end - start) * PIXELS)
            for step in range(3)
            for name, (start, end) in SPANS.items()
            if KIND[name] == kind
        )
        found = sorted((x, width) for x, _, width, _ in boxes[kind])
        assert len(found) == len(expected), kind
        for (x, width), (wanted_x, wanted_width) in zip(found, expected):
            assert x == pytest.approx(wanted_x) and width == pytest.approx(wanted_width), kind
    assert sum(map(len, boxes.values())) == 15
    assert len({y for _, y, _, _ in boxes["load"] + boxes["copy"] + boxes["forward"]}) == 3


def test_the_cursor_shows_a_run_and_what_it_waited_for(browser):
    forward_row = redraw(browser)["forward"][0][1]
    browser.hover(x_of(STEP + 400), forward_row + 5)

    lines = browser.text("tip").split("\n")
    assert lines[:3] == ["F.1", "forward on gpu0.compute, step 1", "900.00 us to 1.100 ms, takes 200.00 us"]
    before = lines.index("waits for")
    assert lines[before + 1] == "\u2022 F.0: queue, ended at 900.00 us, the last"
    assert lines[before + 2] == "\u2022 X.1: after, ended at 750.00 us"
    behind = lines.index("waited for by")
    assert lines[behind + 1] == "\u2022 X.0 of step 2: next step, starts at 1.100 ms"
    assert lines[behind + 2] == "\u2022 F.0 of step 2: queue, starts at 1.250 ms"

    assert browser.drawn()["fills"] == []  # the cursor alone draws nothing anew
    strokes = browser.drawn("marks")["strokes"]  # colour, line width, x, y, width, height
    thickness = {(round(x), round(width)): thick for _, thick, x, _, width, _ in strokes}

    def mark(name: str, step: int) -> int:
        start, end = SPANS[name]
        return thickness[round(x_of(step * STEP + start)), round((end - start) * PIXELS)]

    assert len(strokes) == 5
    assert mark("F.0", 1) == 3  # the one that released it
    assert mark("X.1", 1) == mark("F.1", 1) == mark("X.0", 2) == mark("F.0", 2) == 2


def test_a_copy_shows_its_bytes_and_bandwidth_and_its_name_as_it_is(browser):
    copy = redraw(browser)["copy"][0]
    browser.hover(copy[0] + 3, copy[1] + 5)
    lines = browser.text("tip").split("\n")
    assert lines[0] == "X.0>gpu0</script>"
    assert "48.8 KiB, 1.00 GB/s" in lines
    assert "\u2022 X.0: after, ended at 100.00 us, the last" in lines


def test_between_runs_there_is_nothing_to_show(browser):
    forward_row = redraw(browser)["forward"][0][1]
    browser.hover(x_of(75), forward_row + 5)
    assert browser.call("document.getElementById('tip').hidden") is True


def test_the_wheel_zooms_and_dragging_moves(browser):
    assert len(all_boxes(browser)) == 15
    # To 300 us from 240 us on, all of them behind X.1 and in front of the next step.
    factor = 300 / (3 * STEP)
    fixed = 240 / (1 - factor)  # the time under the cursor
    browser.fire("timeline", "wheel", deltaX=0, deltaY=400 * math.log(factor), offsetX=x_of(fixed))
    boxes = browser.tasks_drawn()
    assert [len(boxes[kind]) for kind in ("load", "copy", "forward")] == [0, 0, 2]
    pixels = (WIDTH - GUTTER - RIGHT) / 300
    first, second = sorted(boxes["forward"])
    assert first[0] == GUTTER and first[2] == pytest.approx(110 * pixels)
    assert second[2] == pytest.approx(190 * pixels)

    browser.fire("timeline", "pointerdown", offsetX=200, offsetY=50)
    browser.fire("timeline", "pointermove", offsetX=200 + 100 * pixels, offsetY=50)
    browser.fire("timeline", "pointerup", offsetX=200 + 100 * pixels, offsetY=50)
    moved = browser.tasks_drawn()  # 140 us to 440 us
    assert [len(moved[kind]) for kind in ("load", "copy", "forward")] == [1, 1, 2]
    assert moved["load"][0][2] == pytest.approx(60 * pixels)

    browser.fire("timeline", "keydown", key="0")
    assert sum(map(len, browser.tasks_drawn().values())) == 15


def test_a_task_is_found_held_and_followed_to_what_it_waited_for(browser):
    browser.engine.eval("document.getElementById('find').value = 'F.1'")
    browser.fire("find", "keydown", key="Enter")
    assert browser.text("tip").startswith("F.1\n")
    browser.hover(x_of(50), 30)  # held: the cursor changes nothing
    assert browser.text("tip").startswith("F.1\n")
    followed = []
    for _ in range(4):
        browser.fire("timeline", "keydown", key="p")
        followed.append(browser.text("tip").split("\n")[0])
    assert followed == ["F.0", "X.0>gpu0</script>", "X.0", "X.0"]
    browser.fire("timeline", "keydown", key="Escape")
    assert browser.call("document.getElementById('tip').hidden") is True


def test_bytes_of_a_place_follow_its_slots(browser):
    layout = browser.call("layOut(readModel(JSON.parse(document.getElementById('data').textContent))).rows")
    gpu = next(row for row in layout if row.get("place") == 1)
    browser.hover(x_of(200), gpu["y"] + 20)
    assert browser.text("tip").split("\n")[:2] == ["gpu0 at 200.00 us: 48.8 KiB", "tokens 48.8 KiB"]
    browser.hover(x_of(400), gpu["y"] + 20)
    assert browser.text("tip").split("\n")[0] == "gpu0 at 400.00 us: 0 B"

    # X.0 lies at gpu0 from the copy's start to the end of F.0; the scale ends 6 % above the budget.
    browser.drawn()
    browser.fire("window", "resize")
    tokens = browser.call("byteColour('X')[1]")
    boxes = [box for colour, _, *box in browser.drawn()["fills"] if colour == tokens and box[1] >= gpu["y"]]
    assert [round(x - (x_of(step * STEP + 100))) in (-1, 0) for step, (x, *_) in enumerate(boxes)] == [True] * 3
    for x, y, width, height in boxes:
        assert width == pytest.approx(250 * PIXELS, abs=2)  # whole pixels
        assert height == pytest.approx(50000 / (60000 * 1.06) * gpu["height"])


def test_what_is_at_home_is_drawn_darker_and_below_what_passes(browser):
    layout = browser.call("layOut(readModel(JSON.parse(document.getElementById('data').textContent))).rows")
    host = next(row for row in layout if row.get("place") == 0)
    browser.drawn()
    browser.fire("window", "resize")
    fills = browser.drawn()["fills"]
    at_home, light = browser.call("byteColour('home W')[1]"), browser.call("byteColour('W')[1]")
    assert int(at_home[1:3], 16) < int(light[1:3], 16)
    bottom = host["y"] + host["height"]
    (home,) = [box for colour, _, *box in fills if colour == at_home]
    assert home[1] + home[3] == pytest.approx(bottom)
    tokens = [box for colour, _, *box in fills if colour == browser.call("byteColour('X')[1]") and box[1] > host["y"]]
    assert tokens and all(box[1] + box[3] == pytest.approx(home[1]) for box in tokens if box[1] < bottom)
    assert browser.text("homes").split("\n") == ["", "weights"]  # a swatch and its name
    assert browser.text("contents").split("\n") == ["", "tokens"]
    browser.hover(x_of(50), host["y"] + 20)
    assert "weights at home 600 B" in browser.text("tip").split("\n")
    assert browser.text("places").split("\n")[:6] == ["", "at home", "peak", "budget", "host", "600 B"]


def test_every_kind_of_value_has_a_colour_and_a_word(browser):
    words = (Path(__file__).parents[1] / "plan/words.h").read_text()
    kinds = re.findall(r'"(\w+)"', re.search(r"kValueWords = \{([^}]*)\}", words)[1])
    assert "K" in kinds
    kinds += ["home W", "home S", "home G", "home R"]  # what plan/at_home.h lets rest
    assert [kind for kind in kinds if browser.call(f"byteColour({json.dumps(kind)})[0]") == kind] == []


def test_the_header_and_tables_show_the_reports(browser):
    assert browser.text("title") == "hand-made: 550.00 us per step, mean bubble 27.3 %"
    assert "gpu0.compute\n72.7 %\n400.00 us\n27.3 %" in browser.text("resources")
    assert browser.text("half") == "half of 48.8 KiB per step move at 1.00 GB/s or faster"
    assert browser.call("takeDrawing('bandwidth').lines.length") > 5
    for name in ("host.load", "gpu0.up", "gpu0"):
        assert name in [text for text in browser.text("resources").split("\n") + browser.text("places").split("\n")]


def test_a_plan_that_only_tells_time_has_rows_for_resources_alone(open_page, tmp_path):
    lines = [line for line in PLAN.splitlines() if not line.startswith(("value", "instance", "block"))]
    plan = re.sub(r" (reads|writes)=\S+", "", "\n".join(lines) + "\n")
    browser = open_page(page_of(plan.replace("precision=fp32", "precision=fp32 timing_only"), tmp_path))
    assert len(all_boxes(browser)) == 15
    assert browser.text("kinds").split() == ["load", "forward", "copy"]
    assert browser.call("document.getElementById('contents').hidden") is True
    assert browser.call("document.getElementById('homes').hidden") is True
    rows = browser.call("layOut(readModel(JSON.parse(document.getElementById('data').textContent))).rows")
    assert [row["resource"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize(
    "nanoseconds, full, short",
    [
        (0, "0 ns", "0"),
        (20, "20 ns", "20 ns"),
        (1500, "1.5000 us", "1.5 us"),
        (2e8, "200.00 ms", "200 ms"),
        (1e13, "10000 s", "10000 s"),
        (1.2e15, "1200000 s", "1200000 s"),
    ],
)
def test_times_are_written_with_five_digits(browser, nanoseconds, full, short):
    assert browser.call(f"timeText({nanoseconds})") == full
    assert browser.call(f"roundTimeText({nanoseconds})") == short


def test_the_page_follows_the_colour_scheme(open_page, small_page):
    fronts = {open_page(small_page, dark=dark).call("theme().front") for dark in (False, True)}
    assert fronts == {"#1c2430", "#e4e8ee"}


def test_a_hundred_thousand_tasks_stay_small_and_drawable(open_page, tmp_path):
    page = page_of(None, tmp_path)
    assert len(page.encode()) < 15e6
    browser = open_page(page)
    tasks = browser.call("readTasks(JSON.parse(document.getElementById('data').textContent)).count")
    assert tasks > 100_000
    boxes = all_boxes(browser)
    rows = len({y for _, y, _, _ in boxes})
    assert rows > 10
    assert 1000 < len(boxes) <= rows * 2 * (WIDTH - GUTTER - RIGHT)  # not one per run: 300,000

    browser.engine.eval("document.getElementById('find').value = 'B.90.60'")
    browser.fire("find", "keydown", key="Enter")
    lines = browser.text("tip").split("\n")
    assert lines[0] == "B.90.60" and "waits for" in lines
    assert len(all_boxes(browser)) < 2000
