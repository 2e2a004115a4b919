// What every place holds over time in a timeline: from when until when each slot's bytes matter.
#pragma once

#include <array>
#include <vector>

#include "exec/timeline.h"
#include "plan/plan.h"
#include "plan/words.h"

namespace ferry {

/// One content of an instance's slot: from the start of the task that wrote it anew to the end of
/// the last task that read or extended it. A home is one life from first to last.
struct Life {
  InstanceId instance;
  Micros from;
  Micros to;
};

/// In order of place and `from`. A task that writes what it also reads (a gradient sum) extends the
/// life. A slot is free from the end of its last reader on, and at the latest when other bytes are
/// written over it. What only a step beyond the timeline would read is not held for it.
std::vector<Life> lives(const Plan& plan, const Timeline& timeline);

/// From `at` on, until the next.
struct Level {
  Micros at;
  Bytes bytes;
};

/// A place's bytes as staircases: every `at` larger than the one before, neighbours differ; empty
/// where nothing ever lies.
struct PlaceLevels {
  static constexpr std::size_t kKinds = kValueWords.size();

  std::array<std::vector<Level>, kKinds> at_home;  // by ValueKind: what plan/at_home.h lets rest
  std::array<std::vector<Level>, kKinds> passing;  // all else
  std::vector<Level> workspace;                    // of the tasks that run on its resources
  std::vector<Level> total;                        // of all these
};

/// One per Plan::places.
IdVector<PlaceId, PlaceLevels> bytes_over_time(const Plan& plan, const Timeline& timeline);

/// The highest level.
Bytes highest(const std::vector<Level>& levels);

}  // namespace ferry
