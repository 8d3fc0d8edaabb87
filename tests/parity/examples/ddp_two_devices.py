# Both devices of a rank are the host here.
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import rig

class ToyMpModel(nn.Module):
    def __init__(self, dev0, dev1):
        super().__init__()
        self.dev0, self.dev1 = dev0, dev1
        self.net1 = nn.Linear(10, 10).to(dev0)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5).to(dev1)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x.to(self.dev0))).to(self.dev1))

def run(rank, world):
    print("Running DDP with model parallel example on rank %d." % rank)
    torch.manual_seed(20 + rank)
    ddp_mp_model = DDP(ToyMpModel("cpu", "cpu"))
    optimizer = torch.optim.SGD(ddp_mp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_mp_model(torch.randn(20, 10))
    loss = nn.MSELoss()(outputs, torch.randn(20, 5))
    loss.backward()
    optimizer.step()
    print("Rank %d has a loss of %.6f" % (rank, loss.item()))
    for name, p in ddp_mp_model.named_parameters():
        print("Rank %d: %s sum %.6f, gradient sum %.6f" % (rank, name, p.sum().item(), p.grad.sum().item()))
    print("Finished running DDP with model parallel example on rank %d." % rank)

def main():
    rig.spawn(run, 2)
