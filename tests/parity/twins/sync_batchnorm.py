import torch
import torch.nn.functional as F
import twin

# name, rows by rank, channels, places, momentum, eps
CASES = [("rows", [2, 2], 3, [], 0.1, 1e-5), ("uneven", [1, 4, 2], 2, [3], 0.1, 1e-5), ("planes", [2, 3], 2, [2, 3], 0.37, 1e-3),
         ("volumes", [1, 1], 3, [2, 1, 2], 1.0, 1e-5), ("empty", [0, 3], 2, [], 0.1, 1e-5), ("alone", [0, 0, 4, 0], 1, [2], 0.1, 0.5),
         ("kept", [3, 2], 2, [], 0.0, 1e-5), ("cumulative", [2, 1, 3], 2, [2], None, 1e-5), ("single", [1, 1, 1, 1], 2, [], 0.5, 1e-5)]

def numbers(shape, seed):
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([((i * 37 + seed * 11) % 101) / 32 - 1.5 for i in range(count)]).reshape(shape)

# One batch of all rows; a weight and a bias for each rank, so that their gradients stay apart.
def one_batch(name, rows, channels, places, momentum, eps):
    x = [numbers([n, channels, *places], 2 * r + 1).requires_grad_() for r, n in enumerate(rows)]
    dy = [numbers([n, channels, *places], 2 * r + 2) for r, n in enumerate(rows)]
    weights = [(numbers([channels], 40) + 2).requires_grad_() for _ in rows]
    biases = [numbers([channels], 50).requires_grad_() for _ in rows]
    mean, var = torch.zeros(channels), torch.ones(channels)
    for step in range(2):
        share = 1 / (step + 1) if momentum is None else momentum
        unit = F.batch_norm(torch.cat(x), mean, var, training=True, momentum=share, eps=eps).split(rows)
    shape = [1, channels] + [1] * len(places)
    out = [u * w.reshape(shape) + b.reshape(shape) for u, w, b in zip(unit, weights, biases)]
    torch.autograd.backward(out, dy)
    for r in range(len(rows)):
        for what, tensor in [("out", out[r]), ("x.grad", x[r].grad), ("weight.grad", weights[r].grad), ("bias.grad", biases[r].grad)]:
            twin.show("%s-rank%d-%s" % (name, r, what), tensor)
    twin.show(name + "-mean", mean)
    twin.show(name + "-var", var)

for case in CASES:
    one_batch(*case)
