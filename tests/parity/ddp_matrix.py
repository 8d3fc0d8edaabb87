# Small models under DistributedDataParallel with each of ddp_options.txt, three steps each, and what came of them: the
# twin of ddp_matrix.lua. Weights, inputs and targets follow from a formula; ranks begin with different ones.
import os, sys
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "twins"))
import twin

STEPS = 3

def numbers(shape, seed, scale=1.0):
    count = 1
    for n in shape:
        count *= n
    return torch.tensor([((i * 37 + seed * 101) % 97 - 48) / 48 * scale for i in range(count)]).reshape(shape)

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 4)
        self.last.weight = self.first.weight
    def forward(self, x):
        return self.middle(torch.tanh(self.last(torch.tanh(self.first(x)))))

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.nobody = (nn.Linear(4, 3) for _ in range(4))
    def forward(self, x):
        return self.a(x) * (self.b(x) if dist.get_rank() % 2 == 0 else self.c(x))

class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.nobody, self.last = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2)
    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))

class Words(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 3, sparse=sparse), nn.Linear(3, 2)
    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Linear(18, 2)
    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).flatten(1))

class Dtypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 3), nn.Linear(3, 3).double(), nn.Linear(3, 2)
    def forward(self, x):
        return self.last(self.second(torch.tanh(self.first(x)).double()).float())

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(4, 3), nn.Linear(2, 3, bias=False), nn.Linear(3, 2)
    def forward(self, x, y):
        return self.head(torch.tanh(self.left(x) + self.right(y)))

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.one, self.two, self.three = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 2)
    def forward(self, x):
        h = torch.tanh(self.trunk(x))
        return {"one": self.one(h), "more": (self.two(h), {"three": self.three(h)})}

class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.frozen, self.last = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        self.frozen.weight.requires_grad_(False)
        self.frozen.bias.requires_grad_(False)
    def forward(self, x):
        return self.last(torch.tanh(self.frozen(torch.tanh(self.first(x)))))

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, num_layers=2, batch_first=True), nn.Linear(4, 2)
    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out.mean(1))

class Buffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))
    def forward(self, x):
        y = self.linear(x)
        self.calls += 1
        self.mean.copy_(self.mean * 0.5 + y.detach().mean(0) * 0.5)
        return y - self.mean * 0.25

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)
    def forward(self, x):
        h = self.norm(x)
        weights = torch.softmax(torch.matmul(self.q(h), self.k(h).transpose(1, 2)) * 0.5, -1)
        return self.out(x + torch.matmul(weights, self.v(h))).mean(1)

class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2)
    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(torch.tanh(self.again(torch.tanh(self.again(h)))))

class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.linear = nn.Parameter(torch.tensor(1.0)), nn.Linear(4, 3)
        self.shift = nn.Parameter(torch.tensor(0.0))
    def forward(self, x):
        return self.linear(x) * self.scale + self.shift

def mlp():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))

def deep():
    return nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(2, 2), nn.Tanh())])

def vectors(*shape):
    return lambda seed: [numbers(shape, seed)]

def ids(seed):
    return [torch.tensor([[(seed * 5 + row * 3 + i * i) % 9 for i in range(3)] for row in range(4)])]

MODELS = [
    ["mlp", mlp, vectors(5, 6)],
    ["shared", Shared, vectors(5, 4)],
    ["branches", Branches, vectors(5, 4)],
    ["unused", Unused, vectors(5, 4)],
    ["embedding", lambda: Words(False), ids],
    ["sparse", lambda: Words(True), ids],
    ["conv", Conv, vectors(3, 1, 3, 3)],
    ["dtypes", Dtypes, vectors(5, 4)],
    ["two", Two, lambda seed: [numbers([5, 4], seed), numbers([5, 2], seed + 1)]],
    ["nested", Nested, vectors(5, 4)],
    ["frozen", Frozen, vectors(5, 4)],
    ["lstm", Recurrent, vectors(2, 3, 3)],
    ["buffer", Buffer, vectors(5, 4)],
    ["attention", Attention, vectors(2, 3, 4)],
    ["deep", deep, vectors(5, 2)],
    ["twice", Twice, vectors(5, 4)],
    ["scalar", Scalar, vectors(5, 4)],
]

EXTRAS = ["accumulate", "late", "hook", "ignore", "delay", "zeroed", "only", "not"]

def option_value(word):
    values = [{"true": True, "false": False}.get(part, part) for part in word.split(",")]
    try:
        values = [part if isinstance(part, bool) else float(part) for part in values]
    except ValueError:
        pass
    return values

def options_of(words):
    ddp, extras = {}, {}
    for word in words:
        name, _, value = word.partition("=")
        values = option_value(value) if value else [True]
        one = len(values) == 1 and not name.endswith("_list") and name not in ("only", "not")
        (extras if name in EXTRAS else ddp)[name] = values[0] if one else values
    return ddp, extras

def cases():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_options.txt")) as file:
        lines = [line.split() for line in file if line.strip() and line[0] != "#"]
    for model in MODELS:
        for name, *words in lines:
            ddp, extras = options_of(words)
            if model[0] in extras.get("only", [model[0]]) and model[0] not in extras.get("not", []):
                yield model, name, ddp, extras

def fill(net, rank):
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(numbers(p.shape, k + 3 * rank, 0.5))
        for b in net.buffers():
            if b.is_floating_point():
                b.add_(rank)

