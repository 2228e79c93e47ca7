// The GPT language model on a text or a file of tokens.
#pragma once

#include <memory>
#include <string>

#include "kernels/gpt.h"
#include "training/options.h"
#include "training/workload.h"

namespace evenstep::train {

struct LmOptions {
  std::string data;
  std::string tokens = "text";
  std::string dtype = "f32";
  kernels::GptOptions gpt = {.vocabulary = 0};  ///< vocabulary 0: as many as the tokens can be
  double held_out = 0.1;                        ///< part of the data, at its end
};

void add_lm_options(CLI::App& app, LmOptions& options);

/// Maps the data and builds the model. Throws kernels::DataError, or UsageError where the options
/// do not fit each other or the data.
std::unique_ptr<Workload> make_lm_workload(const LmOptions& lm, const Options& options);

}  // namespace evenstep::train
