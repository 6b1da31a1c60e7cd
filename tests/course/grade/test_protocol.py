"""What a sandbox may say, and ten thousand things that it should not."""

import json
import random

import pytest

from course.grade import feedback, marking
from course.grade.protocol import LINE, TOO_LARGE, Listener, Report

CELLS = ["def square(x): pass", "import pandas.core\nprint(squares, soft)", "3"]


def listening(lesson, cases):
    return Listener(Report(), CELLS, {id: len(inputs) for id, inputs in cases.items()})


def tell(listener, **event):
    return listener.hear(json.dumps(event).encode())


def test_words_are_kept_before_the_inputs_are_there_and_answers_after(lesson, cases):
    listener = listening(lesson, cases)
    for _ in range(2):
        tell(listener, event="cell", index=0)
        tell(listener, event="cell-error", index=0, error="KeyError: 'a'")
        tell(listener, event="registered", id="99.1", cell=0, name="square")
        tell(listener, event="exercise", id="99.1", found=True)
        tell(listener, event="answer", id="99.1", case=0, value=1.5)
        assert (listener.stage, listener.place) == ("cells", 0)
    assert tell(listener, event="cells-done")
    for _ in range(2):
        tell(listener, event="exercise", id="99.1", found=True)
        tell(listener, event="answer", id="99.1", case=0, value=1.5, changed=[0])
        tell(listener, event="cell", index=1)
        tell(listener, event="cell-error", index=0, error="other words")
        tell(listener, event="registered", id="99.2", cell=0, name="other words")
    assert (listener.stage, listener.place) == ("exercises", "99.1")
    report = listener.report
    assert report.cell_errors == {0: "KeyError; its words are not shown"}
    assert report.registered == {"99.1": [(0, "square")]}
    assert [(answer.value, answer.changed) for answer in report.answers["99.1"]] == [(1.5, [0])]
    for event in ("done", "cells-done", "done"):
        tell(listener, event=event)
        assert listener.stage == "done"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("NameError: name 'squares' is not defined. Did you mean: 'x'?", "name 'squares' is not defined"),
        ("ModuleNotFoundError: No module named 'pandas.core'", "No module named 'pandas.core'"),
        ("ImportError: cannot import name 'core' from 'pandas' (/x)", "cannot import name 'core'"),
        ("NotImplementedError: a.b0011.soft is withheld here", "soft is withheld here"),
    ],
)
def test_of_a_cells_error_only_words_that_it_has_are_told(error, told, lesson, cases):
    for index, says in ((1, f"{error.partition(':')[0]}: {told}"), (2, None)):
        listener = listening(lesson, cases)
        tell(listener, event="cell-error", index=index, error=error)
        says = says or f"{error.partition(':')[0]}; its words are not shown"
        assert listener.report.cell_errors == {index: says}


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("SyntaxError: invalid syntax (1.py, line 2)", "SyntaxError in line 2"),
        ("SyntaxError: invalid syntax (1.py, line 3)", "SyntaxError; its words are not shown"),
        ("E0011: a", "an error of its own kind; its words are not shown"),
        ("NotAttempted: 0011", "NotAttempted"),
        ("TimeIsUp: it took too long", "TimeIsUp"),
        ("RuntimeError: can't start new thread", "RuntimeError: can't start new thread"),
        ("RuntimeError: can't start new thread 0011", "RuntimeError; its words are not shown"),
        (["0011"], "an error of its own kind; its words are not shown"),
    ],
)
def test_other_words_of_a_cell_are_not_told(error, says, lesson, cases):
    listener = listening(lesson, cases)
    tell(listener, event="cell-error", index=1, error=error)
    tell(listener, event="registered", id="99.1", cell=0, name="b0011")
    assert listener.report.cell_errors == {1: says}
    assert listener.report.registered == {"99.1": [(0, "something else")]}


@pytest.mark.parametrize(
    ("error", "disturbed"),
    [
        ("TimeIsUp: it took too long", True),
        ("OSError: [Errno 109] Too many references: cannot splice", True),
        ("EOFError", True),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", True),
        ("RuntimeError: can't start new thread", True),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", False),
        ("PermissionError: [Errno 1] Operation not permitted", False),
        ("ValueError: OSError", False),
    ],
)
def test_errors_that_neighbours_can_cause_are_known(error, disturbed, lesson, cases):
    listener = listening(lesson, cases)
    tell(listener, event="cell-error", index=1, error=error)
    assert listener.report.disturbed == disturbed
    listener = listening(lesson, cases)
    tell(listener, event="cells-done")
    tell(listener, event="exercise", id="99.1", found=True)
    assert not listener.report.disturbed
    tell(listener, event="answer", id="99.1", case=0, error=error)
    assert listener.report.disturbed == disturbed


