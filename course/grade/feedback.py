"""One page of feedback a student: a single file that opens without a network."""

from __future__ import annotations

from html import escape

from course.grade.marking import Mark

STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; color:
#1a1a1a; } h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 0 0 .3rem; }
section { border: 1px solid #c8c8c8; border-left-width: .5rem; border-radius: .3rem; padding: .8rem 1rem;
margin: 1rem 0; } .right { border-left-color: #009E73; } .wrong, .stopped { border-left-color: #D55E00; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
""".strip()
STATES = {
    "right": "✓ right",
    "wrong": "✗ not right yet",
    "stopped": "✗ stopped",
    "missing": "- missing",
    "not attempted": "- not attempted",
    "failed": "- not graded: the grader failed",
    "manual": "… to be marked by a person",
}


def page(student: str, title: str, marks: list[Mark], notes: list[str]) -> str:
    """Write a student's feedback as HTML. Everything that came from the student is escaped.

    Args:
        student: the student's id. title: of the lesson.
        marks: of the exercises, in order.
        notes: what was done about the submission.
    """
    points, out_of = sum(mark.points for mark in marks), sum(mark.out_of for mark in marks)
    noted = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}: '
        f'{escape(student)}</title>\n<meta name="viewport" content="width=device-width">\n'
        f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f"<p>{escape(student)}: <strong>{points:g} of {out_of:g} points</strong></p>\n"
        + "".join(map(_section, marks))
        + (f"<h2>About the notebook you handed in</h2>\n<ul>{noted}</ul>\n" if notes else "")
        + "</main>\n</body>\n</html>\n"
    )


def _section(mark: Mark) -> str:
    says = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in mark.says)
    return (
        f'<section class="{escape(mark.state.split()[0])}">\n'
        f"<h2>{escape(mark.id)} {escape(mark.title)}</h2>\n"
        f"<p>{STATES[mark.state]}, {mark.points:g} of {mark.out_of:g} points</p>\n{says}</section>\n"
    )
