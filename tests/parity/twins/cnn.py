import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(11)
net = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Conv2d(6, 4, 3, stride=2, groups=2, bias=False), nn.BatchNorm2d(4, momentum=0.3), nn.ReLU(),
                    nn.Flatten(), nn.Linear(4, 5))
x, y = torch.randn(24, 2, 8, 8), torch.randint(0, 5, (24,))
opt = torch.optim.Adam(net.parameters(), lr=0.01, betas=(0.8, 0.95), amsgrad=True)
for step in range(20):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    print("loss", "%.9g" % loss.item())
net.eval()
print("eval", *["%.9g" % v for v in net(x[:3]).flatten().tolist()])
for name, b in net.named_buffers():
    print(name, *["%.9g" % v for v in b.flatten().tolist()])