def loss_of(out):
    """A number: outputs named three are left out, as nobody needs them."""
    if isinstance(out, torch.Tensor):
        return (out * numbers(out.shape, 7)).square().mean() + out.mean()
    if isinstance(out, dict):
        return sum(loss_of(part) for name, part in sorted(out.items()) if name != "three")
    return sum(loss_of(part) for part in out if not isinstance(part, dict))

def checksum(tensors):
    total = 0.0
    for k, t in enumerate(tensors):
        if t is None:
            continue
        t = t.detach()
        for i, x in enumerate((t.to_dense() if t.is_sparse else t).flatten().tolist()):
            total += ((i * 7 + k * 13) % 11 - 4) / 4 * x
    return "%.6g" % total

def shortened(texts):
    """A text that is the one before it is "=" instead."""
    return " ".join("=" if i > 0 and text == texts[i - 1] else text for i, text in enumerate(texts))

def kinds(params):
    return "".join("-" if p.grad is None else "s" if p.grad.is_sparse else "d" for p in params)

class Run:
    """One model with one way to wrap it, on this rank."""
    def __init__(self, model, options, extras, rank, world):
        _, build, self.inputs = model
        self.extras, self.rank, self.world = extras, rank, world
        self.net, self.order, self.calls, self.works = build(), [], [], []
        fill(self.net, rank)
        self.params = list(self.net.parameters())
        names = [name for name, _ in self.net.named_parameters()]
        if "ignore" in extras:
            DDP._set_params_and_buffers_to_ignore_for_model(self.net, names[-1:])
        if "delay" in extras:
            options = dict(options, delay_all_reduce_named_params=list(zip(names[-2:], self.params[-2:])),
                           param_to_hook_all_reduce=self.params[0])
        for k, p in enumerate(self.params):
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda _, k=k: self.order.append(str(k)))
        self.ddp = DDP(self.net, **options)
        if "hook" in extras:
            self.ddp.register_comm_hook(None, self.hook)
        self.sgd = torch.optim.SGD(self.ddp.parameters(), lr=0.1)

    def hook(self, state, bucket):
        self.calls.append("%d:%d:%d%s" % (bucket.index(), len(bucket.parameters()), bucket.buffer().numel(),
                                          ":last" if bucket.is_last() else ""))
        work = dist.all_reduce(bucket.buffer().div_(self.world), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def loss(self, seed):
        return loss_of(self.ddp(*self.inputs(seed * 5 + self.rank)))

    def backward(self, loss):
        """What delay_all_reduce_named_params starts is waited for: nobody else does."""
        plain, works = dist.all_reduce, []
        def kept(*args, **kwargs):
            works.append(plain(*args, **kwargs))
            return works[-1]
        dist.all_reduce = kept
        try:
            loss.backward()
        finally:
            dist.all_reduce = plain
        for work in works:
            if work is not None:
                work.wait()

    def step(self, number):
        self.sgd.zero_grad(set_to_none="zeroed" not in self.extras)
        if "accumulate" in self.extras and not (number == 0 and "late" in self.extras):
            with self.ddp.no_sync():
                self.backward(self.loss(number + 50) / 2)
        loss = self.loss(number)
        self.order, self.calls = [], []
        self.backward(loss)
        return "%.6g" % loss.item()

def facts_of(run):
    losses, gradients, found, orders, calls = [], [], [], [], []
    try:
        for number in range(STEPS):
            losses.append(run.step(number))
            gradients.append(checksum(p.grad for p in run.params))
            found.append(kinds(run.params))
            orders.append(",".join(run.order))
            calls.append(",".join(run.calls))
            run.sgd.step()
        losses.append("%.6g" % run.loss(STEPS).item())
    except Exception as error:
        losses.append("raises " + type(error).__name__)
    data = run.ddp._get_ddp_logging_data()
    facts = [["losses", " ".join(losses)], ["gradients", " ".join(gradients + [shortened(found)])],
             ["weights", checksum(run.params)],
             ["order=", shortened(orders)],
             ["buckets=", "%s; cap %s; rebuilt %s of %s" % (data["bucket_sizes"], data["bucket_cap_bytes"],
              data.get("rebuilt_bucket_sizes", ""), data.get("rebuilt_per_bucket_param_indices", ""))]]
    if any(True for _ in run.net.buffers()):
        facts.append(["buffers", checksum(run.net.buffers())])
    if "hook" in run.extras:
        facts.append(["hook=", shortened(calls)])
    return facts

def work(rank):
    out = []
    for model, _, options, extras in cases():
        try:
            out.append(facts_of(Run(model, options, extras, rank, dist.get_world_size())))
        except Exception as error:
            out.append([["construction", "raises " + type(error).__name__]])
    return out

def main(world):
    twin.needs("2.15", "DistributedDataParallel had other options")
    ranks = twin.ranks(world, work)
    default = {}    # of this model: what it says word for word is not said again
    for at, (model, name, _, _) in enumerate(cases()):
        if name == "default":
            default = {}
        for k, (fact, first) in enumerate(ranks[0][at]):
            texts = [rank[at][k][1] for rank in ranks]
            text = first if all(text == first for text in texts) else " | ".join(texts)
            if not fact.endswith("=") or default.get(fact) != text:
                print("%s/%s/%s %s" % (model[0], name, fact, text))
            default.setdefault(fact, text)
