#include "planner/mixed/mixed_refine.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Rounds for which the blocks of a move stay where they are.
constexpr int kTenure = 5;

// Blocks that go to a GPU; `bin` is the stage's that they join, or -1 to keep their own.
struct Shift {
  std::vector<int> blocks;
  int gpu = 0;
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
        run_of_(at(maker.graph().size())),
        runs_(protected_runs(maker.graph())) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (const int block : runs_[r]) run_of_[at(block)] = static_cast<int>(r);
    }
    unit_of_run_.resize(runs_.size());
    std::iota(unit_of_run_.begin(), unit_of_run_.end(), 0);
    for (const std::vector<int>& blocks : together) {
      for (const int block : blocks) join(blocks.front(), block);
    }
    blocks_of_unit_.resize(runs_.size());
    for (int block = 0; block < maker.graph().size(); ++block) {
      blocks_of_unit_[at(unit_of(block))].push_back(block);
    }
  }

  RatedCandidate run(const RatedCandidate& start) {
    RatedCandidate best = start;
    RatedCandidate here = start;
    std::vector<int> settled_until(runs_.size(), 0);
    int idle = 0;
    for (int round = 1; round <= options_.rounds && idle < options_.patience; ++round) {
      const std::vector<Option> options = fitting_moves(here.candidate);
      const Option* chosen = nullptr;
      RatedCandidate next;
      int scored = 0;
      for (const Option& option : options) {
        if (scored == options_.scored_per_round) break;
        const bool settled = settled_until[at(option.unit)] >= round;
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
      settled_until[at(chosen->unit)] = round + kTenure;
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
    int unit = 0;  // what moved
  };

  int unit_of(int block) const { return unit_of_run_[at(run_of_[at(block)])]; }

  void join(int a, int b) { std::ranges::replace(unit_of_run_, unit_of(b), unit_of(a)); }

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
    const int stages = static_cast<int>(here.stages.size());
    for (int s = 0; s < stages; ++s) {
      const MixedStage& stage = here.stages[at(s)];
      const std::vector<int> rear(
          stage.blocks.begin() + static_cast<std::ptrdiff_t>(stage.blocks.size() / 2),
          stage.blocks.end());
      for (int g = 0; g < maker_.gpus(); ++g) {
        if (g == stage.gpu) continue;
        moves.push_back({{stage.blocks, g, -1}, {}});
        if (rear.size() < stage.blocks.size()) moves.push_back({{rear, g, -1}, {}});
      }
      for (int other = s + 1; other < stages; ++other) {
        const MixedStage& partner = here.stages[at(other)];
        if (partner.gpu == stage.gpu) continue;
        moves.push_back({{stage.blocks, partner.gpu, -1}, {partner.blocks, stage.gpu, -1}});
      }
    }
    return moves;
  }

  // Of every pair of stages with an edge between them: the last block before the border to the
  // later stage, and the first behind it to the earlier one.
  void add_shifts(const MixedCandidate& here, std::vector<Move>& moves) const {
    const std::vector<int> stage_of = stage_of_block(here.stages, maker_.graph().size());
    const std::vector<std::vector<int>> sources = maker_.builder().sources(here.stages);
    for (int s = 0; s < static_cast<int>(here.stages.size()); ++s) {
      for (const int source : sources[at(s)]) {
        const auto [before, behind] = border(stage_of, source, s);
        const MixedStage& earlier = here.stages[at(source)];
        const MixedStage& later = here.stages[at(s)];
        moves.push_back({{{before}, later.gpu, here.placement.bin_of[at(behind)]}, {}});
        moves.push_back({{{behind}, earlier.gpu, here.placement.bin_of[at(before)]}, {}});
      }
    }
  }

  std::pair<int, int> border(const std::vector<int>& stage_of, int earlier, int later) const {
    int before = -1;
    int behind = maker_.graph().size();
    for (const GraphTensor& tensor : maker_.graph().tensors) {
      if (stage_of[at(tensor.producer)] != earlier) continue;
      for (const int consumer : tensor.consumers) {
        if (stage_of[at(consumer)] != later) continue;
        before = std::max(before, tensor.producer);
        behind = std::min(behind, consumer);
      }
    }
    return {before, behind};
  }

  // All moves, or as many of them as a round looks at, in their order.
  std::vector<Move> sampled(std::vector<Move> moves) {
    const std::size_t most = at(options_.moves_per_round);
    if (moves.size() <= most) return moves;
    std::vector<int> picks(moves.size());
    std::iota(picks.begin(), picks.end(), 0);
    for (std::size_t i = 0; i < most; ++i) {
      const int rest = static_cast<int>(picks.size() - i);
      std::swap(picks[i], picks[i + at(random_.below(rest))]);
    }
    picks.resize(most);
    std::ranges::sort(picks);
    std::vector<Move> sample;
    for (const int pick : picks) sample.push_back(std::move(moves[at(pick)]));
    return sample;
  }

  // Takes protected runs along whole, and what shares a weight to the same GPU.
  void apply(const Shift& shift, Placement& placement) const {
    for (const int block : shift.blocks) {
      for (const int member : blocks_of_unit_[at(unit_of(block))]) {
        placement.gpu_of[at(member)] = shift.gpu;
        if (!maker_.keeps_groups()) placement.bin_of[at(member)] = shift.gpu;
      }
      if (!maker_.keeps_groups() || shift.bin < 0) continue;
      for (const int member : runs_[at(run_of_[at(block)])]) {
        placement.bin_of[at(member)] = shift.bin;
      }
    }
  }

  CandidateMaker& maker_;
  const RefineOptions& options_;
  const MixedScore& score_;
  SplitMix random_;
  std::vector<int> run_of_;
  std::vector<std::vector<int>> runs_;
  std::vector<int> unit_of_run_;  // runs that share a GPU have one unit, the first one's number
  std::vector<std::vector<int>> blocks_of_unit_;
};

}  // namespace

RatedCandidate refine(CandidateMaker& maker, const RatedCandidate& start, const Together& together,
                      const RefineOptions& options, const MixedScore& score) {
  return Refiner(maker, together, options, score).run(start);
}

}  // namespace ferry
