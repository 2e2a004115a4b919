"""Published tables come out of the command line, for people in 100 columns and for programs."""

import json
from pathlib import Path

from conftest import ferry

HARMONY = Path(__file__).parents[1] / "data/harmony_profiles"


def test_json_has_every_row_with_its_error():
    rows = json.loads(ferry("papers", "--json", "pipelines", "roundpipe").stdout)
    assert {row["table"] for row in rows} == {"pipelines", "roundpipe"}
    for row in rows:
        assert set(row) == {
            "table", "what", "ours", "published", "provenance", "error", "rounding", "allowed", "scored", "remark",
        }  # fmt: skip
        assert not row["scored"] or abs(row["error"]) <= row["allowed"] + row["rounding"], row
        assert (row["provenance"] is None) == (row["published"] is None)
    closed = [row for row in rows if row["table"] == "pipelines"]
    assert len(closed) == 9
    assert closed[0]["ours"] == 1 - 8 / 15  # GPipe, 8 GPUs, 8 micro-batches


def test_harmonys_table_needs_only_the_profiles_of_the_project():
    rows = json.loads(ferry("papers", "--json", "harmony", "--harmony", str(HARMONY)).stdout)
    assert len(rows) >= 68
    assert all(row["table"] == "harmony" for row in rows)


def test_text_is_readable_in_100_columns():
    text = ferry("papers", "mobius", "ratel", "roundpipe", "pipelines", "ftpipe").stdout
    assert max(len(line) for line in text.splitlines()) <= 100
    for heading in ("mobius: ", "ratel: ", "roundpipe: ", "pipelines: ", "ftpipe: "):
        assert f"\n{heading}" in f"\n{text}"
    beyond = [line for line in text.splitlines() if line.endswith(" !")]
    known = [
        line
        for line in beyond
        if ("bytes above 12 GB/s" in line and "8x3090ti-4+4" in line)
        or "zero: step without compute" in line
        or "Fig 7b, 175B b=8" in line
    ]
    assert beyond == known
    assert len(beyond) == 2 + 16 + 2
    assert "(sets the wait)" in text


def test_what_cannot_be_shown_is_said():
    assert "did you mean 'mobius'" in ferry("papers", "mobios", expect=2).stderr
    assert "--harmony DIR" in ferry("papers", "harmony", expect=2).stderr
    assert "nowhere" in ferry("papers", "harmony", "--harmony", "/nowhere/at/all", expect=2).stderr
