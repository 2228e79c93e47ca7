#!/usr/bin/env python3
"""Writes fixtures/pytorch_curves.json: each model's losses over 20 steps of SGD in PyTorch.

Run by hand when a model changes; needs torch and numpy, which the tests themselves do not:
    PYTHON tests/kernels/make_curves.py
Weights, images and labels come from the whole-number formula of formula.h, so that only losses are
stored. Two batches take turns, so that their labels are learnt; batch norm takes the groups that
the network takes: chunks of the share in powers of two, the smallest first, cut into groups of at
most 16. The models are written down once more, in the order of their layers, with the dropout of
inception3 left out.

The losses are those of fp64. In fp32 they must be the same but for MOST_DRIFT, or the model is
refused: a trajectory that multiplies rounding errors tells nothing. With plain He weights those of
deep networks with batch norm do: fp32 and fp64 gradients of resnet50 and inception3 differ by 1 to
3 % in the first step, PyTorch's as ours, since ReLUs flip where their inputs are about 0. `tame`
is what helps.
"""
import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

from make_reference import cnn, fill, gpt, inputs_of, labels_of, mlp, softmax

GROUP = 16


class WithinChannelNorm(nn.Module):
    def forward(self, x):
        squares = F.avg_pool2d(x * x, 3, stride=1, padding=1)
        return x / (1 + 5e-5 * squares) ** 0.75


def cifarnet():
    def average():
        return nn.AvgPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(),
        WithinChannelNorm(), nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), average(),
        WithinChannelNorm(), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), average(),
        nn.Flatten(), nn.Linear(1024, 10))


class Conv(nn.Sequential):
    """Convolution, batch norm and perhaps a ReLU."""
    def __init__(self, inputs, outputs, size, stride=1, padding=0, relu=True, eps=1e-5):
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, padding, bias=False),
                         nn.BatchNorm2d(outputs, eps), *([nn.ReLU()] if relu else []))


class Residual(nn.Module):
    def __init__(self, shortcut, *branch):
        super().__init__()
        self.shortcut, self.branch = shortcut, nn.Sequential(*branch)

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x))


def project(inputs, outputs, stride, needed):
    return Conv(inputs, outputs, 1, stride, relu=False) if needed else nn.Identity()


