import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, ends, shared=False, length=None):
        self.ends, self.shared, self.length = ends, shared, length

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        if self.shared:
            return iter(range(worker, self.ends[0], workers))
        return iter(range(100 * worker, 100 * worker + self.ends[worker % len(self.ends)]))


class Sized(Stream):
    def __len__(self):
        return self.length


def told(name, loader):
    for x in loader:
        print(name, *([x] if isinstance(x, int) else x.tolist()))


def main():
    for workers in 0, 1, 2, 3:
        print("twice=", workers)
        told("x=", DataLoader(Stream([7]), batch_size=3, num_workers=workers))
    for workers in 0, 2, 3:
        print("split=", workers)
        told("x=", DataLoader(Stream([10], shared=True), batch_size=2, num_workers=workers))
    for ends in [1, 9], [9, 1], [0, 5], [5, 0, 3], [2, 8, 4], [0, 0, 0]:
        for drop_last in False, True:
            print("uneven=", *ends, drop_last)
            told("x=", DataLoader(Stream(ends), batch_size=2, num_workers=len(ends), drop_last=drop_last,
                                  prefetch_factor=1 + len(ends) % 2))
    told("alone=", DataLoader(Stream([3, 1]), batch_size=None, num_workers=2))
    stays = DataLoader(Stream([3, 5]), batch_size=2, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        told("persistent=", stays)
    for length, batch_size in (7, 2), (7, 7), (6, 1):
        for drop_last in False, True:
            print("length=", len(DataLoader(Sized([3], length=length), batch_size=batch_size, drop_last=drop_last)))
    torch.manual_seed(3)
    for x in DataLoader(Stream([3]), batch_size=2):
        pass
    print("after", "%.7g" % torch.rand(1).item())
    for options in {"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}, {"shuffle": False}:
        try:
            DataLoader(Stream([3]), **options)
            print("taken=")
        except Exception as error:
            print("refused=", type(error).__name__)


if __name__ == "__main__":
    main()
