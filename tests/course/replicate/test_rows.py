"""The rows of the replication table: true to the stored numbers, to the lessons and to the README."""

import re

import numpy as np
import pytest
import xarray as xr

from course import files, syllabus
from course.replicate import command, rows, table

ROWS = rows.every()


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_a_row_says_what_its_numbers_say(row):
    found = row.estimate()
    assert found.low <= found.value <= found.high
    assert row.agrees(found) == (row.differs == ""), f"{table.interval(found, row)} for {row.published}"
    assert row.paper in rows.PAPERS
    lesson = syllabus.find(row.id.split(".")[0])
    assert re.search(rf"^# ## {re.escape(row.section)} ", lesson.path.read_text(), re.M), "no such section"


def test_names_are_used_once():
    assert len({row.id for row in ROWS}) == len(ROWS)


def test_another_mean_lies_where_it_is_expected():
    """Means of 40 others lie within the interval in 95 of 100 cases."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(1000):
        found = rows.mean(xr.DataArray(rng.exponential(size=300)), runs=40)
        inside += found.low <= rng.exponential(size=40).mean() <= found.high
    assert 930 <= inside <= 970


def test_what_is_missing_is_left_out():
    found = rows.mean(xr.DataArray([1.0, np.nan, 3.0]))
    assert (found.value, found.trials) == (2, 2)


def test_the_least_of_so_many_runs():
    values = xr.DataArray([5.0, 3.0, 9.0, 8.0, 4.0, 6.0, 7.0])
    found = rows.least(values, runs=2)  # groups 5 3, 9 8, 4 6; the last is left over
    assert (found.value, found.low, found.high, found.trials) == (4, 3, 8, 7)


def test_a_number_has_the_decimals_of_the_published_one():
    row = rows.find("06.global")
    assert table.number(0.4950495, row) == "0.49505"
    assert table.number(1, rows.find("06.equal")) == "1.00"
    assert table.number(0.034, rows.find("13.full_4")) == "0.034"


def test_a_row_that_differs_names_its_reason_below_the_table():
    why = table.reasons(ROWS)
    assert len(why) == len(set(why))
    for text in (table.text(ROWS), table.markdown(ROWS)):
        told = re.findall(r"differs \[(\d+)\]", text)
        assert sorted(set(map(int, told))) == list(range(1, len(why) + 1))
        assert len(told) == sum(row.differs != "" for row in ROWS)
        assert all(f"[{k}] {one[:20]}" in text for k, one in enumerate(why, 1))


def test_a_row_with_chance_in_it_has_a_seed():
    for row in ROWS:
        found = row.estimate()
        assert row.sweep or row.seed is not None or found.low == found.high, row.id


def test_the_readme_shows_the_table():
    text = command.README.read_text(encoding="utf-8")
    assert files.between(text, command.BEGIN, command.END, table.markdown(ROWS)) == text
    differ = sum(row.differs != "" for row in ROWS)
    assert f"**{len(ROWS)} published figures: {len(ROWS) - differ} agree, {differ} differ" in text
