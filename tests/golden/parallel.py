#!/usr/bin/env python3
"""parallel.py: makes dp_behaviour-more, dp_behaviour-programs-more, dp_models-more and printed (.json) beside this file with
the PyTorch that runs it. scatter, gather, replicate, parallel_apply and the four Functions are PyTorch's own, on CPU tensors:
their refusal of CPU tensors is taken out, and the four copies of comm are the ones below.

    parallel.py                what stands beside this file, again
    parallel.py FOLDER SEED    the same files there with other numbers, devices, batches and structures"""
import collections, contextlib, inspect, json, os, random, types, warnings
import torch
from torch import nn
import torch.nn.functional as F
import printed
from torch._utils import _take_tensors

torch.set_num_threads(1)
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}
CALLS = []

# ---- numbers out ----


def number(x):
    """The shortest decimal that reads back to the same element."""
    if x.dtype.kind != "f":
        return x.item()
    text = str(x)
    return text if text in ("nan", "inf", "-inf") else float(text)


def golden(t):
    if t is None:
        return None
    t = t.detach()
    if t.layout == torch.sparse_coo:
        return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "layout": "sparse_coo",
                "indices": golden(t._indices()), "values": golden(t._values()), "coalesced": t.is_coalesced()}
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.reshape(-1).numpy(force=True)]}


def goldens(named):
    return {name: golden(t) for name, t in named}


# ---- DataParallel on the CPU ----


def joined(a, b):
    """The sum of two sparse tensors as a GPU makes it: one's entries behind the other's, merged once they are more than the
    elements; several that were merged do not say so."""
    entries = torch.cat([a._indices(), b._indices()], 1), torch.cat([a._values(), b._values()])
    total = torch.sparse_coo_tensor(*entries, a.shape)
    if total._nnz() <= total.numel():
        return total
    merged = total.coalesce()
    return merged._coalesced_(merged._nnz() < 2)


class comm:
    @staticmethod
    def scatter(t, devices, sizes, dim, streams=None):
        pieces = t.split(sizes, dim) if sizes is not None else t.chunk(len(devices), dim)
        CALLS.append(f"scatter sizes {[p.size(dim) for p in pieces]} dim {dim}")
        return tuple(p.clone() for p in pieces)

    @staticmethod
    def gather(tensors, dim, device):
        CALLS.append(f"gather sizes {[t.size(dim) for t in tensors]} dim {dim}")
        return torch.cat(tensors, dim)

    @staticmethod
    def broadcast_coalesced(tensors, devices):
        CALLS.append(f"broadcast_coalesced tensors {len(tensors)} devices {len(devices)}")
        return [list(tensors)] + [[t.clone() for t in tensors] for _ in devices[1:]]

    @staticmethod
    def reduce_add_coalesced(groups, device):
        CALLS.append(f"reduce_add_coalesced tensors {len(groups[0])} devices {len(groups)}")
        out = []
        for tensors in zip(*groups):
            total = tensors[0]
            for t in tensors[1:]:
                total = joined(total, t) if t.is_sparse else total + t
            out.append(total)
        return tuple(out)


def loaded(module, **given):
    """The source of a module of PyTorch, run anew with other names in it."""
    made = types.ModuleType(module.__name__)
    made.__package__ = module.__package__
    source = inspect.getsource(module).replace('i.device.type != "cpu" for i in inputs', "True for i in inputs")
    for line in ("from torch.nn.parallel import comm\n", "from torch.nn.parallel._functions import Gather, Scatter\n"):
        source = source.replace(line, "")
    vars(made).update(given)
    exec(compile(source, module.__file__, "exec"), vars(made))
    return made


import torch.nn.parallel._functions, torch.nn.parallel.parallel_apply, torch.nn.parallel.replicate, torch.nn.parallel.scatter_gather
import sys

PARALLEL = "torch.nn.parallel."
functions = loaded(sys.modules[PARALLEL + "_functions"], comm=comm)
scatter_gather = loaded(sys.modules[PARALLEL + "scatter_gather"], Scatter=functions.Scatter, Gather=functions.Gather)


