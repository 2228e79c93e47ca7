// evenstep-svm: trains a linear support vector machine on sparse rows on all ranks of an MPI job,
// balanced. It solves the primal by mini-batches: the average over a global batch does not depend
// on how its rows are shared out, as the steps of dual solvers do (LIBLINEAR's own, CoCoA).
#include "svm/workload.h"
#include "training/program.h"

int main(int argc, char** argv) {
  namespace train = evenstep::train;
  train::SvmOptions svm;
  const train::Program program{
      .name = "evenstep-svm",
      .what = "Trains a linear SVM on sparse rows on all ranks of an MPI job, balanced.",
      .add_options = [&](CLI::App& app) { train::add_svm_options(app, svm); },
      .local_options = {"--data", "--test", "--cache"}};  // the data itself is compared
  train::Options defaults;
  defaults.epochs = 10;
  defaults.schedule = {.name = "cosine", .learning_rate = 0.1};
  return train::run_training(
      argc, argv, program,
      [&](train::Options& options) { return train::make_svm_workload(svm, options); }, defaults);
}
