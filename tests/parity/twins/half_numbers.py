import torch
from twin import needs, show
needs("2.15", "what scales a 16-bit float is itself rounded to 16 bits first")

for dtype in [torch.float16, torch.bfloat16]:
    x = (torch.arange(1, 9) / 7 - 0.6).to(dtype)
    for number in [0.1, 3.3, 0.001]:
        for beside in [number, torch.tensor(number), torch.tensor(number, dtype=torch.float64)]:
            show("mul", x * beside)
            show("rmul", beside * x)
            show("div", x / beside)
            show("rdiv", beside / x)
            show("add", x + beside)
            show("sub", x - beside)
            show("rsub", beside - x)
        y = x.clone()
        y *= number
        show("mul_", y)
        y /= number
        show("div_", y)
