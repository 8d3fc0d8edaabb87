# DataParallel without devices calls the module once; the pieces that two devices get are made here, by chunk.
import torch
from torch import nn

class Pieces(nn.Module):
    def __init__(self, module, devices):
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, x):
        return torch.cat([self.module(piece) for piece in x.chunk(self.devices)])

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 20)

    def forward(self, x):
        print("\tblock2 sees %s" % list(x.size()))
        return self.layer(x)

class DataParallelModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Linear(10, 20)
        self.block2 = Pieces(Block(), 2)
        self.block3 = nn.Linear(20, 20)

    def forward(self, x):
        return self.block3(self.block2(self.block1(x)))

def main():
    torch.manual_seed(0)
    model = DataParallelModel()
    x = torch.randn(7, 10)
    out = model(x)
    print("outside: %s, sum %.6f" % (list(out.size()), out.sum().item()))
    out.sum().backward()
    for name, p in model.named_parameters():
        print("%s: gradient of sum %.6f" % (name, p.grad.sum().item()))
    block, rows = model.block2.module, model.block1(x)
    same = torch.allclose(torch.cat([block(piece) for piece in rows.chunk(2)]), block(rows))
    print("the four functions give what the block alone gives: %s" % str(same).lower())
