# Checkpointed layers in DDP, world 2: values, silence and kinds of errors of each way under each option.
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
import twin

WAYS = (("bare", None), ("reentrant", True), ("plain", False))
OPTIONS = (("none", {}), ("static", {"static_graph": True}), ("find", {"find_unused_parameters": True}),
           ("view", {"gradient_as_bucket_view": True}))


def one():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    return layer


class Net(nn.Module):
    """One layer, used once or twice, alone, below a head or above a stem."""
    def __init__(self, reentrant, uses, place):
        super().__init__()
        self.a, self.reentrant, self.uses = one(), reentrant, uses
        self.stem = one() if place == "stem" else None
        self.head = one() if place == "head" else None

    def forward(self, x):
        if self.stem:
            x = self.stem(x)
        for _ in range(self.uses):
            x = self.a(x) if self.reentrant is None else checkpoint(self.a, x, use_reentrant=self.reentrant)
        return self.head(x) if self.head else x


def trained(rank, net, options):
    ddp, told = nn.parallel.DistributedDataParallel(net, **options), []
    try:
        for _ in range(3):
            ddp.zero_grad()
            ddp(torch.full((1, 1), 3.0 * rank + 1, requires_grad=True)).sum().backward()
            told.append(" ".join("%g" % p.grad.item() for _, p in sorted(net.named_parameters())))
    except Exception as error:
        told.append(type(error).__name__)
    return " ".join(told)


def work(rank):
    lines = []
    for uses in (1, 2):
        for place in ("alone", "head", "stem"):
            for way, reentrant in WAYS:
                for option, options in OPTIONS:
                    lines.append("%d_%s_%s_%s %s" % (uses, place, way, option,
                                 trained(rank, Net(reentrant, uses, place), options)))
    return lines


if __name__ == "__main__":
    twin.needs("2.15", "static graphs counted uses in another way")
    first, second = twin.ranks(2, work)
    for a, b in zip(first, second):
        print(a, "and", b.split(" ", 1)[1])
