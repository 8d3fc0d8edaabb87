import torch
from torch import nn
import twin
twin.needs("2.15", "an LSTM's layer was many nodes")
torch.set_num_threads(1)
torch.manual_seed(11)

def kind(node):
    return "None" if node is None else node.name().split("::")[-1]

def graph(node, depth):
    """The node's name and those of what it leads to, with the outputs that they are."""
    if node is None or depth == 0 or not node.next_functions:
        return kind(node)
    return kind(node) + "(" + ",".join("%d:%s" % (nr, graph(to, depth - 1)) for to, nr in node.next_functions) + ")"

def show(name, tensor):
    """Of many numbers the sums of sixteen pieces."""
    flat = tensor.detach().flatten()
    twin.show(name, torch.stack([piece.sum() for piece in flat.chunk(16)]) if len(flat) > 64 else flat)

def tried(name, lstm, x, state, given):
    y, (h, c) = lstm(x, state) if given else lstm(x)
    for what, tensor in (("y", y), ("h", h), ("c", c)):
        print("graph=", name, what, graph(tensor.grad_fn, 4))
        print("place=", name, what, *tensor.shape, "|", *tensor.stride())
        show(name + "." + what, tensor)
    k = torch.arange(y.numel()).reshape(y.shape) * 0.01
    loss = (y * k).sum() + (h * h).sum() + c.sum() * 0.5
    wanted = [x] + (list(state) if given else []) + list(lstm.parameters())
    for at, grad in enumerate(torch.autograd.grad(loss, wanted, retain_graph=True)):
        show("%s.grad%d" % (name, at), grad)
    show(name + ".of_c", torch.autograd.grad(c.sum(), x, retain_graph=True)[0])
    first = torch.autograd.grad(loss, wanted, create_graph=True)
    show(name + ".first", torch.cat([g.flatten() for g in first]))
    for at, grad in enumerate(torch.autograd.grad(sum((g * g).sum() for g in first), wanted)):
        show("%s.second%d" % (name, at), grad)

cases = [("plain", {}, (4, 3, 2), False), ("given", {}, (4, 3, 2), True), ("one", {}, (1, 1, 2), True),
         ("bare", {"bias": False}, (3, 2, 2), True), ("alone", {}, (5, 2), True),
         ("first", {"batch_first": True}, (3, 4, 2), False), ("both", {"bidirectional": True}, (4, 3, 2), True),
         ("deep", {"num_layers": 2, "bidirectional": True, "batch_first": True}, (2, 5, 2), True),
         ("drop", {"num_layers": 2, "dropout": 0.5}, (3, 2, 2), False), ("wide", {}, (3, 5, 2), True)]
for name, options, shape, given in cases:
    hidden = 19 if name == "wide" else 3
    lstm = nn.LSTM(2, hidden, **options)
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    rows = [] if len(shape) == 2 else [shape[0 if options.get("batch_first") else 1]]
    x = torch.randn(shape, requires_grad=True)
    state = tuple(torch.randn([layers] + rows + [hidden], requires_grad=True) for _ in range(2))
    tried(name, lstm, x, state, given)

lstm = nn.LSTM(2, 3)
x = torch.randn(4, 2, 2, requires_grad=True)
lstm.weight_hh_l0.requires_grad_(False)
lstm.bias_ih_l0.requires_grad_(False)
y, _ = lstm(x)
print("frozen=", graph(y.grad_fn, 2))
y.sum().backward()
for name, p in lstm.named_parameters():
    print("frozen=", name, p.grad is not None)
show("frozen.x", x.grad)
for parameter in lstm.parameters():
    parameter.requires_grad_(False)
print("nothing=", lstm(x.detach())[0].requires_grad)
with torch.no_grad():
    show("no_grad", lstm(x)[0])
for name, lstm, given in (("float64", nn.LSTM(2, 3, dtype=torch.float64), x.detach().double()),
                          ("proj_size", nn.LSTM(2, 3, proj_size=1), x.detach())):
    print(name + "=", kind(lstm(given)[0].grad_fn) == "MkldnnRnnLayerBackward0")
