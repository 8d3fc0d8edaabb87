#!/usr/bin/env python3
"""Makes dumps as PyTorch's Flight Recorder writes them of NCCL: python3 flight_made.py FOLDER. Nothing here was recorded:
what stands in them are the fields that torch/distributed/flight_recorder reads, with numbers made up below. Pickles come
in every protocol from 0 to 5, and their values as JSON beside them; no torch is needed."""
import json
import os
import pickle
import sys

START_NS = 1_700_000_000_000_000_000
DEFAULT = ("0", "default_pg")


def frames(line, name="train_step"):
    return [{"name": "all_reduce", "filename": "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
             "line": 2806},
            {"name": name, "filename": "/home/you/train.py", "line": line}]


class Rank:
    """One rank's recorder, with the counters of its groups."""

    def __init__(self, rank, groups, version="2.4"):
        self.rank, self.version, self.entries, self.record = rank, version, [], 0
        self.groups = {name: ranks for name, ranks in groups.items() if rank in ranks}
        self.seq, self.p2p, self.op = {}, {}, {}

    def call(self, what, sizes, line, state="completed", group=DEFAULT, dtype="Float", outputs=None, same_seq=False,
             is_p2p=False):
        name = group[0]
        counter = self.p2p if is_p2p else self.seq
        if not same_seq:
            counter[name] = counter.get(name, 0) + 1
        self.op[name] = self.op.get(name, 0) + 1
        at = START_NS + self.record * 1_000_000 + self.rank * 1000
        self.entries.append({
            "record_id": self.record, "pg_id": list(self.groups).index(name), "process_group": group,
            "collective_seq_id": self.seq.get(name, 0), "p2p_seq_id": self.p2p.get(name, 0), "op_id": self.op[name],
            "profiling_name": "nccl:" + what, "time_created_ns": at,
            "input_sizes": sizes, "input_dtypes": [dtype] * len(sizes),
            "output_sizes": sizes if outputs is None else outputs,
            "output_dtypes": [dtype] * len(sizes if outputs is None else outputs), "state": state,
            "time_discovered_started_ns": None if state == "scheduled" else at + 2000,
            "time_discovered_completed_ns": at + 90_000 if state == "completed" else None,
            "duration_ms": 0.088 if state == "completed" else None, "retired": state == "completed",
            "timeout_ms": 600000, "is_p2p": is_p2p, "frames": frames(line)})
        self.record += 1

    def dump(self):
        last = {state: max([e.get("collective_seq_id", -1) for e in self.entries if rule(e)], default=-1) for state, rule in
                (("enqueued", lambda e: True), ("started", lambda e: e["state"] != "scheduled"),
                 ("completed", lambda e: e["state"] == "completed"))}
        return {"version": self.version, "entries": self.entries,
                "pg_config": {name: {"name": name, "desc": "default_pg" if name == "0" else "undefined",
                                     "ranks": str(list(ranks))} for name, ranks in self.groups.items()},
                "pg_status": {"0": {f"last_{state}_collective": seq for state, seq in last.items()}},
                "nccl_comm_state": {"0x55d0c0de": {"rank": str(self.rank), "n_ranks": "4"}}}


def world(size, **groups):
    return [Rank(rank, {"0": list(range(size)), **groups}) for rank in range(size)]


def missing_rank():
    ranks = world(4)
    for rank in ranks:
        for _ in range(6):
            rank.call("all_reduce", [[1024, 1024]], 88)
        rank.call("all_reduce", [[1024, 1024]], 88, "started")
    return [rank for rank in ranks if rank.rank != 2]


def other_dtype():
    ranks = world(2)
    for rank in ranks:
        rank.call("broadcast", [[128]], 40)
        rank.call("all_reduce", [[1048576]], 88, "started", dtype="Half" if rank.rank == 1 else "Float")
    return ranks


def other_state():
    """Rank 2's kernel never began: its stream is busy with something else."""
    ranks = world(4)
    for rank in ranks:
        rank.call("all_reduce", [[4096]], 88)
        rank.call("all_reduce", [[4096]], 88, "scheduled" if rank.rank == 2 else "started")
    return ranks


def all_to_all():
    """Splits are each rank's own; rank 3 gathers instead."""
    ranks = world(4)
    for rank in ranks:
        rank.call("all_to_all", [[16 + rank.rank, 8]], 61, outputs=[[20, 8]])
        if rank.rank == 3:
            rank.call("_all_gather_base", [[16, 8]], 62, "started", outputs=[[64, 8]])
        else:
            rank.call("all_to_all", [[12 + rank.rank, 8]], 62, "started", outputs=[[18, 8]])
    return ranks


