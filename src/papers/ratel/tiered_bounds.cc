#include "papers/ratel/tiered_bounds.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kHiBytes = 2;
constexpr double kStateBytes = 10;  // lo16, m, v

// What does not move takes no time, whatever the rate.
double seconds_of(double amount, double rate) {
  if (amount == 0) return 0;
  FERRY_CHECK(rate > 0, "what moves needs a rate");
  return amount / rate;
}

double flops_per_param(const TieredProblem& problem) { return 6 + 2 * problem.recomputed; }

double copies(const TieredProblem& problem) { return problem.data_parallel ? problem.gpus : 1; }

double step_flops_per_token(const TieredProblem& problem) {
  return flops_per_param(problem) * problem.parameters + problem.attention_flops;
}

double all_gpus(const TieredProblem& problem) { return problem.gpus * problem.flops; }

std::array<std::pair<const char*, double>, 6> named(const TieredBound& bound) {
  return {{{"compute", bound.compute},
           {"drives", bound.drives},
           {"up", bound.up},
           {"down", bound.down},
           {"dram", bound.dram},
           {"cpu", bound.cpu}}};
}

}  // namespace

StateTraffic state_traffic(double hi_cached, double states_cached) {
  const double hi = kHiBytes * (1 - hi_cached);
  const double states = kStateBytes * (1 - states_cached);
  return {2 * hi + states, hi + states};
}

CacheShares cache_shares(double parameters, double bytes) {
  const double hi = kHiBytes * parameters;
  return {std::clamp(bytes / hi, 0.0, 1.0),
          std::clamp((bytes - hi) / (kStateBytes * parameters), 0.0, 1.0)};
}

double TieredBound::seconds() const { return std::max({compute, drives, up, down, dram, cpu}); }

std::string TieredBound::binding() const {
  for (const auto& [name, time] : named(*this)) {
    if (time == seconds()) return name;
  }
  FERRY_UNREACHABLE("one of the terms is the longest");
}

TieredBound tiered_lower_bound(const TieredProblem& problem) {
  const double on_host = problem.parameters * (1 - problem.updated_on_gpu);
  const double read = problem.traffic.read * problem.parameters;
  const double written = problem.traffic.written * problem.parameters;
  TieredBound bound;
  bound.compute = seconds_of(step_flops_per_token(problem) * problem.tokens, all_gpus(problem)) +
                  problem.elementwise_seconds / problem.gpus;
  const double reading = seconds_of(read + problem.swapped_to_drives, problem.read_rate);
  const double writing = seconds_of(written + problem.swapped_to_drives, problem.write_rate);
  bound.drives = problem.duplex ? std::max(reading, writing) : reading + writing;
  const double to_and_fro = copies(problem) * on_host;
  bound.up = seconds_of(problem.uploads_per_param * to_and_fro + problem.swapped, problem.up_rate);
  bound.down =
      seconds_of(problem.downloads_per_param * to_and_fro + problem.swapped, problem.down_rate);
  if (problem.dram_rate > 0) {
    bound.dram = (problem.dram_per_param * on_host + read + written + 2 * problem.swapped) /
                 problem.dram_rate;
  }
  if (problem.adam_rate > 0) bound.cpu = on_host / problem.adam_rate;
  return bound;
}

}  // namespace ferry
