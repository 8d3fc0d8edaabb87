# Makes optim-more.json and train-digits-more.json anew: takes each case's inputs from the file, asks the PyTorch that
# runs this what comes out, and writes the file again. python more.py FILE...
import csv, gzip, json, os, struct, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data.distributed import DistributedSampler

DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "bool": torch.bool}

# ---- numbers in and out ----

def single(value):
    if value != value or value in (float("inf"), float("-inf")):
        return repr(value)
    for digits in range(1, 10):
        text = "%.*g" % (digits, value)
        if struct.pack("f", float(text)) == struct.pack("f", value):
            return float(text)

def double(value):
    return value if value - value == 0 else repr(value)

def tensor(golden):
    values = [float(v) for v in golden["data"]]
    return torch.tensor(values, dtype=DTYPES[golden["dtype"]]).reshape(golden["shape"])

def told(t):
    name = next(name for name, dtype in DTYPES.items() if dtype == t.dtype)
    spell = single if name == "f32" else double
    return {"dtype": name, "shape": list(t.shape), "data": [spell(v) for v in t.detach().flatten().tolist()]}

# ---- optimizers, clipping, schedules ----

OPTIONS = {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "betas", "eps", "amsgrad",
           "decoupled_weight_decay"}

def options(attrs):
    return {name: tuple(value) if name == "betas" else value for name, value in attrs.items() if name in OPTIONS}

def optimizer_case(case):
    params = [nn.Parameter(tensor(p)) for p in case["params"]]
    kind = getattr(torch.optim, case["optimizer"])
    given = options(case.get("attrs", {}))
    if case["optimizer"] == "AdamW":
        given.pop("decoupled_weight_decay", None)
    groups = [{**options(g), "params": [params[i] for i in g["params"]]} for g in case.get("groups", [])]
    opt = kind(groups or params, **given)
    if not groups:
        case["attrs"] = {k: list(v) if k == "betas" else v for k, v in opt.defaults.items()}
    for step in case["steps"]:
        if "idx" in step:
            opt.zero_grad()
            out = nn.functional.embedding(tensor(step["idx"]), params[0], sparse=True)
            (out * tensor(step["w"])).sum().backward()
        else:
            for param, golden in zip(params, step["grads"]):
                param.grad = None if golden is None else tensor(golden)
        opt.step()
        step["params"] = [told(p) for p in params]
    if "state" in case:
        case["state"] = [{name: told(v) if isinstance(v, torch.Tensor) else v for name, v in opt.state.get(p, {}).items()}
                         for p in params]

def clip_case(case):
    params = []
    for golden in case["grads"]:
        params.append(nn.Parameter(tensor(golden) if golden else torch.zeros(1)))
        params[-1].grad = tensor(golden) if golden else None
    clip = {name: float(value) for name, value in case["clip"].items()}
    if "clip_value" in clip:
        nn.utils.clip_grad_value_(params, clip["clip_value"])
    else:
        case["total_norm"] = told(nn.utils.clip_grad_norm_(params, clip["max_norm"], clip["norm_type"]))
    case["grads_after"] = [None if p.grad is None else told(p.grad) for p in params]

def scheduler(opt, golden):
    given = {name: value for name, value in golden.items() if name not in ("kind", "parts", "milestones", "lambda")}
    if golden["kind"] == "SequentialLR":
        return lr_scheduler.SequentialLR(opt, [scheduler(opt, part) for part in golden["parts"]], golden["milestones"])
    if golden["kind"] == "MultiStepLR":
        given["milestones"] = golden["milestones"]
    if golden["kind"] == "LambdaLR":
        given["lr_lambda"] = eval("lambda e: " + golden["lambda"].replace("^", "**"))
    return getattr(lr_scheduler, golden["kind"])(opt, **given)

def scheduler_case(case):
    opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=case["base_lr"])
    schedule, lrs = scheduler(opt, case["scheduler"]), []
    for _ in case["lrs"]:
        lrs.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    case["lrs"] = lrs

