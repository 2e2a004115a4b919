// What the blocks of a model cost on one device, measured, estimated or written by hand. The
// planner knows nothing else of a model's arithmetic. Text form: docs/formats/profile.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "spec/machine.h"

namespace ferry {

/// The costs of all blocks with one key. Times and boundary bytes are those of one micro-batch.
struct BlockProfile {
  std::string key;  // similarity_key() of model_spec.h, or any name in a file written by hand
  Micros forward;
  Micros backward;           // recompute included
  Bytes weights;             // what the device computes with, and what an upload moves
  Bytes gradients;           // the sum that stays on the device or goes to the host
  Bytes forward_workspace;   // the peak of kernels' own memory, beside weights and boundaries
  Bytes backward_workspace;  // likewise; what recompute makes for a moment is included
  Bytes saved;            // what forward may keep so that backward need not recompute; 0: it cannot
  Micros saving_forward;  // forward that keeps it; no longer than `forward`: as long
  Micros saved_backward;  // backward of a forward that kept it
  Bytes saving_workspace;          // forward_workspace of a forward that keeps it
  Bytes saved_backward_workspace;  // backward_workspace of such a one
  Bytes activation;                // after the block
  Bytes activation_gradient;       // before the block
  std::int64_t parameters = 0;     // that the optimizer updates

  bool operator==(const BlockProfile&) const = default;
};

/// Of all tasks of a block.
inline constexpr std::array kWorkspaces = {
    &BlockProfile::forward_workspace, &BlockProfile::backward_workspace,
    &BlockProfile::saving_workspace, &BlockProfile::saved_backward_workspace};

/// Keys are unique, and every entry of `chain` indexes `blocks`.
struct Profile {
  std::string name;
  int micro_batch_size = 1;
  int sequence = 1;
  bool measured = false;  // on the machine it is for; false: estimated or written by hand
  std::vector<BlockProfile> blocks;  // one per distinct key: layer similarity
  std::vector<int> chain;            // the model's blocks in order
  double update_rate = 0;            // parameters per second of the CPU optimizer; 0: the machine's
  Rate up;                           // host to device, one device alone; 0: the machine's
  Rate down;                         // device to host
  double device_update_rate = 0;     // likewise of a device's optimizer; 0: an estimate
  double compute_cores = 0;          // host cores busy while one device computes; 0: its threads
  Micros task_overhead;              // of starting one task
  Micros copy_overhead;              // of starting one copy

  bool operator==(const Profile&) const = default;
};

/// The entry with this key, or null. Lifetime: that of `profile`, unchanged.
const BlockProfile* find_block(const Profile& profile, std::string_view key);

/// One profile for devices that differ: of every block the longer times, the larger workspaces, and
/// nothing kept where one of them can keep nothing; of every rate the lower one. Requires: both are
/// of one model and batch, with equal keys in one order.
Profile of_slowest(Profile one, const Profile& other);

/// Reads a profile file's text; `source` stands for the file in messages. Throws UserError with
/// file and line, what was expected and found.
Profile parse_profile(const std::string& text, const std::string& source);

/// parse_profile() reads it back to an equal Profile.
std::string to_yaml(const Profile& profile);

/// The tables of docs/formats/profile.md.
std::string profile_reference();

}  // namespace ferry
