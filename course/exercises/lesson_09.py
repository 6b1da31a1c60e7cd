"""Exercises of lesson 09: training the head too."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 09.1 how far to lift
def _lift_by(
    lift=lambda u, gain, v, e: (1 - u) / gain, free=lambda u: u >= 1, never=np.inf, label=lambda y: (y, y)
):
    """An answer from the signed outputs of token and direction at v_rest, and what is made of the ends."""

    def answer(x, e, y, v_rest):
        u, gain = label(y)[0] * (v_rest @ x), label(y)[1] * (v_rest @ e)
        if free is not None and free(u):
            return 0.0
        return float(never if never is not None and gain <= 0 else lift(u, gain, v_rest, e))

    return answer


_lift = _lift_by()


def _lift_cases(rng):
    """Signed outputs of token and direction: within the margin, on the wrong side, free as it is, and never.

    One that is free as it is would be caught by a lift; both labels come in each way.
    """
    cases = [(np.array([2.0, -1.0]), np.array([1.0, 0.5]), 1.0, np.array([0.0, 1.0]))]
    for u, gain, y, d in (
        (0.3, 0.7, -1.0, 3),
        (-0.6, 1.6, 1.0, 4),
        (-1.3, 0.5, -1.0, 2),
        (1.4, 0.8, -1.0, 3),
        (1.3, -0.5, 1.0, 2),
        (0.4, -0.6, -1.0, 3),
        (-0.7, -1.2, 1.0, 4),
    ):
        v_rest = rng.normal(size=d)
        v_rest *= rng.uniform(1.3, 2) / np.linalg.norm(v_rest)
        x, e = rng.normal(size=(2, d))
        for token, output in ((x, u), (e, gain)):
            token += (y * output * rng.uniform(0.9, 1.1) - token @ v_rest) / (v_rest @ v_rest) * v_rest
        cases.append((x, e, y, v_rest))
    return cases


LIFT = Exercise(
    id="09.1",
    title="How far to lift",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_lift,
    cases=_lift_cases,
    misconceptions=known(
        _lift_by(label=lambda y: (1, 1)),
        "Multiply by the label: the others let the sequence go where y v_rest.(x + b e) is above 1.",
        _lift_by(label=lambda y: (y, 1)),
        "The label counts for the direction too: a lift raises the signed output by b y v_rest.e.",
        _lift_by(label=lambda y: (1, y)),
        "The label counts for the token too: its signed output is y v_rest.x.",
        _lift_by(free=None),
        "Look first whether the sequence is outside as it stands, y v_rest.x >= 1: then 0, whatever e does.",
        _lift_by(never=None),
        "A direction with y v_rest.e <= 0 takes the token further back: no lift frees it, np.inf.",
        _lift_by(never=0.0),
        "Where e takes the token further back, no lift frees it: np.inf, not 0.",
        _lift_by(free=None, never=None),
        "Right where a lift is needed and helps. A sequence that is outside as it stands needs 0; one that e "
        "takes further back is never free, np.inf.",
        lambda *args: max(0.0, _lift_by(free=None, never=None)(*args)),
        "Right where a lift is needed and helps. Outside as it stands, a sequence needs 0, wherever e leads; "
        "short of the margin and taken further back it is never free, np.inf.",
        _lift_by(lambda u, gain, v, e: -u / gain, lambda u: u >= 0),
        "That lift takes the token across the line of v_rest. In S it is until its signed output is 1.",
        lambda x, e, y, v_rest: _lift(x, e, y, v_rest / np.linalg.norm(v_rest)),
        "Do not divide by the norm of v_rest: the constraint reads y v.x >= 1.",
        _lift_by(lambda u, gain, v, e: 1 - u),
        "By how much does a lift of b raise the signed output? By b y v_rest.e: divide by the gain.",
        lambda *args: abs(_lift_by(free=None, never=None)(*args)),
        "A sign is not to be dropped: 0 for a sequence outside as it stands, np.inf where e takes it back.",
        _lift_by(lambda u, gain, v, e: (1 - u) / np.linalg.norm(e)),
        "Only the part of e along v_rest counts: a lift of b raises the signed output by b y v_rest.e.",
        _lift_by(lambda u, gain, v, e: (1 - u) * np.linalg.norm(e) / gain),
        "The lift is b, not the length of b e: leave e as long as it is.",
        _lift_by(lambda u, gain, v, e: gain / (1 - u)),
        "Upside down: 1 - u is missing, and each unit of lift brings y v_rest.e.",
        _lift_by(lambda u, gain, v, e: (1 + u) / gain),
        "What is missing is 1 less the signed output that is there.",
        _lift_by(lambda u, gain, v, e: 1 / gain),
        "The token has a signed output before it is lifted: only 1 less that is missing.",
        _lift_by(lift=lambda u, gain, v, e: (1 - u) / np.linalg.norm(v)),
        "That is a distance along v_rest. The lift goes along e: divide by the gain, y v_rest.e.",
    ),
)


# --------------------------------------------------------------------------- 09.2 the angle before training
def _angle_by(
    along=lambda b: 0.5, up=lambda b: 2 + b, head=lambda b, ratio: ratio * b, least=0.0, turn=np.degrees
):
    """The angle at which along cos - up sin = head; wrong in one of the three, or in what is made of it."""

    def answer(lift, ratio):
        A, B, C = along(lift), up(lift), head(lift, ratio)
        angle = np.arccos(np.clip(C / np.hypot(A, B), -1, 1)) - np.arctan2(B, A)
        return float(max(least, turn(angle)))

    return answer


_angle_answer = _angle_by()


def _angle(lift, ratio):
    return _angle_answer(lift, ratio)


def _angle_of(p_1, p_2):
    return float(max(0.0, np.degrees(np.arctan2(p_2, p_1))))


def _angle_cases(rng):
    """Three lifts between tight and relaxed, a head beyond the border, and no lift."""
    ranges = (
        ((0.4, 0.6), (0.12, 0.18)),
        ((0.9, 1.4), (0.1, 0.14)),
        ((0.2, 0.3), (0.8, 1.2)),
        ((0.8, 1.2), (1.2, 2)),
        ((0, 0), (0.1, 0.3)),
    )
    return [(rng.uniform(*lift), rng.uniform(*ratio)) for lift, ratio in ranges]


ANGLE = Exercise(
    id="09.2",
    title="The angle before training",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_angle,
    cases=_angle_cases,
    misconceptions=known(
        _angle_by(head=lambda b, ratio: 0.0),
        "That is the tight SVM: only the leads are equal. The exponents are signed output plus lead, and "
        "sequence 3 has the output (1 + b) ||v||.",
        lambda lift, ratio: 0.0,
        "0 degrees is the relaxed SVM, for fast heads. Behind a slower one sequence 3 pushes too.",
        _angle_by(head=lambda b, ratio: ratio * (1 + b)),
        "Sequence 2 has a signed output as well, ||v||: only the difference, b ||v||, is left.",
        _angle_by(head=lambda b, ratio: ratio * (2 + b)),
        "The label of sequence 2 is -1, and its signed output y v.x is +||v||.",
        _angle_by(head=lambda b, ratio: b / ratio),
        "The ratio is upside down: ||v|| = ratio ||p||, and b ||v|| lifts the exponent of sequence 3.",
        _angle_by(head=lambda b, ratio: -ratio * b),
        "The sign of the head's part is turned: a larger output means a weaker force, so sequence 3 turns p "
        "up by less.",
        _angle_by(least=-np.inf),
        "Where the balance lies below 0 degrees there is none: sequence 3 has stopped pushing, and p is on "
        "the ray of the relaxed SVM.",
        _angle_by(up=lambda b: 2.0),
        "The lift raises the lead of sequence 3 too: its token is (1/2, 1 + b).",
        _angle_by(up=lambda b: b),
        "Above the axis the smaller lead of S is that of sequence 2, cos - sin.",
        _angle_by(up=lambda b: 1 + b),
        "The lead of sequence 2 is cos - sin, not cos: its token is (1, -1).",
        _angle_by(turn=lambda angle: angle),
        "Return degrees, not radians.",
        lambda lift, ratio: _angle_of(2 - (ratio - 1) * lift, 1 / 2 - ratio * lift),
        "You took the smallest lead of S for the length of p. The lead is ||p|| (cos - sin).",
        lambda lift, ratio: _angle_of(2 + lift, 1 / 2 - ratio * lift),
        "When you divide by cos, the head's part is divided too. Write A cos - B sin as one cosine instead.",
        lambda lift, ratio: float(max(0.0, np.degrees((1 / 2 - ratio * lift) / (2 + lift)))),
        "sin x = x and cos x = 1 hold for small angles only. Write A cos - B sin as one cosine.",
        lambda lift, ratio: 90.0 - _angle_answer(lift, ratio),
        "That is the angle to the second axis. Count from the first.",
        lambda lift, ratio: (
            max(0.0, 1 - 2 * lift * ratio) * _angle_by(head=lambda b, ratio: 0.0)(lift, ratio)
        ),
        "The ends are right, but the angle does not fall on a straight line between them: solve the balance.",
    ),
)


# --------------------------------------------------------------------------- 09.3 the border
def _border_by(
    kappa=lambda u, a: np.max((1 - a) / (u - 1)), scale=lambda v, p: v / p, least=0.0, tolerance=1e-6
):
    """An answer from the sequences outside S: their u and leads give kappa, the norms the ratio."""

    def answer(u, leads, v_norm, p_norm):
        outside = u > 1 + tolerance
        if not outside.any():
            return 0.0
        return max(least, kappa(u[outside], leads[outside]) * scale(v_norm, p_norm))

    return answer


_border = _border_by()


def _border_of_none(u, leads, v_norm, p_norm):
    """No sequence is outside S: the maximum of nothing is an error."""
    outside = u > 1 + 1e-6
    return max(0.0, np.max((1 - leads[outside]) / (u[outside] - 1))) * v_norm / p_norm


def _border_cases(rng):
    """S up to rounding, where (1 - lead) / (u - 1) means nothing. Leads of p_rel are never negative.

    The last to hold has the smallest u, then another one, then a u just outside S. At last all hold anyway,
    and all sequences are in S.
    """
    cases = []
    for n, kind in ((5, "smallest"), (5, "another"), (6, "close"), (5, "spare"), (5, "none")):
        u = 1 + np.r_[1e-10, -1e-10, rng.uniform(0.2, 0.4), rng.uniform(0.6, 2, size=n - 3)]
        leads = np.r_[1 - 1e-8, 1, rng.uniform(0.3, 0.6), rng.uniform(0.05, 0.2, size=n - 3)]
        leads[1] += rng.uniform(0.1, 1)
        if kind == "smallest":
            leads[2] = rng.uniform(0.2, 0.3)
            leads[3:] += 0.3
        elif kind == "another":
            leads[2:4] = 1 - (u[2] - 1) * rng.uniform(0.05, 0.1), rng.uniform(0, 0.1)
        elif kind == "close":
            u[2] = 1 + rng.uniform(0.003, 0.007)
        elif kind == "spare":
            leads[2:] += 1.1
        else:
            u[2:], leads[2:] = 1 + 1e-10 * rng.uniform(-3, 3, size=n - 2), rng.uniform(1, 2, size=n - 2)
        last = 2 + int(((1 - leads) / (u - 1))[2:].argmax())
        order = rng.permutation(n)
        while last in order[order > 1][[0, -1]]:  # it is neither the first nor the last outside S
            order = rng.permutation(n)
        cases.append((u[order], leads[order], *rng.uniform([1.2, 2], [1.8, 3])))
    return cases


BORDER = Exercise(
    id="09.3",
    title="How fast is fast enough?",
    points=2,
    minutes=7,
    difficulty=2,
    reference=_border,
    cases=_border_cases,
    misconceptions=known(
        _border_by(scale=lambda v, p: 1),
        "That is kappa = u_min / lead. The ratio of the lengths is kappa ||v_mm|| / ||p_rel||.",
        _border_by(scale=lambda v, p: p / v),
        "The norms are upside down: ||v|| = u_min ||v_mm||, ||p|| = lead ||p_rel||, and the ratio is v to p.",
        _border_by(scale=lambda v, p: v * p),
        "||p|| = lead ||p_rel|| stands below in the ratio: divide by the norm of p_rel.",
        _border_by(lambda u, a: np.min((1 - a) / (u - 1))),
        "At this ratio one sequence is free. All have to be: the last one sets the border.",
        _border_by(lambda u, a: np.max(1 / (u - 1))),
        "The sides need not fall to 0: p_rel gives a sequence a lead, and its side has to fall to that.",
        _border_by(lambda u, a: np.max(a / (u - 1))),
        "The side 1 - kappa (u - 1) has to fall to the lead, so kappa (u - 1) must make up 1 - lead.",
        _border_by(lambda u, a: np.max((1 - a) / u)),
        "Only the part of u beyond 1 softens a side: divide by u - 1.",
        _border_by(lambda u, a: np.mean((1 - a) / (u - 1))),
        "At the mean ratio some are free, others are not yet: the last one sets the border.",
        _border_by(lambda u, a: np.max((u - 1) / (1 - a))),
        "That is 1 / kappa: the side falls to the lead where kappa (u - 1) = 1 - lead.",
        _border_by(lambda u, a: np.max((1 - a) * (u - 1))),
        "A larger u frees a sequence sooner: divide by u - 1.",
        _border_by(lambda u, a: (1 - a.min()) / (u.min() - 1)),
        "The smallest lead and the smallest u may be of two sequences: take the maximum of quotients.",
        _border_by(lambda u, a: ((1 - a) / (u - 1))[u.argmin()], least=0.0),
        "The sequence with the smallest u need not be the last: its lead may be large. Take the maximum.",
        lambda u, leads, v_norm, p_norm: max(0.0, np.max((1 - leads) / (u - 1))) * v_norm / p_norm,
        "You divided by u - 1 in S too, where it is rounding. Only sequences with u > 1 + 1e-6 are in doubt.",
        _border_by(lambda u, a: ((1 - a) / (u - 1))[a.argmin()]),
        "The sequence with the smallest lead need not be the last: its u may be large. Take the maximum.",
        _border_by(tolerance=0.0),
        "u > 1 lets in sequences of S whose u is above 1 by rounding: take u > 1 + 1e-6.",
        _border_by(tolerance=0.01),
        "You left out a sequence with u = 1.005, which is not in S. Only rounding is: take u > 1 + 1e-6.",
        _border_of_none,
        "Once every sequence is in S, and none is left to wait for: p_rel solves the tight problem, the "
        "border is 0. np.max takes initial=0.0.",
        lambda u, leads, v_norm, p_norm: (
            np.max((1 - leads[u > 1 + 1e-6]) / (u[u > 1 + 1e-6] - 1)) * v_norm / p_norm
        ),
        "Nobody may be left to wait for: where every sequence is in S, or p_rel satisfies even the tight "
        "constraints, the border is 0. np.max takes initial=0.0.",
        _border_by(least=-np.inf),
        "A ratio of lengths is not negative. If p_rel satisfies even the tight constraints, the border is 0.",
        _border_by(kappa=lambda u, a: np.max(1 - a)),
        "The softened side is 1 - kappa (u - 1): solve it for kappa, which divides by u - 1.",
        _border_by(kappa=lambda u, a: np.max((a - 1) / (u - 1))),
        "The sign is turned: lead >= 1 - kappa (u - 1) says kappa >= (1 - lead) / (u - 1).",
        lambda *args: abs(_border_by(least=-np.inf)(*args)),
        "Take no absolute value: where p_rel satisfies even the tight constraints, the quotient is negative "
        "and the border 0.",
        _border_by(kappa=lambda u, a: np.maximum(0, (1 - a) / (u - 1)).sum()),
        "The sequences wait for the same growth, not one after the other: the last one sets the border. Take "
        "the maximum.",
    ),
)


# --------------------------------------------------------------------------- 09.4 attention that stays soft
def _kept_by(
    excess=lambda ratio, v, p: v / (ratio * p),
    share=lambda better, worse, x: (1 + x - worse) / (better - worse),
    clip=lambda s: np.clip(s, 0, 1),
):
    """An answer from Delta / u_min, the balance of exponents, and what is made of shares beyond 0 and 1."""
    return lambda better, worse, ratio, v_norm, p_norm: float(
        clip(share(better, worse, excess(ratio, v_norm, p_norm)))
    )


_kept = _kept_by()


def _kept_cases(rng):
    """Shares inside, with a worse token below and above the label margin, then beyond both ends."""
    cases = []
    for share, worse in ((0.35, 0.6), (0.7, 0.2), (0.1, 1.4), (0.25, 1.2), (1.3, 0.5), (-0.4, 1.8)):
        v_norm, p_norm = rng.uniform(1.2, 1.9), rng.uniform(2.1, 3.2)
        worse = worse + rng.uniform(-0.1, 0.1)
        span = rng.uniform(1.3, 1.9) if worse > 0.8 else rng.uniform(1.7, 2.2)
        excess = worse + share * span - 1  # Delta / u_min
        if excess < 0.05:
            excess = rng.uniform(0.05, 0.1)
        cases.append((worse + span, worse, v_norm / (excess * p_norm), v_norm, p_norm))
    return cases


KEPT = Exercise(
    id="09.4",
    title="Attention that stays soft",
    points=3,
    minutes=10,
    difficulty=3,
    reference=_kept,
    cases=_kept_cases,
    misconceptions=known(
        _kept_by(clip=lambda s: s),
        "Attention is at least 0 and at most 1: beyond, there is no balance, and the sequence decides.",
        lambda *args: 1 - _kept(*args),
        "That is the attention on the worse token.",
        _kept_by(clip=lambda s: s if 0 <= s <= 1 else float(s < 0)),
        "A share above 1 says that the better token wins, 1.0, and one below 0 that the worse one does, 0.0.",
        _kept_by(clip=lambda s: s if 0 <= s <= 1 else 0.0),
        "Where the share comes out above 1 the better token wins: its attention is 1.",
        _kept_by(share=lambda better, worse, x: 1 + x - worse),
        "The two outputs need not be 1 apart, as they are in the toy: divide by better - worse.",
        _kept_by(share=lambda better, worse, x: (1 + x) / better),
        "What attention leaves on the worse token counts too: its share is 1 - s.",
        _kept_by(share=lambda better, worse, x: (1 + x) / (better - worse)),
        "What attention leaves on the worse token gives it (1 - s) worse: subtract worse before dividing.",
        _kept_by(share=lambda better, worse, x: (1 - worse) / (better - worse)),
        "The sequence balances u_min + Delta, not u_min alone: the lead of S is missing.",
        _kept_by(share=lambda better, worse, x: (x - worse) / (better - worse)),
        "The sequence balances u_min + Delta, not Delta alone: the output of S is missing.",
        lambda better, worse, *rest: 1.0 if worse < 1 else _kept(better, worse, *rest),
        "A worse token below the label margin may keep attention all the same. Solve for s there, too.",
        _kept_by(share=lambda better, worse, x: (1 + 1 / x - worse) / (better - worse)),
        "You used u_min / Delta. Divided by u_min, the balance reads ... = 1 + Delta / u_min.",
        _kept_by(share=lambda better, worse, x: (1 - x - worse) / (better - worse)),
        "Exponents of S add: u_min + Delta.",
        _kept_by(excess=lambda ratio, v, p: 1 / ratio),
        "Lengths are not leads: Delta = ||p|| / ||p_rel||, and u_min = ||v|| / ||v_mm||.",
        _kept_by(excess=lambda ratio, v, p: p / (ratio * v)),
        "The norms are exchanged: Delta = ||p|| / ||p_rel|| has the norm of p_rel below.",
        _kept_by(excess=lambda ratio, v, p: ratio * v / p),
        "The ratio is ||v|| / ||p||: a faster head leaves the smaller lead, so divide by it.",
        _kept_by(excess=lambda ratio, v, p: 1 / (ratio * p)),
        "The norm of v_mm is missing: u_min = ||v|| / ||v_mm||. In the toy it was 1.",
        _kept_by(excess=lambda ratio, v, p: v * p / ratio),
        "||p_rel|| divides: Delta = ||p|| / ||p_rel||.",
        _kept_by(excess=lambda ratio, v, p: v / ratio),
        "The norm of p_rel is missing: Delta = ||p|| / ||p_rel||.",
        _kept_by(share=lambda better, worse, x: (1 + x - worse) / better),
        "u_3 / u_min is worse + s (better - worse): divide by the difference.",
    ),
)


EXERCISES = [LIFT, ANGLE, BORDER, KEPT]
