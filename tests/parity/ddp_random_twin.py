# The twin of ddp_random.lua: runs the same trainings with PyTorch, in forked ranks over gloo, and tells where they
# differ.
import json, os, select, signal, sys, tempfile, time, warnings
import torch
import torch._dynamo    # before the forks: DistributedDataParallel would import it in each
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

warnings.simplefilter("ignore")
torch.set_num_threads(1)
ROWS, WIDTH, WORDS = 3, 2, 5
MASK = (1 << 64) - 1
SAYS = {"unfinished": "finished reduction in the prior iteration", "twice": "marked as ready twice",
        "changed": "training graph has changed", "undefined": "Encountered gradient which is undefined",
        "sparse": "sparse gradient"}

class Stream:
    """P.stream of tests/programs/program.lua."""
    def __init__(self, seed):
        self.state = ((seed * 0x9E3779B97F4A7C15) & MASK) ^ 0x2545F4914F6CDD1D or 1
        for _ in range(4):
            self.bits()
    def bits(self):
        x = self.state
        x ^= (x << 13) & MASK
        x ^= x >> 7
        x ^= (x << 17) & MASK
        self.state = x
        return ((x * 0x2545F4914F6CDD1D) & MASK) >> 33
    def int(self, low, high):
        return low + self.bits() % (high - low + 1)
    def tensor(self, shape, dtype):
        count = 1
        for n in shape:
            count *= n
        return torch.tensor([self.int(-31, 31) / 24 for _ in range(count)], dtype=dtype).reshape(shape)

class Net(nn.Module):
    def __init__(self, program):
        super().__init__()
        self.blocks = program["blocks"]
        for i, block in enumerate(self.blocks, 1):
            self.add(i, block)
        self.to(getattr(torch, program["dtype"]))
        for i, block in enumerate(self.blocks, 1):
            if block.get("wide"):
                getattr(self, "b%d" % i).double()
    def add(self, i, block):
        kind, name = block["kind"], "b%d" % i
        if kind == "buffer":
            self.register_buffer(name, torch.zeros(WIDTH))
            return
        part = (nn.Linear(WIDTH, WIDTH, bias=block["bias"]) if kind == "linear" else
                nn.BatchNorm1d(WIDTH) if kind == "norm" else
                nn.Embedding(WORDS, WIDTH, sparse=block["sparse"]) if kind == "embed" else
                nn.Parameter(torch.tensor(1.0)))
        setattr(self, name, part)
        if block.get("tie"):
            part.weight = getattr(self, "b%d" % block["tie"]).weight
        if block.get("frozen"):
            for parameter in part.parameters():
                parameter.requires_grad_(False)
    def apply_block(self, i, x, ids):
        block, part = self.blocks[i - 1], getattr(self, "b%d" % i)
        if block["kind"] == "linear":
            return torch.tanh(part(x.double())).to(x.dtype) if block["wide"] else torch.tanh(part(x))
        if block["kind"] == "scale":
            return x * part
        if block["kind"] == "norm":
            return part(x)
        if block["kind"] == "embed":
            return x + part(ids) * 0.5
        part.copy_(part * 0.5 + x.detach().mean(0) * 0.5)
        return x - part * 0.25
    def forward(self, x, ids, outs):
        results = []
        for chain in outs:
            y = x
            for i in chain:
                y = self.apply_block(i, y, ids)
            results.append(y)
        return results

def new_net(program, rank):
    net, stream = Net(program), Stream(program["seed"] * 7 + rank + 1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(stream.tensor(parameter.shape, parameter.dtype))
        for buffer in net.buffers():
            if buffer.is_floating_point():
                buffer.add_(stream.int(0, 8) / 8)
    return net

def inputs(program, rank, number):
    stream = Stream((program["seed"] * 53 + rank) * 31 + number)
    x = stream.tensor((ROWS, WIDTH), getattr(torch, program["dtype"]))
    return x, torch.tensor([stream.int(0, WORDS - 1) for _ in range(ROWS)])

def loss_of(outputs, layout):
    return sum(out.mean() * (k + 1) + (out * out).mean() * 0.5
               for k, (out, used) in enumerate(zip(outputs, layout["used"])) if used)

def mean_hook(state, bucket):
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])

def numbers(t):
    return t.detach().double().flatten().tolist()

def gradient(parameter):
    grad = parameter.grad
    return grad is not None and numbers(grad.to_dense() if grad.is_sparse else grad)

