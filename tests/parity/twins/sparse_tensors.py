import torch
from torch.nn.functional import embedding
import twin
twin.needs("2.15", "sparse tensors print and mask otherwise")
torch.set_num_threads(1)


def tell(name, t):
    if t.is_sparse:
        print(name + "=", "sparse", t.is_coalesced(), str(t.dtype)[6:], *t.shape, "rows",
              *t._indices().flatten().tolist(), "values", *("%g" % x for x in t._values().double().flatten().tolist()))
    else:
        print(name + "=", "dense", str(t.dtype)[6:], *t.shape, "values",
              *("%g" % x for x in t.detach().double().flatten().tolist()))


def kind(name, f):
    try:
        f()
        print(name + "=", "fine")
    except Exception as e:
        print(name + "=", type(e).__name__)


def line(t):
    return str(t).replace(" ", "_").replace("\n", "|")


def make(rows=(2, 0, 2), dtype=torch.float32, wide=2):
    values = [[float(i * wide + j + 1) for j in range(wide)] for i in range(len(rows))]
    return torch.sparse_coo_tensor(torch.tensor([list(rows)], dtype=torch.int64),
                                   torch.tensor(values, dtype=dtype).reshape(len(rows), wide), (4, wide))


other = make((1, 2))
dense = torch.arange(8.).reshape(4, 2)
for name, x in (("u", make()), ("c", make().coalesce()), ("none", make(()))):
    for op, f in dict(
            itself=lambda: x, clone=lambda: x.clone(), coalesce=lambda: x.coalesce(), detach=lambda: x.detach(),
            double=lambda: x.double(), half=lambda: x.half(), times=lambda: x * 0.5, by=lambda: x / 4, neg=lambda: -x,
            times_tensor=lambda: x * torch.tensor(3.), by_tensor=lambda: x / torch.tensor(4.),
            times_dense=lambda: x * dense, dense_times=lambda: dense * x, abs=lambda: x.abs(), sqrt=lambda: x.sqrt(),
            square=lambda: x ** 2, sign=lambda: x.sign(), floor=lambda: x.floor(), sum=lambda: x.sum(),
            sum0=lambda: x.sum(0), norm=lambda: x.norm(), norm1=lambda: x.norm(1), norm_inf=lambda: x.norm(float("inf")),
            to_dense=lambda: x.to_dense(), add=lambda: x + other, turned=lambda: other + x, twice=lambda: x + x,
            scaled=lambda: x.add(other, alpha=2), sub=lambda: x - other, dense_add=lambda: dense + x,
            dense_scaled=lambda: dense.add(x, alpha=3), dense_sub=lambda: dense - x, promoted=lambda: x + other.double(),
            dense_promoted=lambda: dense.double() + x, zeros_like=lambda: torch.zeros_like(x), row=lambda: x[2],
            half_dense=lambda: x.half().to_dense(), half_added=lambda: dense.half() + x.half(), whole=lambda: x.int().coalesce(),
            truth=lambda: x.bool().to_dense(), to_sparse=lambda: x.to_dense().to_sparse(1)).items():
        if (name, op) == ("none", "norm_inf"):
            continue
        tell(name + "." + op, f())
    for op, f in dict(
            mul_=lambda y: y.mul_(3), div_=lambda y: y.div_(2), neg_=lambda y: y.neg_(), zero_=lambda y: y.zero_(),
            add_=lambda y: y.add_(other), sub_=lambda y: y.sub_(other), copy_=lambda y: y.copy_(other),
            scaled_=lambda y: y.add_(other, alpha=0.5)).items():
        y = x.clone()
        before = y._version
        f(y)
        tell(name + "." + op, y)
        print(name + "." + op + ".version=", y._version > before)
    y = dense.clone().add_(x, alpha=-1)
    tell(name + ".into_dense", y)
    tell(name + ".into_dense_times", dense.clone().mul_(x))
    print(name + ".facts=", x.dim(), x.numel(), x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced(),
          x.is_contiguous(), x.is_sparse)
    print(name + ".print=", line(x))
    for op, f in dict(
            indices=lambda: x.indices(), values=lambda: x.values(), number=lambda: x + 1, exp=lambda: x.exp(),
            clamp=lambda: x.clamp(0, 1), plus_dense=lambda: x + dense, broadcast=lambda: torch.ones(2) + x,
            wrong=lambda: x + make((0,), wide=3), contiguous=lambda: x.contiguous(), reshape=lambda: x.reshape(8),
            tolist=lambda: x.tolist(), nbytes=lambda: x.nbytes, data_ptr=lambda: x.data_ptr(), fill=lambda: x.fill_(1),
            equal=lambda: torch.equal(x, x), div_dense=lambda: x / dense, dense_div=lambda: dense / x,
            transpose=lambda: x.transpose(0, 1), mean=lambda: x.mean(), max=lambda: x.max(),
            uniform=lambda: x.clone().uniform_(), copy_dense=lambda: x.clone().copy_(dense),
            from_sparse=lambda: dense.clone().copy_(x), sigmoid=lambda: x.sigmoid()).items():
        kind(name + ".kind." + op, f)

