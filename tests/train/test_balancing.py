"""Unequal ranks on the real balancer. How much faster it gets is measured by scripts/bench-emulated: a test
machine is too noisy for more than what is asserted here."""
import statistics

import job

SPEEDS = [0.2, 0.16, 0.12, 0.08]
FLAGS = ["--model", "cnn", "--global-batch", 128, "--eval", "off", "--threads", 1, "--emulate",
         ",".join(map(str, SPEEDS))]


def load_balance(steps):
    return statistics.mean(statistics.mean(step["own_seconds"]) / max(step["own_seconds"]) for step in steps)


class Balancing(job.JobTest):
    def run_emulated(self, balance, steps):
        data = self.real_data()
        result = self.train(*FLAGS, "--steps", steps, "--balance", balance, ranks=4, data=data, seconds=200)
        last = load_balance(result.log[-30:])
        print(f"{balance}: {result.summary['samples_per_second']:.0f} samples/s, load balance {last:.2f} in the last "
              f"30 steps, {result.summary['resizes']} re-sizes, partition {result.summary['partition']}")
        return result, last

    def test_emulated_speeds(self):
        off, unbalanced = self.run_emulated("off", 50)
        even, balanced = self.run_emulated("even", 120)
        self.assertEqual(off.summary["partition"], [32, 32, 32, 32])
        self.assertEqual(off.summary["resizes"], 0)
        self.assertGreaterEqual(even.summary["resizes"], 1)
        partition = even.summary["partition"]
        self.assertEqual(partition, sorted(partition, reverse=True))
        self.assertGreater(partition[0], 32)
        self.assertLess(partition[3], 32)
        self.assertGreaterEqual(balanced, 0.75)
        self.assertGreater(balanced, unbalanced + 0.05)

    def test_static(self):
        static, _ = self.run_emulated("static", 40)
        self.assertEqual(static.summary["resizes"], 0)
        partition = static.summary["partition"]
        self.assertEqual(partition, sorted(partition, reverse=True))
        self.assertGreater(partition[0], partition[3])


if __name__ == "__main__":
    job.main()
