#!/usr/bin/env python3
"""syncbn.py: makes ddp-syncbn-more.json beside this file: what SyncBatchNorm comes to on each rank, by the formulas of a
BatchNorm over all ranks' rows, in float64. PyTorch's own runs on a GPU only.

    syncbn.py                what stands beside this file, again
    syncbn.py FOLDER SEED    the same file there with other numbers and shapes"""
import json, os, random, sys
import numpy as np

NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def number(x):
    text = str(x)
    return text if text in ("nan", "inf", "-inf") else float(text)


def golden(array, dtype):
    """The shortest decimals that read back to the same elements; those of 16 bits as float32."""
    array = np.asarray(array).astype(NUMPY[dtype])
    shown = array if dtype == "f64" else array.astype(np.float32)
    return {"t": dtype, "s": list(array.shape), "d": [number(x) for x in shown.reshape(-1)]}


def along(row, like):
    return row.reshape([1, -1] + [1] * (like.ndim - 2))


def by_channel(array):
    return np.moveaxis(array, 1, 0).reshape(array.shape[1], -1)


def case(draw, name, rows, channels, places=(), dtype="f32", momentum=0.1, eps=1e-5, weight=True, bias=True, scale=1.0, shift=0.0):
    def drawn(shape):
        steps = [draw.randint(-64, 64) for _ in range(int(np.prod(shape)))]
        return np.array(steps, np.float64).reshape(shape) / 64
    shapes = [(n, channels, *places) for n in rows]
    inputs = [golden(drawn(shape) * scale + shift, dtype) for shape in shapes]
    grads = [golden(drawn(shape), dtype) for shape in shapes]
    w = golden(drawn((channels,)) + 1.5, dtype) if weight else None
    b = golden(drawn((channels,)), dtype) if weight and bias else None
    x = [np.array(g["d"], np.float64).reshape(g["s"]) for g in inputs]
    dy = [np.array(g["d"], np.float64).reshape(g["s"]) for g in grads]
    gain = np.array(w["d"]) if w else np.ones(channels)
    offset = np.array(b["d"]) if b else np.zeros(channels)

    every = np.concatenate([by_channel(a) for a in x], 1)
    count, mean, variance = every.shape[1], every.mean(1), every.var(1)
    scaled = 1 / np.sqrt(variance + eps)
    sums = [by_channel(g).sum(1) for g in dy]
    products = [(by_channel(g) * (by_channel(a) - mean[:, None])).sum(1) for g, a in zip(dy, x)]
    sum_dy, sum_dy_xmu = sum(sums), sum(products)

    def output(a):
        return (a - along(mean, a)) * along(scaled * gain, a) + along(offset, a)

    def grad(a, g):
        slope = along(scaled ** 2 * sum_dy_xmu / count, a)
        return (g - along(sum_dy / count, a) - (a - along(mean, a)) * slope) * along(scaled * gain, a)

    share = 1.0 if momentum is None else momentum           # cumulative: the first batch is all there is
    out = {"name": name, "world": len(rows), "eps": eps, "momentum": momentum, "inputs": inputs, "grad_outputs": grads,
           "weight": w, "bias": b, "outputs": [golden(output(a), dtype) for a in x],
           "grad_inputs": [golden(grad(a, g), dtype) for a, g in zip(x, dy)],
           "local_grad_weight": [golden(p * scaled, dtype) if w else None for p in products],
           "local_grad_bias": [golden(s, dtype) if b else None for s in sums],
           "running_mean": golden(share * mean, dtype),
           "running_var": golden(1 - share + share * variance * count / (count - 1), dtype),
           "mean": golden(mean, dtype), "biased_var": golden(variance, dtype)}
    if w:
        out["sum_grad_weight"] = golden(sum_dy_xmu * scaled, dtype)
    if b:
        out["sum_grad_bias"] = golden(sum_dy, dtype)
    return out


def cases(seed):
    draw = random.Random(seed)
    few = lambda: draw.randint(1, 4)
    return [
        case(draw, "two ranks, rows and columns", [few() + 1, few()], few()),
        case(draw, "planes", [few(), few()], few(), (few(), few() + 1)),
        case(draw, "volumes", [few(), few()], 2, (2, 1, few())),
        case(draw, "one channel", [few() + 1, few()], 1, (few(),)),
        case(draw, "one value a rank", [1, 1], 3),
        case(draw, "three ranks, uneven", [1, 5, 2], few(), (3,)),
        case(draw, "rank 0 has no rows", [0, few() + 1], 3),
        case(draw, "the last rank has no rows", [3, 1, 0], 2, (2, 2)),
        case(draw, "one rank alone has rows", [0, 4, 0, 0], 2, (few(),)),
        case(draw, "four ranks", [few(), few(), few(), few()], few(), (2,)),
        case(draw, "four ranks, two of them empty", [0, 3, 0, 2], 4),
        case(draw, "momentum 0", [2, 3], 2, momentum=0.0),
        case(draw, "momentum 1", [2, 3], 2, momentum=1.0),
        case(draw, "momentum 0.37", [4, 1], 2, (3,), momentum=0.37),
        case(draw, "momentum none", [2, 3], 2, momentum=None),
        case(draw, "a large eps", [2, 3], 2, eps=0.5),
        case(draw, "without affine", [3, 2, 1], 3, weight=False),
        case(draw, "without a bias", [3, 2], 3, bias=False),
        case(draw, "float64, a mean far from 0", [3, 4], 2, (2,), dtype="f64", shift=1000.0),
        case(draw, "float64, large and small", [2, 2, 2], 3, dtype="f64", scale=1e3),
    ]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else (here, 2718)
    header = {"format": "ringside-golden-1", "made_by": "tests/golden/syncbn.py: formulas in float64", "seed": seed,
              "how_to_read": "As ddp-syncbn.json. null is no tensor; momentum null is a cumulative average.",
              "compare": "rtol 1e-4, atol 1e-5"}
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases(seed))
    with open(os.path.join(folder, "ddp-syncbn-more.json"), "w") as out:
        out.write('{"header":%s,\n"cases":[\n%s\n]}\n' % (json.dumps(header, separators=(",", ":")), lines))


if __name__ == "__main__":
    main()
