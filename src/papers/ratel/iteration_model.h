// How long a step takes as a function of the activation bytes that leave the GPU: Ratel (ICDE
// 2025), Eq. 1-5. Units: bytes, seconds.
#pragma once

namespace ferry {

/// Bytes per second. The drives of an array are simplex: times of reads and writes add.
struct StreamRates {
  double link = 0;   // BW_G, GPU <-> host, per direction
  double read = 0;   // BW_S2M, all drives together
  double write = 0;  // BW_M2S
};

/// A step without its activations.
struct StepCosts {
  double forward_compute = 0;    // seconds
  double backward_compute = 0;   // seconds, with nothing recomputed
  double forward_upload = 0;     // bytes of weights
  double backward_upload = 0;    // bytes of weights
  double backward_download = 0;  // bytes of gradients
  double forward_read = 0;       // bytes from the drives
  double backward_read = 0;
  double backward_written = 0;
  double drive_wait =
      0;  // seconds of backward in which the drives wait for the host; as printed, 0
};

/// Ratel's own: P16 read for each pass, P32, m, v read and all of them written in backward; forward
/// is 2 P FLOPs per token. Of P parameters, tokens per step, FLOP/s.
StepCosts ratel_costs(double parameters, double tokens, double flops_per_second);

struct SwapProblem {
  StepCosts costs;
  StreamRates rates;
  double host_available = 0;  // MEM_avail: swapped bytes beyond it go on to the drives
};

struct IterationTime {
  double forward = 0;
  double backward = 0;

  double total() const { return forward + backward; }
};

/// Eq. 1-5, with max(0, A - MEM_avail) in (3): `swapped` is A, `recompute` the seconds of FLOP_r.
IterationTime iteration_time(const SwapProblem& problem, double swapped, double recompute);

}  // namespace ferry
