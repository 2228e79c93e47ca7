"""Communication beside backward: the same parameters on all ranks, delays where they belong, bf16 on the wire."""
import job

OVERLAPPED = ["--model", "mlp", "--overlap", "tests", "--bucket-mb", 0.5, "--eval", "off", "--balance", "off"]
RANKS, STEPS, DELAY = 3, 8, 0.100
PHASES = ("load", "forward", "backward")


class Stragglers(job.JobTest):
    def test_each_rank_and_phase(self):
        for slow in range(RANKS):
            for phase in PHASES:
                with self.subTest(rank=slow, phase=phase):
                    result = self.train(*OVERLAPPED, "--global-batch", 12, "--steps", STEPS,
                                        f"--inject={slow}:{phase}:{1000 * DELAY:.0f}", ranks=RANKS)
                    self.check(result, slow, phase)

    def check(self, result, slow, phase):
        ranks = result.summary["ranks"]
        self.assertEqual(result.summary["buckets"], 5)
        self.assertGreaterEqual(ranks[slow][phase], DELAY)
        for other in set(PHASES) - {phase}:
            self.assertLess(ranks[slow][other], 0.5 * DELAY)
        for rank in ranks:
            if rank["rank"] != slow:
                self.assertLess(rank[phase], ranks[slow][phase] - 0.5 * DELAY)
                self.assertGreater(rank["wait"], ranks[slow]["wait"] + 0.5 * DELAY)
        for step in result.log[1:]:
            self.assertEqual(max(range(RANKS), key=lambda rank: step["own_seconds"][rank]), slow, step)
        # The table at the end says the same: rank, host, share, own, load, forward, backward, update, wait.
        row = next(line.split() for line in result.stdout.splitlines() if line.split()[:1] == [str(slow)])
        self.assertGreaterEqual(float(row[4 + PHASES.index(phase)]), 1000 * DELAY)


class Agreement(job.JobTest):
    """The program itself compares a slice of the parameters in each step, and all of them at the end."""

    # Of Open MPI: of libnbc, for sums that overlap, and of tuned, for blocking ones.
    ALGORITHMS = ([("tests", {"OMPI_MCA_coll_libnbc_iallreduce_algorithm": str(number)}) for number in range(1, 5)]
                  + [("off", {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
                              "OMPI_MCA_coll_tuned_allreduce_algorithm": str(number)}) for number in range(1, 7)])

    def test_any_algorithm(self):
        """All with 2, 3 and 5 ranks, a third of them with each other number up to 8, another third each time."""
        for ranks in range(1, 9):
            for number, (overlap, variables) in enumerate(self.ALGORITHMS):
                if ranks in (2, 3, 5) or number % 3 == ranks % 3:
                    with self.subTest(overlap, ranks=ranks, **variables):
                        self.check_hashes(ranks, overlap, variables)

    def check_hashes(self, ranks, overlap, variables):
        result = self.train("--model", "softmax", "--overlap", overlap, "--bucket-mb", 0.005, "--global-batch", 20,
                            "--steps", 1000, "--eval", "off", "--wait", "sleep", ranks=ranks, env=variables)
        self.assertEqual(result.summary["world_size"], ranks)
        self.assertEqual(len(result.summary["ranks"]), ranks)
        self.assertEqual(len({rank["parameter_hash"] for rank in result.summary["ranks"]}), 1)
        self.assertEqual(result.summary["buckets"], 1 if overlap == "off" else 5)

    def test_thread(self):
        result = self.train(*job.override(OVERLAPPED, ["--overlap", "thread"]), "--global-batch", 12, "--steps", 30,
                            "--wait", "sleep", ranks=2)
        self.assertEqual(result.summary["overlap"], "thread")
        self.assertEqual(result.summary["collectives_per_step"], 5)


class LastChunk(job.JobTest):
    def test_same_parameters(self):
        """A last chunk of any size adds the same numbers in the same order."""
        hashes = {}
        for samples in (1, 24, 64):
            result = self.train("--model", "cnn", "--overlap", "tests", "--bucket-mb", 0.5, "--last-chunk", samples,
                                "--global-batch", 101, "--steps", 6, "--eval", "off", "--balance", "off", ranks=2)
            self.assertEqual(result.summary["last_chunk"], {1: 8, 24: 24, 64: 48}[samples])  # of 50, by eights
            hashes[samples] = result.summary["parameter_hash"]
        self.assertEqual(len(set(hashes.values())), 1, hashes)


class Auto(job.JobTest):
    def test_settles(self):
        result = self.train("--model", "mlp", "--global-batch", 12, "--steps", 60, "--eval", "off", ranks=2)
        self.assertTrue(result.summary["overlap_settled"])
        self.assertIn(f"overlap {result.summary['overlap']}, buckets {result.summary['buckets']}", result.stdout)

    def test_one_layer_has_nothing_to_overlap(self):
        result = self.train("--model", "softmax", "--global-batch", 12, "--steps", 3, "--eval", "off", ranks=2)
        self.assertTrue(result.summary["overlap_settled"])
        self.assertEqual((result.summary["overlap"], result.summary["collectives_per_step"]), ("off", 1))


class Wire(job.JobTest):
    def test_16_bits(self):
        """Close to f32 after 40 steps, with the same weights on all ranks, and not the same as f32."""
        for ranks in (1, 2, 3, 5):
            with self.subTest(ranks=ranks):
                losses = {}
                for wire in ("f32", "bf16", "f16"):
                    result = self.train(*OVERLAPPED, "--global-batch", 20, "--steps", 40, "--wire", wire, ranks=ranks)
                    losses[wire] = result.summary["final_loss"]
                    self.assertEqual(result.summary["skipped_steps"], 0)
                    self.assertEqual(len({rank["parameter_hash"] for rank in result.summary["ranks"]}), 1)
                    self.assertEqual(result.summary["buckets"], 5 if wire == "f32" else 6)
                    self.assertEqual(result.summary["samples"], 6 * 101 + 4 * 20)  # 101 samples: 6 steps an epoch
                self.assertEqual(len(set(losses.values())), 3, losses)
                self.assertAlmostEqual(losses["f32"], losses["bf16"], delta=0.1 * losses["f32"] + 0.01)
                self.assertAlmostEqual(losses["f32"], losses["f16"], delta=0.01 * losses["f32"] + 0.001)

    def test_too_large_for_f16(self):
        """A job that diverges outgrows the wire, says so, and ends as it does with f32."""
        for wire in ("f32", "f16"):
            result = self.run_job("--model", "mlp", "--global-batch", 12, "--steps", 50, "--eval", "off", "--lr", 10,
                                  "--momentum", 0, "--wire", wire, ranks=2)
            self.assert_one_error(result, "step ", "loss of rank ", "not finite", rc=1)
            warned = [line for line in result.stderr.splitlines() if "too large for --wire f16" in line]
            self.assertEqual(bool(warned), wire == "f16", result)


if __name__ == "__main__":
    job.main()
