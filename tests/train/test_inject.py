"""A delay on one rank shows where it was put, and as waiting on the others."""
import job

RANKS, STEPS, SLOW, DELAY = 3, 12, 1, 0.060
FLAGS = ["--model", "softmax", "--global-batch", 30, "--steps", STEPS, "--eval", "off", "--balance", "off"]


class Inject(job.JobTest):
    def test_each_phase(self):
        for phase in ("load", "forward", "backward", "update"):
            with self.subTest(phase=phase):
                result = self.train(*FLAGS, f"--inject={SLOW}:{phase}:{1000 * DELAY:.0f}", ranks=RANKS)
                ranks = result.summary["ranks"]
                # The last step's update is nobody's own time any more.
                seen = DELAY * (STEPS - 1) / STEPS
                self.assertGreaterEqual(ranks[SLOW][phase], 0.95 * seen)
                for rank in ranks:
                    if rank["rank"] != SLOW:
                        self.assertLess(rank[phase], ranks[SLOW][phase] - 0.5 * DELAY)
                        self.assertGreater(rank["wait"], ranks[SLOW]["wait"] + 0.5 * DELAY)
                for other in {"load", "forward", "backward", "update"} - {phase}:
                    self.assertLess(ranks[SLOW][other], 0.5 * DELAY)

    def test_only_some_steps(self):
        result = self.train(*FLAGS, f"--inject={SLOW}:forward:{1000 * DELAY:.0f}:4-6", ranks=RANKS)
        for step in result.log:
            slow, others = step["own_seconds"][SLOW], max(step["own_seconds"][0], step["own_seconds"][2])
            if 4 <= step["step"] <= 6:
                self.assertGreaterEqual(slow, DELAY)
            else:
                self.assertLess(slow, others + 0.8 * DELAY)

    def test_two_delays(self):
        result = self.train(*FLAGS, "--inject=0:load:20", "--inject", "2:backward:30", ranks=RANKS)
        ranks = result.summary["ranks"]
        self.assertGreaterEqual(ranks[0]["load"], 0.019)
        self.assertGreaterEqual(ranks[2]["backward"], 0.029)

    def test_a_rank_without_samples_too(self):
        result = self.train("--model", "softmax", "--global-batch", 1, "--steps", STEPS, "--eval", "off", "--balance",
                            "off", "--inject=0:load:20", ranks=RANKS)
        self.assertEqual(result.log[-1]["shares"][0], 0)
        self.assertGreaterEqual(result.summary["ranks"][0]["load"], 0.019)


if __name__ == "__main__":
    job.main()
