#include "planner/write/evaluation_schedule.h"

#include <algorithm>
#include <set>
#include <vector>

namespace ferry {
namespace {

struct ForwardRun {
  int device;
  int block;
  int micro_batch;
};

// In the plan's order. A fused head runs forward in its backward, the first of two where the norm
// comes first.
std::vector<ForwardRun> forward_runs(const Plan& training) {
  std::vector<int> device_of(training.places.size(), -1);
  int devices = 0;
  for (const PlaceId id : training.places.ids()) {
    if (training.places[id].kind == PlaceKind::device) device_of[id.index()] = devices++;
  }
  std::vector<ForwardRun> runs;
  std::set<int> in_backward;  // micro-batches
  for (const Task& task : training.tasks) {
    const bool fused = task.kind == TaskKind::backward && training.blocks[task.block].fused;
    if (task.kind != TaskKind::forward && !fused) continue;
    if (fused && !in_backward.insert(task.micro_batch).second) continue;
    const PlaceId place = training.resources[task.resource].place;
    runs.push_back(
        {device_of[place.index()], static_cast<int>(task.block.index()), task.micro_batch});
  }
  return runs;
}

// A micro-batch's neighbouring blocks in one go.
std::vector<StageVisit> visits_of(const std::vector<ForwardRun>& runs) {
  std::vector<StageVisit> visits;
  for (const ForwardRun& run : runs) {
    const bool goes_on = !visits.empty() && visits.back().device == run.device &&
                         visits.back().first_batch == run.micro_batch &&
                         visits.back().end == run.block;
    if (!goes_on) {
      visits.push_back({Direction::forward, run.device, run.block, run.block, run.micro_batch,
                        run.micro_batch + 1});
    }
    visits.back().end = run.block + 1;
  }
  return visits;
}

// Those that follow each other with the same blocks and the next micro-batch, as one.
std::vector<StageVisit> joined(const std::vector<StageVisit>& single) {
  std::vector<StageVisit> visits;
  for (const StageVisit& visit : single) {
    const bool goes_on = !visits.empty() && visits.back().device == visit.device &&
                         visits.back().first == visit.first && visits.back().end == visit.end &&
                         visits.back().end_batch == visit.first_batch;
    if (goes_on) {
      visits.back().end_batch = visit.end_batch;
    } else {
      visits.push_back(visit);
    }
  }
  return visits;
}

// One micro-batch goes through stage after stage without a seam. Its visits end with the stages, so
// that no more weights have to be there at once than training has.
std::vector<StageVisit> split_at_stages(const std::vector<StageVisit>& visits,
                                        const Plan& training) {
  const auto stage = [&](int b) { return training.blocks[BlockId(b)].stage; };
  std::vector<StageVisit> split;
  for (StageVisit visit : visits) {
    const bool is_single = visit.end_batch == visit.first_batch + 1;
    for (int b = visit.first + 1; b < visit.end && is_single; ++b) {
      if (stage(b) == stage(b - 1)) continue;
      split.push_back(visit);
      split.back().end = visit.first = b;
    }
    split.push_back(visit);
  }
  return split;
}

}  // namespace

StreamSchedule evaluation_schedule(const Plan& training) {
  StreamSchedule schedule;
  schedule.strategy = training.strategy;
  schedule.devices =
      static_cast<int>(std::ranges::count(training.places, PlaceKind::device, &Place::kind));
  schedule.names_drives = std::ranges::count(training.places, PlaceKind::drive, &Place::kind) > 0;
  schedule.visits = split_at_stages(joined(visits_of(forward_runs(training))), training);
  schedule.homes.resize(training.blocks.size());
  for (const Instance& instance : training.instances) {
    if (!instance.home) continue;
    const Value& value = training.values[instance.value];
    BlockHome& home = schedule.homes[value.block.index()];
    const PlaceKind place = training.places[instance.place].kind;
    home.on_device = home.on_device || place == PlaceKind::device;
    if (value.kind == ValueKind::weight) {
      home.weight_on_drive = place == PlaceKind::drive;
    } else if (place == PlaceKind::drive) {
      home.state_on_drive = true;
    } else if (value.piece >= 0) {
      ++home.pieces_in_dram;
    }
  }
  schedule.staging.states = 0;  // they stay where they are
  // Read on another device too: there it stays, rather than come up for every visit.
  const BlockId tied = training.blocks.back().reads_weight;
  if (tied.valid()) schedule.homes[tied.index()].weight_stays = true;
  return schedule;
}

}  // namespace ferry
