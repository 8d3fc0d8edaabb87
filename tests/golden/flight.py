"""Records hangs with PyTorch's Flight Recorder over gloo: python3 flight.py FOLDER [SITUATION...].

FOLDER/SITUATION gets what each rank's recorder holds while the job hangs: trace_R, a pickle as PyTorch's C++ writes it,
and trace_R.json, which has no frames. A thread of each rank dumps twice a second, as PyTorch's debug server would: with
other shapes gloo ends one of the processes, and what it dumped last is what there is. Ranks are processes of their own
that end themselves; none lives longer than three minutes. gloo records no send or receive.
"""
import os
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta

LIVES, DUMPS, ENDS_AFTER = 180, 16, 4.0
os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"


def other_operation(rank, dist, torch):
    t = torch.ones(3, 4)
    for _ in range(3):
        dist.all_reduce(t)
    dist.all_reduce(t) if rank == 0 else dist.broadcast(t, src=0)


def skipped_call(rank, dist, torch):
    loss, count = torch.ones(8), torch.ones(1, dtype=torch.int64)
    for step in range(3):
        dist.all_reduce(loss)
        if step < 2 or rank != 1:
            dist.all_reduce(count)
        dist.barrier()


def other_shape(rank, dist, torch):
    for _ in range(2):
        dist.all_reduce(torch.ones(16))
    time.sleep(5 * rank)
    dist.all_reduce(torch.ones(16 if rank == 0 else 24))


def uneven_batches(rank, dist, torch):
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    for _ in range(3 if rank == 0 else 5):
        net(torch.ones(2, 4)).sum().backward()


def groups_crossed(rank, dist, torch):
    rows, pair = dist.new_group([0, 1, 2], group_desc="rows"), dist.new_group([0, 1], group_desc="pair")
    t = torch.ones(6)
    dist.all_reduce(t, group=rows)
    if rank < 2:
        dist.all_reduce(t, group=pair)
    if rank == 1:
        dist.all_reduce(t, group=pair)
        dist.all_reduce(t, group=rows)
    else:
        dist.all_reduce(t, group=rows)
        if rank == 0:
            dist.all_reduce(t, group=pair)


def stuck_outside(rank, dist, torch):
    t = torch.ones(2, dtype=torch.float64)
    for step in range(4):
        if rank == 2 and step == 3:
            time.sleep(LIVES)
        dist.all_reduce(t)


def timed_out(rank, dist, torch):
    """gloo raises after 3 s, and the recorder calls what failed retired, as what ended well."""
    other_operation(rank, dist, torch)


SITUATIONS = {"other_operation": 2, "skipped_call": 3, "other_shape": 2, "uneven_batches": 2, "groups_crossed": 3,
              "stuck_outside": 4, "timed_out": 2}
TIMEOUTS = {"timed_out": 3}


def without_this_machine(data):
    """Where Python lies is nobody's business; what replaces it is as long, so that lengths stay true."""
    prefix = sys.prefix.encode()
    return data.replace(prefix, (b"/opt/" + b"torch/" * len(prefix))[:len(prefix)])


def dump_often(path):
    from torch._C import _distributed_c10d as c10d
    for _ in range(DUMPS):
        time.sleep(0.5)
        for name, data in ((path, c10d._dump_fr_trace()), (path + ".json", c10d._dump_fr_trace_json())):
            with open(name + ".new", "wb") as file:
                file.write(without_this_machine(data))
            os.replace(name + ".new", name)
    time.sleep(ENDS_AFTER)     # a connection that closes would be an error of those that have not dumped yet
    os._exit(0)


def one_rank(situation, rank, port, folder):
    import torch
    import torch.distributed as dist
    world = SITUATIONS[situation]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world,
                            timeout=timedelta(seconds=TIMEOUTS.get(situation, LIVES)))
    threading.Thread(target=dump_often, args=(os.path.join(folder, f"trace_{rank}"),)).start()
    try:
        globals()[situation](rank, dist, torch)
    except RuntimeError as error:
        print(f"{situation}: rank {rank}: {str(error).splitlines()[0][-100:]}")
    time.sleep(LIVES)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def record(situation, folder):
    folder = os.path.abspath(os.path.join(folder, situation))
    os.makedirs(folder, exist_ok=True)
    port = str(free_port())
    with open(__file__) as file:    # by its text, so that its frames name it without a folder
        start = f"exec(compile({file.read()!r}, 'flight.py', 'exec'))"
    ranks = [subprocess.Popen([sys.executable, "-c", start, "--rank", situation, str(rank), port, folder],
                              env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
             for rank in range(SITUATIONS[situation])]
    until = time.monotonic() + LIVES
    for process in ranks:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        one_rank(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        for name in sys.argv[2:] or SITUATIONS:
            record(name, sys.argv[1])
