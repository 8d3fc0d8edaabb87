import torch
from twin import needs
needs("2.15", "ranges take 64-bit draws from 2^32 on only, and never of narrow types")
torch.set_num_threads(1)

def show(name, t):
    print(name + "=", *["%.0f" % value for value in t.double().flatten().tolist()], "%.9g" % torch.rand(1).item())

for number, (low, high) in enumerate([(0, 2**28 - 1), (0, 2**28), (-7, 2**28 - 8), (-7, 2**28 - 7), (5, 2**31), (0, 2**32 - 1),
                                      (0, 2**32), (-2**40, 2**40)]):
    torch.manual_seed(number)
    show("randint", torch.randint(low, high, (6,)))
    if high <= 2**31 - 1:
        show("int32", torch.empty(2, 3, dtype=torch.int32).random_(low, high))
    show("double", torch.empty(5, dtype=torch.float64).random_(low, high))
for high in [100, 2**24 + 3, 2**28 - 16, 2**28, 2**30]:
    torch.manual_seed(high)
    show("float", torch.empty(5).random_(high))
    show("bfloat16", torch.empty(5, dtype=torch.bfloat16).random_(-3, high))
for high in [100, 2049, 3000, 65504]:
    show("half", torch.empty(7, dtype=torch.float16).random_(0, high))
for dtype in [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float16, torch.bfloat16]:
    show("random_", torch.empty(4, dtype=dtype).random_())
