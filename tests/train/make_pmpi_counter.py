"""Writes a wrapper for every function of the MPI standard that a preprocessed mpi.h declares: it counts the call
and passes it on through the profiling interface.

usage: make_pmpi_counter.py mpi.i counter.cpp
"""
import re
import sys

DECLARATION = re.compile(r"\bint\s+(P?MPI_\w+)\s*\(([^;{}]*?)\)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)*;", re.DOTALL)
NOT_WRAPPED = {"MPI_Finalize", "MPI_Query_thread",  # by hand, in pmpi_counter.cpp
               "MPI_Pcontrol"}  # has a variable number of arguments

WRAPPER = """int {name}({parameters}) {{
  static long& calls = calls_of("{name}");
  ++calls;
  return P{name}({arguments});
}}
"""


def argument_name(parameter):
    return re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", parameter).group(1)


def wrapper(name, parameters):
    parameters = " ".join(parameters.split())
    arguments = [] if parameters in ("", "void") else map(argument_name, split(parameters))
    return WRAPPER.format(name=name, parameters=parameters, arguments=", ".join(arguments))


def split(parameters):
    return [parameter.strip() for parameter in parameters.split(",")]


def main():
    source, target = sys.argv[1:]
    text = "\n".join(line for line in open(source) if not line.startswith("#"))
    declared = dict(DECLARATION.findall(text))
    names = [name for name in declared if "P" + name in declared and name not in NOT_WRAPPED]
    if not {"MPI_Allreduce", "MPI_Iallreduce", "MPI_Test", "MPI_Send", "MPI_Comm_dup", "MPI_Barrier"} <= set(names):
        sys.exit(f"error: {source} declares {len(names)} functions of MPI, and not those that are needed")
    with open(target, "w") as out:
        out.write('#include "pmpi_counter.h"\n\nextern "C" {\n')
        out.writelines(wrapper(name, declared[name]) for name in sorted(names))
        out.write("}\n")


if __name__ == "__main__":
    main()
