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
        "short of 1 and taken further back it is never free, np.inf.",
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
        lambda x, e, y, v: _lift_by(lambda u, gain, v, e: (1 / np.linalg.norm(v) - u) / gain)(x, e, y, v),
        "1/||v_rest|| is the margin, a distance. The constraint reads y v.x >= 1.",
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
    """Three lifts between Att-SVM and relaxed, a head beyond the border, and no lift."""
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
    minutes=24,
    difficulty=3,
    reference=_angle,
    cases=_angle_cases,
    misconceptions=known(
        _angle_by(head=lambda b, ratio: 0.0),
        "That is the Att-SVM: only the leads are equal. The exponents are signed output plus lead, and "
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


# --------------------------------------------------------------------------- 09.3 what the two SVMs leave
def _leads_by(law=lambda g, mu, lam: np.log(g * mu / lam), shift=lambda c: c - c.min()):
    """An answer from the leads up to a constant, and the constant."""
    return lambda g, mu, lam: shift(law(g, mu, lam))


_leads = _leads_by()


def _leads_cases(rng):
    """Two comparisons with equal g, and a few more; the smallest lead is neither the first nor the last.

    In the last two comparisons are of one sequence, with one mu.
    """
    cases = [(np.ones(2), np.array([2.0, 1.0]) / 3, np.array([4.0, 1.0]) / 9)]
    while len(cases) < 5:
        m = len(cases) + 3
        g, mu, lam = rng.uniform(0.3, 3, size=(3, m)) * [[1.0], [0.5], [2.0]]
        if len(cases) == 4:
            mu[1] = mu[0]
        if np.argmin(g * mu / lam) not in (0, m - 1):
            cases.append((g, mu, lam))
    return cases


LEADS = Exercise(
    id="09.3",
    title="What the two SVMs leave",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_leads,
    cases=_leads_cases,
    misconceptions=known(
        _leads_by(lambda g, mu, lam: np.log(g / lam)),
        "That is the exponent, signed output plus lead. The outputs differ too: -log mu, up to a constant.",
        _leads_by(lambda g, mu, lam: np.log(mu / lam)),
        "The factor g belongs to the force: g exp(-exponent) is in proportion to lambda.",
        _leads_by(lambda g, mu, lam: np.log(g * mu * lam)),
        "A larger share of p needs a larger force, so a smaller exponent: lambda stands below.",
        _leads_by(lambda g, mu, lam: np.log(g / (lam * mu))),
        "The outputs are -log mu, and they are taken off the exponent: that adds log mu.",
        _leads_by(lambda g, mu, lam: np.log(mu / (g * lam))),
        "A larger g makes a stronger force; to keep its share such a comparison needs a larger exponent.",
        _leads_by(lambda g, mu, lam: np.log(lam / (g * mu))),
        "The sign is turned: the exponent is log(g / lambda), and the lead what is left of it.",
        _leads_by(lambda g, mu, lam: np.log(lam / g)),
        "The sign is turned, and the outputs are missing: they are -log mu.",
        _leads_by(lambda g, mu, lam: np.log(mu)),
        "That is minus the signed output. The lead is the exponent less the output.",
        _leads_by(lambda g, mu, lam: -np.log(mu)),
        "That is the signed output alone. The lead is the exponent less it.",
        _leads_by(lambda g, mu, lam: -np.log(lam)),
        "Only lambda? The exponent has log g too, and the outputs, -log mu, are to be taken off.",
        _leads_by(lambda g, mu, lam: g * mu / lam),
        "Forces die like exp(-exponent): exponents and leads are logarithms of these factors.",
        _leads_by(lambda g, mu, lam: np.log2(g * mu / lam)),
        "Take the natural logarithm: forces die like exp(-exponent).",
        _leads_by(shift=lambda c: c),
        "Right up to a constant: subtract the smallest, c is 0 there.",
        _leads_by(shift=lambda c: c - c.mean()),
        "Right up to a constant: subtract the smallest, not the mean.",
        _leads_by(shift=lambda c: c - c[0]),
        "The first need not be the smallest: subtract c.min().",
        _leads_by(shift=lambda c: c - c.max()),
        "Delta is the smallest lead, so every c is at least 0: subtract the smallest.",
        lambda g, mu, lam: np.maximum(0, np.log(g * mu / lam)),
        "Do not clip: the constant is free, and moves the smallest to 0.",
        lambda g, mu, lam: abs(np.log(g * mu / lam)),
        "The sign counts. The constant is free, and moves the smallest to 0.",
    ),
)


# --------------------------------------------------------------------------- 09.4 what attention is left
def _sigmoid(z):
    return 1 / (1 + np.exp(-z))


def _left_by(
    grown=lambda lead, tau, factor: lead + 2 * tau * np.log(factor),
    decided=_sigmoid,
    share=lambda m, upper, lower: (m - lower) / (upper - lower),
    above=0.0,
    below=1.0,
    level=lambda m: m,
):
    """An answer from the lead later and its attention, the better token's share, and what both ends leave."""

    def answer(factor, lead, tau, level_later, upper, lower):
        if tau > 0:
            return float(decided(grown(lead, tau, factor)))
        m = level(level_later)
        if above is not None and lower >= m:
            return float(above)
        if below is not None and upper <= m:
            return float(below)
        return float(share(m, upper, lower))

    return answer


_left = _left_by()


def later_attention(factor, lead, tau, level, upper, lower):
    """The attention of the better token `factor` times as many steps later."""
    return _left(factor, lead, tau, level, upper, lower)


def _left_cases(rng):
    """Simple numbers, a mixture at the level, both above it, both below it, and three with a relaxed lead.

    Where there is a relaxed lead the outputs are given as well: between, above and below the level.
    """
    cases = [(10.0, 0.5, 0.0, 1.1, 1.5, 0.5)]

    def outputs(above, below):
        m = rng.uniform(1.05, 1.2)
        return m, m + above * rng.uniform(0.8, 1.2), m - below * rng.uniform(0.8, 1.2)

    for lead, tau, above, below in (
        (1.0, 0.0, 0.2, 0.5),
        (1.0, 0.0, 0.7, -0.3),
        (2.0, 0.0, -0.02, 0.6),
        (0.7, 0.2, 0.3, 0.4),
        (-0.6, 0.5, 0.6, -0.2),
        (-1.5, 0.1, -0.02, 0.5),
    ):
        z = lead * rng.uniform(0.8, 1.2), tau * rng.uniform(0.8, 1.2)
        cases.append((float(rng.integers(5, 20)), *z, *outputs(above, below)))
    return cases


LEFT = Exercise(
    id="09.4",
    title="What attention is left",
    points=2,
    minutes=10,
    difficulty=2,
    reference=later_attention,
    cases=_left_cases,
    misconceptions=known(
        _left_by(share=lambda m, upper, lower: (upper - m) / (upper - lower)),
        "That is the share of the other token. The better token is the one with `upper`.",
        _left_by(level=lambda m: 1.0),
        "The mixture lies where `level` says; only in the limit is that 1.",
        _left_by(above=None, below=None),
        "Right with one output on each side of the level. An attention is never below 0 or above 1: what "
        "happens if the sequence never pushes, and if it always does?",
        _left_by(above=None),
        "If both outputs are above the level, the sequence never pushes, whatever it mixes; the others take "
        "its lead down without end: 0.",
        _left_by(below=None),
        "If both outputs are below the level, the sequence pushes whatever it mixes: 1.",
        _left_by(above=1.0),
        "The better token does not win where both outputs are above the level: its sequence does not push; "
        "the others push its lead down. 0 is left.",
        _left_by(above=1.0, below=0.0),
        "The ends are exchanged. With both outputs above the level the sequence never pushes; the others "
        "take its lead down; with both below it pushes whatever it mixes.",
        _left_by(below=0.0),
        "If both outputs are below the level, the sequence pushes its better token up, whatever it mixes: 1.",
        _left_by(above=np.nan),
        "No mixture is at the level, but some attention is left: the sequence never pushes, and the others "
        "take its lead down without end.",
        _left_by(above=np.nan, below=np.nan),
        "No mixture is at the level, but some attention is left. Which way does the lead go if the sequence "
        "never pushes, and which if it always does?",
        lambda factor, lead, tau, level, upper, lower: (
            1 - (1 - _sigmoid(lead)) * factor ** (-2 * tau)
            if tau > 0
            else _left(factor, lead, tau, level, upper, lower)
        ),
        "Right where tau = 0. e^(-lead) is the *quotient* of the two attentions, so near 1/2 the other one "
        "does not shrink like it: which attention belongs to the later lead?",
        lambda factor, lead, tau, level, upper, lower: (
            _left(factor, lead, tau, level, upper, lower)
            if tau > 0 or lower < level < upper
            else _sigmoid(lead)
        ),
        "Right where some mixture is at the level. Where none is, the lead does not stay: it goes one way "
        "without end.",
        _left_by(above=0.5, below=0.5),
        "If no mixture is at the level, the lead goes one way without end: which way?",
        _left_by(share=lambda m, upper, lower: m / upper),
        "That leaves the other token out: the mixture has the output s upper + (1 - s) lower.",
        _left_by(share=lambda m, upper, lower: (m - lower) / upper),
        "Solve s upper + (1 - s) lower = level: the difference upper - lower stands below.",
        _left_by(share=lambda m, upper, lower: (m - lower) / (upper + lower)),
        "Solve s upper + (1 - s) lower = level: lower is taken off on both sides.",
        _left_by(share=lambda m, upper, lower: m / (upper + lower)),
        "Solve s upper + (1 - s) lower = level for s.",
        lambda factor, lead, tau, level, upper, lower: float(_sigmoid(lead + 2 * tau * np.log(factor))),
        "Right where tau > 0. With tau = 0 the lead need not stay as it is: the mixture goes to the level.",
        lambda factor, lead, tau, level, upper, lower: _left(factor, lead, 0.0, level, upper, lower),
        "Right where tau = 0. With tau > 0 the lead grows, and the mixture does not stop at the level.",
        _left_by(decided=lambda lead: 1.0),
        "Right where tau = 0. With tau > 0 the attention tends to 1, but how far has it got?",
        _left_by(decided=lambda lead: lead),
        "Right where tau = 0. With tau > 0 that is the lead: return the attention that goes with it.",
        _left_by(decided=np.exp),
        "exp(lead) is the quotient of the two attentions; they add up to 1.",
        _left_by(decided=lambda lead: _sigmoid(-lead)),
        "With tau > 0 that is the attention of the other token.",
        _left_by(lambda lead, tau, factor: lead + tau * np.log(factor)),
        "Delta grows like 2 log ||v||, not like log ||v||: the lead grows by 2 tau log(factor).",
        _left_by(lambda lead, tau, factor: lead + tau * np.log(factor) / 2),
        "The 2 stands above: Delta is 2 log ||v||, so the lead grows by 2 tau log(factor).",
        _left_by(lambda lead, tau, factor: lead + 2 * np.log(factor)),
        "The lead does not grow as fast as Delta, but tau times as fast.",
        _left_by(lambda lead, tau, factor: 2 * tau * np.log(factor)),
        "Part of the lead is there already: 2 tau log(factor) is what it grows by.",
        _left_by(lambda lead, tau, factor: lead + tau),
        "tau is the lead at p_rel. That of p grows by tau times as much as Delta does.",
        _left_by(lambda lead, tau, factor: lead * factor),
        "The lead grows with the logarithm of the steps, not in proportion to them.",
        _left_by(lambda lead, tau, factor: lead + 2 * tau * factor),
        "The lead grows with the logarithm of the steps: 2 tau log(factor).",
        _left_by(lambda lead, tau, factor: lead + 2 * tau * np.log10(factor)),
        "Delta is 2 log ||v|| with the natural logarithm.",
        _left_by(lambda lead, tau, factor: lead * (1 + 2 * tau * np.log(factor))),
        "The growth is added to the lead: it does not depend on how large the lead is.",
    ),
)


EXERCISES = [LIFT, ANGLE, LEADS, LEFT]
