import torch
import torch.distributed as dist
import rig

def run(rank, world):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        work = dist.isend(tensor, dst=1)
        print("Rank 0 started sending")
    else:
        work = dist.irecv(tensor, src=0)
        print("Rank 1 started receiving")
    work.wait()
    print("Rank %d has data %s" % (rank, tensor[0]))

def main():
    rig.spawn(run, 2)
