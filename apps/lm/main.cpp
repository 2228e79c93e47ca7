// evenstep-lm: trains a GPT on a text or a file of tokens on all ranks of an MPI job, balanced.
#include "lm/workload.h"
#include "training/program.h"

int main(int argc, char** argv) {
  namespace train = evenstep::train;
  train::LmOptions lm;
  const train::Program program{
      .name = "evenstep-lm",
      .what = "Trains a GPT on a text or a file of tokens on all ranks of an MPI job, balanced.",
      .add_options = [&](CLI::App& app) { train::add_lm_options(app, lm); },
      .local_options = {"--data"}};  // the data itself is compared
  train::Options defaults;
  defaults.global_batch = 16;
  defaults.optimizer = {.name = "adamw", .weight_decay = 0.01};
  defaults.schedule = {.name = "cosine", .learning_rate = 1e-3, .warmup_steps = 20};
  defaults.clip = 1;
  return train::run_training(
      argc, argv, program,
      [&](train::Options& options) { return train::make_lm_workload(lm, options); }, defaults);
}
