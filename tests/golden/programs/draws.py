# Answers the cases of rng-more.json and rng-orders.json anew: what a case asks for stays, what PyTorch draws is written
# behind it. How a case is read stands in the files' headers.
#
#   python tests/golden/programs/draws.py tests/golden/rng-more.json tests/golden/rng-orders.json
#
# With PyTorch 2.15 (pip's CPU build does) on a processor that is not Intel's, where its builds with MKL draw coins from
# the Mersenne twister; one thread.
import json
import struct
import sys
import warnings
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

warnings.simplefilter("ignore")
torch.set_num_threads(1)

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FORMATS = {"f32": "<f", "f64": "<d", "f16": "<f", "bf16": "<f", "i64": "<q", "i32": "<i", "i8": "b", "u8": "B",
           "bool": "B"}

# An empty tensor of the shape, laid out as the name says.
LAYOUTS = {
    "contiguous": lambda s, o: torch.empty(s, **o),
    "transposed": lambda s, o: torch.empty(s[1], s[0], **o).t(),
    "every_second_column": lambda s, o: torch.empty(s[0], s[1], 2, **o).select(2, 0),
    "every_second_row_transposed": lambda s, o: torch.empty(s[1], 2, s[0], **o).select(1, 0).t(),
    "channels_last": lambda s, o: torch.empty(s[0], s[2], s[3], s[1], **o).permute(0, 3, 1, 2),
    "reversed": lambda s, o: torch.empty(s[::-1], **o).permute(*reversed(range(len(s)))),
}


def shortest(value):
    for digits in range(6, 10):
        text = "%.*g" % (digits, value)
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value:
            break
    return float(text)


def element(value, name):
    if name == "bool":
        return bool(value)
    if name in ("i64", "i32", "i8", "u8"):
        return str(value) if abs(value) >= 2**53 else value
    return value if name == "f64" else shortest(value)


def golden(t):
    t, name = t.detach(), NAMES[t.dtype]
    flat = t.reshape(-1).tolist()
    out = {"dtype": name, "shape": list(t.shape)}
    if len(flat) <= 24:
        return dict(out, data=[element(x, name) for x in flat])
    crc = zlib.crc32(b"".join(struct.pack(FORMATS[name], x) for x in flat))
    return dict(out, crc32="%08x" % crc, first=[element(x, name) for x in flat[:8]],
                last=[element(x, name) for x in flat[-8:]])


def rand_after(case):
    if "rand_after" in case:
        case["rand_after"] = [shortest(x) for x in torch.rand(2).tolist()]


def drawn(step, shape):
    op, args = step["op"], [int(a) if isinstance(a, str) else a for a in step.get("args", [])]
    options = {"dtype": DTYPES[step.get("dtype") or step["out"]["dtype"]]}
    if op in ("rand", "randn"):
        return getattr(torch, op)(shape, **options)
    if op == "randint":
        return torch.randint(args[0], args[1], shape, **options)
    if op == "randperm":
        return torch.randperm(shape[0])
    if op == "bernoulli":
        return torch.bernoulli((torch.arange(shape[0]) % 65).to(options["dtype"]) / 64)
    t = LAYOUTS[step.get("layout", "contiguous")](shape, options)
    return getattr(torch, op)(t) if op.endswith("_like") else getattr(t, op)(*args)


def draw(case):
    torch.manual_seed(int(case["seed"]))
    case["out"] = golden(drawn(case, case.get("shape") or [case["n"]]))
    rand_after(case)


def sequence(case):
    torch.manual_seed(int(case["seed"]))
    for step in case["steps"]:
        if step["op"] == "manual_seed":
            torch.manual_seed(int(step["args"][0]))
        else:
            step["out"] = golden(drawn(step, step["shape"]))
    rand_after(case)


def state(case):
    op, n = case["after"].rstrip(")").split("(")
    torch.manual_seed(case["seed"])
    getattr(torch, op)(int(n))
    raw = bytes(torch.get_rng_state().tolist())
    at = 24 + 624 * 8
    case.update(bytes=len(raw), left=struct.unpack("<i", raw[8:12])[0], next=struct.unpack("<q", raw[16:24])[0],
                cached=struct.unpack("<i", raw[at + 24:at + 28])[0] == 1,
                cached_f64=struct.unpack("<d", raw[at + 8:at + 16])[0], crc32="%08x" % zlib.crc32(raw))


class Gpt(nn.Module):
    def __init__(self, v, t, d, h, n):
        super().__init__()
        self.tok, self.pos = nn.Embedding(v, d), nn.Embedding(t, d)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(d, h, dim_feedforward=2 * d) for _ in range(n)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, v, bias=False)


