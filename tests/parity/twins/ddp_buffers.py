import torch
from torch import nn
import twin

CASES = [("default", {}), ("broadcast", {"broadcast_buffers": True}), ("local", {"broadcast_buffers": False}),
         ("forwards-local", {"forward_sync_buffers": False}),
         ("newer-wins", {"broadcast_buffers": False, "forward_sync_buffers": True})]

def two_forwards(rank, options):
    net = nn.BatchNorm1d(1)
    ddp = nn.parallel.DistributedDataParallel(net, **options)
    version = net.running_mean._version
    x = torch.arange(4.0).reshape(4, 1) + rank
    loss = (ddp(x) * x).sum() + (ddp(x + 1) * x).sum()
    loss.backward()
    return [net.running_mean.item(), net.running_var.item(), net.weight.grad.item(), net.num_batches_tracked.item(),
            net.running_mean._version - version]

def after_construction(rank, options):
    net = nn.BatchNorm1d(1)
    net.running_mean.fill_(rank + 1)
    with torch.no_grad():
        net.weight.fill_(rank + 1)
    nn.parallel.DistributedDataParallel(net, **options)
    return [net.running_mean.item(), net.weight.item()]

def changed_by_hand(rank):
    net = nn.BatchNorm1d(1)
    loss = net(torch.arange(4.0).reshape(4, 1)).sum()
    net.running_mean.copy_(torch.ones(1))
    try:
        loss.backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)

def work(rank):
    lines = []
    for name, options in CASES:
        lines.append(["rank%d-%s-forwards" % (rank, name), *two_forwards(rank, options)])
        lines.append(["rank%d-%s-construction" % (rank, name), *after_construction(rank, options)])
    return lines + [["rank%d-copy-raises" % rank, int(changed_by_hand(rank))]]

if __name__ == "__main__":
    twin.needs("2.15", "a buffer's broadcast counted as a change, and there was no forward_sync_buffers")
    for lines in twin.ranks(2, work):
        for name, *numbers in lines:
            print(name, *["%.9g" % number for number in numbers])
