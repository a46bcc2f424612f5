"""A page that shows texts as points on a map, near one another where their vectors are."""

import importlib.util
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bert_zoo.charts.clusters import k_means, principal_components, telling_words
from bert_zoo.charts.page import Page, encode
from bert_zoo.error_text import shown
from bert_zoo.fields import check

METHODS = "auto", "pca", "umap"
# UMAP's default n_neighbors.
NUM_NEIGHBOURS = 15
# Vectors with more dimensions, such as sparse ones over a vocabulary, are first projected at random onto so many.
MAX_SIZE = 2048
PROJECTED_SIZE = 512
MAX_CLUSTERS = 12
MAX_LABELS = 200
MAX_CHARACTERS = 300
STEPS = 65535  # of a coordinate


class TextMap(Page):
    """A complete HTML page, as a string. A notebook shows it in a frame."""

    name = "Map of texts"
    height = 900


def text_map(
    texts: Iterable[str],
    vectors: ArrayLike,
    labels: Iterable[Any] | None = None,
    *,
    method: Literal["auto", "pca", "umap"] = "auto",
    num_clusters: int | None = None,
    seed: int = 0,
    title: str = "Map of texts",
) -> TextMap:
    """Makes a page with a map of texts: similar texts are near one another.

    The page zooms, searches, and shows the text of a point under the pointer, at a touch and by the keyboard. It
    needs no network. Clusters and labels are named by the words that tell their texts apart.

    Args:
        texts: N texts, at least 3. The page shortens texts of more than 300 characters.
        vectors: float [N, size], one vector a text, as `embed` returns; a NumPy or SciPy sparse array. Vectors
            with 2 dimensions are the points of the map.
        labels: for each text its label, of any type, which colours its point; without labels, clusters do. Labels
            beyond the 200 most frequent are one group.
        method: how vectors become points. "pca" projects them onto their two main directions; "umap" keeps
            neighbours together, and needs the package umap-learn; "auto" is "umap" where that is installed, and
            else "pca".
        num_clusters: number of clusters, found by k-means; by default sqrt(N / 2), at most 12.
        seed: seed of clusters and of UMAP. The same seed makes the same page.
        title: title of the page.

    Returns:
        The page's HTML. Write it to a file in UTF-8.

    Raises:
        ValueError: texts, vectors and labels differ in number, there are fewer than 3 texts (for UMAP 16), or
            vectors are not finite numbers.
        TypeError: a text is not a string.
        ImportError: method is "umap", and umap-learn is not installed.
    """
    check("method", method, str, choices=METHODS)
    texts = _checked_texts(texts)
    x = _checked_vectors(vectors, len(texts), seed)
    points, placed = _points(x, method, seed)
    if num_clusters is None:
        num_clusters = min(int(np.sqrt(len(x) / 2)) or 1, MAX_CLUSTERS)
    check("num_clusters", num_clusters, int, least=1, most=len(x))
    clusters = k_means(x, num_clusters, seed=seed)
    groupings = [_grouping("cluster", texts, clusters)]
    if labels is not None:
        groupings.insert(0, _grouping("label", texts, *_numbered(labels, len(texts))))
    # One scale for both axes, around the middle.
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (high - low).max() or 1.0
    steps = np.rint((points - (low + high) / 2) / scale * STEPS + STEPS / 2)
    shortened = [
        text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…" for text in texts
    ]
    data = {
        "texts": shortened,
        "points": encode(np.clip(steps, 0, STEPS).astype(np.uint16)),
        "note": placed
        if shortened == texts
        else f"{placed} Texts end after {MAX_CHARACTERS} characters.",
        "groupings": groupings,
    }
    return TextMap.of("text_map", data, title=title)


def _checked_texts(texts: Iterable[str]) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{i}] is {shown(text)}, but must be a string.")
    if len(texts) < 3:
        raise ValueError(
            f"A map needs at least 3 texts, but there are {len(texts)}. Pass more texts."
        )
    return texts


