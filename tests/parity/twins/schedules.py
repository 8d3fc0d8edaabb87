import torch
from torch.optim import lr_scheduler as s
kinds = {
    "step": lambda o: s.StepLR(o, 3, gamma=0.5),
    "multi": lambda o: s.MultiStepLR(o, [2, 5, 5], gamma=0.3),
    "exponential": lambda o: s.ExponentialLR(o, 0.8),
    "cosine": lambda o: s.CosineAnnealingLR(o, 7, eta_min=0.01),
    "linear": lambda o: s.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=6),
    "lambda": lambda o: s.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: 0.9 ** e]),
    "sequential": lambda o: s.SequentialLR(
        o, [s.LinearLR(o, start_factor=0.1, total_iters=4), s.CosineAnnealingLR(o, 8), s.ExponentialLR(o, 0.5)],
        [4, 10]),
}
for name, make in kinds.items():
    opt = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]},
                           {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.7}], lr=0.3)
    schedule = make(opt)
    for epoch in range(16):
        print(name, *["%.12g" % g["lr"] for g in opt.param_groups])
        opt.step()
        schedule.step()
