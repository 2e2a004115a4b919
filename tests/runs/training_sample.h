// A small model trained by a plan on simulated devices, for tests that compare what plans give.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/simulation.h"
#include "exec/driver.h"
#include "planner/planner.h"
#include "train/devices.h"
#include "train/home_states.h"
#include "train/places.h"
#include "train/step_runner.h"

namespace ferry {

inline constexpr const char* kSampleConfig = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 64,
  "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false})";

inline constexpr int kSampleMicroBatches = 3;

/// Every test opens so many devices, whatever its plan uses: torch's autograd counts them once.
inline constexpr int kOpenDevices = 4;

/// Simulated devices of 1 GiB and two cores.
Machine sample_machine(int devices);

/// How devices are less than they might be, and what the runner makes of it.
struct Conditions {
  std::optional<Bytes> lockable = {};  // of host memory; nothing: all counts as page-locked
  std::size_t launch_queue = 0;        // what may wait on a stream; 0: any number
  long most_launches = StepRunner::kMostLaunches;
  bool on_one_device = false;  // physically: all of the plan's are sim:0
  double clip = 1.0;
  double p2p = 0;                // bytes per second between devices; 0: copies are immediate
  std::string pci_address = {};  // where all devices say that they hang; empty: nowhere
};

/// `checked`: with poison, the hazard detector and strict mode.
OpenDevices open_devices(Bytes memory, bool checked, const Conditions& conditions = {});

/// The sample model by `mobius`, in little device memory.
PlanQuestion training_question(int devices, int micro_batches = kSampleMicroBatches);

/// Tied, so that weights and sums cross between devices too, in much memory.
PlanQuestion tied_question(const char* strategy, int devices,
                           int micro_batches = kSampleMicroBatches);

/// The question's plan. Throws where it does not fit.
Plan planned(const PlanQuestion& asked);

/// A plan on the open devices, with weights in place.
struct Training {
  Training(const PlanQuestion& asked, const Plan& given, bool checked, const BoxAccess& access = {},
           const Conditions& conditions = {}, PhaseListener& listener = nobody());

  const Plan* const plan;
  const OpenDevices devices;
  Places places;
  StepRunner runner;
  HomeStates states;
};

/// The losses of steps, as they end.
class Losses final : public Observer {
 public:
  explicit Losses(const StepRunner& runner) : runner_(runner) {}
  void step_finished(int step) override { found.push_back(runner_.result(step).loss); }

  std::vector<double> found;

 private:
  const StepRunner& runner_;
};

struct Words final : PhaseListener {
  void phase(const std::string& what) override { said.push_back(what); }
  std::vector<std::string> said;
};

struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<float> weights;  // of all blocks, at the end
  std::vector<Hazard> hazards;
  DriveCounts drives;                  // what they moved in the four steps
  long host_syncs = 0;                 // in the last two steps, over all devices
  std::map<std::string, long> drains;  // operators that made the host wait
};

/// Four steps of the plan, checked.
Outcome run(const PlanQuestion& asked, const Plan& plan, const BoxAccess& access = {},
            const Conditions& conditions = {});

/// What the detector reports of a plan that lacks a dependency, in four steps or as many as it
/// takes to diverge: a task that comes too early reads poison.
std::vector<Hazard> hazards_of(const PlanQuestion& asked, const Plan& plan,
                               const Conditions& conditions = {});

/// The master weights of all blocks.
std::vector<float> weights_of(const ModelSpec& model, const HomeStates& states);

}  // namespace ferry
