"""What lesson 18 builds from scratch agrees with `mini_attn` and with the model of the stored sweeps."""

import re

import numpy as np
import pytest
import torch

from course import exercises
from course.make.build import Folders
from course.make.notebook import from_source
from course.replicate import lesson_18 as stored
from course.replicate import small_transformer as net
from course.replicate import taken_apart
from mini_attn import svm

given_back, moved_by_pairs, best_mixture, lower_bound = (spec.reference for spec in exercises.exercises("18"))


def weights(lesson):
    P = stored.begin_one(3, 5, 4, seed=1)
    return P, weights_of(P)


def test_the_transformer_is_the_stored_sweeps(lesson):
    P, batched = weights(lesson)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(3, 5, 3, generator=generator, dtype=torch.float64)
    mine, theirs = [], []
    answers = lesson["transformer"](P, X @ P["embed"] + P["place"], mine)
    expected = net.forward(batched, X[None], torch.ones(1, 3, 5, dtype=torch.bool), theirs)[0]
    torch.testing.assert_close(answers, expected)
    for (a, s), (b, r) in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b[0])
        torch.testing.assert_close(s.swapaxes(0, 1), r[0])


def test_the_shapes_of_the_start_are_the_stored_ones(lesson):
    P, _ = weights(lesson)
    batched = net.begin(1, 5, 4, inputs=3)
    assert {name: w.numel() for name, w in P.items()} == {name: w.numel() for name, w in batched.items()}


