"""The notation of the course: one meaning a symbol. The lint reads this table, and so will the site.

A new symbol goes here first. Letters that live in one section only (indices, constants) need no row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbformat import NotebookNode

from course.make.house import where


@dataclass(frozen=True)
class Symbol:
    """A symbol: how it is written in text and in code, what it means, and the lesson that introduces it."""

    tex: str
    code: str
    meaning: str
    lesson: str


SYMBOLS = [
    Symbol(*row)
    for row in (
        (r"x_i, y_i; n, d", "X, y, n, d", "points and their labels, -1 or +1; how many, and dimension", "01"),
        (r"w", "w", "weights of a linear classifier", "01"),
        (r"u = y f", "u", "signed output, the argument of the loss; y_i w.x_i for a linear classifier", "01"),
        (r"L, \ell, |\ell'|", "loss", "mean loss; loss of one signed output; the size of its slope", "01"),
        (r"\eta; t, j", "eta, lr", "step size or length; number of steps (j where t counts tokens)", "01"),
        (r"\mu(w), \hat\mu", "margin, mu", "margin: least u over the norm; the largest margin", "01"),
        (r"\hat w", "w_hat", "the SVM: the shortest w with all signed outputs at least 1", "01"),
        (r"\mathcal S", "support", "the support vectors: those whose constraint is tight", "01"),
        (r"\tilde w, r", "offset, r", "bounded remainder along the run; its part across the ray", "01"),
        (r"\lambda_i", "lam", "weight of constraint i; at the optimum the SVM's dual variable", "01"),
        (r"\theta; \varphi", "angle", "angle to the limit direction; other angles", "01"),
        (r"a_i, a_{it}; A", "A", "signed point y_i x_i, comparison k_alpha - k_t; the matrix of them", "02"),
        (r"q_i", "q", "normalised weights, with sum one", "02"),
        (r"\hat a", "nearest", "the point of the hull of the a_i that is nearest to the origin", "02"),
        (r"B(\lambda)", "bound", "upper bound on every margin; gap = 1 - mu / B", "02"),
        (r"\rho; \rho^*", "rho", "exponent of the norm l_rho, and its dual (the papers write p)", "03"),
        (r"\lVert \cdot \rVert_*", "", "dual norm; of matrices, the nuclear norm", "03"),
        (r"\delta", "step", "a step of length one", "03"),
        (r"g; G", "g, G", "gradient of the loss in a vector; in a matrix", "03"),
        (r"\psi", "psi", "potential of mirror descent", "03"),
        (r"S", "S", "sum of lambda_i a_i, or of lambda_i A_i: grad psi(w) in mirror descent", "03"),
        (
            r"\beta_1, \beta_2; \bar g, \overline{g^2}",
            "beta1, mean, square",
            "Adam's memories and means",
            "03",
        ),
        (r"\eta_{\mathrm{eff}}; \nu", "adam_step", "Adam's real step; the pace at which g_t shrinks", "03"),
        (r"\sigma_k; \xi_k, \zeta_k", "singular", "singular values; left and right singular vectors", "03"),
        (r"\varepsilon", "eps", "a small number that is added: to a denominator, or as a ridge", "03"),
        (r"U, V; m", "U, V", "factors of W = U V^T; their number of columns", "04"),
        (r"M", "M", "pull -grad L(W)", "04"),
        (r"\beta", "beta", "size of the start", "04"),
        (r"x_t, k_t, T; v", "X, keys, v", "token, its key, how many; prediction head", "05"),
        (r"p; R", "p, R", "attention vector; its length, or the radius of a ball", "05"),
        (r"h_t, s_t; \chi", "h, s", "logits and attention; temperature", "05"),
        (r"g_t, f", "g, f", "value v.x_t of a token (with its index); output", "05"),
        (r"\partial_t f, \nabla_h f", "slopes", "gradient of the output in the logits", "05"),
        (r"\alpha_i, \mathrm{opt}_i", "selected, optimal", "selected token; best token", "05"),
        (r"\Delta", "lead", "lead of the selected token's logit over another; the smallest one", "05"),
        (r"\gamma_t", "scores", "score y v.x_t", "06"),
        (r"p_{\mathrm{mm}}, \hat p", "p_mm", "solution of the Att-SVM; the same with length one", "06"),
        (r"c_t", "", "strength of a comparison's force, its attention included", "06"),
        (r"W; z_i", "W, z", "attention matrix; query", "06"),
        (r"\Gamma(p)", "shortfall", "the best score minus the expected one", "08"),
        (r"p(R); H", "path", "regularisation path; Hessian", "08"),
        (r"f(\bar x)", "head", "nonlinear head, which reads the mixture of tokens", "08"),
        (
            r"R_v; \omega; \kappa",
            "ratio, kappa",
            "radius of v; ratio of step lengths; least u over least lead",
            "09",
        ),
        (r"W_{\mathrm{mm}}; p_i", "W_mm", "solution of the Att-SVM for W; what sequence i sees, W z_i", "10"),
        (r"\bar a_i", "a_bar", "weighted comparisons of a sequence; W_mm = sum_i a_bar_i z_i^T", "10"),
        (r"W_\perp", "kept", "the part of a start W_0 outside the span of the comparisons", "10"),
        (
            r"\Omega; e",
            "omega",
            "orthogonal matrix that leaves v alone, or turns a query; v over its length",
            "10",
        ),
        (r"\varrho", "correlation", "correlation of two sequences' preferences for their own query", "10"),
        (r"K, Q; A_{it}", "K, Q", "keys and queries, W = K Q^T; matrix (x_alpha - x_t) z^T", "11"),
        (r"W_{\mathrm{fro}}, W_{\mathrm{nuc}}", "W_fro, W_nuc", "the Att-SVM in either norm", "11"),
        (
            r"\nu_T",
            "nu",
            "numbers (degrees of freedom) that a choice among T tokens uses up on average",
            "12",
        ),
        (r"\phi; V_k", "act, V", "activation of a head; weights of its hidden unit k", "13"),
        (r"O_i", "kept", "tokens that sequence i keeps", "13"),
        (
            r"W_{\mathrm{fin}}, W_{\mathrm{dir}}; N",
            "W_fin, W_dir",
            "finite part, direction; its length",
            "13",
        ),
        (r"W_\rho; D_\rho", "W_rho, D", "the Att-SVM in l_rho; divergence of two directions", "15"),
        (r"\mathcal V; a > b", "V, above", "vocabulary; a is to be looked at before b under a query", "16"),
        (r"W_{\mathrm{ov}}, W_{\mathrm{kq}}", "W_ov, W_kq", "value and attention matrix", "16"),
        (
            r"c_{it}; r_0",
            "c, outside",
            "a comparison's strength without its attention; what the first steps left",
            "17",
        ),
        (r"\hat W; J", "unit", "W_mm with length one; number of steps of a run as a whole", "17"),
        (r"\eta^*; L_\infty", "longest", "longest step that settles; loss of the selected tokens", "17"),
    )
]

# What would give a symbol a second meaning: lesson -> (pattern, what to write instead). "" is every lesson.
ELSEWHERE = {
    "": [
        (r"[Mm]argins?\s+\$u", "u is the signed output, not a margin"),
        (
            r"score gap|gaps? (between|of|to) (the )?(best )?scores?",
            "difference of scores: a gap is 1 - mu / B",
        ),
        (r"\$[^$]*\bY_i\b", "labels are y_i"),
        (r"\\sigma\(-", r"|\ell'(u)|: sigma is a singular value"),
    ],
    "01": [
        (r"\\rho", "in words: rho is the exponent of a norm"),
        (r"\\delta", r"\lVert r \rVert, the length of the remainder across the ray"),
    ],
    "02": [(r"\$p\$|\bp /|\\lVert p ", r"\hat a: p is the attention vector")],
    "03": [
        (r"\\(ell|mu|hat\\mu)_p\b|\\rVert_p|\bp\^\*|_\{p\^\*\}|\|\^\{?p", r"\rho: p is the attention vector"),
        (r"\$R\$|R\^2|\\eta R", r"a_{\max}: R is the length of p"),
        (r"\\sqrt v|\$m\$ and \$v\$|mean \$[mv]\$", r"\bar g and \overline{g^2}"),
    ],
    "04": [
        (r"\b[pq]_k\b", r"\xi_k and \zeta_k"),
        (r"\bs_[k123]\b", r"\sigma_k: s is attention"),
        (r"\b[uv]_k\b", "U_k and V_k"),
        (r"\\rho", r"\bar\sigma_k"),
    ],
    "05": [
        (r"\bu_[t123a]\b|gradients? \$u\$", r"\partial_t f, \nabla_h f: u is the signed output"),
        (r"\\theta", r"\chi is the temperature"),
        (r"\b[Gg]aps?\b", "lead: a gap is 1 - mu / B"),
        (r"\bm ?R\b|\bm >|\$m\$", r"\mu(p)"),
    ],
    "06": [(r"\bm \\|\$m\$|\^\{-m\}", r"\Delta"), (r"smallest margin", "smallest lead")],
    "07": [(r"smallest margin", "smallest lead"), (r"\bmargin \$?1\b", "lead 1")],
    "08": [(r"\\delta", r"\Gamma, the shortfall"), (r"\\psi", "f: psi is the potential of mirror descent")],
    "09": [
        (r"\\rho", r"\omega: rho is the exponent of a norm"),
        (r"\bm \\approx|\$m\$|\bq \+ m\b|m/q", r"\Delta, the lead; u_{\min}"),
        (r"\$r\$|r = R|\br, R\b", "R_v: r is the bounded remainder"),
    ],
}


def table(until: str = "99") -> str:
    """The table in markdown, up to a lesson."""
    rows = [
        f"| ${one.tex}$ | `{one.code}` | {one.meaning} | {one.lesson} |"
        for one in SYMBOLS
        if one.lesson <= until
    ]
    return "\n".join(["| symbol | code | meaning | lesson |", "|:---|:---|:---|:---|", *rows]).replace(
        "| `` |", "| |"
    )


def notation_problems(cells: list[NotebookNode], lesson: str) -> list[str]:
    """Where a lesson gives a symbol a second meaning, as far as a pattern can tell."""
    problems = []
    for position, cell in enumerate(cells):
        for pattern, instead in ELSEWHERE[""] + ELSEWHERE.get(lesson, []):
            found = re.search(pattern, cell.source) if cell.cell_type == "markdown" else None
            if found:
                problems.append(
                    f"{where(position, cell)} has '{' '.join(found[0].split())}'; write {instead}"
                )
    return problems
