# DataParallel without devices calls the module once. So the pieces are made here by the function that its scatter is
# made of, chunk, and each piece goes through the module in its turn.
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class RandomDataset(Dataset):
    def __init__(self, size, length):
        self.rows, self.length = torch.randn(length, size), length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return self.rows[i]

class Model(nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.fc = nn.Linear(input_size, output_size)

    def forward(self, input):
        output = self.fc(input)
        print("\tIn Model: input size %s output size %s" % (list(input.size()), list(output.size())))
        return output

def main():
    loader = DataLoader(RandomDataset(5, 100), batch_size=30, shuffle=True)
    for devices in 2, 3, 8:
        print("Let's use %d devices!" % devices)
        model = Model(5, 2)
        for rows in loader:
            output = torch.cat([model(piece) for piece in rows.chunk(devices)])
            print("Outside: input size %s output_size %s" % (list(rows.size()), list(output.size())))