@pytest.mark.parametrize(
    "value",
    [
        {"list": [{"list": [0, 1]}] * 24_900},
        {"list": [0] * 99_000},
        {"list": ["x" * 2000] * 70},
        {"tuple": [{"array": "AAAA" * 2**15, "dtype": "|u1", "shape": [3 * 2**15]}] * 2},
    ],
)
def test_a_forged_answer_is_no_larger_than_an_honest_one(value, lesson, cases):
    listener = listening(lesson, cases)
    tell(listener, event="cells-done")
    tell(listener, event="exercise", id="99.1", found=True)
    tell(listener, event="answer", id="99.1", case=0, value=value)
    (answer,) = listener.report.answers["99.1"]
    assert (answer.value, answer.error) == (None, TOO_LARGE)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"3", b'{"event": []}', b"\xff", b"[" * LINE, b"[]," * 10**5]
)
def test_what_is_no_event_is_refused(line, lesson, cases):
    assert not listening(lesson, cases).hear(line)


def test_cells_and_exercises_only_go_forward(lesson, cases):
    listener = listening(lesson, cases)
    for index in (1, 0, 1, -1, 3, 10**100, True, 1.0, None):
        tell(listener, event="cell", index=index)
    assert listener.place == 1
    tell(listener, event="cells-done")
    assert listener.place is None  # the inputs are there: no cell's end says anything of them
    for id in ("99.2", "99.1", "99.2", "99.3", ["99.1"]):
        tell(listener, event="exercise", id=id, found=True)
    assert listener.place == "99.1"
    tell(listener, event="cells-done")  # once is enough
    assert listener.place == "99.1"
    tell(listener, event="answer", id="99.2", case=0, value=1)  # its turn is over
    assert listener.report.answers["99.2"] == []


ODD = [
    *(None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), "", "\ud800", "\0", "x" * 3000, [], {}),
    *(
        [[]] * 40,
        {"list": [{}]},
        {"float": "nan"},
        {"other": "\ud800"},
        {"tuple": [1, "\udcfc"]},
        "TimeIsUp: ",
    ),
    {"array": "AA==", "dtype": "<f1", "shape": [1]},
    {"array": "AAAAAAAAAAA=", "dtype": "<f8", "shape": []},
    {"array": "", "dtype": "<f8", "shape": [0, 10**30]},
    {"array": "AAAAAAAA+H8AAAAAAADwfwAAAAAAAPD/", "dtype": "<f8", "shape": [3]},
]


def mutated(rng, event):
    event = dict(event)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        key = rng.choice([*event, "event", "id", "index", "value", "error", "changed", "case"])
        if rng.random() < 0.2:
            event.pop(key, None)
        else:
            event[key] = rng.choice([*ODD, *event.values()])
    line = json.dumps(event).encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(line))
        line = line[:at] + rng.choice((b"", b"\xff", b'"', b"[", b"9" * 5000)) + line[at + 1 :]
    return line


def test_ten_thousand_mutated_events_stop_nobody(lesson, cases):
    rng, heard, refused = random.Random(20261121), 0, 0
    right = [
        {"event": "ready"},
        *({"event": "cell", "index": n} for n in range(3)),
        {"event": "cell-error", "index": 1, "error": "KeyError: 'a'"},
        {"event": "registered", "id": "99.1", "cell": 1, "name": "square"},
        {"event": "cells-done"},
        {"event": "exercise", "id": "99.1", "found": True},
        *(
            {"event": "answer", "id": "99.1", "case": n, "value": {"list": [1.5, 2]}, "changed": []}
            for n in (0, 1)
        ),
        {"event": "exercise", "id": "99.2", "found": True},
        *({"event": "answer", "id": "99.2", "case": n, "value": 1.5, "changed": [0]} for n in (0, 1)),
    ]
    while heard < 10_000:
        listener = listening(lesson, cases)
        for event in right:
            for _ in range(rng.choice((0, 1, 1, 1, 3))):
                heard += 1
                refused += not listener.hear(mutated(rng, event))
        marks = marking.mark(lesson, listener.report, cases)
        words = [*listener.report.cell_errors.values(), *(says for mark in marks for says in mark.says)]
        words += [name for names in listener.report.registered.values() for _, name in names]
        assert all(text.isprintable() for text in words)
        feedback.page("ada", "Lesson 99", marks, words).encode()
        assert not any(mark.points for mark in marks)
    assert 100 < refused < heard / 2
