#include "train/weight_tensors.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "base/error.h"

namespace ferry {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 17;  // elements: 512 KiB as floats

/// As torch.equal has it, but that damage is equal to itself: loading tells of that better.
bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// True when the first `elements` of both are the same numbers.
bool same_numbers(const Checkpoint& checkpoint, const TensorEntry& a, const TensorEntry& b,
                  std::int64_t elements) {
  std::vector<float> left, right;
  for (std::int64_t first = 0; first < elements; first += kPiece) {
    left.resize(static_cast<std::size_t>(std::min(kPiece, elements - first)));
    right.resize(left.size());
    checkpoint.read_as_f32(a, first, left);
    checkpoint.read_as_f32(b, first, right);
    if (!std::ranges::equal(left, right, same)) return false;
  }
  return true;
}

/// The weight that a tied head stands for.
const ParamSpec& embedding_weight(const ModelSpec& model) {
  return model.blocks.front().params.front();
}

std::string head_name(const ModelSpec& model) { return model.names.head + ".weight"; }

}  // namespace

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
  require_tied_head(checkpoint, model, kPiece);
}

void require_tied_head(const Checkpoint& checkpoint, const ModelSpec& model,
                       std::int64_t elements) {
  const TensorEntry* const head = checkpoint.find(head_name(model));
  if (!model.tied || head == nullptr) return;
  const TensorEntry& tokens = weight_of(checkpoint, model, embedding_weight(model));
  if (head->shape == tokens.shape &&
      same_numbers(checkpoint, tokens, *head, std::min(elements, tokens.numel()))) {
    return;
  }
  throw UserError(checkpoint.path_of(*head).string() + ": tensor '" + head->name +
                  "' differs from '" + tokens.name +
                  "', but config.json ties the two: one of them would be lost\n  try: "
                  "\"tie_word_embeddings\": false in config.json");
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
