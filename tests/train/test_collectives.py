"""One all-reduce a steady step and no other MPI call, balancing on or off: counted through MPI's profiling
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
    def counts(self, ranks, steps, flags):
        """Calls by name, a mapping a rank."""
        counts = self.folder / "counts"
        result = self.train("--model", "softmax", "--global-batch", 12, "--steps", steps, "--eval", "off", *flags,
                            ranks=ranks, wrap=("env", f"LD_PRELOAD={COUNTER}", f"EVENSTEP_PMPI_COUNTS={counts}"))
        self.assertEqual(result.summary["collectives_per_step"], 1)
        return [collections.Counter(json.loads(counts.with_name(f"counts.{rank}").read_text()))
                for rank in range(ranks)]

    def check(self, ranks, *flags):
        with self.subTest(" ".join(map(str, flags)), ranks=ranks):
            once, twice = self.counts(ranks, STEPS, flags), self.counts(ranks, 2 * STEPS, flags)
            for short, long in zip(once, twice):
                # The counter is in place: it has seen the start.
                self.assertGreaterEqual(short["MPI_Init_thread"] + short["MPI_Init"], 1)
                self.assertGreaterEqual(short["MPI_Allgather"], 1)
                more = {name: long[name] - short[name] for name in long | short
                        if long[name] != short[name] and not is_polling(name)}
                self.assertEqual(sum(more.values()), STEPS, more)
                self.assertLessEqual(set(more), {"MPI_Allreduce", "MPI_Iallreduce"}, more)

    def test_ranks(self):
        for ranks in (1, 2, 3, 5):
            for balance in ("off", "even"):
                self.check(ranks, "--balance", balance)

    def test_waiting(self):
        for wait in ("spin", "yield", "sleep"):
            self.check(3, "--balance", "even", "--wait", wait)

    def test_static(self):
        self.check(2, "--balance", "static")

    def test_while_shares_change(self):
        self.check(3, "--balance", "even", "--inject=1:load:10")

    def test_all_outputs_and_options(self):
        self.check(2, "--balance", "even", "--optimizer", "adamw", "--clip", 1, "--schedule", "cosine", "--emulate",
                   "1,0.5")


if __name__ == "__main__":
    job.main()