# ---- training on the digits ----

def digits():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lessons/data/digits.csv.gz")
    rows = torch.tensor([[float(v) for v in row] for row in csv.reader(gzip.open(path, "rt"))])
    return rows[:, :64] / 16, rows[:, 64].long()

def build(case):
    if case["model"] == "cnn":
        c = case["channels"]
        return nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(16 * c, 10))
    layers, activation = [], {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "sigmoid": nn.Sigmoid}[case["activation"]]
    for i, (before, after) in enumerate(zip(case["sizes"], case["sizes"][1:])):
        layers += [nn.Linear(before, after)] + ([activation()] if i < len(case["sizes"]) - 2 else [])
    return nn.Sequential(*layers)

def order(case, rank, epoch):
    if rank is None:
        generator = torch.Generator()
        generator.manual_seed(case["seed"] + epoch)
        return torch.randperm(1438, generator=generator).tolist()
    sampler = DistributedSampler(range(1438), case["world"], rank, shuffle=True, seed=case["seed"])
    sampler.set_epoch(epoch)
    return list(sampler)

def train(case, rank):
    x, y = digits()
    if case["model"] == "cnn":
        x = x.reshape(-1, 1, 8, 8)
    torch.manual_seed(case["seed"])
    net = build(case)
    cap = {"bucket_cap_mb": case["bucket_cap_mb"]} if "bucket_cap_mb" in case else {}
    model = net if rank is None else nn.parallel.DistributedDataParallel(net, **cap)
    given = {k: tuple(v) if k == "betas" else v for k, v in case["optimizer"].items() if k != "name"}
    opt, losses = getattr(torch.optim, case["optimizer"]["name"])(net.parameters(), **given), []
    for epoch in range(case["epochs"]):
        rows = order(case, rank, epoch)
        for at in range(0, len(rows), case["batch"]):
            batch = rows[at:at + case["batch"]]
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            opt.step()
            losses.append(loss.item())
    net.eval()
    right = int((net(x[1438:]).argmax(1) == y[1438:]).sum())
    return losses, right, sum(p.detach().double().abs().sum().item() for p in net.parameters())

def rank_of(rank, case, meet, answers):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=case["world"])
    answers.put((rank, train(case, rank)))
    dist.barrier()
    dist.destroy_process_group()

def train_case(case):
    if case["world"] == 1:
        case["losses"], case["test_correct"], case["abs_sum"] = train(case, None)
        return
    context, meet = mp.get_context("spawn"), os.path.abspath("more.py.meet.%d" % os.getpid())
    answers = context.SimpleQueue()
    ranks = [context.Process(target=rank_of, args=(r, case, meet, answers)) for r in range(case["world"])]
    for process in ranks:
        process.start()
    results = [answer for _, answer in sorted(answers.get() for _ in ranks)]
    for process in ranks:
        process.join()
    if os.path.exists(meet):
        os.remove(meet)
    case["losses"] = [losses for losses, _, _ in results]
    case["test_correct"], case["abs_sum"] = results[0][1:]

# ---- files ----

def again(case):
    if "epochs" in case:
        train_case(case)
    elif "steps" in case:
        optimizer_case(case)
    elif "clip" in case:
        clip_case(case)
    else:
        scheduler_case(case)

def make(path):
    with open(path) as file:
        golden = json.load(file)
    golden["header"]["torch"] = torch.__version__.split("+")[0] + " (CPU)"
    golden["header"]["made"] = "python tests/golden/more.py " + os.path.basename(path) + ": inputs are the file's own"
    for case in golden["cases"]:
        again(case)
    with open(path, "w") as file:
        json.dump(golden, file, separators=(",", ":"), ensure_ascii=False)

if __name__ == "__main__":
    torch.set_num_threads(1)
    for path in sys.argv[1:]:
        make(path)
