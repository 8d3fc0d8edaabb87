import torch
from torch import nn
import twin

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = [nn.Linear(1, 1, bias=False) for _ in range(3)]

    def forward(self, x, names):
        return sum(getattr(self, name)(x) for name in names)

def grads(net):
    return [-1 if p.grad is None else p.grad.item() for p in net.parameters()]

def work(rank):
    lines, x = [], torch.full((1, 1), rank + 1.0)
    for clone in (True, False):
        ddp = nn.parallel.DistributedDataParallel(Branches(), find_unused_parameters=True)
        ddp._set_ddp_sink_clone(clone)
        with ddp.no_sync():
            ddp(x, "ab").sum().backward()
        lines.append(grads(ddp))
        for names in ("a", "a", "c" if rank else "a"):
            ddp(x, names).sum().backward()
            lines.append(grads(ddp))
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "a branch used only in no_sync stayed local")
    for rank, lines in enumerate(twin.ranks(2, work)):
        for i, numbers in enumerate(lines):
            print("rank%d-%d" % (rank, i), *["%.9g" % number for number in numbers])
