"""Every sample exactly once an epoch, with a global batch that does not divide the data."""
import math

import job

SAMPLES = 101


class EverySampleOnce(job.JobTest):
    def train_frozen(self, ranks, *flags):
        """With a learning rate of 0 each sample keeps its own loss, so that an epoch's sum of losses tells
        whether each one was there once: no two samples are alike."""
        return self.train("--model", "softmax", "--lr", 0, "--epochs", 2, *flags, ranks=ranks)

    def epoch_sums(self, result, batch):
        steps = math.ceil(SAMPLES / batch)
        self.assertEqual(len(result.log), 2 * steps)
        sums = [sum(step["loss"] * sum(step["shares"]) for step in result.log[first:first + steps])
                for first in (0, steps)]
        for first in (0, steps):
            counts = [sum(step["shares"]) for step in result.log[first:first + steps]]
            self.assertEqual(counts, [batch] * (steps - 1) + [SAMPLES - batch * (steps - 1)])
        return sums

    def setUp(self):
        super().setUp()
        whole = self.train_frozen(1, "--global-batch", SAMPLES)
        self.expected, again = self.epoch_sums(whole, SAMPLES)
        self.assertAlmostEqual(self.expected, again, delta=1e-6 * self.expected)

    def check(self, ranks, batch, *flags):
        result = self.train_frozen(ranks, "--global-batch", batch, *flags)
        self.assertEqual(result.summary["samples"], 2 * SAMPLES)
        for epoch in self.epoch_sums(result, batch):
            self.assertAlmostEqual(epoch, self.expected, delta=1e-6 * self.expected)
        return result

    def test_any_ranks_and_batches(self):
        for ranks, batch in ((1, 32), (2, 7), (3, 32), (5, 23), (3, 100)):
            for balance in ("off", "even"):
                with self.subTest(ranks=ranks, batch=batch, balance=balance):
                    self.check(ranks, batch, "--balance", balance)

    def test_while_shares_change(self):
        result = self.check(3, 9, "--balance", "even", "--inject=2:load:15", "--inject=1:load:5:12-20")
        self.assertGreater(len({tuple(step["shares"]) for step in result.log if sum(step["shares"]) == 9}), 1,
                           "the balancer should have changed the shares")

    def test_another_epoch_has_another_order(self):
        result = self.train_frozen(2, "--global-batch", 10)
        first, second = ([step["loss"] for step in result.log[at:at + 11]] for at in (0, 11))
        self.assertNotEqual(first, second)

    def test_the_seed_decides_on_order_and_weights(self):
        flags = ["--model", "softmax", "--global-batch", 10, "--steps", 8, "--eval", "off"]
        runs = [self.train(*flags, "--seed", seed, ranks=2) for seed in (5, 5, 6)]
        losses = [[step["loss"] for step in run.log] for run in runs]
        self.assertNotEqual(losses[0], losses[2])
        self.assertAlmostEqual(losses[0][0], losses[1][0], delta=1e-5 * losses[0][0])


if __name__ == "__main__":
    job.main()
