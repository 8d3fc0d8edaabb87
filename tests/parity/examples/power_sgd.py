import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel as DDP
import rig

STEPS, BATCH, START = 40, 16, 4
WAYS = [
    ("plain all-reduce", None, {}),
    ("PowerSGD, rank 1", "powerSGD_hook", dict(matrix_approximation_rank=1)),
    ("PowerSGD, rank 1, without error feedback", "powerSGD_hook", dict(matrix_approximation_rank=1, use_error_feedback=False)),
    ("PowerSGD, rank 2", "powerSGD_hook", dict(matrix_approximation_rank=2)),
    ("PowerSGD, rank 4", "powerSGD_hook", dict(matrix_approximation_rank=4)),
    ("batched PowerSGD, rank 1", "batched_powerSGD_hook", dict(matrix_approximation_rank=1)),
]

# batched_powerSGD_hook's P and Q are matrices, which 2.15 refuses to orthogonalize for not being batches of them.
orthogonalize = power._orthogonalize
power._orthogonalize = lambda m, epsilon=0: orthogonalize(m if m.dim() == 3 else m.unsqueeze(0), epsilon)

def train(rank, hook, options):
    torch.manual_seed(0)
    teacher = torch.randn(48, 12) / 4
    ddp, state = DDP(nn.Sequential(nn.Linear(48, 40), nn.Tanh(), nn.Linear(40, 12))), None
    if hook:
        state = power.PowerSGDState(None, start_powerSGD_iter=START, min_compression_rate=1, **options)
        ddp.register_comm_hook(state, getattr(power, hook))
    optimizer, losses = torch.optim.SGD(ddp.parameters(), lr=0.5), []
    torch.manual_seed(rank + 1)
    for _ in range(STEPS):
        x = torch.randn(BATCH, 48)
        optimizer.zero_grad()
        loss = F.mse_loss(ddp(x), torch.tanh(x @ teacher))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1], state

def run(rank, world):
    for name, hook, options in WAYS:
        first, last, state = train(rank, hook, options)
        print("Rank %d, %s: loss from %.3f to %.3f" % (rank, name, first, last))
        if state and rank == 0:
            rate, before, after = state.compression_stats()
            steps = STEPS - START
            print("  %d bytes a step instead of %d: %.2f times less" % (4 * after // steps, 4 * before // steps, rate))

def main():
    rig.spawn(run, 2)