def coalesced():
    """Three reduce_scatters as one call; rank 1 puts two into it."""
    ranks = world(2)
    for rank in ranks:
        rank.call("all_reduce", [[64]], 30)
        parts = [[512], [256], [128]][:2 if rank.rank == 1 else 3]
        for i, size in enumerate(parts):
            rank.call("_reduce_scatter_base", [[2 * size[0]]], 31, "scheduled", outputs=[size], same_seq=i > 0)
        rank.call("reduce_scatter_tensor_coalesced", [], 31, "started", same_seq=True)
    return ranks


def pipeline():
    """Stage 1 sends to stage 2, which is busy with something else."""
    ranks = world(3)
    for rank in ranks:
        rank.call("all_reduce", [[33]], 60)
    ranks[0].call("send 0->1", [[8, 256]], 51, is_p2p=True)
    ranks[1].call("recv 1<-0", [[8, 256]], 50, is_p2p=True)
    ranks[1].call("send 1->2", [[8, 256]], 51, "started", is_p2p=True)
    return ranks


def batched_p2p():
    """batch_isend_irecv: ranks 0 and 1 exchange, rank 1 forgot its receive."""
    ranks = world(2)
    for rank in ranks:
        rank.call("all_reduce", [[4]], 10)
        other = 1 - rank.rank
        rank.call(f"send {rank.rank}->{other}", [[5]], 12, "scheduled", is_p2p=True)
        if rank.rank == 0:
            rank.call(f"recv {rank.rank}<-{other}", [[5]], 12, "scheduled", is_p2p=True, same_seq=True)
        rank.call("coalesced", [], 12, "started", is_p2p=True, same_seq=True)
    return ranks


def ring_lost():
    """Rings of five calls that lost the oldest; rank 1 is one call behind and calls nothing more."""
    ranks = world(3)
    for rank in ranks:
        for i in range(2000 if rank.rank != 1 else 1999):
            rank.call("all_reduce", [[77]], 88, "started" if i == 1999 else "completed")
        rank.entries = rank.entries[-5:]
    return ranks


def only_active():
    """What is over is left out, as the debug server asks for; rank 0 is elsewhere."""
    ranks = ring_lost()
    for rank in ranks:
        rank.entries = [entry for entry in rank.entries if entry["state"] != "completed"]
    return ranks


def subgroups():
    """Tensor-parallel pairs, a data-parallel group across; rank 3's pair is a step behind."""
    ranks = world(4, **{"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]})
    for rank in ranks:
        pair = ("1", "tp") if rank.rank < 2 else ("2", "tp")
        across = ("3", "dp") if rank.rank % 2 == 0 else ("4", "dp")
        for name, ranks_of in list(rank.groups.items()):
            assert rank.rank in ranks_of, name
        rank.call("all_reduce", [[32]], 70, group=pair)
        rank.call("all_reduce", [[4096]], 80, group=across)
        rank.call("all_reduce", [[32]], 70, "started" if rank.rank >= 2 else "completed", group=pair) \
            if rank.rank != 3 else None
        if rank.rank < 2:
            rank.call("all_reduce", [[4096]], 80, "started", group=across)
    return ranks


def older():
    """As versions before 2.4 have it: seq_id, no process_group, microseconds."""
    ranks = world(2)
    for rank in ranks:
        rank.version = "1.5"
        rank.call("all_reduce", [[10]], 5)
        rank.call("all_reduce" if rank.rank == 0 else "all_gather", [[10]], 6, "started")
        for entry in rank.entries:
            entry["seq_id"] = entry.pop("collective_seq_id")
            entry["time_created_us"] = entry.pop("time_created_ns") // 1000
            for key in ("process_group", "p2p_seq_id", "op_id", "is_p2p", "duration_ms", "timeout_ms"):
                entry.pop(key)
    return ranks


def sixty_four():
    ranks = world(64)
    for rank in ranks:
        rank.call("all_reduce", [[26214400]], 88)
        if rank.rank != 17:
            rank.call("all_reduce", [[1]], 90, "started")
        rank.call("all_reduce", [[26214400]], 88, "started" if rank.rank == 17 else "scheduled")
        for entry in rank.entries:
            entry["frames"] = entry["frames"][1:]
    return ranks


SITUATIONS = [missing_rank, other_dtype, other_state, all_to_all, coalesced, pipeline, batched_p2p, ring_lost, only_active,
              subgroups, older, sixty_four]


def write(folder, name, protocol, dumps):
    where = os.path.join(folder, "made_" + name)
    os.makedirs(where, exist_ok=True)
    if len(dumps) > 8:
        dumps = {"s": {str(rank): dump for rank, dump in dumps.items()}}
    for rank, dump in dumps.items():
        with open(os.path.join(where, f"made_{rank}"), "wb") as file:
            pickle.dump(dump, file, protocol)
        with open(os.path.join(where, f"made_{rank}.json"), "w") as file:
            json.dump(dump, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    for number, situation in enumerate(SITUATIONS):
        write(sys.argv[1], situation.__name__, number % 6, {rank.rank: rank.dump() for rank in situation()})
