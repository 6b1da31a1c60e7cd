import functools
import textwrap

import numpy as np
import pytest
import torch

from mini_attn.sweep import fingerprint as module
from mini_attn.sweep.fingerprint import fingerprint, versions

SOURCE = """
import torch
from functools import partial
from mini_attn import data

LR, OTHER, KINDS = 0.1, 3, {"a": torch.relu}

def helper(x):
    return x * LR

class Rule:
    steps = 5
    def apply(self, x):
        return x + self.steps

def trial(n, loss="a", *, trials, seed):
    tokens = data.random_tokens(n, 3, 4, trials=trials, seed=seed)
    inner = lambda x: helper(x) + 1
    if loss in {"a", "b"}:
        return {"x": KINDS[loss](inner(tokens.X)), "y": Rule().apply(2)}
"""


def made(*changes, name="trial"):
    source = SOURCE
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    scope = {"__name__": "readers_own"}
    exec(source, scope)
    return scope[name]


@pytest.mark.parametrize(
    "change",
    [
        ("    inner =", "    # why\n\n    inner  ="),
        ("OTHER", "SOMETHING"),
        ("OTHER, KINDS = 0.1, 3", "OTHER, KINDS = 0.1, 4"),
        ("def trial", "def run"),
    ],
)
def test_comments_layout_and_what_is_not_used_do_not_matter(change):
    other = made(change, name="run" if change[0] == "def trial" else "trial")
    assert fingerprint(other) == fingerprint(made())


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("n, 3, 4", "n, 3, 5"), "its code"),
        (("helper(x) + 1", "helper(x) + 2"), "its code"),
        (('{"a", "b"}', '{"a", "c"}'), "its code"),
        (("LR, OTHER, KINDS = 0.1", "LR, OTHER, KINDS = 0.2"), "the value of helper"),
        (("return x * LR", "return x + LR"), "the value of helper"),
        (("torch.relu", "torch.tanh"), "the value of KINDS"),
        (('loss="a"', 'loss="b"'), "the value of loss"),
        (("steps = 5", "steps = 6"), "the value of Rule"),
        (("x + self.steps", "x - self.steps"), "the value of Rule"),
        (("import data", "import models as data"), "the value of data"),
    ],
)
def test_a_change_is_noticed_and_named(change, part):
    before, after = fingerprint(made()), fingerprint(made(change))
    assert {name for name in before | after if before.get(name) != after.get(name)} == {part}


def closure(value):
    def trial(*, trials, seed):
        return {"x": value}

    return trial


class Settings:
    def __init__(self, lr):
        self.lr = lr
        self.me = self


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (1, 1, 2),
        (1, 1, 1.0),
        ("a", "a", "b"),
        ({"a": 1}, {"a": 1}, {"a": 2}),
        ([1, [2]], [1, [2]], [1, [3]]),
        ({1, 2}, {2, 1}, {1, 3}),
        (torch.ones(3), torch.ones(3), torch.ones(3, dtype=torch.float64)),
        (torch.ones(3), torch.ones(3), torch.tensor([1.0, 1.0, 1.5])),
        (torch.zeros(0), torch.zeros(0), torch.zeros(0, 1)),
        (torch.eye(2).mT, torch.eye(2), torch.eye(3)),
        (np.arange(3), np.arange(3), np.arange(4)),
        (torch.float32, torch.float32, torch.float64),
        (np.sin, np.sin, np.cos),
        (Settings(1), Settings(1), Settings(2)),
        (functools.partial(max, 1), functools.partial(max, 1), functools.partial(max, 2)),
        (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2),
        (torch.nn.Linear(2, 1).requires_grad_(False), None, torch.nn.Linear(2, 1)),
        (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)),
    ],
)
def test_captured_values_are_told_apart(one, same, other):
    first = fingerprint(closure(one))
    assert fingerprint(closure(one if same is None else same)) == first
    assert fingerprint(closure(other))["the value of value"] != first["the value of value"]
    assert fingerprint(closure(other))["its code"] == first["its code"]


def test_partials_methods_and_callable_objects():
    def trial(self=None, steps=1, *, trials, seed):
        return {"x": steps}

    given = [fingerprint(functools.partial(trial, steps=steps)) for steps in (2, 2, 3)]
    assert given[0] == given[1]
    assert [part for part in given[0] if given[0][part] != given[2][part]] == ["the value given for steps"]

    class Experiment:
        def __init__(self, lr):
            self.lr = lr

        def __call__(self, *, trials, seed):
            return {"x": self.lr}

        run = trial

    for look in (lambda x: x, lambda x: x.run):
        one, same, other = (fingerprint(look(Experiment(lr))) for lr in (1, 1, 2))
        assert one == same
        assert one != other


def test_a_function_that_calls_itself_and_one_without_a_value_yet():
    def trial(*, trials, seed):
        return trial(trials=trials, seed=seed) if seed else later

    first = fingerprint(trial)
    later = 1
    assert fingerprint(trial) != first


def test_a_module_of_the_readers_own_counts_by_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "readers_helpers.py").write_text("x = 1\n")
    import readers_helpers

    trial = closure(readers_helpers)
    before = fingerprint(trial)
    (tmp_path / "readers_helpers.py").write_text("x = 2\n")
    assert fingerprint(trial) != before
    assert module.is_own("readers_helpers")
    assert not any(
        module.is_own(name) for name in ("torch", "textwrap", "mini_attn.data", "builtins", "numpy")
    )
    assert textwrap


def test_calling_a_function_does_not_change_it():
    trial = made()
    before = fingerprint(trial)
    for _ in range(50):  # Python rewrites code that runs often
        trial(2, trials=1, seed=0)
    assert fingerprint(trial) == before


def test_versions_name_what_results_depend_on():
    assert set(versions()) == {"python", "numpy", "scipy", "torch", "mini_attn"}
    assert versions()["torch"] == torch.__version__
