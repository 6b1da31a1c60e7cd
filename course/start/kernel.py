"""What our kernels add to an error: the cells above were not run, or an answer above is not right yet.

IPython loads this as an extension (`settings/kernels/python3/kernel.json`).
"""

import sys

from course.start import progress

ABOVE = "Run > Run All Above Selected Cell"


def load_ipython_extension(shell):
    """Put advice under what the shell shows of an error."""
    show = shell._showtraceback

    def shown(kind, error, lines):
        show(kind, error, advised(error, list(lines)))

    shell._showtraceback = shown


def advised(error, lines: list[str]) -> list[str]:
    """Return the lines of an error with what a learner can do about it.

    Args:
        error: the exception.
        lines: its traceback.
    """
    if type(error) is NameError:
        if "course.exercise" not in sys.modules:
            return [
                f"The name {error.name!r} is not there yet: the cells above have not been run in this\n"
                f"session. Choose {ABOVE} in the menu, then run this cell again.\n"
                "(What stands below the cells is what they printed when the lesson was made.)"
            ]
        return [*lines, f"If a cell above defines {error.name!r}, run it first: {ABOVE}."]
    wrong = [id for id, state in sorted(progress.now.items()) if state == "wrong"]
    if wrong:
        which = f"exercise {wrong[0]} is" if len(wrong) == 1 else f"exercises {', '.join(wrong)} are"
        return [*lines, f"Above, {which} not right yet. That may be why this cell stopped: repair it first."]
    return lines
