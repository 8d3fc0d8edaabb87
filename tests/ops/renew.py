#!/usr/bin/env python3
"""Makes the expected numbers of compositions.json anew with the PyTorch that is installed: each case's line of Lua is
read as Python, inputs and gradients put in stay. Says where the numbers moved by more than rounding."""
import json, os, re, sys
import torch

here = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def python(lua):
    """Colons, tables and truth as Python has them; a table with names is a call's options."""
    text = re.sub(r":(\w+)\{", r".\1{", lua)
    text = re.sub(r":(?=\w+[({])", ".", text).replace("true", "True").replace("false", "False")
    text = re.sub(r"\{(\w+ ?=[^{}]*)\}", lambda m: m.group(1), text)
    text = re.sub(r"(?<=[\w])(\.?\w*)\{([^{}]*)\}", r"\1([\2])", text)
    while "{" in text:
        text = re.sub(r"\{([^{}]*)\}", r"[\1]", text)
    text = re.sub(r"\)\[(\d+)\]", lambda m: f")[{int(m.group(1)) - 1}]", text)
    text = re.sub(r"\.(aminmax|cov|unique_consecutive|unique|bincount)\(?(\w+=[^()]*)\)?$", r".\1(\2)", text.replace(" = ", "="))
    text = re.sub(r"^(\w)\.(var_mean|std_mean|atleast_\dd)\(", r"torch.\2(\1, ", text)
    return text.replace("rs.", "torch.").replace("'int64'", "torch.int64")


def tensor(given):
    data = [float(x) if isinstance(x, str) else x for x in given["data"]]
    return torch.tensor(data, dtype=TYPES[given["dtype"]]).reshape(given["shape"])


def number(x):
    if x.dtype.kind != "f":
        return x.item()
    return str(x) if str(x) in ("nan", "inf", "-inf") else float(str(x))


def golden(t):
    t = t.detach()
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.reshape(-1).numpy(force=True)]}


def moved(label, old, new):
    before = tensor(old)
    if before.shape != new.shape or before.dtype != new.dtype or not torch.allclose(
            before.double(), new.detach().double(), rtol=1e-4, atol=1e-5, equal_nan=True):
        print(f"{label}: was {old}, is {golden(new)}")
    return golden(new)


def renew(case):
    scope = {name: tensor(given) for name, given in case["inputs"].items()}
    for name in case.get("grads") or {}:
        scope[name].requires_grad_()
    result = eval(python(case["code"]), {"torch": torch}, scope)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    case["outputs"] = [moved(case["name"], old, new) for old, new in zip(case["outputs"], outputs)]
    wanted = [t for t in outputs if t.requires_grad]
    for output, grad in zip(wanted, case.get("grad_out") or []):
        output.backward(tensor(grad), retain_graph=True)
    for name, old in (case.get("grads") or {}).items():
        case["grads"][name] = moved(f"{case['name']}, gradient of {name}", old, scope[name].grad)


path = os.path.join(here, "compositions.json")
with open(path) as file:
    whole = json.load(file)
refused = []
for case in whole["cases"]:
    try:
        renew(case)
    except Exception as error:
        refused.append(f"{case['name']} [{python(case['code'])}]: {type(error).__name__}: {error}")
print(*refused, sep="\n")
if not refused:
    whole["made_by"] = "PyTorch " + torch.__version__.split("+")[0] + ", by renew.py beside this file"
    with open(path, "w") as file:
        json.dump(whole, file, separators=(",", ":"))
        file.write("\n")
sys.exit(bool(refused))
