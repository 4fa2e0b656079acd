"""Match one event type against many topic patterns at once: every position of every pattern is one bit.

Data flow: patterns -> :class:`Wildcards` -> ``matching(words)`` -> numbers of the patterns that match.

A pattern of n words has n + 1 consecutive bits: bit i is set while its first i words match the words read so
far. Each word shifts the bits of all patterns that accept it by one position, and keeps the bits behind a
``#``. The cost of a word is therefore a few operations on one integer as long as all patterns together: 1,000
patterns of 127 words take 16 kB and 2 us a word. Walking a trie took 4.6 s for them.

Source: Baeza-Yates and Gonnet, "A New Approach to Text Searching" (1992), the shift-and automaton; AMQP 0-9-1
topic exchange.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MASKS_KEPT: Final = 256  #: most words with a cached mask; the oldest mask is dropped first

_SET = re.compile(rb"[^\x00]")
_STAR: Final = "*"
_HASH: Final = "#"


class Wildcards:
    """Compiled patterns with wildcards. Only the cached masks change after construction."""

    __slots__ = (
        "_bytes",
        "_ends",
        "_holding",
        "_masks",
        "_number_of",
        "_places",
        "_skipping",
        "_star",
        "_start",
    )

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile *patterns*; each is identified by its number, from 0."""
        starts: list[int] = []
        star: list[int] = []
        holding: list[int] = []
        skipping: list[int] = []
        self._number_of: dict[int, int] = {}  # bit of a pattern's end -> its number
        self._places: dict[str, list[int]] = {}  # word -> bits that it shifts
        bit = 0
        for number, pattern in enumerate(patterns):
            starts.append(bit)
            for word in reordered(pattern.split(".")):
                if word == _HASH:
                    skipping.append(bit)
                    holding.append(bit + 1)
                elif word == _STAR:
                    star.append(bit)
                else:
                    self._places.setdefault(word, []).append(bit)
                bit += 1
            self._number_of[bit] = number
            bit += 1
        self._bytes = (bit + 7) // 8
        self._star = self._mask(star)
        self._holding = self._mask(holding)
        self._skipping = self._mask(skipping)
        self._ends = self._mask(self._number_of)
        start = self._mask(starts)
        self._start = start | (start & self._skipping) << 1
        self._masks: dict[str, int] = {}

    def matching(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of the patterns that match *words*, a whole event type."""
        here = self._start
        for word in words:
            if not here:
                return []
            moved = (here & self._shifted_by(word)) << 1 | here & self._holding
            here = moved | (moved & self._skipping) << 1
        return [self._number_of[bit] for bit in _bits(here & self._ends, self._bytes)]

    def _shifted_by(self, word: str) -> int:
        """Return the bits that *word* shifts."""
        known = self._masks.get(word)
        if known is not None:
            return known
        places = self._places.get(word)
        if places is None:
            return self._star
        mask = self._star | self._mask(places)
        if len(self._masks) >= MASKS_KEPT:
            del self._masks[next(iter(self._masks))]
        self._masks[word] = mask
        return mask

    def _mask(self, bits: Iterable[int]) -> int:
        mask = bytearray(self._bytes)
        for bit in bits:
            mask[bit >> 3] |= 1 << (bit & 7)
        return int.from_bytes(mask, "little")


def reordered(words: Sequence[str]) -> Iterator[str]:
    """Yield the words with each run of wildcards reordered: its ``*`` first, then one ``#`` if it had any.

    The reordered pattern matches the same types, and contains no two ``#`` in a row.
    """
    has_hash = False
    for word in words:
        if word == _HASH:
            has_hash = True
            continue
        if has_hash and word != _STAR:
            yield _HASH
            has_hash = False
        yield word
    if has_hash:
        yield _HASH


def _bits(mask: int, size: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, in time linear in *size*, the mask's bytes."""
    if not mask:
        return
    data = mask.to_bytes(size, "little")
    for match in _SET.finditer(data):
        at = match.start()
        value = data[at]
        for bit in range(8):
            if value >> bit & 1:
                yield at * 8 + bit
