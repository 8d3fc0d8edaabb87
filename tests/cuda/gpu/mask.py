#!/usr/bin/env python3
"""What of 0.7 PyTorch's dropout keeps on a GPU after manual_seed(42). usage: mask.py SIZE"""
import sys

import torch

size = int(sys.argv[1])
torch.manual_seed(42)
kept = torch.nn.functional.dropout(torch.ones(size, device="cuda:0"), 0.3, True).cpu().ne(0).long()
print("%d of %d kept, their places add up to %d" % (kept.sum(), size, (kept * torch.arange(size)).sum()))
