"""It learns: one epoch with the default flags on the real data."""
import unittest

import job


class Learning(job.JobTest):
    @unittest.skipUnless(job.has_fashion_mnist(), "Debian's package dataset-fashion-mnist is not installed")
    def test_one_epoch(self):
        result = self.train(ranks=2, data=job.DEBIAN_FASHION_MNIST, seconds=240)
        print(f"test accuracy after {result.summary['steps']} steps: {result.summary['test_accuracy']}")
        self.assertEqual(result.summary["steps"], 469)
        self.assertEqual(result.summary["samples"], 60_000)
        self.assertGreaterEqual(result.summary["test_accuracy"], 0.86)


if __name__ == "__main__":
    job.main()
