"""Wrong options and malformed files: one line that says where and what."""
import os
import random
import unittest

import simulation

GENERATE = ["--generate", "static", "--ranks", 4, "--steps", 20]
GOOD_ROWS = ["0,0,0.004,0.001,,,", "0,1,0.004,0.002,0.01,1.5,2048", "4,1,0.004,0.001,,,"]
GOOD_LINE = '{"step": %d, "shares": [4, 4], "own_seconds": [0.1, 0.2]}'


class BadOptions(simulation.SimulationTest):
    def test_sources(self):
        self.refused(rc=2, words=["--trace", "--from-log", "--generate", "--solve"])
        self.refused(*GENERATE, "--trace", "x.csv", rc=2, words=["--trace", "--generate", "exclude"])
        self.refused("--generate", "static", rc=2, words=["--ranks"])
        self.refused("--generate", "statik", "--ranks", 4, rc=2, words=["statik", "static", "quota"])
        self.refused("--from-log", "x", "--ranks", 4, rc=2, words=["--from-log", "--ranks"])
        self.refused("--trace", "", rc=2, words=["--trace", "name a file"])

    def test_values(self):
        for flag, values in {"--ranks": ["0", "-1", "x", "1000001", "4.5"], "--steps": ["0", "-1", "x"],
                             "--global-batch": ["0", "-5", "1e3", "99999999999999999999"], "--noise": ["-1", "nan", "x"],
                             "--cold": ["-1", "inf", ""], "--lag": ["2", "-1"], "--seed": ["-1", "x"],
                             "--granule": ["0"], "--predictor": ["crystal"], "--balance": ["evne", "off,evne"]}.items():
            for value in values:
                base = ["--generate", "static", "--steps", 20] if flag == "--ranks" else GENERATE
                base = ["--generate", "static", "--ranks", 4] if flag == "--steps" else base
                self.refused(*base, f"{flag}={value}", rc=2, words=[flag, value.rpartition(",")[2]])
        self.refused(*GENERATE, "--steps", 3, rc=2, words=["--steps"])
        self.refused(*GENERATE, "--ballance", "off", rc=2, words=["--ballance", "--help"])
        self.refused(*GENERATE, "--global-batch", 3, "--granule", 4, rc=2, words=["--global-batch 3", "--granule 4"])

    def test_outputs_that_cannot_be_written(self):
        (self.folder / "plain").write_text("")
        self.refused(*GENERATE, "--write-trace", "nowhere/trace.csv", rc=1, words=["nowhere/trace.csv"])
        result = self.run_sim(*GENERATE, "--summary", "plain/summary.json")
        self.assertEqual((result.rc, len(result.stderr.splitlines())), (1, 1), result)


class BadTraces(simulation.SimulationTest):
    def trace_refused(self, lines, *words, header=simulation.TRACE_HEADER):
        path = self.write("bad.csv", *([header] if header else []), *lines)
        self.refused("--trace", path, "--balance", "off", rc=1, words=["bad.csv", *words])

    def test_the_good_one_is_taken(self):
        path = self.write("good.csv", simulation.TRACE_HEADER, *GOOD_ROWS)
        self.ok("--trace", path)
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n").rstrip())
        self.ok("--trace", path)
        self.refused("--trace", path, "--ranks", 3, rc=2, words=["2 ranks", "3"])

    def test_files(self):
        self.refused("--trace", "missing.csv", rc=1, words=["missing.csv", "No such file"])
        self.refused("--trace", self.folder, rc=1, words=[self.folder, "directory"])
        self.refused("--trace", "/dev/zero", rc=1, words=["/dev/zero", "regular"])
        self.trace_refused([], "empty", header=None)
        self.trace_refused([], "no row")
        self.trace_refused(GOOD_ROWS, ":1:", "first line", header=None)
        for header in ("step,rank", simulation.COSTS_HEADER, "hello world"):
            self.trace_refused(GOOD_ROWS, ":1:", "first line", header=header)

    def test_fields(self):
        for row, *words in (["0,0,0.004", "3 fields", "7"], ["0,0,a,0.001,,,", "fixed_seconds", "'a'"],
                            ["0,0,0.004,,,,", "seconds_per_sample", "''"], ["0,0,nan,0.001,,,", "fixed_seconds", "nan"],
                            ["0,0,0.004,inf,,,", "seconds_per_sample", "inf"], ["0,0,-0.1,0.001,,,", "fixed_seconds"],
                            ["0,0,0.004,1e9,,,", "seconds_per_sample", "1e9"], ["0,0,0.004,0.001,x,,", "floor_seconds"],
                            ["0,0,0.004,0.001,,-1,", "cpu_available"], ["0,0,0.004,0.001,,,1GB", "mem_available"],
                            ["-1,0,0.004,0.001,,,", "step", "-1"], ["0,1.5,0.004,0.001,,,", "rank", "1.5"],
                            ["0,99999999999999999999,0.004,0.001,,,", "rank"], ["0,0,0,0,,,", "nanosecond"],
                            ["1000000000,0,0.004,0.001,,,", "step", "999999999"],
                            ["0,0,0.004,0.001,\0,,", "zero byte"], ["0,0,0.004,0.001,,,,", "8 fields"], ["0,0,0x1p-3,0.001,,,", "fixed_seconds"]):
            self.trace_refused([row], ":2:", *words)

    def test_order_and_ranks(self):
        self.trace_refused(["0,0,0,1,,,", "5,0,0,1,,,", "4,0,0,1,,,"], ":4:", "step 4", "step 5")
        self.trace_refused(["1,0,0,1,,,"], "step 0", "rank 0")
        self.trace_refused(["0,0,0,1,,,", "0,2,0,1,,,"], "2 rows", "rank 1")
        self.trace_refused(["0,0,0,1,,,", "0,0,0,1,,,"], "2 rows", "rank 1")
        self.trace_refused(["0,0,0,1,,,", "1,1,0,1,,,"], ":3:", "rank 1", "step 0")
        self.trace_refused(["0,0,0,1,,,", "1,0,0,1,,,", "1,0,0,2,,,"], ":4:", "two rows", "step 1")

    def test_binary_and_long_lines(self):
        path = self.folder / "bad.csv"
        path.write_bytes(random.Random(1).randbytes(100_000))
        self.refused("--trace", path, rc=1, words=["bad.csv:1:"])
        path.write_bytes(b"\0" * 100_000)
        self.refused("--trace", path, rc=1, words=["bad.csv:1:", "longer"])
        with open(path, "wb") as file:  # 1 GB without a line's end; not one byte of it on the disk
            os.truncate(file.fileno(), 1 << 30)
        self.refused("--trace", path, rc=1, words=["bad.csv:1:", "longer"])


