// The main function of a training program.
#pragma once

#include "training/trainer.h"

namespace evenstep::train {

/// Returns the process's exit code.
int run_training(int argc, char** argv, const Program& program, const MakeWorkload& make_workload,
                 const Options& defaults = {});

}  // namespace evenstep::train
