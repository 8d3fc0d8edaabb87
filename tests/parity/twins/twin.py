# What the twins share: whether this PyTorch is new enough, ranks, and one way to write a tensor's numbers.
import os, sys
import torch

def needs(version, why):
    """Ends the twin with a word for twins.t where this PyTorch is older and differs: why says in what."""
    if [int(part) for part in torch.__version__.split(".")[:2]] < [int(part) for part in version.split(".")]:
        print("SKIP PyTorch %s: before %s %s" % (torch.__version__, version, why))
        sys.exit(0)

def show(name, tensor):
    print(name, *["%.9g" % value for value in tensor.detach().flatten().tolist()])

def _rank(rank, world, meet, work, answers):
    import torch.distributed as dist
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world)
    except Exception as error:
        answers.put((rank, None, "gloo is not usable here: %s" % error))
        return
    answers.put((rank, work(rank), None))
    dist.barrier()
    dist.destroy_process_group()

def ranks(world, work):
    """What work(rank) answered on each rank of a gloo world, in order of the ranks. Call it under __main__."""
    import torch.distributed as dist
    import torch.multiprocessing as mp
    if not dist.is_available():
        print("SKIP this PyTorch has no torch.distributed")
        sys.exit(0)
    os.environ["PYTHONWARNINGS"] = "ignore"
    context = mp.get_context("spawn")
    answers = context.SimpleQueue()
    meet = os.path.join(sys.argv[1], "meet")
    if os.path.exists(meet):     # an earlier world's
        os.remove(meet)
    processes = [context.Process(target=_rank, args=(r, world, meet, work, answers)) for r in range(world)]
    for process in processes:
        process.start()
    results = sorted((answers.get() for _ in processes), key=lambda result: result[0])
    for process in processes:
        process.join()
    refused = [why for _, _, why in results if why]
    if refused:
        print("SKIP", refused[0])
        sys.exit(0)
    return [answer for _, answer, _ in results]
