import csv, gzip, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

def train(rank, meet, answers):
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    except Exception as error:
        answers.put((rank, None, "gloo is not usable here: %s" % error))
        return
    rows = torch.tensor([[float(v) for v in row] for row in csv.reader(gzip.open(os.environ["DIGITS"], "rt"))])
    x, y = rows[:1438, :64] / 16, rows[:1438, 64].long()
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.004)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(x, y)
    sampler, losses = DistributedSampler(data, shuffle=True, seed=4), []
    sampler.set_epoch(1)
    for a, b in DataLoader(data, batch_size=64, sampler=sampler):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(ddp(a), b)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    answers.put((rank, losses, None))
    dist.barrier()

if __name__ == "__main__":
    if not dist.is_available():
        print("SKIP this PyTorch has no torch.distributed")
        sys.exit(0)
    context = mp.get_context("spawn")
    answers = context.SimpleQueue()
    ranks = [context.Process(target=train, args=(r, sys.argv[1] + "/meet", answers)) for r in range(2)]
    for process in ranks:
        process.start()
    results = sorted((answers.get() for _ in ranks), key=lambda result: result[0])
    for process in ranks:
        process.join()
    if results[0][2] or results[1][2]:
        print("SKIP", results[0][2] or results[1][2])
        sys.exit(0)
    for rank, losses, _ in results:
        print("rank%d" % rank, *["%.9g" % v for v in losses])