class LateOrder(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_module("first", None)
        late = nn.Linear(3, 4)
        self.first, self.second = nn.Linear(4, 2), late


def mlp(*widths):
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def cnn(a, b, c, outs):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(b, c, 3, bias=False), nn.Flatten(), nn.Linear(4 * c, outs))


MODELS = {"Mlp": mlp, "Cnn": cnn, "Gpt": Gpt, "LateOrder": LateOrder}


def module(case):
    torch.manual_seed(case["seed"])
    made = (MODELS.get(case["module"]) or getattr(nn, case["module"]))(*case["args"], **case["kwargs"])
    rand_after(case)
    case["params"] = [dict(name=name, **golden(p)) for name, p in made.named_parameters()]
    case["buffers"] = [dict(name=name, **golden(b)) for name, b in made.named_buffers()]


def init(case):
    torch.manual_seed(case["seed"])
    t = LAYOUTS[case.get("layout", "contiguous")](case["shape"], {"dtype": DTYPES[case.get("dtype", "f32")]})
    out = getattr(nn.init, case["fn"])(t, **case["kwargs"])
    case["out"] = golden(out)
    if "tol" in case:
        case["out"] = {"dtype": NAMES[out.dtype], "shape": list(out.shape), "data": out.reshape(-1).tolist()}
    rand_after(case)


def randperm(case):
    torch.manual_seed(int(case["seed"]))
    case["out"] = golden(torch.randperm(case["n"]))
    rand_after(case)


def distributed_sampler(case):
    for epoch in case["epochs"]:
        epoch["indices"] = []
        for rank in range(case["replicas"]):
            sampler = DistributedSampler(range(case["n"]), case["replicas"], rank, seed=case["seed"],
                                         drop_last=case["drop_last"])
            sampler.set_epoch(epoch["epoch"])
            epoch["indices"].append(list(sampler))


def data_loader(case):
    torch.manual_seed(case["seed"])
    generator = torch.Generator().manual_seed(case["seed"]) if case["own_generator"] else None
    loader = DataLoader(TensorDataset(torch.arange(case["n"])), case["batch_size"], case["shuffle"], generator=generator)
    case["epochs"] = [[batch[0].tolist() for batch in loader] for _ in case["epochs"]]
    rand_after(case)


def dropout(case):
    shape = case["shape"]
    n = torch.Size(shape).numel()
    x = ((torch.arange(n).float() - n // 2 + 0.25) / 8).to(DTYPES[case.get("dtype", "f32")]).reshape(shape)
    laid_out = LAYOUTS[case["layout"]](shape, {"dtype": x.dtype}).copy_(x)
    torch.manual_seed(case["seed"])
    out = getattr(nn.functional, case["kind"])(laid_out, case["p"], True)
    case["out"] = golden(out)
    if case.get("mask") is not None:
        case["mask"] = "".join("0" if x == 0 else "1" for x in out.reshape(-1).tolist())
    rand_after(case)


def multinomial(case):
    w = case["weights"]
    torch.manual_seed(case["seed"])
    weights = torch.tensor(w["data"], dtype=DTYPES[w["dtype"]]).reshape(w["shape"])
    case["out"] = torch.multinomial(weights, case["num_samples"], case["replacement"]).tolist()
    rand_after(case)


ANSWERS = {"draws": draw, "sequences": sequence, "state": state, "modules": module, "models": module, "init": init,
           "randperm": randperm, "distributed_sampler": distributed_sampler, "data_loader": data_loader,
           "dropout": dropout, "multinomial": multinomial}


def answer(path):
    with open(path) as file:
        content = json.load(file)
    content["header"]["torch"] = torch.__version__.split("+")[0]
    for section, cases in content.items():
        for case in cases if section != "header" else []:
            ANSWERS[section](case)
    with open(path, "w") as file:
        parts = []
        for section, cases in content.items():
            rows = json.dumps(cases) if section == "header" else "[%s]" % ",\n".join(json.dumps(case) for case in cases)
            parts.append("%s: %s" % (json.dumps(section), rows))
        file.write("{%s}\n" % ",\n".join(parts))


torch.manual_seed(0)
torch.empty(4).bernoulli_(0.5)
if torch.rand(1).item() != torch.rand(9, generator=torch.Generator().manual_seed(0))[8].item():
    sys.exit("draws.py: this PyTorch draws coins from MKL's generator")
for name in sys.argv[1:]:
    answer(name)
