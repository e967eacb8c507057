"""A text whose entropy is known: sentences about one of several topics, in made-up words.

A sentence starts with a word of its topic. Short words that all topics share alternate with words of
the topic, until the sentence ends. So the topic has to be remembered across the shared words. Within a
list the n-th word has a probability proportional to 1/n.

Sentences are independent of each other, and the text can be read in one way only. So its entropy for
each character is the entropy of a sentence divided by the mean length of a sentence. No model can take
fewer bits in the long run.

>>> prose(60)
'Sutap ba pafi ri dafoso. Nifi ge fifiga. Paso so dibesi re p'
>>> round(entropy(), 4)
0.8
"""

import numpy as np

SEED = 2026
TOPICS, WORDS, SHARED = 8, 40, 24
"""Topics, words of each topic, and words that all topics share."""
END = 0.25
"""The probability that a sentence ends after a word of its topic."""
CONSONANTS, VOWELS = "bdfgklmnprst", "aeiou"


def vocabulary() -> tuple[list[list[str]], list[str]]:
    """Return the words of each topic, and the shared ones; no word is in two lists."""
    draws, words = np.random.default_rng(SEED), dict[str, None]()

    def syllables(count: int) -> str:
        letters = (draws.choice(list(each)) for _ in range(count) for each in (CONSONANTS, VOWELS))
        return "".join(letters)

    while len(words) < SHARED:
        words[syllables(1)] = None
    while len(words) < SHARED + TOPICS * WORDS:
        words[syllables(int(draws.integers(2, 5)))] = None
    shared, others = list(words)[:SHARED], list(words)[SHARED:]
    return [others[start : start + WORDS] for start in range(0, len(others), WORDS)], shared


def chances(count: int) -> np.ndarray:
    """Return the probabilities of the words of a list."""
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


def prose(characters: int, seed: int = 0) -> str:
    """Return the first characters of a text.

    Args:
        characters: how many.
        seed: decides which words are drawn.
    """
    (topics, shared), draws, parts, length = vocabulary(), np.random.default_rng(seed), [], 0
    own, common = chances(WORDS).cumsum(), chances(SHARED).cumsum()
    while length < characters:
        topic = topics[int(draws.random() * TOPICS)]
        words = [topic[np.searchsorted(own, draws.random())]]
        while draws.random() >= END:
            words.append(shared[np.searchsorted(common, draws.random())])
            words.append(topic[np.searchsorted(own, draws.random())])
        parts.append(" ".join(words).capitalize() + ". ")
        length += len(parts[-1])
    return "".join(parts)[:characters]


def entropy() -> float:
    """Return the entropy of the text, in bits for each character."""
    topics, shared = vocabulary()
    own, common = chances(WORDS), chances(SHARED)
    bits = {len(each): float(-(each * np.log2(each)).sum()) for each in (own, common)}
    ending = -END * np.log2(END) - (1 - END) * np.log2(1 - END)
    rounds = 1 / END - 1  # how often, on average, a shared word and another of the topic follow
    sentence = np.log2(TOPICS) + bits[WORDS] + ending / END + rounds * (bits[SHARED] + bits[WORDS])
    long = np.mean([own @ [len(word) for word in topic] for topic in topics])
    short = common @ [len(word) for word in shared]
    length = long + 2 + rounds * (short + long + 2)  # a space, or a full stop and a space
    return float(sentence / length)
