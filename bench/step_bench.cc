// The step that `auto` predicts, and a clipped one, beside the lower bound, for the machines and
// models of the papers' tables and for 7B to 70B on one desktop, as rows of a Markdown table.
//
//   step_bench [PART [GIB [bf16]]]   only cases whose names contain PART; with so much memory per
//                                    device; with rounded sums
//   step_bench PART FROM TO BY       with FROM GiB per device, BY more, and so on to TO; says which
//                                    are slower than with less
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "papers/paper_auto.h"
#include "planner/costs/estimate.h"
#include "planner/llama_shape.h"

namespace {

using namespace ferry;

constexpr const char* kMachines = FERRY_SOURCE_DIR "/machines";

// Geometry of published models that no paper of the tables has.
constexpr LlamaShape kShapes[] = {
    {"qwen2.5-7b", 3584, 28, 28, 4, 18944, 152064},
    {"qwen2.5-14b", 5120, 48, 40, 8, 13824, 152064},
    {"qwen2.5-32b", 5120, 64, 40, 8, 27648, 152064},
    {"llama3-70b", 8192, 80, 64, 8, 28672, 128256},
};

using Case = std::pair<std::string, PlanQuestion>;

// What does not fit in its 128 GB of DRAM rests on its two drives.
PlanQuestion desktop_question(const LlamaShape& shape) {
  PlanQuestion question = auto_question({"desktop-4090", "mobius-3b", 8, 1, 1024}, kMachines);
  question.model = model_of(shape);
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 1024});
  return question;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  const auto add = [&](const AutoCase& one) {
    result.emplace_back(one.model + " on " + one.machine, auto_question(one, kMachines));
  };
  add({"4x3090ti-2+2", "mobius-15b", 8, 1, 1024});
  for (const char* model : {"mobius-3b", "mobius-8b"}) {
    for (const char* machine : {"4x3090ti-4", "4x3090ti-2+2", "4x3090ti-1+3"}) {
      add({machine, model, 4});
    }
    add({"8x3090ti-4+4", model, 8});
  }
  for (const char* model : {"qwen3-1.7b", "llama3.1-8b", "qwen3-32b"}) {
    add({"roundpipe-8x4090", model, 16, 1, 2048});
  }
  for (const LlamaShape& shape : kShapes) {
    result.emplace_back(std::string(shape.name) + " on desktop-4090", desktop_question(shape));
  }
  return result;
}

// Returns the step, if the question fits.
std::optional<Micros> print_row(const std::string& name, const PlanQuestion& question) {
  const AnswerWithoutRemedies answer = verified_answer(question);
  const auto* planned = std::get_if<Planned>(&answer);
  if (planned == nullptr) {
    std::printf("| %s | does not fit: %s | | | | |\n", name.c_str(),
                std::get<Shortage>(answer).place.c_str());
    return std::nullopt;
  }
  const double step = planned->prediction.step.seconds();
  const double bound = planned->lower_bound.seconds();
  const double clipped = std::max(planned->clipped_step, planned->prediction.step).seconds();
  std::printf("| %s | %.3f s | %.3f s | %.3f s | %.0f %% | %s |\n", name.c_str(), step, clipped,
              bound, (step / bound - 1) * 100, planned->candidates.front().strategy.c_str());
  std::fflush(stdout);
  return planned->expected;
}

void give_memory(PlanQuestion& question, int gib) {
  for (MachineDevice& device : question.machine.devices) device.memory = 1_GiB * gib;
}

struct Sweep {
  int from, to, by;  // GiB per device
};

void print_sweep(const Case& one, const Sweep& sweep) {
  auto [name, question] = one;
  std::optional<Micros> fastest;
  for (int gib = sweep.from; gib <= sweep.to; gib += sweep.by) {
    give_memory(question, gib);
    const auto step = print_row(name + ", " + std::to_string(gib) + " GiB", question);
    if (step && fastest && *step > *fastest * (1 + 1e-9)) std::puts("slower than with less");
    if (step && (!fastest || *step < *fastest)) fastest = step;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  std::puts("| | step | clipped | bound | gap | by |\n|---|---|---|---|---|---|");
  for (Case& one : cases()) {
    if (one.first.find(part) == std::string::npos) continue;
    if (argc > 4) {
      print_sweep(one, {std::stoi(argv[2]), std::stoi(argv[3]), std::stoi(argv[4])});
      continue;
    }
    if (argc > 2) give_memory(one.second, std::stoi(argv[2]));
    if (argc > 3 && std::string(argv[3]) == "bf16") one.second.gradients = Precision::bf16;
    print_row(one.first, one.second);
  }
}
