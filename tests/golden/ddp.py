#!/usr/bin/env python3
"""ddp.py: makes ddp-order-more, ddp-train-more, ddp-hooks-more, ddp-alias-more and ddp-logging-more (.json) beside this file with
the PyTorch that runs it (2.15 or later, with gloo), each rank a process of its own. The forms are those of ddp-order, ddp-train
(the hooks, too), ddp-alias and of ddp-buckets' logging; the models are those of their headers.

    ddp.py                what stands beside this file, again
    ddp.py FOLDER SEED    the same files there with other models, worlds, caps, options and numbers"""
import contextlib, json, math, os, random, sys, tempfile, warnings
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, post_localSGD_hook, quantization_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
import collectives
from collectives import DTYPES, NAMES

warnings.filterwarnings("ignore")
MIB = 1 << 20
DEFAULT_CAP, DEFAULT_FIRST = 25 * MIB, MIB

# ---- models ----


class Two(nn.Module):
    def __init__(self, a, b, c, activation):
        super().__init__()
        self.fc1, self.fc2, self.activation = nn.Linear(a, b), nn.Linear(b, c), activation

    def forward(self, x):
        return self.fc2(self.activation(self.fc1(x)))


class Deep(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) if i == 0 else layer(F.relu(x))
        return x


class Emb(nn.Module):
    def __init__(self, rows, width, out, sparse):
        super().__init__()
        self.emb, self.fc = nn.Embedding(rows, width, sparse=sparse), nn.Linear(width, out)

    def forward(self, tokens):
        return self.fc(self.emb(tokens).mean(1))


class Conv(nn.Module):
    def __init__(self, ci, co, hw, k, c):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(ci, co, k), nn.BatchNorm2d(co), nn.Linear(co * (hw - k + 1) ** 2, c)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).flatten(1))


class Shared(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.c.weight = self.a.weight

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.b(torch.tanh(self.a(x)))))))


class Branch(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.stem, self.br = nn.Linear(d, d), nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x, used):
        h = F.relu(self.stem(x))
        y = h
        for i in used:
            y = y + self.br[i](h)
        return y


class Vectors(nn.Module):
    def __init__(self, sizes, dtypes=None):
        super().__init__()
        for i, size in enumerate(sizes):
            setattr(self, f"p{i}", nn.Parameter(torch.randn(size).to(DTYPES[dtypes[i]] if dtypes else torch.float32)))


class Order(Vectors):
    def __init__(self, sizes, order):
        super().__init__(sizes)
        self.order = order

    def forward(self, x):
        y = x.sum()
        for i in self.order:
            y = y + getattr(self, f"p{i}").pow(2).sum() * y
        return y


class Mixed(Vectors):
    def forward(self, x):
        y = x.double().sum()
        for p in self.parameters():
            y = y / 2 + p.pow(2).sum()
        return y


class Vec(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        return (self.p * x).sum()


KINDS = {"Linear": nn.Linear, "MLP": lambda a, b, c: Two(a, b, c, torch.relu), "MLPN": lambda a, b, c: Two(a, b, c, torch.tanh),
         "Deep": Deep, "Emb": Emb, "Conv": Conv, "Shared": Shared, "Branch": Branch, "Order": Order, "Mixed": Mixed, "Vec": Vec}


def build(spec):
    return KINDS[spec[0]](*spec[1:])


def averaging_hook(world, seen=None):
    def hook(_, bucket):
        if seen:
            seen(bucket)
        work = dist.all_reduce(bucket.buffer() / world, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])
    return hook


# ---- order ----

LOGGED = ["bucket_sizes", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices", "has_rebuilt_buckets",
          "prev_iteration_grad_ready_order_indices", "bucket_cap_bytes", "num_parameter_tensors",
          "total_parameter_size_bytes", "unused_parameter_size", "iteration"]


def logged(ddp, keys):
    data = ddp._get_ddp_logging_data()
    return {key: data[key] for key in keys if key in data}


