# Training under DistributedDataParallel stops after step 4 and goes on: with everything, and with a part left out.
import io
import torch
from torch import nn
import torch.nn.functional as F
import twin

# As the samples and the first weights: numbers that any generator gives.
def grid(*shape):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(float(count)) * 7 % 11 / 11 - 0.4).reshape(shape)

CASES = [("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5)),
         ("nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01),
          lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)),
         ("adam", lambda p: torch.optim.Adam(p, lr=0.05), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6)),
         ("adamw", lambda p: torch.optim.AdamW(p, lr=0.05, amsgrad=True),
          lambda o: torch.optim.lr_scheduler.LinearLR(o, total_iters=5)),
         ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
          lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 5], 0.5))]

def train(rank, optimizer, schedule, first, last, state=None, without=None):
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(grid(*p.shape))
    ddp = nn.parallel.DistributedDataParallel(net)
    opt = optimizer(ddp.parameters())
    sched = schedule(opt)
    torch.manual_seed(5 + rank)
    if state is not None:
        parts = torch.load(io.BytesIO(state), weights_only=True)
        ddp.load_state_dict(parts["model"])
        if without != "opt":
            opt.load_state_dict(parts["opt"])
        if without != "sched":
            sched.load_state_dict(parts["sched"])
        if without != "rng":
            torch.set_rng_state(parts["rng"])
    losses = []
    for step in range(first, last):
        x = grid(4, 3) * (step + 1) + rank
        opt.zero_grad()
        mask = (torch.rand(4, 3) > 0.3).float()     # a dropout that every build draws alike
        loss = ((ddp(x * mask) - grid(4, 1)) ** 2).mean()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    out = io.BytesIO()
    torch.save({"model": ddp.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                "rng": torch.get_rng_state()}, out)
    return losses, out.getvalue()

def work(rank):
    lines = []
    for name, optimizer, schedule in CASES:
        whole, _ = train(rank, optimizer, schedule, 0, 8)
        early, state = train(rank, optimizer, schedule, 0, 4)
        late, _ = train(rank, optimizer, schedule, 4, 8, state)
        lines.append("rank%d-%s %s" % (rank, name, " ".join("%.9g" % loss for loss in whole)))
        lines.append("rank%d-%s-same= %d" % (rank, name, whole == early + late))
        for without in "opt", "sched", "rng":
            rest, _ = train(rank, optimizer, schedule, 4, 8, state, without)
            first = next((5 + i for i in range(4) if rest[i] != late[i]), 0)
            lines.append("rank%d-%s-without-%s-differs-first-in= %d" % (rank, name, without, first))
    return lines

def told(load):
    try:
        load()
    except RuntimeError as error:
        return "|".join(part.strip() for part in str(error).splitlines())

def prefixes():
    net, wrapped = nn.Sequential(nn.Linear(2, 1), nn.LayerNorm(1)), nn.DataParallel(nn.Sequential(nn.Linear(2, 1), nn.LayerNorm(1)))
    state = dict(sorted(wrapped.state_dict().items()))
    own = dict(sorted(net.state_dict().items()))
    print("wrapped-into-plain=", told(lambda: net.load_state_dict(state)))
    print("plain-into-wrapped=", told(lambda: wrapped.load_state_dict(own)))
    print("not-strict=", told(lambda: net.load_state_dict(state, strict=False)) is None)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    print("consumed=", *sorted(state))
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    print("consumed-twice=", *sorted(state))
    net.load_state_dict(state)
    other = {"module.a": 1, "module.module.b": 2, "c.module.d": 3, "module": 4}
    nn.modules.utils.consume_prefix_in_state_dict_if_present(other, "module.")
    print("others=", *["%s:%d" % pair for pair in sorted(other.items())])

def kept():
    base = torch.arange(12.0).reshape(3, 4)
    state = {"a": base, "row": base[1], "turned": base.t(), "gaps": torch.arange(8.0).reshape(2, 4)[:, 1:3],
             "wide": torch.arange(2.0).reshape(2, 1).expand(2, 3), "parameter": nn.Parameter(torch.ones(2)),
             "half": torch.tensor([1.5, -2]).to(torch.bfloat16), "flags": torch.tensor([True, False]),
             "deep": {"step": 7, "rate": 0.1, "on": True, "none": None, "list": [1, "two"]}}
    out, places = io.BytesIO(), []
    torch.save(state, out)
    def where(storage, place):
        places.append(place)
        return storage
    out.seek(0)
    back = torch.load(out, map_location=where, weights_only=True)
    print("places=", *places)
    for name in sorted(back):
        if name != "deep":
            t = back[name]
            print("kept-%s" % name, *t.shape, *t.stride(), int(t.requires_grad), int(isinstance(t, nn.Parameter)),
                  *["%g" % value for value in t.detach().float().flatten().tolist()])
    deep = back["deep"]
    print("deep=", deep["step"], deep["rate"], int(deep["on"]), int(deep["none"] is None), *deep["list"])
    back["a"].fill_(5)
    print("shared=", int(back["row"][2].item()), int(back["turned"][0, 1].item()), int(back["gaps"][0, 0].item()))

if __name__ == "__main__":
    twin.needs("2.15", "nothing, but the losses were made with it")
    for lines in twin.ranks(2, work):
        print("\n".join(lines))
    prefixes()
    kept()
