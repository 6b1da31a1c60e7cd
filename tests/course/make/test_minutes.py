"""The minutes of a lesson follow from one rule, and what is optional or folded does not count."""

from nbformat.v4 import new_code_cell, new_markdown_cell

from course.make.minutes import DISPLAYED, LINES, STEP, WORDS, minutes, stated, with_pencil

WORDY = "word " * 10 * WORDS


def counted(*cells):
    return minutes(list(cells))[1]


def test_the_rule():
    lines = new_code_cell("x = 1\n" * 10 * LINES)
    exercise = new_markdown_cell("### Exercise 06.1: Do\n\n★★☆ · 7 minutes\n")
    takes, parts = minutes([new_markdown_cell(WORDY), lines, exercise])
    assert parts == {"words": 10 * WORDS + 5, "lines": 10 * LINES, "exercises": 7}
    assert takes == 25  # 10 + 10 + 7 in fives
    assert takes % STEP == 0


def test_what_does_not_count():
    hidden = new_code_cell("x = 1", metadata={"jupyter": {"source_hidden": True}})
    answer = new_code_cell('@exercise("06.1")\ndef double(x):\n    return x + x')
    blank = new_code_cell("# a comment\n\nx = 1  # another")
    assert counted(hidden, answer, blank) == {"words": 0, "lines": 1, "exercises": 0}
    details = new_markdown_cell(f"Two words.\n<details><summary>Hint</summary>\n{WORDY}\n</details>")
    assert counted(details)["words"] == 2
    optional = [
        new_markdown_cell("## 6.2 Two *(optional)*"),
        new_markdown_cell(WORDY),
        new_code_cell("x = 1"),
    ]
    after = [new_markdown_cell("## 6.3 Three"), new_code_cell("x = 1")]
    assert counted(*optional, *after) == {"words": 2, "lines": 1, "exercises": 0}
    assert counted(new_markdown_cell(f"## Further reading\n{WORDY}"))["words"] == 0


def test_formulas_are_read_slowly_where_they_are_displayed():
    assert counted(new_markdown_cell("the norm $\\lVert w \\rVert$ grows"))["words"] == 4
    assert counted(new_markdown_cell("so\n$$w = \\sum_i \\lambda_i a_i .$$"))["words"] == 1 + DISPLAYED


def test_what_a_lesson_promises():
    promise = "**You need** numpy. About\n80 minutes"
    assert stated([new_markdown_cell("# T"), new_markdown_cell(f"{promise}.")]) == (80, None)
    assert stated([new_markdown_cell(f"{promise} (120 with\na pencil), five exercises.")]) == (80, 120)
    assert stated([new_markdown_cell("80 minutes")]) == (None, None)
    assert [with_pencil(takes) for takes in (60, 65, 90)] == [90, 100, 135]
