# nn.LazyLinear: what an uninitialized parameter allows, what the first forward makes of it, loading, training.
import torch
import torch.nn as nn
import twin

twin.needs("2.15", "a loaded LazyLinear kept in_features of 0")


def words(value):
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.UninitializedParameter):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return " ".join(words(v) for v in value)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nil"
    return "%.6f" % value if isinstance(value, float) else str(value).replace("\n", " ")


def case(name, f):
    try:
        told = words(f())
    except Exception as error:
        told = type(error).__name__
    print(name, told)


x = torch.ones(2, 4)
lazy = nn.LazyLinear(3)
case("repr", lambda: lazy)
case("weight", lambda: [lazy.weight, lazy.bias])
case("flags", lambda: [lazy.weight.requires_grad, lazy.weight.is_leaf, lazy.weight.grad, lazy.in_features])
case("has", lazy.has_uninitialized_params)
case("names", lambda: [name for name, _ in lazy.named_parameters()])
case("size", lambda: list(lazy.weight.size()))
case("shape", lambda: lazy.weight.shape)
case("numel", lambda: lazy.weight.numel())
case("plus", lambda: lazy.weight + 1)
case("times", lambda: torch.ones(2) * lazy.weight)
case("sum", lambda: lazy.weight.sum())
case("item", lambda: lazy.weight.item())
case("detach", lambda: lazy.weight.detach())
case("index", lambda: lazy.weight[0])
case("hook", lambda: lazy.weight.register_hook(lambda g: g))
case("backward", lambda: lazy.weight.backward())
case("init", lambda: nn.init.constant_(lazy.weight, 1))
case("freeze", lambda: lazy.requires_grad_(False))
case("clip", lambda: nn.utils.clip_grad_norm_(lazy.parameters(), 1.0))
case("no_dims", lambda: lazy(torch.tensor(1.0)))
case("double", lambda: [lazy.double().weight.dtype == torch.float64, lazy.float()])
torch.manual_seed(5)
weight = lazy.weight
case("forward", lambda: lazy(x))
case("becomes", lambda: [lazy, lazy.in_features, lazy.weight is weight])
case("other_width", lambda: lazy(torch.ones(2, 5)))
case("no_bias", lambda: [nn.LazyLinear(3, bias=False), nn.LazyLinear(3, bias=False).bias])
full, into = nn.Linear(4, 3), nn.LazyLinear(3)
into.load_state_dict(full.state_dict())
case("loaded", lambda: [into, into.has_uninitialized_params(), list(into.weight.shape)])
case("loaded_forward", lambda: [torch.equal(into(x), full(x)), into])
into = nn.LazyLinear(3)
into.load_state_dict(full.state_dict())
case("loaded_other", lambda: into(torch.ones(2, 5)))
case("empty", lambda: list(nn.LazyLinear(0)(x).shape))
into = nn.LazyLinear(3)
into.load_state_dict(nn.LazyLinear(3).state_dict())
case("loaded_lazy", into.has_uninitialized_params)
case("into_full", lambda: full.load_state_dict(nn.LazyLinear(3).state_dict()))
case("missing", lambda: into.load_state_dict({"weight": torch.ones(3, 4)}))
case("half", lambda: [list(into.weight.shape), into.bias])
net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2, bias=False))
case("net", lambda: net)
case("net_keys", lambda: list(net.state_dict()))
case("net_forward", lambda: list(net(torch.ones(2, 5, 4)).shape))
case("net_after", lambda: net)
own = nn.UninitializedParameter()
case("own", lambda: [own, own.requires_grad])
own.materialize((2, 3))
case("own_after", lambda: [list(own.shape), own.requires_grad])
lazy = nn.LazyLinear(3)
optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
optimizer.step()
lazy(x).sum().backward()
before = lazy.bias.detach().clone()
optimizer.step()
case("trained", lambda: lazy.bias.detach() - before)
