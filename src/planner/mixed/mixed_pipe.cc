#include "planner/mixed/mixed_pipe.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <ranges>
#include <set>
#include <utility>

#include "base/check.h"
#include "planner/mixed/assign_bounds.h"
#include "planner/mixed/coarsen.h"
#include "planner/mixed/exact_assign.h"
#include "planner/mixed/mixed_seeds.h"
#include "planner/mixed/skip_tensors.h"

namespace ferry {
namespace {

// More tied weights than this are all co-located or all replicated, not tried in every combination.
constexpr std::size_t kFreeTies = 3;

// Bit sets of co-located tied weights. On one GPU nothing else is possible.
std::vector<std::uint32_t> tied_choices(const BlockGraph& graph, int gpus) {
  FERRY_CHECK(graph.tied.size() < 32, "a model has few tied weights");
  const std::uint32_t all = (1U << graph.tied.size()) - 1U;
  if (gpus == 1 || all == 0) return {all};
  if (graph.tied.size() > kFreeTies) return {all, 0};
  std::vector<std::uint32_t> choices(all + 1U);
  std::iota(choices.rbegin(), choices.rend(), 0U);
  return choices;
}

double mean_over_max(const std::vector<double>& loads) {
  const double most = std::ranges::max(loads);
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  return most > 0 ? total / static_cast<double>(loads.size()) / most : 1;
}

struct RatedSeed {
  RatedCandidate rated;
  std::uint32_t colocated = 0;
};

class MixedSearch {
 public:
  MixedSearch(const BlockGraph& graph, const MixedPipeOptions& options, const MixedScore& score)
      : graph_(graph),
        options_(options),
        score_(score),
        question_{graph, options.machine, options.rules, options.exact_nodes},
        maker_(graph, options.machine, options.rules,
               options.holds ? options.holds : holds_1f1b(options.rules.micro_batches),
               options.rematerialise ? rematerialised_tensors(graph, options.machine)
                                     : std::vector<char>(graph.tensors.size(), 0)) {}

  MixedPipeResult run() {
    result_.rematerialised = maker_.rematerialised();
    bound();
    sweep();
    if (seeds_.empty()) {
      explain_shortage();
      return std::move(result_);
    }
    std::ranges::stable_sort(seeds_, [](const RatedSeed& a, const RatedSeed& b) {
      return a.rated.key.beats(b.rated.key);
    });
    RatedCandidate best = seeds_.front().rated;
    for (const RatedSeed& seed : seeds_ | std::views::take(options_.refined)) {
      RatedCandidate better =
          refine(maker_, seed.rated, together_of(graph_, seed.colocated), options_.refine, score_);
      if (better.key.beats(best.key)) best = std::move(better);
    }
    finish(std::move(best));
    return std::move(result_);
  }

 private:
  // Blocks one by one, free of groups, runs and ties, are no worse off than in any candidate: what
  // is proven about them bounds the candidates.
  void bound() {
    blocks_ = assign(maker_.block_model(), budgets_of(options_.machine), options_.exact_nodes);
    result_.lower_bound = blocks_.lower_bound;
    if (blocks_.period_exact) {
      result_.lower_bound = std::max(result_.lower_bound, blocks_.period);
    }
  }

  void sweep() {
    const std::vector<int> counts = options_.group_counts.empty()
                                        ? swept_group_counts(maker_.gpus(), graph_.size())
                                        : options_.group_counts;
    for (const std::uint32_t colocated : tied_choices(graph_, maker_.gpus())) {
      const Together together = together_of(graph_, colocated);
      std::set<Items> done;
      for (const int count : counts) {
        Items groups = coarsen(graph_, count);
        if (!done.insert(groups).second) continue;
        take(group_seeds(question_, maker_, groups, together), static_cast<int>(groups.size()),
             colocated);
      }
      if (together.empty()) take(contiguous_seeds(question_, maker_), 0, colocated);
    }
  }

  void take(Seeds seeds, int groups, std::uint32_t colocated) {
    for (MixedCandidate& candidate : seeds.fitting) {
      const Placement& placement = candidate.placement;
      if (!seen_.emplace(placement.gpu_of, placement.bin_of).second) continue;
      const double seconds = score_ ? score_(candidate) : candidate.period;
      result_.sweep.push_back({groups, colocated, static_cast<int>(candidate.stages.size()),
                               candidate.period, seconds});
      const MixedKey key = maker_.key(candidate, seconds);
      seeds_.push_back({{std::move(candidate), key}, colocated});
    }
    const MixedShortage& miss = seeds.shortage;
    const bool nearer =
        miss.gpu.valid() && (!nearest_.gpu.valid() || miss.missing() < nearest_.missing());
    if (seeds.fitting.empty() && nearer) nearest_ = miss;
  }

  // Proven when not even single blocks fit, whatever the groups were.
  void explain_shortage() {
    result_.shortage = nearest_;
    result_.shortage.proven = false;
    if (blocks_.gpu_of_item.empty()) result_.shortage = blocks_.shortage;
  }

  void finish(RatedCandidate best) {
    result_.fits = true;
    result_.best = std::move(best.candidate);
    const MixedCandidate& candidate = result_.best;
    result_.seconds = best.key.seconds;
    result_.objective = candidate.period;
    result_.gap = gap_of(result_.objective, result_.lower_bound);
    result_.compute_balance = mean_over_max(candidate.compute);
    std::vector<double> memory;
    for (const Bytes bytes : candidate.memory) memory.push_back(static_cast<double>(bytes.count));
    result_.memory_balance = mean_over_max(memory);
    const IdVector<BlockId, GpuId>& gpu_of = candidate.placement.gpu_of;
    for (const TiedWeight& tied : graph_.tied) {
      result_.tied_on_one_gpu.push_back(std::ranges::all_of(
          tied.readers, [&](BlockId reader) { return gpu_of[reader] == gpu_of[tied.owner]; }));
    }
    for (const GpuId g : options_.machine.gpus.ids()) {
      if (std::ranges::find(gpu_of, g) == gpu_of.end()) result_.empty_gpus.push_back(g);
    }
  }

  const BlockGraph& graph_;
  const MixedPipeOptions& options_;
  const MixedScore& score_;
  SeedProblem question_;
  CandidateMaker maker_;
  std::vector<RatedSeed> seeds_;
  std::set<std::pair<IdVector<BlockId, GpuId>, IdVector<BlockId, int>>> seen_;
  AssignResult blocks_;  // every block an item of its own
  MixedShortage nearest_;
  MixedPipeResult result_;
};

}  // namespace

std::vector<int> swept_group_counts(int gpus, int blocks) {
  std::vector<int> counts;
  for (int times = 1; times <= 8 && times * gpus <= blocks; ++times) {
    counts.push_back(times * gpus);
  }
  const bool blocks_too = std::cmp_less_equal(blocks, kExactItems) || counts.empty();
  if (blocks_too && (counts.empty() || counts.back() != blocks)) counts.push_back(blocks);
  return counts;
}

MixedPipeResult mixed_pipe(const BlockGraph& graph, const MixedPipeOptions& options,
                           const MixedScore& score) {
  check_block_graph(graph, options.machine);
  FERRY_CHECK(options.rules.micro_batches >= 1, "a step has a micro-batch");
  return MixedSearch(graph, options, score).run();
}

}  // namespace ferry
