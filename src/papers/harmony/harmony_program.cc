#include "papers/harmony/harmony_program.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/error.h"
#include "papers/harmony/harmony_events.h"
#include "plan/order.h"

namespace ferry {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kSwap = 11.5 * kGiB;
constexpr double kPeer = 8.2 * kGiB;
constexpr double kMessages = 16 * kGiB;

double known(Rate rate, double otherwise) {
  return rate.limited() ? rate.bytes_per_second : otherwise;
}

void check_batch(const HarmonyProfile& profile, HarmonyPass pass, int size, int samples) {
  costs_at(profile, pass, size);
  if (const int rest = samples % size; rest > 0) costs_at(profile, pass, rest);
}

}  // namespace

HarmonyServer harmony_server(int gpus) {
  HarmonyServer server{{}, kPeer, kMessages};
  for (int g = 0; g < gpus; ++g) {
    server.gpus.push_back({"gpu" + std::to_string(g), kSwap, kSwap});
  }
  return server;
}

HarmonyServer harmony_server(const Machine& machine) {
  HarmonyServer server;
  server.peer = std::numeric_limits<double>::infinity();
  for (const MachineDevice& device : machine.devices) {
    server.gpus.push_back({device.name, known(device.up, kSwap), known(device.down, kSwap)});
    server.peer = std::min(server.peer, known(device.p2p, kPeer));
  }
  server.messages = known(machine.host.memory_bandwidth, kMessages);
  return server;
}

void check_problem(const HarmonyProblem& problem) {
  if (problem.mode == HarmonyMode::pipeline || problem.minibatch % problem.gpus() == 0) return;
  throw JobKeyError("train.micro_batches", "harmony-dp: " + std::to_string(problem.minibatch) +
                                               " samples on " + std::to_string(problem.gpus()) +
                                               " GPUs; expected a multiple of " +
                                               std::to_string(problem.gpus()));
}

void check_tuple(const HarmonyProblem& problem, const HarmonyTuple& tuple) {
  check_problem(problem);
  check_cover(tuple.backward, static_cast<int>(problem.profile.layers.size()), "backward");
  check_cover(tuple.forward, tuple.backward.back().first, "forward");
  const int samples = problem.samples();
  for (const int batch : {tuple.forward_batch, tuple.backward_batch}) {
    if (batch >= 1 && batch <= samples) continue;
    throw UserError("harmony: micro-batches of " + std::to_string(batch) +
                    " samples; expected 1 to " + std::to_string(samples) + ", the samples of a " +
                    (problem.mode == HarmonyMode::pipeline ? "step" : "GPU"));
  }
  if (tuple.forward_batch < tuple.backward_batch) {
    throw UserError("harmony: U_f = " + std::to_string(tuple.forward_batch) + " is below U_b = " +
                    std::to_string(tuple.backward_batch) + "; expected it to be at least U_b");
  }
  check_batch(problem.profile, HarmonyPass::backward, tuple.backward_batch, samples);
  check_batch(problem.profile, HarmonyPass::forward, tuple.backward_batch, samples);
  if (!tuple.forward.empty()) {
    check_batch(problem.profile, HarmonyPass::forward, tuple.forward_batch, samples);
  }
}

HarmonyProgram write_harmony_program(const HarmonyProblem& problem, const HarmonyTuple& tuple,
                                     bool prefetch) {
  return HarmonyEvents(problem, tuple, prefetch).write();
}

bool can_run(const HarmonyProgram& program) { return order_step(program.plan).cycle.empty(); }

HarmonyEstimate estimate(const HarmonyProgram& program) {
  HarmonyEstimate result;
  result.simulation = simulate(program.plan, 1);
  result.step = result.simulation.step;
  const auto gpus = static_cast<double>(program.compute.size());
  std::vector<double> last(program.compute.size());
  for (const Span& span : result.simulation.timeline.spans) {
    const int gpu = program.gpu[span.run.task];
    if (gpu >= 0) last[gpu] = std::max(last[gpu], span.end.count);
  }
  for (std::size_t g = 0; g < last.size(); ++g) {
    result.compute_share += program.compute[g].count / result.step.count / gpus;
    result.end_idle += (result.step.count - last[g]) / result.step.count / gpus;
  }
  return result;
}

}  // namespace ferry
