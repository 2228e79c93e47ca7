"""Control groups with CPU quotas, version 1 or 2, for processes that are to be slowed down."""
import contextlib
import os
import pathlib
import time


class Unavailable(Exception):
    """Why there can be none here."""


def cpu_controller():
    """The folder in which groups with CPU quotas can be made, and the version."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(maxsplit=2)
        folder = pathlib.Path(before.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return folder, 1
        if kind == "cgroup2" and "cpu" in (folder / "cgroup.subtree_control").read_text().split():
            return folder, 2
    raise Unavailable("no cpu controller of control groups is mounted, or it is not enabled for groups of one's own")


def set_quota(folder, version, cores, period_us):
    if version == 1:
        (folder / "cpu.cfs_period_us").write_text(str(period_us))
        (folder / "cpu.cfs_quota_us").write_text(str(round(cores * period_us)))
    else:
        (folder / "cpu.max").write_text(f"{round(cores * period_us)} {period_us}")


def remove(group, seconds=10):
    """Once its processes have ended."""
    end = time.monotonic() + seconds
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def quotas(cores, period_us):
    """Makes a group for each of `cores`, its quota. Gives words that, before a program's own under mpirun, put
    each rank into its group, and a function that changes the quotas. Raises Unavailable."""
    parent, version = cpu_controller()
    name = parent / f"evenstep-{os.getpid()}-"
    groups = [pathlib.Path(f"{name}{rank}") for rank in range(len(cores))]

    def change(cores):
        for group, quota in zip(groups, cores):
            set_quota(group, version, quota, period_us)

    try:
        try:
            for group in groups:
                group.mkdir()
            change(cores)
        except OSError as error:
            raise Unavailable(f"control groups with quotas cannot be made: {error}") from error
        seen = f"/proc/{os.getpid()}/root{name}"  # from inside a network namespace, too, which has a /sys of its own
        yield ["sh", "-c", f'echo $$ > "{seen}$OMPI_COMM_WORLD_RANK/cgroup.procs" && exec "$@"', "sh"], change
    finally:
        for group in groups:
            remove(group)