ints = torch.sparse_coo_tensor([[1, 1]], [1, 2], (5,))
tell("ints", ints)
tell("ints.dense", ints.to_dense())
tell("ints.coalesce", ints.coalesce())
print("ints.print=", line(ints))
print("double.print=", line(make(dtype=torch.float64)))
tell("grown", torch.sparse_coo_tensor([[1, 3]], [[1., 2.], [3., 4.]]))
tell("block", torch.sparse_coo_tensor([[1, 1]], [[[1., 2.], [3., 4.]], [[5., 6.], [7., 8.]]], (2, 2, 2)).to_dense())
kind("make.pairs", lambda: torch.sparse_coo_tensor([[1, 2, 3]], [[1., 2.], [3., 4.]], (5, 2)))
kind("make.wide", lambda: torch.sparse_coo_tensor([[1, 2]], [[1., 2.], [3., 4.]], (5, 3)))
kind("make.dims", lambda: torch.sparse_coo_tensor([[1, 2]], [[1., 2.], [3., 4.]], (5, 2, 1)))
kind("make.flat", lambda: torch.sparse_coo_tensor([1, 2], [[1., 2.], [3., 4.]], (5, 2)))

# ---- autograd ----
ids, ids2 = torch.tensor([2, 0, 2]), torch.tensor([1, 2])


def weight():
    return torch.arange(8.).reshape(4, 2).requires_grad_()


def looked(w, at=ids, **options):
    return embedding(at, w, sparse=True, **options)


def squares(w, graph=False):
    (looked(w) ** 2).sum().backward(create_graph=graph)


def ones(w, graph=False):
    looked(w).sum().backward(create_graph=graph)


def whole(w, graph=False):
    (w * w).sum().backward(create_graph=graph)


for graph in (False, True):
    for name, first, second in (("squares", squares, squares), ("ones", ones, ones), ("ones_squares", ones, squares),
                                ("sparse_dense", squares, whole), ("dense_sparse", whole, squares)):
        w = weight()
        first(w, graph)
        before = w.grad
        second(w, graph)
        name = ("graph." if graph else "again.") + name
        tell(name, w.grad)
        print(name + ".same=", before is w.grad)
