"""One all-reduce a bucket and no other MPI call in a steady step, balancing on or off: counted through MPI's profiling
interface, as the difference between a run and one of twice its steps."""
import collections
import json
import os

import job

STEPS = 8
COUNTER = os.environ.get("EVENSTEP_PMPI_COUNTER", str(job.ROOT / "build/tests/train/libpmpi_counter.so"))


def is_polling(name):
    return name.startswith(("MPI_Test", "MPI_Wait"))


class Collectives(job.JobTest):
    def counts(self, ranks, steps, flags, calls):
        """Calls by name, a mapping a rank."""
        counts = self.folder / "counts"
        common = ["--model", "softmax", "--global-batch", 12, "--steps", steps, "--eval", "off", "--overlap", "off"]
        result = self.train(*job.override(common, flags), ranks=ranks,
                            wrap=("env", f"LD_PRELOAD={COUNTER}", f"EVENSTEP_PMPI_COUNTS={counts}"))
        self.assertEqual(result.summary["collectives_per_step"], calls)
        return [collections.Counter(json.loads(counts.with_name(f"counts.{rank}").read_text()))
                for rank in range(ranks)]

    def check(self, ranks, *flags, calls=1):
        with self.subTest(" ".join(map(str, flags)), ranks=ranks):
            once, twice = (self.counts(ranks, steps, flags, calls) for steps in (STEPS, 2 * STEPS))
            for short, long in zip(once, twice):
                # The counter is in place: it has seen the start.
                self.assertGreaterEqual(short["MPI_Init_thread"] + short["MPI_Init"], 1)
                self.assertGreaterEqual(short["MPI_Allgather"], 1)
                more = {name: long[name] - short[name] for name in long | short
                        if long[name] != short[name] and not is_polling(name)}
                self.assertEqual(sum(more.values()), calls * STEPS, more)
                self.assertLessEqual(set(more), {"MPI_Allreduce", "MPI_Iallreduce"}, more)

    def test_ranks(self):
        for ranks in (1, 2, 3, 5):
            for balance in ("off", "even"):
                self.check(ranks, "--balance", balance)

    def test_waiting(self):
        for wait in ("spin", "yield", "sleep"):
            self.check(3, "--balance", "even", "--wait", wait)

    def test_buckets(self):
        """As many calls as buckets, balancing on or off, on ranks without samples too."""
        for balance, batch in (("off", 12), ("even", 12), ("even", 1)):
            self.check(3, "--model", "mlp", "--overlap", "tests", "--bucket-mb", 0.5, "--balance", balance,
                       "--global-batch", batch, calls=5)

    def test_rotating_tail(self):
        for balance in ("off", "even"):
            self.check(5, "--balance", balance, "--tail", "rotating")

    def test_thread_and_16_bits(self):
        self.check(2, "--model", "mlp", "--overlap", "thread", "--bucket-mb", 0.5, "--wait", "sleep", calls=5)
        for wire in ("bf16", "f16"):
            self.check(3, "--wire", wire, calls=2)  # the tail goes as fp32

    def test_static(self):
        self.check(2, "--balance", "static")

    def test_while_shares_change(self):
        self.check(3, "--balance", "even", "--inject=1:load:10")

    def test_all_outputs_and_options(self):
        self.check(2, "--balance", "even", "--optimizer", "adamw", "--clip", 1, "--schedule", "cosine", "--emulate",
                   "1,0.5")


class NoThreads(job.JobTest):
    WRAP = ("env", f"LD_PRELOAD={COUNTER}", "EVENSTEP_PMPI_THREAD_LEVEL=0")  # MPI_THREAD_SINGLE
    RUN = ["--model", "mlp", "--global-batch", 12, "--steps", 5, "--eval", "off"]

    def test_works_and_is_said_once(self):
        for overlap in ("off", "tests", "auto"):
            result = self.train(*self.RUN, "--overlap", overlap, ranks=2, wrap=self.WRAP)
            self.assertEqual(result.stderr.count("no thread support"), 1, result)
        self.assertNotIn("no thread support", self.train(*self.RUN, ranks=2).stderr)

    def test_a_thread_is_refused(self):
        result = self.run_job(*self.RUN, "--overlap", "thread", ranks=2, wrap=self.WRAP)
        self.assert_one_error(result, "overlap thread", "tests", rc=2)


if __name__ == "__main__":
    job.main()
