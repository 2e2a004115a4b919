#include "train/weight_tensors.h"

#include <string_view>

#include "base/error.h"

namespace ferry {

const TensorEntry& weight_of(const Checkpoint& checkpoint, const ModelSpec& model,
                             const ParamSpec& param) {
  const TensorEntry* entry = checkpoint.find(param.name);
  if (entry == nullptr && param.name.starts_with(model.names.body)) {
    entry = checkpoint.find(std::string_view(param.name).substr(model.names.body.size()));
  }
  if (entry == nullptr) return checkpoint.at(param.name);  // throws, naming the folder
  require_shape(checkpoint, *entry, param);
  checkpoint.require_floats(*entry);
  return *entry;
}

void require_weights(const std::filesystem::path& folder, const ModelSpec& model) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  for (const BlockSpec& block : model.blocks) {
    for (const ParamSpec& param : block.params) weight_of(checkpoint, model, param);
  }
}

void require_shape(const Checkpoint& checkpoint, const TensorEntry& entry, const ParamSpec& param) {
  if (entry.shape == param.shape) return;
  throw UserError(checkpoint.path_of(entry).string() + ": tensor '" + entry.name + "' has shape " +
                  shape_text(entry.shape) + "; config.json asks for " + shape_text(param.shape));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace ferry
