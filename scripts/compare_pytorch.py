#!/usr/bin/env python3
"""Training steps a second, and memory, of Evenstep beside PyTorch, in alternating runs.

One thread a rank, 128 samples a rank, real Fashion-MNIST images, plain SGD; for gpt (4 layers of width 256, 4
heads), 8 sequences of 128 random bytes. A step is forward, loss,
backward and update, with fp32 masters in both types (PyTorch's bf16 is autocast). One rank of ours is
evenstep-bench-network, several are evenstep-train; of PyTorch's, several are DistributedDataParallel on
gloo. Evenstep's time includes normalising its images from bytes; PyTorch's are normalised beforehand.
PyTorch runs as it comes, with malloc kept from giving memory back, and so in channels last as well, or
for gpt with attention written as matrix products; its best is the fastest of these. Every run is a job of its
own; the table has medians, and ratios are medians of the ratios within a round. Memory is the peak resident size
of the largest process.

What of a step is communication, waiting for slower ranks included: the time by which steps are longer than those that
the ranks run each for itself, in turn in the same job; of ours by `evenstep-bench --what communication` (not of gpt, nor
in bf16), of PyTorch's under no_sync.
"""
import argparse
import contextlib
import gzip
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
               "MALLOC_TOP_PAD_": "268435456"}
VARIANTS = {"default": {}, "malloc": KEEP_MEMORY, "channels_last": KEEP_MEMORY}
GPT_VARIANTS = {"default": {}, "malloc": KEEP_MEMORY, "plain_attention": KEEP_MEMORY}
GPT_CONTEXT, GPT_VOCABULARY = 128, 256
BLOCKS = 6  # of steps, in a run
TORCH_SAMPLES = 8192  # so that its images do not count as memory of its own


def mlp(nn):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def cnn(nn):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def resnet20(nn):
    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            stride = outputs // inputs
            self.branch = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(self.branch(x) + self.shortcut(x))

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        *[Block(a, b) for a, b in zip(widths, widths[1:])],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def gpt(nn, plain=False, layers=4, heads=4, width=256):
    import torch
    from torch.nn import functional as F

    def attend(q, k, v):
        if not plain:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
        later = torch.ones(GPT_CONTEXT, GPT_CONTEXT, dtype=torch.bool).triu(1)
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ v

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                     nn.Linear(4 * width, width))

        def forward(self, x):
            shape = (*x.shape[:2], heads, width // heads)
            q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, 2))
            x = x + self.projection(attend(q, k, v).transpose(1, 2).reshape(x.shape))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(GPT_VOCABULARY, width), nn.Embedding(GPT_CONTEXT, width)
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(layers)]), nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.blocks(self.tokens(tokens) + self.places.weight)
            return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)

    return Gpt()


# Evenstep's name of a model: PyTorch's model on 1x28x28 images.
MODELS = {"cnn": cnn, "mlp": mlp, "resnet20": resnet20, "gpt": gpt,
          "softmax": lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(784, 10))}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build", help="build directory (build)")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--models", default="cnn,mlp")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--batch", type=int, help="samples a rank (128; of gpt 8)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--variants", help="of PyTorch (all)")
    parser.add_argument("--json", type=pathlib.Path, help="rounds are added to this file, one a line")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of all rounds in the --json file")
    parser.add_argument("--torch-run", choices={**VARIANTS, **GPT_VARIANTS}, help=argparse.SUPPRESS)
    return parser.parse_args()


def read_idx(path, header):
    import numpy as np
    opened = gzip.open(f"{path}.gz") if not os.path.exists(path) else open(path, "rb")
    with opened as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def fashion_mnist(folder):
    import torch
    data = pathlib.Path(folder)
    pixels = read_idx(data / "train-images-idx3-ubyte", 16)[:TORCH_SAMPLES * 784].reshape(-1, 1, 28, 28)
    labels = torch.tensor(read_idx(data / "train-labels-idx1-ubyte", 8)[:TORCH_SAMPLES].astype("int64"))
    images = torch.tensor(pixels).float() / 255
    return (images - images.mean()) / images.std(), labels


