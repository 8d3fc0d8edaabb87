import torch


def table(rows, index, step):
    values = torch.arange(len(index) * 4, dtype=torch.float32).reshape(len(index), 4)[:, ::step]
    return torch.sparse_coo_tensor([index], values, (rows, values.shape[1]))


def show(name, t):
    print(name, *t._indices().flatten().tolist(), "coalesced" if t.is_coalesced() else "apart", *("%g" % v for v in t._values().flatten().tolist()))


# Values that lie apart are joined one behind the other, and merged once there are more pairs than elements.
few, many, one = table(3, [0, 1], 2), table(3, [0, 1, 0, 2], 2), table(1, [0, 0], 2)
show("few", few + many)
show("many", many + many)
show("many and few", many + few + few)
show("one", one + one)
