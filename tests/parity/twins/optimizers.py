# Optimizers: how they print, what they remember, where they go, and what zero_grad leaves.
import torch
from torch import nn
import twin
from twin import show
twin.needs("2.15", "has other options and prints otherwise")
torch.set_num_threads(1)
def params():
    torch.manual_seed(4)
    return [nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(1))]
def groups():
    p = params()
    return [{"params": p[:1]}, {"params": p[1:], "lr": 0.5, "weight_decay": 0.25}]
O = torch.optim
cases = {
    "sgd": lambda p: O.SGD(p),
    "momentum": lambda p: O.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "nesterov": lambda p: O.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True),
    "maximize": lambda p: O.SGD(p, lr=1, maximize=True, foreach=True),
    "adam": lambda p: O.Adam(p),
    "amsgrad": lambda p: O.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, amsgrad=True),
    "far": lambda p: O.Adam(p, lr=0.01, betas=(0.25, 0.5), maximize=True),
    "decoupled": lambda p: O.Adam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, fused=False),
    "adamw": lambda p: O.AdamW(p),
    "adamw_options": lambda p: O.AdamW(p, lr=0.02, weight_decay=0, amsgrad=True, capturable=False),
}
for name, make in cases.items():
    for kind, p in (("plain", params()), ("groups", groups())):
        opt = make(p)
        label = name + "." + kind
        print(label + "=", str(opt).replace(" ", "_").replace("\n", "|"))
        every = [p for g in opt.param_groups for p in g["params"]]
        for step in range(6):
            opt.zero_grad()
            print(label + ".none", *[p.grad is None for p in every])
            loss = sum((p * p * p).sum() for p in every[:2 if step < 3 else 3])
            loss.backward()
            opt.step()
        for i, p in enumerate(every):
            show(label + "." + str(i), p)
        state = opt.state_dict()["state"]
        print(label + ".state", *state.keys())
        for i, entry in state.items():
            for key in ("step", "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
                if key in entry:
                    show("%s.%d.%s" % (label, i, key), entry[key])
        opt.zero_grad(set_to_none=False)
        print(label + ".zeros", *[p.grad.abs().sum().item() == 0 for p in every])
net = nn.Linear(2, 1)
net(torch.ones(2)).sum().backward()
net.zero_grad(set_to_none=False)
print("module.zeros", net.weight.grad.sum().item() == 0)
net.zero_grad()
print("module.none", net.weight.grad is None, net.bias.grad is None)
opt = O.AdamW(params())
O.lr_scheduler.StepLR(opt, 1)
print("scheduled=", str(opt).replace(" ", "_").replace("\n", "|"))
