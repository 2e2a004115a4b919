#include "planner/mixed/mixed_refine.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <ranges>
#include <utility>

#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

// Rounds for which the blocks of a move stay where they are.
constexpr int kTenure = 5;

// Blocks that go to a GPU; `bin` is the stage's that they join, or -1 to keep their own.
struct Shift {
  std::vector<BlockId> blocks;
  GpuId gpu;
  int bin = -1;
};

struct Move {
  Shift first;
  Shift second;  // without blocks unless two stages are exchanged
};

class Refiner {
 public:
  Refiner(CandidateMaker& maker, const Together& together, const RefineOptions& options,
          const MixedScore& score)
      : maker_(maker),
        options_(options),
        score_(score),
        random_(options.seed),
        run_of_(maker.graph().blocks.size()),
        runs_(protected_runs(maker.graph())) {
    for (const ItemId r : runs_.ids()) {
      for (const BlockId block : runs_[r]) run_of_[block] = r;
      unit_of_run_.push_back(r);
    }
    for (const std::vector<BlockId>& blocks : together) {
      for (const BlockId block : blocks) join(blocks.front(), block);
    }
    blocks_of_unit_.resize(runs_.size());
    for (const BlockId block : maker.graph().blocks.ids()) {
      blocks_of_unit_[unit_of(block)].push_back(block);
    }
  }

  RatedCandidate run(const RatedCandidate& start) {
    RatedCandidate best = start;
    RatedCandidate here = start;
    IdVector<ItemId, int> settled_until(runs_.size(), 0);
    int idle = 0;
    for (int round = 1; round <= options_.rounds && idle < options_.patience; ++round) {
      const std::vector<Option> options = fitting_moves(here.candidate);
      const Option* chosen = nullptr;
      RatedCandidate next;
      int scored = 0;
      for (const Option& option : options) {
        if (scored == options_.scored_per_round) break;
        const bool settled = settled_until[option.unit] >= round;
        if (settled && !option.key.beats(best.key)) continue;
        const double seconds = score_ ? score_(option.candidate) : option.candidate.period;
        const MixedKey key = maker_.key(option.candidate, seconds);
        ++scored;
        if (chosen == nullptr || key.beats(next.key)) {
          chosen = &option;
          next = {option.candidate, key};
        }
      }
      if (chosen == nullptr) break;
      settled_until[chosen->unit] = round + kTenure;
      here = std::move(next);
      ++idle;
      if (here.key.beats(best.key)) {
        best = here;
        idle = 0;
      }
    }
    return best;
  }

 private:
  struct Option {
    MixedCandidate candidate;
    MixedKey key;  // with the period in place of the score
    ItemId unit;   // what moved
  };

  ItemId unit_of(BlockId block) const { return unit_of_run_[run_of_[block]]; }

  void join(BlockId a, BlockId b) { std::ranges::replace(unit_of_run_, unit_of(b), unit_of(a)); }

  // By increasing key, ties in the order of the moves.
  std::vector<Option> fitting_moves(const MixedCandidate& here) {
    std::vector<Option> options;
    for (const Move& move : sampled(all_moves(here))) {
      Placement placement = here.placement;
      apply(move.first, placement);
      apply(move.second, placement);
      if (placement.gpu_of == here.placement.gpu_of && placement.bin_of == here.placement.bin_of) {
        continue;
      }
      MixedCandidate candidate = maker_.make(std::move(placement));
      if (!maker_.fits(candidate)) continue;
      const MixedKey key = maker_.key(candidate, candidate.period);
      options.push_back({std::move(candidate), key, unit_of(move.first.blocks.front())});
    }
    std::ranges::stable_sort(options,
                             [](const Option& a, const Option& b) { return a.key.beats(b.key); });
    return options;
  }

