#!/usr/bin/env python3
"""ddp_errors.py: makes ddp-errors-more.json beside this file with the PyTorch that runs it (2.15 or later, with gloo): what the
cases of ddp-errors.json raise in other worlds, each rank a process of its own, each case a group of its own.

    ddp_errors.py                what stands beside this file, again
    ddp_errors.py FOLDER SEED    the same file there with other worlds"""
import json, os, random, re, sys, tempfile, time, warnings
from datetime import timedelta
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
import ddp

warnings.filterwarnings("ignore")

# ---- the cases: f(rank, world) ----


def branches(options, *uses):
    wrapped = DDP(ddp.build(["Branch", 3, 2]), **options)
    for used in uses:
        wrapped(torch.ones(1, 3), used).sum().backward()
    wrapped(torch.ones(1, 3), uses[0])


class Pair(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.a, self.b = nn.Linear(size, size), nn.Linear(size, size)


class Outputs(Pair):
    def forward(self, x):
        return self.a(x), self.b(x)


class Twice(Pair):
    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.a, self.b(x), use_reentrant=True)
        return x


def half_used(**options):
    module = Outputs(2)
    wrapped = DDP(module, **options)
    for _ in range(2):
        wrapped(torch.ones(1, 2))[0].sum().backward()
    return {"no_error": True, "b_grad_is_none": module.b.weight.grad is None}


def ready_twice(**options):
    wrapped = DDP(Twice(3), **options)
    wrapped(torch.ones(1, 3, requires_grad=True)).sum().backward()
    return {"no_error": True}


def nothing_to_train(rank, world):
    module = ddp.build(["MLP", 2, 2, 2])
    for p in module.parameters():
        p.requires_grad_(False)
    DDP(module)


def late_static(rank, world):
    wrapped = DDP(nn.Linear(2, 2))
    wrapped(torch.ones(1, 2)).sum().backward()
    wrapped._set_static_graph()


def hook_twice(rank, world):
    wrapped = DDP(nn.Linear(2, 2))
    for _ in range(2):
        wrapped.register_comm_hook(None, ddp.averaging_hook(world))


def hook_of_a_number(rank, world):
    wrapped = DDP(nn.Linear(2, 2))
    wrapped.register_comm_hook(None, lambda _, bucket: 1)
    wrapped(torch.ones(1, 2)).sum().backward()


def gather_into(count, size, dtype):
    dist.all_gather([torch.zeros(size, dtype=dtype) for _ in range(count)], torch.ones(2))


def never_joins(rank, world):
    if rank == 0:
        dist.all_reduce(torch.ones(2))


def first_and_last(rank, world):
    if rank in (0, world - 1):
        dist.monitored_barrier(timeout=timedelta(seconds=2))


def first_alone(rank, world):
    if rank == 0:
        dist.monitored_barrier(timeout=timedelta(seconds=2), wait_all_ranks=True)


CASES = {
    "parameter shapes differ across ranks": lambda rank, world: DDP(ddp.build(["MLP", 4, 5 + rank, 3])) and None,
    "parameter counts differ across ranks": lambda rank, world: DDP(ddp.build(["Deep", [3] * (3 + rank)])) and None,
    "no parameter requires grad": nothing_to_train,
    "unused parameter, default flags, second forward": lambda rank, world: branches({}, [1]),
    "the same at debug level INFO": lambda rank, world: branches({}, [1]),
    "output not used in the loss, default flags, second forward": lambda rank, world: half_used(),
    "output not used in the loss, find_unused_parameters": lambda rank, world: half_used(find_unused_parameters=True),
    "parameter marked ready twice (reentrant checkpoint twice over one module)": lambda rank, world: ready_twice(),
    "the same with find_unused_parameters": lambda rank, world: ready_twice(find_unused_parameters=True),
    "the same with static_graph": lambda rank, world: ready_twice(static_graph=True),
    "device_ids on a CPU module": lambda rank, world: DDP(nn.Linear(2, 2), device_ids=[0]),
    "two device_ids": lambda rank, world: DDP(nn.Linear(2, 2), device_ids=[0, 1]),
    "output_device on a CPU module": lambda rank, world: DDP(nn.Linear(2, 2), output_device=1),
    "uninitialized (lazy) parameter": lambda rank, world: DDP(nn.LazyLinear(2)),
    "register_comm_hook twice": hook_twice,
    "comm hook not callable": lambda rank, world: DDP(nn.Linear(2, 2)).register_comm_hook(None, 1),
    "comm hook returns no Future": hook_of_a_number,
    "static_graph: a parameter stops being used": lambda rank, world: branches({"static_graph": True}, [0, 1], [0, 1], [0]),
    "static_graph: an unused parameter gets used": lambda rank, world: branches({"static_graph": True}, [0], [0], [0, 1]),
    "static_graph set after the first iteration": late_static,
    "broadcast from a rank outside the group": lambda rank, world: dist.broadcast(torch.ones(2), world + 3),
    "all_reduce of something not a tensor": lambda rank, world: dist.all_reduce([1, 2]),
    "all_gather output list of the wrong length": lambda rank, world: gather_into(world + 1, 2, torch.float32),
    "all_gather dtype differs": lambda rank, world: gather_into(world, 2, torch.float64),
    "all_gather output sizes differ": lambda rank, world: gather_into(world, 3, torch.float32),
    "scatter_list on a non-source rank": lambda rank, world: dist.scatter(torch.zeros(2), [torch.ones(2)] * world, 0),
    "gather without gather_list on dst": lambda rank, world: dist.gather(torch.ones(2), None, 0),
    "send to self": lambda rank, world: dist.send(torch.ones(2), rank),
    "AVG on gloo": lambda rank, world: dist.all_reduce(torch.ones(2), dist.ReduceOp.AVG),
    "BAND of floats": lambda rank, world: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND),
    "all_reduce of a non-contiguous tensor": lambda rank, world: dist.all_reduce(torch.ones(3, 2).t()),
    "new_group with a rank outside the world": lambda rank, world: dist.new_group([0, world + 1]) and None,
    "monitored_barrier: a rank is missing": first_and_last,
    "monitored_barrier wait_all_ranks: two ranks are missing": first_alone,
    "DETAIL: different collectives": lambda rank, world: (dist.all_reduce(torch.ones(2)) if rank == 0 else
                                                          dist.broadcast(torch.ones(2), 0)),
    "DETAIL: different shapes": lambda rank, world: dist.all_reduce(torch.ones(2 + rank)),
    "a rank never joins the collective": never_joins,
}
LEVELS = {"the same at debug level INFO": "INFO", "DETAIL: different collectives": "DETAIL", "DETAIL: different shapes": "DETAIL"}

