import torch
import torch.distributed as dist
import rig

def two(rank, world):
    both = dist.new_group([0, 1])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=both)
    print("Rank %d has data %s" % (rank, tensor[0]))

def sum_over(group, rank, name):
    tensor = torch.ones(1) * (rank + 1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    print("Rank %d has data %s of %s" % (rank, tensor[0], name))

def four(rank, world):
    even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
    sum_over(*((even, rank, "the even") if rank % 2 == 0 else (odd, rank, "the odd")))
    sum_over(None, rank, "all")

def main():
    rig.spawn(two, 2)
    rig.spawn(four, 4)
