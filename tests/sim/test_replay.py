"""A trace through the real runtime ends as the simulator says.

Ranks sleep for 130 ms and more a step, so that what a busy machine adds (waking late, one core for several
ranks) stays small; it only ever makes the replay slower. Where another process takes the machine for a
while, a run may still fall behind: one that differs is tried again, twice.
"""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import job
import simulation

REPLAY = os.environ.get("EVENSTEP_REPLAY", str(job.ROOT / "build/apps/evenstep-replay"))
ATTEMPTS = 3
WITHIN = 0.03
STEPS = 70


class Replay(simulation.SimulationTest):
    def replay(self, *flags, ranks, seconds=120):
        folder = self.folder / "outputs"
        folder.mkdir(exist_ok=True)
        return job.Job([job.MPIRUN, "-n", ranks, REPLAY, *flags], folder).end(seconds)

    def replay_summary(self, *flags, ranks):
        path = self.folder / "replay.json"
        result = self.replay(*flags, "--summary", path, ranks=ranks)
        self.assertEqual((result.rc, result.error_lines), (0, []), result)
        return json.loads(path.read_text())

    def agrees(self, kind, ranks, balance, scale, *flags):
        run = ["--steps", STEPS, "--balance", balance, "--seed", 3, *flags]
        simulated = self.summary("--generate", kind, "--ranks", ranks, "--write-trace", "trace.csv", *run)
        expected = simulated["results"][balance]["efficiency"]
        seen = []
        while len(seen) < ATTEMPTS and not (seen and abs(seen[-1] - expected) <= WITHIN):
            replayed = self.replay_summary("--trace", self.folder / "trace.csv", *run, "--time-scale", scale, ranks=ranks)
            seen.append(replayed["results"][balance]["efficiency"])
        self.assertLessEqual(abs(seen[-1] - expected), WITHIN, f"simulated {expected}, replayed {seen}")
        return simulated, replayed

    def test_unequal_ranks(self):
        for ranks in (4, 8):
            for balance, scale in (("even", 1), ("off", 0.5)):
                with self.subTest(ranks=ranks, balance=balance):
                    self.agrees("static", ranks, balance, scale)

    def test_availability_reaches_the_sizers(self):
        """Speeds that follow a signal: without it, the efficiency is far lower."""
        simulated, _ = self.agrees("ar1", 4, "even", 1)
        rows = [line.split(",")[:5] + ["", ""] for line in (self.folder / "trace.csv").read_text().splitlines()[1:]]
        blind = self.write("blind.csv", simulation.TRACE_HEADER, *map(",".join, rows))
        without = self.summary("--trace", blind, "--steps", STEPS, "--balance", "even", "--seed", 3)
        self.assertGreater(simulated["results"]["even"]["efficiency"],
                           without["results"]["even"]["efficiency"] + 2 * WITHIN)

    def test_cold_sizes(self):
        """The first of the steps takes five times longer, for off; that alone tells."""
        simulated, replayed = self.agrees("static", 4, "off", 0.5, "--cold", 4)
        self.assertEqual((simulated["cold"], replayed["cold"]), (4, 4))
        self.assertAlmostEqual(replayed["results"]["off"]["speedup"], STEPS / (STEPS + 4), delta=0.02)

    def test_lag_and_predictor(self):
        simulated, replayed = self.agrees("ar1", 4, "lbbsp-cpu", 1, "--lag", 1, "--predictor", "last")
        self.assertEqual((simulated["lag"], replayed["lag"]), (1, 1))
        for other in (["--lag", 0, "--predictor", "last"], ["--lag", 1, "--predictor", "narx"]):
            usual = self.summary("--trace", self.folder / "trace.csv", "--steps", STEPS, "--balance", "lbbsp-cpu",
                                 "--seed", 3, *other)
            self.assertNotAlmostEqual(usual["results"]["lbbsp-cpu"]["efficiency"],
                                      simulated["results"]["lbbsp-cpu"]["efficiency"], delta=0.001)

    def test_same_fields(self):
        simulated, replayed = self.agrees("static", 4, "static", 1)
        self.assertLessEqual(set(simulated), set(replayed))
        for field in ("ranks", "global_batch", "steps"):
            self.assertEqual(simulated[field], replayed[field])
        self.assertEqual(set(replayed["results"]["static"]), simulation.RESULT_FIELDS)

    def test_refusals(self):
        bad = self.write("bad.csv", simulation.TRACE_HEADER, "0,0,0,1,,,", "0,1,x,1,,,")
        good = self.write("good.csv", simulation.TRACE_HEADER, "0,0,0,0.001,,,", "0,1,0,0.001,,,")
        for rc, flags, *words in ((2, [], "--trace", "--generate"), (2, ["--generate", "static", "--balance", "evne"], "evne"),
                                  (2, ["--generate", "static", "--ranks", 3], "--ranks", "3"),
                                  (2, ["--generate", "static", "--time-scale", 0], "--time-scale"),
                                  (2, ["--generate", "static", "--lag", 2], "--lag", "2"),
                                  (2, ["--generate", "static", "--cold=-1"], "--cold", "-1"),
                                  (2, ["--generate", "static", "--predictor", "crystal"], "crystal", "narx"),
                                  (2, ["--trace", good, "--global-batch", 3, "--granule", 4], "--granule 4"),
                                  (1, ["--trace", bad], "bad.csv:3:", "fixed_seconds"), (1, ["--trace", "none"], "none")):
            with self.subTest(flags):
                result = self.replay(*flags, ranks=2, seconds=job.SHORT_SECONDS)
                self.assertEqual((result.rc, len(result.error_lines)), (rc, 1), result)
                for word in words:
                    self.assertIn(word, result.error_lines[0])
        result = self.replay("--trace", good, ranks=3)
        self.assertEqual((result.rc, len(result.error_lines)), (2, 1), result)
        self.assertIn("2 ranks", result.error_lines[0])

    def test_help(self):
        result = self.replay("--help", ranks=2)
        self.assertEqual((result.rc, result.stdout.count("--time-scale")), (0, 1), result)


if __name__ == "__main__":
    unittest.main(verbosity=2)
