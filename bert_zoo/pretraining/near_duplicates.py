"""Near duplicates among documents: those that share most of their sequences of five words.

A document's signature has the smallest hash of its sequences for each of `NUM_HASHES` hash functions. The share in
which two signatures agree estimates the Jaccard similarity of the sets of sequences. Only documents that agree in a
band, some hashes next to each other, are compared. The order of documents does not matter.

Source: Broder 1997, "On the resemblance and containment of documents"; Lee et al. 2022 (arXiv:2107.06499); for the low
bytes of hashes Li and König 2010 (arXiv:0910.3349).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

NUM_HASHES, WORDS = 128, 5
# Number of documents with the smallest ids to which the others of a band are compared.
COMPARED = 64
WEIGHTS = (0.1, 0.9)  # of false positives, which the comparison finds, and of false negatives
# Words are not divided by spaces in Chinese and Japanese: each character counts as one.
_WORD = re.compile(r"[぀-鿿]|[^\W぀-鿿]+")


def bands(
    documents: Iterable[tuple[bytes, Sequence[str]]], threshold: float
) -> Iterator[tuple[bytes, bytes]]:
    """Yields a key for each band of each document, and the document as a member for `near_duplicates`.

    Documents are (id, sentences); all ids have the same length. Those without words have no bands.
    """
    index, empty = _setup(threshold)
    for name, sentences in documents:
        words = _WORD.findall("\n".join(sentences).lower())
        if not words:
            continue
        starts = range(max(len(words) - WORDS, 0) + 1)
        shingles = {" ".join(words[start : start + WORDS]) for start in starts}
        found = empty.copy()
        found.update_batch([shingle.encode("utf-8", "surrogatepass") for shingle in shingles])
        hashes = found.hashvalues
        member = name + hashes.astype(np.uint8).tobytes()
        for band in range(index.b):
            values = hashes[band * index.r : (band + 1) * index.r].tobytes()
            yield hashlib.blake2b(bytes([band]) + values, digest_size=12).digest(), member


def near_duplicates(members: Iterable[bytes], threshold: float) -> Iterator[bytes]:
    """Yields the ids of documents that have a near duplicate with a smaller id, among those of the same key."""
    members = sorted(set(members))
    table = np.frombuffer(b"".join(members), np.uint8).reshape(len(members), -1)
    signatures = table[:, -NUM_HASHES:]
    is_near = np.zeros(len(members), bool)
    for first in range(min(len(members) - 1, COMPARED)):
        agree = signatures[first + 1 :] == signatures[first]
        is_near[first + 1 :] |= agree.mean(1) >= threshold
    for place in np.flatnonzero(is_near):
        yield members[place][:-NUM_HASHES]


@cache
def _setup(threshold: float) -> tuple[Any, Any]:
    """An index with the numbers of bands, `b`, and of their hashes, `r`; and an empty signature."""
    from datasketch import MinHash, MinHashLSH

    return MinHashLSH(threshold, NUM_HASHES, weights=WEIGHTS), MinHash(NUM_HASHES)
