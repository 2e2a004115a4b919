// How fast an exact synchronous Adam step can be when states live in GPU memory, DRAM and on
// drives, whatever the schedule: each resource must move or compute what it must.
//
// States are hi16, lo16, m and v: 12 bytes per parameter. Units: bytes, seconds, FLOP/s, bytes/s.
// Derivation: docs/planner.md.
#pragma once

#include <string>

namespace ferry {

/// Drive bytes per parameter and step, B_R and B_W.
struct StateTraffic {
  double read = 0;
  double written = 0;
};

/// Ratel's format, P16 beside P32, m and v, nothing cached.
inline constexpr StateTraffic kRatelTraffic = {16, 14};

/// hi16 is read for forward and for backward and written once, lo16, m and v are read and written
/// once; the shares held above the drives do not move. Requires: shares in [0, 1].
StateTraffic state_traffic(double hi_cached, double states_cached);

/// Shares of hi16 and of (lo16, m, v) that `bytes` of memory hold, hi16 first.
struct CacheShares {
  double hi = 0;      // c_hi
  double states = 0;  // c_st
};
CacheShares cache_shares(double parameters, double bytes);

struct TieredProblem {
  double parameters = 0;            // P
  double tokens = 0;                // N, per step: all micro-batches, all GPUs
  double recomputed = 1;            // rho: share of the forward that is computed again
  double attention_flops = 0;       // per token, forward and backward, not in 6 P
  double elementwise_seconds = 0;   // of the step, on one GPU
  int gpus = 1;                     // G
  double flops = 0;                 // THP, of one GPU
  bool data_parallel = false;       // q = G: every GPU pulls all weights; else stages: q = 1
  double updated_on_gpu = 0;        // x_g: share of P whose hi, lo, m, v stay in GPU memory
  double uploads_per_param = 4;     // bytes: weights for both passes; 2 when hi16 stays on the GPU
  double downloads_per_param = 2;   // bytes: gradients
  double dram_per_param = 34;       // bytes beside drive traffic: Adam 28, gradients 2, weights 4
  StateTraffic traffic = {14, 12};  // B_R, B_W
  double swapped = 0;               // A, activation bytes to the host and back
  double swapped_to_drives = 0;     // of A
  double read_rate = 0;             // of the array; 0 where there is none and nothing moves
  double write_rate = 0;
  bool duplex = false;   // reads and writes do not share the drives' time
  double up_rate = 0;    // host to GPUs, all root complexes together
  double down_rate = 0;  // GPUs to host
  double dram_rate = 0;  // all traffic; 0: not counted
  double adam_rate = 0;  // kappa_adam, parameters per second; 0: not counted
};

/// What each resource needs for a step.
struct TieredBound {
  double compute = 0;
  double drives = 0;
  double up = 0;
  double down = 0;
  double dram = 0;
  double cpu = 0;

  /// No step is shorter: T*.
  double seconds() const;
  /// "compute", "drives", "up", "down", "dram" or "cpu"; the first of several.
  std::string binding() const;
};

/// Requires: a positive rate wherever something moves.
TieredBound tiered_lower_bound(const TieredProblem& problem);

}  // namespace ferry