for name, f in dict(
        twice=lambda w: (looked(w) ** 2).sum() + (looked(w, ids2) ** 2).sum(),
        twice_ones=lambda w: looked(w).sum() + looked(w, ids2).sum(),
        tied=lambda w: (looked(w) ** 2).sum() + (torch.ones(1, 2) @ w.t()).sum(),
        tied_other=lambda w: (torch.ones(1, 2) @ w.t()).sum() + (looked(w) ** 2).sum(),
        padded=lambda w: (looked(w, padding_idx=2) ** 2).sum(),
        all_padded=lambda w: (looked(w, torch.tensor([2, 2]), padding_idx=2) ** 2).sum(),
        renormed=lambda w: looked(w, max_norm=1.).sum(),
        matrix=lambda w: (looked(w, torch.tensor([[2, 1], [2, 3]])) ** 2).sum(),
        scalar=lambda w: (looked(w, torch.tensor(2)) ** 2).sum(),
        of_nothing=lambda w: (looked(w, torch.zeros(0, dtype=torch.int64)) ** 2).sum(),
        through_mul=lambda w: (looked(w * 3) ** 2).sum(), through_add=lambda w: (looked(w + 1) ** 2).sum(),
        through_neg=lambda w: (looked(-w) ** 2).sum(), through_clone=lambda w: (looked(w.clone()) ** 2).sum(),
        through_dense=lambda w: (looked(w * torch.full((4, 2), 2.)) ** 2).sum(),
        through_div=lambda w: (looked(w / 2) ** 2).sum(), through_square=lambda w: (looked(w ** 2) ** 2).sum(),
        through_self=lambda w: (looked(w + w) ** 2).sum()).items():
    w = weight()
    f(w).backward()
    tell("grad." + name, w.grad)
w = weight()
kind("by_frequency.forward", lambda: looked(w, scale_grad_by_freq=True))
kind("by_frequency.backward", lambda: looked(w, scale_grad_by_freq=True).sum().backward())
for name, f in dict(half=lambda g: g * 0.5, once=lambda g: g.coalesce(), none=lambda g: torch.zeros_like(g),
                    in_place=lambda g: g.mul_(2)).items():
    w = weight()
    w.register_hook(f)
    squares(w)
    tell("hook." + name, w.grad)
w, seen = weight(), []
w.register_hook(seen.append)
squares(w)
w.grad.mul_(2)
tell("hook.saw", seen[0])
w = weight()
v = w * 1
v.retain_grad()
(looked(v) ** 2).sum().backward()
tell("retained", v.grad)
w, seen = weight(), []
w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
squares(w)
print("after=", seen[0])
tell("grad", torch.autograd.grad(looked(w).sum(), w)[0])
g, = torch.autograd.grad((looked(w) ** 3).sum(), w, create_graph=True)
print("history=", g.requires_grad, g.is_leaf)
for name, f in dict(dense=lambda: (g.to_dense() ** 2).sum(), values=lambda: (g.coalesce().values() ** 2).sum(),
                    sum=lambda: g.sum(), times=lambda: ((g * 2).to_dense() ** 2).sum(),
                    added=lambda: ((g + g).to_dense() ** 2).sum(),
                    beside=lambda: ((dense + g) ** 2).sum()).items():
    tell("second." + name, torch.autograd.grad(f(), w, retain_graph=True)[0])
for norm in (2., 1., 3., float("inf")):
    w, u = weight(), torch.ones(3, requires_grad=True)
    squares(w)
    (u * u).sum().backward()
    print("clip", "%.7g" % torch.nn.utils.clip_grad_norm_([w, u], 1., norm_type=norm).item(),
          *("%.6g" % x for x in w.grad._values().flatten().tolist()), *("%.6g" % x for x in u.grad.tolist()))
kind("clip_value", lambda: torch.nn.utils.clip_grad_value_([w], 1.))
w = weight()
squares(w)
held = w.grad
torch.optim.SGD([w], 0.1).zero_grad(set_to_none=False)
tell("zeroed", w.grad)
print("zeroed.same=", held is w.grad)
w = weight()
w.grad = make((1,))
tell("given", w.grad)
kind("given.wrong", lambda: setattr(w, "grad", make((1,), wide=3)))
w = weight()
(w * 1).backward(make((1, 3)))
tell("from_sparse", w.grad)
