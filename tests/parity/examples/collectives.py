import torch
import torch.distributed as dist
import rig

def run(rank, world):
    def mine():
        return torch.tensor([rank + 1.0])
    def say(call, *tensors):
        print("Rank %d after %s: %s" % (rank, call, " ".join("%g" % t.item() for t in tensors)))

    t = mine()
    dist.broadcast(t, src=0)
    say("broadcast", t)
    for name in "SUM", "PRODUCT", "MAX", "MIN":
        op = getattr(dist.ReduceOp, name)
        t = mine()
        dist.reduce(t, dst=0, op=op)
        if rank == 0:
            say("reduce " + name, t)
        t = mine()
        dist.all_reduce(t, op=op)
        say("all_reduce " + name, t)
    t = torch.zeros(1)
    dist.scatter(t, [torch.tensor([10.0 * (i + 1)]) for i in range(world)] if rank == 0 else None, src=0)
    say("scatter", t)
    everything = [torch.zeros(1) for _ in range(world)]
    dist.gather(mine(), everything if rank == 0 else None, dst=0)
    if rank == 0:
        say("gather", *everything)
    everything = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(everything, mine())
    say("all_gather", *everything)
    dist.barrier()
    print("Rank %d is past the barrier" % rank)

def main():
    rig.spawn(run, 4)