class accelerator:
    """What parallel_apply asks of a machine's devices."""
    is_available = staticmethod(lambda: True)
    current_accelerator = staticmethod(lambda: torch.device("cpu"))
    current_stream = staticmethod(lambda device=None: contextlib.nullcontext())
    device_index = staticmethod(lambda index: contextlib.nullcontext())


def replicate(module, devices):
    """Buffers are copied, and told, also where there are none, as in dp_models.json."""
    here, there = sys.modules[PARALLEL + "replicate"], sys.modules[PARALLEL + "_functions"]
    kept = here.comm, there.Broadcast
    here.comm, there.Broadcast = comm, functions.Broadcast
    try:
        made = here.replicate(module, devices, not torch.is_grad_enabled())
    finally:
        here.comm, there.Broadcast = kept
    if not list(module.buffers()):
        comm.broadcast_coalesced([], devices)
    return made


def data_parallel(module, inputs, devices, dim=0, each=None):
    args, kwargs = scatter_gather.scatter_kwargs(inputs, {}, devices, dim)
    kwargs = kwargs or [{}] * len(args)
    if len(devices) == 1:
        CALLS.append("module forward")
        if each:
            each(0, module)
        return module(*args[0], **kwargs[0])
    replicas = replicate(module, devices[:len(args)])
    outputs = []
    for i, (replica, a, k) in enumerate(zip(replicas, args, kwargs)):
        CALLS.append(f"replica {i} forward")
        if each:
            each(i, replica)
        outputs.append(replica(*a, **k))
    data_parallel.replicas = replicas
    return scatter_gather.gather(outputs, devices[0], dim)


def calls_of(run):
    CALLS.clear()
    result = run()
    return result, list(CALLS)


# ---- models ----


class Chain(nn.Module):
    """Children one after the other; of several results the first goes on, attention is attention to itself."""

    def __init__(self, **children):
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x):
        for child in self.children():
            x = child(x, x, x) if isinstance(child, nn.MultiheadAttention) else child(x)
            x = x[0] if isinstance(x, tuple) else x
        return x


class SeedModel(Chain):
    pass


class Tagger(Chain):
    pass


class Attention(Chain):
    pass


def layer(**options):
    return nn.TransformerEncoderLayer(4, 2, 6, dropout=0, batch_first=True, **options)


def words(rows, length):
    return lambda batch: torch.randint(rows, (batch, length))


def numbers(*shape):
    return lambda batch: torch.randn(batch, *shape)


def classes(count):
    return lambda batch: torch.randint(count, (batch,))


