#include "small_run.h"

#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "data/safetensors_writer.h"
#include "data/token_text.h"
#include "planner/costs/estimate.h"
#include "planner/planner.h"

namespace ferry {
namespace {

/// A folder with a model whose weights are one constant.
void write_model(const ScratchFolder& folder, const char* config, const ModelSpec& model) {
  folder.put("config.json", config);
  std::vector<TensorDeclaration> declared;
  for (const BlockSpec& block : model.blocks) {
    for (const ParamSpec& param : block.params) {
      declared.push_back({param.name, ElementType::f32, param.shape});
    }
  }
  SafetensorsWriter writer(folder.path(), "model", declared);
  for (const BlockSpec& block : model.blocks) {
    for (const ParamSpec& param : block.params) {
      const std::vector<float> values(static_cast<std::size_t>(param.numel()), 0.02F);
      writer.write(param.name, std::as_bytes(std::span(values)));
    }
  }
  writer.commit();
}

}  // namespace

TrainSetup small_run(const ScratchFolder& folder, const std::string& out, const SmallRun& asked) {
  TrainSetup setup;
  setup.model = parse_model_spec(asked.config, "config");
  write_model(folder, asked.config, setup.model);
  setup.train_tokens = std::make_shared<TokenFile>(
      folder.put("data.tokens", token_file_bytes("1 2 *3 *4\n5 6 *7\n", asked.vocabulary, 95)));
  setup.machine.name = "test";
  setup.machine.host.cores = 1;
  setup.machine.host.memory = 4_GiB;
  setup.machine.devices.push_back({.name = "gpu0", .memory = 1_GiB, .threads = 1});
  setup.job.model = folder.path();
  setup.job.out = folder / out;
  setup.job.data.sequence = 16;
  setup.job.train.precision = asked.precision;
  setup.job.train.steps = 2;
  setup.job.train.micro_batches = 1;
  setup.job.train.micro_batch_size = 1;
  std::filesystem::create_directories(setup.job.out);

  PlanQuestion question;
  question.model = setup.model;
  question.machine = setup.machine;
  question.micro_batches = question.micro_batch_size = 1;
  question.sequence = 16;
  question.precision = asked.precision;
  question.strategy = asked.strategy;
  question.options.without = "homes";
  question.clips = setup.job.optim.clip > 0;
  set_device_budgets(question, asked.device_budget);
  question.host_budget = 1_GiB;
  question.profile =
      estimate_profile(setup.model, setup.machine, question.precision, {1, question.sequence});
  question.evaluates = asked.evaluates;
  Planned planned = std::get<Planned>(make_plan(question));
  setup.plan = std::move(planned.plan);
  setup.evaluation = std::move(planned.evaluation);
  if (asked.evaluates) setup.eval_tokens = setup.train_tokens;
  return setup;
}

}  // namespace ferry
