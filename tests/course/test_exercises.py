"""Every exercise of every lesson, with right answers, a blank one and wrong ones.

A check that nobody can fail teaches nothing, and one that turns a right answer away does worse.
"""

import ast
import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from course import exercises
from course.check.checking import problem_with, verdict
from course.check.specification import PUBLIC_SEED, Exercise, Misconception, Written
from course.check.trying import Outcome, run
from course.exercise import todo
from course.make.build import ROOT
from course.make.notebook import from_source

SPECS = [spec for lesson in exercises.lessons() for spec in exercises.exercises(lesson)]
SEEDS = [PUBLIC_SEED, *range(100)]  # the grader brings others, which nobody has seen
FIRST = 5  # of them, for every day; the rest is slow
SOLVING = {"02.1"}  # its answers call solvers: a quarter of the seeds

each = pytest.mark.parametrize("spec", SPECS, ids=[spec.id for spec in SPECS])


@functools.cache
def answers(lesson):
    path = Path(__file__).parent / "answers" / f"lesson_{lesson}.py"
    description = importlib.util.spec_from_file_location(f"answers_{lesson}", path)
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module.ANSWERS


@functools.cache
def solutions(lesson):
    """The functions that a lesson's source gives as solutions, by exercise id.

    Only imports, definitions and plain constants are run: an answer may use nothing else of its lesson.
    """
    (source,) = (ROOT / "course" / "source").glob(f"{lesson}_*.py")
    namespace = {"__name__": "lesson"}
    for position, cell in enumerate(from_source(source, solved=True).cells):
        if cell.cell_type == "code":
            tree = ast.parse(cell.source)
            tree.body = [statement for statement in tree.body if _defines(statement)]
            exec(compile(tree, f"<{source.name}, cell {position}>", "exec"), namespace)
    marked = [function for function in namespace.values() if hasattr(function, "exercise_id")]
    return {function.exercise_id: function for function in marked}


def _defines(statement):
    if isinstance(statement, ast.Assign):
        return all(
            isinstance(node, ast.Constant | ast.Tuple | ast.Load) for node in ast.walk(statement.value)
        )
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)


def right_answers(spec):
    own = solutions(spec.lesson)[spec.id].own
    given = answers(spec.lesson)[spec.id]
    more = {f"right answer {place}": one for place, one in enumerate(given.get("more_right", []))}
    return {"also right": given["also_right"], "solution in the lesson": own} | more


def wrong_answers(spec):
    named = {f"misconception {place}": known.wrong for place, known in enumerate(spec.misconceptions)}
    others = enumerate(answers(spec.lesson)[spec.id]["wrong"])
    return named | {f"wrong answer {place}": function for place, function in others}


def test_there_are_exercises():
    assert SPECS


def test_ids_are_unique_and_belong_to_their_lesson():
    for lesson in exercises.lessons():
        ids = [spec.id for spec in exercises.exercises(lesson)]
        asked = [*ids, *(question.id for question in exercises.written(lesson))]
        assert asked == [f"{lesson}.{number}" for number in range(1, len(asked) + 1)]
        assert 4 <= len(ids) <= 6
        assert sorted(answers(lesson)) == ids


def test_rubrics_add_up():
    for lesson in exercises.lessons():
        for question in exercises.written(lesson):
            assert question.title
            assert 1 <= question.minutes <= 30
            assert all(points > 0 and text for points, text in question.rubric)
    with pytest.raises(ValueError, match=r"90\.1 is worth 3 points, (but )?its rubric adds up to 2"):
        Written("90.1", "Why", 3, 5, [(2, "A reason.")])


@each
def test_specification_is_complete(spec):
    assert spec.title
    assert spec.points >= 1
    assert 1 <= spec.minutes <= 30
    assert spec.difficulty in (1, 2, 3)
    assert len(spec.misconceptions) >= 3
    assert all(isinstance(known, Misconception) for known in spec.misconceptions)
    messages = [known.message for known in spec.misconceptions]
    assert len(set(messages)) == len(messages)


