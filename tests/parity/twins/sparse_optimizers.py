import math
import torch
from torch import nn, optim
import twin
twin.needs("2.15", "rounding of fused sums")
torch.set_num_threads(1)
cases = [
    ("sgd", "SGD", dict(lr=0.1)),
    ("maximize", "SGD", dict(lr=0.3, maximize=True)),
    ("momentum", "SGD", dict(lr=0.1, momentum=0.9)),
    ("dampening", "SGD", dict(lr=0.1, momentum=0.9, dampening=0.3)),
    ("nesterov", "SGD", dict(lr=0.1, momentum=0.9, nesterov=True)),
    ("adagrad", "Adagrad", dict()),
    ("adagrad_decay", "Adagrad", dict(lr=0.3, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-4)),
    ("adagrad_maximize", "Adagrad", dict(lr=0.3, maximize=True)),
    ("sparse_adam", "SparseAdam", dict()),
    ("sparse_adam_options", "SparseAdam", dict(lr=0.02, betas=(0.7, 0.95), eps=1e-6, maximize=True)),
]
looked = [[2, 0, 2, 5], [1, 3], [3, 5, 3, 0], [4], [], [2, 4, 1, 2]]


def table(dtype):
    w = torch.tensor([[((i * 37 + j * 11) % 23 - 11) / 7 for j in range(5)] for i in range(7)], dtype=dtype)
    return nn.Parameter(w)


# MKL's square root of floats is not always the nearest, so what went through one agrees within rounding.
def show(name, t):
    print(name + ("" if "ada" in name or "dense" in name else "="), *("%.17g" % x for x in t.detach().double().flatten().tolist()))


for dtype in (torch.float32, torch.float64):
    for label, kind, options in cases:
        label += "." + str(dtype)[-2:]
        w, still = table(dtype), table(dtype)
        opt = getattr(optim, kind)([w, still], **options)
        for step, ids in enumerate(looked):
            opt.zero_grad()
            out = nn.functional.embedding(torch.tensor(ids, dtype=torch.int64), w, sparse=True)
            scale = torch.tensor([0.3, -1.1, 0.7, 2.0, -0.9], dtype=dtype)
            (out * out * scale).sum().backward()
            opt.step()
            show("%s.%d" % (label, step), w)
        print(label + ".still=", torch.equal(still, table(dtype)))
        state = opt.state_dict()["state"]
        print(label + ".states=", *sorted(state))
        for key in ("momentum_buffer", "exp_avg", "exp_avg_sq", "sum"):
            if 0 in state and key in state[0]:
                t = state[0][key]
                if t.is_sparse:
                    print(label + ".rows=", *t._indices().flatten().tolist())
                    t = t._values()
                show(label + "." + key, t)
        if 0 in state and "step" in state[0]:
            print(label + ".step=", int(state[0]["step"]), isinstance(state[0]["step"], torch.Tensor))

# Dense gradients of Adagrad; sums start from what is given.
for dtype in (torch.float32, torch.float64):
    for label, options in (("dense", dict()), ("dense_decay", dict(lr=0.2, lr_decay=0.5, weight_decay=0.1)),
                           ("dense_other", dict(lr=0.2, initial_accumulator_value=0.25, eps=1e-3, maximize=True))):
        label += "." + str(dtype)[-2:]
        w = table(dtype)
        opt = optim.Adagrad([w], **options)
        for step in range(5):
            opt.zero_grad()
            (w * w * w).sum().backward()
            opt.step()
            show("%s.%d" % (label, step), w)
        show(label + ".sum", opt.state[w]["sum"])

# A gradient of the other kind.
w = table(torch.float32)
opt = optim.SGD([w], lr=0.1, momentum=0.9)
(w * w).sum().backward()
opt.step()
opt.zero_grad()
nn.functional.embedding(torch.tensor([1, 1]), w, sparse=True).sum().backward()
opt.step()
show("dense_then_sparse", w)
print("buffer=", opt.state[w]["momentum_buffer"].is_sparse)


def kind(label, f):
    try:
        f()
        print(label + "=", "fine")
    except Exception as e:
        print(label + "=", type(e).__name__)


def step_of(make, sparse):
    w = table(torch.float32)
    if sparse:
        nn.functional.embedding(torch.tensor([1, 1]), w, sparse=True).sum().backward()
    else:
        (w * w).sum().backward()
    make([w]).step()


kind("adam", lambda: step_of(optim.Adam, True))
kind("adamw", lambda: step_of(optim.AdamW, True))
kind("sgd_decay", lambda: step_of(lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1), True))
kind("adagrad_weight_decay", lambda: step_of(lambda p: optim.Adagrad(p, weight_decay=0.1), True))
kind("sparse_adam_dense", lambda: step_of(optim.SparseAdam, False))
kind("lr0", lambda: optim.SparseAdam([table(torch.float32)], lr=0))
kind("adagrad_lr0", lambda: optim.Adagrad([table(torch.float32)], lr=0))
kind("eps0", lambda: optim.SparseAdam([table(torch.float32)], eps=0))
kind("beta", lambda: optim.SparseAdam([table(torch.float32)], betas=(1.0, 0.9)))
kind("lr_decay", lambda: optim.Adagrad([table(torch.float32)], lr_decay=-1))
kind("initial", lambda: optim.Adagrad([table(torch.float32)], initial_accumulator_value=-1))
sparse = torch.sparse_coo_tensor([[1]], [[1., 2.]], (4, 2))
kind("sparse_parameter", lambda: optim.SparseAdam([sparse]))
for opt in (optim.SparseAdam([table(torch.float32)]), optim.Adagrad([table(torch.float32)])):
    print("print=", str(opt).replace(" ", "_").replace("\n", "|"))
    print("states=", *sorted(opt.state_dict()["state"]))
