#!/usr/bin/env python3
"""Writes fixtures/pytorch_reference.json: losses and gradients as PyTorch computes them.

Run by hand when a model changes; needs torch and numpy, which the tests themselves do not:
    PYTHON tests/kernels/make_reference.py
Weights, images and labels come from the whole-number formula of formula.h. Loss and gradients are
sums over the samples. bf16 is autocast: fp32 masters, bf16 compute.
"""
import json
import pathlib
import sys
from collections import OrderedDict

import numpy as np
import torch
from torch import nn

BATCHES = (1, 2, 7, 64)
ENTRIES = 24  # of each gradient, evenly strided


def scramble(stream, position):
    x = position.astype(np.uint64) * 2654435761 + stream * 40503 + 12345
    x &= 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 2246822519) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 3266489917) & 0xFFFFFFFF
    return x ^ (x >> 16)


def unit_values(stream, count):
    return (scramble(stream, np.arange(count)).astype(np.int64) % 2048 - 1024) / 1024


def weight_scale(fan_in):
    scale = 1.0
    while scale * scale * fan_in > 3:
        scale /= 2
    return scale


def softmax():
    return nn.Sequential(OrderedDict(flat=nn.Flatten(), fc=nn.Linear(784, 10)))


def mlp():
    return nn.Sequential(OrderedDict(
        flat=nn.Flatten(), fc1=nn.Linear(784, 512), relu1=nn.ReLU(), fc2=nn.Linear(512, 512),
        relu2=nn.ReLU(), fc3=nn.Linear(512, 10)))


def cnn():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 32, 3, padding=1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, padding=1), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flat=nn.Flatten(), fc1=nn.Linear(3136, 128), relu3=nn.ReLU(), fc2=nn.Linear(128, 10)))


def backward_order(model):
    """(name, tensor): last layer first, within a layer the weight, then the bias."""
    layers = [layer for layer in model.named_children() if list(layer[1].parameters())]
    for name, layer in reversed(layers):
        yield f"{name}.weight", layer.weight
        yield f"{name}.bias", layer.bias


def fill(model):
    for stream, (name, tensor) in enumerate(backward_order(model), 100):
        scale = 0.125 if tensor.dim() == 1 else weight_scale(tensor[0].numel())
        values = unit_values(stream, tensor.numel()) * scale
        tensor.data = torch.tensor(values, dtype=torch.float32).reshape(tensor.shape)


def tensor_record(name, gradient):
    flat = gradient.float().flatten()
    stride = max(1, flat.numel() // ENTRIES)
    return {
        "name": name,
        "norm": float(f"{flat.double().norm().item():.8g}"),
        "stride": stride,
        "entries": [float(f"{v:.8g}") for v in flat[::stride][:ENTRIES].tolist()],
    }


def reference(build, dtype, batch):
    model = build()
    fill(model)
    images = torch.tensor(unit_values(1, batch * 784), dtype=torch.float32)
    labels = torch.tensor((scramble(2, np.arange(batch)) % 10).astype(np.int64))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
        logits = model(images.reshape(batch, 1, 28, 28))
    logits = logits.float()
    loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
    loss.backward()
    return {
        "model": build.__name__,
        "dtype": dtype,
        "batch": batch,
        "loss": float(f"{loss.item():.8g}"),
        "correct": int((logits.argmax(1) == labels).sum()),
        "gradients": [tensor_record(name, t.grad) for name, t in backward_order(model)],
    }


def main():
    torch.set_num_threads(1)
    cases = [reference(build, dtype, batch) for build in (softmax, mlp, cnn)
             for dtype in ("f32", "bf16") for batch in BATCHES]
    target = pathlib.Path(__file__).parent / "fixtures" / "pytorch_reference.json"
    lines = ",\n".join(json.dumps(case) for case in cases)
    target.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{target}: {len(cases)} cases", file=sys.stderr)


if __name__ == "__main__":
    main()
