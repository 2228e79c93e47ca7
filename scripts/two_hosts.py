"""Two hosts on this machine, joined by a link of their own: network namespaces, for jobs of Open MPI 5."""
import contextlib
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
NET = "10.77.0"
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
               "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Unavailable(Exception):
    """Why there can be none here."""


def sh(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{command}: {done.stderr.strip()}")


class TwoHosts:
    """Inside `with`: hosts `names`, the first with this machine's first core, the second with its last. `mbit`: speed of
    the link, if not as fast as it goes. Raises Unavailable. `folder`: for a file of its own."""

    def __init__(self, folder, mbit=None):
        # Host names of their own, or Open MPI never connects them.
        self.names = [f"evenstep-{os.getpid()}-{side}" for side in "ab"]
        self.mbit = mbit
        self.agent = pathlib.Path(folder, "agent")
        cores = sorted(os.sched_getaffinity(0))
        self.cores = [cores[0], cores[-1]]

    def __enter__(self):
        try:
            self.set_up()
        except Unavailable:
            self.__exit__()
            raise
        return self

    def set_up(self):
        a, b = self.names
        self.agent.write_text("#!/bin/bash\nshift\n" + f'exec ip netns exec {b} unshare --uts bash -c '
                              f'"hostname {b}; taskset -cp {self.cores[1]} \\$\\$ >/dev/null; $*"\n')
        self.agent.chmod(0o755)
        for name in self.names:
            sh(f"ip netns add {name} && ip netns exec {name} unshare --uts hostname {name}")
        sh(f"ip link add evs{os.getpid()}a netns {a} type veth peer name evs{os.getpid()}b netns {b}")
        for end, name in enumerate(self.names):
            device = f"evs{os.getpid()}{'ab'[end]}"
            sh(f"ip -n {name} addr add {NET}.{end + 1}/24 dev {device}")
            sh(f"ip -n {name} link set lo up; ip -n {name} link set {device} up")
            if self.mbit:
                sh(f"tc -n {name} qdisc replace dev {device} root tbf rate {self.mbit}mbit burst 256kb latency 50ms")

    def __exit__(self, *_):
        self.kill_all()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def processes(self):
        """Ids of all that run on them."""
        return [int(process) for name in self.names
                for process in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()]

    def kill_all(self):
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def mpirun(self, ranks=(1, 1)):
        """Words for `ranks` on each, before those of a program: the first host's ranks are the first. Needs
        ENVIRONMENT."""
        a, (first, second) = self.names[0], ranks
        return ["ip", "netns", "exec", a, "unshare", "--uts", "bash", "-c", f'hostname {a}; exec "$@"', a, "taskset", "-c",
                self.cores[0], ROOT / ".deps/bin/mpirun", "--bind-to", "none", "--prtemca", "plm_ssh_agent", self.agent,
                "--host", f"{NET}.1:{first},{NET}.2:{second}", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                "btl_tcp_if_include", f"{NET}.0/24", "-n", first + second]