# name: model, what its text does not say, inputs, targets, the loss
MODELS = {
    "seed": (lambda: SeedModel(embedding=nn.Embedding(23, 6, padding_idx=2), linear=nn.Linear(6, 5)), None,
             words(23, 4), numbers(4, 5), "mse"),
    "sparse": (lambda: SeedModel(embedding=nn.Embedding(9, 3, sparse=True), linear=nn.Linear(3, 2, bias=False)), None,
               words(9, 3), numbers(3, 2), "mse"),
    "normed": (lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8, eps=1e-3), nn.GELU("tanh"),
                                     nn.Sequential(nn.Linear(8, 6), nn.Tanh()), nn.Linear(6, 3, bias=False)), None,
               numbers(5), classes(3), "ce"),
    "batched": (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=0.3), nn.LeakyReLU(0.2), nn.Linear(6, 2)),
                None, numbers(4), numbers(2), "mse"),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(2, 6, (3, 2), stride=2, padding=1, groups=2, bias=False),
                                  nn.BatchNorm2d(6, eps=1e-4, momentum=0.2), nn.SiLU(), nn.GroupNorm(3, 6),
                                  nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(12, 4)), None,
            numbers(2, 5, 6), classes(4), "ce"),
    "tagger": (lambda: Tagger(words=nn.Embedding(13, 4), lstm=nn.LSTM(4, 3, batch_first=True, bidirectional=True),
                              out=nn.Linear(6, 2)), None, words(13, 5), numbers(5, 2), "mse"),
    "gru": (lambda: Tagger(rnn=nn.GRU(3, 4, num_layers=2, batch_first=True), norm=nn.LayerNorm(4), out=nn.Linear(4, 2)), None,
            numbers(4, 3), numbers(4, 2), "mse"),
    "encoder": (lambda: nn.Sequential(nn.TransformerEncoder(layer(activation="gelu"), 2, norm=nn.LayerNorm(4),
                                                            enable_nested_tensor=False), nn.Linear(4, 3)),
                {"nhead": 2, "batch_first": True, "activation": "gelu"}, numbers(3, 4), numbers(3, 3), "mse"),
    "attention": (lambda: Attention(norm=nn.LayerNorm(4), attend=nn.MultiheadAttention(4, 4, batch_first=True),
                                    out=nn.Linear(4, 2)), {"num_heads": 4, "batch_first": True},
                  numbers(3, 4), numbers(3, 2), "mse"),
    "double": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2)).double(), None,
               lambda batch: torch.randn(batch, 3).double(), lambda batch: torch.randn(batch, 2).double(), "mse"),
}
LOSSES = {"mse": F.mse_loss, "ce": F.cross_entropy}
STEPS = [("seed", 2, 7), ("seed", 5, 11), ("seed", 1, 4), ("sparse", 3, 7), ("normed", 2, 7), ("normed", 6, 9),
         ("normed", 7, 13), ("normed", 1, 5), ("batched", 3, 8), ("batched", 5, 10), ("cnn", 2, 5), ("cnn", 4, 6), ("cnn", 1, 3),
         ("tagger", 2, 5), ("tagger", 7, 9), ("gru", 3, 7), ("encoder", 3, 5), ("encoder", 8, 9), ("attention", 4, 6),
         ("attention", 2, 3), ("double", 6, 8)]
