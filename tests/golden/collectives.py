#!/usr/bin/env python3
"""collectives.py: makes ddp-collectives-more.json beside this file with the PyTorch that runs it (2.15 or later, with gloo): what
collectives, point to point calls and groups answer, each rank a process of its own. The form is that of ddp-collectives.json.

    collectives.py                what stands beside this file, again
    collectives.py FOLDER SEED    the same file there with other worlds, lengths and numbers"""
import json, os, random, sys, tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]

# ---- numbers out ----


def number(x):
    """The shortest decimal that reads back to the same element."""
    if x.dtype.kind != "f":
        return int(x)
    text = str(x)
    return text if text in ("nan", "inf", "-inf") else float(text)


def golden(t):
    if t.layout == torch.sparse_coo:
        return {"t": "sparse", "s": list(t.shape), "indices": t.indices().tolist(), "values": golden(t.values())}
    wide = t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
    return {"t": NAMES[t.dtype], "s": list(t.shape), "d": [number(x) for x in wide.reshape(-1).numpy(force=True)]}


def goldens(tensors):
    return [golden(t) for t in tensors]


# ---- numbers in: the same on all ranks, since each draws those of all ----


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def tensor(self, dtype, *shape):
        count = 1
        for n in shape:
            count *= n
        kind = DTYPES[dtype]
        if dtype == "bool":
            data = [self.random.random() < 0.5 for _ in range(count)]
        elif dtype == "u8":
            data = [self.random.randrange(256) for _ in range(count)]
        elif not kind.is_floating_point:
            data = [self.random.randrange(-128, 128) for _ in range(count)]
        else:
            large = 3 if dtype in ("f16", "bf16") else 8
            data = [self.random.uniform(-1, 1) * 10 ** self.random.uniform(0, large / 2) for _ in range(count)]
        return torch.tensor(data, dtype=torch.float64 if kind.is_floating_point else kind).to(kind).reshape(shape)

    def one_each(self, world, dtype, *shape):
        return [self.tensor(dtype, *shape) for _ in range(world)]


# ---- one rank ----


