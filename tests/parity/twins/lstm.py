import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
torch.set_num_threads(1)
torch.manual_seed(5)
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 7, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(14, 3)
    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        _, (h, c) = self.lstm(packed)
        return self.head(torch.cat([h[-2], h[-1]], 1))
net = Classifier()
x, y, lengths = torch.randint(1, 20, (10, 8)), torch.randint(0, 3, (10,)), [8, 3, 5, 1, 8, 7, 2, 6, 4, 5]
for row, length in enumerate(lengths):
    x[row, length:] = 0
opt = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(20):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x, lengths), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    print("loss", "%.9g" % loss.item(), "%.9g" % norm.item())
