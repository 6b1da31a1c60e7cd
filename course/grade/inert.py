"""A student's markdown as text that does nothing: whoever marks it in the formgrader is logged in there."""

from __future__ import annotations

import re

# what MathJax has for links, for its own configuration, and for new names of these
COMMANDS = (
    "href url require unicode class cssId style data html[A-Za-z]* mmlToken texttip mathtip tooltip toggle "
    "action includegraphics def edef gdef xdef let futurelet csname newcommand renewcommand providecommand "
    "newenvironment renewenvironment DeclareMathOperator DeclarePairedDelimiters[A-Za-z]* Newextarrow "
    "begingroup endgroup bbox setOptions"
)
# what is to be found, and where a space makes mere text of it, without a change to formulas and code
SPACES = [
    (re.compile(rf"\\(?=({COMMANDS.replace(' ', '|')})(?![A-Za-z]))"), r"\\ "),
    (re.compile(r"<(?=[A-Za-z/!?])"), "< "),  # HTML
    (
        re.compile(r"&(?=#|[A-Za-z][A-Za-z0-9]*;)"),
        "& ",
    ),  # its names for characters, which could hide all else
    (re.compile(r"\](?=[(:\[])"), "] "),  # links, pictures, footnotes
    (re.compile(r"(?<=\w):(?=//)"), ": "),  # bare addresses
    (re.compile(r"(?i)(?<=www)(?=\.)"), " "),
    (re.compile(r"(?<=[\w.+-])@(?=\w)"), " @ "),
    (re.compile(r"(?i)(?<=mer)(?=maid)"), " "),  # diagrams, which are programs
]


def inert(markdown: str) -> str:
    """Take HTML, links, pictures and diagrams out of a text that stays readable, formulas included."""
    for pattern, spaced in SPACES:
        markdown = pattern.sub(spaced, markdown)
    return markdown
