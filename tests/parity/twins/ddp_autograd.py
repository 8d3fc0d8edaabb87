# Several forwards, several backwards, autograd.grad and double backward with DDP, world 2.
import torch
from torch import nn
import twin

OPTIONS = (("none", {}), ("find", {"find_unused_parameters": True}), ("static", {"static_graph": True}))


def one():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    return layer


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = one(), one()

    def forward(self, x, name):
        return getattr(self, name)(x)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(1)

    def forward(self, x):
        return self.bn(x)


def grads(net):
    return [-1.0 if p.grad is None else p.grad.item() for p in net.parameters()]


def half_square(ddp, x):
    return ddp(x).pow(2).sum() / 2


def work(rank):
    near, far, lines = torch.full((1, 1), rank + 1.0), torch.full((1, 1), 10.0 * (rank + 1)), []

    def case(name, net, f, iterations=2, **options):
        for option, more in OPTIONS:
            told = []
            try:
                ddp = nn.parallel.DistributedDataParallel(net(), **more, **options)
                for _ in range(iterations):
                    ddp.zero_grad()
                    told += f(ddp, ddp.module)
            except Exception as error:
                told.append(type(error).__name__)
            lines.append("%s_%s %s" % (name, option, " ".join(t if isinstance(t, str) else "%.6f" % t for t in told)))

    def sum_of_two(ddp, net):
        (ddp(near) + ddp(far)).sum().backward()
        return grads(net)

    def two_backwards(ddp, net):
        a, b = ddp(near), ddp(far)
        a.sum().backward()
        told = grads(net)
        b.sum().backward()
        return told + grads(net)

    def in_turn(ddp, net):
        ddp(near).sum().backward()
        told = grads(net)
        ddp(far).sum().backward()
        return told + grads(net)

    def one_each(ddp, net):
        (ddp(near, "a") + ddp(far, "b")).sum().backward()
        return grads(net)

    def retained(ddp, net):
        loss = ddp(near).sum()
        loss.backward(retain_graph=True)
        told = grads(net)
        loss.backward()
        return told + grads(net)

    def grad(ddp, net):
        return [torch.autograd.grad(half_square(ddp, near), net.weight)[0].item()] + grads(net)

    def penalty(ddp, net):
        g, = torch.autograd.grad(half_square(ddp, near), net.weight, create_graph=True)
        g.pow(2).sum().backward()
        return [g.item()] + grads(net)

    def loss_and_penalty(ddp, net):
        loss = half_square(ddp, near)
        g, = torch.autograd.grad(loss, net.weight, create_graph=True)
        (loss + g.pow(2).sum()).backward()
        return [g.item()] + grads(net)

    def input_penalty(ddp, net):
        x = near.clone().requires_grad_()
        g, = torch.autograd.grad(half_square(ddp, x), x, create_graph=True)
        g.pow(2).sum().backward()
        return [g.item(), x.grad.item()] + grads(net)

    def create_graph(ddp, net):
        half_square(ddp, near).backward(create_graph=True)
        return grads(net) + [float(net.weight.grad.requires_grad)]

    def double(ddp, net):
        half_square(ddp, near).backward(create_graph=True)
        g = net.weight.grad
        net.weight.grad = None
        g.pow(2).sum().backward()
        return [g.item()] + grads(net)

    def normed(ddp, net):
        x = torch.tensor([[0.0], [2.0]]) + 4 * rank
        a, b = ddp(x), ddp(x * 3)
        (a * torch.tensor([[1.0], [2.0]]) + b * b).sum().backward()
        return grads(net) + [net.bn.running_mean.item()]

    case("sum_of_two", one, sum_of_two)
    case("two_backwards", one, two_backwards)
    case("in_turn", one, in_turn)
    case("one_each", Two, one_each)
    case("retained", one, retained)
    case("grad", one, grad)
    case("penalty", one, penalty)
    case("loss_and_penalty", one, loss_and_penalty)
    case("input_penalty", one, input_penalty)
    case("create_graph", one, create_graph)
    case("double", one, double, iterations=1)  # later ones meet what create_graph recorded of the bucket
    case("normed", Norm, normed)
    case("normed_apart", Norm, normed, broadcast_buffers=False)
    return lines


if __name__ == "__main__":
    twin.needs("2.15", "static graphs counted uses in another way")
    for rank, lines in enumerate(twin.ranks(2, work)):
        for line in lines:
            print("rank%d_%s" % (rank, line))