def torch_run(options):
    """What a child process does: times PyTorch and prints one line of JSON on the first rank."""
    import torch
    from torch import distributed
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ranks = int(options.ranks)
    if options.models == "gpt":
        images = torch.randint(GPT_VOCABULARY, (TORCH_SAMPLES, GPT_CONTEXT))
        labels = images.roll(-1, 1)
        model = gpt(torch.nn, options.torch_run == "plain_attention")
    else:
        images, labels = fashion_mnist(options.data)
        model = MODELS[options.models](torch.nn)
    if options.torch_run == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    if ranks > 1:
        distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    bf16 = options.dtypes == "bf16"

    def step(k):
        first = k * options.batch % (len(labels) - options.batch + 1)
        batch = slice(first, first + options.batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(images[batch])
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[batch].flatten())
        loss.backward()
        optimizer.step()

    def seconds_of(steps, synchronised=True):
        start = time.perf_counter()
        with contextlib.nullcontext() if synchronised else model.no_sync():
            for k in range(steps):
                step(k)
        longest = torch.tensor(time.perf_counter() - start)
        if ranks > 1:
            distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        return longest.item()

    seconds_of(5)
    steps = max(2, int(options.seconds / BLOCKS / seconds_of(5) * 5))  # the same on all ranks
    times, alone = [], []
    for _ in range(BLOCKS):
        times.append(seconds_of(steps))
        if ranks > 1:
            alone.append(seconds_of(steps, synchronised=False))
    result = {"samples_per_second": ranks * BLOCKS * steps * options.batch / sum(times),
              "communication": 1 - sum(alone) / sum(times) if ranks > 1 else 0}
    if not ranks > 1 or distributed.get_rank() == 0:
        print(json.dumps(result), flush=True)
    if ranks > 1:
        distributed.destroy_process_group()  # or its threads may end the process with an error


def run_all(commands, environments):
    """Runs the processes of one job together: the output of the first, and the largest peak in MB."""
    processes = [subprocess.Popen([str(word) for word in command], env=dict(os.environ, **environment),
                                  stdout=subprocess.PIPE, text=True)
                 for command, environment in zip(commands, environments)]
    output = processes[0].stdout.read()
    peak = 0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"error: {process.args[0]} failed with exit code {process.returncode}")
        peak = max(peak, usage.ru_maxrss / 1024)
    return output, peak


def batch_of(options, model):
    return options.batch or (8 if model == "gpt" else 128)


def variants_of(model):
    return GPT_VARIANTS if model == "gpt" else VARIANTS


def time_torch(options, model, dtype, ranks, variant):
    command = [sys.executable, __file__, "--models", model, "--dtypes", dtype, "--data", options.data,
               "--batch", batch_of(options, model), "--seconds", options.seconds, "--ranks", ranks, "--torch-run",
               variant]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "WORLD_SIZE": str(ranks), **variants_of(model)[variant]}
    output, peak = run_all([command] * ranks, [{**common, "RANK": str(rank)} for rank in range(ranks)])
    return {**json.loads(output), "megabytes": peak}


def network_command(options, model, dtype):
    return [str(word) for word in (options.folder / "kernels/evenstep-bench-network", "--model", model, "--dtype", dtype,
                                   "--data", options.data, "--batch", batch_of(options, model), "--seconds",
                                   options.seconds)]


def time_one_rank(options, model, dtype):
    output, peak = run_all([network_command(options, model, dtype)], [{"OMP_NUM_THREADS": "1"}])
    return {**json.loads(output), "communication": 0, "megabytes": peak}


def steps_for(options, model, dtype, ranks):
    """Training steps that fill the time of a run, by the speed of one rank."""
    if (model, dtype) not in options.rates:
        options.rates[model, dtype] = time_one_rank(options, model, dtype)["samples_per_second"]
    cores_a_rank = min(1, len(os.sched_getaffinity(0)) / ranks)
    return max(20, int(options.seconds * cores_a_rank * options.rates[model, dtype] / batch_of(options, model)))


def time_ranks(options, model, dtype, ranks):
    steps = steps_for(options, model, dtype, ranks)
    with tempfile.NamedTemporaryFile(suffix=".json") as summary, tempfile.NamedTemporaryFile() as text:
        text.write(os.urandom(2 ** 20))
        text.flush()
        program = (["evenstep-lm", "--data", text.name, "--optimizer", "sgd", "--clip", 0] if model == "gpt"
                   else ["evenstep-train", "--model", model, "--data", options.data])
        run_all([[ROOT / "scripts/mpirun", "-n", ranks, options.folder / "apps" / program[0], *program[1:],
                  "--dtype", dtype, "--global-batch", ranks * batch_of(options, model), "--steps", steps,
                  "--momentum", 0, "--eval", "off", "--threads", 1, "--summary", summary.name]], [{}])
        told = json.loads(pathlib.Path(summary.name).read_text())
        return {"samples_per_second": told["samples_per_second"],
                "communication": communication(options, model, dtype, ranks),
                "megabytes": max(rank["peak_bytes"] for rank in told["ranks"]) / 2 ** 20}


