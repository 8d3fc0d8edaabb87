import sys
import torch
from torch import nn
from twin import needs
torch.set_num_threads(1)
torch.manual_seed(0)
torch.empty(4).bernoulli_(0.5)
if torch.rand(1).item() != torch.rand(9, generator=torch.Generator().manual_seed(0))[8].item():
    print("SKIP this PyTorch draws coins from MKL's generator, as it does on processors of Intel")
    sys.exit(0)
needs("2.15", "dropout draws in the order of the elements, not of memory, and refuses float16")
F = nn.functional

# Exactly, where the name ends in "=".
def show(name, t):
    print(name, *["%.9g" % value for value in t.detach().flatten().tolist()], "%.9g" % torch.rand(1).item())

def tensor(*sizes):
    n = torch.Size(sizes).numel()
    return ((torch.arange(n).float() - n // 2 + 0.25) / 8).reshape(sizes)

torch.manual_seed(3)
show("transposed=", F.dropout(tensor(4, 5).t(), 0.3))
show("permuted=", F.dropout(tensor(2, 3, 4).permute(1, 2, 0), 0.5))
show("channels_last=", F.dropout(tensor(2, 4, 4, 3).permute(0, 3, 1, 2), 0.2))
show("slice=", F.dropout(tensor(5, 6)[:, ::2], 0.4))
show("slice_transposed=", F.dropout(tensor(5, 6)[::2].t(), 0.4))
show("expanded=", F.dropout(tensor(3, 1).expand(3, 4), 0.5))
show("alpha=", F.alpha_dropout(tensor(4, 3).t(), 0.4, True))
show("channels=", F.dropout2d(tensor(3, 2, 2, 2).transpose(0, 1), 0.5))
for dtype in [torch.float16, torch.bfloat16, torch.float64]:
    for p in [0.1, 0.3, 0.5, 0.9]:
        show("dropout=", F.dropout(tensor(3, 8).to(dtype), p))
    show("alpha=", F.alpha_dropout(tensor(12).to(dtype), 0.3, True))
x = tensor(4, 5).requires_grad_()
out = F.dropout(x.t(), 0.6)
(out * out).sum().backward()
show("grad=", x.grad)
show("rand_like=", torch.rand_like(tensor(3, 4).t()))
show("randn_like=", torch.randn_like(tensor(6, 4).t()))
for batch_first in [False, True]:
    torch.manual_seed(11)
    block = nn.TransformerEncoderLayer(8, 2, 12, 0.3, batch_first=batch_first)
    show("block", block(tensor(3, 4, 8) / 40))
    lstm = nn.LSTM(5, 4, 2, dropout=0.4, batch_first=batch_first, bidirectional=True)
    show("lstm", lstm(tensor(3, 2, 5))[0])
