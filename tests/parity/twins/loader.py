import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
torch.set_num_threads(1)
torch.manual_seed(21)
x, y = torch.randn(53, 5), torch.randint(0, 2, (53,))
train, rest = random_split(TensorDataset(x, y), [45, 8])
print("split", *rest.indices)
loader = DataLoader(train, batch_size=10, shuffle=True, drop_last=True)
net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for epoch in range(3):
    for a, b in loader:
        hidden = net[1](net[0](a))
        # Dropout, by draws that every build of PyTorch makes alike.
        mask = torch.bernoulli(torch.full(hidden.shape, 0.75)) / 0.75
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net[2](hidden * mask), b)
        loss.backward()
        opt.step()
        print("batch", "%.9g" % loss.item(), *b.tolist())
