import numpy as np
import pytest
import torch

from mini_attn import data, geometry, losses, models, optim, svm, train
from mini_attn.softmax import softmax as stable_softmax
from mini_attn.softmax import textbook_softmax

points = data.separable_points(12, seed=0)


def train_w(n, T, d, trials, seed, steps=5000, make=models.CrossAttention, **options):
    tokens = data.random_tokens(n=n, T=T, d=d, trials=trials, seed=seed)
    model = make(d, trials=trials)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, progress=False, **options)
    return tokens, model, optimizer, geometry.selected_tokens(model.attention(tokens))


@pytest.mark.parametrize(
    ("n", "T", "d", "seed"), [(6, 8, 10, 123), (6, 8, 10, 4), (5, 5, 10, 5), (3, 6, 4, 6), (8, 4, 16, 7)]
)
def test_attention_weights_settle_on_the_svm_solution(n, T, d, seed):
    tokens, model, _, selected = train_w(n, T, d, 40, seed)
    solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm="fro")
    cosine = geometry.cosine(model.W.detach(), solution.value)
    low, median = cosine.quantile(torch.tensor([0.02, 0.5], dtype=torch.float64))
    assert low >= 0.99
    assert median >= 0.999
    assert set(geometry.outcome(model.attention(tokens), tokens)) <= {"global", "local", "undecided"}


@pytest.mark.parametrize(("n", "T", "d", "seed"), [(6, 8, 10, 123), (4, 5, 8, 1), (1, 3, 2, 2)])
def test_prompt_settles_on_the_svm_solution(n, T, d, seed):
    tokens, model, _, selected = train_w(n, T, d, 40, seed, make=models.PromptAttention)
    solution = svm.solve(svm.token_problem(tokens.keys, selected), norm="fro")
    low, median = geometry.cosine(model.p.detach(), solution.value).quantile(
        torch.tensor([0.02, 0.5], dtype=torch.float64)
    )
    assert low >= 0.99
    assert median >= 0.999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "more", "least"), [(torch.float32, 5000, 0.9997), (torch.float64, 20000, 0.9999)]
)
def test_many_more_steps_make_no_settled_trial_worse(dtype, more, least):
    tokens = data.random_tokens(n=5, T=5, d=10, trials=12, seed=8).to(dtype=dtype)
    model = models.PromptAttention(10, trials=12, dtype=dtype)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)

    def cosine_and_tokens(steps):
        train.fit(model, tokens, optimizer, steps, progress=False)
        selected = geometry.selected_tokens(model.attention(tokens))
        solution = svm.solve(svm.token_problem(tokens.keys, selected), norm="fro")
        return geometry.cosine(model.p.detach(), solution.value), selected

    before, early = cosine_and_tokens(5000)
    after, late = cosine_and_tokens(more)
    settled = (early == late).all(-1)
    assert settled.sum() >= 10
    assert (after >= before - 4 * torch.finfo(dtype).eps)[settled].all()
    assert after[settled].min() > least


def test_growing_steps_reach_the_direction_sooner():
    errors = []
    for schedule in (None, train.growing):
        tokens, model, _, selected = train_w(6, 8, 10, 20, seed=1, steps=1000, schedule=schedule)
        solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm="fro")
        errors.append((1 - geometry.cosine(model.W.detach(), solution.value)).median())
    constant, growing = errors
    assert growing < 0.02 * constant


@pytest.mark.slow
def test_the_textbook_gradient_fails_where_ours_does_not():
    cosines = []
    for options in ({}, {"softmax": textbook_softmax}):
        tokens, model, _, selected = train_w(5, 5, 10, 30, seed=0, steps=3000, **options)
        solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm="fro", throw=False)
        cosines.append(geometry.cosine(model.W.detach(), solution.value).nanmedian())
    ours, textbook = cosines
    assert ours > 0.999
    assert textbook < 0.9


def test_float32_goes_on_when_every_gradient_underflows():
    tokens = data.toy_one_sequence().to(dtype=torch.float32)
    model = models.PromptAttention(2, init=[-200.0, 400.0], dtype=torch.float32)
    start = model.p.detach().clone()
    train.fit(model, tokens, optim.NormalizedGD(model.parameters(), lr=1.0), 10, progress=False)
    assert (model.p.detach() - start).norm() > 5


def test_linear_classifier_goes_on_when_the_loss_underflows():
    model = models.LinearClassifier(2, init=[3000.0, 0.0])
    before = svm_cosine(model)
    train.fit(model, points, optim.NormalizedGD(model.parameters(), lr=10.0), 2000, progress=False)
    assert svm_cosine(model) > max(before, 0.9999)


def svm_cosine(model):
    solution = svm.solve(svm.label_problem(points.X, points.y), norm="fro")
    return geometry.cosine(model.w.detach(), solution.value)