class Rank:
    """Calls in the order in which all ranks make them. `out` maps keys to what this rank has; inputs are those of all."""

    def __init__(self, rank, world, seed):
        self.rank, self.world, self.draw = rank, world, Draw(seed * 1000 + world)
        self.inputs, self.out, self.raised = {}, {}, {}

    def keep(self, key, value):
        self.out[key] = value

    def all_reduces(self):
        n = self.draw.random.randrange(1, 14)
        for op in OPS:
            for dtype in DTYPES:
                base, inputs = f"all_reduce/{op}/{dtype}", self.draw.one_each(self.world, dtype, n)
                self.inputs[base] = goldens(inputs)
                t = inputs[self.rank].clone()
                try:
                    dist.all_reduce(t, op=getattr(dist.ReduceOp, op))
                    self.keep(base + "/out", golden(t))
                except Exception as error:
                    self.raised[base + "/raises"] = type(error).__name__

    def orders(self):
        for n in sorted(self.draw.random.sample(range(1, 60), 4)):
            base, inputs = f"order_f32/n{n}", self.draw.one_each(self.world, "f32", n)
            self.inputs[base] = goldens(inputs)
            t = inputs[self.rank].clone()
            dist.all_reduce(t)
            self.keep(base + "/out", golden(t))

    def rooted(self):
        n = self.draw.random.randrange(1, 9)
        for root in range(self.world):
            for dtype in ("f32", "f16", "i64", "bool", "i8"):
                base, inputs = f"broadcast/src{root}/{dtype}", self.draw.one_each(self.world, dtype, n)
                self.inputs[base] = goldens(inputs)
                t = inputs[self.rank].clone()
                dist.broadcast(t, root)
                self.keep(base + "/out", golden(t))
            for op in ("SUM", "PRODUCT", "MAX", "MIN", "AVG"):
                base, inputs = f"reduce/{op}/dst{root}", self.draw.one_each(self.world, "f32", n)
                self.inputs[base] = goldens(inputs)
                t = inputs[self.rank].clone()
                dist.reduce(t, root, op=getattr(dist.ReduceOp, op))
                self.keep(base + "/out", golden(t) if self.rank == root else None)
            base, inputs = f"scatter/src{root}", self.draw.one_each(self.world, "f32", n)
            self.inputs[base] = [goldens(inputs) if r == root else None for r in range(self.world)]
            t = torch.zeros(n)
            dist.scatter(t, inputs if self.rank == root else None, root)
            self.keep(base + "/out", golden(t))

    def gathers(self):
        n = self.draw.random.randrange(1, 9)
        inputs = self.draw.one_each(self.world, "f32", n)
        self.inputs["all_gather"] = goldens(inputs)
        mine = inputs[self.rank]
        outs = [torch.zeros(n) for _ in range(self.world)]
        dist.all_gather(outs, mine)
        self.keep("all_gather/out", goldens(outs))
        out = torch.zeros(n * self.world)
        dist.all_gather_into_tensor(out, mine)
        self.keep("all_gather_into_tensor/out", golden(out))
        for root in range(self.world):
            outs = [torch.zeros(n) for _ in range(self.world)] if self.rank == root else None
            dist.gather(mine, outs, root)
            self.keep(f"gather/dst{root}/out", goldens(outs) if outs else None)

    def lists(self):
        n, world = self.draw.random.randrange(1, 9), self.world
        inputs = [self.draw.one_each(world, "f32", n) for _ in range(world)]
        self.inputs["reduce_scatter"] = [goldens(own) for own in inputs]
        out = torch.zeros(n)
        dist.reduce_scatter(out, [t.clone() for t in inputs[self.rank]])
        self.keep("reduce_scatter/out", golden(out))
        inputs = [self.draw.one_each(world, "f32", n) for _ in range(world)]
        self.inputs["all_to_all"] = [goldens(own) for own in inputs]
        outs = [torch.zeros(n) for _ in range(world)]
        dist.all_to_all(outs, inputs[self.rank])
        self.keep("all_to_all/out", goldens(outs))
        inputs = self.draw.one_each(world, "f32", n * world)
        self.inputs["all_to_all_single"] = goldens(inputs)
        out = torch.zeros(n * world)
        dist.all_to_all_single(out, inputs[self.rank])
        self.keep("all_to_all_single/out", golden(out))
        self.uneven()
        inputs = self.draw.one_each(world, "f32", n * world)
        self.inputs["reduce_scatter_tensor"] = goldens(inputs)
        out = torch.zeros(n)
        dist.reduce_scatter_tensor(out, inputs[self.rank].clone())
        self.keep("reduce_scatter_tensor/out", golden(out))

    def uneven(self):
        """splits[i][j]: how many rows rank i has for rank j."""
        splits = [[self.draw.random.randrange(0, 5) for _ in range(self.world)] for _ in range(self.world)]
        inputs = [self.draw.tensor("f32", sum(row)) for row in splits]
        there, here = splits[self.rank], [row[self.rank] for row in splits]
        out = torch.zeros(sum(here))
        dist.all_to_all_single(out, inputs[self.rank], here, there)
        self.keep("all_to_all_single_uneven", {"input_splits": there, "output_splits": here,
                                               "input": golden(inputs[self.rank]), "output": golden(out)})

    def many(self):
        a, b = self.draw.random.randrange(1, 7), self.draw.random.randrange(1, 7)
        inputs = [[self.draw.tensor("f32", a), self.draw.tensor("f32", b, 2)] for _ in range(self.world)]
        self.inputs["all_reduce_coalesced"] = [goldens(own) for own in inputs]
        tensors = [t.clone() for t in inputs[self.rank]]
        dist.all_reduce_coalesced(tensors)
        self.keep("all_reduce_coalesced/out", goldens(tensors))
        rows, inputs = self.draw.random.randrange(2, 9), []
        for _ in range(self.world):
            count = self.draw.random.randrange(1, 6)
            inputs.append(([[self.draw.random.randrange(rows) for _ in range(count)]], self.draw.tensor("f32", count, 2)))
        self.inputs["all_reduce_sparse"] = [{"indices": i, "values": golden(v), "shape": [rows, 2]} for i, v in inputs]
        indices, values = inputs[self.rank]
        t = torch.sparse_coo_tensor(indices, values, (rows, 2))
        dist.all_reduce(t)
        self.keep("all_reduce_sparse/out", golden(t.coalesce()))

    def works(self):
        inputs = self.draw.one_each(self.world, "f32", 3)
        self.inputs["async"] = goldens(inputs)
        t = inputs[self.rank].clone()
        work = dist.all_reduce(t, async_op=True)
        work.wait()
        self.keep("async", {"is_completed_after_wait": work.is_completed(), "is_success": work.is_success(),
                            "out": golden(t), "result_is_same_tensor": work.result()[0].data_ptr() == t.data_ptr()})
        inputs = self.draw.one_each(self.world, "f32", 3)
        self.inputs["future"] = goldens(inputs)
        future = dist.all_reduce(inputs[self.rank].clone(), async_op=True).get_future()
        doubled = future.then(lambda done: done.value()[0] * 2)
        value = future.wait()
        self.keep("future", {"value_type": type(value).__name__, "length": len(value), "then": golden(doubled.wait())})

    def messages(self):
        to, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        sent = [dist.isend(torch.tensor([10.0 + self.rank]), to, tag=1), dist.isend(torch.tensor([20.0 + self.rank]), to, tag=2)]
        first, second = torch.zeros(1), torch.zeros(1)
        dist.recv(second, before, tag=2)
        dist.recv(first, before, tag=1)
        for work in sent:
            work.wait()
        self.keep("tags", {"tag1": first.tolist(), "tag2": second.tolist()})
        got = []
        for _ in range(self.world - 1 if self.rank == 0 else 0):
            t = torch.zeros(1)
            got.append([dist.recv(t, tag=77), t.item()])
        if self.rank > 0:
            dist.send(torch.tensor([float(self.rank)]), 0, tag=77)
        self.keep("recv_any_source", sorted(got) if self.rank == 0 else None)
        for key in ("batch_isend_irecv", "ring_shift"):
            inputs = self.draw.one_each(self.world, "f32", 2)
            self.inputs[key] = goldens(inputs)
            mine, out = inputs[self.rank], torch.zeros(2)
            if key == "ring_shift":
                work = dist.isend(mine, to)
                dist.recv(out, before)
                work.wait()
                self.keep("ring_shift/out", golden(out))
                continue
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, to), dist.P2POp(dist.irecv, out, before)]):
                work.wait()
            self.keep(key, golden(out))

    def objects(self):
        objects = [None] * self.world
        dist.all_gather_object(objects, {"rank": self.rank})
        self.keep("all_gather_object", objects)
        pair = [self.rank, f"x{self.rank}"]
        dist.broadcast_object_list(pair, self.world - 1)
        self.keep("broadcast_object_list/src_last", pair)
        out = [None]
        dist.scatter_object_list(out, [f"o{i}" for i in range(self.world)] if self.rank == 0 else None, 0)
        self.keep("scatter_object_list", out)

    def groups(self):
        ends = dist.new_group([0, self.world - 1])
        self.keep("new_group_rank", dist.get_rank(ends))
        self.keep("new_group_size", dist.get_world_size(ends))
        t = torch.tensor([self.rank + 1.0, self.rank + 1.0])
        if self.rank in (0, self.world - 1):
            dist.all_reduce(t, group=ends)
        self.keep("new_group_ends_sum", t.tolist())

    def run(self):
        for part in (self.all_reduces, self.orders, self.rooted, self.gathers, self.lists, self.many, self.works, self.objects):
            part()
        if self.world > 1:
            self.messages()
        if self.world > 2:
            self.groups()


