// One factory a sizer; each sizer's source and formula stand at the head of its own file. All but
// `even` go by measured times alone and foresee no costs: what they propose is adopted as it comes.
#pragma once

#include <memory>
#include <string_view>

#include "lb/sizer.h"

namespace evenstep::lb {

std::unique_ptr<Sizer> make_off();
std::unique_ptr<Sizer> make_static();
std::unique_ptr<Sizer> make_static_functional(int ranks);
/// `predictor`: a name that make_predictor knows; it throws for others.
std::unique_ptr<Sizer> make_lbbsp_cpu(int ranks, std::string_view predictor);
std::unique_ptr<Sizer> make_lbbsp_gpu_2018(int ranks);
std::unique_ptr<Sizer> make_lbbsp_gpu_2020(int ranks);
std::unique_ptr<Sizer> make_proportional(int ranks);
std::unique_ptr<Sizer> make_lbb(int ranks);
/// `epoch_steps`: above 0; nothing happens in between.
std::unique_ptr<Sizer> make_dbs(int ranks, int epoch_steps = 100);
std::unique_ptr<Sizer> make_even(int ranks);

}  // namespace evenstep::lb
