"""The tail of constant size, pinned on few ranks: news of most ranks is old in every step."""
import job

RANKS = 5
FLAGS = ["--model", "mlp", "--global-batch", 100, "--eval", "off", "--threads", 1, "--tail", "rotating",
         "--overlap", "off"]


class RotatingTail(job.JobTest):
    def test_all_ranks_agree_and_follow_a_slow_one(self):
        result = self.train(*FLAGS, "--steps", 60, "--inject=3:backward:60", ranks=RANKS)
        summary = result.summary
        self.assertEqual(summary["collectives_per_step"], 1)
        self.assertEqual(len({rank["parameter_hash"] for rank in summary["ranks"]}), 1)
        for step in result.log:
            self.assertEqual(sum(step["shares"]), 100 if step["step"] % 2 == 0 else 1, step)  # 101 samples
        self.assertGreaterEqual(summary["resizes"], 1)
        self.assertLess(summary["partition"][3], 20)

    def test_the_update_is_that_of_slots(self):
        rotating, slots = (self.train("--model", "softmax", "--global-batch", 12, "--steps", 20, "--eval", "off",
                                      "--balance", "off", "--tail", tail, ranks=RANKS) for tail in ("rotating", "slots"))
        self.assertAlmostEqual(rotating.summary["final_loss"], slots.summary["final_loss"], places=4)
        self.assertEqual([step["shares"] for step in rotating.log], [step["shares"] for step in slots.log])

    def test_sizers(self):
        for balance in ("proportional", "lbb", "dbs", "lbbsp-cpu", "lbbsp-gpu-2018", "lbbsp-gpu-2020",
                        "static-functional"):
            with self.subTest(balance):
                result = self.train("--model", "softmax", "--global-batch", 50, "--steps", 40, "--eval", "off",
                                    "--balance", balance, "--tail", "rotating", ranks=RANKS)
                self.assertEqual(len({rank["parameter_hash"] for rank in result.summary["ranks"]}), 1)

    def test_not_finite_is_named_also_when_it_has_no_turn(self):
        result = self.run_job("--model", "mlp", "--global-batch", 12, "--steps", 50, "--lr", 1e30, "--tail", "rotating",
                              ranks=RANKS)
        self.assert_one_error(result, "step ", "rank ", "not finite", rc=1)


if __name__ == "__main__":
    job.main()
