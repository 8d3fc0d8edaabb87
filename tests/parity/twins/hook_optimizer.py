import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import _hook_then_optimizer, _OptimizerHookState
from torch.distributed.optim import as_functional_optim
import twin

SIZES = ((3, 4), (4,), (2, 5), (7,))

class Vectors(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.arange(torch.Size(size).numel()).float().reshape(size) / 8 - 1) for size in SIZES])

    def forward(self, k):
        return sum((p * p * (((torch.arange(p.numel()) * 7 + k) % 5 - 2).float().reshape(p.shape) / 4)).sum() for p in self.list)

OPTIMIZERS = (
    (torch.optim.SGD, {"lr": 0.125}), (torch.optim.SGD, {"lr": 0.125, "momentum": 0.5}),
    (torch.optim.SGD, {"lr": 0.125, "momentum": 0.5, "nesterov": True, "weight_decay": 0.125}),
    (torch.optim.SGD, {"lr": 0.125, "momentum": 0.5, "dampening": 0.25}),
    (torch.optim.Adam, {"lr": 0.0625}), (torch.optim.Adam, {"lr": 0.0625, "amsgrad": True, "weight_decay": 0.125}),
    (torch.optim.AdamW, {"lr": 0.0625}), (torch.optim.AdamW, {"lr": 0.0625, "betas": (0.5, 0.75), "eps": 0.001, "weight_decay": 0.25}),
)
WAYS = ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 50 / 2 ** 20}, {"static_graph": True})

def told(net):
    return [p.detach().flatten()[i].item() for p in net.parameters() for i in (0, -1)] + [p.grad.sum().item() for p in net.parameters()]

def work(rank):
    lines = []
    for cls, options in OPTIMIZERS:
        for ways in WAYS:
            for some in (False, True):
                for fused in (False, True):
                    net = Vectors()
                    ddp = nn.parallel.DistributedDataParallel(net, **ways)
                    only = [net.list[0], net.list[3]] if some else None
                    if fused:
                        ddp._register_fused_optim(cls, optim_params=only, **options)
                    else:
                        state = _OptimizerHookState(as_functional_optim(cls, **options), only)
                        ddp.register_comm_hook(None, _hook_then_optimizer(default_hooks.fp16_compress_hook, state))
                    for step in range(3):
                        ddp.zero_grad()
                        ddp(step + rank).backward()
                    lines.append(told(net))
    return lines

if __name__ == "__main__":
    twin.needs("2.0", "functional optimizers are others")
    for rank, lines in enumerate(twin.ranks(2, work)):
        for i, numbers in enumerate(lines):
            print("rank%d-%d" % (rank, i), *["%.9g" % number for number in numbers])
