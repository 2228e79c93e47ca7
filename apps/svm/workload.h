// The linear SVM on LIBSVM files.
#pragma once

#include <memory>
#include <string>

#include "training/options.h"
#include "training/workload.h"

namespace evenstep::train {

struct SvmOptions {
  std::string data;
  std::string test;   ///< empty: nothing is tested
  std::string cache;  ///< empty: none
  double c = 1;       ///< LIBLINEAR's C: cost of the hinge loss against the L2 term
  double bias = 1;    ///< value of a constant feature; 0: none
};

void add_svm_options(CLI::App& app, SvmOptions& options);

/// Reads the files, and turns C into the optimizer's weight decay. Throws kernels::DataError.
std::unique_ptr<Workload> make_svm_workload(const SvmOptions& svm, Options& options);

}  // namespace evenstep::train
