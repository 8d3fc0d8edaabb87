import torch
import torch.distributed as dist
import rig

def run(rank, world):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor, dst=1)
    else:
        dist.recv(tensor, src=0)
    print("Rank %d has data %s" % (rank, tensor[0]))

def main():
    rig.spawn(run, 2)
