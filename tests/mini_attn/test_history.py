import copy
import os
import pickle
import signal
import subprocess
import sys
from zipfile import ZipFile

import pytest
import torch

from mini_attn import data, models, optim, train
from mini_attn.history import History

tokens = data.random_tokens(3, 4, 5, trials=2, seed=3)
OPTIMIZERS = {
    "normalised": lambda w: optim.NormalizedGD(w, lr=0.1, batch_dims=1),
    "polyak": lambda w: optim.PolyakGD(w, target=torch.zeros(2), max_step=0.5, batch_dims=1),
    "adam": lambda w: torch.optim.Adam(w, lr=0.01),
    "momentum": lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9),
}


def run(steps, make=OPTIMIZERS["normalised"], model=None, **options):
    model = model or models.CrossAttention(5, trials=2)
    options = {"record": {"W": lambda m: m.W}, "every": 5, "progress": False, **options}
    return model, train.fit(model, tokens, make(model.parameters()), steps, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("cut", [0, 20, 23, 40])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_last_digit(name, cut, tmp_path):
    make = OPTIMIZERS[name]
    whole, expected = run(40, make, schedule=lambda t: t**-0.5)
    _, first = run(cut, make, schedule=lambda t: t**-0.5)
    first.save(tmp_path / "run.pt")
    model, history = run(40, make, schedule=lambda t: t**-0.5, resume=History.load(tmp_path / "run.pt"))
    assert torch.equal(model.W, whole.W)
    at = [history.steps.tolist().index(s) for s in expected.steps.tolist()]
    assert len(at) == len(history.steps) - (cut == 23)  # the end of the first run is recorded too
    for quantity in ("loss", "log_loss", "W"):
        assert torch.equal(history[quantity][at], expected[quantity])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the GPU that the file wants")
def test_a_file_written_on_a_gpu_is_read_on_a_machine_without_one(tmp_path):
    _, first = run(5)
    first.save(tmp_path / "cpu.pt")
    with ZipFile(tmp_path / "cpu.pt") as here, ZipFile(tmp_path / "gpu.pt", "w") as there:
        for name in here.namelist():  # in a pickle, a text stands behind its length
            text = here.read(name).replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0")
            there.writestr(name, text)
    with pytest.raises(RuntimeError, match="CUDA device"):
        torch.load(tmp_path / "gpu.pt", weights_only=True)
    assert torch.equal(History.load(tmp_path / "gpu.pt")["W"], first["W"])


def test_resuming_at_the_end_changes_nothing():
    _, first = run(10)
    model, again = run(10, resume=first)
    assert again is first
    assert torch.equal(model.W.detach(), first["W"][-1])


def test_the_history_does_not_change_when_the_model_trains_on():
    model, first = run(10)
    run(10, model=model)
    assert torch.equal(first.model["W"], first["W"][-1])
    assert not torch.equal(first.model["W"], model.W)


def test_stop_ends_training_once_every_trial_agrees():
    sizes = torch.tensor([1.0, 2.0], dtype=torch.float64)
    _, history = run(400, stop=lambda m: m.W.flatten(1).norm(dim=1) > sizes)
    assert 20 < history.steps[-1] < 60  # the second trial needs 20 steps of length 0.1 and more
    assert (history["W"][-1].flatten(1).norm(dim=1) > sizes).all()
    assert not (history["W"][-2].flatten(1).norm(dim=1) > sizes).all()
    _, history = run(400, stop=lambda m: True)
    assert history.steps.tolist() == [0]
    _, further = run(30, resume=history)
    assert torch.equal(further["W"], run(30)[1]["W"])


def test_a_schedule_scales_each_step_and_gives_the_step_length_back():
    model = models.CrossAttention(5, trials=2)
    optimizer = OPTIMIZERS["normalised"](model.parameters())
    history = train.fit(
        model,
        tokens,
        optimizer,
        4,
        record={"W": lambda m: m.W},
        every=1,
        progress=False,
        schedule=lambda t: t**0.5,
    )
    lengths = history["W"].diff(dim=0).flatten(2).norm(dim=2)
    expected = 0.1 * torch.arange(1, 5, dtype=torch.float64).sqrt()
    torch.testing.assert_close(lengths, expected[:, None].expand(4, 2))
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert history.optimizer["param_groups"][0]["lr"] == 0.1


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_schedule_must_be_positive(factor):
    with pytest.raises(ValueError, match=r"schedule\(1\) = .*; expected a positive finite factor"):
        run(3, schedule=lambda t: factor)


def test_log_loss_survives_underflow():
    points = data.separable_points(6)
    model = models.LinearClassifier(2, init=torch.tensor([3000.0, 2000.0]))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1)
    history = train.fit(model, points, optimizer, 1, loss="exponential", progress=False)
    assert history["loss"][0] == 0
    margins = points.y * (points.X @ torch.tensor([3000.0, 2000.0], dtype=torch.float64))
    torch.testing.assert_close(history["log_loss"][0], (-margins).logsumexp(0) - torch.tensor(6.0).log())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 5}, "the history ends at step 10, beyond steps = 5"),
        ({"loss": "exponential"}, "the history's loss is 'logistic', this call's is 'exponential'"),
        ({"record": {}}, r"recorded \['W', 'log_loss', 'loss'\], this call asks for \['log_loss', 'loss'\]"),
        ({"make": OPTIMIZERS["adam"]}, "the history's optimizer is 'NormalizedGD', this call's is 'Adam'"),
        ({"make": lambda w: optim.NormalizedGD(w, lr=0.2, batch_dims=1)}, "lr = 0.1, this one 0.2"),
        ({"model": models.FactoredAttention(5, 2, trials=2)}, r"parameters \{'W': \(2, 5, 5\)\}, this one"),
        (
            {
                "make": lambda w: optim.NormalizedGD(
                    [{"params": [p]} for p in (*w, torch.zeros(2, 1))], 0.1, 1
                )
            },
            "1 parameter groups, this one has 2",
        ),
    ],
)
def test_runs_that_do_not_match_are_refused(options, says):
    _, first = run(10)
    with pytest.raises(ValueError, match=says):
        run(**{"steps": 20, **options}, resume=first)


