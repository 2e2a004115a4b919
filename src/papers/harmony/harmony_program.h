// Harmony's estimator as a plan that only tells time: the events of one training step of a
// four-tuple (U_f, P_f, U_b, P_b), on six in-order queues per GPU. Harmony, simulator.py;
// the rules stand in docs/planner.md's reading of it. GPUs share one link evenly, whatever is
// idle; activations are double-buffered, weights are not.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/simulator.h"
#include "papers/harmony/harmony_packing.h"
#include "plan/plan.h"
#include "spec/harmony_profile.h"
#include "spec/machine.h"

namespace ferry {

enum class HarmonyMode {
  data_parallel,  // vDP: every GPU runs all packs on its part of the samples
  pipeline,       // vPP: pack k runs on GPU k mod N, backward counts on where forward stops
};

struct HarmonyGpu {
  std::string name;
  double swap_in = 0;   // host to GPU, bytes per second while it is alone
  double swap_out = 0;  // GPU to host
};

struct HarmonyServer {
  std::vector<HarmonyGpu> gpus;  // at least one
  double peer = 0;               // GPU to GPU, bytes per second per direction
  double messages = 0;           // host memory, bytes per second: read and written, half duplex
};

/// The constants of Harmony's estimator: swaps at 11.5 GiB/s, peers at 8.2, messages at 16.
HarmonyServer harmony_server(int gpus);

/// A machine's rates: `up`, `down` and the least `p2p` of its devices, the host's memory bandwidth.
/// A rate that it does not give is Harmony's constant.
HarmonyServer harmony_server(const Machine& machine);

struct HarmonyProblem {
  HarmonyProfile profile;
  HarmonyMode mode = HarmonyMode::pipeline;
  HarmonyServer server;
  int minibatch = 1;  // D, samples of a step

  int gpus() const { return static_cast<int>(server.gpus.size()); }
  /// Without another GPU nothing is passed on: such a pipeline is data parallel without a partner.
  bool peers() const { return mode == HarmonyMode::pipeline && gpus() > 1; }
  /// What one run through all packs takes: D, or D / N.
  int samples() const { return mode == HarmonyMode::pipeline ? minibatch : minibatch / gpus(); }
};

/// The four-tuple. The last backward pack ends with the loss and is its own forward, so that the
/// forward packs cover the layers before it.
struct HarmonyTuple {
  int forward_batch = 1;   // U_f
  HarmonyPacks forward;    // P_f
  int backward_batch = 1;  // U_b
  HarmonyPacks backward;   // P_b

  bool operator==(const HarmonyTuple&) const = default;
};

/// A step's plan and sums. `volumes`, in bytes over all GPUs: weights_in, gradients_out,
/// activation_in, activation_out, p2p, host_message (between different GPUs), allreduce_payload.
struct HarmonyProgram {
  Plan plan;
  std::vector<int> gpu;         // of each task of the plan; -1: of none
  std::vector<Micros> compute;  // forward, recompute and backward, of each GPU
  Bytes peak;                   // of the task that needs most memory
  std::map<std::string, double> volumes;
};

/// Throws UserError when the GPUs cannot share the samples evenly.
void check_problem(const HarmonyProblem& problem);

/// Throws UserError when the tuple does not belong to the problem: packs that do not cover the
/// layers, a micro-batch that was not measured, U_f < U_b; and as check_problem().
void check_tuple(const HarmonyProblem& problem, const HarmonyTuple& tuple);

/// With `prefetch`, or without. Requires: check_tuple() passed.
HarmonyProgram write_harmony_program(const HarmonyProblem& problem, const HarmonyTuple& tuple,
                                     bool prefetch);

/// False: its tasks wait for each other, Harmony's deadlock.
bool can_run(const HarmonyProgram& program);

/// What the simulator says of a program's one step.
struct HarmonyEstimate {
  Simulation simulation;
  Micros step;
  double compute_share = 0;  // mean over GPUs; of the step, an idle GPU has 0
  double end_idle = 0;       // mean over GPUs, from a GPU's last event to the end of the step
};

/// Requires: can_run(program).
HarmonyEstimate estimate(const HarmonyProgram& program);

}  // namespace ferry
