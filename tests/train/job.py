"""Runs evenstep-train as users do, through scripts/mpirun, and collects what a job leaves behind."""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import idx

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = os.environ.get("EVENSTEP_MPIRUN", str(ROOT / "scripts/mpirun"))
TRAIN = os.environ.get("EVENSTEP_TRAIN", str(ROOT / "build/apps/evenstep-train"))
SVM = os.environ.get("EVENSTEP_SVM", str(ROOT / "build/apps/evenstep-svm"))
LM = os.environ.get("EVENSTEP_LM", str(ROOT / "build/apps/evenstep-lm"))
DEBIAN_FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
SHORT_SECONDS = 20  # for a job that is refused
AT_ONCE = 6  # short jobs, most of whose time is MPI's start
OUTPUTS = {"--summary": "summary.json", "--log": "steps.jsonl", "--timeline": "trace.json"}


@dataclasses.dataclass
class Result:
    rc: int
    stdout: str
    stderr: str
    folder: pathlib.Path

    @property
    def summary(self):
        return json.loads((self.folder / OUTPUTS["--summary"]).read_text())

    @property
    def log(self):
        return [json.loads(line) for line in (self.folder / OUTPUTS["--log"]).read_text().splitlines()]

    @property
    def timeline(self):
        return json.loads((self.folder / OUTPUTS["--timeline"]).read_text())

    @property
    def error_lines(self):
        # On an abort mpirun's own notice may put a blank or a zero byte before the line.
        lines = (line.lstrip("\0 \t") for line in self.stderr.splitlines())
        return [line for line in lines if line.startswith("error:")]

    def __str__(self):
        return f"rc {self.rc}\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-3000:]}"


class Job:
    """A job under way. Its processes are one session, so that none of them can outlive it unseen."""

    def __init__(self, command, folder, env=None):
        self.folder = folder
        self.out = open(folder.parent / "out", "w+")
        self.err = open(folder.parent / "err", "w+")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.err, cwd=folder.parent,
                                        env={**os.environ, **(env or {})}, start_new_session=True)

    def processes(self):
        """Ids of all processes of the job that are still there, mpirun's own included."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            state, session = after_name[0], int(after_name[3])
            if session == self.process.pid and state != "Z":
                found.append(int(entry.name))
        return found

    def rank_process(self, rank):
        process = process_of_rank(rank, self.processes())
        if process is None:
            raise AssertionError(f"rank {rank} is not running: {self.end(0)}")
        return process

    def end(self, seconds):
        """Waits for the job's own end, kills all of it once the time is over."""
        try:
            self.process.wait(seconds)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        rest = self.processes()
        for process in rest:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        result = Result(self.process.returncode, *texts, self.folder)
        if late:
            raise AssertionError(f"the job has not ended within {seconds} s; {result}")
        return result


class JobTest(unittest.TestCase):
    """A test with a folder of its own, and jobs in it."""
    program = TRAIN

    @classmethod
    def setUpClass(cls):
        cls._shared = tempfile.TemporaryDirectory(prefix="evenstep-test-")
        cls.addClassCleanup(cls._shared.cleanup)
        cls.shared = pathlib.Path(cls._shared.name)
        cls.tiny_data = idx.write_dataset(cls.shared / "tiny", train=101, test=30)

    @classmethod
    def real_data(cls):
        """Fashion-MNIST, or what stands in for it where Debian's package is not installed."""
        if has_fashion_mnist():
            return DEBIAN_FASHION_MNIST
        stand_in = cls.shared / "stand-in"
        return stand_in if stand_in.exists() else idx.write_dataset(stand_in, train=2000, test=200)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="evenstep-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def command(self, *flags, ranks=1, then=(), wrap=(), mpirun=(), launcher=None, data=None, outputs=OUTPUTS, folder=None):
        """Words of the job's command line. `launcher`: other words for mpirun's. `then`: further parts of the job, each
        (ranks, wrap, flags); a flag given there takes the place of the first part's."""
        common = ["--data", data or self.tiny_data]
        for flag, name in outputs.items():
            common += [flag, (folder or self.folder) / name]
        first = override(common, flags)
        words = [*(launcher or [MPIRUN, *mpirun, "-n", ranks]), *wrap, self.program, *first]
        for part_ranks, part_wrap, part_flags in then:
            words += [":", "-n", part_ranks, *part_wrap, self.program, *override(first, part_flags)]
        return words

    def start(self, *flags, env=None, **options):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "outputs"
        folder.mkdir()
        job = Job(self.command(*flags, folder=folder, **options), folder, env)
        self.addCleanup(lambda: job.process.poll() is None and job.end(0))
        return job

    def run_job(self, *flags, seconds=60, **options):
        return self.start(*flags, **options).end(seconds)

    def train(self, *flags, **options):
        """As run_job, for a job that must go well."""
        result = self.run_job(*flags, **options)
        self.assertEqual(result.rc, 0, result)
        self.assertEqual(result.error_lines, [], result)
        return result

    @contextlib.contextmanager
    def refusals(self, *common_flags, rc):
        """Inside, call refuse(flags, *words) for each job that must be refused with `words`: at the end they
        are run, a few at once, and must leave nothing."""
        cases = []

        def refuse(flags, *words, ranks=2, rc=rc, **options):
            cases.append((flags, words, rc, {"ranks": ranks, **options}))

        yield refuse
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(self.run_job, *override(common_flags, flags), seconds=SHORT_SECONDS, **options)
                    for flags, _, _, options in cases]
        for (flags, words, expected_rc, options), ended in zip(cases, jobs):
            with self.subTest(" ".join(map(str, flags)), ranks=options["ranks"]):
                result = ended.result()
                self.assert_one_error(result, *words, rc=expected_rc)
                self.assert_nothing_left(result)

    def assert_one_error(self, result, *words, rc=None):
        """One line, once over all ranks, with `words` in it; non-zero exit; no trace of a crash."""
        self.assertEqual(len(result.error_lines), 1, result)
        for word in words:
            self.assertIn(word, result.error_lines[0], result)
        if rc is None:
            self.assertNotEqual(result.rc, 0, result)
        else:
            self.assertEqual(result.rc, rc, result)
        both = result.stdout + result.stderr
        for crash in ("Traceback", "terminate called", "Segmentation", "Aborted", "Process received signal",
                      "core dumped", "what():"):
            self.assertNotIn(crash, both, result)

    def assert_nothing_left(self, result):
        self.assertEqual([path.name for path in result.folder.iterdir()], [], result)


def has_fashion_mnist():
    return (DEBIAN_FASHION_MNIST / "train-images-idx3-ubyte.gz").exists()


def dtypes():
    """Types that networks can be built for on this processor: oneDNN's bf16 needs AVX-512."""
    return ["f32", "bf16"] if "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text() else ["f32"]


def process_of_rank(rank, processes):
    for process in processes:
        try:
            environment = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if {b"OMPI_COMM_WORLD_RANK=%d" % rank, b"PMI_RANK=%d" % rank} & set(environment):
            return process
    return None


def override(common, flags):
    """Words of both; what `common` says of a flag that is also in `flags` is left out."""
    common, flags = ([str(word) for word in words] for words in (common, flags))
    names = {flag_name(word) for word in flags}
    kept = []
    for word, value in zip(common, common[1:] + ["--"]):
        if word.startswith("--") and flag_name(word) not in names:
            kept += [word] if value.startswith("--") else [word, value]
    return kept + flags


def flag_name(word):
    return word.partition("=")[0]


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it has not happened within {seconds} s")
        time.sleep(0.02)


def main():
    sys.stdout.flush()
    unittest.main(verbosity=2)
