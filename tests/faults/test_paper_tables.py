"""The tables of `ferry papers` that take minutes; src/papers/paper_tables_test.cc holds the others."""

import json

import pytest
from boxes import ferry


@pytest.mark.parametrize("table", ["auto", "bounds"])
def test_a_table_has_one_finite_allowance(table):
    rows = json.loads(ferry("papers", "--json", table, seconds=1200).stdout)
    (allowed,) = {row["allowed"] for row in rows}
    assert 0 < allowed <= 0.15