def wrap(case, model, **others):
    dist._DEFAULT_FIRST_BUCKET_BYTES = case["first_bucket_bytes"]
    ddp = DDP(model, bucket_cap_mb=case["cap_bytes"] / MIB, find_unused_parameters=case["find_unused_parameters"], **others)
    dist._DEFAULT_FIRST_BUCKET_BYTES = DEFAULT_FIRST
    return ddp


def order_rank(rank, case):
    spec, log = case["spec"], {}
    if case["rotated"]:
        spec = [spec[0], spec[1], spec[2][rank:] + spec[2][:rank]]
    model = build(spec)
    params = list(model.parameters())
    numbers = {p: i for i, p in enumerate(params)}
    for i, p in enumerate(params):
        p.register_post_accumulate_grad_hook(lambda _, i=i: log["events"].append(f"g{i}"))

    def seen(bucket):
        buffer = bucket.buffer()
        log["events"].append(f"b{bucket.index()}")
        log["buckets"].append({"index": bucket.index(), "is_last": bucket.is_last(),
                               "params": [numbers[p] for p in bucket.parameters()],
                               "numel": -1 if buffer.is_sparse else buffer.numel(), "dtype": NAMES[buffer.dtype]})

    ddp = wrap(case, model, static_graph=case["static_graph"], gradient_as_bucket_view=case["gradient_as_bucket_view"])
    if case["hook"]:
        ddp.register_comm_hook(None, averaging_hook(case["world"], seen))

    def x():
        return torch.randint(0, spec[1], (4, 3)) if spec[0] == "Emb" else torch.randn(case["x"])

    before, iterations = logged(ddp, ["bucket_sizes", "bucket_cap_bytes", "num_parameter_tensors",
                                      "total_parameter_size_bytes", "iteration"]), []
    for _ in range(3):
        log["events"], log["buckets"] = [], []
        ddp.zero_grad()
        ddp(x()).sum().backward()
        iterations.append(dict(log))
    ddp(x())
    return {"param_numel": [p.numel() for p in params], "param_dtype": [NAMES[p.dtype] for p in params],
            "iterations": iterations, "log_before": before, "log_after": logged(ddp, LOGGED)}


OPTIONS = ["model", "world", "cap_bytes", "first_bucket_bytes", "find_unused_parameters", "static_graph",
           "gradient_as_bucket_view", "hook"]


def order_run(case, ranks):
    same = all(r == ranks[0] for r in ranks)
    out = {**{key: case[key] for key in OPTIONS}, **ranks[0], "same_on_every_rank": same}
    if not same:
        out["other_ranks"] = [r["iterations"] for r in ranks[1:]]
    return out


def order_models(draw):
    """{name: (text, spec, x, rotated)}"""
    def sizes(count, most):
        return [draw.randrange(1, most) for _ in range(count)]

    def shuffled(count):
        return draw.sample(range(count), count)

    def text(numbers):
        return " ".join(map(str, numbers))

    widths, reverse, mixed, turned = sizes(draw.randrange(3, 8), 30), sizes(draw.randrange(2, 9), 90), [], sizes(5, 70)
    several, emb = sizes(draw.randrange(4, 12), 90), [draw.randrange(3, 20), draw.randrange(1, 9), draw.randrange(1, 6), True]
    order, backwards = shuffled(len(several)), list(range(len(reverse)))[::-1]
    for _ in range(draw.randrange(3, 9)):
        mixed.append((draw.randrange(1, 50), draw.choice(["f32", "f64", "f32", "f64", "f16", "bf16"])))
    rotated = draw.sample(range(5), 5)
    return {
        "deep": (f"Deep {text(widths)}, x [3, {widths[0]}]", ["Deep", widths], [3, widths[0]], False),
        "reverse": (f"Order {text(reverse)}, used in the order {text(backwards)}, x [1]", ["Order", reverse, backwards], [1], False),
        "shuffled": (f"Order {text(several)}, used {text(order)}, x [2]", ["Order", several, order], [2], False),
        "mixed": ("Mixed " + " ".join(f"({n} {d})" for n, d in mixed) + ", x [1]",
                  ["Mixed", [n for n, _ in mixed], [d for _, d in mixed]], [1], False),
        "sparse": (f"Emb {text(emb[:3])} sparse; x int64 token numbers", ["Emb", *emb], None, False),
        "turned": (f"Order {text(turned)}, used {text(rotated)} rotated by the rank, x [1]", ["Order", turned, rotated], [1], True),
    }