@each
def test_cases_follow_from_the_seed(spec):
    cases = spec.draw(1)
    assert len(cases) >= 2
    assert all(isinstance(case, tuple) and len(case) == len(spec.parameters) for case in cases)
    assert same(cases, spec.draw(1))
    assert not same(cases, spec.draw(2))


def same(one, other):
    return len(one) == len(other) and all(map(same_case, one, other))


def same_case(one, other):
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True))


@each
def test_right_answers_pass(spec):
    for name, function in [("reference", spec.reference), *right_answers(spec).items()]:
        result = verdict(spec, function)
        assert result.passed, f"{name}: {result.text}"
        assert result.text.startswith(f"✓ {spec.id}")


@each
def test_blank_answer_is_not_attempted(spec):
    blank = eval(f"lambda {', '.join(spec.parameters)}: todo()", {"todo": todo})
    result = verdict(spec, blank)
    assert not result.passed
    assert "not attempted yet" in result.text


@each
def test_each_misconception_is_recognised(spec, monkeypatch):
    drawn, known_outcomes = functools.cache(spec.draw), {}

    def once(function, case, names):  # of many misconceptions each is tried against each, on the same inputs
        key = function, id(case)
        if key not in known_outcomes:
            known_outcomes[key] = case, run(function, case, names)  # which keeps the case, and its id, alive
        return known_outcomes[key][1]

    monkeypatch.setattr(Exercise, "draw", lambda _, seed: drawn(seed))
    monkeypatch.setattr("course.check.checking.run", once)
    for known in spec.misconceptions:
        result = verdict(spec, known.wrong)
        assert not result.passed, known.message
        assert f"Hint: {known.message}" in result.text, f"expected: {known.message}\n{result.text}"


@each
def test_nothing_returned_fails(spec):
    assert not verdict(spec, eval(f"lambda {', '.join(spec.parameters)}: None")).passed


@each
@pytest.mark.parametrize(
    "seeds", [SEEDS[:FIRST], pytest.param(SEEDS[FIRST:], marks=pytest.mark.slow)], ids=["first", "rest"]
)
def test_a_tick_on_the_public_seed_means_marks_on_any(spec, seeds):
    """Right answers pass and wrong ones fail on every seed; one exercise: pytest -k 'on_any and 05.5'."""
    rejected, passed, telling = {}, {}, {}  # telling: the case on which a wrong answer failed last
    for seed in seeds:
        if spec.id in SOLVING and seed in SEEDS[26:]:
            break
        pairs = [(case, run(spec.reference, case, spec.parameters)) for case in spec.draw(seed)]
        for name, function in right_answers(spec).items():
            tried = [(wanted, run(function, case, spec.parameters)) for case, wanted in pairs]
            if any(problem_with(spec, *pair) for pair in tried):
                rejected.setdefault(name, []).append(seed)
        for name, function in wrong_answers(spec).items():
            first = min(telling.get(name, 0), len(pairs) - 1)  # most likely fails there again
            rest = [case for case in range(len(pairs)) if case != first]
            forms, telling[name] = uncaught(spec, function, pairs, [first, *rest])
            for form in forms:
                passed.setdefault(name + form, []).append(seed)
    assert not rejected, f"right answers that fail -> on these seeds: {rejected}"
    assert not passed, f"wrong answers that pass -> on these seeds: {passed}"


def uncaught(spec, function, pairs, order):
    """The forms, as it is and rounded to float32, in which a wrong answer passes all cases; the last case."""
    forms = {"": lambda value: value, " in float32": single}
    for place in order:
        case, wanted = pairs[place]
        outcome = run(function, case, spec.parameters)
        if outcome.error:  # wrong in every form
            return [], place
        for name, form in list(forms.items()):
            if problem_with(spec, wanted, Outcome(form(outcome.value), changed=outcome.changed)):
                del forms[name]
        if not forms:
            break
    return list(forms), place


def single(value):
    """A value as it would be in float32."""
    if isinstance(value, tuple | list):
        return type(value)(map(single, value))
    if isinstance(value, float | np.ndarray) and np.asarray(value).dtype == np.float64:
        with np.errstate(all="ignore"):
            return np.float32(value)
    return value
