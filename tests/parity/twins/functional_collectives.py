import functools, math, warnings
import torch
import torch.distributed as dist
import twin

def leaf(rank, *size):
    count = math.prod(size)
    values = [((7 * i + 5 * rank) % 11 - 4) / 3 for i in range(count)]
    return torch.tensor(values).reshape(size).requires_grad_()

def weighed(rank, y):
    values = [((3 * i + 2 * rank) % 7 - 2) / 4 for i in range(y.numel())]
    return (torch.tensor(values).reshape(y.shape) * y).sum()

def cases(rank, world):
    import torch.distributed.nn.functional as nn
    import torch.distributed._functional_collectives as fc
    group = dist.group.WORLD
    several = lambda x: [x * (i + 1) for i in range(world)]
    sizes = [r + 1 for r in range(world)]
    for op in "SUM", "AVG", "MAX", "MIN", "PRODUCT":
        yield "nn-all_reduce-" + op, functools.partial(lambda op, x: nn.all_reduce(x, getattr(dist.ReduceOp, op)), op), (5,)
        if op != "PRODUCT":
            yield "fc-all_reduce-" + op, functools.partial(lambda op, x: fc.all_reduce(x, op.lower(), group), op), (5,)
    yield "fc-all_reduce-ties", lambda x: fc.all_reduce(x.round(), "max", group), (6,)
    yield "nn-broadcast", lambda x: nn.broadcast(x, 1), (2, 3)
    yield "fc-broadcast", lambda x: fc.broadcast(x, 1, group), (2, 3)
    yield "nn-reduce", lambda x: nn.reduce(x, 1) * (rank == 1) + 0, (4,)
    yield "nn-reduce-max", lambda x: nn.reduce(x, 0, dist.ReduceOp.MAX) * (rank == 0) + 0, (4,)
    yield "nn-gather", lambda x: nn.gather(x, 1), (3,)
    yield "nn-scatter", lambda x: nn.scatter(several(x), 1), (3,)
    yield "nn-reduce_scatter", lambda x: nn.reduce_scatter(torch.zeros(3), several(x)), (3,)
    yield "nn-all_gather", lambda x: nn.all_gather(x), (2, 2)
    yield "nn-all_to_all", lambda x: nn.all_to_all([torch.zeros(2) for _ in range(world)], several(x)), (2,)
    yield "nn-all_to_all_single", lambda x: nn.all_to_all_single(torch.zeros(2 * world, 2), x), (2 * world, 2)
    yield "nn-all_to_all_single-splits", lambda x: nn.all_to_all_single(torch.zeros(sum(sizes)), x, sizes, [rank + 1] * world), ((rank + 1) * world,)
    for dim in 0, 1, -1:
        yield "fc-all_gather_tensor-%d" % dim, functools.partial(lambda dim, x: fc.all_gather_tensor(x, dim, group), dim), (2, 3, 2)
    yield "fc-all_gather_single_autograd", lambda x: fc.all_gather_single_autograd(x, 0, group), (3,)
    for dim in 0, 1:
        yield "fc-reduce_scatter_tensor-%d" % dim, functools.partial(lambda dim, x: fc.reduce_scatter_tensor(x, "sum", dim, group), dim), (2 * world, world)
    yield "fc-all_to_all_single", lambda x: fc.all_to_all_single(x, None, None, group), (world, 3)
    yield "fc-all_to_all_single-splits", lambda x: fc.all_to_all_single(x, sizes, [rank + 1] * world, group), ((rank + 1) * world, 2)

def contrastive(rank):
    """The loss of CLIP over all ranks: whose rows of the other view are mine?"""
    import torch.distributed.nn.functional as nn
    a, b = leaf(rank, 2, 4), leaf(rank + 3, 2, 4)
    rows = a @ torch.cat(nn.all_gather(b)).t()
    loss = torch.nn.functional.cross_entropy(rows, torch.arange(2) + 2 * rank)
    loss.backward()
    return [loss.item()], a.grad.flatten().tolist(), b.grad.flatten().tolist()

def curvature(rank):
    import torch.distributed.nn.functional as nn
    x = leaf(rank, 4)
    grad, = torch.autograd.grad((nn.all_reduce(x) ** 3).sum(), x, create_graph=True)
    return torch.autograd.grad((grad * leaf(rank + 1, 4).detach()).sum(), x)[0].tolist()

def work(world, rank):
    warnings.simplefilter("ignore")
    lines = []
    for name, function, size in cases(rank, world):
        x = leaf(rank, *size)
        y = function(x)
        outputs = list(y) if isinstance(y, (tuple, list)) else [y]
        sum(weighed(rank, one) for one in outputs).backward()
        lines.append((name, [v for one in outputs for v in one.detach().flatten().tolist()]))
        lines.append((name + "-grad", x.grad.flatten().tolist()))
    for name, values in zip(("loss", "a", "b"), contrastive(rank)):
        lines.append(("contrastive-" + name, values))
    lines.append(("curvature", curvature(rank)))
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "functional collectives had other names and no backward")
    for world in 2, 3:
        for rank, lines in enumerate(twin.ranks(world, functools.partial(work, world))):
            for name, values in lines:
                print("world%d-rank%d-%s" % (world, rank, name), *["%.9g" % value for value in values])
