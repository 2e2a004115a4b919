// How fast a step on Ratel's server (ICDE 2025, section V) can be at all, and `auto` there beside
// what Ratel measured. The bounds are derived by hand (docs/planner.md).
#pragma once

#include <filesystem>
#include <vector>

#include "papers/published/paper_rows.h"
#include "papers/ratel/tiered_bounds.h"

namespace ferry {

/// A step of `batch` sequences of 1024 tokens on that server with one 4090 of 160 TFLOP/s and 21
/// GB/s, drives of 6.5 / 3.4 GB/s, and 256 GB of DRAM of which 20 are reserved; block inputs go to
/// DRAM before states, everything is recomputed.
TieredProblem ratel_bound(double parameters, double hidden, double layers, int batch, int drives);

/// Per case the lower bound beside the tabulated one, and the simulated step of `auto` on the same
/// machine and batch, which is to be shorter than Ratel's measured step.
/// `everything`: `auto` also where it takes more than a few seconds.
std::vector<PaperRow> bounds_experiments(const std::filesystem::path& machines, bool everything);

}  // namespace ferry
