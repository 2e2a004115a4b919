#include "planner/realistic_questions.h"

#include <cstddef>
#include <initializer_list>
#include <random>
#include <string>

#include "planner/costs/estimate.h"
#include "planner/llama_shape.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  int one_of(std::initializer_list<int> options) {
    return *(options.begin() + static_cast<std::ptrdiff_t>(random_() % options.size()));
  }

 private:
  std::mt19937_64 random_;
};

constexpr LlamaShape kShapes[] = {{"7b", 3584, 28, 28, 4, 18944, 152064},
                                  {"8b", 4096, 32, 32, 4, 14336, 128256},
                                  {"13b", 5120, 40, 40, 4, 13824, 32000},
                                  {"33b", 6656, 60, 52, 4, 17920, 32000},
                                  {"70b", 8192, 80, 64, 4, 28672, 128256}};

Machine machine_of(Draws& draws) {
  Machine machine;
  machine.name = "bench";
  machine.host = {.cores = 32,
                  .memory = 1_GiB * draws.one_of({128, 256, 512, 1024, 2048}),
                  .memory_bandwidth = {draws.one_of({70, 150, 300}) * 1e9},
                  .update_rate = draws.one_of({2, 4, 8}) * 1e9,
                  .origin = {}};
  machine.roots = {{"root0", {26e9}, {26e9}}, {"root1", {26e9}, {26e9}}};
  const int devices = draws.one_of({1, 2, 4, 8});
  const double link = draws.one_of({12, 21, 50}) * 1e9;
  for (int d = 0; d < devices; ++d) {
    MachineDevice device;
    device.name = "gpu" + std::to_string(d);
    device.kind = DeviceKind::cuda;
    device.index = d;
    device.flops_bf16 = 160e12;
    device.memory_bandwidth = {1008e9};
    device.up = device.down = {link};
    device.root = d % 2;
    machine.devices.push_back(device);
  }
  const int drives = draws.one_of({0, 2, 4});
  for (int d = 0; d < drives; ++d) {
    Drive drive;
    drive.name = "ssd" + std::to_string(d);
    drive.capacity = Bytes{4'000'000'000'000};
    drive.read = {6.5e9};
    drive.write = {3.4e9};
    machine.drives.push_back(drive);
  }
  return machine;
}

}  // namespace

PlanQuestion realistic_question(std::uint64_t seed) {
  Draws draws(seed);
  PlanQuestion question;
  question.model = model_of(kShapes[draws.one_of({0, 1, 2, 3, 4})]);
  question.machine = machine_of(draws);
  question.micro_batches = draws.one_of({4, 8, 16});
  question.sequence = 1024;
  question.precision = Precision::bf16;
  question.clips = draws.one_of({0, 1}) == 1;
  question.host_budget = question.machine.host.memory;
  question.strategy = "auto";
  question.options.without = pass_name::kBlocks;
  return with_device_memory(question, 24_GiB);
}

PlanQuestion with_device_memory(PlanQuestion question, Bytes each) {
  for (MachineDevice& device : question.machine.devices) device.memory = each;
  question.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {1, question.sequence});
  return question;
}

}  // namespace ferry
