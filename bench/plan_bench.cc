// How long planning takes: every strategy, and auto, for 96 layers on eight devices with four
// drives.
#include <chrono>
#include <cstdio>
#include <string>

#include "planner/costs/estimate.h"
#include "planner/planner.h"
#include "planner/strategies/strategies.h"

namespace {

using namespace ferry;

ModelSpec model_of(int layers, int hidden) {
  return parse_model_spec(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": )" +
          std::to_string(hidden) + R"(, "n_layer": )" + std::to_string(layers) +
          R"(, "n_head": 64, "n_positions": 4096, "vocab_size": 50257, "tie_word_embeddings": false})",
      "bench");
}

Machine machine_of(int devices, int drives) {
  Machine machine;
  machine.name = "bench";
  machine.host = {.cores = 32,
                  .memory = Bytes{256'000'000'000},
                  .memory_bandwidth = {150e9},
                  .update_rate = 4e9,
                  .origin = {}};
  machine.roots = {{"root0", {26e9}, {26e9}}, {"root1", {26e9}, {26e9}}};
  for (int d = 0; d < devices; ++d) {
    MachineDevice device;
    device.name = "gpu" + std::to_string(d);
    device.kind = DeviceKind::cuda;
    device.index = d;
    device.memory = 24_GiB;
    device.flops_bf16 = 160e12;
    device.memory_bandwidth = {1008e9};
    device.up = device.down = {21e9};
    device.root = d % 2;
    machine.devices.push_back(device);
  }
  for (int d = 0; d < drives; ++d) {
    machine.drives.push_back({.name = "ssd" + std::to_string(d),
                              .path = "",
                              .capacity = Bytes{4'000'000'000'000},
                              .read = {6.5e9},
                              .write = {3.4e9},
                              .duplex = false,
                              .endurance = {},
                              .root = {}});
  }
  return machine;
}

}  // namespace

// plan_bench [LAYERS HIDDEN DEVICES DRIVES MICRO_BATCHES STRATEGY]
int main(int argc, char** argv) {
  const auto number = [&](int i, int fallback) { return i < argc ? std::stoi(argv[i]) : fallback; };
  PlanQuestion question;
  question.model = model_of(number(1, 96), number(2, 8192));
  question.machine = machine_of(number(3, 8), number(4, 4));
  question.micro_batches = number(5, 8);
  question.sequence = 1024;
  question.precision = Precision::bf16;
  set_device_budgets(question, 24_GiB);
  question.host_budget = question.machine.host.memory;
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 1024});
  const std::string only = argc > 6 ? argv[6] : "";
  const auto time = [&](const std::string& strategy) {
    question.strategy = strategy;
    const auto start = std::chrono::steady_clock::now();
    const PlanAnswer answer = make_plan(question);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (const auto* planned = std::get_if<Planned>(&answer)) {
      std::printf("%-14s %7.2f s  step %8.2f s  bound %8.2f s  %zu tasks  %s\n", strategy.c_str(),
                  seconds, planned->prediction.step.seconds(), planned->lower_bound.seconds(),
                  planned->plan.tasks.size(), planned->candidates.front().remark.c_str());
    } else {
      std::printf("%-14s %7.2f s  does not fit: %s\n", strategy.c_str(), seconds,
                  std::get<DoesNotFit>(answer).place.c_str());
    }
  };
  for (const Strategy& strategy : strategies()) {
    if (only.empty() || only == strategy.name) time(strategy.name);
  }
  if (only.empty() || only == "auto") time("auto");
}
