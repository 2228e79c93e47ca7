"""Any number of ranks, and fewer samples than ranks."""
import job


class AnyNumberOfRanks(job.JobTest):
    def check(self, ranks, batch, *flags, steps=6):
        common = ["--model", "softmax", "--global-batch", batch, "--steps", steps]
        result = self.train(*job.override(common, flags), ranks=ranks)
        summary = result.summary
        self.assertEqual(summary["world_size"], ranks)
        self.assertEqual(summary["samples"], steps * batch)
        self.assertEqual(sum(summary["partition"]), batch)
        self.assertEqual(len({rank["parameter_hash"] for rank in summary["ranks"]}), 1)
        for step in result.log:
            self.assertEqual(len(step["shares"]), ranks)
            self.assertEqual(sum(step["shares"]), batch)
        return result

    def test_ranks(self):
        for ranks in (1, 2, 3, 5, 8):
            for balance in ("off", "even"):
                with self.subTest(ranks=ranks, balance=balance):
                    self.check(ranks, 16, "--balance", balance)

    def test_static(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.check(ranks, 16, "--balance", "static")

    def test_fewer_samples_than_ranks(self):
        for ranks, batch in ((5, 3), (3, 1), (8, 3)):
            for balance in ("off", "even", "static"):
                with self.subTest(ranks=ranks, batch=batch, balance=balance):
                    result = self.check(ranks, batch, "--balance", balance)
                    self.assertIn(0, result.log[0]["shares"])

    def test_one_sample(self):
        self.check(1, 1)

    def test_every_model_and_dtype(self):
        for model in ("softmax", "mlp", "cnn"):
            for dtype in job.dtypes():
                with self.subTest(model=model, dtype=dtype):
                    self.check(3, 4, "--model", model, "--dtype", dtype)  # of 4 on 3: shares of 1 and 2

    def test_a_sample_less_than_ranks_trains_alike(self):
        few = self.check(5, 3, "--lr", 0.01, "--momentum", 0, steps=10)
        alone = self.check(1, 3, "--lr", 0.01, "--momentum", 0, steps=10)
        for a, b in zip(few.log, alone.log, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5 * b["loss"])


if __name__ == "__main__":
    job.main()
