// One step of Fuyou / Ratel (ICDE 2025) on one GPU as a plan that only tells time: everything lives
// on the drives and streams through DRAM and the GPU, and the optimizer runs beside backward.
//
// A layer is three blocks of equal size: qkv with projection, fc1, fc2. Per block, forward: read
// P16, upload, compute, activations down, what DRAM does not hold to the drives. Backward: read and
// upload again, activations up, compute, gradients down. Per group of blocks a handler: read P32,
// m, v; update on the CPU; write them and P16. Weights of the next step are read once they were
// written.
#pragma once

#include <optional>

#include "papers/ratel/ratel_calibration.h"
#include "plan/plan.h"

namespace ferry {

/// When a group's handler runs: Ratel, "active gradient offloading" and its ablations.
enum class HandlerOrder {
  serial,   // "+ZeRO": after all of backward, one step of a handler after the other
  naive,    // inside backward, but read, update and write of all groups one after the other
  delayed,  // "Optimized": a group's write follows the next group's read, beside its update
};

struct FuyouProblem {
  RatelCase model;
  RatelConstants constants;
  HandlerOrder order = HandlerOrder::delayed;
  /// The artifact's behaviour: an update keeps the drives from reading and writing. Off: the CPU is
  /// a resource of its own.
  bool artifact = true;
  // The artifact's sizes: a group is closed when it holds 7e8 parameters; a GPU FIFO of 3 blocks, 6
  // staging buffers in DRAM.
  double group_parameters = 7e8;
  int upload_ahead = 3;         // blocks on the GPU before their turn
  int read_ahead = 6;           // blocks in DRAM before their turn, at least upload_ahead
  std::optional<double> units;  // x, swapped bytes over block inputs; nothing: the model's choice
};

/// Blocks of a group, the last one perhaps excepted; all blocks: 3 per layer.
int fuyou_group_blocks(const FuyouProblem& question);
int fuyou_blocks(const FuyouProblem& question);

/// The x that the program swaps: as given, or as calibrated_step() chooses it.
double swapped_units(const FuyouProblem& question);

/// Pools: "drives", what all reads and writes (and the artifact's updates) share. Queues:
/// "gpu0.compute", "gpu0.up", "gpu0.down", "host.update", and of the drives "weights_read",
/// "states_read", "states_write", "activations_read", "activations_write". Requires: layers,
/// parameters, tokens and all rates are positive, 1 <= units <= 17.
Plan fuyou_program(const FuyouProblem& question);

/// Seconds per step in the steady state, with what several GPUs add (RatelCase::parallel_wait).
double simulated_step(const FuyouProblem& question);

}  // namespace ferry