class BadLogs(simulation.SimulationTest):
    def log_refused(self, line, *words):
        path = self.write("bad.jsonl", GOOD_LINE % 0, GOOD_LINE % 1, line)
        self.refused("--from-log", path, "--balance", "off", rc=1, words=["bad.jsonl:3:", *words])

    def test_lines(self):
        for line, *words in (["hello", "JSON", "hello"], ["[1, 2]", "JSON"], ['{"step": 2', "JSON"], ["{}", "step"],
                             [GOOD_LINE % 1, "step 1"], [(GOOD_LINE % 2).replace("[4, 4]", "[4]"), "1 ranks"],
                             [(GOOD_LINE % 2).replace("[4, 4]", "[4]").replace("[0.1, 0.2]", "[0.1]"), "1 ranks"],
                             [(GOOD_LINE % 2).replace("0.1", "-0.1"), "own_seconds", "rank 0"],
                             [(GOOD_LINE % 2).replace("0.1", "null"), "own_seconds", "null"],
                             [(GOOD_LINE % 2).replace("0.1", "NaN"), "JSON"],
                             [(GOOD_LINE % 2).replace("0.1", "1e999"), "JSON"],
                             [(GOOD_LINE % 2).replace("0.1", "0"), "rank 0", "own time"],
                             [(GOOD_LINE % 2).replace("[4, 4]", "[4, 4.5]"), "whole"],
                             [(GOOD_LINE % 2).replace("[4, 4]", "7"), "shares"],
                             [(GOOD_LINE % 2).replace("2", '"x"', 1), "step"], ["[" * 200_000, "JSON"],
                             [(GOOD_LINE % 2).replace("2", "-1", 1), "whole number from 0"],
                             [(GOOD_LINE % 2).replace("2", "9223372036854775808", 1), "whole number from 0"],
                             [(GOOD_LINE % 2).replace("[4, 4]", "[2147483648, 1]"), "2147483649"],
                             [GOOD_LINE % 2 + "\0", "zero byte"]):
            self.log_refused(line, *words)

    def test_files(self):
        self.refused("--from-log", "missing", rc=1, words=["missing", "No such file"])
        self.refused("--from-log", self.folder, rc=1, words=["directory"])
        for lines in ([], [GOOD_LINE % 0]):
            self.refused("--from-log", self.write("short.jsonl", *lines), rc=1, words=["short.jsonl", "2 steps"])
        idle = [(GOOD_LINE % step).replace("[4, 4]", "[8, 0]") for step in range(9)]
        self.refused("--from-log", self.write("idle.jsonl", *idle), rc=1, words=["idle.jsonl", "rank 1"])
        path = self.folder / "bad.jsonl"
        with open(path, "wb") as file:
            os.truncate(file.fileno(), 1 << 30)
        self.refused("--from-log", path, rc=1, words=["bad.jsonl:1:", "longer"])


class Fuzz(simulation.SimulationTest):
    """Bytes changed anywhere: a file is taken or refused with one line, and never crashes the program."""

    def fuzz(self, good, *flags):
        numbers = random.Random(3)
        for _ in range(120):
            text = bytearray(good.encode())
            for _ in range(numbers.randint(1, 4)):
                text[numbers.randrange(len(text))] = numbers.choice(b"0123456789,.-e\n\0\xff xn[]{}\"")
            (self.folder / "fuzz").write_bytes(text)
            result = self.run_sim(*flags)
            self.assertIn(result.rc, (0, 1), (result, bytes(text)))
            self.assertEqual(len(result.stderr.splitlines()), result.rc, (result, bytes(text)))
            self.assertNotIn("nan", result.stdout)

    def test_traces(self):
        self.fuzz("\n".join([simulation.TRACE_HEADER, *GOOD_ROWS]), "--trace", "fuzz", "--balance", "off,even",
                  "--steps", 10)

    def test_logs(self):
        self.fuzz("\n".join(GOOD_LINE % step for step in range(3)), "--from-log", "fuzz", "--balance", "off,even")

    def test_costs(self):
        self.fuzz("\n".join([simulation.COSTS_HEADER, "0,0.004,0.001,0.01,2,8", "1,0,0.001,,,"]), "--solve", "fuzz",
                  "--global-batch", 12)


if __name__ == "__main__":
    unittest.main(verbosity=2)
