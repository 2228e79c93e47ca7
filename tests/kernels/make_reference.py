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
from torch.nn import functional as F

BATCHES = (1, 2, 7, 64)
ENTRIES = 24  # of each gradient, evenly strided


def scramble(stream, position):
    x = position.astype(np.uint64) * 2654435761 + stream * 40503 + 12345
    x &= 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 2246822519) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 3266489917) & 0xFFFFFFFF
    return x ^ (x >> 16)


def unit_values(stream, positions):
    positions = np.arange(positions) if isinstance(positions, int) else positions
    return (scramble(stream, positions).astype(np.int64) % 2048 - 1024) / 1024


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


class Embedding(nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(vocabulary, width))
        self.places = nn.Parameter(torch.empty(context, width))

    def forward(self, tokens):
        return F.embedding(tokens, self.tokens) + self.places


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.projection, self.norm2 = nn.Linear(width, width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(heads.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=2, heads=4, width=32, context=16, vocabulary=50):
        super().__init__()
        self.embedding = Embedding(vocabulary, context, width)
        for layer in range(layers):
            self.add_module(f"block{layer}", Block(width, heads))
        self.norm = nn.LayerNorm(width)
        self.layers, self.context, self.vocabulary = layers, context, vocabulary

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in range(self.layers):
            x = getattr(self, f"block{layer}")(x)
        return F.linear(self.norm(x), self.embedding.tokens).flatten(0, -2)


def gpt():
    return Gpt()


def backward_order(model):
    """(name, tensor): last layer first, within a layer the weight, then the bias."""
    leaves = [leaf for leaf in model.named_modules() if list(leaf[1].parameters(recurse=False))]
    for name, leaf in reversed(leaves):
        for kind, tensor in leaf.named_parameters(recurse=False):
            yield f"{name}.{kind}", tensor


def fill(model):
    """As formula.h."""
    norms = [id(leaf.weight) for leaf in model.modules() if isinstance(leaf, (nn.BatchNorm2d, nn.LayerNorm))]
    for stream, (name, tensor) in enumerate(backward_order(model), 100):
        scale = 0.125 if tensor.dim() == 1 else weight_scale(tensor[0].numel())
        values = (id(tensor) in norms) + unit_values(stream, tensor.numel()) * scale
        tensor.data = torch.tensor(values, dtype=torch.float32).reshape(tensor.shape)


def inputs_of(model, sample, count, image=(1, 28, 28)):
    """Samples [sample, sample + count): images, or sequences of tokens."""
    if isinstance(model, Gpt):
        tokens = scramble(3, np.arange(sample * model.context, (sample + count) * model.context)) % model.vocabulary
        return torch.tensor(tokens.astype(np.int64)).reshape(count, model.context)
    elements = int(np.prod(image))
    pixels = unit_values(1, np.arange(sample * elements, (sample + count) * elements))
    return torch.tensor(pixels, dtype=torch.float32).reshape(count, *image)


def labels_of(model, sample, count, classes):
    targets = 1
    if isinstance(model, Gpt):
        targets, classes = model.context, model.vocabulary
    labels = scramble(2, np.arange(sample * targets, (sample + count) * targets)) % classes
    return torch.tensor(labels.astype(np.int64))


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
    labels = labels_of(model, 0, batch, 10)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
        logits = model(inputs_of(model, 0, batch))
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
    cases = [reference(build, dtype, batch) for build in (softmax, mlp, cnn, gpt)
             for dtype in ("f32", "bf16") for batch in BATCHES]
    target = pathlib.Path(__file__).parent / "fixtures" / "pytorch_reference.json"
    lines = ",\n".join(json.dumps(case) for case in cases)
    target.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{target}: {len(cases)} cases", file=sys.stderr)


if __name__ == "__main__":
    main()
