import datetime, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import rig

def train(rank, world):
    torch.manual_seed(0)
    ddp = DDP(nn.Linear(4, 2))
    for step in range(2):
        if rank == 1:
            time.sleep(0.2)
        ddp(torch.full((3, 4), rank + 1.0)).sum().backward()
        print("Rank %d, step %d: gradient %.6f" % (rank, step, ddp.module.weight.grad[0, 0].item()))

def impatient(rank, world):
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
    if rank == 1:
        time.sleep(2)
    came = "all came"
    try:
        dist.all_reduce(torch.ones(1), group=group)
    except RuntimeError:
        came = "an error"
    print("Rank %d, with too short a time-out: %s" % (rank, came))

def main():
    rig.spawn(train, 2)
    rig.spawn(impatient, 2)
