// The step that `auto` predicts beside its lower bound, for the machines and models of the papers'
// tables and for 7B to 70B on one desktop, as rows of a Markdown table.
//
//   step_bench [PART [GIB [bf16]]]   only cases whose names contain PART; with so much memory per
//                                    device; with rounded sums
#include <cstdio>
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

void print_row(const Case& one) {
  const AnswerWithoutRemedies answer = verified_answer(one.second);
  if (const auto* planned = std::get_if<Planned>(&answer)) {
    const double step = planned->prediction.step.seconds();
    const double bound = planned->lower_bound.seconds();
    std::printf("| %s | %.3f s | %.3f s | %.0f %% | %s |\n", one.first.c_str(), step, bound,
                (step / bound - 1) * 100, planned->candidates.front().strategy.c_str());
  } else {
    std::printf("| %s | does not fit: %s | | | |\n", one.first.c_str(),
                std::get<Shortage>(answer).place.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  std::puts("| | step | bound | gap | by |\n|---|---|---|---|---|");
  for (Case& one : cases()) {
    if (one.first.find(part) == std::string::npos) continue;
    PlanQuestion& question = one.second;
    if (argc > 2 && std::string(argv[2]) == "ladder") {
      for (double e = 1; e <= 64; e *= 2)
        for (int m = 8; m < 16; ++m) {
          const double gib = m * e / 2;
          if (gib < 8 || gib > 80) continue;
          const Bytes each{(std::int64_t)(gib * (1_GiB).count)};
          for (MachineDevice& device : question.machine.devices) device.memory = each;
          question.strategy = argc > 3 ? argv[3] : "mobius";
          std::printf("%.1f ", gib);
          print_row(one);
        }
      continue;
    }
    if (argc > 2 && std::string(argv[2]) == "sweep") {
      double best = 1e9;
      for (int gib = std::stoi(argv[4]); gib <= std::stoi(argv[5]); gib += std::stoi(argv[6])) {
        for (MachineDevice& device : question.machine.devices) device.memory = 1_GiB * gib;
        question.strategy = argv[3];
        const AnswerWithoutRemedies answer = verified_answer(question);
        const auto* planned = std::get_if<Planned>(&answer);
        if (!planned) continue;
        const double step = planned->prediction.step.seconds();
        std::printf(
            "%d:%.4f%s%s ", gib, step, step > best * (1 + 1e-9) ? "!!" : "",
            question.strategy == "auto" ? planned->candidates.front().strategy.c_str() : "");
        best = std::min(best, step);
        std::fflush(stdout);
      }
      std::puts("");
      continue;
    }
    if (argc > 2) {
      const Bytes each = 1_GiB * std::stoi(argv[2]);
      for (MachineDevice& device : question.machine.devices) device.memory = each;
    }
    if (argc > 3 && std::string(argv[3]) == "bf16") question.gradients = Precision::bf16;
    print_row(one);
  }
}