  std::vector<Move> all_moves(const MixedCandidate& here) const {
    std::vector<Move> moves;
    add_shifts(here, moves);
    for (auto stage_at = here.stages.begin(); stage_at != here.stages.end(); ++stage_at) {
      const MixedStage& stage = *stage_at;
      const std::vector<BlockId> rear(
          stage.blocks.begin() + static_cast<std::ptrdiff_t>(stage.blocks.size() / 2),
          stage.blocks.end());
      for (const GpuId g : maker_.block_model().gpu_ids()) {
        if (g == stage.gpu) continue;
        moves.push_back({{stage.blocks, g, -1}, {}});
        if (rear.size() < stage.blocks.size()) moves.push_back({{rear, g, -1}, {}});
      }
      for (const MixedStage& partner : std::ranges::subrange(stage_at + 1, here.stages.end())) {
        if (partner.gpu == stage.gpu) continue;
        moves.push_back({{stage.blocks, partner.gpu, -1}, {partner.blocks, stage.gpu, -1}});
      }
    }
    return moves;
  }

  // Of every pair of stages with an edge between them: the last block before the border to the
  // later stage, and the first behind it to the earlier one.
  void add_shifts(const MixedCandidate& here, std::vector<Move>& moves) const {
    const auto stage_of = stage_of_block(here.stages, maker_.graph().blocks.size());
    const auto sources = maker_.builder().sources(here.stages);
    for (const MixedStageId s : here.stages.ids()) {
      for (const MixedStageId source : sources[s]) {
        const auto [before, behind] = border(stage_of, source, s);
        const MixedStage& earlier = here.stages[source];
        const MixedStage& later = here.stages[s];
        moves.push_back({{{before}, later.gpu, here.placement.bin_of[behind]}, {}});
        moves.push_back({{{behind}, earlier.gpu, here.placement.bin_of[before]}, {}});
      }
    }
  }

  std::pair<BlockId, BlockId> border(const IdVector<BlockId, MixedStageId>& stage_of,
                                     MixedStageId earlier, MixedStageId later) const {
    BlockId before;
    BlockId behind = maker_.graph().blocks.end_id();
    for (const GraphTensor& tensor : maker_.graph().tensors) {
      if (stage_of[tensor.producer] != earlier) continue;
      for (const BlockId consumer : tensor.consumers) {
        if (stage_of[consumer] != later) continue;
        before = std::max(before, tensor.producer);
        behind = std::min(behind, consumer);
      }
    }
    return {before, behind};
  }

  // All moves, or as many of them as a round looks at, in their order.
  std::vector<Move> sampled(std::vector<Move> moves) {
    const std::size_t most = options_.moves_per_round;
    if (moves.size() <= most) return moves;
    std::vector<std::size_t> picks(moves.size());
    std::iota(picks.begin(), picks.end(), 0U);
    for (std::size_t i = 0; i < most; ++i) {
      const int rest = static_cast<int>(picks.size() - i);
      std::swap(picks[i], picks[i + random_.below(rest)]);
    }
    picks.resize(most);
    std::ranges::sort(picks);
    std::vector<Move> sample;
    for (const std::size_t pick : picks) sample.push_back(std::move(moves[pick]));
    return sample;
  }

  // Takes protected runs along whole, and what shares a weight to the same GPU.
  void apply(const Shift& shift, Placement& placement) const {
    for (const BlockId block : shift.blocks) {
      for (const BlockId member : blocks_of_unit_[unit_of(block)]) {
        placement.gpu_of[member] = shift.gpu;
        if (!maker_.keeps_groups()) placement.bin_of[member] = shift.gpu.number();
      }
      if (!maker_.keeps_groups() || shift.bin < 0) continue;
      for (const BlockId member : runs_[run_of_[block]]) {
        placement.bin_of[member] = shift.bin;
      }
    }
  }

  CandidateMaker& maker_;
  const RefineOptions& options_;
  const MixedScore& score_;
  SplitMix random_;
  IdVector<BlockId, ItemId> run_of_;
  Items runs_;
  IdVector<ItemId, ItemId> unit_of_run_;  // runs that share a GPU have one unit, the first one's id
  Items blocks_of_unit_;
};

}  // namespace

RatedCandidate refine(CandidateMaker& maker, const RatedCandidate& start, const Together& together,
                      const RefineOptions& options, const MixedScore& score) {
  return Refiner(maker, together, options, score).run(start);
}

}  // namespace ferry
