#include "train/checkpoints.h"

#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/model_folder.h"
#include "data/safetensors.h"
#include "data/safetensors_writer.h"

namespace ferry {
namespace {

constexpr Bytes kShardSize = {5'000'000'000};  // as transformers' save_pretrained()

/// How the optimizer's file names a part of a parameter.
std::string part_name(const std::string& param, StatePart part) {
  switch (part) {
    case StatePart::master:
      return param + ".master";
    case StatePart::exp_avg:
      return param + ".exp_avg";
    case StatePart::exp_avg_sq:
      return param + ".exp_avg_sq";
  }
  return param;
}

ElementType type_of_weights(Precision precision) {
  return precision == Precision::bf16 ? ElementType::bf16 : ElementType::f32;
}

/// The parts kept in the optimizer's file; in fp32 the weights themselves are the master.
std::vector<StatePart> parts_kept(Precision precision) {
  if (precision == Precision::fp32) return {StatePart::exp_avg, StatePart::exp_avg_sq};
  return {StatePart::master, StatePart::exp_avg, StatePart::exp_avg_sq};
}

template <typename Visit>
void for_each_param(const ModelSpec& model, const Visit& visit) {
  for (const BlockId b : model.blocks.ids()) {
    const auto& params = model.blocks[b].params;
    for (std::size_t i = 0; i < params.size(); ++i) visit(b, i, params[i]);
  }
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The tensor of a parameter, under its full name or that of the bare model.
const TensorEntry& entry_of(const Checkpoint& checkpoint, const ModelSpec& model,
                            const ParamSpec& param) {
  const TensorEntry* entry = checkpoint.find(param.name);
  if (entry == nullptr && param.name.starts_with(model.names.body)) {
    entry = checkpoint.find(std::string_view(param.name).substr(model.names.body.size()));
  }
  if (entry == nullptr) return checkpoint.at(param.name);  // throws, naming the folder
  if (entry->shape != param.shape) {
    throw UserError(checkpoint.path_of(*entry).string() + ": tensor '" + entry->name +
                    "' has shape " + to_text(entry->shape) + "; config.json asks for " +
                    to_text(param.shape));
  }
  return *entry;
}

void read_part(const Checkpoint& checkpoint, const TensorEntry& entry, StatePart part,
               BlockId block, std::size_t index, HomeStates& states) {
  std::vector<float> values(entry.numel());
  checkpoint.read_as_f32(entry, values);
  states.write(part, block, index, values);
}

void write_model(const CheckpointContents& contents, const std::filesystem::path& folder) {
  const bool split = contents.precision == Precision::bf16;
  std::vector<TensorDeclaration> declared;
  for_each_param(contents.model, [&](BlockId, std::size_t, const ParamSpec& param) {
    declared.push_back({param.name, type_of_weights(contents.precision), param.shape});
  });
  SafetensorsWriter writer(folder, "model", declared, kShardSize);
  for_each_param(contents.model, [&](BlockId b, std::size_t i, const ParamSpec& param) {
    const std::size_t count = param.numel();
    if (split) {
      std::vector<std::uint16_t> hi(count);
      contents.states.read_hi(b, i, hi);
      writer.write(param.name, std::as_bytes(std::span(hi)));
    } else {
      std::vector<float> master(count);
      contents.states.read(StatePart::master, b, i, master);
      writer.write(param.name, std::as_bytes(std::span(master)));
    }
  });
  writer.commit();
}

void write_optimizer(const CheckpointContents& contents, const std::filesystem::path& folder) {
  const auto parts = parts_kept(contents.precision);
  std::vector<TensorDeclaration> declared;
  for_each_param(contents.model, [&](BlockId, std::size_t, const ParamSpec& param) {
    for (const StatePart part : parts) {
      declared.push_back({part_name(param.name, part), ElementType::f32, param.shape});
    }
  });
  SafetensorsWriter writer(folder, "optimizer", declared, kShardSize);
  for_each_param(contents.model, [&](BlockId b, std::size_t i, const ParamSpec& param) {
    std::vector<float> values(param.numel());
    for (const StatePart part : parts) {
      contents.states.read(part, b, i, values);
      writer.write(part_name(param.name, part), std::as_bytes(std::span(values)));
    }
  });
  writer.commit();
}

}  // namespace

void load_pretrained(const ModelSpec& model, const std::filesystem::path& folder,
                     HomeStates& states) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  for_each_param(model, [&](BlockId b, std::size_t i, const ParamSpec& param) {
    read_part(checkpoint, entry_of(checkpoint, model, param), StatePart::master, b, i, states);
    const std::vector<float> zeros(param.numel());
    states.write(StatePart::exp_avg, b, i, zeros);
    states.write(StatePart::exp_avg_sq, b, i, zeros);
  });
}

Manifest load_checkpoint(const ModelSpec& model, const std::filesystem::path& folder,
                         HomeStates& states) {
  Manifest manifest = read_manifest(folder);
  verify_checksums(folder, manifest);
  const Checkpoint weights = open_checkpoint(folder);
  const Checkpoint optimizer = open_checkpoint(folder / kStateFolder, "optimizer");
  for_each_param(model, [&](BlockId b, std::size_t i, const ParamSpec& param) {
    const TensorEntry& weight = entry_of(weights, model, param);
    const TensorEntry* master = optimizer.find(part_name(param.name, StatePart::master));
    read_part(master != nullptr ? optimizer : weights, master != nullptr ? *master : weight,
              StatePart::master, b, i, states);
    for (const StatePart part : {StatePart::exp_avg, StatePart::exp_avg_sq}) {
      read_part(optimizer, optimizer.at(part_name(param.name, part)), part, b, i, states);
    }
  });
  return manifest;
}

std::filesystem::path save_checkpoint(const CheckpointContents& contents, const SavedSteps& saved) {
  UnsavedStep step = saved.begin(contents.manifest.step);
  const std::filesystem::path state = step.folder() / kStateFolder;
  write_model(contents, step.folder());
  write_optimizer(contents, state);
  copy_model_files(contents.model_folder, step.folder(), type_of_weights(contents.precision));
  return saved.commit(std::move(step), contents.manifest);
}

}  // namespace ferry
