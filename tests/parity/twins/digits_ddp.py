import csv, gzip, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
import twin

def train(rank):
    rows = torch.tensor([[float(v) for v in row] for row in csv.reader(gzip.open(os.environ["DIGITS"], "rt"))])
    x, y = rows[:1438, :64] / 16, rows[:1438, 64].long()
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.004)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(x, y)
    sampler, losses = DistributedSampler(data, shuffle=True, seed=4), []
    sampler.set_epoch(1)
    for a, b in DataLoader(data, batch_size=64, sampler=sampler):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(ddp(a), b)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses

if __name__ == "__main__":
    for rank, losses in enumerate(twin.ranks(2, train)):
        print("rank%d" % rank, *["%.9g" % v for v in losses])
