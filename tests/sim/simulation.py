"""Runs evenstep-sim as users do."""
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIM = os.environ.get("EVENSTEP_SIM", str(ROOT / "build/apps/evenstep-sim"))
TRACE_HEADER = "step,rank,fixed_seconds,seconds_per_sample,floor_seconds,cpu_available,mem_available"
COSTS_HEADER = "rank,fixed_seconds,seconds_per_sample,floor_seconds,least,most"
RESULT_FIELDS = {"mean_step_seconds", "samples_per_second", "efficiency", "speedup", "load_balance", "resizes",
                 "worst_window", "recover_steps"}


@dataclasses.dataclass
class Result:
    rc: int
    stdout: str
    stderr: str

    def __str__(self):
        return f"rc {self.rc}\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-3000:]}"


class SimulationTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="evenstep-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_sim(self, *flags, seconds=60):
        done = subprocess.run([SIM, *map(str, flags)], capture_output=True, stdin=subprocess.DEVNULL, cwd=self.folder,
                              timeout=seconds)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *flags, **options):
        """As run_sim, for what must go well."""
        result = self.run_sim(*flags, **options)
        self.assertEqual((result.rc, result.stderr), (0, ""), result)
        return result

    def summary(self, *flags, **options):
        path = self.folder / "summary.json"
        self.ok(*flags, "--summary", path, **options)
        return json.loads(path.read_text())

    def refused(self, *flags, rc, words, **options):
        """One line that begins with error: and has `words`, nothing else, and no summary."""
        path = self.folder / "refused.json"
        extra = [] if "--solve" in flags else ["--summary", path]
        with self.subTest(" ".join(map(str, flags))):
            result = self.run_sim(*flags, *extra, **options)
            self.assertEqual(result.rc, rc, result)
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 1, result)
            self.assertTrue(lines[0].startswith("error: "), result)
            for word in words:
                self.assertIn(str(word), lines[0], result)
            self.assertEqual(list(self.folder.glob("refused*")), [], result)

    def write(self, name, *lines):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path
