"""Runs of evenstep-train under mpirun, for benchmarks that take turns so that a busy machine is busy for all alike."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BALANCES = ("off", "even")
GOOD_LOAD_BALANCE = 0.90
WINDOW = 5  # steps whose median load balance has to be good


def parser(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--data", default=os.environ.get("EVENSTEP_DATA", "/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--train", default=os.environ.get("EVENSTEP_TRAIN", ROOT / "build/apps/evenstep-train"))
    return parser


def arguments(description):
    options = parser(description)
    options.add_argument("--pairs", type=int, default=3, help="runs of each kind (default 3)")
    options.add_argument("--steps", type=int, default=200, help="of each run (default 200)")
    return options.parse_args()


def flags(args, steps=None):
    return ["--model", args.model, "--data", args.data, "--steps", str(steps or args.steps), "--eval", "off", "--threads",
            "1"]


def load_balance(step):
    return statistics.mean(step["own_seconds"]) / max(step["own_seconds"])


def resizes_until_balanced(log):
    """Re-sizes before the first WINDOW steps with a good median load balance; None if there are none such."""
    for first in range(len(log) - WINDOW + 1):
        if statistics.median(map(load_balance, log[first:first + WINDOW])) >= GOOD_LOAD_BALANCE:
            return sum(step["decision"] != "keep" for step in log[:first])
    return None


def run(words):
    """Words of one run, without its outputs; its summary, and its log."""
    with tempfile.TemporaryDirectory() as folder:
        summary, log = pathlib.Path(folder, "summary.json"), pathlib.Path(folder, "steps.jsonl")
        outputs = ["--summary", str(summary), "--log", str(log)]
        words = [str(part) for word in words for part in (outputs if word == "OUTPUTS" else [word])]
        done = subprocess.run([str(ROOT / "scripts/mpirun"), *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}error: a run failed: scripts/mpirun {' '.join(words)}")
        return json.loads(summary.read_text()), [json.loads(line) for line in log.read_text().splitlines()]


def compare(pairs, command):
    """`command(balance)`: the words for mpirun, with OUTPUTS where --summary and --log belong."""
    speeds = {balance: [] for balance in BALANCES}
    print(f"{'pair':>4} {'balance':>8} {'samples/s':>10} {'load balance':>13} {'last 50':>8} {'re-sizes':>9} "
          f"{'until ' + str(GOOD_LOAD_BALANCE):>10}  last partition")
    for pair in range(pairs):
        for balance in BALANCES:
            summary, log = run(command(balance))
            speeds[balance].append(summary["samples_per_second"])
            until = resizes_until_balanced(log)
            print(f"{pair + 1:>4} {balance:>8} {summary['samples_per_second']:>10.0f} {summary['load_balance']:>13.3f} "
                  f"{statistics.mean(map(load_balance, log[-50:])):>8.3f} {summary['resizes']:>9} "
                  f"{'never' if until is None else until:>10}  {summary['partition']}", flush=True)
    off, even = (statistics.median(speeds[balance]) for balance in BALANCES)
    ratios = ", ".join(f"{even / off:.2f}" for off, even in zip(*speeds.values()))
    print(f"\nmedian samples/s: off {off:.0f}, even {even:.0f}: {even / off:.2f} times (by pair: {ratios})")
