#!/usr/bin/env python3
"""PyTorch's figures for cases of `ringside bench device_step`, in the same units, one line of JSON each.

usage: peer.py CASE...    of launch, elementwise, copy, mm4096 and mlp64
TF32 is off on both sides. Twenty samples go by before 200 count; each ends with a wait for the GPU, launches before it.
"""
import json
import sys
import time

import torch

WARM, SAMPLES = 20, 200
CUDA = torch.device("cuda:0")


def report(impl, case, unit, samples):
    samples = sorted(samples)
    print(json.dumps({"bench": "device_step", "impl": impl, "case": case, "unit": unit, "n": len(samples),
                      "median": samples[len(samples) // 2], "p95": samples[len(samples) * 95 // 100],
                      "torch": torch.__version__}), flush=True)


def sample(once, calls, host_only=False):
    begin = time.perf_counter()
    for _ in range(calls):
        once()
    launched = time.perf_counter()
    torch.cuda.synchronize()
    return (launched if host_only else time.perf_counter()) - begin


def measure(once, calls, host_only=False):
    seconds = [sample(once, calls, host_only) for _ in range(WARM + SAMPLES)]
    return seconds[WARM:]


def microseconds(impl, case, once, calls, host_only=False):
    report(impl, case, "us", [s * 1e6 / calls for s in measure(once, calls, host_only)])


def rate(case, once, calls, bytes_each):
    report("pytorch", case, "GB/s", [bytes_each * calls / s * 1e-9 for s in measure(once, calls)])


def launch():
    one = torch.ones(1, device=CUDA)
    microseconds("pytorch", "launch", lambda: one.fill_(1), 100, host_only=True)


def elementwise():
    x = torch.zeros(1 << 26, device=CUDA)
    rate("elementwise", lambda: x * 2, 5, 2 * 4 << 26)


def copy():
    x = torch.zeros(1 << 26)
    rate("copy", lambda: x.to(CUDA), 1, 4 << 26)


def mm4096():
    a = torch.zeros(4096, 4096, device=CUDA)
    microseconds("pytorch", "mm4096", lambda: a.mm(a), 1)


def train_parts():
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).to(CUDA)
    x, y = torch.randn(64, 784, device=CUDA), torch.randint(10, (64,), device=CUDA)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), x, y


def eager_step():
    model, optimizer, x, y = train_parts()

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return step


def graph_step():
    step = eager_step()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def mlp64():
    microseconds("pytorch", "mlp64", eager_step(), 5)
    try:
        microseconds("pytorch-graph", "mlp64", graph_step(), 5)
    except RuntimeError as error:
        print("# torch.cuda.graph:", str(error).splitlines()[0], flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    cases = {f.__name__: f for f in (launch, elementwise, copy, mm4096, mlp64)}
    if len(sys.argv) < 2 or not set(sys.argv[1:]) <= set(cases):
        sys.exit(__doc__)
    for case in sys.argv[1:]:
        cases[case]()


if __name__ == "__main__":
    main()
