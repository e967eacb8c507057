"""opcheck, compile and export of a model with a backend, in a process of its own:
`python -m tests.helpers.tracing KIND BACKEND`."""

import sys

import torch
from torch import Generator

from csprop import CSP, Counter, CSPConfig, Paper, Rotor, Switch, scan, use_backend
from csprop.ops import operators

CELLS = {"paper": [Paper()] * 2, "rotor": [Rotor()] * 2, "counter": [Counter(), Switch()]}


def check_operators() -> None:
    g = Generator().manual_seed(0)
    for planes in ((2,), (4, 4)):
        a, u, h0 = (
            torch.randn(*shape, 3, generator=g, requires_grad=True)
            for shape in ((2, 5, *planes), (2, 5, planes[0]), (2, planes[0]))
        )
        for reset in (None, torch.rand(2, 5, generator=g) < 0.3):
            torch.library.opcheck(operators.scan, (a, u, h0, reset))


def check_scan() -> None:
    g = Generator().manual_seed(0)
    a, u = (torch.randn(2, 9, *planes, 3, generator=g, requires_grad=True) for planes in ((4, 4), (4,)))
    results = []
    for function in (scan, torch.compile(scan, backend="aot_eager", fullgraph=True)):
        h, last = function(a, u)
        results.append([h, last, *torch.autograd.grad(h.sum() + last.square().sum(), (a, u))])
    torch.testing.assert_close(*results)


def check_model(net: CSP) -> None:
    tokens = torch.randint(3, (2, 9), generator=Generator().manual_seed(0))
    want = net(tokens)
    want.mean().backward()
    gradients = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    net.zero_grad()
    got = torch.compile(net, backend="aot_eager", fullgraph=True)(tokens)
    got.mean().backward()
    torch.testing.assert_close(got, want)
    for name, parameter in net.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name])
    exported = torch.export.export(net, (tokens,)).module()
    torch.testing.assert_close(exported(tokens), want)
    with torch.no_grad():
        exported = torch.export.export(net, (tokens,)).module()
        torch.testing.assert_close(exported(tokens), want)


if __name__ == "__main__":
    kind, backend = sys.argv[1:]
    config = CSPConfig(vocab_size=3, num_classes=4, width=3, cells=CELLS[kind])
    net = CSP(config, Generator().manual_seed(0))
    with use_backend(backend):
        if backend == "native":  # the other one looks at numbers, which fake tensors do not have
            check_operators()
        check_scan()
        check_model(net)
