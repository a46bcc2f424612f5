"""Learns BPE of words, whose last character has "</w>" behind it; small and slow, for vocabularies of tests."""

import collections
import itertools
from collections.abc import Iterable


def learn(
    words: Iterable[str], *, merges: int, characters: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """The most frequent characters of words, with "</w>" where they end one, and the merges."""
    split = {(*word[:-1], word[-1] + "</w>"): n for word, n in collections.Counter(words).items()}
    counts = collections.Counter()
    for word, count in split.items():
        for character in word:
            counts[character] += count
    learned = []
    for _ in range(merges):
        pairs = collections.Counter()
        for word, count in split.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(best)
        split = {_merged(word, best): count for word, count in split.items()}
    ordered = sorted(counts, key=lambda character: (-counts[character], character))
    return ordered[:characters], learned


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    if pair[0] not in word:
        return word
    found, place = [], 0
    while place < len(word):
        if word[place : place + 2] == pair:
            found.append("".join(pair))
            place += 2
        else:
            found.append(word[place])
            place += 1
    return tuple(found)
