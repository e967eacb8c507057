"""A router layer learns a task from features in which tokens are hidden by noise, and is proven.

python examples/noisy_tokens.py parity mod3 --seeds 5
"""

import argparse

import torch
from torch import Generator, nn

import csprop
from csprop.proof.models import FromLayer
from csprop.proof.noise import radius

FEATURES, NOISE, PLACES, STEPS, ROWS, LENGTH = 16, 0.2, 32, 1000, 64, 16


def proven(name: str, seed: int) -> str:
    """Train a network on a task, lock it and prove it; what came of it, in a line."""
    task, generator = csprop.tasks.get(name), Generator().manual_seed(seed)
    look = torch.randn(len(task.vocab), FEATURES, generator=generator)  # of each token
    layer = csprop.CSPLayer(FEATURES, PLACES, kind="router", generator=generator)
    torch.manual_seed(seed)
    head = nn.Linear(FEATURES, len(task.classes))
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.005)
    for step in range(STEPS):
        layer.temperature = 0.2 ** min(1, step / (0.7 * STEPS))  # soft maps become hard
        longest = min(LENGTH, 4 + int((LENGTH - 4) * step / (0.3 * STEPS)))  # short sequences first
        tokens = torch.randint(len(task.vocab), (ROWS, longest), generator=generator)
        noise = NOISE * torch.randn(*tokens.shape, FEATURES, generator=generator)
        scores = head(layer(look[tokens] + noise)[0])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), task.labels(tokens).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    network = FromLayer(nn.Embedding.from_pretrained(look), layer.eval(), head)
    certificate = csprop.certify(network, task, progress=False)
    stands = f", stands noise of length {radius(certificate):.2f}" if certificate.proven else ""
    return f"{name}, seed {seed}: {certificate.verdict}{stands}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    for each in chosen.tasks:
        for number in range(chosen.seeds):
            print(proven(each, number), flush=True)
