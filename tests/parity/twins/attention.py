import math, torch, twin
from torch import nn
import torch.nn.functional as F
twin.needs("2.15", "scaled_dot_product_attention answers NaN for queries that may look nowhere")
attention = F.scaled_dot_product_attention

def numbers(*sizes, first=0):
    count = math.prod(sizes)
    return torch.tensor([((i + first) * 37 % 23 - 11) / 7 for i in range(count)]).reshape(sizes).requires_grad_()

def show(name, call, *inputs):
    for t in inputs:
        t.grad = None
    output = call(*inputs)
    output = output if isinstance(output, torch.Tensor) else output[0]
    output.backward(torch.arange(output.numel()).reshape(output.shape).cos())
    twin.show(name, output)
    for at, t in enumerate(inputs):
        twin.show(f"{name}.grad{at}", t.grad)

q, k, v = numbers(2, 2, 3, 4), numbers(2, 2, 5, 4, first=3), numbers(2, 2, 5, 4, first=9)
allowed = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])
added = torch.tensor([[0.5, -1.0, 0.0, 2.0, -0.25], [-math.inf] * 5, [0.0] * 5])
show("plain", attention, q, k, v)
show("causal", lambda *t: attention(*t, is_causal=True), q, k, v)
show("allowed", lambda *t: attention(*t, allowed), q, k, v)
show("added", lambda *t: attention(*t, added), q, k, v)
show("scale", lambda *t: attention(*t, scale=0.25), q, k, v)
show("wide", lambda a, b, c: attention(a, b, c), q, k, numbers(2, 2, 5, 3))
show("three", lambda *t: attention(*t), numbers(2, 3, 4), numbers(2, 5, 4, first=3), numbers(2, 5, 4, first=9))
show("two", lambda *t: attention(*t, allowed), numbers(3, 4), numbers(5, 4, first=3), numbers(5, 2, first=9))
show("groups", lambda *t: attention(*t, enable_gqa=True), numbers(1, 4, 3, 2), numbers(1, 2, 5, 2), numbers(1, 2, 5, 2, first=5))
show("turned", lambda *t: attention(*(x.transpose(1, 2) for x in t)), numbers(2, 3, 2, 4), numbers(2, 5, 2, 4), numbers(2, 5, 2, 4))
show("mask", lambda a, m: attention(a, a, a, m), numbers(2, 3, 4), numbers(3, 3, first=2))

def heads(**options):
    module = nn.MultiheadAttention(4, 2, **options)
    with torch.no_grad():
        for at, p in enumerate(module.parameters()):
            p.copy_(numbers(*p.shape, first=at))
    return module

for name, options in (("self", {}), ("first", {"batch_first": True}), ("more", {"add_bias_kv": True, "add_zero_attn": True})):
    module = heads(**options)
    for need in (True, False):
        show(f"{name}.{need}", lambda x: module(x, x, x, need_weights=need), numbers(3, 2, 4))
        show(f"{name}.cross.{need}", lambda x, y: module(x, y, y, need_weights=need), numbers(3, 2, 4) if name != "first" else numbers(2, 3, 4), numbers(5, 2, 4) if name != "first" else numbers(2, 5, 4))
    for at, p in enumerate(module.parameters()):
        twin.show(f"{name}.parameter{at}", p.grad)
module = heads()
hidden = torch.tensor([[False, False, True], [False, False, False]])
show("hidden", lambda x: module(x, x, x, key_padding_mask=hidden, need_weights=False), numbers(3, 2, 4))
show("both", lambda x: module(x, x, x, key_padding_mask=hidden, attn_mask=torch.ones(3, 3).triu(1).bool()), numbers(3, 2, 4))
try:
    attention(q, k, v, allowed, 0.0, True)
except RuntimeError as error:
    print("error=", error)
