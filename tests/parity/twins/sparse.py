import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(9)
embed, head = nn.Embedding(50, 4, sparse=True), nn.Linear(4, 1)
opt = torch.optim.SGD([{"params": embed.parameters()}, {"params": head.parameters(), "lr": 0.05}], lr=0.5, momentum=0.9)
for step in range(12):
    idx, target = torch.randint(0, 50, (6, 3)), torch.randn(6, 1)
    opt.zero_grad()
    loss = nn.functional.mse_loss(head(embed(idx).mean(1)), target)
    loss.backward()
    opt.step()
    print("loss", "%.9g" % loss.item())
    print("rows", *sorted(set(embed.weight.grad.coalesce().indices().flatten().tolist()) & set(idx.flatten().tolist())))
print("sum", "%.9g" % embed.weight.abs().sum().item())
