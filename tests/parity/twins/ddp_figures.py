# Figures of the lessons about no_sync, BatchNorm, gradients as views of their bucket, and static graphs.
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile
import twin

def events_of(step):
    with profile(activities=[ProfilerActivity.CPU]) as found:
        step()
    return [event.name for event in found.events()]

def around_nothing(ddp, x):
    ddp(x).sum().backward()

def around_both(ddp, x):
    with ddp.no_sync():
        ddp(x).sum().backward()

def around_backward(ddp, x):
    loss = ddp(x).sum()
    with ddp.no_sync():
        loss.backward()

def around_forward(ddp, x):
    with ddp.no_sync():
        loss = ddp(x).sum()
    loss.backward()

WAYS = [("nothing", around_nothing), ("both", around_both), ("backward", around_backward), ("forward", around_forward)]

def accumulate(rank, way):
    ddp = DDP(nn.Linear(4, 2))
    def steps():
        for i in range(4):
            (way if i < 3 else around_nothing)(ddp, torch.full((1, 4), 4.0 * rank + i))
    sent = events_of(steps).count("c10d::allreduce_")
    return [sent, ddp.module.weight.grad[0, 0].item(), ddp.module.bias.grad[0].item()]

def past_ddp(rank):
    ddp = DDP(nn.Linear(1, 1))
    names = events_of(lambda: ddp.module(torch.full((1, 1), rank + 1.0)).sum().backward())
    return [sum("c10d" in name for name in names), ddp.module.weight.grad.item()]

def batch_norm(rank):
    norm = nn.BatchNorm1d(1)
    ddp = DDP(norm)
    x = torch.tensor([[[0.0], [2.0]], [[4.0], [10.0]]][rank])
    told = []
    for _ in range(2):
        ddp.zero_grad()
        out = ddp(x)
        (out * x).sum().backward()
        told += [norm.running_mean.item(), norm.running_var.item(), norm.weight.grad.item(), *out.flatten().tolist()]
    out = ddp.eval()(x)
    return told + [norm.running_mean.item(), *out.flatten().tolist()]

# Of three iterations: storages behind the gradients, their offsets, gradients scaled into the bucket, copies out of it.
def views(rank, view, set_to_none):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    ddp = DDP(net, gradient_as_bucket_view=view)
    told = []
    for i in range(3):
        ddp.zero_grad(set_to_none=set_to_none)
        names = events_of(lambda: ddp(torch.full((1, 4), i + rank + 1.0)).sum().backward())
        grads = [p.grad for p in net.parameters()]
        told += [len({grad.untyped_storage().data_ptr() for grad in grads}), *[grad.storage_offset() for grad in grads],
                 names.count("torch::distributed::reducer::mul_out"),
                 names.count("torch.distributed.ddp.reducer::copy_bucket_to_grad"), grads[0][0, 0].item()]
    return told

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, branch):
        return getattr(self, branch)(x)

# All-reduces of each iteration, -1 where its forward and -2 where its backward fails; then which gradients there are.
def walk(rank, branches, **options):
    ddp = DDP(Branches(), **options)
    told = []
    for branch in branches:
        ddp.zero_grad()
        where = [-1]
        def step():
            loss = ddp(torch.full((1, 2), rank + 1.0), branch).sum()
            where[0] = -2
            loss.backward()
        try:
            told.append(events_of(step).count("c10d::allreduce_"))
        except RuntimeError:
            told.append(where[0])
            break
    return told + [int(p.grad is not None) for p in ddp.parameters()]

def work(rank):
    lines = []
    for name, way in WAYS:
        lines.append(["no_sync-around-" + name, *accumulate(rank, way)])
    lines.append(["past-ddp", *past_ddp(rank)])
    lines.append(["batch-norm", *batch_norm(rank)])
    for view in (False, True):
        for set_to_none in (True, False):
            lines.append(["view-%d-none-%d" % (view, set_to_none), *views(rank, view, set_to_none)])
    lines.append(["find-unused", *walk(rank, "aaa", find_unused_parameters=True)])
    lines.append(["static", *walk(rank, "aaa", static_graph=True)])
    lines.append(["static-changes", *walk(rank, "ab", static_graph=True)])
    lines.append(["static-changes-late", *walk(rank, "aaab", static_graph=True)])
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "zero_grad, storages and names of a profile's events were others")
    for rank, lines in enumerate(twin.ranks(2, work)):
        for name, *numbers in lines:
            print("rank%d-%s" % (rank, name), *["%.9g" % number for number in numbers])