def test_a_gradient_has_the_form_of_the_control():
    """Slopes of any function of the attention add up to 0 over the tokens."""
    a = torch.randn(2, 4, 3, dtype=torch.float64)
    W = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    h = torch.einsum("ikd,ed,ite->ikt", a, W, a)
    h.retain_grad()
    (h.softmax(-1).pow(2) * torch.rand(2, 4, 4)).sum().backward()
    torch.testing.assert_close(h.grad.sum(-1), torch.zeros(2, 4, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(torch.einsum("ikt,itd,ike->de", h.grad, a, a), W.grad)


@pytest.mark.parametrize(("T", "C"), [(3, 1.0), (7, 0.01), (20, 30.0)])
def test_what_a_selection_gives_back_is_the_solvers_cosine(T, C):
    c = np.random.default_rng(T).normal(size=(T, T)) + 0.5
    W = torch.from_numpy(c - c.mean(1, keepdims=True)).T
    solution = svm.solve_soft(torch.eye(T, dtype=torch.float64)[None], W.argmax(0)[None], C, tol=1e-8)
    assert given_back(c) == pytest.approx(float(stored.cosine(W, solution.value)), abs=1e-4)


def test_the_gap_of_a_movement_is_its_definition(lesson):
    """On the page N is made of matrices; in the stored sweeps it is known by cosines only."""
    g = torch.Generator().manual_seed(2)
    W_0, moved, G = torch.randn(3, 2, 6, 6, generator=g, dtype=torch.float64)
    judges = torch.randn(2, 2, 3, 5, 6, generator=g, dtype=torch.float64)
    real = torch.ones(2, 3, 5, dtype=torch.bool)
    fits, cos = [], stored.cosine(moved, G)
    for x in judges:
        chosen = torch.stack([stored.choice(W[None, None], a[None], real[:1])[0, 0]
                              for W, a in zip(W_0 + moved, x, strict=True)])  # fmt: skip
        fits.append(svm.solve_soft(x, chosen, 1.0, tol=1e-3).value)
    parts = [(stored.cosine(moved, S) - cos * stored.cosine(G, S)) / (1 - cos**2).sqrt() for S in fits]
    expected = (parts[0] - parts[1]) / (1 - stored.cosine(*fits))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"W_0": W_0, "x_ten": judges[0], "x_new": judges[1]}.items():
            patch.setitem(lesson["svms"].__globals__, name, value)
        torch.testing.assert_close(lesson["gap_of"](moved, 3 * G, *lesson["svms"](moved)), expected)


def test_the_stored_layers_descend_as_on_the_page(lesson):
    """The gaps of both losses at the soft minimum, and on the way, by the page's own functions."""
    W_0, _, _, v, y, x_ten, x_new = stored.few_layers(2, seed=9)
    found, names = stored.partings(0.8, trials=2, seed=9), ("W_0", "v", "y", "x_ten", "x_new")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(names, (W_0, v, y, x_ten, x_new), strict=True):
            patch.setitem(lesson["svms"].__globals__, name, value)
        end = lesson["descended"](0.8, 400)
        for k, share in enumerate(stored.SHARES):
            far = share * lesson["length"](end - W_0)
            soft = end if share == 1 else lesson["descended"](0.8, 400, far)
            both = lesson["descended"](1.0, 400, far), soft
            for at, (W, p) in enumerate(zip(both, (1.0, 0.8), strict=True)):
                gap = lesson["gap_of"](W - W_0, lesson["pull"](W_0, p), *lesson["svms"](W - W_0))
                torch.testing.assert_close(found["gap"][:, k, at], gap.float(), atol=1e-3, rtol=0)
                away = lesson["length"](W - W_0) / lesson["length"](W_0)
                torch.testing.assert_close(found["moved"][:, k, at], away.flatten().float())


def test_other_losses_are_of_the_networks_of_the_ladder():
    """Both start from the same networks, and reach the same distances, with the same free W at first."""
    ladder, other = (stored.measured(f"18.{name}").load() for name in ("ladder", "losses"))
    ladder = ladder.sel(way="W by descent")
    for aim in stored.OTHERS:
        cell = other.sel(aim=aim)
        for at, far in enumerate(stored.RUNGS):
            means = cell.moved.values[:, at].mean(-1)
            assert (means >= far).all()
            assert (means < far + 0.05).all()
        assert (cell.gone.values[:, 0] < cell.gone.values[:, 1]).all()
        assert (cell.gone.values < 1).all()
        free = [x.free_own_seen.values[:, 0, 0] for x in (ladder, cell)]  # layer 1 reads what nobody moved
        assert np.corrcoef(*(x.ravel() for x in free))[0, 1] > 0.5


def test_the_gap_of_n_is_in_units_of_the_svms_own(lesson):
    rng = np.random.default_rng(0)
    seen, unseen, first = rng.uniform(0.1, 0.5, size=(3, 20, 3))
    alike, cos = rng.uniform(size=(2, 20, 3))
    given = {"own": np.stack([seen, unseen]), "first": np.stack([first, 0 * first])}
    given |= {"alike": alike, "to_first": cos}
    with pytest.MonkeyPatch.context() as patch:
        for name, values in given.items():
            patch.setitem(lesson["gap_of_N"].__globals__, name, {"here": values})
        found = lesson["gap_of_N"]("here")
    sine = np.sqrt(1 - cos**2)
    for r in range(20):
        lead = [(seen[r, h] - unseen[r, h] - cos[r, h] * first[r, h]) / sine[r, h] for h in range(3)]
        assert found[r] == pytest.approx(np.mean(lead) / (1 - alike[r].mean()))


def test_the_interval_is_students(lesson):
    x = np.random.default_rng(1).normal(size=20)
    for level, width in (({"level": 0.95}, 2.093), ({}, 3.883)):
        mean, half = lesson["interval"](x, **level)
        assert mean == pytest.approx(x.mean())
        assert half == pytest.approx(width * x.std(ddof=1) / 20**0.5, rel=1e-3)


def test_the_cases_are_whole():
    own, moved, judges = (stored.cases(name) for name in ("own", "moved", "judges"))
    assert [*own] == [*moved] == [*judges]
    layers = {*stored.WAYS, *stored.RIVALED}
    rungs = (len(stored.LADDER) + len(stored.OTHERS)) * len(stored.RUNGS)
    soft = 2  # soft targets, on digits and on sentences: without rivals
    assert len(own) == len(layers) + (2 + rungs) * (1 + len(stored.RIVALS)) + soft
    for (place, what), values in own.items():
        assert values.shape == (2, 20, 1 if place[0] == "d" and "=" in place else 8)
        assert np.isfinite(values).all()
        assert values.shape[1:] == moved[place, what].shape == judges[place, what].shape
        assert (judges[place, what] < (0.99 if place.endswith("entropy") else 0.95)).all()


def weights_of(P):
    return {name: w.detach()[None] if name[0] != "b" else w.detach()[None, None] for name, w in P.items()}


def gaps():
    """The gap of N of each run."""
    own, first, judges, cos = (stored.cases(name) for name in ("own", "first", "judges", "to_first"))
    new = {at: (own[at] - cos[at] * first[at]) / np.sqrt(1 - cos[at] ** 2) for at in own}
    return {at: (x[0] - x[1]).mean(-1) / (1 - judges[at]).mean(-1) for at, x in new.items()}


def test_the_instrument_sees_w_itself_by_descent():
    moved = {way: x.mean() for (place, way), x in stored.cases("moved").items() if place == "d = 32"}
    mean = {way: x.mean() for (place, way), x in gaps().items() if place == "d = 32"}
    assert mean["W by descent"] > 0.35
    assert mean["W by descent"] > mean["W by Adam"] + 0.1
    assert mean["W by descent"] > 2 * mean["K and Q by descent"] > 0
    assert mean["W by descent"] > 2.5 * mean["K and Q by Adam"] > 0
    assert abs(mean["free W"]) < 0.13
    for way in ("W by Adam", "K and Q by descent", "K and Q by Adam", "free W"):
        assert moved[way] == pytest.approx(moved["W by descent"], rel=0.03)
    for way, far in zip(stored.WAYS, (0.25, 0.5, 1, None, 0.25, 0.5, 1), strict=False):
        assert far is None or moved[way] == pytest.approx(far, abs=0.04)


def test_what_the_instrument_sees():
    found, moved = gaps(), stored.cases("moved")

    def lead(place, what, rival, far):
        x = found[place, what + far] - found[place, rival + far]
        as_far = moved[place, rival + far].mean()
        assert moved[place, what + far].mean() == pytest.approx(as_far, abs=0.04)
        return x.mean(), 2.093 * x.std(ddof=1) / len(x) ** 0.5

    for rival in stored.RIVALS.values():
        for far in ("", ", 1", ", 0.5"):
            mean, half = lead("d = 32", "W by descent", rival, far)
            assert mean > half
        mean, half = lead("d = 32", "K and Q by Adam", rival, ", 0.5")
        assert mean < half
        mean, half = lead("d = 32", "K and Q by Adam", rival, "")
        assert mean > 2 * half
    for tokens in ("digits", "sentences"):
        assert lead(tokens, "labels", "free W", "")[0] < 0.05
        assert found[tokens, "labels"].mean() < 0.25 * found["d = 32", "W by descent, 0.5"].mean()


def test_the_free_w_of_both_sweeps_is_one():
    layer, rivals = stored.measured("18.layer").load(), stored.measured("18.rivals").load()
    at = stored.RIVALED.index("free W")
    for name in ("own_seen", "own_unseen", "first_seen", "judges", "moved", "to_first"):
        np.testing.assert_allclose(rivals[name].values[..., at], layer[name].values[..., -1], atol=1e-6)


def test_no_attention_beats_the_best_mixture():
    rng = np.random.default_rng(0)
    for y in (-1, 1):
        X, v = rng.normal(size=(5, 7)), rng.normal(size=7)
        others = np.vstack([rng.dirichlet(np.full(5, 0.3), size=20_000), np.eye(5)]) @ X
        found = y * others @ v / np.linalg.norm(others, axis=1)
        m = best_mixture(X, v, y) @ X
        assert found.max() - 1e-12 < y * m @ v / np.linalg.norm(m) < found.max() + 0.05


def test_the_bound_is_tight_at_the_solution_and_below_it_elsewhere():
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    selected = torch.randint(0, 4, (2, 4), generator=generator)
    solution = svm.solve_soft(X, selected, 2.0, tol=1e-10)
    i, k, t = np.nonzero(np.arange(4) != selected.numpy()[..., None])
    A = np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, k]).reshape(len(i), -1)
    w = solution.value.numpy().ravel()
    assert lower_bound(A, w, 2.0) == pytest.approx(float(solution.objective), rel=1e-6)
    for shift in np.random.default_rng(0).normal(size=(20, 9)):
        assert lower_bound(A, w + shift, 2.0) <= float(solution.objective) * (1 + 1e-9)


