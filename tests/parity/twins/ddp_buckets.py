import torch
from torch import nn
import twin

CASES = [(None, False), (25, False), (2, False), (1, False), (0.5, False), (0, False), (None, True), (2, True), (0.5, True)]

def sizes(cap, find):
    net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
    ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=cap, find_unused_parameters=find)
    for _ in range(3):
        ddp(torch.ones(1, 512)).sum().backward()
    data = ddp._get_ddp_logging_data()
    return [data["bucket_sizes"], data["bucket_cap_bytes"], data.get("rebuilt_bucket_sizes", ""),
            data.get("rebuilt_per_bucket_param_indices", "")]

def work(rank):
    return [[cap, find, *sizes(cap, find)] for cap, find in CASES]

if __name__ == "__main__":
    twin.needs("2.15", "the first bucket had 1 MiB whatever the cap")
    for rank, cases in enumerate(twin.ranks(2, work)):
        for cap, find, first, bytes, rebuilt, indices in cases:
            name = "rank%d-cap-%s-%s" % (rank, "none" if cap is None else "%g" % cap, "find" if find else "all")
            print(name, "first", first, "cap", bytes, "rebuilt", rebuilt, "of", indices)