def communication(options, model, dtype, ranks):
    if model == "gpt" or dtype == "bf16":
        return None
    with tempfile.NamedTemporaryFile(suffix=".json") as summary:
        run_all([[ROOT / "scripts/mpirun", "-n", ranks, options.folder / "apps/evenstep-bench", "--what", "communication",
                  "--model", model, "--batch", batch_of(options, model), "--block-seconds", options.seconds / BLOCKS,
                  "--pairs", BLOCKS, "--summary", summary.name]], [{}])
        return json.loads(pathlib.Path(summary.name).read_text())["communication"]["share"]


def compare(options, model, dtype, ranks):
    """Rounds of runs in turn: by side, what each found."""
    variants = options.variants.split(",") if options.variants else variants_of(model)
    runs = {"evenstep": [], **{variant: [] for variant in variants}}
    for _ in range(options.rounds):
        for side, results in runs.items():
            if side != "evenstep":
                results.append(time_torch(options, model, dtype, ranks, side))
            else:
                results.append(time_one_rank(options, model, dtype) if ranks == 1
                               else time_ranks(options, model, dtype, ranks))
        if options.json:
            last = {side: results[-1:] for side, results in runs.items()}
            with options.json.open("a") as file:
                file.write(json.dumps({"model": model, "dtype": dtype, "ranks": ranks, "runs": last}) + "\n")
    return runs


def print_row(model, dtype, ranks, runs):
    def median(side, what="samples_per_second"):
        return statistics.median(run[what] for run in runs[side])

    def share(side):
        known = [run["communication"] for run in runs[side] if run["communication"] is not None]
        return f"{100 * statistics.median(known):.1f}" if ranks > 1 and known else ""

    def ratio(side):
        return statistics.median(our["samples_per_second"] / their["samples_per_second"]
                                 for our, their in zip(runs["evenstep"], runs[side]))

    sides = [side for side in runs if side != "evenstep"]
    best = max(sides, key=median)
    cells = [model, dtype, ranks, f"{median('evenstep'):,.0f}", f"{median(best):,.0f}", best, f"{ratio('default'):.2f}" if "default" in sides else "",
             f"{ratio(best):.2f}", share("evenstep"), share(best), f"{median('evenstep', 'megabytes'):.0f}",
             f"{median(best, 'megabytes'):.0f}", len(runs[best])]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_head():
    print("| model | type | ranks | evenstep /s | PyTorch's best /s | which is | x default | x best "
          "| comm. % | PyTorch's % | MB | PyTorch's MB | rounds |")
    print("|" + "---|" * 13)


def print_table(file):
    """Rounds of the same kind are put together, whenever they were run."""
    together = {}
    for line in map(json.loads, file.read_text().splitlines()):
        runs = together.setdefault((line["model"], line["dtype"], line["ranks"]), {})
        for side, results in line["runs"].items():
            runs.setdefault(side, []).extend(results)
    print_head()
    for kind, runs in together.items():
        print_row(*kind, runs)


def has_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def main():
    options = parse()
    if options.torch_run:
        torch_run(options)
        return
    if options.table:
        print_table(options.json)
        return
    folders = [pathlib.Path.cwd() / options.build, ROOT / options.build]
    options.folder = next((f for f in folders if (f / "kernels/evenstep-bench-network").exists()), None)
    if options.folder is None:
        sys.exit(f"error: {folders[0]}/kernels/evenstep-bench-network is not there; build Evenstep first, or name "
                 "the build directory")
    options.rates = {}
    print_head()
    for dtype in options.dtypes.split(","):
        if dtype == "bf16" and not has_bf16():
            print("bf16: left out, this processor has no instructions for it")
            continue
        for model in options.models.split(","):
            for ranks in map(int, options.ranks.split(",")):
                runs = compare(options, model, dtype, ranks)
                print_row(model, dtype, ranks, runs)


if __name__ == "__main__":
    main()
