import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import rig

def run(rank, world):
    torch.manual_seed(30 + rank)
    model = nn.Linear(10, 10)
    before = model.weight.sum().item()
    ddp_model = DDP(model)
    print("Rank %d, constructor: weights of sum %.6f become %.6f" % (rank, before, model.weight.sum().item()))
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.001)
    outputs = ddp_model(torch.randn(20, 10))
    loss = nn.MSELoss()(outputs, torch.randn(20, 10))
    print("Rank %d, forward: outputs %s, loss %.6f" % (rank, list(outputs.size()), loss.item()))
    loss.backward()
    print("Rank %d, backward: the mean of both gradients has the sum %.6f" % (rank, model.weight.grad.sum().item()))
    optimizer.step()
    print("Rank %d, optimizer: weights of sum %.6f" % (rank, model.weight.sum().item()))

def main():
    rig.spawn(run, 2)
