import torch
import torch.distributed as dist
import rig

def allreduce(send, recv):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    going, coming, total = send.clone(), send.clone(), send.clone()
    for _ in range(size - 1):
        work = dist.isend(going, right)
        dist.recv(coming, left)
        total += coming
        work.wait()
        going, coming = coming, going
    recv.copy_(total)

def run(rank, world):
    torch.manual_seed(rank)
    mine = torch.rand(2, 2)
    ours, built_in = mine.clone(), mine.clone()
    allreduce(mine, ours)
    dist.all_reduce(built_in)
    print("Rank %d of %d, %s all_reduce's: %.6f %.6f %.6f %.6f" % (
        rank, world, "equal to" if torch.allclose(ours, built_in) else "other than", *ours.flatten().tolist()))

def main():
    for world in 2, 3, 4:
        rig.spawn(run, world)
