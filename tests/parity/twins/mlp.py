import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(3)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))
x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
for step in range(30):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    print("loss", "%.9g" % loss.item())
for name, p in net.named_parameters():
    print(name, *["%.9g" % v for v in p.detach().flatten().tolist()])
