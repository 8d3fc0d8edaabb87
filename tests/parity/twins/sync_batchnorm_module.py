import torch
from torch import library as operators, nn
import torch.distributed as dist
import twin

# PyTorch's own module, Function, conversion and DDP run here on CPU tensors over gloo: their refusal of those is taken out,
# and the five kernels that a GPU has are these formulas.
def places(x):
    return [d for d in range(x.dim()) if d != 1]

def along(row, x):
    return row.view([1, -1] + [1] * (x.dim() - 2))

def stats(x, eps):
    return x.mean(places(x)), torch.rsqrt(x.var(places(x), unbiased=False) + eps)

def gather_stats(x, mean, invstd, running_mean, running_var, momentum, eps, counts):
    counts = counts[:, None]
    total = counts.sum()
    m = (mean * counts).sum(0) / total
    v = ((1 / invstd ** 2 - eps + (mean - m) ** 2) * counts).sum(0) / total
    if running_mean is not None:
        running_mean.copy_((1 - momentum) * running_mean + momentum * m)
        running_var.copy_((1 - momentum) * running_var + momentum * v * total / (total - 1))
    return m, torch.rsqrt(v + eps)

def elemt(x, weight, bias, mean, invstd, eps):
    y = (x - along(mean, x)) * along(invstd, x)
    y = y if weight is None else y * along(weight, x)
    return y if bias is None else y + along(bias, x)

def backward_reduce(dy, x, mean, invstd, weight, *wanted):
    products = (dy * (x - along(mean, x))).sum(places(x))
    return dy.sum(places(x)), products, products * invstd, dy.sum(places(x))

def backward_elemt(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    n = count.sum()
    g = dy - along(sum_dy / n, x) - (x - along(mean, x)) * along(invstd ** 2 * sum_dy_xmu / n, x)
    return g * along(invstd, x) if weight is None else g * along(invstd * weight, x)

def on_cpu():
    kernels = getattr(operators, "Library")("aten", "IMPL")
    for name, kernel in [("batch_norm_stats", stats), ("batch_norm_gather_stats_with_counts", gather_stats),
                         ("batch_norm_elemt", elemt), ("batch_norm_backward_reduce", backward_reduce),
                         ("batch_norm_backward_elemt", backward_elemt)]:
        kernels.impl(name, kernel, "CPU")
    torch._C._get_privateuse1_backend_name = lambda: "cpu"
    nn.parallel.DistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None
    return kernels

def numbers(shape, seed):
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 32 - 1.5 for i in range(count)]).reshape(shape)

def flat(tensor):
    return [] if tensor is None else tensor.detach().flatten().tolist()

def raised(f):
    try:
        f()
    except Exception as error:
        return type(error).__name__
    return "nothing"

def module(rank):
    norm = nn.SyncBatchNorm(2)
    x = numbers([2 + rank, 2], rank).requires_grad_()
    y = norm(x)
    lines = [["node=", type(y.grad_fn).__name__, len(y.grad_fn.next_functions)],
             ["versions=", norm.running_mean._version, norm.num_batches_tracked._version],
             ["prints=", str(norm)], ["keys=", *sorted(norm.state_dict())]]
    bare = nn.SyncBatchNorm(2, affine=False, track_running_stats=False)
    lines.append(["bare=", str(bare), len(bare(x).grad_fn.next_functions), len(bare.state_dict())])
    grad, = torch.autograd.grad((y ** 3).sum(), x, create_graph=True)
    lines.append(["grad", *flat(grad)])
    lines.append(["second=", raised(lambda: grad.sum().backward())])
    frozen = nn.SyncBatchNorm(2).requires_grad_(False)
    lines.append(["frozen=", frozen(numbers([2, 2], 7)).requires_grad, frozen(x).requires_grad])
    return lines

def empty(rank):
    lower, upper = nn.SyncBatchNorm(2), nn.SyncBatchNorm(2)
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(numbers([2, 2], 3))
        layer.bias.copy_(numbers([2], 4))
    x = numbers([3 * rank, 2], rank).requires_grad_()
    upper(layer(lower(x))).pow(3).sum().backward()
    return [["empty-" + name, *flat(t)] for name, t in
            [("x", x.grad), ("weight", upper.weight.grad), ("layer", layer.weight.grad), ("lower", lower.bias.grad),
             ("mean", upper.running_mean), ("var", upper.running_var)]] + \
        [["empty-none=", *[int(t is None) for t in (x.grad, upper.weight.grad, layer.weight.grad, lower.bias.grad)]]]

def net():
    made = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2), nn.BatchNorm1d(2, momentum=None))
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(numbers(list(p.shape), i) + (1.75 if p.dim() == 1 else 0))
    return made

def trained(rank, rows):
    ddp = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net()))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    lines = []
    for step in range(3):
        optimizer.zero_grad()
        x = numbers([rows[(rank + step) % len(rows)], 2], rank + 10 * step)
        ddp(x).pow(3).sum().backward()
        optimizer.step()
    for name, tensor in ddp.module.state_dict().items():
        lines.append(["trained-%s-%s" % ("-".join(map(str, rows)), name), *flat(tensor)])
    return lines

def conversion(rank):
    shared = nn.BatchNorm1d(2)
    top = nn.Sequential(shared, nn.Sequential(shared), shared).eval()
    answer = nn.SyncBatchNorm.convert_sync_batchnorm(top)
    names = [type(top[0]).__name__, type(top[1][0]).__name__, type(top[2]).__name__]
    return [["converted=", int(answer is top), *names, int(top[0] is top[1][0]), int(top[0].weight is top[1][0].weight),
             int(top[0].training), int(top[0].running_var is shared.running_var)]]

def groups(rank):
    one = dist.new_group([0])
    lines = []
    norm = nn.SyncBatchNorm(1, process_group=one, momentum=1.0)
    norm(torch.tensor([[0.0 + rank], [2.0 + 4 * rank]]))
    lines.append(["group-of-one", *flat(norm.running_mean)])
    norm = nn.SyncBatchNorm(1, momentum=1.0)
    norm(torch.tensor([[0.0 + rank], [2.0 + 4 * rank]]))
    lines.append(["group-of-all", *flat(norm.running_mean), *flat(norm.running_var)])
    lines.append(["refusals=", *[raised(lambda: norm(torch.zeros(shape))) for shape in ([3], [2, 0], [2, 3])]])
    norm.eval()
    lines.append(["eval", *flat(norm(torch.ones(1, 1)))])
    return lines

def work(rank):
    kernels = on_cpu()
    lines = [*module(rank), *empty(rank), *trained(rank, [2, 3]), *trained(rank, [0, 4]), *conversion(rank), *groups(rank)]
    del kernels
    return [["rank%d-%s" % (rank, line[0]), *line[1:]] for line in lines]

if __name__ == "__main__":
    twin.needs("2.15", "its SyncBatchNorm printed no bias, and the kernels took other arguments")
    for lines in twin.ranks(2, work):
        for name, *numbers in lines:
            print(name, *["%.9g" % n if isinstance(n, float) else n for n in numbers])