def test_an_empty_or_foreign_history_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no state to go on from"):
        run(20, resume=History(torch.tensor([0]), {}))
    for foreign in ({"W": torch.zeros(2)}, {name: print for name in History.__dataclass_fields__}):
        torch.save(foreign, tmp_path / "other.pt")
        with pytest.raises(ValueError, match=r"other\.pt holds no History"):
            History.load(tmp_path / "other.pt")


def test_an_interrupted_save_leaves_the_old_file_alone(tmp_path, monkeypatch):
    _, first = run(5)
    first.save(tmp_path / "run.pt")

    def fail(content, file):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        first.save(tmp_path / "run.pt")
    assert torch.equal(History.load(tmp_path / "run.pt")["W"], first["W"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


class Halted(Exception):
    pass


def halting(at, error, function=lambda m: m.W):
    """`function`, but for its call number `at`, which raises."""
    calls = iter(range(10**6))

    def halted(argument):
        if next(calls) == at:
            raise error
        return function(argument)

    return halted


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Halted("a bug in a callback")])
@pytest.mark.parametrize(
    "callback",
    [
        lambda error: {"record": {"W": halting(4, error)}},
        lambda error: {"schedule": halting(17, error, lambda t: t**-0.5)},
        lambda error: {"stop": halting(3, error, lambda m: False)},
    ],
)
@pytest.mark.parametrize("name", ["normalised", "adam"])
def test_an_interrupted_run_keeps_its_records_and_can_be_resumed(name, callback, error):
    options = {"make": OPTIMIZERS[name], "schedule": lambda t: t**-0.5}
    whole, expected = run(40, **options)
    with pytest.raises(type(error)) as stopped:
        run(40, **{**options, **callback(error)})
    kept = stopped.value.history
    assert kept.steps.tolist() == [0, 5, 10, 15]
    assert torch.equal(kept.model["W"], kept["W"][-1])
    assert kept.optimizer["param_groups"][0]["lr"] == expected.optimizer["param_groups"][0]["lr"]
    model, history = run(40, **options, resume=kept)
    assert torch.equal(model.W, whole.W)
    assert torch.equal(history.steps, expected.steps)
    for quantity in ("loss", "log_loss", "W"):
        assert torch.equal(history[quantity], expected[quantity])


