# Training under PowerSGD with PyTorch's own random Q: gradients, what the states remember, what travelled.
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
import twin

# batched_powerSGD_hook's P and Q are matrices, which 2.15 refuses to orthogonalize for not being batches of them.
orthogonalize = power._orthogonalize
power._orthogonalize = lambda m, epsilon=0: orthogonalize(m if m.dim() == 3 else m.unsqueeze(0), epsilon)

CASES = [
    ("rank1", power.powerSGD_hook, dict(matrix_approximation_rank=1, min_compression_rate=1)),
    ("rank2-epsilon", power.powerSGD_hook, dict(matrix_approximation_rank=2, min_compression_rate=1, orthogonalization_epsilon=1e-3)),
    ("rank3-together", power.powerSGD_hook, dict(matrix_approximation_rank=3, min_compression_rate=0.5, batch_tensors_with_same_shape=True)),
    ("seed", power.powerSGD_hook, dict(matrix_approximation_rank=2, min_compression_rate=1, random_seed=12345)),
    ("no-feedback", power.powerSGD_hook, dict(use_error_feedback=False, min_compression_rate=1)),
    ("cold", power.powerSGD_hook, dict(matrix_approximation_rank=2, warm_start=False, min_compression_rate=1)),
    ("rate", power.powerSGD_hook, dict(min_compression_rate=3)),
    ("batched", power.batched_powerSGD_hook, dict()),
    ("batched-rank2-cold", power.batched_powerSGD_hook, dict(matrix_approximation_rank=2, warm_start=False)),
]

def numbers(name, tensors):
    return [name] + ["%.9g" % value for t in tensors for value in t.detach().flatten().tolist()]

def work(rank):
    lines = []
    for name, hook, options in CASES:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        ddp = nn.parallel.DistributedDataParallel(net)
        state = power.PowerSGDState(None, start_powerSGD_iter=2, **options)
        ddp.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(rank)
        for step in range(5):
            optimizer.zero_grad()
            loss = ddp(torch.randn(6, 9)).pow(2).mean()
            loss.backward()
            optimizer.step()
            lines.append(numbers("%s-%d-loss-%d" % (name, step, rank), [loss]))
            grads = torch.cat([p.grad.flatten() for p in net.parameters()])
            lines.append(numbers("%s-%d-grad-%d" % (name, step, rank), [grads[::17]]))
            for what, memory in (("error", state.error_dict), ("p", state.p_memory_dict), ("q", state.q_memory_dict)):
                for bucket in sorted(memory):
                    lines.append(numbers("%s-%d-%s%d-%d" % (name, step, what, bucket, rank), [memory[bucket].flatten()[::7]]))
        lines.append(numbers("%s-draw" % name, [torch.randn(2)]))
        rate, before, after = state.compression_stats()
        lines.append(["%s-stats=" % name, str(state.iter), "%.6f" % rate, str(before), str(after), str(state.next_stats_report)])
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "random numbers and buckets are others")
    for lines in twin.ranks(2, work):
        for line in lines:
            print(*line)
