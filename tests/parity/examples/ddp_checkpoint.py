import os, tempfile
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import rig
from toy import ToyModel

def run(rank, world):
    print("Running DDP checkpoint example on rank %d." % rank)
    path = os.environ["CHECKPOINT"]
    torch.manual_seed(10 + rank)
    ddp_model = DDP(ToyModel())
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    else:
        for p in ddp_model.parameters():
            p.detach().zero_()
    dist.barrier()
    ddp_model.load_state_dict(torch.load(path, map_location={"cuda:0": "cuda:%d" % rank}))
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_model(torch.randn(20, 10))
    nn.MSELoss()(outputs, torch.randn(20, 5)).backward()
    optimizer.step()
    dist.barrier()
    for name, p in ddp_model.named_parameters():
        print("Rank %d: %s sum %.6f" % (rank, name, p.sum().item()))
    print("Finished DDP checkpoint example on rank %d." % rank)

def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHECKPOINT"] = os.path.join(folder, "model.checkpoint")
        rig.spawn(run, 2)
