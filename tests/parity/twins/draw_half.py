import torch
from twin import needs
needs("2.15", "16-bit floats draw 11 or 8 bits, round in between and toss no coins of float16")
torch.set_num_threads(1)

def show(name, t):
    print(name + "=", *["%.9g" % value for value in t.flatten().tolist()], "%.9g" % torch.rand(1).item())

for dtype in [torch.float16, torch.bfloat16]:
    for n in [3, 15, 16, 17, 37]:
        torch.manual_seed(n)
        show("rand", torch.rand(n, dtype=dtype))
        show("randn", torch.randn(n, dtype=dtype))
        show("uniform_", torch.empty(n, dtype=dtype).uniform_(-0.7, 2.3))
        show("normal_", torch.empty(n, dtype=dtype).normal_(0.3, 1.7))
        show("bernoulli", torch.bernoulli(torch.rand(n).to(dtype)))
        show("exponential_", torch.empty(n, dtype=dtype).exponential_(0.4))
    show("transposed", torch.empty(5, 4, dtype=dtype).t().normal_())
    show("narrow", torch.empty(50, dtype=dtype).uniform_(1, 1.01))
    weights = torch.tensor([[0.5, 0.125, 2, 0], [1, 3, 0.25, 1.5]], dtype=dtype)
    for count, replacement in [(1, True), (1, False), (3, True), (3, False)]:
        show("multinomial", torch.multinomial(weights, count, replacement))
for n in [3, 15]:
    torch.manual_seed(n)
    print("double=", *["%.17g" % value for value in torch.randn(n, dtype=torch.float64).tolist()])
    print("double=", *["%.17g" % value for value in torch.empty(n, dtype=torch.float64).exponential_(2.5).tolist()])
