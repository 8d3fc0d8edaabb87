#!/usr/bin/env python3
"""renew.py FILE...: makes the expected numbers of ops-more, losses-more, modules-more and autograd-more anew with the
PyTorch that is installed. Inputs, parameters, options and gradients put in stay as they are. Says of each case how far
the numbers moved if it is more than rounding; a case that cannot be made here ends the program."""
import copy, json, sys
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def tensor(golden):
    data = [float(x) if isinstance(x, str) else x for x in golden.get("storage", golden.get("data", []))]
    if "storage" in golden:
        return torch.tensor(data, dtype=TYPES[golden["dtype"]]).as_strided(
            golden["shape"], golden["stride"], golden.get("offset", 0))
    if "rows" in golden:
        whole = torch.zeros(golden["shape"], dtype=TYPES[golden["dtype"]])
        whole[golden["rows"]] = torch.tensor(data).reshape(len(golden["rows"]), *golden["shape"][1:])
        return whole
    return torch.tensor(data, dtype=TYPES[golden["dtype"]]).reshape(golden["shape"])


def golden(t):
    t = t.detach()
    if t.layout == torch.sparse_coo:
        return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "layout": "sparse_coo",
                "indices": golden(t._indices()), "values": golden(t._values()), "coalesced": t.is_coalesced()}
    data = [number(x) for x in t.reshape(-1).numpy(force=True)]
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": data}


def number(x):
    """The shortest decimal that reads back to the same element."""
    if x.dtype.kind != "f":
        return x.item()
    return str(x) if str(x) in ("nan", "inf", "-inf") else float(str(x))


def moved(label, old, new):
    """Like new numbers in the place of old ones; says so if they differ by more than rounding."""
    if old is None or new is None:
        if old is not None or new is not None:
            print(f"{label}: {'there is none' if new is None else 'there is one'} now")
        return None if new is None else golden(new)
    if new.layout == torch.sparse_coo:
        made = golden(new)
        if made["indices"] != old["indices"] or not torch.allclose(tensor(old["values"]), new._values()):
            print(f"{label}: was {old}, is {made}")
        return made
    before = tensor(old)
    same = before.shape == new.shape and before.dtype == new.dtype and torch.allclose(
        before.double(), new.detach().double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    if not same:
        print(f"{label}: was {before.reshape(-1).tolist()[:6]}, is {new.detach().reshape(-1).tolist()[:6]}")
    return golden(new)


def tensors(result):
    if isinstance(result, nn.utils.rnn.PackedSequence):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    return [] if result is None else [result]


def backward(outputs, grad_out):
    wanted = [t for t in outputs if t.requires_grad]
    torch.autograd.backward(wanted, [tensor(g) for g in grad_out[:len(wanted)]])


def leaf(name, value, differentiable):
    if not isinstance(value, dict):
        return value
    t = tensor(value)
    return t.requires_grad_() if name in differentiable else t


# ---- ops: the name is PyTorch's, but for these ----

SPECIAL = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "view": lambda x, sizes: x.view(sizes), "reshape": lambda x, sizes: x.reshape(sizes),
    "expand": lambda x, sizes: x.expand(sizes), "repeat": lambda x, sizes: x.repeat(sizes),
    "expand_mul": lambda x, y, sizes: x.expand(sizes) * y,
    "split": lambda x, size, dim: x.split(size, dim),
    "cat": lambda *parts, dim: torch.cat(parts, dim), "stack": lambda *parts, dim: torch.stack(parts, dim),
    "index_select": lambda x, i, dim: x.index_select(dim, i), "gather": lambda x, i, dim: x.gather(dim, i),
    "masked_fill": lambda x, m, value: x.masked_fill(m, value),
    "scatter": lambda x, i, y, dim: x.scatter(dim, i, y),
    "scatter_add": lambda x, i, y, dim: x.scatter_add(dim, i, y),
    "index_add": lambda x, i, y, dim: x.index_add(dim, i, y),
    "where": lambda a, b, c: torch.where(c, a, b),
    "contiguous": lambda x: x.contiguous(), "permute": lambda x, dims: x.permute(dims),
    "norm": lambda x, **how: x.norm(**how),
}


