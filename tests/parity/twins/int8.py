# int8 beside all other types: casts, promotion, what wraps around, reductions, order, choices, printing.
import torch
from twin import needs
needs("2.15", "clamp refuses bounds that the type has not")
T = torch.tensor
NAMES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

def show(name, x):
    print(name + "= " + str(x).replace(" ", "_").replace("\n", "|"))

def c(*values):
    return T(values, dtype=torch.int8)

def whole(name, x):
    if isinstance(x, tuple):
        for i, part in enumerate(x):
            whole("%s.%d" % (name, i), part)
        return
    print(name + "=", str(x.dtype)[6:], *["%.9g" % value for value in x.flatten().tolist()])

# made
show("made", c(-128, 0, 127))
show("number", T(-5, dtype=torch.int8))
show("empty", torch.empty(0, dtype=torch.int8))
show("none", torch.zeros(2, 0, dtype=torch.int8))
show("square", c(1, 2, -30, 4).reshape(2, 2))
show("long", torch.arange(1200).char().reshape(2, 600))
show("cut", T([1.9, -1.9, 127.9], dtype=torch.int8))
show("arange", torch.arange(-3, 3, 2, dtype=torch.int8))
show("wrapped", torch.arange(120, 140, 4, dtype=torch.int8))
show("full", torch.full((2, 2), -7, dtype=torch.int8))
show("like", torch.ones_like(c(1, 2)))
show("eye", torch.eye(2, dtype=torch.int8))
show("linspace", torch.linspace(-10, 10, 5, dtype=torch.int8))
torch.manual_seed(3)
show("randint", torch.randint(-128, 128, (6,), dtype=torch.int8))
show("random", torch.empty(6, dtype=torch.int8).random_())
show("between", torch.empty(6, dtype=torch.int8).random_(-5, 6))
show("randperm", torch.randperm(5, dtype=torch.int8))

# casts
x = T([0.0, 1.9, -1.9, 127.5, 128.0, -128.9, -129.0, 255.5, 300.7, 1e5, 3e9, -3e9, float("nan"), float("inf"),
    -float("inf")], dtype=torch.float64)
for name in NAMES:
    dtype = getattr(torch, name)
    whole("from_" + name,
    (x.long() if name == "int64" else x.float().to(dtype) if "16" in name else x.to(dtype)).to(torch.int8))
    whole("to_" + name, c(-128, -1, 0, 1, 127).to(dtype))
whole("int64_cut", T([1 << 40, 300, -300, 128, -129]).char())
whole("int32_cut", T([300, -300, 128, -129], dtype=torch.int32).char())
whole("strided", T([[1.5, 300.0], [-1.5, -300.0]]).t().char())

# with other types
for name in NAMES:
    other = T([1, 0, 1, 1]).to(getattr(torch, name))
    if name != "uint8":
        whole("add_" + name, c(127, -128, 5, -5) + other)
        whole("radd_" + name, other + c(127, -128, 5, -5))
        whole("where_" + name, torch.where(T([True, False, True, False]), c(1, 2, 3, 4), other))
        whole("cat_" + name, torch.cat([c(-1), other]))
        print("type_" + name + "=", str(torch.promote_types(torch.int8, getattr(torch, name)))[6:])
    whole("zero_" + name, c(127, -128) + other[0])
    whole("rzero_" + name, T(-3, dtype=torch.int8) + other)
    whole("div_" + name, c(127, -128, 5, -5) / T([2, 2, 2, 2]).to(getattr(torch, name)))
    whole("lt_" + name, c(-1, 0, 1, 2) < other)
    whole("eq_" + name, c(-1, 0, 1, 2) == other)
whole("byte", c(-1, -128, 127) < T([255, 128, 127], dtype=torch.uint8))
whole("byte_eq", c(-1, -128, 127) == T([255, 128, 127], dtype=torch.uint8))
whole("byte_add_", c(100, -100).add_(T([200, 200], dtype=torch.uint8)))
whole("byte_mul_", T([200, 3], dtype=torch.uint8).mul_(c(-3, -100)))
whole("byte_three", torch.cat([c(-1), T([255], dtype=torch.uint8), T([7], dtype=torch.int32)]))

