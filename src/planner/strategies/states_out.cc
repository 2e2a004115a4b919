// Weights and sums at home, and states as far as there is room: what is between streaming and a
// pipeline, or `resident`, whose stages stay on their devices.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

/// By device, the blocks that run there, in order.
std::vector<std::vector<int>> blocks_by_device(const Chain& chain, const StreamSchedule& schedule) {
  std::vector<std::vector<int>> blocks(static_cast<std::size_t>(schedule.devices));
  for (int d = 0; d < schedule.devices; ++d) {
    const std::vector<bool> runs = blocks_on(chain, schedule, d);
    for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
      if (runs[b]) blocks[d].push_back(b);
    }
  }
  return blocks;
}

/// The pipeline with everything at home but the states of each device's last `out` blocks, whose
/// sums go to the host when the others are down and whose new weights come up once.
StreamSchedule without_states(const Chain& chain, StreamSchedule pipeline,
                              const std::vector<std::vector<int>>& blocks,
                              const std::vector<std::ptrdiff_t>& out) {
  constexpr BlockHome kStatesOut{.weight_stays = true, .sum_waits = true, .input_stays = true};
  std::vector<bool> leaves(chain.size(), false);
  for (std::size_t d = 0; d < blocks.size(); ++d) {
    for (const int b : blocks[d] | std::views::reverse | std::views::take(out[d])) leaves[b] = true;
  }
  const DeviceHomes devices(chain, pipeline);
  std::vector<BlockHome> homes = pipeline.homes;
  for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
    const bool is_tied_head = chain.blocks[b].reads_weight >= 0;
    if (leaves[b] || is_tied_head) devices.set(homes, b, leaves[b] ? kStatesOut : homes[b]);
  }
  pipeline.chosen_homes = std::move(homes);
  return pipeline;
}

}  // namespace

/// The pipeline's fastest draft that is faster than the given one: with all, some or nothing kept
/// for backward, and beside that as many states at home as fit. It may be the answer (best_).
std::optional<StreamDraft> StreamSearch::with_states_out(const StreamDraft& draft) {
  constexpr std::array kKept = {0.0, 0.25, 0.5, 0.75, 1.0};  // of the blocks
  if (!pipeline_ || !homes_ || question_.norm_first || !has_short_plans()) return {};
  StreamSchedule pipeline = staged(*pipeline_);
  pipeline.policies = asked_policies(pipeline);
  const KeptSlots slots = kept_slots(chain_, pipeline);
  std::optional<StreamDraft> fastest;
  beside_climb([&] {
    for (const double share : kKept) {
      if (share > 0 && !may_keep()) break;
      if (share > 0) {
        const auto kept = static_cast<std::size_t>(share * static_cast<double>(chain_.size()));
        pipeline.policies = stay_and_leave(chain_, slots, question_.micro_batches, kept, 0);
      }
      const Micros limit = fastest ? fastest->step() : draft.step();
      Attempt attempt = try_fewest_out(pipeline, limit);
      if (attempt.draft) fastest = std::move(attempt.draft);
      if (attempt.lacking) break;  // keeping more takes more
    }
  });
  return fastest;
}

/// The pipeline with as few states out as its devices have no room for, or what is lacking with all
/// of them out.
StreamSearch::Attempt StreamSearch::try_fewest_out(const StreamSchedule& pipeline,
                                                   Micros faster_than) {
  const auto blocks = blocks_by_device(chain_, pipeline);
  std::vector<std::ptrdiff_t> out(blocks.size(), 0);
  const auto lacks = [&](std::size_t d) {
    const StreamSchedule tried = without_states(chain_, pipeline, blocks, out);
    const std::vector<DeviceNeed> needs =
        device_needs(question_, chain_, at_rest(tried, /*swaps_to_drive=*/false));
    return needs[d].least > device_limit(question_, static_cast<int>(d));
  };
  for (std::size_t d = 0; d < blocks.size(); ++d) {
    const auto counts = std::views::iota(0, std::ssize(blocks[d]));
    const auto fewest = std::ranges::partition_point(counts, [&](std::ptrdiff_t count) {
      out[d] = count;
      return lacks(d);
    });
    out[d] = fewest - counts.begin();
  }
  // Inputs that stay are seen only once a plan is written.
  while (true) {
    Attempt attempt = try_schedule(without_states(chain_, pipeline, blocks, out), faster_than);
    const bool some_out = std::ranges::any_of(out, [](auto count) { return count > 0; });
    wants_memory_ = wants_memory_ || attempt.lacking || some_out;
    if (!attempt.lacking || attempt.lacking->kind != PlaceKind::device) return attempt;
    bool gives_way = false;
    for (std::size_t d = 0; d < blocks.size(); ++d) {
      if (question_.machine.devices[d].name != attempt.lacking->place) continue;
      if (out[d] == std::ssize(blocks[d])) continue;
      ++out[d];
      gives_way = true;
    }
    if (!gives_way) return attempt;
  }
}

}  // namespace ferry
