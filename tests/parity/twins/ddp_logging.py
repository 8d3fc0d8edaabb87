import torch
from torch import nn
import twin

NOT_OURS = ("backend_name", "gloo_num_threads", "error")    # the back-end is another, and so is the wording

class Net(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.a = nn.Linear(2, 10, bias=False, **options)
        self.b = nn.Linear(10, 50, bias=False)
        self.c = nn.Linear(50, 4, bias=False)

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x).float()))))

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, names):
        return sum(getattr(self, name)(x) for name in names)

def told(data, key):
    if key.endswith("overlap_time"):
        return "time"               # virtual time may stand still between the first bucket and the last gradient
    if key.startswith("avg_") or key.endswith(("_time", "_time_start", "_time_end")):
        return "none" if data[key] == 0 else "time"
    return str(data[key])

def work(rank):
    lines, before, x = [], {}, torch.full((3, 2), rank + 1.0)

    def show(name, step, ddp):
        data = ddp._get_ddp_logging_data()
        last = before.setdefault(ddp, {})
        for key in sorted(data):
            if key not in NOT_OURS and last.get(key) != told(data, key):
                last[key] = told(data, key)
                lines.append("%s-%s-%s= %s" % (name, step, key, last[key]))

    def run(name, net, calls, **options):
        ddp = nn.parallel.DistributedDataParallel(net, **options)
        show(name, "new", ddp)
        for i, call in enumerate(calls):
            try:
                if call == "no_sync":
                    with ddp.no_sync():
                        ddp(x).sum().backward()
                elif call == "no_grad":
                    with torch.no_grad():
                        ddp(x)
                else:
                    ddp(x, *call).sum().backward()
            except RuntimeError:
                lines.append("%s-%d fails" % (name, i))
            show(name, i, ddp)
        return ddp

    run("plain", Net(), [(), (), (), "no_sync", (), "no_grad", (), ()])
    run("small", Net(), [(), (), ()], bucket_cap_mb=0.0005)
    run("list", Net(), [(), (), ()], bucket_cap_mb_list=[0.0005, 0.001])
    run("static", Net(), [(), (), (), ()], static_graph=True, gradient_as_bucket_view=True)
    run("same", Branch(), [("a",), ("a",), ("a",)], find_unused_parameters=True, bucket_cap_mb=0.00001, forward_sync_buffers=False)
    run("all", Branch(), [("ab",), ("ab",)], find_unused_parameters=True)
    run("changes", Branch(), [("a",), ("a",), ("b",), ("ab",), ("ab",)], find_unused_parameters=True)
    run("forgets", Branch(), [("a",), ("a",)])
    run("dtypes", Net(dtype=torch.float64), [], bucket_cap_mb=25)
    later = run("later", Net(), [])
    later._set_static_graph()
    show("later", "set", later)
    sampled = run("sampled", Net(), [])
    for rate in (0, -3):
        try:
            sampled._set_ddp_runtime_logging_sample_rate(rate)
        except ValueError:
            lines.append("sampled-%d fails" % rate)
    show("sampled", "refused", sampled)
    sampled._set_ddp_runtime_logging_sample_rate(3)
    iterations = []
    for _ in range(24):
        sampled(x).sum().backward()
        iterations.append(sampled._get_ddp_logging_data()["iteration"])
    lines.append("sampled-iterations= %s" % " ".join(map(str, iterations)))
    return lines

if __name__ == "__main__":
    twin.needs("2.15", "an explicit bucket_cap_mb was not the first bucket's")
    ranks = twin.ranks(2, work)
    for first, second in zip(*ranks):
        print(*([first] if first == second else [first, second]), sep="\n")
