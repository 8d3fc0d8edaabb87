import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, debugging_hooks, default_hooks, post_localSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks, register_ddp_comm_hook
import twin

SIZES = (600, 130, 5)

class Vectors(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.zeros(size)) for size in SIZES])

    def forward(self, parts):
        return sum((p * x).sum() for p, x in zip(self.list, parts))

def inputs(rank, step):
    numbers = (torch.arange(sum(SIZES)) * 37 + 11 * rank + step) % 101 - 50
    return (numbers.float() / 64 * (rank + 1)).split(SIZES)

def own(state, bucket):
    return default_hooks.fp16_compress_hook(state, bucket).then(lambda f: f.value() * 2)

WAYS = ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 1000 / 2 ** 20}, {"static_graph": True},
        {"find_unused_parameters": True, "bucket_cap_mb": 600 / 2 ** 20})

def hooks():
    return {
        "none": lambda ddp: None,
        "allreduce": lambda ddp: ddp.register_comm_hook(None, default_hooks.allreduce_hook),
        "group": lambda ddp: ddp.register_comm_hook(dist.group.WORLD, default_hooks.allreduce_hook),
        "fp16": lambda ddp: ddp.register_comm_hook(None, default_hooks.fp16_compress_hook),
        "bf16": lambda ddp: ddp.register_comm_hook(None, default_hooks.bf16_compress_hook),
        "fp16_wrapper": lambda ddp: ddp.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
        "bf16_wrapper": lambda ddp: ddp.register_comm_hook(None, default_hooks.bf16_compress_wrapper(debugging_hooks.noop_hook)),
        "noop": lambda ddp: ddp.register_comm_hook(None, debugging_hooks.noop_hook),
        "builtin": lambda ddp: ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE),
        "builtin_fp16": lambda ddp: ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS),
        "type": lambda ddp: register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, ddp),
        "own": lambda ddp: ddp.register_comm_hook(None, own),
    }

def told(net):
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    return [flat[i].item() for i in (0, 1, 17, 599, 600, 729, 730, 734)] + [flat.double().sum().item(), flat.double().abs().sum().item()]

def average(rank, ways, register):
    net, lines = Vectors(), []
    ddp = nn.parallel.DistributedDataParallel(net, **ways)
    register(ddp)
    for step in range(3):
        ddp.zero_grad()
        ddp(inputs(rank, step)).backward()
        lines.append(told(net))
    return ddp, lines

# Hooks of two collectives with one bucket: there callbacks of two buckets may issue them in another order on each rank.
QUANTIZED = {"pertensor": quantization_hooks.quantization_pertensor_hook,
             "perchannel": quantization_hooks.quantization_perchannel_hook}

def local(rank):
    halves = dist.new_group([0, 1]), dist.new_group([2])
    lines = []
    for subgroup, reduces in ((halves[rank // 2], True), (dist.group.WORLD, True), (None, False)):
        for ways in WAYS[:2]:
            state = post_localSGD_hook.PostLocalSGDState(None, subgroup, 2, reduces)
            _, found = average(rank, ways, lambda ddp: ddp.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook))
            lines += [line + [state.iter] for line in found]
    return lines

def work(rank):
    lines = []
    for name, register in hooks().items():
        for i, ways in enumerate(WAYS):
            ddp, found = average(rank, ways, register)
            lines += [["%s-%d-%d" % (name, i, step), *numbers] for step, numbers in enumerate(found)]
        lines.append(["%s-name=" % name, ddp._get_ddp_logging_data().get("comm_hook", "none") if name != "own" else "own"])
    for name, hook in QUANTIZED.items():
        for i, ways in enumerate(WAYS[:2]):
            _, found = average(rank, ways, lambda ddp: ddp.register_comm_hook(None, hook))
            lines += [["%s-%d-%d" % (name, i, step), *numbers] for step, numbers in enumerate(found)]
    return lines + [["local-%d" % i, *numbers] for i, numbers in enumerate(local(rank))]

if __name__ == "__main__":
    twin.needs("2.0", "there is no bf16 hook on gloo")
    for rank, lines in enumerate(twin.ranks(3, work)):
        for name, *values in lines:
            print("rank%d-%s" % (rank, name), *[v if isinstance(v, str) else "%.9g" % v for v in values])