class Training:
    def __init__(self, program, rank):
        self.program, self.rank, self.number, self.kept = program, rank, 0, {}
        self.net = new_net(program, rank)
        if program.get("ignored"):
            DDP._set_params_and_buffers_to_ignore_for_model(self.net, program["ignored"])
        self.ddp = DDP(self.net, **(program["options"] or {}))
        if program["hook"]:
            self.ddp.register_comm_hook(None, mean_hook)
        self.record = {"losses": [], "gradients": [], "weights": [], "buffers": []}
    def forward(self, op):
        self.number += 1
        x, ids = inputs(self.program, self.rank, self.number)
        layout = op["layouts"][self.rank]
        def call():
            return loss_of(self.ddp(x, ids, layout["outs"]), layout)
        if op["mode"] == "sync":
            loss = call()
        else:
            with torch.no_grad() if op["mode"] == "no_grad" else self.ddp.no_sync():
                loss = call()
        self.kept[op["forward"]] = loss
        self.record["losses"].append(loss.item())
    def backward(self, op):
        loss = sum(self.kept[slot] for slot in op["backward"])
        if op.get("inside"):
            with self.ddp.no_sync():
                loss.backward()
        else:
            loss.backward()
    def run(self):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.125)
        for iteration in self.program["iterations"]:
            for op in iteration:
                (self.forward if "forward" in op else self.backward)(op)
            self.record["gradients"].append([gradient(p) for p in self.net.parameters()])
            optimizer.step()
            if self.program["zero"] != "keep":
                optimizer.zero_grad(set_to_none=self.program["zero"] == "none")
        self.record["weights"] = [numbers(p) for p in self.net.parameters()]
        self.record["buffers"] = [numbers(b) for b in self.net.buffers()]
        return self.record

# ---- ranks: forked, each answers through a pipe ----

def rank_main(program, rank, meet, pipe):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=program["world"])
        answer = {"record": Training(program, rank).run()}
        dist.barrier()
    except Exception as error:
        answer = {"error": str(error)}
    with os.fdopen(pipe, "w") as file:
        file.write(json.dumps(answer))
    os._exit(0)

def start(program, meet):
    ranks = {}
    for rank in range(program["world"]):
        mine, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            rank_main(program, rank, meet, theirs)
        os.close(theirs)
        ranks[mine] = [rank, child, b""]
    return ranks

def run(program):
    """What each rank answers. Those that wait in vain for one that has failed are ended a second later."""
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        ranks = start(program, os.path.join(folder, "meet"))
        children, end = [child for _, child, _ in ranks.values()], time.time() + 60
        while ranks and time.time() < end:
            for pipe in select.select(list(ranks), [], [], 0.2)[0]:
                part = os.read(pipe, 1 << 16)
                ranks[pipe][2] += part
                if not part:
                    rank, _, text = ranks.pop(pipe)
                    os.close(pipe)
                    answers[rank] = json.loads(text) if text else {"error": "the rank died"}
                    if "error" in answers[rank]:
                        end = min(end, time.time() + 1)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for pipe in ranks:
            os.close(pipe)
    return answers

# ---- comparing ----

def differs(a, b, tolerance, path):
    if isinstance(b, dict):
        pairs = [(a[name], b[name], name) for name in b]
    elif isinstance(b, list):
        if not isinstance(a, list) or len(a) != len(b):
            return path + ": not as many"
        pairs = [(x, y, str(i)) for i, (x, y) in enumerate(zip(a, b))]
    elif isinstance(a, bool) or isinstance(b, bool):
        return None if a is b else path + ": there is one here or there, not both"
    else:
        return None if abs(a - b) <= tolerance * max(1, abs(b)) else "%s: PyTorch %.9g, here %.9g" % (path, a, b)
    return next((why for x, y, name in pairs if (why := differs(x, y, tolerance, path + " " + name))), None)

def says(message, kind):
    name, _, indices = kind.partition(" ")
    named = not indices or ": %s\n" % indices in message + "\n" or ": %s " % indices in message
    return SAYS[name] in message and named

def wrong_errors(answers, expected):
    """Every rank that has an error to expect has one of those; the others wait in vain or lose their peers."""
    wanted = {}
    for text in expected:
        rank, _, kind = text.partition(":")
        wanted.setdefault(int(rank), []).append(kind)
    for rank, kinds in wanted.items():
        message = answers.get(rank, {}).get("error", "no error")
        if not any(says(message, kind) for kind in kinds):
            return "rank %d: PyTorch %s; here %s" % (rank, message.split("\n")[0], " or ".join(kinds))
    return None

def judge(line):
    program, answers = line["program"], run(line["program"])
    if line["errors"]:
        return wrong_errors(answers, line["errors"])
    for rank in range(program["world"]):
        error = answers.get(rank, {"error": "hangs"}).get("error")
        if error:
            return "rank %d: PyTorch %s; here no error" % (rank, error.split("\n")[0])
        tolerance = 2e-4 if program["dtype"] == "float32" else 1e-9
        why = differs(answers[rank]["record"], line["ranks"][rank], tolerance, "rank %d" % rank)
        if why:
            return why
    return None

def main():
    count = wrong = 0
    for text in sys.stdin:
        line = json.loads(text)
        count += 1
        why = judge(line)
        if why:
            wrong += 1
            print("# seed %d: %s" % (line["program"]["seed"], why), flush=True)
    print("%d trainings, %d differences" % (count, wrong))

if __name__ == "__main__":
    main()
