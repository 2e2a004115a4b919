// Neighbours of a schedule, for a search that turns single blocks: at random, by a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/mixed/splitmix.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class BlockMoves {
 public:
  /// What may change beside homes on devices and lengths of rings.
  struct May {
    bool policies = false;
    bool borders = false;   // of stages
    bool ahead = false;     // how many blocks are updated ahead of the norm
    bool again = false;     // from which block on backwards run again
    bool renewals = false;  // weights that come up as soon as they are updated
    bool drives = false;    // what rests there and passes through how many slots
    bool sums = false;      // where drives may: of how many blocks sums leave before states
  };

  /// `chain` must outlive it.
  BlockMoves(const Chain& chain, May may, std::uint64_t seed);

  /// The schedule with one change, or two or three. Requires: it has chosen_homes.
  StreamSchedule neighbour(StreamSchedule here);

  /// Something less that a block of the device has there, or a shorter ring; at times nothing.
  void give_way(StreamSchedule& schedule, int device);

 private:
  void change(StreamSchedule& schedule);
  void change_homes(StreamSchedule& schedule);
  void make_whole_or_not(StreamSchedule& schedule);
  void exchange_homes(StreamSchedule& schedule);
  void change_inputs(StreamSchedule& schedule);
  void change_policies(StreamSchedule& schedule);
  void exchange_policies(StreamSchedule& schedule);
  void resize_ring(StreamSchedule& schedule);
  void change_ahead(StreamSchedule& schedule);
  void move_border(StreamSchedule& schedule);
  void exchange_leaving(StreamSchedule& schedule);
  void wait_in_place_of_home(StreamSchedule& schedule);
  void resize_staging(StreamSchedule& schedule);
  void change_waiting(StreamSchedule& schedule);
  void resize_sums_leaving(StreamSchedule& schedule);
  void wait_elsewhere(StreamSchedule& schedule);

  bool one_in(int count) { return random_.below(count) == 0; }
  int any_block() { return random_.below(static_cast<int>(chain_.size())); }
  std::vector<int> some_blocks(const StreamSchedule& schedule);
  int resized(int count, int least);
  void set_home(StreamSchedule& schedule, int block, BlockHome home) const;

  const Chain& chain_;
  const May may_;
  SplitMix random_;
};

}  // namespace ferry