PATHS = [("seed", 3, 8, "SGD", {"lr": 0.2, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01}),
         ("normed", 5, 9, "Adam", {"lr": 0.02, "amsgrad": True, "betas": (0.8, 0.9)}),
         ("batched", 4, 12, "SGD", {"lr": 0.1}),
         ("gru", 4, 6, "AdamW", {"lr": 0.03, "weight_decay": 0.1}),
         ("cnn", 2, 4, "SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
         ("tagger", 7, 8, "Adam", {"lr": 0.05, "weight_decay": 0.02}),
         ("encoder", 3, 4, "SGD", {"lr": 0.05}),
         ("attention", 6, 7, "SGD", {"lr": 0.1, "maximize": True})]


def step_case(name, model, inputs, targets, kind, devices, batch):
    x, target = inputs(batch), targets(batch)
    if x.is_floating_point():
        x.requires_grad_()
    grads, sizes = collections.defaultdict(list), []

    def each(i, replica):
        sizes.append(None)
        for parameter in ([p for p, _ in model.named_parameters()] if devices == 2 else ()):
            owner = replica.get_submodule(parameter.rpartition(".")[0])
            found = []
            grads[parameter].append(found)
            getattr(owner, parameter.rpartition(".")[2]).register_hook(found.append)

    model.zero_grad()
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    out, forward = calls_of(lambda: data_parallel(model, (x,), list(range(devices)), 0, each))
    loss = LOSSES[kind](out, target)
    _, backward = calls_of(loss.backward)
    used = len(sizes)
    chunks = [c.size(0) for c in x.chunk(devices)]
    case = {"name": f"{name} batch {batch} on {devices} devices", "model": name, "devices": devices, "batch": batch,
            "loss_kind": kind, "replicas_used": used, "chunk_sizes": chunks,
            "inputs": {"x": golden(x), "target": golden(target)}, "output": golden(out), "loss": golden(loss),
            "param_grads": goldens((n, p.grad) for n, p in model.named_parameters())}
    if x.requires_grad:
        case["input_grad"] = golden(x.grad)
    case["calls_forward"] = forward
    case["calls_backward"] = {"first": backward[0], "then_in_any_order": backward[1:]} if backward else []
    if grads:
        case["param_grads_per_replica"] = {n: [golden(g[0]) for g in found] for n, found in grads.items()}
    if buffers:
        case["buffers_after"] = goldens(model.named_buffers())
        if devices > 1:
            case["replica_buffers_after"] = [goldens(r.named_buffers()) for r in data_parallel.replicas]
        for n, b in model.named_buffers():
            b.copy_(buffers[n])
    return case


def path_case(name, make, inputs, targets, kind, devices, batch, optimizer, options):
    model = make()
    opt = getattr(torch.optim, optimizer)(model.parameters(), **options)
    attrs = {k: list(v) if isinstance(v, tuple) else v for k, v in opt.defaults.items()}
    case = {"name": f"{name} trajectory with {optimizer}", "model": name, "devices": devices, "batch": batch,
            "loss_kind": kind, "optimizer": optimizer, "optimizer_attrs": attrs, "steps": []}
    for _ in range(3):
        x, target = inputs(batch), targets(batch)
        opt.zero_grad()
        loss = LOSSES[kind](data_parallel(model, (x,), list(range(devices))), target)
        loss.backward()
        opt.step()
        case["steps"].append({"x": golden(x), "target": golden(target), "loss": golden(loss)})
    return {**case, "params_after": goldens(model.named_parameters()), "buffers_after": goldens(model.named_buffers()),
            "tol": [1e-5, 1e-3]}


class WithLoss(nn.Module):
    def __init__(self, net, kind):
        super().__init__()
        self.net, self.kind = net, kind

    def forward(self, x, target):
        return LOSSES[self.kind](self.net(x), target)


def inside_case(name, model, inputs, targets, kind, devices, batch):
    x, target, whole = inputs(batch), targets(batch), WithLoss(model, kind)
    model.zero_grad()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = data_parallel(whole, (x, target), list(range(devices)))
    out.mean().backward()
    return {"name": f"loss inside forward, {name} batch {batch} on {devices} devices", "model": name, "devices": devices,
            "batch": batch, "loss_kind": kind, "inputs": {"x": golden(x), "target": golden(target)}, "output": golden(out),
            "mean_of_output": golden(out.mean()), "full_batch_loss": golden(whole(x, target)), "warnings": len(seen),
            "param_grads": goldens((n, p.grad) for n, p in model.named_parameters())}


def flat(outputs):
    return [t for part in outputs for t in (flat(part) if isinstance(part, tuple) else [part])] \
        if isinstance(outputs, tuple) else [outputs]


def dim_case(text, devices, dim, shape):
    module, x = eval("nn." + text), torch.randn(shape, requires_grad=True)
    outputs = flat(data_parallel(module, (x,), list(range(devices)), dim))
    grads = [torch.randn_like(t) for t in outputs]
    torch.autograd.backward(outputs, grads)
    return {"name": f"dim={dim}: {text}", "devices": devices, "dim": dim, "module": text,
            "params": goldens(module.named_parameters()), "inputs": {"x": golden(x)},
            "outputs": [golden(t) for t in outputs], "grad_out": [golden(g) for g in grads],
            "param_grads": goldens((n, p.grad) for n, p in module.named_parameters()), "input_grad": golden(x.grad)}


def models_file(seed):
    torch.manual_seed(4242 + seed)
    pick = random.Random(seed)
    spread = lambda devices, batch: (devices, batch) if seed == 0 else (pick.randint(2, 8), pick.randint(2, 4) * 6)
    models, cases = {}, []
    made = {}
    for name, (make, attrs, *rest) in MODELS.items():
        made[name] = model = make()
        models[name] = {"module": " ".join(str(model).split()), "params": goldens(model.named_parameters()),
                        "buffers": goldens(model.named_buffers()), **({"attrs": attrs} if attrs else {})}
    for name, devices, batch in STEPS:
        cases.append(step_case(name, made[name], *MODELS[name][2:], *spread(devices, batch)))
    for name, devices, batch in [("normed", 3, 7), ("tagger", 5, 6), ("attention", 2, 1)]:
        cases.append(inside_case(name, made[name], *MODELS[name][2:], *spread(devices, batch)))
    for name, devices, batch, *rest in PATHS:
        def again():
            model = MODELS[name][0]()
            model.load_state_dict(made[name].state_dict())
            return model
        cases.append(path_case(name, again, *MODELS[name][2:], *spread(devices, batch), *rest))
    cases += [dim_case("GRU(4,3)", 2, 1, (5, 5, 4)), dim_case("LSTM(3, 2, num_layers=2, bias=False)", 5, 1, (3, 9, 3)),
              dim_case("RNN(2,3,bidirectional=True)", 4, -2, (2, 6, 2)), dim_case("Linear(3,2)", 7, 1, (2, 8, 3))]
    return {"models": models, "cases": cases}


# ---- structures ----

Fields = collections.namedtuple


def told(obj):
    """A structure as the files write it."""
    if isinstance(obj, torch.Tensor):
        first = None if obj.numel() == 0 else bool(obj.reshape(-1)[0]) if obj.dtype == torch.bool else float(obj.reshape(-1)[0])
        return {"tensor": list(obj.shape), "first": first}
    if hasattr(obj, "_fields"):
        return {"namedtuple": [told(x) for x in obj]}
    if isinstance(obj, tuple):
        return {"tuple": [told(x) for x in obj]}
    if isinstance(obj, list):
        return {"list": [told(x) for x in obj]}
    if isinstance(obj, dict):
        return {"dict": [[k, told(v)] for k, v in obj.items()]}
    return {"value": obj}


def counted(shape, first):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float32) + first).reshape(shape)


