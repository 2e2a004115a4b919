// How long a step takes as a function of the activation bytes that leave the GPU, and the amount
// that makes it shortest: Ratel (ICDE 2025), Eq. 1-8 and Algorithm 1.
//
// The step time is convex in the swapped bytes once the pinned ones are out, since tensors follow
// in order of falling benefit per byte; so the first rise ends the search. Units: bytes, seconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

/// An activation that is either swapped or recomputed.
struct SwapTensor {
  std::string name;  // "fc2"
  int layer = 0;
  double bytes = 0;              // more than 0
  double recompute = 0;          // seconds of backward saved when it is swapped
  bool must_be_swapped = false;  // a block's input: from it the others are recomputed
};

struct SwapProblem {
  StepCosts costs;
  StreamRates rates;
  double host_available = 0;  // MEM_avail: swapped bytes beyond it go on to the drives
  std::vector<SwapTensor> tensors;
};

struct IterationTime {
  double forward = 0;
  double backward = 0;

  double total() const { return forward + backward; }
};

/// Eq. 1-5, with max(0, A - MEM_avail) in (3): `swapped` is A, `recompute` the seconds of FLOP_r.
IterationTime iteration_time(const SwapProblem& problem, double swapped, double recompute);

/// Indices of the tensors: those that must be swapped first, in the given order, then by falling
/// seconds per byte, Eq. (6); ties in the given order.
std::vector<std::size_t> swap_order(const std::vector<SwapTensor>& tensors);

/// Eq. (7): seconds of recomputation that are left when the first `swapped` bytes in swap_order()
/// leave the GPU, a part of a tensor counting in proportion.
double recompute_time(const std::vector<SwapTensor>& tensors, double swapped);

struct SwapChoice {
  std::vector<std::size_t> swapped;  // a prefix of swap_order()
  double bytes = 0;                  // A
  double host_bytes = 0;             // of A; the host is filled first
  double drive_bytes = 0;            // alpha A
  double recompute = 0;              // seconds
  IterationTime time;
};

/// Algorithm 1, corrected: block inputs are out before anything else is decided, a rejected tensor
/// is not in the answer, benefits are seconds (so elementwise work counts), and the costs hold
/// what the drives still move once it is settled which states rest there. No other prefix of
/// swap_order() with all block inputs is faster.
SwapChoice choose_swaps(const SwapProblem& problem);

/// The tensors of `layers` GPT blocks, in units of 2 hidden tokens bytes: the block's input (1),
/// fc2 (1), projection (1), qkv (3), fc1 (4), and what elementwise operators produce (7), which
/// takes `elementwise` seconds per layer to compute again. Together 34 hidden tokens per layer.
std::vector<SwapTensor> gpt_swap_tensors(int layers, double hidden, double tokens,
                                         double flops_per_second, double elementwise);

}  // namespace ferry
