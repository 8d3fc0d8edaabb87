# When averagers average, among whom, and what they refuse; and the optimizer that is wrapped in one.
import warnings
from collections import OrderedDict
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging import averagers, utils
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
import twin

def numbers(name, tensor):
    return [name] + ["%.9g" % value for value in tensor.detach().flatten().tolist()]

def work(rank):
    lines = []

    def refuses(name, make):
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                make()
            lines.append([name + "=", "ok", str(len(seen))])
        except Exception as error:
            lines.append([name + "=", type(error).__name__])

    Periodic = averagers.PeriodicModelAverager
    refuses("period-0", lambda: Periodic(0))
    refuses("period--1", lambda: Periodic(-1))
    refuses("period-1", lambda: Periodic(1))
    refuses("period-4", lambda: Periodic(4))
    refuses("warmup--1", lambda: Periodic(4, -1))
    refuses("abstract", lambda: averagers.ModelAverager())
    refuses("levels-none", lambda: HierarchicalModelAverager())
    refuses("levels-empty", lambda: HierarchicalModelAverager(OrderedDict()))
    refuses("levels-0", lambda: HierarchicalModelAverager(OrderedDict([(0, 4)])))
    refuses("levels-last", lambda: HierarchicalModelAverager(OrderedDict([(2, 2)])))
    refuses("levels-odd", lambda: HierarchicalModelAverager(OrderedDict([(2, 3), (4, 4)])))
    refuses("levels-1", lambda: HierarchicalModelAverager(OrderedDict([(1, 4)])))
    refuses("levels-warmup", lambda: HierarchicalModelAverager(OrderedDict([(2, 4)]), warmup_steps=-1))
    refuses("params-tensor", lambda: utils.get_params_to_average([torch.ones(1)]))
    refuses("params-number", lambda: utils.get_params_to_average([1]))
    refuses("nothing", lambda: utils.average_parameters(iter([]), None))

    def trace(name, averager, steps):
        p = nn.Parameter(torch.zeros(2))
        p.grad = torch.zeros(2)
        for step in range(steps):
            p.data.fill_(float(rank))
            averager.average_parameters([p])
            lines.append(numbers("%s-%d-%d" % (name, step, rank), p))
        lines.append(["%s-step=" % name, str(averager.step)])

    trace("periodic", Periodic(3, 4), 12)
    trace("every", Periodic(1), 2)
    trace("levels", HierarchicalModelAverager(OrderedDict([(2, 2), (4, 4)]), warmup_steps=3), 12)
    trace("one-level", HierarchicalModelAverager(OrderedDict([(3, 4)]), warmup_steps=2), 8)
    trace("group", Periodic(2, 0, dist.new_group([0, 2])), 4) if rank in (0, 2) else dist.new_group([0, 2])

    def train(name, make, hook, resume=None):
        torch.manual_seed(1)
        net = nn.Linear(3, 2)
        ddp = nn.parallel.DistributedDataParallel(net)
        if hook:
            subgroup, _ = dist.new_subgroups(2)
            ddp.register_comm_hook(PostLocalSGDState(None, subgroup, 4), post_localSGD_hook)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), make())
        torch.manual_seed(rank)
        for step in range(10):
            if step == resume:
                state = optimizer.state_dict()
                optimizer = PostLocalSGDOptimizer(torch.optim.SGD(net.parameters(), lr=0.3), make())
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            ddp(torch.randn(4, 3)).pow(2).mean().backward()
            optimizer.step()
            lines.append(numbers("%s-%d-%d" % (name, step, rank), torch.cat([net.weight.flatten(), net.bias])))
        state = optimizer.state_dict()
        lines.append(["%s-state=" % name, str(state["step"]), *sorted(state)])

    train("post-periodic", lambda: Periodic(3, 4), True)
    train("post-levels", lambda: HierarchicalModelAverager(OrderedDict([(2, 2), (4, 4)]), warmup_steps=4), True)
    train("post-resumed", lambda: Periodic(3, 4), True, 6)
    train("post-plain", lambda: Periodic(3, 4), False)
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "random numbers are others")
    for lines in twin.ranks(4, work):
        for line in lines:
            print(*line)