class Structures:
    """Random ones: containers in containers, tensors of `rows` along dim, and what is no tensor."""

    def __init__(self, seed):
        self.pick = random.Random(seed)

    def tensor(self, rows, dim):
        shape = [self.pick.randint(1, 3) for _ in range(self.pick.randint(dim + 1, dim + 2))]
        shape[dim] = rows
        if self.pick.random() < 0.2:
            return torch.ones(shape, dtype=torch.bool)
        return counted(shape, self.pick.randint(0, 9))

    def leaf(self, rows, dim):
        if self.pick.random() < 0.6:
            return self.tensor(rows() if callable(rows) else rows, dim)
        return self.pick.choice([None, True, False, 3, -2.5, "word", (), [], {}])

    def any(self, rows, dim, depth=0):
        if depth > 2 or self.pick.random() < 0.35:
            return self.leaf(rows, dim)
        return self.container([self.any(rows, dim, depth + 1) for _ in range(self.pick.randint(1, 3))])

    def container(self, items):
        kind = self.pick.randrange(4)
        if kind == 0:
            return tuple(items)
        if kind == 1:
            return list(items)
        if kind == 2:
            return {key: item for key, item in zip("abc", items)}
        return Fields("Fields", [f"f{i}" for i in range(len(items))])(*items)


def raises(run):
    try:
        return None, run()
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]], None


def scatter_case(name, devices, dim, args, kwargs):
    case = {"name": "scatter_kwargs: " + name, "devices": devices, "dim": dim, "args": told(args), "kwargs": told(kwargs)}
    error, out = raises(lambda: scatter_gather.scatter_kwargs(args, kwargs, list(range(devices)), dim))
    if error:
        return {**case, "raises": error}
    a, k = list(out[0]), list(out[1])
    count = max(len(a), len(k))  # 1.13's padding
    a, k = a + [()] * (count - len(a)), k + [{}] * (count - len(k))
    return {**case, "replicas": count, "out_args": [told(x) for x in a], "out_kwargs": [told(x) for x in k]}


