#!/usr/bin/env python3
"""ddp_join.py: makes ddp-join-more.json beside this file with the PyTorch that runs it (2.15 or later, with gloo): trainings as
those of ddp.py, in which each rank makes a number of steps of its own under DistributedDataParallel's join. The form is that of
ddp-train.json's join_* scenarios.

    ddp_join.py                what stands beside this file, again
    ddp_join.py FOLDER SEED    the same file there with other models, worlds, caps, options and numbers"""
import os, random, sys
import ddp
from ddp import MIB


def join_run(case, ranks):
    """Steps by rank; the final state once, if all ranks have it."""
    out = {key: value for key, value in case.items() if key not in ("count", "part")}
    out["grads_and_params_same_on_every_rank"] = False
    out["after_wrap"] = [r["after_wrap"] for r in ranks]
    if case.get("buffers"):
        out["buffers_after_wrap_by_rank"] = [r["buffers"] for r in ranks]
        out["final_buffers"] = [r["final_buffers"] for r in ranks]
    out["steps_by_rank"] = []
    for r in ranks:
        steps = []
        for s in r["steps"]:
            step = {key: s[key] for key in ("losses", "grads", "params")}
            if s["sparse"]:
                step["sparse_layout"] = s["sparse"]
            if case.get("buffers"):
                step["buffers"] = s["buffers"]
            steps.append(step)
        out["steps_by_rank"].append(steps)
    out["final_same_on_every_rank"] = all(r["final"] == ranks[0]["final"] for r in ranks)
    out["final"] = ranks[0]["final"] if out["final_same_on_every_rank"] else [r["final"] for r in ranks]
    return out


ddp.PARTS["join"] = (ddp.train_rank, join_run)


def join_cases(draw):
    find, view = {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}

    def small(**others):
        return {"bucket_cap_mb": draw.randrange(1, 400) / MIB, **others}

    wanted = [
        ("by all", "dense", 0, True, {}), ("by those left", "dense", 0, False, {}),
        ("small caps", "dense", 0, True, {"kw": small()}), ("small caps by those left", "dense", 0, False, {"kw": small()}),
        ("view", "dense", 0, True, {"kw": small(**view)}), ("view zeroed", "dense", 0, False, {"kw": view, "zero": "zero"}),
        ("find", "dense", 0, False, {"kw": small(**find)}), ("static", "dense", 1, True, {"kw": small(static_graph=True)}),
        ("batched", "dense", 0, False, {"kw": small(batched_grad_copy=True)}),
        ("lazy", "dense", 0, True, {"kw": small(lazy_bucket_allocation=True)}),
        ("sum, uneven batches", "dense", 0, True, {"loss": "sum", "uneven": True}),
        ("accumulate", "dense", 0, True, {"accumulate": 2, "zero": "none"}),
        ("accumulate view", "dense", 0, False, {"accumulate": 3, "kw": small(**view), "zero": "none"}),
        ("ignored", "dense", 0, True, {"init": "per_rank", "ignores": True}), ("frozen", "dense", 0, False, {"freeze": True}),
        ("image", "image", 0, True, {}), ("image by those left", "image", 0, False, {"kw": small()}),
        ("image without forward sync", "image", 0, True, {"kw": {"forward_sync_buffers": False}}),
        ("image accumulate", "image", 0, True, {"accumulate": 2}),
        ("branches", "branch", 1, True, {"kw": find, "zero": "none"}),
        ("branches by those left", "branch", 1, False, {"kw": small(**find), "zero": "none"}),
        ("branches view", "branch", 1, False, {"kw": {**find, **view}, "zero": "none"}),
        ("disabled", "dense", 3, True, {"disabled": True}),
    ]
    # Sparse gradients are none of it: there 2.15 stops at an assertion.
    # A rank without a single step has nothing in its used map, and 2.15 reads it before it writes it: not with branches.
    cases = []
    for name, kind, least, initial, extra in wanted:
        world = draw.randrange(2, 5)
        counts = [draw.randrange(least, least + 4) for _ in range(world)]
        join = {"divide_by_initial_world_size": initial}
        if extra.pop("disabled", False):
            counts, join["enable"] = [least] * world, False
        elif max(counts) < 2:
            counts[draw.randrange(world)] = 2
        case = ddp.scenario(draw, kind, world, {**extra, "counts": counts, "join": join})
        cases.append({"part": "join", "name": name, **case})
    return cases


def main():
    folder, seed = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.path.dirname(os.path.abspath(__file__)), 1)
    os.makedirs(folder, exist_ok=True)
    cases = join_cases(random.Random(seed))
    ddp.write(folder, "ddp-join-more.json", {"read": "as the join_* scenarios of ddp-train.json"},
              scenarios=ddp.run([(case["part"], case) for case in cases]))


if __name__ == "__main__":
    main()