def pick_op(case):
    if case["op"] == "chain":  # an expression over a, b, c
        return lambda *values: eval(case["note"], dict(vars(torch)), dict(zip(case["inputs"], values)))
    return SPECIAL.get(case["op"]) or getattr(torch, case["op"], None) or getattr(F, case["op"])


def renew_op(case):
    inputs = {name: leaf(name, value, case.get("grads", {})) for name, value in case["inputs"].items()}
    values = list(inputs.values())
    if len(values) == 1 and case["op"] in TWICE:
        values = values * 2
    attrs = {name: float(value) if value in ("inf", "-inf", "nan") else value
             for name, value in case["attrs"].items() if not isinstance(value, list)}
    attrs.update((name, value) for name, value in case["attrs"].items() if isinstance(value, list))
    if attrs.get("dim", 0) is None and case["op"] != "norm":  # of all elements: then the two are not given
        attrs = {name: value for name, value in attrs.items() if name not in ("dim", "keepdim")}
    results = pick_op(case)(*values, **attrs)
    if case["op"] in ("var", "std") and len(case["outputs"]) == 2:
        results = [results, getattr(torch, case["op"])(*values, **attrs, unbiased=False)]
    outputs = tensors(results)
    case["outputs"] = [moved(f"{case['name']}, result {i}", old, outputs[i]) for i, old in enumerate(case["outputs"])]
    if "grad_out" in case:
        backward(outputs, case["grad_out"])
    for name, old in case.get("grads", {}).items():
        case["grads"][name] = moved(f"{case['name']}, gradient of {name}", old, inputs[name].grad)


TWICE = set("add sub mul div pow maximum minimum atan2 remainder fmod hypot fmax fmin logaddexp copysign xlogy "
            "floor_divide eq ne lt gt le ge matmul".split())

# ---- losses ----


def renew_loss(case):
    attrs = {k: v for k, v in case["attrs"].items() if k != "target"}
    inputs = {name: leaf(name, value, case.get("grads", {})) for name, value in case["inputs"].items()}
    weights = {k: v for k, v in inputs.items() if k in ("weight", "pos_weight")}
    loss = getattr(nn, case["loss"])(**attrs, **weights)
    output = loss(inputs["input"], inputs["target"])
    case["output"] = moved(f"{case['name']}", case["output"], output)
    output.backward(tensor(case["grad_out"]))
    for name, old in case.get("grads", {}).items():
        case["grads"][name] = moved(f"{case['name']}, gradient of {name}", old, inputs[name].grad)


# ---- modules ----

STATES = ("h0", "c0")
PLACES = {"x": 0, "q": 0, "k": 1, "v": 2, "x1": 0, "x2": 1, "idx": 0, "memory": 1}


def make_module(case):
    said = ("lengths", "enforce_sorted", "total_length")
    module = getattr(nn, case["module"])(**{k: v for k, v in case["attrs"].items() if k not in said})
    module.train(case.get("training", True))
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(tensor(case["params"][name]))
        for name, b in module.named_buffers():
            if name in case.get("buffers", {}):
                b.copy_(tensor(case["buffers"][name]))
    return module


def run_module(module, case, inputs):
    if "packed" in case:
        a = case["attrs"]
        packed = nn.utils.rnn.pack_padded_sequence(inputs["x"], a["lengths"], batch_first=True,
                                                   enforce_sorted=a["enforce_sorted"])
        told = case["packed"]
        case["packed"] = renew_packed(case["name"], told, packed)
        output, state = module(packed)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=a["total_length"])
        assert case["out_lengths"] == lengths.tolist() or case["out_lengths"].get("data") == lengths.tolist()
        return tensors([padded, state])
    if case["module"] == "MultiheadAttention" and "x" in inputs:
        x = inputs["x"]
        return tensors(module(x, x, x, **{k: v for k, v in inputs.items() if k != "x"}))
    placed = [v for k, v in sorted(((k, v) for k, v in inputs.items() if k in PLACES), key=lambda kv: PLACES[kv[0]])]
    named = {k: v for k, v in inputs.items() if k not in PLACES and k not in STATES}
    states = [inputs[s] for s in STATES if s in inputs]
    if states:
        placed.append(states[0] if len(states) == 1 else tuple(states))
    return tensors(module(*placed, **named))