def _checked_vectors(vectors: ArrayLike, num_texts: int, seed: int) -> np.ndarray:
    """Vectors as floats [num_texts, size], with a size that makes clusters quickly."""
    is_sparse = hasattr(vectors, "tocsr")
    x = vectors.tocsr() if is_sparse else np.asarray(vectors)
    if x.ndim != 2 or x.shape[0] != num_texts or x.shape[1] < 2:
        raise ValueError(
            f"{num_texts} texts need vectors of the shape [{num_texts}, size] with a size of at least 2, but these "
            f"have the shape {list(x.shape)}. Pass one vector for each text."
        )
    dtype = x.dtype
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        x = x.astype(np.float32) if dtype.kind in "fiub" else x
    if x.dtype != np.float32 or not np.isfinite(x.data if is_sparse else x).all():
        raise ValueError(
            f"The vectors, of type {dtype}, must be finite numbers. Leave out texts whose vectors are not."
        )
    if x.shape[1] > MAX_SIZE:
        # Keeps distances nearly as they are (Johnson and Lindenstrauss, 1984).
        generator = np.random.default_rng(seed)
        directions = generator.standard_normal((x.shape[1], PROJECTED_SIZE), dtype=np.float32)
        return x @ (directions / np.sqrt(np.float32(PROJECTED_SIZE)))
    return x.toarray() if is_sparse else x


def _points(x: np.ndarray, method: str, seed: int) -> tuple[np.ndarray, str]:
    """Points [N, 2], and a sentence that says how they were made."""
    if x.shape[1] == 2:
        return x, "Points are the given vectors."
    if method == "auto":
        has_umap = importlib.util.find_spec("umap") is not None and len(x) > NUM_NEIGHBOURS
        method = "umap" if has_umap else "pca"
    if method == "pca":
        points, explained = principal_components(x)
        return points, f"Points by PCA, which shows {100 * explained.sum():.0f} % of the variance."
    if len(x) <= NUM_NEIGHBOURS:
        raise ValueError(
            f'method="umap" needs more than {NUM_NEIGHBOURS} texts, but there are {len(x)}. Pass method="pca".'
        )
    try:
        from umap import UMAP
    except ImportError as error:
        raise ImportError(
            'method="umap" needs umap-learn: pip install umap-learn. Or pass method="pca".'
        ) from error
    # With several jobs, UMAP ignores the seed.
    reducer = UMAP(n_neighbors=NUM_NEIGHBOURS, metric="cosine", random_state=seed, n_jobs=1)
    return (
        reducer.fit_transform(x),
        f"Points by UMAP, from the {NUM_NEIGHBOURS} nearest neighbours by cosine.",
    )


def _numbered(labels: Iterable[Any], num_texts: int) -> tuple[np.ndarray, list[str]]:
    """The number of each text's label, and the labels' names, the most frequent first."""
    names = [str(label) for label in labels]
    if len(names) != num_texts:
        raise ValueError(
            f"There are {num_texts} texts, but {len(names)} labels. Pass one label for each text."
        )
    ranked = [name for name, _ in Counter(names).most_common()]
    rank = {name: min(i, MAX_LABELS) for i, name in enumerate(ranked)}
    if len(ranked) > MAX_LABELS:
        ranked[MAX_LABELS:] = [f"{len(ranked) - MAX_LABELS} other labels"]
    return np.array([rank[name] for name in names]), ranked


def _grouping(
    kind: str, texts: Sequence[str], groups: np.ndarray, names: Sequence[str] | None = None
) -> dict:
    """What the page shows of groups: their names, words and counts, and the group of each text."""
    if names is None:  # the largest first
        order = np.argsort(-np.bincount(groups), kind="stable")
        groups = np.argsort(order)[groups]
    words = telling_words(texts, groups)
    return {
        "kind": kind,
        "names": names
        or [" · ".join(some[:3]) or f"cluster {i + 1}" for i, some in enumerate(words)],
        "words": [", ".join(some) for some in words],
        "counts": np.bincount(groups).tolist(),
        "groups": encode(groups.astype(np.uint16)),
    }
