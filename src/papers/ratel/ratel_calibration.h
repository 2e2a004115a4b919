// Ratel as measured, in closed form: its iteration model with elementwise work and with host work
// that adds to the drives' time. The constants are the caller's: one joint fit per server, not
// physical rates, so no single value can be moved to another machine.
//
// Units: seconds, bytes, FLOP/s.
#pragma once

#include <limits>

#include "papers/ratel/iteration_model.h"

namespace ferry {

/// What describes a server and the artifact's software on it.
struct RatelConstants {
  double flops = 0;        // THP, per second
  double elementwise = 0;  // e: picoseconds per token, unit of width and layer, one forward
  StreamRates rates;       // BG, R, W; R and W of the whole array
  double host_work = 0;    // kappa: seconds per parameter, while backward runs

  double stage_host_work = 0;  // the same when the optimizer is a stage of its own
  double launch_stall = 0;     // naive: of a handler's time, how much the GPU stands still
  double overlap_stretch = 1;  // naive: a handler's time beside backward over its time alone
};

struct RatelCase {
  double parameters = 0;  // P, by the model's name
  int layers = 0;
  double hidden = 0;
  double tokens = 0;                                                // of one GPU
  double host_available = std::numeric_limits<double>::infinity();  // MEM_avail
  double parallel_wait = 0;  // c: seconds per step that several GPUs of one host add; one GPU: 0
};

struct CalibratedStep {
  double units = 0;    // x: swapped bytes in units of block inputs, 1 to 17
  double swapped = 0;  // A
  double gpu_forward = 0;
  double gpu_backward = 0;  // recomputation included
  double forward = 0;       // T_f
  double backward = 0;      // T_b
  double step = 0;          // T_f + T_b + c
};

/// 2 tokens hidden layers: the inputs of all blocks.
double interblock_bytes(const RatelCase& c);

/// Elementwise work of one forward pass, E.
double elementwise_seconds(const RatelConstants& constants, const RatelCase& c);

/// Seconds of recomputation when x units are swapped: fc2 first, then projection, qkv and fc1, then
/// what elementwise operators produce.
double calibrated_recompute(const RatelConstants& constants, const RatelCase& c, double units);

/// A step with x units swapped. Requires: 1 <= units <= 17.
CalibratedStep calibrated_at(const RatelConstants& constants, const RatelCase& c, double units);

/// The fastest of x = 1, 1.5, ... 17; the least x of several.
CalibratedStep calibrated_step(const RatelConstants& constants, const RatelCase& c);

/// The optimizer as a stage of its own: its reads, writes and host work one after the other.
double optimizer_stage(const RatelConstants& constants, double parameters);

}  // namespace ferry
