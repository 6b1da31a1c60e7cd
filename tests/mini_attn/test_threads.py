import dataclasses
import threading

import pytest
import torch

from mini_attn import data, losses, models, optim, paths, svm, train
from mini_attn.steps import taker
from mini_attn.threads import ALIKE, LARGE, SMALL, blocks, each, free_threads, one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of this load, on which one thread of ours runs and another sleeps."""

    def set_up(load: str | None):
        if load is not None:
            (tmp_path / "loadavg").write_text(load)
        for k, state in enumerate("RS"):
            task = tmp_path / "self" / "task" / str(k)
            task.mkdir(parents=True)
            (task / "stat").write_text(f"{k} (python) {state} 1 1")
        monkeypatch.setattr("mini_attn.threads.PROC", tmp_path)

    return set_up


@pytest.fixture
def small_blocks(monkeypatch):
    """Torch's own steps, too, in blocks of a few hundred trials."""
    monkeypatch.setattr("mini_attn.steps.LARGE", SMALL)


@pytest.mark.parametrize(
    ("count", "entries"), [(1, 1), (1000, 480), (10_000, 480), (3, 10**9), (7, 1), (0, 5)]
)
def test_blocks_cover_all_once(count, entries):
    cut = blocks(count, entries)
    assert [i for piece in cut for i in range(count)[piece]] == list(range(count))
    sizes = [len(range(count)[piece]) for piece in cut]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= max(1, -(-SMALL // entries))


def test_threads_compute_on_one_thread_each(two_threads):
    def look(part):
        return part, torch.get_num_threads(), torch.is_grad_enabled(), threading.get_ident()

    meet = threading.Barrier(2)  # passed only by two at a time

    with one_thread() as threads, torch.no_grad():
        found = each(lambda part: (meet.wait(10), look(part))[1], range(6), threads)
    assert [part for part, *_ in found] == list(range(6))
    assert {(count, grad) for _, count, grad, _ in found} == {(1, False)}
    assert threading.get_ident() not in {thread for *_, thread in found}
    assert torch.get_num_threads() == 2


def test_a_failure_halts_the_others_and_gives_the_threads_back(two_threads):
    halt = threading.Event()

    def fail(part):
        if part:
            raise ZeroDivisionError("part 1")
        assert halt.wait(10)

    with pytest.raises(ZeroDivisionError, match="part 1"), one_thread() as threads:
        each(fail, range(2), threads, halt=halt)
    assert torch.get_num_threads() == 2


def _trained(kind: str, trials, steps=12, **arguments):
    total = torch.Size((trials,) if isinstance(trials, int) else trials).numel()
    tokens = data.random_tokens(6, 8, 10, trials=total, seed=5)
    if not isinstance(trials, int):
        tokens = data.TokenData(*(getattr(tokens, f).unflatten(0, trials) for f in ("X", "z", "y", "v")))
    batch_dims = len(trials) if not isinstance(trials, int) else 1
    if kind == "joint":
        head = models.LinearHead(10, trials=trials, init=tokens.v)
        model = models.PromptAttention(10, trials=trials, head=head)
        groups = [{"params": [model.p]}, {"params": [head.v], "lr": 0.02}]
    else:
        make = {"W": models.CrossAttention, "KQ": models.FactoredAttention}[kind]
        model = make(10, trials=trials, **({"m": 3} if kind == "KQ" else {}))
        groups = model.parameters()
    optimizer = optim.NormalizedGD(groups, lr=0.1, batch_dims=batch_dims)
    history = train.fit(model, tokens, optimizer, steps, progress=False, **arguments)
    return model, history


@pytest.mark.parametrize(
    "ridge", [0.0, pytest.param(1e-3, marks=pytest.mark.slow)]
)  # compiled, or torch's steps
@pytest.mark.parametrize("kind", ["W", "KQ", "joint"])
def test_the_number_of_threads_does_not_change_a_bit(kind, ridge, two_threads, small_blocks):
    model, history = _trained(kind, 700, schedule=train.growing, ridge=ridge)
    torch.set_num_threads(1)
    other, same = _trained(kind, 700, schedule=train.growing, ridge=ridge)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(history["loss"], same["loss"])


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("kind", ["W", "KQ", "joint"])
def test_blocks_train_as_one_batch_would(kind, ridge, monkeypatch, small_blocks):
    model, history = _trained(kind, (2, 350), ridge=ridge)
    monkeypatch.setattr("mini_attn.steps.trial_blocks", lambda model, data, room=0: [slice(None)])
    whole, same = _trained(kind, (2, 350), ridge=ridge)
    for a, b in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    torch.testing.assert_close(history["loss"], same["loss"], rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("room", "kind", "ridge", "pieces"),
    [
        (SMALL, "W", 0.0, 3),
        (SMALL, "W", 1e-3, 3),
        (LARGE, "W", 0.0, 3),
        (LARGE, "W", 1e-3, 1),
        (LARGE, "joint", 0.0, 1),
    ],
)
def test_compiled_steps_are_cut_to_the_cache_and_others_hardly(room, kind, ridge, pieces, monkeypatch):
    seen = []
    monkeypatch.setattr("mini_attn.steps.LARGE", room)
    monkeypatch.setattr("mini_attn.train.taker", lambda *args: seen.append(args) or taker(*args))
    _trained(kind, 700, steps=1, ridge=ridge)
    assert len(seen) == pieces
    assert sum(model.trials.numel() for model, *_ in seen) == 700


@pytest.mark.parametrize(("trials", "threads"), [(10, 1), (700, 2)])
def test_small_data_are_evaluated_on_one_thread(trials, threads, two_threads, machine):
    """Beside other work the second thread keeps the first waiting: a fifth of a short training."""
    machine("0.00 0.00 0.00 1/90 7")
    seen = set()

    def value(margins):
        seen.add(torch.get_num_threads())
        return losses.logistic.value(margins)

    asked = set()
    loss = dataclasses.replace(losses.logistic, value=value)
    _trained(
        "W", trials, steps=1, loss=loss, record={"x": lambda m: asked.add(torch.get_num_threads()) or m.W[:1]}
    )
    assert seen == {threads}
    assert asked == {2}  # a callback computes as its author has set torch


def test_each_block_has_its_own_targets(small_blocks):
    tokens = data.random_tokens(6, 8, 10, trials=600, seed=5)
    target = torch.linspace(0.0, 0.3, 600, dtype=torch.float64)

    def steps(trials):
        part = data.TokenData(*(getattr(tokens, f)[trials] for f in ("X", "z", "y", "v")))
        model = models.CrossAttention(10, trials=len(part.y))
        optimizer = optim.PolyakGD(model.parameters(), target=target[trials], max_step=0.1, batch_dims=1)
        train.fit(model, part, optimizer, 5, progress=False)
        return model.W.detach()

    torch.testing.assert_close(steps(slice(None))[450:500], steps(slice(450, 500)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_ctrl_c_stops_all_blocks_and_keeps_the_history(ridge, two_threads, small_blocks):
    calls = 0

    def schedule(step):
        nonlocal calls
        calls += 1
        if calls > 40:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt) as stopped:
        _trained("W", 700, steps=100, schedule=schedule, every=20, ridge=ridge)
    assert stopped.value.history.steps.tolist() == [0, 20, 40]
    assert threading.active_count() == 1 or not any(
        thread.name.startswith("ThreadPool") for thread in threading.enumerate()
    )
    assert torch.get_num_threads() == 2


def test_every_callback_sees_all_trials_at_one_step(two_threads):
    _, history = _trained("W", 700, steps=6, every=2, record={"norm": lambda m: m.W.norm(dim=(1, 2))})
    seen = history["norm"]
    assert history.steps.tolist() == [0, 2, 4, 6]
    assert seen.shape == (4, 700)
    assert (seen[1:] > seen[:-1]).all()  # no block lags behind


def test_paths_of_blocks_are_the_paths_of_their_trials(two_threads):
    tokens = data.random_tokens(6, 8, 10, trials=400, seed=7)
    path = paths.regularization_path(models.CrossAttention(10, trials=400), tokens, [0.5, 2.0])
    part = data.TokenData(*(getattr(tokens, f)[390:] for f in ("X", "z", "y", "v")))
    alone = paths.regularization_path(models.CrossAttention(10, trials=10), part, [0.5, 2.0])
    assert path["W"].shape == (2, 400, 10, 10)
    assert path.loss.shape == path.residual.shape == (2, 400)
    torch.testing.assert_close(path["W"][:, 390:], alone["W"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_problems_of_blocks_are_solved_as_alone(norm, two_threads, monkeypatch):
    tokens = data.random_tokens(4, 4, 5, trials=60, seed=2)
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    monkeypatch.setattr("mini_attn.svm.dispatch.BLOCK", 2**13)
    cut = svm.solve(problem, norm=norm, throw=False)
    monkeypatch.undo()
    whole = svm.solve(problem, norm=norm, throw=False)
    assert (cut.status == whole.status).all()
    solved = torch.as_tensor(whole.status == "optimal")
    torch.testing.assert_close(cut.objective[solved], whole.objective[solved], rtol=1e-6, atol=0)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("load", "entries", "threads", "free"),
    [
        ("0.00 0.00 0.00 1/90 7", SMALL, 8, 1),
        ("0.00 0.00 0.00 1/90 7", SMALL + 1, 8, 2),
        ("0.00 0.00 0.00 1/90 7", 3 * SMALL, 8, 4),
        ("0.00 0.00 0.00 1/90 7", 100 * SMALL, 8, 8),
        ("9.00 9.00 9.00 4/90 7", 100 * SMALL, 8, 5),  # three cores are taken
        ("9.00 9.00 9.00 4/90 7", 100 * SMALL, 2, 1),
        ("0.00 0.00 0.00 1/90 7", 0, 8, 1),
        ("", 100 * SMALL, 8, 1),  # not told
        (None, 100 * SMALL, 8, 1),
    ],
)
def test_torch_gets_the_threads_that_other_work_leaves(load, entries, threads, free, machine):
    machine(load)
    assert free_threads(entries, threads, ALIKE) == free
    assert free_threads(entries, threads, ALIKE + 1) == (threads if entries > SMALL else 1)


@pytest.mark.parametrize(
    ("n", "T", "d", "trials", "free"),
    [(6, 8, 10, 400, True), (2, 128, 128, 16, True), (20, 20, 600, 2, True), (2, 256, 128, 16, False)],
)
def test_other_work_does_not_change_a_bit_of_a_step(n, T, d, trials, free, two_threads, monkeypatch):
    """Whether it runs decides how many threads a block of large tensors is given, if they compute alike."""
    tokens = data.random_tokens(n, T, d, trials=trials, seed=5)
    found, asked = [], []
    for threads in (1, 2):

        def given(entries, available, matrix, threads=threads):
            asked.append(available if matrix > ALIKE else threads)
            return asked[-1]

        monkeypatch.setattr("mini_attn.train.free_threads", given)
        model = models.CrossAttention(d, trials=trials)
        optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
        train.fit(model, tokens, optimizer, 8, progress=False, every=8, ridge=1e-9)
        found.append(model.W.detach())
    assert torch.equal(*found)
    assert set(asked) == ({1, 2} if free else {2})


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["fro", "nuc", "spectral", 1, 1.5, float("inf")])
@pytest.mark.parametrize(
    ("size", "trials"), [((6, 8, 10), 20), ((3, 5, 4), 20), ((30, 5, 11), 8), ((40, 3, 4), 20)]
)
def test_other_work_does_not_change_a_bit_of_a_solution(size, trials, norm, two_threads, monkeypatch):
    """Whether it runs decides how many threads solve a block."""
    tokens = data.random_tokens(*size, trials=trials, seed=2)
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    solutions = []
    for threads in (1, 2):
        monkeypatch.setattr("mini_attn.svm.dispatch.free_threads", lambda *_, threads=threads: threads)
        solutions.append(svm.solve(problem, norm=norm, throw=False))
    one, two = solutions
    assert (one.status == two.status).all()
    for name in ("value", "dual", "gap", "objective"):
        assert torch.equal(getattr(one, name).nan_to_num(), getattr(two, name).nan_to_num()), name
    assert torch.get_num_threads() == 2
