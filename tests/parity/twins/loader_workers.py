import torch
import twin
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Squares(Dataset):
    def __init__(self, n):
        self.n, self.read, self.offset = n, 0, 0

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        info = get_worker_info()
        self.read += 1
        if i == 23:
            raise ValueError("no sample 23")
        return (torch.tensor(i * i + self.offset), self.read, info.id if info else -1,
                info.seed if info else -1, torch.rand(1).item())


def init(worker):
    info = get_worker_info()
    info.dataset.offset = 100 * worker + info.num_workers


def told(name, batches):
    for x, read, worker, seed, drawn in batches:
        print(name, *x.tolist(), "read", *read.tolist(), "worker", *worker.tolist(), "seed", *seed.tolist())
        print("drawn", *("%.7g" % v for v in drawn.tolist()))


def main():
    twin.needs("2.15", "prefetch_factor was told by an AssertionError")
    print("here", get_worker_info())
    data = Squares(11)
    for workers in 0, 1, 2, 3:
        torch.manual_seed(5)
        told("in_order=", DataLoader(data, batch_size=2, num_workers=workers))
        print("after", data.read, "%.7g" % torch.rand(1).item())
    torch.manual_seed(6)
    told("init=", DataLoader(Squares(7), batch_size=3, num_workers=2, worker_init_fn=init, prefetch_factor=1))
    print("after", "%.7g" % torch.rand(1).item())
    torch.manual_seed(7)
    told("shuffled=", DataLoader(Squares(9), batch_size=2, shuffle=True, num_workers=2, drop_last=True))
    print("after", "%.7g" % torch.rand(1).item())
    torch.manual_seed(8)
    g = torch.Generator().manual_seed(9)
    told("generator=", DataLoader(Squares(9), batch_size=2, shuffle=True, num_workers=2, generator=g))
    print("after", "%.7g" % torch.rand(1).item(), "%.7g" % torch.rand(1, generator=g).item())
    torch.manual_seed(10)
    stays = DataLoader(Squares(6), batch_size=2, num_workers=2, shuffle=True, persistent_workers=True)
    for epoch in range(3):
        told("persistent=", stays)
    print("after", "%.7g" % torch.rand(1).item())
    torch.manual_seed(11)
    for x, *_ in DataLoader(Squares(4), batch_size=None, num_workers=2):
        print("alone=", x.item())
    for x in DataLoader(Squares(5), batch_sampler=[[4, 0], [1], [3, 2, 0]], num_workers=2, collate_fn=len):
        print("lists=", x)
    print("after", "%.7g" % torch.rand(1).item())
    seen = []
    try:
        for x, *_ in DataLoader(Squares(30), batch_size=4, num_workers=3):
            seen.append(x[0].item())
    except ValueError as error:
        print("raised=", *seen, type(error).__name__, str(error).split("\n")[0])

    def broken(worker):
        raise KeyError("lost")
    try:
        for x in DataLoader(Squares(4), num_workers=1, worker_init_fn=broken):
            print("never=")
    except KeyError as error:
        print("raised=", type(error).__name__, error.args[0].split("\n")[0] if error.args else "")
    for options in ({"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True},
                    {"num_workers": 1, "prefetch_factor": -1}, {"batch_size": 0}, {"shuffle": True, "sampler": [1]},
                    {"batch_sampler": [[1]], "drop_last": True}, {"batch_size": None, "drop_last": True}):
        try:
            DataLoader(data, **options)
        except Exception as error:
            print("refused=", type(error).__name__)


if __name__ == "__main__":
    main()