def cifar_resnet(blocks):
    layers, last = [Conv(3, 16, 3, padding=1)], 16
    for width in (16, 32, 64):
        for block in range(blocks):
            stride = 2 if width > 16 and block == 0 else 1
            layers.append(Residual(project(last, width, stride, stride == 2),
                                   Conv(last, width, 3, stride, 1),
                                   Conv(width, width, 3, 1, 1, relu=False)))
            last = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet50():
    layers, last = [Conv(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if width > 64 and block == 0 else 1
            layers.append(Residual(project(last, 4 * width, stride, block == 0),
                                   Conv(last, width, 1), Conv(width, width, 3, stride, 1),
                                   Conv(width, 4 * width, 1, relu=False)))
            last = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Parallel(nn.ModuleList):
    """Branches side by side, their channels one behind the other."""
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


def chain(inputs, *steps):
    """Convolutions (outputs, size, stride, padding), one behind the other."""
    layers = []
    for outputs, size, stride, padding in steps:
        layers.append(Conv(inputs, outputs, size, stride, padding, eps=1e-3))
        inputs = outputs
    return nn.Sequential(*layers)


def one(outputs):
    return outputs, 1, 1, 0


def three(outputs):
    return outputs, 3, 1, 1


def wide(outputs, size=7):
    return outputs, (1, size), 1, (0, size // 2)


def tall(outputs, size=7):
    return outputs, (size, 1), 1, (size // 2, 0)


def pooled(inputs, outputs):
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), chain(inputs, one(outputs)))


def block_a(inputs, outputs):
    return Parallel([chain(inputs, one(64)), chain(inputs, one(48), (64, 5, 1, 2)),
                     chain(inputs, one(64), three(96), three(96)), pooled(inputs, outputs)])


def block_b(inputs):
    return Parallel([chain(inputs, (384, 3, 2, 0)),
                     chain(inputs, one(64), three(96), (96, 3, 2, 0)), nn.MaxPool2d(3, 2)])


def block_c(width):
    return Parallel([chain(768, one(192)), chain(768, one(width), wide(width), tall(192)),
                     chain(768, one(width), tall(width), wide(width), tall(width), wide(192)),
                     pooled(768, 192)])


def block_d():
    return Parallel([chain(768, one(192), (320, 3, 2, 0)),
                     chain(768, one(192), wide(192), tall(192), (192, 3, 2, 0)),
                     nn.MaxPool2d(3, 2)])


def fork(*steps_before):
    *stem, last = steps_before
    return nn.Sequential(chain(*stem, last), Parallel(
        [chain(384, wide(384, 3)), chain(384, tall(384, 3))]))


def block_e(inputs):
    return Parallel([chain(inputs, one(320)), fork(inputs, one(384)),
                     fork(inputs, one(448), three(384)), pooled(inputs, 192)])


def inception3():
    return nn.Sequential(
        chain(3, (32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1)), nn.MaxPool2d(3, 2),
        chain(64, (80, 1, 1, 0), (192, 3, 1, 0)), nn.MaxPool2d(3, 2),
        block_a(192, 32), block_a(256, 64), block_a(288, 64), block_b(288),
        block_c(128), block_c(160), block_c(160), block_c(192), block_d(),
        block_e(1280), block_e(2048), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


MNIST, CIFAR = (1, 28, 28), (3, 32, 32)
# Model, how it is built, image, classes, batch, learning rate, shift (see `tame`).
CASES = (
    ("softmax", softmax, MNIST, 10, 24, 0.02, 0),
    ("mlp", mlp, MNIST, 10, 24, 0.05, 0),
    ("cnn", cnn, MNIST, 10, 24, 0.05, 0),
    ("cifarnet", cifarnet, CIFAR, 10, 24, 0.1, 0),
    ("resnet20", lambda: cifar_resnet(3), CIFAR, 10, 24, 0.05, 0.5),
    ("resnet32", lambda: cifar_resnet(5), CIFAR, 10, 24, 0.05, 0.5),
    ("resnet56", lambda: cifar_resnet(9), CIFAR, 10, 16, 0.02, 0.5),
    ("resnet50", resnet50, (3, 64, 64), 1000, 8, 0.0003, 0.5),
    ("inception3", inception3, (3, 107, 107), 1000, 8, 0.00003, 2),
    ("gpt", gpt, (1, 16, 1), 50, 12, 0.01, 0),
)
STEPS, MOMENTUM, BATCHES, MOST_DRIFT = 20, 0.9, 2, 5e-5


def tame(model, shift):
    """Small residual branches, as published (Goyal et al. 2017: zero at first), and fewer dead ReLUs."""
    closing = {id(part.branch[-1][1]) for part in model.modules() if isinstance(part, Residual)}
    for norm in (part for part in model.modules() if isinstance(part, nn.BatchNorm2d)):
        if id(norm) in closing:
            norm.weight.data /= 8
        else:
            norm.bias.data += shift


def groups(batch):
    """Sizes of the groups of a share that is a whole batch."""
    sizes = [GROUP] * (batch // GROUP)
    return [1 << bit for bit in range(4) if batch >> bit & 1] + sizes


def curve(build, image, classes, batch, rate, shift, dtype):
    model = build()
    fill(model)
    tame(model, shift)
    model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        sample, total = step % BATCHES * batch, 0.0
        for size in groups(batch):
            inputs = inputs_of(model, sample, size, image)
            logits = model(inputs.to(dtype) if inputs.is_floating_point() else inputs)
            loss = F.cross_entropy(logits, labels_of(model, sample, size, classes), reduction="sum")
            (loss / batch).backward()
            total += loss.item()
            sample += size
        losses.append(float(f"{total / batch:.8g}"))
        optimizer.step()
    return losses


def main():
    torch.set_num_threads(1)
    lines = []
    for name, build, image, classes, batch, rate, shift in CASES:
        losses, single = (curve(build, image, classes, batch, rate, shift, dtype)
                          for dtype in (torch.float64, torch.float32))
        drift = max(abs(a / b - 1) for a, b in zip(single, losses))
        print(f"{name}: {losses}, fp32 within {drift:.1g}", file=sys.stderr)
        if drift > MOST_DRIFT:
            sys.exit(f"error: {name} multiplies rounding errors: {drift:.1g} > {MOST_DRIFT:.1g}")
        lines.append(json.dumps({"model": name, "image": image, "classes": classes, "batch": batch,
                                 "rate": rate, "shift": shift, "losses": losses}))
    target = pathlib.Path(__file__).parent / "fixtures" / "pytorch_curves.json"
    target.write_text(f'{{"torch": "{torch.__version__}", "momentum": {MOMENTUM}, '
                      f'"batches": {BATCHES}, "cases": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
