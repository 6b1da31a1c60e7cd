"""One meaning a symbol: the table, and the patterns that notice a second meaning."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from course.make.notation import ELSEWHERE, SYMBOLS, notation_problems, table


def test_the_table_gives_no_symbol_two_rows():
    parts = [part.strip() for one in SYMBOLS for part in re.split(r"[;,] ", one.tex)]
    assert len(parts) == len(set(parts))
    assert [one.lesson for one in SYMBOLS] == sorted(one.lesson for one in SYMBOLS)
    assert all(one.meaning for one in SYMBOLS)


def test_the_table_in_markdown_stops_where_it_should():
    assert table("01").count("\n") == 1 + sum(one.lesson == "01" for one in SYMBOLS)
    assert r"| $\hat w$ | `w_hat` |" in table("01")
    assert "`lead`" not in table("04")
    assert "`lead`" in table()


@pytest.mark.parametrize(
    ("lesson", "text", "instead"),
    [
        ("01", r"with weight $\sigma(-u_i)$", "sigma is a singular value"),
        ("01", r"the distance $\delta$", "remainder"),
        ("02", "the nearest point $p$", "p is the attention vector"),
        ("03", r"the norm $\ell_p$", r"\rho"),
        ("03", r"$\frac12 R^2 \eta$", "a_{\\max}"),
        ("04", r"$\sum_k s_k\, p_k q_k^\top$", r"\sigma_k"),
        ("05", "once the gap passes 37", "lead"),
        ("05", "with $u_1 = 0$", "signed output"),
        ("06", "the smallest margin", "smallest lead"),
        ("07", "with its score gap", "difference of scores"),
        ("08", r"a head $\psi$", "f: psi"),
        ("09", "Margins $u$ grow", "signed output"),
        ("09", r"a ratio $\rho$", r"\omega"),
        ("12", "labels $Y_i$", "labels are y_i"),
    ],
)
def test_second_meanings_are_noticed(lesson, text, instead):
    found = notation_problems([new_markdown_cell(text)], lesson)
    assert any(instead in sentence for sentence in found), found
    assert notation_problems([new_code_cell(text)], lesson) == []


@pytest.mark.parametrize(
    ("lesson", "text"),
    [
        ("01", r"weights $\lambda_i$, a margin $\hat\mu$, singular value $\sigma_1$"),
        ("02", r"a gap of 0.01 and $p_i$, $\rho$"),
        ("03", r"$\ell_\rho$, the step $\delta$, $p$-values"),
        ("05", r"$\partial_t f = s_t (g_t - f)$ at a lead of $\Delta = 37$, $u = y f$"),
        ("09", r"$\omega = R_v / R$, with $\kappa$"),
    ],
)
def test_first_meanings_are_not(lesson, text):
    assert notation_problems([new_markdown_cell(text)], lesson) == []


def test_every_pattern_is_one():
    for rules in ELSEWHERE.values():
        for pattern, instead in rules:
            assert re.compile(pattern)
            assert instead
