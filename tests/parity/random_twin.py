# The twin of tests/parity/random.lua: runs the same programs with PyTorch and tells where they differ. -n also tells where
# the nodes' names do. PyTorch saves more tensors than it reads, so it may refuse a backward that goes well here: no
# difference.
import math
import re
import sys
import warnings
import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def numbers(words):
    named = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "-nan": math.nan, "true": 1.0, "false": 0.0}
    return [named[w] if w in named else float(w) for w in words]


def shape(word):
    return [int(x) for x in word[1:-1].split(",") if x]


def differs(words, t, scale):
    if words[0] != str(t.dtype)[6:]:
        return "dtype %s, PyTorch %s" % (words[0], t.dtype)
    if shape(words[1]) != list(t.shape):
        return "shape %s, PyTorch %s" % (words[1], list(t.shape))
    for a, b in zip(numbers(words[2:2 + t.numel()]), t.detach().double().flatten().tolist()):
        if a != b and not (a != a and b != b) and not abs(a - b) <= 2e-5 * (scale + abs(b)):
            return "%.9g, PyTorch %.9g" % (a, b)
    return None


class Program:
    def __init__(self, seed):
        self.seed, self.env, self.lines = seed, {"torch": torch, "F": F, "D": torch.float32}, []
        self.leaves, self.dead, self.loss, self.scale = [], False, None, 1.0
        self.steps = 0

    def complain(self, text):
        global wrong
        wrong += 1
        self.dead = True
        print("# seed %d: %s\n#   %s" % (self.seed, text, "\n#   ".join(self.lines)))

    def run(self, text, answer):
        self.lines.append(text)
        self.steps += 1
        try:
            exec(text, self.env)
            error = None
        except Exception as e:
            error = str(e).split("\n")[0]
        if answer.startswith("ERR") != (error is not None):
            self.complain("PyTorch: %s; here: %s" % (error or "no error", answer))
        elif answer.startswith("GAVE"):
            words = answer.split()[1:]
            t = self.env[re.split("[ ,]", text)[0]]
            why = differs(words, t, self.scale)
            if why is None and len(words) > 2:
                here = re.sub("[<>]", "", words[-1]) if "Backward" in words[-1] else "None"
                there = t.grad_fn.name() if t.grad_fn is not None else "None"
                if here != there:
                    nodes[(here, there, re.sub(r"\b[vx]\d+\w*|[-\d.]+", "_", text))] = self.seed
            if why:
                self.complain("%s" % why)


wrong, ran, steps, program, nodes = 0, 0, 0, None, {}
pending = None
for line in sys.stdin:
    line = line.rstrip("\n")
    word, _, rest = line.partition(" ")
    if word == "PROGRAM":
        if program:
            steps += program.steps
        program, ran = Program(int(rest)), ran + 1
    elif program is None or program.dead:
        continue
    elif word == "LEAF":
        name, size, *values = rest.split()
        t = torch.tensor(numbers(values)).reshape(shape(size)).requires_grad_()
        program.env[name] = t
        program.leaves.append(name)
        program.lines.append("%s = torch.tensor(%s).reshape(%s).requires_grad_()" % (name, numbers(values), shape(size)))
    elif word == "STEP":
        pending = rest
    elif word in ("GAVE", "DONE") or word == "ERR" and pending is not None:
        program.run(pending, line)
        pending = None
    elif word == "OUT":
        t = program.env[rest]
        try:
            square = (t * t).sum()
            program.loss = square if program.loss is None else program.loss + square
        except Exception:
            pass
    elif word in ("BACKWARD", "ERR") and program.loss is not None:
        program.lines.append("loss.backward()")
        try:
            program.loss.backward()
            error = None
        except Exception as e:
            error = str(e).split("\n")[0]
        if word == "BACKWARD" and error and "modified by an inplace operation" in error:
            program.dead = True
        elif (word == "ERR") != (error is not None):
            program.complain("backward: PyTorch: %s; here: %s" % (error or "no error", line))
    elif word == "GRAD":
        name, *words = rest.split()
        there = program.env[name].grad
        if (words[0] == "None") != (there is None):
            program.complain("%s.grad: here %s, PyTorch %s" % (name, words[0], there))
        elif there is not None:
            scale = there.abs().max().item() if there.numel() else 0
            why = differs(words, there, 10 * max(scale, 1) if scale == scale else 1)
            if why:
                program.complain("%s.grad: %s" % (name, why))
if "-n" in sys.argv:
    for (here, there, text), seed in sorted(nodes.items()):
        print("# node %s, PyTorch %s: %s (seed %d)" % (here, there, text, seed))
print("%d programs, %d steps, %d differences" % (ran, steps + program.steps, wrong))
sys.exit(wrong > 0)
