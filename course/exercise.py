"""What a lesson's exercises are made of: `todo`, `@exercise`, `check` and `progress`.

    @exercise("01.2")
    def margin(w, X, y):
        '''What to return.'''
        todo()

    check("01.2", margin)

While the body says `todo()`, the notebook runs on with the reference solution; `check` always tests the
learner's own function, and keeps its verdict beside the learner's lessons (`course.start.progress`), nowhere
else. Everything printed is the same on every run.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType

from IPython import get_ipython
from IPython.display import display

from course import exercises
from course.check.checking import Verdict, code_of, verdict
from course.check.specification import PUBLIC_SEED
from course.check.trying import NotAttempted
from course.check.values import in_single, shaped_like
from course.start import progress as record

_latest: dict[str, Callable] = {}  # exercise id -> the learner's own function, as last defined or checked


def todo() -> None:
    """Stands where the learner's code will go."""
    raise NotAttempted("Replace todo() by your own code.")


def exercise(id: str) -> Callable[[Callable], Callable]:
    """Mark a function as the answer to an exercise; until it is written, calls go to the reference.

    Args:
        id: the exercise, "01.2".

    Returns:
        A decorator. The decorated function returns arrays and numbers where the reference does, in double
        precision, also if the learner's own returns lists, tensors or float32; that one it keeps as its
        attribute `own`.

    Raises:
        ValueError: there is no such exercise.
    """
    spec = exercises.find(id)

    def decorate(own: Callable) -> Callable:
        _latest[id] = own
        if _says_todo(code_of(own)):
            print(f"{id} not attempted yet: using the reference")

        @functools.cache
        def example():
            return spec.reference(*spec.draw(PUBLIC_SEED)[0])

        @functools.cache
        def ticked():
            return verdict(spec, own).passed

        @functools.wraps(own)
        def answer(*args, **kwargs):
            try:
                value = own(*args, **kwargs)
            except NotAttempted:
                return spec.reference(*args, **kwargs)
            if in_single(value) and ticked():  # later cells may count on more digits than it has
                return spec.reference(*args, **kwargs)
            return shaped_like(example(), value)  # later cells may count on arrays where check takes lists

        answer.exercise_id, answer.own = id, own
        return answer

    return decorate


def _says_todo(code: CodeType | None) -> bool:
    """Whether code, or a function inside it, can still reach `todo()`; after a `return` it cannot."""
    if code is None:  # of a function from a library, say
        return False
    if any(step.argval == "todo" and step.opname.startswith("LOAD") for step in dis.get_instructions(code)):
        return True
    return any(_says_todo(constant) for constant in code.co_consts if isinstance(constant, CodeType))


def check(id: str, function: Callable) -> None:
    """Try the learner's function on the public cases; print a tick, or what was wrong on which input.

    Args:
        id: the exercise, "01.2".
        function: the answer, decorated or plain.
    """
    try:
        spec = exercises.find(id)
    except ValueError as error:
        print(error)
        return
    if callable(function):
        _latest[id] = getattr(function, "own", function)
    result = verdict(spec, function)
    print(result.text)
    record.remember(id, _state(result))


def progress(lesson: str | None = None) -> None:
    """Show how many exercises are solved, here or earlier, and which comes next.

    Args:
        lesson: its number, "01"; without one, the whole course, with links to its lessons.

    Raises:
        ValueError: there is no such lesson.
    """
    here = {id for id, state in record.now.items() if state == "solved"}
    solved = record.recall(record.folder()).solved | here
    if lesson is None:
        if get_ipython() is None:
            print(record.of_course(solved))
        else:
            texts = {"text/markdown": record.as_table(solved), "text/plain": record.of_course(solved)}
            display(texts, raw=True)
        return
    specs = exercises.exercises(lesson)
    for spec in specs:  # what stands in this notebook counts more than what was there before
        state = _state(verdict(spec, _latest[spec.id])) if spec.id in _latest else "blank"
        if state == "solved":
            solved.add(spec.id)
        elif state == "wrong":
            solved.discard(spec.id)
    waiting = [spec for spec in specs if spec.id not in solved]
    line = f"Lesson {lesson}: {len(specs) - len(waiting)} of {len(specs)} exercises solved"
    print(f"{line}; next: {waiting[0].id} {waiting[0].title}." if waiting else f"{line}. Well done.")


def _state(result: Verdict) -> str:
    return "solved" if result.passed else "wrong" if result.attempted else "blank"
