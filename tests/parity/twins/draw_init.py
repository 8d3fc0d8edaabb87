import torch
from torch.nn import init
from twin import needs
needs("2.15", "trunc_normal_ takes the inverse of the distribution")
torch.set_num_threads(1)

# Exactly, where the name ends in "=".
def show(name, t):
    print(name, *["%.9g" % value for value in t.flatten().tolist()], "%.9g" % torch.rand(1).item())

def refused(name, f, *args, **options):
    try:
        f(*args, **options)
        print(name, "went well")
    except (ValueError, NotImplementedError) as error:
        print(name, type(error).__name__, error)

torch.manual_seed(5)
for options in [{}, {"std": 0.02}, {"mean": 1, "std": 3, "a": -1, "b": 1.5}, {"mean": 2.5}, {"a": 1, "b": 4}, {"a": 2, "b": 3},
                {"mean": -4, "std": 2, "a": 0.5, "b": 8}, {"std": -1}, {"a": -0.05, "b": 0.1}]:
    show("trunc_normal_=", init.trunc_normal_(torch.empty(5), **options))
    show("trunc_normal_=", init.trunc_normal_(torch.empty(7, 8), **options))
    show("transposed=", init.trunc_normal_(torch.empty(5, 4).t(), **options))
    for dtype in [torch.float16, torch.bfloat16, torch.float64]:
        show("trunc_normal_=", init.trunc_normal_(torch.empty(20, dtype=dtype), **options))
show("generator=", init.trunc_normal_(torch.empty(4), generator=torch.Generator().manual_seed(9)))
show("generator=", init.xavier_normal_(torch.empty(4, 5), 2, torch.Generator().manual_seed(9)))
for sizes in [(1, 1), (2, 2), (3, 5), (5, 3), (6, 6), (1, 4), (4, 1), (20, 12), (2, 3, 4), (5, 2, 1, 2)]:
    show("orthogonal_", init.orthogonal_(torch.empty(sizes)))
    show("orthogonal_", init.orthogonal_(torch.empty(sizes, dtype=torch.float64), gain=1.5))
show("transposed", init.orthogonal_(torch.empty(5, 4).t(), -0.5))
show("empty=", init.orthogonal_(torch.empty(0, 3)))
show("generator", init.orthogonal_(torch.empty(3, 3), generator=torch.Generator().manual_seed(9)))
refused("vector", init.orthogonal_, torch.empty(3))
refused("half", init.orthogonal_, torch.empty(3, 3, dtype=torch.float16))
