import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import rig
from toy import ToyModel

def run(rank, world):
    print("Running basic DDP example on rank %d." % rank)
    torch.manual_seed(rank)
    ddp_model = DDP(ToyModel())
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_model(torch.randn(20, 10))
    loss = nn.MSELoss()(outputs, torch.randn(20, 5))
    loss.backward()
    optimizer.step()
    print("Rank %d has a loss of %.6f" % (rank, loss.item()))
    for name, p in ddp_model.named_parameters():
        print("Rank %d: %s sum %.6f, gradient sum %.6f" % (rank, name, p.sum().item(), p.grad.sum().item()))
    print("Finished running basic DDP example on rank %d." % rank)

def main():
    rig.spawn(run, 2)
