"""evenstep-sim --solve against all partitions there are."""
import itertools
import json
import random
import unittest

import simulation

CASES = 120


def finish_ns(rank, share):
    if share == 0:
        return 0
    return max(rank["floor"], rank["fixed"] + rank["per_sample"] * share)


def brute_force(ranks, batch, granule):
    """The least finish time in nanoseconds over all partitions; None where there is none."""
    rest = batch % granule
    waived = sum(-(-rank["least"] // granule) * granule for rank in ranks) > batch - rest
    best = None
    choices = []
    for rank in ranks:
        least = 0 if waived else min(-(-rank["least"] // granule) * granule, rank["most"] - rank["most"] % granule)
        whole = range(least, batch + 1, granule)
        choices.append({share for share in whole if share <= rank["most"]} |
                       {share + rest for share in whole if share + rest <= rank["most"]})
    for shares in itertools.product(*choices):
        if sum(shares) != batch or sum(share % granule != 0 for share in shares) > 1:
            continue
        finish = max(finish_ns(rank, share) for rank, share in zip(ranks, shares))
        best = finish if best is None else min(best, finish)
    return best


def random_rank(random_numbers, batch):
    least = random_numbers.choice([0, 0, random_numbers.randint(0, 2)])
    return {"fixed": random_numbers.randint(0, 9) * 1_000_000, "per_sample": random_numbers.randint(1, 9) * 500_000,
            "floor": random_numbers.choice([0, random_numbers.randint(0, 12) * 1_000_000]), "least": least,
            "most": random_numbers.choice([batch, random_numbers.randint(max(1, least), batch)])}


class Solve(simulation.SimulationTest):
    def solve(self, ranks, batch, granule):
        rows = [f"{i},{rank['fixed'] * 1e-9:.9f},{rank['per_sample'] * 1e-9:.12f},{rank['floor'] * 1e-9:.9f},"
                f"{rank['least']},{rank['most']}" for i, rank in enumerate(ranks)]
        path = self.write("costs.csv", simulation.COSTS_HEADER, *rows)
        return self.run_sim("--solve", path, "--global-batch", batch, "--granule", granule)

    def test_against_brute_force(self):
        numbers = random.Random(11)
        for case in range(CASES):
            batch = numbers.randint(2, 12)
            granule = numbers.randint(1, min(3, batch))
            ranks = [random_rank(numbers, batch) for _ in range(numbers.randint(1, 4))]
            best = brute_force(ranks, batch, granule)
            with self.subTest(case=case, ranks=ranks, batch=batch, granule=granule):
                result = self.solve(ranks, batch, granule)
                if best is None:
                    self.assertEqual(result.rc, 1, result)
                    self.assertIn(f"the global batch is {batch}", result.stderr)
                    continue
                self.assertEqual((result.rc, result.stderr), (0, ""), result)
                answer = json.loads(result.stdout)
                self.assertEqual(sum(answer["partition"]), batch)
                self.assertLessEqual(sum(share % granule != 0 for share in answer["partition"]), 1)
                for rank, share in zip(ranks, answer["partition"]):
                    self.assertLessEqual(share, rank["most"])
                slowest = max(map(finish_ns, ranks, answer["partition"]))
                self.assertEqual(slowest, best)
                self.assertAlmostEqual(answer["finish_seconds"], best * 1e-9, 12)

    def test_empty_columns_and_any_order_of_ranks(self):
        path = self.write("costs.csv", simulation.COSTS_HEADER, "1,0,0.002,,,", "0,0,0.001,,,")
        answer = json.loads(self.ok("--solve", path, "--global-batch", 30).stdout)
        self.assertEqual(answer, {"partition": [20, 10], "finish_seconds": 0.02})

    def test_caps_below_the_batch(self):
        path = self.write("costs.csv", simulation.COSTS_HEADER, "0,0,0.001,,,10", "1,0,0.001,,,6")
        self.refused("--solve", path, "--global-batch", 17, rc=1, words=["16", "17"])
        self.refused("--solve", path, "--global-batch", 16, "--granule", 4, rc=1, words=["12 samples in granules of 4", "16"])

    def test_a_hundred_thousand_ranks(self):
        rows = [f"{rank},0.004,{0.001 * (1 + rank % 3)},,," for rank in range(100_000)]
        path = self.write("costs.csv", simulation.COSTS_HEADER, *rows)
        answer = json.loads(self.ok("--solve", path, "--global-batch", 12_800_000).stdout)
        self.assertEqual(sum(answer["partition"]), 12_800_000)

    def test_refusals(self):
        good = self.write("good.csv", simulation.COSTS_HEADER, "0,0,0.001,,,")
        self.refused("--solve", good, rc=2, words=["--global-batch"])
        self.refused("--solve", good, "--global-batch", 3, "--granule", 4, rc=2, words=["--global-batch 3", "--granule 4"])
        self.refused("--solve", good, "--global-batch", 3, "--balance", "off", rc=2, words=["--solve", "--balance"])
        for row, words in (("0,0,0.001,,5,4", ["least is 5", "most is 4"]), ("0,0,-1,,,", ["seconds_per_sample", "-1"]),
                           ("0,0,nan,,,", ["seconds_per_sample", "nan"]), ("1,0,0.001,,,", ["rank 0"]),
                           ("0,0,0.001,,x,", ["least", "x"]), ("0,0,0.001", ["3 fields", "6"]),
                           ("0,0,0,,,", ["nanosecond"]), ("0,4000,0.001,,,", ["fixed_seconds", "4000", "3600"])):
            path = self.write("bad.csv", simulation.COSTS_HEADER, row)
            self.refused("--solve", path, "--global-batch", 3, rc=1, words=["bad.csv:2:", *words])


if __name__ == "__main__":
    unittest.main(verbosity=2)
