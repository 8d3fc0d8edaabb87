# What the programs share: ranks that meet through a file, lines that are written whole, and coins of the twister.
import datetime, os, sys, tempfile, traceback
import torch
import torch.distributed as dist

class Lines:
    """Writes whole lines, each at once: print hands over a text and its end apart."""
    def __init__(self):
        self.begun = ""

    def write(self, text):
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            os.write(1, (line + "\n").encode())

    def flush(self):
        pass

def _rank(rank, world, run, meet, timeout):
    code = 1
    try:
        sys.stdout = Lines()
        dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world,
                                timeout=datetime.timedelta(seconds=timeout))
        run(rank, world)
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)           # nobody waits for peers that have gone

def spawn(run, world, timeout=60):
    """run(rank, world) in processes of its own, which are forked: PyTorch is loaded once for all of them."""
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(world):
            process = os.fork()
            if process == 0:
                _rank(rank, world, run, os.path.join(folder, "meet"), timeout)
            ranks.append(process)
        failed = [os.waitpid(process, 0)[1] for process in ranks]
    if any(failed):
        raise SystemExit("ranks ended with %s" % failed)

def coins_are_the_twisters():
    """No on some processors of Intel, where builds with MKL draw dropout's coins from its own generator."""
    torch.manual_seed(0)
    torch.empty(4).bernoulli_(0.5)
    return torch.rand(1).item() == torch.rand(9, generator=torch.Generator().manual_seed(0))[8].item()