def gather_case(name, dim, outputs):
    case = {"name": "gather: " + name, "dim": dim, "outputs": [told(x) for x in outputs]}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        error, out = raises(lambda: scatter_gather.gather(outputs, 0, dim))
    return {**case, "raises": error} if error else {**case, "result": told(out), "warnings": len(seen)}


def like(obj, rows, dim, pick):
    """Another replica's output of the same structure: other numbers, other rows."""
    if isinstance(obj, torch.Tensor):
        if obj.dim() == 0:
            return torch.tensor(float(pick.randint(0, 9)))
        shape = list(obj.shape)
        shape[dim] = rows
        return counted(shape, pick.randint(0, 9))
    if hasattr(obj, "_fields"):
        return type(obj)(*[like(x, rows, dim, pick) for x in obj])
    if isinstance(obj, (tuple, list)):
        return type(obj)(like(x, rows, dim, pick) for x in obj)
    if isinstance(obj, dict):
        return {k: like(x, rows, dim, pick) for k, x in reversed(list(obj.items()))}
    return obj


def broadcast_groups(bytes_of, limit):
    """comm.cpp's: closed once a tensor has reached the limit."""
    groups, group, size = [], [], 0
    for i, count in enumerate(bytes_of):
        group, size = group + [i], size + count
        if size >= limit:
            groups, group, size = groups + [group], [], 0
    return groups + ([group] if group else [])


def reduce_groups(tensors, limit):
    numbers = {id(t): i for i, t in enumerate(tensors)}
    return [[numbers[id(t)] for t in group] for group in _take_tensors(tensors, limit)]