def test_fit_equals_a_loop_written_by_hand():
    model, by_hand = models.LinearClassifier(2), torch.zeros(2, dtype=torch.float64)
    history = train.fit(
        model,
        points,
        torch.optim.SGD(model.parameters(), lr=0.1),
        7,
        every=[3],
        record={"w": lambda m: m.w},
        progress=False,
    )
    seen, losses = [], []
    for _ in range(8):
        u = points.y * (points.X @ by_hand)
        losses.append(torch.log1p((-u).exp()).mean())
        seen.append(by_hand)
        by_hand = by_hand + 0.1 * ((points.y * torch.sigmoid(-u))[:, None] * points.X).mean(0)
    assert history.steps.tolist() == [0, 3, 7]
    torch.testing.assert_close(history["w"], torch.stack([seen[0], seen[3], seen[7]]))
    torch.testing.assert_close(history["loss"], torch.stack([losses[0], losses[3], losses[7]]))


def test_trials_train_as_they_would_alone():
    tokens, model, _, _ = train_w(3, 4, 5, 3, seed=2, steps=200)
    alone = models.CrossAttention(5)
    single = data.TokenData(tokens.X[1], tokens.z[1], tokens.y[1], tokens.v[1])
    train.fit(alone, single, optim.NormalizedGD(alone.parameters(), lr=0.1), 200, progress=False)
    torch.testing.assert_close(model.W[1], alone.W)


@pytest.mark.parametrize(
    ("steps", "every", "at"), [(5, None, [0, 1, 2, 3, 4, 5]), (10, 4, [0, 4, 8, 10]), (0, None, [0])]
)
def test_records_begin_and_end_where_training_does(steps, every, at):
    model = models.LinearClassifier(2)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1)
    history = train.fit(model, points, optimizer, steps, every=every, progress=False)
    assert history.steps.tolist() == at
    assert history["loss"].shape == (len(at),)
    with pytest.raises(KeyError, match=r"'norm' was not recorded; recorded: \['log_loss', 'loss'\]"):
        history["norm"]


def test_divergence_is_an_error_that_names_the_trials():
    scale = torch.tensor([1.0, 1e160, 1.0], dtype=torch.float64)[:, None, None]
    overlapping = data.PointData(scale * points.X, points.y.roll(1).expand(3, -1))
    model = models.LinearClassifier(2, trials=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        FloatingPointError, match=r"diverged in trials \[1\]: .* by step [1-5]; lower the step"
    ):
        train.fit(model, overlapping, optimizer, 5, loss="exponential", progress=False)


def test_the_progress_bar_can_be_seen(capsys):
    model = models.LinearClassifier(2)
    train.fit(model, points, optim.NormalizedGD(model.parameters(), lr=0.1), 20)
    assert "20/20" in capsys.readouterr().err


tokens = data.random_tokens(2, 3, 4, trials=3)