# ---- what an exception says ----

GONE = re.compile(r"Connection closed by peer|Connection reset|Broken pipe|peer closed|Socket closed")
NAMES = re.compile(r"\b(?:stem|fc\d|[a-c]|br\.\d|layers\.\d)\.(?:weight|bias)\b")


def told(error):
    text, kind = str(error).split("\nException raised from")[0], type(error).__name__
    kind = "RuntimeError" if kind in ("DistBackendError", "DistNetworkError") else kind
    if GONE.search(text) and "onitored" not in text:
        return {"type": kind, "transport": "peer gone"}
    if "Timed out" in text and "onitored" not in text:
        return {"type": kind, "transport": "timed out"}
    text = re.sub(r"\[[^\]]*\.(?:cpp|cc|h):\d+\]|\S+\.(?:cpp|cc|h):\d+|\[?\d+\.\d+\.\d+\.\d+\]?:\d+", "", text)
    names = sorted(set(NAMES.findall(text)))
    for name in names:
        text = text.replace(name, "")
    return {"type": kind, "mentions": [], "ranks": sorted({int(n) for n in re.findall(r"[Rr]ank[s:]* (\d+)", text)}),
            "numbers": [int(n) for n in re.findall(r"(?<![\w.])\d+(?![\w.]*[a-z])", text)], "names": names, "text": str(error)[:400]}


def rank_main(rank, world, case, folder):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = LEVELS.get(case, "OFF")
    dist.set_debug_level_from_env()
    torch.set_num_threads(1)
    store, patience = dist.FileStore(os.path.join(folder, "store"), world), timedelta(seconds=2 if "never" in case else 20)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=patience)
    try:
        out = {"returns": CASES[case](rank, world)}
    except Exception as error:
        out = told(error)
    with open(os.path.join(folder, str(rank)), "w") as file:
        json.dump(out, file)
    if "returns" in out:  # stays while others wait
        while sum(os.path.exists(os.path.join(folder, str(r))) for r in range(world)) < world:
            time.sleep(0.05)
    os._exit(0)


def run(case, world):
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (world, case, folder), nprocs=world)
        by_rank = []
        for rank in range(world):
            with open(os.path.join(folder, str(rank))) as file:
                by_rank.append(json.load(file))
    return {"case": case, "world": world, "by_rank": by_rank}


def main():
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.path.dirname(os.path.abspath(__file__)), 1)
    os.makedirs(folder, exist_ok=True)
    draw, cases = random.Random(seed), []
    for case in CASES:
        cases.append(run(case, draw.randrange(3, 5)))
    for case in cases:
        for entry in case["by_rank"]:
            text = entry.pop("text", None)
            if text:
                print(f"{case['case']} | {text}")
    header = {"format": "ringside-golden-1", "torch": torch.__version__, "backend": "gloo, CPU, one thread a rank",
              "read": "as ddp-errors.json"}
    with open(os.path.join(folder, "ddp-errors-more.json"), "w") as file:
        file.write('{"header": %s,\n"cases": [\n%s]}\n' % (json.dumps(header), ",\n".join(map(json.dumps, cases))))


if __name__ == "__main__":
    main()
