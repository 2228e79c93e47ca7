"""What evenstep-sim tells: fields, values known beforehand, and the same again from a written trace."""
import json
import unittest

import simulation

KINDS = ("equal", "static", "floors", "shifts", "drift", "spikes", "ar1", "quota", "dying", "levels")
OFF_EVEN = ["--balance", "off,even"]


class Simulate(simulation.SimulationTest):
    def test_summary_fields(self):
        summary = self.summary("--generate", "shifts", "--ranks", 4, "--steps", 300)
        self.assertEqual((summary["ranks"], summary["global_batch"], summary["steps"]), (4, 512, 300))
        self.assertLessEqual({"off", "static", "even"}, set(summary["results"]))
        for name, result in summary["results"].items():
            with self.subTest(name):
                self.assertEqual(set(result), simulation.RESULT_FIELDS)
                self.assertAlmostEqual(result["samples_per_second"] * result["mean_step_seconds"], 512, 3)
                self.assertTrue(0 < result["load_balance"] <= 1)
                self.assertTrue(all(isinstance(steps, int) and steps >= 0 for steps in result["recover_steps"]))

    def test_off_is_its_own_measure(self):
        off = self.summary("--generate", "levels", "--ranks", 8, "--balance", "off")["results"]["off"]
        self.assertAlmostEqual(off["speedup"], 1, 12)
        self.assertAlmostEqual(off["worst_window"], 1, 9)
        self.assertEqual(off["resizes"], 0)

    def test_known_efficiencies(self):
        results = self.summary("--generate", "static", "--ranks", 16, "--global-batch", 2048, *OFF_EVEN)["results"]
        self.assertAlmostEqual(results["off"]["efficiency"], 0.51, delta=0.01)
        self.assertGreater(results["even"]["efficiency"], 0.99)
        equal = self.summary("--generate", "equal", "--ranks", 16, *OFF_EVEN)["results"]
        self.assertGreater(equal["off"]["efficiency"], 0.99)
        self.assertGreater(equal["even"]["efficiency"], 0.98)

    def test_hand_computed_steps(self):
        # Without noise: off gives 6 samples each, 1 + 6 x 2 = 13 s; the best is 10 and 2 (2 x 2 + 1 = 5, 10 / 2 = 5).
        trace = self.write("two.csv", simulation.TRACE_HEADER, "0,0,0,0.5,,,", "0,1,1,2,,,")
        off = self.summary("--trace", trace, "--global-batch", 12, "--steps", 7, "--noise", 0, "--balance",
                           "off")["results"]["off"]
        self.assertAlmostEqual(off["mean_step_seconds"], 13, 6)
        self.assertAlmostEqual(off["efficiency"], 5 / 13, 6)
        self.assertAlmostEqual(off["load_balance"], (3 + 13) / 2 / 13, 6)

    def test_a_row_holds_until_the_next_one(self):
        trace = self.write("change.csv", simulation.TRACE_HEADER, "0,0,0,1,,,", "0,1,0,1,2.5,0.5,1024", "", "3,1,0,2,,,")
        off = self.summary("--trace", trace, "--global-batch", 2, "--noise", 0, "--balance", "off")
        self.assertEqual(off["steps"], 4)  # to the last row
        result = off["results"]["off"]
        self.assertAlmostEqual(result["mean_step_seconds"], (2.5 * 3 + 2) / 4, 6)

    def test_steps_to_recover(self):
        rows = [f"0,{rank},0,0.001,,," for rank in range(4)] + ["50,3,0,0.01,,,", "150,3,0,0.001,,,"]
        trace = self.write("drop.csv", simulation.TRACE_HEADER, *rows)
        results = self.summary("--trace", trace, "--global-batch", 512, "--steps", 250, "--noise", 0.01,
                               *OFF_EVEN)["results"]
        # Off never follows the drop, and needs no time to follow the return to equal speeds.
        self.assertEqual(results["off"]["recover_steps"], [100, 0])
        self.assertEqual(len(results["even"]["recover_steps"]), 2)
        self.assertLessEqual(max(results["even"]["recover_steps"]), 5)

    def test_the_same_again_from_the_written_trace(self):
        for kind in KINDS:
            if kind == "spikes":  # they are noise, which a trace does not hold
                continue
            with self.subTest(kind):
                run = ["--global-batch", 512, "--steps", 300, "--noise", 0.03, "--seed", 7, "--cold", 2, *OFF_EVEN]
                first = self.summary("--generate", kind, "--ranks", 4, "--write-trace", "trace.csv", *run)
                again = self.summary("--trace", "trace.csv", "--write-trace", "copy.csv", *run)
                self.assertEqual(first["results"], again["results"])
                trace = (self.folder / "trace.csv").read_text()
                self.assertEqual(trace.splitlines()[0], simulation.TRACE_HEADER)
                self.assertEqual(trace, (self.folder / "copy.csv").read_text())

    def test_seeds_cold_and_lag_count(self):
        run = ["--generate", "shifts", "--ranks", 8, "--steps", 400, "--balance", "even"]
        usual = self.summary(*run)["results"]
        self.assertEqual(usual, self.summary(*run)["results"])
        for flags in (["--seed", 2], ["--cold", 10], ["--lag", 1], ["--noise", 0.1], ["--granule", 8]):
            with self.subTest(flags):
                self.assertNotEqual(usual, self.summary(*run, *flags)["results"])

    def test_predictors_differ(self):
        run = ["--generate", "ar1", "--ranks", 4, "--steps", 300, "--balance", "lbbsp-cpu"]
        seen = {predictor: self.summary(*run, "--predictor", predictor)["results"]["lbbsp-cpu"]["efficiency"]
                for predictor in ("last", "ema", "ar", "narx")}
        self.assertEqual(len(set(seen.values())), 4, seen)

    def test_table_and_order_of_balances(self):
        run = ["--generate", "static", "--ranks", 4, "--steps", 100, "--balance", "even,off,even"]
        lines = self.ok(*run).stdout.splitlines()
        self.assertIn("4 ranks, global batch 512, 100 steps", lines[0])
        for word in ("step ms", "samples/s", "load", "speed-up", "efficiency", "re-sizes", "worst 50", "recover"):
            self.assertIn(word, lines[1])
        self.assertEqual([line.split()[0] for line in lines[2:]], ["even", "off"])

    def test_help_and_version(self):
        self.assertIn("--from-log", self.ok("--help").stdout)
        self.assertRegex(self.ok("--version").stdout, r"^evenstep \d+\.\d+\.\d+\n$")

    def test_odd_sizes(self):
        for ranks, batch in ((1, 1), (1, 128), (5, 3), (3, 1000), (300, 128)):
            with self.subTest(ranks=ranks, batch=batch):
                results = self.summary("--generate", "static", "--ranks", ranks, "--global-batch", batch, "--steps", 60,
                                       *OFF_EVEN)["results"]
                json.dumps(results, allow_nan=False)
                self.assertTrue(all(result["mean_step_seconds"] > 0 for result in results.values()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
