"""A small exercise whose wrong answers the tests of patterns make up."""

import pytest

from course.check.pattern.search import pattern
from course.check.specification import Compare, Exercise
from course.check.trying import run


def points(rng):
    """Inputs w, X, y, of several sizes; the labels are not all alike."""
    cases = []
    for n, d in ((2, 2), (4, 3), (5, 2), (3, 4)):
        y = rng.choice([-1.0, 1.0], n)
        y[0], y[1] = 1.0, -1.0
        cases.append((rng.standard_normal(d), rng.standard_normal((n, d)), y))
    return cases


def explained(reference, own, cases=points, misconceptions=(), **compare):
    """The sentence about an answer to an exercise with this reference."""
    spec = Exercise(
        id="99.1",
        title="Anything",
        points=1,
        minutes=1,
        difficulty=1,
        reference=reference,
        cases=cases,
        compare=Compare(**compare),
        misconceptions=list(misconceptions),
    )
    drawn = spec.draw(1)
    tried = [[run(function, case, spec.parameters) for case in drawn] for function in (reference, own)]
    return pattern(spec, own, drawn, *tried)


@pytest.fixture
def told():
    return explained


@pytest.fixture
def vectors():
    """Cases with one vector each."""
    return lambda rng: [(rng.standard_normal(n),) for n in (3, 4, 5, 6)]
