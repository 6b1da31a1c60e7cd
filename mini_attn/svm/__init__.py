"""Hard-margin SVMs in the course's norms, every answer with its certificate: `solve`, and what it takes."""

from mini_attn.svm.dispatch import solve
from mini_attn.svm.farkas import exact_ray
from mini_attn.svm.mixture import mixture_problem, ratio_problem
from mini_attn.svm.nuclear import certified_rank
from mini_attn.svm.order import next_problem, order_problem
from mini_attn.svm.problem import HardMarginProblem, attention_problem, label_problem, token_problem
from mini_attn.svm.sequence import sequence_problem
from mini_attn.svm.soft import SoftSolution, solve_soft
from mini_attn.svm.solution import InfeasibleError, Solution, SolveError

__all__ = [
    "HardMarginProblem",
    "InfeasibleError",
    "SoftSolution",
    "Solution",
    "SolveError",
    "attention_problem",
    "certified_rank",
    "exact_ray",
    "label_problem",
    "mixture_problem",
    "next_problem",
    "order_problem",
    "ratio_problem",
    "sequence_problem",
    "solve",
    "solve_soft",
    "token_problem",
]
