import gzip, os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
import rig

class Partition(Dataset):
    def __init__(self, whole, index):
        self.whole, self.index = whole, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        return self.whole[self.index[i]]

class DataPartitioner:
    def __init__(self, whole, sizes, seed=1234):
        order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed)).tolist()
        self.whole, self.parts = whole, []
        for share in sizes:
            count = int(share * len(whole))
            self.parts.append(order[:count])
            order = order[count:]

    def use(self, i):
        return Partition(self.whole, self.parts[i])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3)
        self.conv2 = nn.Conv2d(10, 20, 2)
        self.drop = nn.Dropout2d()
        self.fc1 = nn.Linear(80, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(self.drop(self.conv2(x)))
        x = F.relu(self.fc1(x.reshape(-1, 80)))
        return F.log_softmax(self.fc2(F.dropout(x, training=self.training)), 1)

def digits():
    here = os.path.dirname(os.path.abspath(__file__))
    with gzip.open(os.path.join(here, "../../../lessons/data/digits.csv.gz"), "rt") as file:
        rows = torch.tensor([[int(n) for n in line.split(",")] for line in file][:1438])
    return TensorDataset(rows[:, :64].float().div(16).reshape(-1, 1, 8, 8), rows[:, 64])

def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= dist.get_world_size()

def run(rank, world):
    torch.manual_seed(1234)
    part = DataPartitioner(digits(), [1 / world] * world).use(rank)
    batches, model = DataLoader(part, batch_size=128 // world, shuffle=True), Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    for epoch in range(6):
        total = 0.0
        for images, labels in batches:
            opt.zero_grad()
            loss = F.nll_loss(model(images), labels)
            total += loss.item()
            loss.backward()
            average_gradients(model)
            opt.step()
        print("Rank %d, epoch %d: %.6f" % (rank, epoch, total / len(batches)))
    print("Rank %d ends with a last layer of length %.6f" % (rank, model.fc2.weight.norm().item()))

def main():
    if rig.coins_are_the_twisters():
        rig.spawn(run, 2)
    else:
        print("SKIP dropout's coins are MKL's here")
