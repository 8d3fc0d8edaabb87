# Version counters of buffers, and what backward says of values that were changed since.
import torch
from torch import nn
import twin
twin.needs("2.15", "counts otherwise")
torch.set_num_threads(1)
torch.manual_seed(3)
def outcome(name, f):
    try:
        f()
        print(name, "runs")
    except RuntimeError as e:
        print(name, "raises", "modified" in str(e))
def changed(net, x, change):
    out = net(x)
    change(net)
    out.sum().backward()
for kind, shape in ((nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (2, 3, 4, 4))):
    net, x = kind(3), torch.randn(*shape)
    name = kind.__name__
    def versions(when):
        print(name + "." + when, *[b._version for b in net.buffers()], *[p._version for p in net.parameters()])
    versions("new")
    net(x)
    versions("one")
    net(x)
    versions("two")
    net.eval()
    net(x)
    versions("eval")
    net.train()
    outcome(name + ".twice", lambda: ((net(x) * x).sum() + (net(x) * x * x).sum()).backward())
    print(name + ".mean", *["%.9g" % v for v in net.running_mean.tolist()])
    print(name + ".var", *["%.9g" % v for v in net.running_var.tolist()])
    print(name + ".weight.grad", *["%.9g" % v for v in net.weight.grad.tolist()])
    print(name + ".bias.grad", *["%.9g" % v for v in net.bias.grad.tolist()])
    outcome(name + ".copy_mean", lambda: changed(net, x, lambda m: m.running_mean.copy_(torch.zeros(3))))
    outcome(name + ".copy_var", lambda: changed(net, x, lambda m: m.running_var.copy_(torch.ones(3))))
    outcome(name + ".zero_mean", lambda: changed(net, x, lambda m: m.running_mean.zero_()))
    outcome(name + ".add_batches", lambda: changed(net, x, lambda m: m.num_batches_tracked.add_(1)))
    def weight(m):
        with torch.no_grad():
            m.weight.add_(1)
    outcome(name + ".weight", lambda: changed(net, x, weight))
    versions("changed")
    net.eval()
    outcome(name + ".eval_copy_mean", lambda: changed(net, x, lambda m: m.running_mean.copy_(torch.zeros(3))))
    outcome(name + ".eval_twice", lambda: (net(x).sum() + net(x).sum()).backward())