def behaviour_file(seed):
    made, pick, cases = Structures(77 + 10 * seed), random.Random(78 + 10 * seed), []
    for i in range(30):
        devices, dim = pick.randint(2, 8), pick.choice([0, 0, 0, 1])
        rows = pick.randint(1, 12) if i % 3 else lambda: pick.randint(1, 12)
        args = tuple(made.any(rows, dim) for _ in range(pick.randint(0, 3)))
        kwargs = {key: made.any(rows, dim) for key in "xyz"[:pick.randint(0, 2)]}
        cases.append(scatter_case(f"structure {i}", devices, dim, args, kwargs))
    cases += [scatter_case("the last dimension", 3, -1, (counted([2, 7], 0),), {}),
              scatter_case("a dimension that is not there", 2, 2, (counted([4, 3], 0),), {}),
              scatter_case("a number in a list", 4, 0, ([counted([4], 0), [torch.tensor(1.0)]],), {}),
              scatter_case("no rows by keyword", 5, 0, (), {"x": torch.zeros(0, 2), "y": [1]})]
    for i in range(20):
        devices, dim = pick.randint(2, 8), pick.choice([0, 0, 1])
        tensors = Structures(1000 * (seed + 1) + i)
        tensors.leaf = lambda rows, dim: None if tensors.pick.random() < 0.1 else tensors.tensor(rows, dim)
        tensors.tensor = lambda rows, dim: counted([rows if d == dim else d + 1 for d in range(dim + 1 + tensors.pick.randint(0, 1))],
                                                   tensors.pick.randint(0, 9))
        first = tensors.any(pick.randint(1, 4), dim)
        cases.append(gather_case(f"structure {i}", dim, [first] + [like(first, pick.randint(1, 4), dim, pick)
                                                                  for _ in range(devices - 1)]))
    a, b = counted([2], 0), counted([3], 4)
    cases += [gather_case("scalars of five", 0, [torch.tensor(float(i)) for i in range(5)]),
              gather_case("scalars in a list, and rows", 0, [[torch.tensor(float(i)), a] for i in range(3)]),
              gather_case("tuples of other lengths", 0, [(a, b), (a,)]), gather_case("lists of other lengths", 0, [[a], [b, a]]),
              gather_case("numbers of dimensions", 0, [a, counted([2, 2], 0)]), gather_case("a dimension too many", 1, [a, b]),
              gather_case("keys", 0, [{"loss": a, "size": b}, {"loss": a, "sizes": b}]),
              gather_case("a flag", 0, [True, False]), gather_case("the last dimension", -1, [counted([2, 3], 0), counted([2, 1], 9)])]
    for i in range(12):
        limit = pick.choice([1, 64, 100, 256, 1000])
        sizes = [pick.randint(1, limit // 2 + 2) for _ in range(pick.randint(1, 9))]
        cases.append({"name": f"coalescing of the broadcast: limit {limit} bytes", "sizes_in_f32_elements": sizes,
                      "groups_broadcast": broadcast_groups([4 * n for n in sizes], limit),
                      "groups_reduce": reduce_groups([torch.zeros(n) for n in sizes], limit)})
    kinds = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64}
    for i in range(6):
        limit = pick.choice([40, 100, 400])
        specs = [[pick.choice(list(kinds)), pick.randint(1, limit // 6)] for _ in range(pick.randint(3, 9))]
        cases.append({"name": f"coalescing: types, limit {limit}", "types_and_elements": specs,
                      "groups": reduce_groups([torch.zeros(n, dtype=kinds[t]) for t, n in specs], limit)})
    return {"cases": cases}


# ---- programs in words ----


def parallel_apply(modules, inputs):
    here = loaded(sys.modules[PARALLEL + "parallel_apply"])
    kept, torch.accelerator = torch.accelerator, accelerator
    try:
        return here.parallel_apply(modules, inputs, devices=list(range(len(modules))))
    finally:
        torch.accelerator = kept


class Answer(nn.Module):
    def __init__(self, number, kind, ran):
        super().__init__()
        self.number, self.kind, self.ran = number, kind, ran

    def forward(self, x):
        self.ran.append(self.number)
        if self.kind:
            raise self.kind("it was told to fail")
        return x * 0 + self.number


def apply_case(name, kinds):
    ran = []
    modules = [Answer(i, kinds.get(i), ran) for i in range(4)]
    case = {"name": "parallel_apply: " + name}
    try:
        case["outputs"] = [t.tolist() for t in parallel_apply(modules, [torch.ones(1)] * 4)]
    except Exception as error:
        case["raises"], case["message_start"] = type(error).__name__, str(error).strip("'").split("\\n")[0].splitlines()[0]
    return {**case, "replicas_that_ran": sorted(ran)}


def mode_case(enabled, count):
    import threading
    lines = {}

    class Mode(nn.Module):
        def forward(self, x):
            main = threading.current_thread() is threading.main_thread()
            lines[int(x)] = f"grad enabled: {torch.is_grad_enabled()}, main thread: {main}"
            return x

    with torch.set_grad_enabled(enabled):
        parallel_apply([Mode() for _ in range(count)], [torch.tensor([float(i)]) for i in range(count)])
    return {"name": f"parallel_apply grad mode, caller grad {enabled}, {count} module(s)", "events": [lines[i] for i in range(count)]}


def hooks_case(devices, batch):
    model, events = nn.Linear(2, 1), []
    model.register_forward_pre_hook(lambda m, a: events.append(f"pre rows {len(a[0])}"))
    model.register_forward_hook(lambda m, a, out: events.append(f"post rows {len(out)}"))
    model.register_full_backward_hook(lambda m, i, g: events.append(f"backward hook rows {len(g[0])}"))
    model.weight.register_hook(lambda g: events.append("weight hook"))
    data_parallel(model, (torch.randn(batch, 2, requires_grad=True),), list(range(devices))).sum().backward()
    return {"name": "hooks run once per replica", "devices": devices, "batch": batch, "events": events}


def penalty_case(model, width, devices, batch):
    x = torch.randn(batch, width, requires_grad=True)
    gradient, = torch.autograd.grad(data_parallel(model, (x,), list(range(devices))).sum(), x, create_graph=True)
    penalty = ((gradient.norm(2, 1) - 1) ** 2).mean()
    penalty.backward()
    return {"name": "gradient penalty (double backward)", "module": " ".join(str(model).split()), "devices": devices,
            "params": goldens(model.named_parameters()), "inputs": {"x": golden(x)}, "penalty": golden(penalty),
            "input_gradient": golden(gradient), "param_grads": goldens((n, p.grad) for n, p in model.named_parameters())}


def graph_case(ins, outs, devices, batch):
    model, x = nn.Linear(ins, outs), torch.randn(batch, ins, requires_grad=True)
    nodes, graph = [data_parallel(model, (x,), list(range(devices))).sum().grad_fn], []
    for at, node in enumerate(nodes):
        edges = []
        for following, nr in node.next_functions:
            if following is None:
                continue
            if following not in nodes:
                nodes.append(following)
            edges.append([nodes.index(following), nr])
        graph.append([at, node.name(), edges])
    return {"name": f"recorded graph of Linear({ins},{outs}) on {devices} devices, batch {batch}, input requires grad", "graph": graph}


def sparse_case(rows, width, devices, shape):
    model, x = nn.Embedding(rows, width, sparse=True), torch.randint(rows, shape)
    data_parallel(model, (x,), list(range(devices))).sum().backward()
    return {"name": "sparse embedding under DataParallel", "devices": devices, "params": golden(model.weight),
            "inputs": golden(x), "grad": golden(model.weight.grad), "grad_dense": golden(model.weight.grad.to_dense())}


def programs_file(seed):
    torch.manual_seed(99 + seed)
    return {"cases": [
        apply_case("replica 0 fails", {0: ValueError}), apply_case("replica 3 fails", {3: ValueError}),
        apply_case("replicas 0 and 2 fail, 2 first in time", {0: ValueError, 2: ValueError}),
        apply_case("IndexError", {0: IndexError}), apply_case("TypeError", {0: TypeError}),
        mode_case(True, 1), mode_case(True, 5), mode_case(False, 8), hooks_case(2, 3), hooks_case(5, 8), hooks_case(7, 4),
        penalty_case(nn.Sequential(nn.Linear(4, 3), nn.Softplus(), nn.Linear(3, 2)), 4, 3, 7),
        penalty_case(nn.Sequential(nn.Linear(2, 5, bias=False), nn.Sigmoid(), nn.LayerNorm(5), nn.Linear(5, 1)), 2, 6, 6),
        graph_case(3, 4, 2, 5), graph_case(1, 2, 5, 11), graph_case(2, 1, 8, 3), sparse_case(7, 3, 3, (8, 2)),
        sparse_case(12, 1, 8, (5, 3))]}


# ---- texts ----


def printed_file(_):
    shapes = lambda named: {name: list(t.shape) for name, t in named}
    return {"printed": [
        {"name": f"{type(model).__name__} {i}", "module": str(model), **({"attrs": attrs} if attrs else {}),
         "parameters": shapes(model.named_parameters()), "buffers": shapes(model.named_buffers())}
        for i, (model, attrs) in enumerate(printed.modules(layer, MODELS))]}


# ---- files ----

HEADER = {"format": "ringside-golden-1", "torch": torch.__version__.split("+")[0] + " (CPU)", "threads": 1,
          "made": "python tests/golden/parallel.py: PyTorch's own scatter, gather, replicate, parallel_apply and Functions on CPU "
                  "tensors, the four copies replaced by copies on the CPU"}
ABOUT = {
    "dp_models-more": (models_file, "as dp_models.json: other models, losses, optimizers, devices 1 to 8; attrs of a model: options "
                       "that its text does not say; a class that is not nn's passes its input through its children in order"),
    "dp_behaviour-more": (behaviour_file, "as dp_behaviour.json: random structures, limits, types"),
    "dp_behaviour-programs-more": (programs_file, "as dp_behaviour-programs.json: other numbers in the names"),
    "printed": (printed_file, "texts of modules, the shapes of their parameters and buffers, and attrs, options that are not printed"),
}


def main():
    folder = sys.argv[1] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    warnings.simplefilter("ignore")
    for name, (make, about) in ABOUT.items():
        whole = {"header": {**HEADER, "about": about}, **make(seed)}
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(whole, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
