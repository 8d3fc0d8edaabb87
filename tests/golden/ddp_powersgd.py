#!/usr/bin/env python3
"""ddp_powersgd.py: makes ddp-powersgd-more.json beside this file with the PyTorch that runs it (2.15 or later, with gloo): training
under powerSGD_hook and batched_powerSGD_hook, and what the state remembers after each step. The form is that of ddp-train's
powersgd scenarios; where a scenario has no powersgd_random_q the random Q are PyTorch's own.

Two things are done to PyTorch. A hook's future is waited for at once, so that several buckets' collectives meet in one order on
all ranks, which gloo's threads do not promise. And batched_powerSGD_hook's P and Q, which 2.15 refuses to orthogonalize for being
matrices and not batches of them, are shown to it as batches of one.

    ddp_powersgd.py                what stands beside this file, again
    ddp_powersgd.py FOLDER SEED    the same file there with other models, worlds, options and numbers"""
import os, random, sys
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel as DDP
import collectives
import ddp
from ddp import MIB

HOOKS = {"powersgd": power.powerSGD_hook, "batched_powersgd": power.batched_powerSGD_hook}
ORTHOGONALIZE, RANDN = power._orthogonalize, torch.randn


def orthogonalize(matrices, epsilon=0):
    ORTHOGONALIZE(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)


power._orthogonalize = orthogonalize


def at_once(hook):
    def run(state, bucket):
        future = torch.futures.Future()
        future.set_result(hook(state, bucket).wait())
        return future
    return run


def remembered(memory):
    return {str(bucket): collectives.golden(t) for bucket, t in memory.items()}


def powersgd_rank(rank, case):
    model, drawn = ddp.build(case["model"]), []
    ddp.filled(model.named_parameters(), case["init_rank0"])
    dist._DEFAULT_FIRST_BUCKET_BYTES = case.get("first", ddp.DEFAULT_FIRST)
    wrapped = DDP(model, **case.get("kw", {}))
    dist._DEFAULT_FIRST_BUCKET_BYTES = ddp.DEFAULT_FIRST
    state = power.PowerSGDState(None, **case["psgd"])
    wrapped.register_comm_hook(state, at_once(HOOKS[case["hook"]]))
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"], momentum=case["momentum"])

    def rounded(*shape, **kw):
        drawn.append((RANDN(*shape, **kw) * 16).round() / 16)
        return drawn[-1].clone()

    out = {"steps": []}
    for step in range(case["count"]):
        optimizer.zero_grad()
        torch.randn = rounded if case["given"] else RANDN
        losses = ddp.train_step(wrapped, rank, case, step)
        torch.randn = RANDN
        grads = ddp.plain((name, p.grad) for name, p in model.named_parameters())
        optimizer.step()
        out["steps"].append({"losses": losses, "grads": grads, "sparse": [], "params": ddp.plain(model.named_parameters()), "buffers": {},
                             "powersgd": {"iter": state.iter, "error": remembered(state.error_dict), "p": remembered(state.p_memory_dict),
                                          "q": remembered(state.q_memory_dict), "stats": list(state.compression_stats())}})
    out["drawn"] = [collectives.golden(t) for t in drawn]
    return out


def powersgd_run(case, ranks):
    case = dict(case)
    given = case.pop("given")
    out = ddp.train_run(case, ranks)
    for step, *by_rank in zip(out["steps"], *(r["steps"] for r in ranks)):
        step["powersgd"] = [s["powersgd"] for s in by_rank]
    if given:
        assert all(r["drawn"] == ranks[0]["drawn"] for r in ranks)
        out["powersgd_random_q"] = ranks[0]["drawn"]
    return out


ddp.PARTS["powersgd"] = powersgd_rank, powersgd_run


def scenario(draw, name, model, psgd, **extra):
    numbers, world, batch = ddp.Numbers(draw), extra.pop("world", None) or draw.choice([2, 2, 2, 3]), draw.randrange(5, 8)
    case = {"part": "powersgd", "name": name, "model": model, "kind": "dense", "hook": "powersgd", "world": world, "batch": batch,
            "lr": draw.choice([0.0625, 0.125]), "momentum": draw.choice([0.0, 0.9]), "given": draw.random() < 0.5, **extra}
    case["psgd"] = {"start_powerSGD_iter": 2, "random_seed": draw.randrange(1000), **psgd}
    case["count"] = case["psgd"]["start_powerSGD_iter"] + draw.randrange(2, 4)
    first, last = (model[1][0], model[1][-1]) if model[0] == "Deep" else (model[1], model[-1])
    case["init_rank0"] = numbers.params(model)
    case["inputs"] = [[numbers.tensor([batch, first]) for _ in range(case["count"])] for _ in range(world)]
    case["targets"] = [[numbers.tensor([batch, last]) for _ in range(case["count"])] for _ in range(world)]
    return case


