import csv, gzip, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
rows = torch.tensor([[float(v) for v in row] for row in csv.reader(gzip.open(os.environ["DIGITS"], "rt"))])
x, y = rows[:1438, :64] / 16, rows[:1438, 64].long()
torch.manual_seed(17)
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(a), b)
    loss.backward()
    opt.step()
    print("loss", "%.9g" % loss.item())