# arithmetic wraps around
a, b = c(100, -128, 127, -7), c(100, -1, 2, 3)
for name, y in [("add", a + b), ("sub", a - b), ("mul", a * b), ("div", a / b), ("floor", a // b), ("mod", a % b),
                ("fmod", torch.fmod(a, b)), ("pow", a ** 2), ("rpow", 3 ** c(1, 2, 5)), ("neg", -a), ("abs", a.abs()),
                ("square", a.square()), ("sign", a.sign()), ("maximum", torch.maximum(a, b)),
                ("minimum", torch.minimum(a, b)),
                ("and", a & b), ("or", a | b), ("xor", a ^ b), ("not", ~a), ("plus", a + 200), ("times", a * 300),
                ("half", a + 0.5), ("minus", 1 - a), ("alpha", torch.add(a, b, alpha=3)), ("relu", a.relu()),
                ("exp", c(0, 1, -1).exp()), ("sqrt", c(4, 9).sqrt()), ("round", a.round()),
                ("logical", a.logical_not())]:
    whole(name, y)
for name, y in [("add_", a.clone().add_(b)), ("sub_", a.clone().sub_(300)), ("mul_", a.clone().mul_(b)),
                ("fill_", a.clone().fill_(-128)),
                ("copy_", a.clone().copy_(T([1.9, 300.0, -1.9, -300.0]))),
                ("add_l", a.clone().add_(T([1000, 1, 1, 1]))),
                ("clamp", a.clamp(-10, 10)), ("low", a.clamp(min=-5)), ("high", a.clamp(max=1000)),
                ("wide", a.clamp(-1000, 1000)),
                ("fraction", a.clamp(max=2.5)), ("clamp_min", a.clamp_min(3)), ("clamp_max", a.clamp_max(3)),
                ("masked", a.masked_fill(a > 0, -1))]:
    whole(name, y)

# comparisons with numbers
for name, y in [("eq", a == 100), ("ne", a != 100), ("lt", a < 0), ("le", a <= -7), ("gt", a > 99.5),
                ("ge", a >= 127), ("far", a < 1000)]:
    whole(name, y)

# reductions
m = c(100, 100, -128, 5, 7, 127).reshape(2, 3)
for name, y in [("sum", m.sum()), ("sum0", m.sum(0)), ("prod", m.prod()), ("prod1", m.prod(1)),
                ("cumsum", m.cumsum(1)), ("cumprod", m.cumprod(0)),
                ("max", m.max()), ("min", m.min()), ("max1", tuple(m.max(1))), ("min0", tuple(m.min(0))),
                ("amax", m.amax(0)), ("argmax", m.argmax()),
                ("argmin", m.argmin(1)), ("all", m.all()), ("any", m.any(0)), ("sum8", m.sum(dtype=torch.int8)),
                ("mean", m.mean(dtype=torch.float32)),
                ("median", m.median()), ("nonzero", c(0, 3, 0, -1).nonzero()), ("bincount", c(1, 3, 1).bincount())]:
    whole(name, y)

# order, pieces, products
for name, y in [("sort", tuple(m.sort(1))), ("down", tuple(m.sort(0, descending=True))),
                ("topk", tuple(m.topk(2, 1))), ("argsort", m.flatten().argsort()),
                ("unique", c(3, -1, 3, 0).unique()), ("t", m.t()), ("flip", m.flip(0)), ("row", m[1]),
                ("slice", m[:, 1:]), ("mask", m[m > 50]),
                ("rows", m[T([1, 0, 1])]), ("item", m[0, 2]), ("select", m.index_select(1, T([2, 0]))),
                ("gather", m.gather(1, T([[0], [2]]))),
                ("scatter", m.scatter(1, T([[0], [2]]), c(9, 8).reshape(2, 1))),
                ("scatter_add", m.scatter_add(1, T([[0, 0], [2, 2]]), c(100, 100, 1, 1).reshape(2, 2))),
                ("index_add", m.index_add(0, T([0, 0]), m)), ("stack", torch.stack([c(1), c(-1)])),
                ("mm", m @ m.t()), ("dot", c(100, 100).dot(c(2, 3))),
                ("tril", m.tril()), ("repeat", c(1, -2).repeat(2)), ("diff", c(100, -100, 0).diff())]:
    whole(name, y)

# refused
for name, refused in [("above", lambda: c(128)), ("below", lambda: c(-129)),
                      ("fraction", lambda: T([127.5, -128.5], dtype=torch.int8)),
                      ("full", lambda: torch.full((2,), 128, dtype=torch.int8)),
                      ("fill", lambda: c(1).fill_(-129)), ("add_", lambda: c(1).add_(0.5)),
                      ("div_", lambda: c(1).div_(2)), ("zero", lambda: c(1) // 0),
                      ("mean", lambda: c(1).mean()), ("var", lambda: c(1, 2).var()), ("index", lambda: T([5, 6])[c(1)]),
                      ("where", lambda: torch.where(c(1), T([1]), T([2]))),
                      ("gather", lambda: c(1).gather(0, c(0))), ("mm", lambda: c(1).reshape(1, 1) @ T([[1]])),
                      ("low", lambda: c(1).clamp(min=128)), ("high", lambda: c(1).clamp(max=-129)),
                      ("range", lambda: torch.randint(0, 129, (2,), dtype=torch.int8)),
                      ("perm", lambda: torch.randperm(129, dtype=torch.int8)),
                      ("uniform", lambda: torch.zeros(1, dtype=torch.int8).uniform_()),
                      ("grad", lambda: torch.zeros(1, dtype=torch.int8, requires_grad=True)),
                      ("one_hot", lambda: torch.nn.functional.one_hot(c(1)))]:
    try:
        refused()
        print("refused_" + name + "=", "no")
    except Exception as error:
        print("refused_" + name + "=", type(error).__name__)
info = torch.iinfo(torch.int8)
print("iinfo=", info.bits, info.min, info.max, c(1).type(), c(1).element_size(),
      torch.can_cast(torch.int8, torch.uint8), torch.can_cast(torch.float32, torch.int8),
      torch.can_cast(torch.int8, torch.bool), c(-5).item())
