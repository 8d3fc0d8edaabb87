import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms import Join, Joinable, JoinHook
import twin

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))
        self.v = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, names):
        self.seen += x.mean()
        return sum(getattr(self, name) * x for name in names)

def grads(net):
    return [-1 if p.grad is None else p.grad.item() for p in net.parameters()]

COUNTS = ((3, 5, 1), (0, 2, 4), (2, 2, 2), (4, 0, 0))

def trainings(rank, lines):
    for counts in COUNTS:
        for initial in (True, False):
            for find in (False, True):
                net = Scale()
                ddp = nn.parallel.DistributedDataParallel(net, find_unused_parameters=find, bucket_cap_mb=0.000001)
                sgd = torch.optim.SGD(ddp.parameters(), lr=0.125)
                with ddp.join(divide_by_initial_world_size=initial):
                    for i in range(counts[rank]):
                        ddp.zero_grad()
                        ddp(torch.tensor([rank + 1.0 + i]), "wv").sum().backward()
                        lines.append(grads(net))
                        sgd.step()
                lines.append([p.item() for p in net.parameters()] + [net.seen.item(), ddp._authoritative_rank])

def accumulates(rank, lines):
    net = Scale()
    ddp = nn.parallel.DistributedDataParallel(net, forward_sync_buffers=False)
    with ddp.join():
        for i in range(2 * (rank + 1)):
            x = torch.tensor([rank + 2.0 + i])
            if i % 2 == 0:
                with ddp.no_sync():
                    ddp(x, "wv").sum().backward()
            else:
                ddp(x, "wv").sum().backward()
                lines.append(grads(net))
                ddp.zero_grad()
    lines.append([net.seen.item(), ddp._get_ddp_logging_data()["join_uneven_inputs"]])

def branches(rank, lines):
    net = Scale()
    ddp = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    with ddp.join():
        for names in ("w", "v", "w")[: rank + 1]:
            ddp.zero_grad()
            ddp(torch.ones(1), names).sum().backward()
            lines.append(grads(net))

def hooked(rank, lines):
    ddp = nn.parallel.DistributedDataParallel(Scale())
    seen = []

    def hook(state, bucket):
        seen.append(bucket.buffer().sum().item())
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] * 2)

    ddp.register_comm_hook(None, hook)
    with ddp.join():
        for i in range(rank + 1):
            ddp.zero_grad()
            ddp(torch.tensor([rank + 1.0]), "wv").sum().backward()
            lines.append(grads(ddp))
    lines.append(seen)

class CounterHook(JoinHook):
    def __init__(self, counter, step):
        self.counter, self.step = counter, step

    def main_hook(self):
        self.counter.shadowed += 1
        dist.all_reduce(torch.zeros(1))

    def post_hook(self, is_last_joiner):
        self.counter.last = is_last_joiner

class Counter(Joinable):
    def __init__(self):
        super().__init__()
        self.total, self.shadowed, self.last = 0, 0, False

    def count(self):
        work = Join.notify_join_context(self)
        t = torch.ones(1)
        dist.all_reduce(t)
        self.total += t.item()
        return work

    def join_hook(self, **kwargs):
        return CounterHook(self, kwargs.get("step", 1))

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD

def counters(rank, lines):
    for throws in (False, True):
        first, second = Counter(), Counter()
        ddp = nn.parallel.DistributedDataParallel(Scale())
        rounds, raised, works = 0, 0, 0
        try:
            with Join([first, ddp, second], throw_on_early_termination=throws, divide_by_initial_world_size=False):
                for i in range(2 + rank):
                    works += first.count() is not None
                    ddp.zero_grad()
                    ddp(torch.tensor([rank + 1.0]), "wv").sum().backward()
                    lines.append(grads(ddp))
                    works += second.count() is not None
                    rounds += 1
        except RuntimeError as error:
            raised = 1 if "exhausted all inputs" in str(error) else 2
        lines.append([first.total, second.total, first.shadowed, int(first.last), rounds, raised, works])

def work(rank):
    lines = []
    for part in (trainings, accumulates, branches, hooked, counters):
        part(rank, lines)
    return lines

if __name__ == "__main__":
    for rank, lines in enumerate(twin.ranks(3, work)):
        for i, numbers in enumerate(lines):
            print("rank%d-%d" % (rank, i), *["%.9g" % number for number in numbers])
