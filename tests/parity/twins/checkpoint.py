# torch.utils.checkpoint both ways: values, gradients, how often the function is called, kinds of errors.
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
import twin

twin.needs("2.15", "checkpoint had no early_stop")
calls = {}


def counted(name, f):
    def g(*args):
        calls[name] = calls.get(name, 0) + 1
        return f(*args)
    return g


def words(value):
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return " ".join(words(v) for v in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "%.6f" % value if isinstance(value, float) else str(value)


def case(name, f):
    calls.clear()
    try:
        told = words(f())
    except Exception as error:
        told = type(error).__name__
    counts = " ".join("%s %d" % (k, calls[k]) for k in sorted(calls))
    print(name, told, counts)


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def square(x):
    return (x * x).sin()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * x * x * 3


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


def both(way, reentrant):
    def of(act):
        x = leaf(1.0, 2.0)
        return act(x, checkpoint(counted("f", square), x, use_reentrant=reentrant))

    def backward(x, y):
        y.sum().backward()
        return x.grad

    def twice(x, y):
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        return x.grad

    def worn(x, y):
        y.sum().backward()
        y.sum().backward()

    def second(x, y):
        y.sum().backward(create_graph=True)
        grad = x.grad
        x.grad = None
        grad.sum().backward()
        return x.grad

    def penalty(x, y):
        grad, = torch.autograd.grad(y.sum(), x, create_graph=True)
        (grad * grad).sum().backward()
        return x.grad

    def changed(x, y):
        with torch.no_grad():
            x.mul_(2)
        y.sum().backward()

    case(way + "_backward", lambda: of(backward))
    case(way + "_grad", lambda: of(lambda x, y: torch.autograd.grad(y.sum(), x)))
    case(way + "_twice", lambda: of(twice))
    case(way + "_worn", lambda: of(worn))
    case(way + "_second", lambda: of(second))
    case(way + "_penalty", lambda: of(penalty))
    case(way + "_changed", lambda: of(changed))
    case(way + "_no_grad", lambda: no_grad(reentrant))
    case(way + "_detached", lambda: run(lambda x: x.detach() * 2, reentrant))
    case(way + "_itself", lambda: run(lambda x: x, reentrant))
    case(way + "_no_input", lambda: checkpoint(lambda x: x * leaf(2.0), torch.ones(1), use_reentrant=reentrant).requires_grad)
    case(way + "_functions", lambda: run(counted("f", lambda x: Exp.apply(Cube.apply(x * 1))), reentrant))
    case(way + "_tuple", lambda: tuples(reentrant))
    case(way + "_nested", lambda: nested(reentrant))
    for keep in (True, False):
        case("%s_dropout_%s" % (way, words(keep)), lambda: dropout(reentrant, keep))
    for segments in range(1, 7):
        case("%s_sequential_%d" % (way, segments), lambda: sequential(reentrant, segments))
    case(way + "_too_many_segments", lambda: sequential(reentrant, 7))
    case(way + "_callbacks", lambda: callbacks(reentrant))


def no_grad(reentrant):
    with torch.no_grad():
        return checkpoint(counted("f", square), leaf(1.0, 2.0), use_reentrant=reentrant).requires_grad


def run(f, reentrant, **options):
    x = leaf(1.0, 2.0)
    checkpoint(f, x, use_reentrant=reentrant, **options).sum().backward()
    return x.grad


def tuples(reentrant):
    a, b = leaf(1.0, 1.0), leaf(3.0, 4.0)
    o = checkpoint(counted("f", lambda a, b: (a * b, (a * a).sum(), 7, b.detach())), a, b, use_reentrant=reentrant)
    (o[0].sum() + o[1]).backward()
    return [o[0].requires_grad, o[1].requires_grad, o[2], o[3].requires_grad, a.grad, b.grad]


def nested(reentrant):
    inner = counted("inner", square)
    middle = counted("middle", lambda x: checkpoint(inner, x.cos(), use_reentrant=reentrant).exp() * 2)
    outer = counted("outer", lambda x: checkpoint(middle, x * 3, use_reentrant=reentrant).sin())
    return run(outer, reentrant)


def dropout(reentrant, keep):
    torch.manual_seed(1)
    x = torch.ones(6, requires_grad=True)
    y = checkpoint(lambda a: nn.functional.dropout(a * 1, 0.5), x, use_reentrant=reentrant, preserve_rng_state=keep)
    y.sum().backward()
    return [y, x.grad, torch.rand(1)]


def sequential(reentrant, segments):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4) for _ in range(6)]
    x = torch.ones(1, 4, requires_grad=True)
    for layer in layers:
        layer.register_forward_hook(counted("layer", lambda *args: None))
    checkpoint_sequential(nn.Sequential(*layers), segments, x, use_reentrant=reentrant).sum().backward()
    return [x.grad, layers[0].weight.grad.sum()]


# A final callback runs at the end of the backward from which it was queued, also if that is an inner one.
def callbacks(reentrant):
    log = []
    w, x = leaf(1.0, 1.0), leaf(1.0, 2.0) * 1
    w.register_hook(lambda g: torch.autograd.Variable._execution_engine.queue_callback(lambda: log.append("callback")))
    x.register_hook(lambda g: log.append("x"))
    checkpoint(lambda a: a * w, x, use_reentrant=reentrant).sum().backward()
    return log


def less(x):
    calls["f"] = calls.get("f", 0) + 1
    return x.sin().sin() if calls["f"] == 1 else x.sin()


def more(x):
    calls["f"] = calls.get("f", 0) + 1
    return x.sin() if calls["f"] == 1 else x.sin().sin().cos().exp()


def longer(x):
    calls["f"] = calls.get("f", 0) + 1
    return (x * 1 if calls["f"] == 1 else torch.cat([x, x])).sin().sum()


def inside(x):
    z = x.sin().cos()
    grad, = torch.autograd.grad(z.sum(), x, retain_graph=True)
    return grad.detach() * z


both("reentrant", True)
both("plain", False)
for name, f in (("less", less), ("more", more), ("longer", longer)):
    for early in (True, False):
        for check in ("default", "none"):
            case("%s_%s_%s" % (name, words(early), check),
                 lambda: run(f, False, early_stop=early, determinism_check=check))
case("inside_true", lambda: run(counted("f", inside), False))
case("inside_false", lambda: run(counted("f", inside), False, early_stop=False))
case("check_unknown", lambda: run(square, False, determinism_check="some"))
