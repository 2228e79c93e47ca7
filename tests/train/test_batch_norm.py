"""Batch norm takes groups of samples cut by their place in the batch, so shares of any size train as one rank does."""
import job

# 90 samples are five groups of 16 and a rest of 10, which lies first whoever has it. Larger steps or momentum would
# let fp32's own rounding grow: that is training, not an error. Other groups would show in the first step.
FLAGS = ["--model", "resnet20", "--global-batch", 90, "--lr", 0.005, "--momentum", 0, "--steps", 6, "--threads", 1,
         "--eval", "off"]


class BatchNorm(job.JobTest):
    def test_ranks_and_shares(self):
        data = self.real_data()
        alone = self.train(*FLAGS, "--balance", "off", ranks=1, data=data, seconds=120)
        losses = [step["loss"] for step in alone.log]
        for shares in (["--balance", "off"], ["--emulate", "0.5,1,0.25", "--balance", "static"]):
            run = self.train(*FLAGS, *shares, ranks=3, data=data, seconds=120)
            worst = max(abs(a - b["loss"]) / a for a, b in zip(losses, run.log, strict=True))
            print(f"3 ranks, shares {run.log[-1]['shares']} against 1 rank: {worst:.1e} relative")
            self.assertLessEqual(worst, 1e-4)
            self.assertEqual(sorted(share % 16 for share in run.log[-1]["shares"]), [0, 0, 10])
            # Running averages are among the parameters whose hashes the ranks compare.
            self.assertEqual(len({rank["parameter_hash"] for rank in run.summary["ranks"]}), 1)
            self.assertEqual(run.summary["parameters"], 272186)


if __name__ == "__main__":
    job.main()
