"""What is learned from logs of known machines."""
import json
import random
import subprocess
import sys
import unittest

import simulation

FIXED, PER_SAMPLE = (0.004, 0.02, 0.004, 0.01), (0.002, 0.001, 0.001, 0.0005)
STEPS = 200


def log_lines(shares_of_step, noise=0.01, steps=STEPS, seed=5):
    numbers = random.Random(seed)
    for step in range(steps):
        shares = shares_of_step(step)
        own = [(fixed + per_sample * share) * numbers.lognormvariate(0, noise) if share else 0.0
               for fixed, per_sample, share in zip(FIXED, PER_SAMPLE, shares)]
        yield json.dumps({"step": step, "shares": shares, "own_seconds": own, "wait_seconds": [0.0] * 4,
                          "step_seconds": max(own), "loss": 1.0, "decision": "keep"})


def constant(_):
    return [32, 32, 32, 32]


def varying(step):
    return ([32, 32, 32, 32], [20, 28, 40, 40], [24, 24, 24, 56])[step // 7 % 3]


class FromLog(simulation.SimulationTest):
    def test_costs_are_told_apart_where_shares_vary(self):
        log = self.write("steps.jsonl", *log_lines(varying))
        summary = self.summary("--from-log", log, "--write-trace", "costs.csv", "--noise", 0, "--balance", "off,even")
        self.assertEqual((summary["ranks"], summary["global_batch"], summary["steps"]), (4, 128, STEPS))
        self.assertNotIn("results_half_fixed", summary)
        rows = [line.split(",") for line in (self.folder / "costs.csv").read_text().splitlines()[1:]]
        for _, rank, fixed, per_sample, *_ in rows:
            self.assertAlmostEqual(float(fixed), FIXED[int(rank)], delta=0.003)
            self.assertAlmostEqual(float(per_sample), PER_SAMPLE[int(rank)], delta=0.1 * PER_SAMPLE[int(rank)])
        off = max(fixed + per_sample * 32 for fixed, per_sample in zip(FIXED, PER_SAMPLE))
        self.assertAlmostEqual(summary["results"]["off"]["mean_step_seconds"], off, delta=0.03 * off)

    def test_both_bounds_where_shares_are_constant(self):
        log = self.write("steps.jsonl", *log_lines(constant))
        summary = self.summary("--from-log", log, "--balance", "off,even")
        self.assertIn("4 ranks", summary["assumed"])
        most, least = summary["results"]["even"]["speedup"], summary["results_half_fixed"]["even"]["speedup"]
        self.assertGreater(most, least)
        self.assertGreater(least, 1.05)
        self.assertAlmostEqual(summary["results"]["off"]["mean_step_seconds"],
                               summary["results_half_fixed"]["off"]["mean_step_seconds"], delta=1e-3)
        out = self.ok("--from-log", log, "--balance", "off").stdout
        self.assertIn("cannot be told", out)
        self.assertEqual(out.count("efficiency"), 2)
        self.refused("--from-log", log, "--write-trace", "t.csv", rc=2, words=["--write-trace", "4 ranks"])

    def test_noise_is_the_logs_own(self):
        log = self.write("steps.jsonl", *log_lines(constant, noise=0.08))
        self.assertAlmostEqual(self.summary("--from-log", log, "--balance", "off")["noise"], 0.08, delta=0.02)

    def test_zero_shares_and_slow_spells(self):
        def shares(step):
            return [0, 44, 44, 40] if 60 <= step < 120 else [32, 32, 32, 32]
        log = self.write("steps.jsonl", *log_lines(shares))
        results = self.summary("--from-log", log, "--balance", "off,even")["results"]
        json.dumps(results, allow_nan=False)
        self.assertGreater(results["even"]["efficiency"], 0.8)

    def test_plot(self):
        self.summary("--generate", "shifts", "--ranks", 4, "--steps", 200)
        script = simulation.ROOT / "scripts/plot-simulation"
        subprocess.run([sys.executable, script, "summary.json", "plot.svg"], cwd=self.folder, check=True)
        svg = (self.folder / "plot.svg").read_text()
        for word in ("<svg", "even", "off", "efficiency", "</svg>"):
            self.assertIn(word, svg)


if __name__ == "__main__":
    unittest.main(verbosity=2)