def test_the_rival_of_keys_and_queries_is_the_stored_one():
    generator = torch.Generator().manual_seed(0)
    K, Q = torch.randn(2, 2, 3, 6, 2, generator=generator, dtype=torch.float64)
    R = torch.randn(2, 3, 6, 6, generator=generator, dtype=torch.float64)
    R, far = R / R.norm(dim=(-2, -1), keepdim=True), torch.rand(2, 3, generator=generator).double() + 0.5
    moved = stored.moved_by_slopes(K, Q, R, far)
    torch.testing.assert_close(moved.norm(dim=(-2, -1)), far)
    for i, j in np.ndindex(2, 3):
        mine = moved_by_pairs(K[i, j].numpy(), Q[i, j].numpy(), R[i, j].numpy(), float(far[i, j]))
        np.testing.assert_allclose(mine, moved[i, j], atol=1e-6)


def test_ingredients_add_up():
    assert taken_apart.ingredients("base") == ()
    assert taken_apart.ingredients("+ Adam") == ("Adam",)
    assert taken_apart.ingredients("+ embeddings learn, Adam") == ("embeddings learn", "Adam")
    parts = {part for setting in taken_apart.SETTINGS for part in taken_apart.ingredients(setting)}
    assert parts < {*net.INGREDIENTS}


@pytest.mark.slow
def test_the_first_cells_of_two_directions_print_their_first_numbers(capsys):
    (source,) = Folders().sources(["18"])
    cells = from_source(source, solved=True).cells
    (project,) = (cell.source for cell in cells if cell.source.startswith("## 18.10"))
    moved, norms, _ = re.findall(r"```python\n(.*?)```", project, flags=re.DOTALL)
    namespace = {"__name__": "lesson"}
    for cell in cells:
        if cell.cell_type == "code" and not cell.metadata.get("jupyter", {}).get("source_hidden"):
            exec(compile(cell.source, "lesson 18", "exec"), namespace)
        if cell.source.startswith("def matrices"):
            break
    capsys.readouterr()
    exec(compile(moved, "moving tokens", "exec"), namespace)
    assert "1.00 and 0.59" in project
    assert [float(x) for x in capsys.readouterr().out.split()] == pytest.approx([1.00, 0.59], abs=0.01)
    exec(compile(norms, "the right norm", "exec"), namespace)
    assert "0.42, against 0.39 and 0.49" in project
    assert [float(x) for x in capsys.readouterr().out.split()] == pytest.approx([0.42, 0.39, 0.49], abs=0.02)