def renew_packed(name, told, packed):
    for key in told:
        now = getattr(packed, key)
        told[key] = moved(f"{name}, packed {key}", told[key], now) if isinstance(told[key], dict) else (
            None if now is None else now.tolist())
    return told


def renew_steps(case):
    """The running statistics of a BatchNorm after each of several batches."""
    module = getattr(nn, case["module"])(**case["attrs"])
    for i, step in enumerate(case["steps"]):
        module(tensor(step["x"]))
        for name in step:
            if name != "x":
                now = getattr(module, name)
                step[name] = moved(f"{case['name']}, step {i}", step[name], now) if isinstance(step[name], dict) \
                    else now.item()


def renew_module(case):
    if "steps" in case:
        return renew_steps(case)
    if "raises" in case:
        try:
            make_module({**case, "params": {k: golden(p) for k, p in getattr(nn, case["module"])(
                **case["attrs"]).named_parameters()}})(tensor(case["inputs"]["x"]))
            sys.exit(f"{case['name']}: nothing is raised")
        except Exception as error:
            now = [type(error).__name__, str(error)]
            if now != case["raises"]:
                print(f"{case['name']}: raises {now}")
            case["raises"] = now
        return None
    module = make_module(case)
    inputs = {k: leaf(k, v, case.get("input_grads", {})) for k, v in case["inputs"].items()}
    outputs = run_module(module, case, inputs)
    told = case["outputs"]
    pairs = zip(told, outputs) if isinstance(told, list) else None
    case["outputs"] = [moved(f"{case['name']}, result {i}", old, new) for i, (old, new) in enumerate(pairs)]
    if case.get("grad_out"):
        backward(outputs, case["grad_out"])
    parameters = dict(module.named_parameters())
    for name, old in case.get("param_grads", {}).items():
        case["param_grads"][name] = moved(f"{case['name']}, gradient of {name}", old, parameters[name].grad)
    for name, old in case.get("input_grads", {}).items():
        case["input_grads"][name] = moved(f"{case['name']}, gradient of {name}", old, inputs[name].grad)
    buffers = dict(module.named_buffers())
    for name, old in case.get("buffers_after", {}).items():
        case["buffers_after"][name] = moved(f"{case['name']}, {name}", old, buffers[name])


# ---- graphs: which node runs when ----


def renew_graph(case):
    events, pool, named = [], [], {}
    for i, given in enumerate(case["program"]["leaves"]):
        pool.append(tensor(given).requires_grad_())
        named[f"l{i}"] = pool[i]
    for i, op in enumerate(case["program"]["ops"]):
        pool.append(getattr(torch, op[0])(*[pool[at] for at in op[1:]]))
        named[f"n{i}"] = pool[-1]
    named["last"] = last = pool[-1].sum()
    kept, seen = [], set()
    for name, t in named.items():
        if t.grad_fn is not None:
            t.grad_fn.register_hook(lambda *_, name=name: events.append(name))

    def walk(node):
        if node is None or node in seen:
            return
        seen.add(node)
        kept.append(node)
        for name, t in named.items():
            if getattr(node, "variable", None) is t:
                node.register_hook(lambda *_, name=name: events.append(f"AccumulateGrad({name})"))
        for after, _ in node.next_functions:
            walk(after)

    walk(last.grad_fn)
    last.backward()
    if sorted(events) != sorted(case["events"]):
        print(f"{case['name']}: {events}, was {case['events']}")
    case["events"] = events
    for name, old in case["grads"].items():
        case["grads"][name] = moved(f"{case['name']}, gradient of {name}", old, named[name].grad)


KINDS = {"op": renew_op, "loss": renew_loss, "module": renew_module, "program": renew_graph}
for path in sys.argv[1:]:
    with open(path) as file:
        whole = json.load(file)
    for case in whole["cases"]:
        kind = next(k for k in KINDS if k in case)
        try:
            KINDS[kind](case)
        except Exception as error:
            print(f"{path}: {case['name']}: {type(error).__name__}: {error}")
            raise
    whole["header"].update(torch=torch.__version__.split("+")[0], threads=1,
                           made_by="renew.py beside this file: the same cases with the PyTorch named here, CPU")
    with open(path, "w") as file:
        json.dump(whole, file, separators=(",", ":"))
        file.write("\n")
