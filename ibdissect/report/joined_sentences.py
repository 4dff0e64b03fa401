"""Sentences that say the same of several ports, put together into one with a list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct as Record

LEAST = 4
"""Sentences that are put together; fewer are shorter one by one."""
LONGEST = 8
"""Words of a name; longer differences are no names."""
SHARED = 4
"""Words that sentences about several ports have in common at least."""
CONTINUES = r"(?:HCA-\d+|\w+_\d+|[(]?(?:port|LID)|\d+|0x[0-9a-f]+)[)]?[:,;]?"
"""A word that belongs to the name before it: `node07 HCA-1 port 1 (LID 5)`."""
BEGINS = ("LID", "QP", "port", "node", "GID")
"""Words that belong to the number behind them."""


class SimilarSentences(Record):
    """Sentences that differ in a name only, or one sentence."""

    text: str
    """The sentence; `each of 14 ports` stands for the names: what follows is about one."""
    names: list[str]
    """The names, one for each sentence; empty if all sentences are equal."""
    places: list[list[int]]
    """Which sentences have each name; for equal sentences one list."""


def alike(sentences: Sequence[str]) -> list[SimilarSentences]:
    """Sentences in order of their first, those that say the same of several ports put together."""
    equal: dict[str, list[int]] = {}
    for index, sentence in enumerate(sentences):
        equal.setdefault(sentence, []).append(index)
    left, found = {text: text.split(" ") for text in equal}, list[SimilarSentences]()
    while left:
        text, words = next(iter(left.items()))
        pairs = {other: pair for other, its in left.items() if other != text and (pair := _pair(words, its)) is not None}
        frames = Counter((before, after) for before, _, _, after in pairs.values())
        frame, count = frames.most_common(1)[0] if frames else (("", ""), 0)
        members = [other for other, pair in pairs.items() if (pair[0], pair[3]) == frame] if count + 1 >= LEAST else []
        if not members:
            found.append(SimilarSentences(text, [], [equal[text]]))
            del left[text]
            continue
        own = pairs[members[0]][1]
        names = [own, *(pairs[other][2] for other in members)]
        said = f"{frame[0]} each of {len(names)} {_noun(names)}{frame[1]}".strip()
        found.append(SimilarSentences(said, names, [equal[text], *(equal[other] for other in members)]))
        for other in (text, *members):
            del left[other]
    return found


def _pair(one: list[str], other: list[str]) -> tuple[str, str, str, str] | None:
    """What stands before the name in which two sentences differ, both names, and what stands behind; None if they differ otherwise."""
    most = min(len(one), len(other))
    low = next((i for i in range(most) if one[i] != other[i]), most)
    high = next((i for i in range(most - low) if one[-1 - i] != other[-1 - i]), most - low)
    while low and one[low - 1] in BEGINS:
        low -= 1
    while high and not one[-1 - high].endswith((":", ",", ";")) and re.fullmatch(CONTINUES, one[len(one) - high]):
        high -= 1
    left, right = one[low : len(one) - high], other[low : len(other) - high]
    pairs = (*zip(left, right, strict=False), *zip(reversed(left), reversed(right), strict=False))
    if any(mine == its and re.fullmatch("[a-z]+", mine) and mine not in BEGINS for mine, its in pairs):
        return None  # a verb, in front of which names may have different lengths: the sentences differ in more than a name
    mine, its = " ".join(left), " ".join(right)
    if low + high < SHARED or max(len(one), len(other)) - low - high > LONGEST or not (_is_name(mine) and _is_name(its)):
        return None
    end = mine[-1] if mine[-1] in ":,;" else ""
    if its[-1:] != mine[-1:] and (end or its[-1] in ":,;"):
        return None
    after = f" {' '.join(one[len(one) - high :])}" if high else ""
    return " ".join(one[:low]), mine.removesuffix(end), its.removesuffix(end), end + after


def _is_name(text: str) -> bool:
    """Whether it may be the name of a port or node: it has letters and a number, and is no bare number."""
    return bool(text) and re.search(r"[A-Za-z]", text) is not None and re.match(r"[-+.,\d:;x()]+(?: |$)", text) is None


def _noun(names: list[str]) -> str:
    if all("QP " in name for name in names):
        return "queue pairs"
    return "ports" if all("port " in name or "LID " in name for name in names) else "nodes"