def test_a_resumed_run_that_is_interrupted_keeps_both_parts():
    _, whole = run(40)
    _, first = run(10)
    for at, last in ((0, 10), (3, 25)):  # before its first record, and later
        with pytest.raises(KeyboardInterrupt) as stopped:
            run(40, record={"W": halting(at, KeyboardInterrupt())}, resume=first)
        kept = stopped.value.history
        assert kept.steps.tolist() == list(range(0, last + 1, 5))
        assert torch.equal(run(40, resume=kept)[1]["W"], whole["W"])


def test_a_run_interrupted_before_its_first_record_has_no_history():
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(40, record={"W": halting(0, KeyboardInterrupt())})
    assert stopped.value.history is None


def test_one_diverging_trial_does_not_take_the_records_of_the_others():
    scale = torch.tensor([1.0, 1e160], dtype=torch.float64)[:, None, None]
    model = models.LinearClassifier(2, trials=2)
    points = data.separable_points(12)
    overlapping = data.PointData(scale * points.X, points.y.roll(1).expand(2, -1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(FloatingPointError, match=r"diverged in trials \[1\]") as diverged:
        train.fit(model, overlapping, optimizer, 5, loss="exponential", progress=False)
    kept = diverged.value.history
    assert len(kept.steps)
    assert kept["loss"].isfinite().all()
    assert kept.model["w"].isfinite().all()


def test_a_record_that_changes_its_shape_is_refused_when_it_does():
    sizes = iter([2, 2, 3])
    with pytest.raises(
        ValueError, match=r"record\['x'\] returned shape \(3,\) at step 10 and \(2,\)"
    ) as ended:
        run(40, record={"x": lambda m: torch.zeros(next(sizes))})
    assert ended.value.history.steps.tolist() == [0, 5]


INTERRUPTED = """
import signal

import torch
from mini_attn import data, models, optim, train

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
tokens = data.random_tokens(6, 8, 10, trials=100, seed=3)
model = models.CrossAttention(10, trials=100)
step = {"lr": 0.1, "batch_dims": 1}
options = {"schedule": train.growing, "every": 10, "progress": False}

def fit(steps, resume=None, **more):
    model = models.CrossAttention(10, trials=100)
    optimizer = optim.NormalizedGD(model.parameters(), **step)
    return train.fit(model, tokens, optimizer, steps, resume=resume, **options, **more)

said = []

def begun(model):
    if model.W.any() and not said:  # once: the signal must not come in the middle of a line
        said.append(print("begun", flush=True))
    return False

try:
    fit(10**7, stop=begun)
except KeyboardInterrupt as stopped:
    kept = stopped.history
end = int(kept.steps[-1])
assert end >= 10, end
whole, resumed = fit(end + 20), fit(end + 20, resume=kept)
assert torch.equal(resumed.model["W"], whole.model["W"])
assert torch.equal(resumed["loss"], whole["loss"])
print("resumed")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are sent so on POSIX only")
def test_ctrl_c_keeps_the_run():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[0]
    assert said.splitlines()[-1] == "resumed"


def test_a_file_cut_short_is_named(tmp_path):
    run(5)[1].save(tmp_path / "run.pt")
    whole = (tmp_path / "run.pt").read_bytes()
    for part in (b"", whole[:100], whole[:-100], b"text"):
        (tmp_path / "cut.pt").write_bytes(part)
        with pytest.raises(ValueError, match=r"cut\.pt holds no History"):
            History.load(tmp_path / "cut.pt")
    with pytest.raises(FileNotFoundError):
        History.load(tmp_path / "none.pt")


def test_what_a_run_is_made_of_travels_to_other_processes():
    model, history = run(10)
    optimizer = OPTIMIZERS["normalised"](model.parameters())
    for travel in (copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        there_model, there_optimizer = travel((model, optimizer))
        assert there_optimizer.param_groups[0]["params"][0] is there_model.W
        there = train.fit(there_model, travel(tokens), there_optimizer, 5, progress=False)
        assert torch.equal(there["loss"][0], travel(history)["loss"][-1])