def cases_of(draw):
    def size(low=6, high=11):
        return draw.randrange(low, high)

    def mlp():
        return ["MLPN", size(), size(), draw.randrange(2, 5)]

    def cap():
        return {"kw": {"bucket_cap_mb": draw.randrange(100, 400) / MIB}, "first": draw.randrange(1, 200)}

    off, square = {"use_error_feedback": False, "warm_start": False}, size(5, 9)
    same, smooth = ["Deep", [square] * 4], ["MLPN", square, square, square]
    rank, rate = "matrix_approximation_rank", "min_compression_rate"
    # From rank 3 on columns are orthogonalized by QR, whose signs hang on elements that relu's dead units make 0.
    cases = [
        scenario(draw, "rank 1", mlp(), {rate: 0.5}),
        scenario(draw, "rank 2", mlp(), {rank: 2, rate: 0.5}),
        scenario(draw, "rank 3", mlp(), {rank: 3, rate: 0.25}),
        scenario(draw, "rank 4", mlp(), {rank: 4, rate: 0.25}),
        scenario(draw, "rank 3 cold", mlp(), {rank: 3, rate: 0.25, "warm_start": False}),
        scenario(draw, "rank 2 without feedback", mlp(), {rank: 2, rate: 0.5, "use_error_feedback": False}),
        scenario(draw, "neither", mlp(), {rank: 1, rate: 0.5, **off}),
        scenario(draw, "from the first iteration", mlp(), {rank: 1, rate: 0.5, "start_powerSGD_iter": 0, **off}),
        scenario(draw, "from the second iteration", mlp(), {rank: 2, rate: 0.5, "start_powerSGD_iter": 1, **off}, **cap()),
        scenario(draw, "the rate of two", ["MLPN", size(10, 16), size(10, 16), 3], {}),
        scenario(draw, "nothing is worth it", mlp(), {rate: 100}),
        scenario(draw, "epsilon", mlp(), {rank: 2, rate: 0.5, "orthogonalization_epsilon": 0.0078125}),
        scenario(draw, "same shapes", same, {rank: 1, rate: 0.5}),
        scenario(draw, "same shapes together", same, {rank: 1, rate: 0.5, "batch_tensors_with_same_shape": True}),
        scenario(draw, "same shapes together, rank 3", smooth, {rank: 3, rate: 0.25, "batch_tensors_with_same_shape": True}),
        scenario(draw, "same shapes together, several buckets", same,
                 {rank: 2, rate: 0.5, "batch_tensors_with_same_shape": True, "warm_start": False}, **cap()),
        scenario(draw, "several buckets", mlp(), {rank: 1, rate: 0.5}, **cap()),
        scenario(draw, "several buckets cold", ["Deep", [size(), size(), size(), 3]], {rank: 2, rate: 0.5, "warm_start": False}, **cap()),
        scenario(draw, "views", mlp(), {rank: 2, rate: 0.5}, kw={"gradient_as_bucket_view": True}),
        scenario(draw, "static graph", mlp(), {rank: 1, rate: 0.5}, kw={"static_graph": True}),
        scenario(draw, "one rank", mlp(), {rank: 2, rate: 0.5}, world=1),
        scenario(draw, "Linear", ["Linear", size(), size()], {rank: 2, rate: 0.5}),
        scenario(draw, "batched", mlp(), {rank: 1}, hook="batched_powersgd"),
        scenario(draw, "batched rank 2", mlp(), {rank: 2}, hook="batched_powersgd"),
        scenario(draw, "batched rank 3 cold", mlp(), {rank: 3, "warm_start": False}, hook="batched_powersgd"),
        scenario(draw, "batched without feedback", mlp(), {rank: 1, "use_error_feedback": False}, hook="batched_powersgd"),
        scenario(draw, "batched, several buckets", mlp(), {rank: 1}, hook="batched_powersgd", **cap()),
    ]
    return cases


def main():
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.path.dirname(os.path.abspath(__file__)), 1)
    os.makedirs(folder, exist_ok=True)
    cases = cases_of(random.Random(seed))
    ddp.write(folder, "ddp-powersgd-more.json", {"read": "as the powersgd scenarios of ddp-train.json; hook batched_powersgd: "
              "batched_powerSGD_hook; stats: state.compression_stats()"}, scenarios=ddp.run([(case["part"], case) for case in cases]))


if __name__ == "__main__":
    main()