def attempt(
    steps=1,
    data=tokens,
    trials=3,
    make=lambda m: optim.NormalizedGD(m.parameters(), 0.1, 1),
    head=None,
    **options,
):
    model = models.PromptAttention(4, trials=trials, head=head)
    return train.fit(model, data, make(model), steps, progress=False, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": -1}, "steps = -1"),
        ({"every": 0}, "every = 0"),
        ({"every": 0.5}, "every = 0.5; expected a number of steps between records, at least 1, or the steps"),
        ({"record": {"loss": lambda m: m.p}}, r"record names \['loss'\], which fit records itself"),
        ({"trials": 2}, r"the model has trials \(2,\), the data \(3,\)"),
        (
            {"make": lambda m: torch.optim.LBFGS(m.parameters())},
            "LBFGS takes its steps by one .* has 3 trials",
        ),
        ({"make": lambda m: optim.PolyakGD(m.parameters())}, "batch_dims = 0; build it with batch_dims=1"),
        ({"loss": "hinge"}, "loss = 'hinge'"),
        ({"make": lambda m: optim.NormalizedGD(m.parameters(), 0.1)}, "build it with batch_dims=1"),
        (
            {"make": lambda m: optim.NormalizedGD([torch.zeros(3, 4, requires_grad=True)], 0.1, 1)},
            "none of this model's",
        ),
        (
            {"trials": None, "make": lambda m: optim.NormalizedGD(m.parameters(), 0.1)},
            r"give the model trials=\(3,\)",
        ),
        ({"head": models.LinearHead(4, trials=3)}, "share a parameter group"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(options, says):
    with pytest.raises(ValueError, match=says):
        attempt(**options)


def test_head_and_attention_train_together_in_groups_of_their_own():
    head = models.LinearHead(4, trials=3)
    model = models.PromptAttention(4, trials=3, head=head)
    groups = [{"params": [model.p]}, {"params": [head.v]}]
    history = train.fit(model, tokens, optim.NormalizedGD(groups, lr=0.05, batch_dims=1), 200, progress=False)
    assert (history["loss"][-1] < history["loss"][0]).all()


@pytest.mark.slow
def test_training_follows_the_winners_as_they_change():
    """The closed form remembers the winners from step to step; autograd, reached by a wrapper, does not.

    Any token will do as the anchor until attention saturates: then only the winner's differences are exact.
    """
    tokens = data.random_tokens(4, 6, 5, trials=20, seed=3)
    ends, switches = [], None
    for options in ({}, {"softmax": lambda logits, batch_dims: stable_softmax(logits, batch_dims)}):
        model = models.CrossAttention(5, trials=20)
        optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
        record = {"winner": lambda m: m.attention(tokens).argmax(-1)}
        options |= {"record": record, "every": 10, "progress": False}
        history = train.fit(model, tokens, optimizer, 2000, **options)
        switches = (history["winner"][1:] != history["winner"][:-1]).sum()
        ends.append(model.W.detach())
    assert switches > 20
    torch.testing.assert_close(*ends, rtol=1e-6, atol=1e-6)


def test_lbfgs_trains_a_single_problem():
    single = data.random_tokens(3, 4, 5, seed=2)

    def models_of_one():
        return [
            models.PromptAttention(5),
            models.CrossAttention(5),
            models.CrossAttention(5, trials=1),
            models.FactoredAttention(5, 2),
            models.PromptAttention(5, head=models.LinearHead(5, init=single.v)),
        ]

    for model, twin in zip(models_of_one(), models_of_one(), strict=True):
        lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, tolerance_change=0)
        history = train.fit(model, single, lbfgs, 5, progress=False)
        by_hand = torch.optim.LBFGS(twin.parameters(), lr=0.1, max_iter=4, tolerance_change=0)

        def closure(twin=twin, by_hand=by_hand):
            by_hand.zero_grad()
            loss = losses.logistic(single.y * twin(single)).mean()
            loss.backward()
            return loss

        for _ in range(5):
            by_hand.step(closure)
        for w, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(w, other, rtol=1e-6, atol=1e-9)
        assert (history["loss"][-1] < history["loss"][0]).all()


def test_a_model_that_many_trials_share_is_one_problem():
    """What its optimiser is shown is the sum of the trials' losses, whose gradient it gets."""
    for softmax in (stable_softmax, lambda logits, batch_dims: stable_softmax(logits, batch_dims)):
        shared = models.PromptAttention(4)
        lbfgs = torch.optim.LBFGS(shared.parameters(), line_search_fn="strong_wolfe")
        loss = train.fit(shared, tokens, lbfgs, 1, progress=False, softmax=softmax)["loss"]
        assert loss.shape == (2, 3)
        assert loss[1].sum() < loss[0].sum() - 0.1
    seen = []

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            seen.append(super().step(closure))

    model = models.PromptAttention(4, trials=3)
    history = train.fit(model, tokens, Watched(model.parameters(), lr=0.1), 1, progress=False)
    torch.testing.assert_close(seen[0], history["loss"][0].sum())


def test_a_run_that_never_began_says_so():
    model = models.PromptAttention(4, trials=3, init=torch.tensor([[0.0], [torch.nan], [0.0]]))
    optimizer = optim.NormalizedGD(model.parameters(), 0.1, 1)
    with pytest.raises(
        FloatingPointError, match=r"in trials \[1\] before the first step; look at the weights'"
    ):
        train.fit(model, tokens, optimizer, 5, progress=False)


def test_trials_in_two_dimensions_are_named_by_both():
    wide = data.TokenData(*(getattr(tokens, part).expand(2, *getattr(tokens, part).shape) for part in "Xzyv"))
    start = torch.zeros(2, 3, 4)
    start[1, 2] = torch.nan
    model = models.PromptAttention(4, trials=(2, 3), init=start)
    with pytest.raises(FloatingPointError, match=r"in trials \[\[1, 2\]\] before"):
        train.fit(model, wide, optim.NormalizedGD(model.parameters(), 0.1, 2), 5, progress=False)


def test_numbers_of_steps_may_come_from_numpy():
    history = attempt(steps=np.int64(4), every=np.int64(2))
    assert history.steps.tolist() == [0, 2, 4]


def test_any_module_trains_with_any_torch_optimiser():
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)

        def forward(self, data):
            return self.layer(data.X).squeeze(-1)

    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS):
        model = Plain()
        history = train.fit(model, points, make(model.parameters(), lr=0.1), 5, progress=False)
        assert history["loss"][-1] < history["loss"][0]
        assert history["loss"].shape == (6,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resume": "history.pt"}, "resume is str; expected a History"),
        ({"data": (torch.ones(2, 2), torch.ones(2))}, "data is tuple; expected PointData"),
        ({"loss": ["logistic"]}, "loss = "),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(change, message):
    model = models.LinearClassifier(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"data": data.separable_points(), "steps": 1, "progress": False, **change}
    with pytest.raises(ValueError, match=message):
        train.fit(model, given.pop("data"), optimizer, **given)
