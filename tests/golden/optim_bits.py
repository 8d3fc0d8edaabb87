#!/usr/bin/env python3
"""optim_bits.py: makes optim-bits.json beside this file with the PyTorch that runs it (2.15 or later, on a CPU with FMA): some steps
of each optimizer in the form that it has by default there, ten thousand elements a case, told to the bit.

Parameters and gradients are drawn, so only what comes out is kept: of a tensor its first elements and a sum over the bits of each
block of `block` elements.

One thing is done to PyTorch: its square roots are rounded as IEEE 754 says. Those of MKL, which it calls on x86, are an
approximation of the processor's with a step of Newton's after it: one in six is the neighbouring float, and which ones the
maker of the processor decides. Where PyTorch is built without MKL they are IEEE 754's."""
import json, os
import numpy as np
import torch

SEED, BLOCK, COUNT, FIRST, STEPS = 281, 500, 10007, 3, 3
ROWS, PICKED, COLUMNS = 300, 200, 50
DTYPES = {"f32": (torch.float32, np.uint32), "f64": (torch.float64, np.uint64)}
USUAL, TINY = (-8, 16), {"f32": (-140, -105), "f64": (-1065, -1000)}

CASES = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.003, "weight_decay": 0.01}), ("SGD", {"lr": 0.07, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.03, "momentum": 0.7, "nesterov": True, "weight_decay": 0.05, "maximize": True}),
    ("SGD", {"lr": 0.2, "momentum": 0.95, "dampening": 0.1, "weight_decay": 1e-4, "maximize": True}),
    ("Adam", {}), ("Adam", {"lr": 0.02, "betas": [0.8, 0.97], "eps": 1e-5}), ("Adam", {"betas": [0.3, 0.5]}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.05}), ("Adam", {"amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "betas": [0.5, 0.9], "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}), ("AdamW", {"lr": 0.03, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("Adagrad", {}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.03, "weight_decay": 0.02}),
    ("Adagrad", {"initial_accumulator_value": 0.3, "eps": 1e-6, "maximize": True}),
]
SPARSE = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.03}), ("SparseAdam", {}), ("SparseAdam", {"betas": [0.7, 0.9], "maximize": True}),
]


def rooted(t):
    return torch.from_numpy(np.sqrt(t.detach().numpy()))


torch.Tensor.sqrt = rooted
torch.Tensor.sqrt_ = lambda t: t.copy_(rooted(t))


def drawn(case, shape):
    low, high = case["exponents"]
    dtype, _ = DTYPES[case["dtype"]]
    powers = torch.tensor([2.0 ** k for k in range(low, high + 1)], dtype=dtype)
    return (torch.rand(shape, dtype=dtype) * 2 - 1) * powers[torch.randint(0, high - low + 1, shape)]


def gradient(case, shape):
    if not case["sparse"]:
        return drawn(case, shape)
    rows = torch.randperm(shape[0])[:case["sparse"]]
    return torch.sparse_coo_tensor(rows.unsqueeze(0), drawn(case, [case["sparse"], shape[1]]), shape, check_invariants=True)


def told(case, t):
    _, word = DTYPES[case["dtype"]]
    t = (t.to_dense() if t.is_sparse else t.detach()).reshape(-1)
    words, sums = t.numpy().view(word).tolist(), ""
    for at in range(0, len(words), BLOCK):
        sum = 0
        for each in words[at:at + BLOCK]:
            sum = (sum ^ each) * 0x100000001b3 & 0xffffffffffffffff
        sums += f"{sum >> 32:08x}"
    return {"first": t[:FIRST].tolist(), "sums": sums}


def run(case):
    torch.manual_seed(case["seed"])
    param = torch.nn.Parameter(drawn(case, case["shape"]))
    opt = getattr(torch.optim, case["optimizer"])([param], **case["attrs"])
    for _ in range(STEPS):
        param.grad = gradient(case, case["shape"])
        opt.step()
        case["params"].append(told(case, param))
    for name, t in opt.state[param].items():
        if name != "step" and t is not None:
            case["state"][name] = told(case, t)


def case_of(kind, attrs, dtype, sparse, exponents):
    name = f"{'sparse ' if sparse else ''}{kind} {attrs} {dtype}{'' if exponents == USUAL else ', tiny'}"
    case = {"name": name, "optimizer": kind, "attrs": attrs, "dtype": dtype, "seed": SEED, "sparse": sparse and PICKED,
            "shape": [ROWS, COLUMNS] if sparse else [COUNT], "exponents": list(exponents), "block": BLOCK,
            "params": [], "state": {}}
    run(case)
    return case


def main():
    tiny = [CASES[i] for i in (1, 3, 5, 8, 10, 15, 17)]
    cases = [case_of(*each, dtype, False, USUAL) for dtype in DTYPES for each in CASES]
    cases += [case_of(*each, dtype, False, TINY[dtype]) for dtype in DTYPES for each in tiny]
    cases += [case_of(*each, dtype, True, USUAL) for dtype in DTYPES for each in SPARSE]
    header = {"format": "ringside-golden-1", "set": "bits", "torch": f"{torch.__version__.split('+')[0]} (CPU)",
              "about": "steps of optimizers to the bit",
              "how_to_read": "Seeded; then the parameter is drawn, and before each step its gradient (sparse: rows of a randperm, as many "
              "as `sparse` says, then their values): (2 rand - 1) 2^k, k = exponents[0] + randint(0, exponents[1] - "
              "exponents[0] + 1). params: after each step; state: after the last. first: elements; sums: for each block of `block` "
              "elements eight digits, the upper half of the sum that begins at 0 and becomes (sum xor bits) 0x100000001b3 mod 2^64 "
              "with each element. Square roots are IEEE 754's."}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim-bits.json")
    with open(path, "w") as out:
        lines = ",\n".join(json.dumps(case) for case in cases)
        out.write('{"header": %s,\n"bits": [\n%s\n]}\n' % (json.dumps(header), lines))


if __name__ == "__main__":
    main()