def rank_main(rank, world, seed, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, f"store{world}"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mine = Rank(rank, world, seed)
    mine.run()
    dist.barrier()
    with open(os.path.join(folder, f"{world}.{rank}"), "w") as file:
        json.dump([mine.inputs, mine.out, mine.raised], file)
    dist.destroy_process_group()


# ---- files ----


def run_world(world, seed, folder):
    mp.spawn(rank_main, (world, seed, folder), nprocs=world)
    ranks = []
    for rank in range(world):
        with open(os.path.join(folder, f"{world}.{rank}")) as file:
            ranks.append(json.load(file))
    inputs, first, raised = ranks[0]
    results = {base + "/in": value for base, value in inputs.items()}
    results.update(raised)
    for key in first:
        values = [out[key] for _, out, _ in ranks]
        results[key] = {"every_rank": values[0]} if all(v == values[0] for v in values) and key.endswith("/out") else values
    return {"world": world, "results": results}


def main():
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.path.dirname(os.path.abspath(__file__)), 1)
    os.makedirs(folder, exist_ok=True)
    worlds = sorted(random.Random(seed).sample(range(1, 7), 3))
    with tempfile.TemporaryDirectory() as scratch:
        file = {"header": {"format": "ringside-golden-1", "torch": torch.__version__, "backend": "gloo, CPU, one thread a rank",
                           "read": "as ddp-collectives.json; all is exact"},
                "worlds": [run_world(world, seed, scratch) for world in worlds]}
    lines = json.dumps(file["header"]), ",\n".join(
        '{"world": %d, "results": {\n%s}}' % (w["world"], ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(w["results"].items())))
        for w in file["worlds"])
    with open(os.path.join(folder, "ddp-collectives-more.json"), "w") as out:
        out.write('{"header": %s,\n"worlds": [\n%s]}\n' % lines)


if __name__ == "__main__":
    main()