def order_cases(draw):
    models, cases = order_models(draw), []
    for name, (_, spec, x, rotated) in models.items():
        bytes_of_all = sum(p.numel() * p.element_size() for p in build(spec).parameters())
        for _ in range(9):
            cap = draw.choice([DEFAULT_CAP, draw.randrange(1, bytes_of_all), draw.randrange(1, 1 + bytes_of_all // 2)])
            cases.append({"model": name, "spec": spec, "x": x, "rotated": rotated, "world": draw.randrange(1, 5),
                          "cap_bytes": cap, "first_bucket_bytes": draw.choice([DEFAULT_FIRST, draw.randrange(1, 400)]),
                          "find_unused_parameters": draw.random() < 0.3, "static_graph": draw.random() < 0.3,
                          "gradient_as_bucket_view": name != "sparse" and draw.random() < 0.4, "hook": draw.random() < 0.75})
    return {name: text for name, (text, *_) in models.items()}, cases


# ---- train ----


def plain(named):
    return {name: None if t is None else collectives.golden(t.detach()) for name, t in named}


def filled(named, goldens):
    with torch.no_grad():
        for name, t in named:
            t.copy_(torch.tensor(goldens[name]["d"]).reshape(t.shape))


def call(ddp, rank, case, step, k):
    used = case["used"][step] if "used" in case else case["used_call"][k] if "used_call" in case else None
    given = case["inputs"][rank][k]
    x = torch.tensor(given["d"], dtype=DTYPES[given["t"]]).reshape(given["s"])
    return ddp(x) if used is None else ddp(x, used[rank])


CALLS = {"fwd_in_bwd_out": 1, "fwd_out_bwd_in": 1, "ffbb": 2, "ff_sum": 2, "no_grad_between": 1}


def calls_a_step(case):
    return CALLS[case["odd"]] if "odd" in case else case.get("accumulate", 1)


def train_step(ddp, rank, case, step):
    losses, calls = [], iter(range(step * calls_a_step(case), (step + 1) * calls_a_step(case)))

    def loss():
        k = next(calls)
        given = case["targets"][rank][k]
        difference = call(ddp, rank, case, step, k) - torch.tensor(given["d"]).reshape(given["s"])
        value = difference.pow(2).sum() if case.get("loss") == "sum" else difference.pow(2).mean()
        losses.append(collectives.number(value.detach().numpy()))
        return value

    odd = case.get("odd")
    if odd == "fwd_in_bwd_out":
        with ddp.no_sync():
            value = loss()
        value.backward()
    elif odd == "fwd_out_bwd_in":
        value = loss()
        with ddp.no_sync():
            value.backward()
    elif odd == "ffbb":
        first, second = loss(), loss()
        first.backward()
        second.backward()
    elif odd == "ff_sum":
        (loss() + loss()).backward()
    else:
        for _ in range(case.get("accumulate", 1) - 1):
            with ddp.no_sync():
                loss().backward()
        loss().backward()
        if odd == "no_grad_between":
            with torch.no_grad():
                call(ddp, rank, case, step, step)
    return losses


def local_sgd(ddp):
    state = post_localSGD_hook.PostLocalSGDState(None, dist.new_subgroups(1)[0], 2)
    ddp.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)


def double(_, bucket):
    future = dist.all_reduce(bucket.buffer().clone(), async_op=True).get_future()
    return future.then(lambda f: f.value()[0] * 2)


def python_hook(hook):
    return lambda ddp: ddp.register_comm_hook(None, hook)


def builtin_hook(kind):
    return lambda ddp: ddp._register_builtin_comm_hook(kind)


HOOKS = {"allreduce": python_hook(default_hooks.allreduce_hook), "fp16": python_hook(default_hooks.fp16_compress_hook),
         "bf16": python_hook(default_hooks.bf16_compress_hook), "noop": python_hook(debugging_hooks.noop_hook),
         "quantize": python_hook(quantization_hooks.quantization_pertensor_hook),
         "quantize_rows": python_hook(quantization_hooks.quantization_perchannel_hook), "double": python_hook(double),
         "builtin_allreduce": builtin_hook(dist.BuiltinCommHookType.ALLREDUCE),
         "builtin_fp16": builtin_hook(dist.BuiltinCommHookType.FP16_COMPRESS), "localsgd": local_sgd}


def train_rank(rank, case):
    model = build(case["model"])
    filled(model.named_parameters(), case["init_other_ranks"][rank - 1] if rank and "init_other_ranks" in case else case["init_rank0"])
    if "buffers_init" in case:
        filled(model.named_buffers(), case["buffers_init"][rank])
    for name, p in model.named_parameters():
        p.requires_grad_(name not in case.get("frozen", []))
    if "ignore" in case:
        DDP._set_params_and_buffers_to_ignore_for_model(model, case["ignore"])
    dist._DEFAULT_FIRST_BUCKET_BYTES = case.get("first", DEFAULT_FIRST)
    ddp = DDP(model, **case.get("kw", {}))
    dist._DEFAULT_FIRST_BUCKET_BYTES = DEFAULT_FIRST
    if "hook" in case:
        HOOKS[case["hook"]](ddp)
    out = {"after_wrap": plain(model.named_parameters()), "buffers": plain(model.named_buffers()), "steps": []}
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"], momentum=case["momentum"])
    with ddp.join(**case["join"]) if "join" in case else contextlib.nullcontext():
        for step in range(case["counts"][rank] if "join" in case else case["count"]):
            optimizer.zero_grad(set_to_none=case.get("zero") != "zero")
            losses = train_step(ddp, rank, case, step)
            grads = [(name, p.grad) for name, p in model.named_parameters()]
            sparse = [name for name, grad in grads if grad is not None and grad.is_sparse]
            grads = plain((name, grad.to_dense() if name in sparse else grad) for name, grad in grads)
            optimizer.step()
            out["steps"].append({"losses": losses, "grads": grads, "sparse": sparse,
                                 "params": plain(model.named_parameters()), "buffers": plain(model.named_buffers())})
    out["final"], out["final_buffers"] = plain(model.named_parameters()), plain(model.named_buffers())
    return out


def train_run(case, ranks):
    out = {key: value for key, value in case.items() if key not in ("count", "part")}
    same = all(a[key] == b[key] for r in ranks for a, b in zip(r["steps"], ranks[0]["steps"]) for key in ("grads", "params"))
    out["grads_and_params_same_on_every_rank"], out["steps"] = same, []
    if "init" in case:
        out["after_wrap"] = [r["after_wrap"] for r in ranks]
    if case.get("buffers"):
        wrapped = [r["buffers"] for r in ranks]
        out["buffers_after_wrap"] = wrapped[0]
        if any(w != wrapped[0] for w in wrapped):
            out["buffers_after_wrap_by_rank"] = wrapped
    for steps in zip(*(r["steps"] for r in ranks)):
        step = {"losses": [s["losses"] for s in steps]}
        for key in ("grads", "params"):
            step[key] = steps[0][key] if same else [s[key] for s in steps]
        if steps[0]["sparse"]:
            step["sparse_layout"] = steps[0]["sparse"]
        if case.get("buffers"):
            step["buffers"] = [s["buffers"] for s in steps]
        out["steps"].append(step)
    return out


class Numbers:
    """Sixty-fourths between -1 and 1 and other things for cases."""

    def __init__(self, draw):
        self.draw = draw

    def tensor(self, shape, low=-64, high=64, parts=64):
        return {"t": "f32", "s": list(shape), "d": [self.draw.randint(low, high) / parts for _ in range(math.prod(shape))]}

    def tokens(self, shape, vocab):
        return {"t": "i64", "s": list(shape), "d": [self.draw.randrange(vocab) for _ in range(math.prod(shape))]}

    def params(self, spec):
        return {name: self.tensor(p.shape, -32, 32) for name, p in build(spec).named_parameters()}

    def buffers(self, spec):
        made = {}
        for name, t in build(spec).named_buffers():
            made[name] = ({"t": "i64", "s": [], "d": [self.draw.randrange(4)]} if t.dim() == 0 else
                          self.tensor(t.shape, 32, 96) if name.endswith("var") else self.tensor(t.shape, -16, 16))
        return made


def dense_model(draw):
    """(spec, shape of an input's row, of a target's)"""
    a, b, c = (draw.randrange(1, 9) for _ in range(3))
    widths = [draw.randrange(1, 10) for _ in range(draw.randrange(3, 6))]
    return draw.choice([(["Linear", a, b], [a], [b]), (["MLP", a, b, c], [a], [c]), (["MLPN", a, b, c], [a], [c]),
                        (["Deep", widths], widths[:1], widths[-1:]), (["Shared", a], [a], [a])])


def conv_model(draw):
    ci, co, hw, k, c = draw.randrange(1, 3), draw.randrange(1, 4), draw.randrange(3, 6), draw.randrange(1, 4), draw.randrange(1, 5)
    return ["Conv", ci, co, hw, k, c], [ci, hw, hw], [c]


def scenario(draw, kind, world, extra):
    numbers, case = Numbers(draw), {"lr": draw.choice([0.125, 0.0625, 0.25]), "momentum": draw.choice([0.0, 0.0, 0.9]),
                                    "batch": draw.randrange(2, 6), "world": world, "kind": kind, **extra}
    vocab = draw.randrange(3, 14)
    if kind == "dense":
        spec, row, target = dense_model(draw)
    elif kind == "image":
        spec, row, target = conv_model(draw)
        case.update(shape=row, buffers=True, buffers_init=[numbers.buffers(spec) for _ in range(world)])
    elif kind == "tokens":
        spec, row = ["Emb", vocab, draw.randrange(1, 6), draw.randrange(1, 5), extra.get("sparse", False)], [3]
        target = spec[3:4]
        case["vocab"] = vocab
    else:
        width, count = draw.randrange(2, 6), draw.randrange(2, 5)
        spec, row, target = ["Branch", width, count], [width], [width]
    case.pop("sparse", None)
    case["model"], case["count"] = spec, max(case["counts"]) if "counts" in case else draw.randrange(2, 4)
    calls = case["count"] * calls_a_step(case)
    if kind == "branch":
        def some():
            return sorted(draw.sample(range(spec[2]), draw.randrange(spec[2] + 1)))
        fixed = some() if case["kw"].get("static_graph") else None
        used = [[fixed if fixed is not None else some() for _ in range(world)] for _ in range(calls)]
        case["used_call" if "accumulate" in case else "used"] = used
    if case.pop("uneven", False):
        case["batches"] = [draw.randrange(1, 5) for _ in range(world)]
    calls_of = [n * calls_a_step(case) for n in case.get("counts", [case["count"]] * world)]
    names = [name for name, _ in build(spec).named_parameters()]
    if case.pop("freeze", False) and len(names) > 2:
        case["frozen"] = draw.sample(names, draw.randrange(1, len(names) - 1))
    if case.pop("ignores", False) and len(names) > 2:
        case["ignore"] = draw.sample(names, draw.randrange(1, len(names) - 1))
    case["init_rank0"] = numbers.params(spec)
    if "init" in case:
        case["init_other_ranks"] = [numbers.params(spec) for _ in range(world - 1)]
    rows = case.get("batches", [case["batch"]] * world)
    case["inputs"] = [[numbers.tokens([n] + row, vocab) if kind == "tokens" else numbers.tensor([n] + row)
                       for _ in range(calls)] for n, calls in zip(rows, calls_of)]
    case["targets"] = [[numbers.tensor([n] + target) for _ in range(calls)] for n, calls in zip(rows, calls_of)]
    return case


def train_cases(draw):
    def world():
        return draw.randrange(2, 5)

    def cap():
        return draw.randrange(1, 400) / MIB

    def zeroed():
        return draw.choice([{}, {"zero": "none"}, {"zero": "zero"}])

    find, static, view = {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}
    wanted = [
        ("plain", "dense", world(), zeroed()), ("one rank", "dense", 1, {"kw": view}),
        ("small caps", "dense", world(), {"kw": {"bucket_cap_mb": cap()}, "first": draw.randrange(1, 200), **zeroed()}),
        ("small caps find", "dense", world(), {"kw": {"bucket_cap_mb": cap(), **find}, **zeroed()}),
        ("small caps view", "dense", world(), {"kw": {"bucket_cap_mb": cap(), **view}, **zeroed()}),
        ("small caps static view", "dense", world(), {"kw": {"bucket_cap_mb": cap(), **view, **static}, **zeroed()}),
        ("view find", "dense", world(), {"kw": {**view, **find}, **zeroed()}),
        ("sum", "dense", world(), {"loss": "sum", "uneven": True}),
        ("static", "dense", world(), {"kw": static, **zeroed()}),
        ("accumulate view", "dense", world(), {"kw": view, "accumulate": draw.randrange(2, 4), **zeroed()}),
        ("other starts", "dense", world(), {"init": "per_rank"}),
        ("ignored", "dense", world(), {"init": "per_rank", "ignores": True}),
        ("frozen view", "dense", world(), {"freeze": True, "kw": view}),
        ("tokens", "tokens", world(), zeroed()), ("tokens sparse", "tokens", world(), {"sparse": True}),
        ("tokens sparse find", "tokens", world(), {"sparse": True, "kw": find}),
        ("tokens sparse static", "tokens", world(), {"sparse": True, "kw": static}),
        ("tokens sparse accumulate", "tokens", world(), {"sparse": True, "accumulate": 2}),
        ("image", "image", world(), zeroed()), ("image view", "image", world(), {"kw": view}),
        ("image without broadcast", "image", world(), {"kw": {"broadcast_buffers": False, **view}}),
        ("image without forward sync", "image", world(), {"kw": {"forward_sync_buffers": False}}),
        ("image accumulate", "image", world(), {"accumulate": 2}),
        ("image two forwards", "image", world(), {"odd": "ffbb"}),
        ("branches find", "branch", world(), {"kw": find, **zeroed()}),
        ("branches find view", "branch", world(), {"kw": {**find, **view}, **zeroed()}),
        ("branches find accumulate", "branch", world(), {"kw": find, "accumulate": 2, **zeroed()}),
        ("branches static", "branch", world(), {"kw": static, **zeroed()}),
        ("branches static view", "branch", world(), {"kw": {**static, **view}, **zeroed()}),
    ]
    wanted += [(f"{odd}{' view' if kw else ''}", "dense", world(), {"odd": odd, "kw": kw, **zeroed()})
               for odd, kw in zip(CALLS, draw.choice([({}, view, {}, view, {}), (view, {}, view, {}, view)]))]
    cases = []
    for name, kind, ranks, extra in wanted:
        cases.append({"part": "train", "name": name, **scenario(draw, kind, ranks, extra)})
    return cases


# ---- division ----

MODES = {"default": {}, "gradient_as_bucket_view": {"gradient_as_bucket_view": True}, "python allreduce hook": {}}


def division_rank(rank, case):
    out = []
    for mode, kw in MODES.items():
        ddp, reduced = DDP(Vec(case["n"]), **kw), []
        if mode == "python allreduce hook":
            ddp.register_comm_hook(None, default_hooks.allreduce_hook)
        for local in case["local"]:
            ddp.zero_grad(set_to_none=False)
            ddp(torch.tensor(local[rank]["d"])).backward()
            reduced.append(collectives.golden(ddp.module.p.grad))
        out.append(reduced)
    return out


def division_run(case, ranks):
    assert all(r == ranks[0] for r in ranks)
    return {"world": case["world"], "modes": [
        {"mode": mode, "iterations": [{"local": local, "reduced": reduced} for local, reduced in zip(case["local"], of_mode)]}
        for mode, of_mode in zip(MODES, ranks[0])]}


def division_cases(draw):
    cases = []
    for world in sorted(draw.sample(range(2, 8), 3)):
        n = draw.randrange(1, 30)
        local = [[collectives.golden(torch.tensor([draw.randrange(1, 1000) / draw.choice([3, 7, 11]) for _ in range(n)]))
                  for _ in range(world)] for _ in range(3)]
        cases.append({"world": world, "n": n, "local": local})
    return cases


# ---- alias ----


def alias_rank(rank, case):
    model, buffers = Deep(case["widths"]), {}

    def seen(bucket):
        buffers[bucket.buffer().untyped_storage().data_ptr()] = bucket.index()

    ddp = wrap(case, model, gradient_as_bucket_view=True)
    ddp.register_comm_hook(None, averaging_hook(2, seen))
    params, iterations, last = list(model.parameters()), [], {}
    for _ in range(3):
        ddp.zero_grad(set_to_none=case["zero_grad"] == "set_to_none")
        buffers.clear()
        loss, places = ddp(torch.randn(4, case["widths"][0])).sum(), []
        before = [None if p.grad is None else p.grad.data_ptr() for p in params]
        loss.backward()
        for i, p in enumerate(params):
            at = p.grad.data_ptr()
            places.append({"param": i, "bucket": buffers[p.grad.untyped_storage().data_ptr()], "offset": p.grad.storage_offset(),
                           "grad_defined_before_backward": before[i] is not None,
                           "moved_in_backward": before[i] is not None and before[i] != at,
                           "same_memory_as_last_iteration": last.get(i) == at})
            last[i] = at
        iterations.append(places)
    try:
        params[0].grad.detach_()
        raised = "ok"
    except Exception as error:
        raised = type(error).__name__
    return {"iterations": iterations, "detach_in_place": raised, "param_shapes": [list(p.shape) for p in params]}


def alias_run(case, ranks):
    assert ranks[0] == ranks[1]
    return {**{key: case[key] for key in ("find_unused_parameters", "zero_grad", "cap_bytes", "first_bucket_bytes")}, **ranks[0]}


def alias_cases(draw):
    cases = []
    for zero in ("set_to_none", "in place"):
        for find in (False, True):
            for _ in range(2):
                cases.append({"world": 2, "widths": [draw.randrange(1, 14) for _ in range(draw.randrange(2, 6))],
                              "zero_grad": zero, "find_unused_parameters": find, "cap_bytes": draw.randrange(1, 900),
                              "first_bucket_bytes": draw.randrange(1, 300)})
    return cases


# ---- logging ----


def mlp(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def logging_rank(rank, case):
    ddp = DDP(mlp(case["widths"]), bucket_cap_mb=case["bucket_cap_mb"], find_unused_parameters=case["find_unused_parameters"])
    for _ in range(3):
        ddp(torch.ones(1, case["widths"][0])).sum().backward()
    return ddp._get_ddp_logging_data()


def logging_run(case, ranks):
    data = ranks[0]
    keys = ["bucket_sizes", "bucket_cap_bytes", "has_rebuilt_buckets", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices"]
    return {**{key: value for key, value in case.items() if key != "world"}, **{key: data.get(key, "") for key in keys},
            "ready_order": data["prev_iteration_grad_ready_order_indices"]}


def logging_cases(draw):
    cases = []
    for i in range(6):
        widths = [draw.choice([16, 100, 256, 700, 1000]) for _ in range(draw.randrange(3, 9))]
        for cap in draw.sample([None, 1, 2, 0.5, 3.7], 2):
            cases.append({"world": 2, "model": f"mlp{i}", "widths": widths, "bucket_cap_mb": cap,
                          "find_unused_parameters": draw.random() < 0.5})
    return cases


# ---- hooks: scenarios as those of train ----


def hook_cases(draw):
    ways = [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True},
            {"batched_grad_copy": True}, {"lazy_bucket_allocation": True}]
    cases = []
    for hook in HOOKS:
        for kind in ("dense", draw.choice(["dense", "image", "branch"])):
            # Quantization gathers in two rounds, the second from a callback: with one bucket only, or ranks may wait for
            # each other's in different orders.
            caps = {} if hook.startswith("quantize") else {"bucket_cap_mb": draw.randrange(1, 400) / MIB}
            kw = {**draw.choice(ways), **caps} if draw.random() < 0.8 else {}
            if kind == "branch":
                kw = {"find_unused_parameters": True}
            extra = {"hook": hook, "kw": kw, **draw.choice([{}, {"zero": "none"}, {"zero": "zero"}, {"accumulate": 2}])}
            if "static_graph" in kw:        # whose first backward must not be one of no_sync
                extra.pop("accumulate", None)
            case = scenario(draw, kind, draw.randrange(2, 5), extra)
            cases.append({"part": "hooks", "name": f"{hook} {kind}", **case})
    for hook in ("allreduce", "noop", "builtin_allreduce"):
        case = scenario(draw, "tokens", draw.randrange(2, 5), {"hook": hook, "sparse": True})
        cases.append({"part": "hooks", "name": f"{hook} sparse", **case})
    return cases


# ---- ranks ----

PARTS = {"order": (order_rank, order_run), "train": (train_rank, train_run), "hooks": (train_rank, train_run),
         "division": (division_rank, division_run), "alias": (alias_rank, alias_run),
         "logging": (logging_rank, logging_run)}


def rank_main(rank, world, cases, folder):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    store = dist.FileStore(os.path.join(folder, f"store{world}"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    answers = [[number, PARTS[part][0](rank, case)] for number, part, case in cases]
    with open(os.path.join(folder, f"{world}.{rank}"), "w") as file:
        json.dump(answers, file)
    dist.barrier()
    dist.destroy_process_group()


def run(cases):
    """[part, case] of any worlds; what they came to, in this order."""
    results, by_world = [None] * len(cases), {}
    for number, (part, case) in enumerate(cases):
        by_world.setdefault(case["world"], []).append((number, part, case))
    with tempfile.TemporaryDirectory() as folder:
        for world, own in by_world.items():
            mp.spawn(rank_main, (world, own, folder), nprocs=world)
            answers = []
            for rank in range(world):
                with open(os.path.join(folder, f"{world}.{rank}")) as file:
                    answers.append(json.load(file))
            for (number, part, case), *ranks in zip(own, *answers):
                results[number] = PARTS[part][1](case, [answer for _, answer in ranks])
    return results


# ---- files ----


def write(folder, name, header, **sections):
    header = {"format": "ringside-golden-1", "torch": torch.__version__, "backend": "gloo, CPU, one thread a rank", **header}
    text = ",\n".join(f'"{section}": [\n%s]' % ",\n".join(map(json.dumps, items)) for section, items in sections.items())
    with open(os.path.join(folder, name), "w") as file:
        file.write('{"header": %s,\n%s}\n' % (json.dumps(header), text))


def main():
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.path.dirname(os.path.abspath(__file__)), 1)
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(seed)
    built, orders = order_cases(draw)
    parts = {"order": orders, "train": train_cases(draw), "division": division_cases(draw), "alias": alias_cases(draw),
             "logging": logging_cases(draw), "hooks": hook_cases(random.Random(seed + 1000))}
    results = iter(run([(part, case) for part, cases in parts.items() for case in cases]))
    made = {part: [next(results) for _ in cases] for part, cases in parts.items()}
    write(folder, "ddp-order-more.json", {"read": "as ddp-order.json", "built": built}, runs=made["order"])
    write(folder, "ddp-train-more.json", {"read": "as ddp-train.json"}, scenarios=made["train"], division=made["division"])
    write(folder, "ddp-hooks-more.json", {"read": "as ddp-train.json"}, scenarios=made["hooks"])
    write(folder, "ddp-alias-more.json", {"read": "as ddp-alias.json"}, runs=made["alias"])
    write(folder, "ddp-logging-more.json", {"read": "as the logging of ddp-buckets.json"}, logging=made["logging"])


if __name__ == "__main__":
    main()
