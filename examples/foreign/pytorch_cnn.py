"""A PyTorch module with batch normalisation and dropout, and rows of its own: three shapes, drawn."""

import torch
from torch import nn
from torch.utils.data import Dataset

import resilin_model

SIZE = 12


class Shapes(Dataset):
    """Noisy images of a bar, a square or a cross somewhere; a function of their number."""

    def __init__(self, first, rows):
        self.first, self.rows = first, rows

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        draws = torch.Generator().manual_seed(self.first + index)
        shape, x, y = torch.randint(0, 1 << 30, (3,), generator=draws).tolist()
        shape, x, y = shape % 3, x % (SIZE - 5), y % (SIZE - 5)
        image = 0.4 * torch.randn(1, SIZE, SIZE, generator=draws)
        image[0, y : y + 5, x + 2] += 1
        if shape == 1:
            image[0, y : y + 5, x : x + 5] += 0.5
        if shape == 2:
            image[0, y + 2, x : x + 5] += 1
        return image, shape


def module():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * 6 * 6, 3),
    )


loss = nn.CrossEntropyLoss(reduction="sum")
resilin_model.pytorch(module, loss, train=Shapes(0, 1200), test=Shapes(1200, 300))
