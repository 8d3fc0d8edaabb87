import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, SubsetRandomSampler


def told(name, sampler):
    print(name, len(sampler), *sampler)


torch.manual_seed(1)
told("in_order=", SequentialSampler(range(5)))
told("random=", RandomSampler(range(7)))
told("random=", RandomSampler(range(7), num_samples=17))
told("replacement=", RandomSampler(range(7), replacement=True, num_samples=40))
told("subset=", SubsetRandomSampler([9, 4, 7, 2]))
g = torch.Generator().manual_seed(3)
told("generator=", RandomSampler(range(7), generator=g))
told("generator=", SubsetRandomSampler([9, 4, 7, 2], generator=g))
print("after", "%.7g" % torch.rand(1).item(), "%.7g" % torch.rand(1, generator=g).item())
for drop_last in False, True:
    told("batches=", BatchSampler(RandomSampler(range(8)), 3, drop_last))
for n in 1, 2, 5, 10, 103:
    for world in 1, 2, 3, 4:
        for drop_last in False, True:
            for rank in range(world):
                sampler = DistributedSampler(range(n), world, rank, shuffle=False, drop_last=drop_last)
                told("share=", sampler)
                sampler = DistributedSampler(range(n), world, rank, seed=5, drop_last=drop_last)
                told("shuffled=", sampler)
                sampler.set_epoch(2)
                told("epoch=", sampler)
for world, rank in (3, 3), (3, -1), (1, 1):
    try:
        DistributedSampler(range(4), world, rank)
    except ValueError as error:
        print("refused=", str(error))
for make in (lambda: RandomSampler(range(0)), lambda: RandomSampler(range(3), num_samples=0),
             lambda: BatchSampler(range(3), 0, False)):
    try:
        make()
    except ValueError as error:
        print("refused=", str(error))
