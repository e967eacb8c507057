"""Lists of seeds: reading and writing them."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from csprop.errors import InputError
from csprop.progress import Epoch
from csprop.training.workers import cores

MOST_SEEDS = 10_000


def parse_seeds(text: str) -> list[int]:
    """Read a list of seeds, such as "0-9" or "0,3,5-7".

    Raises:
        InputError: the text is not such a list, or there are more than 10,000 seeds.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise InputError("write a range such as 0-9, or a list such as 0,3,5", "seeds", text)
        seeds.extend(islice(range(int(match[1]), int(match[2] or match[1]) + 1), MOST_SEEDS + 1))
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"write at most {MOST_SEEDS:,} seeds", "seeds", text)
    return list(dict.fromkeys(seeds))


def seed_ranges(seeds: Sequence[int]) -> str:
    """Write a list of seeds with ranges: the inverse of `parse_seeds`."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def label_seeds(name: str, seeds: Sequence[int]) -> str:
    """Return the label of a bar that shows one seed, or the worst of several."""
    return f"{name} {'worst of' if len(seeds) > 1 else 'seed'} {seed_ranges(seeds)}"


def worst_row(rows: Mapping[int, Epoch]) -> Epoch:
    """Return the row of the seed with the lowest accuracy."""
    return min(rows.values(), key=lambda row: row["accuracy"])


def suggest_workers(seeds: int) -> int:
    """Return the number of processes that should share some seeds: one per core.

    A process takes seconds to start, so each gets at least two seeds.
    """
    return min(cores(), max(1, seeds // 2))
