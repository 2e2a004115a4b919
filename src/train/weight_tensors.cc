#include "train/weight_tensors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

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

/// A parameter's name in a checkpoint of the bare model.
std::string_view bare(const ModelSpec& model, std::string_view name) {
  return name.starts_with(model.names.body) ? name.substr(model.names.body.size()) : name;
}

/// What earlier versions of transformers saved beside the weights, and it computes itself.
bool is_buffer(std::string_view name) {
  constexpr std::string_view kBuffers[] = {"rotary_emb.inv_freq", ".attn.bias",
                                           ".attn.masked_bias"};
  return std::ranges::any_of(kBuffers, [&](auto buffer) { return name.ends_with(buffer); });
}

/// The tensors that are neither weights of the model nor what goes without saying.
std::vector<const TensorEntry*> unknown_tensors(const Checkpoint& checkpoint,
                                                const ModelSpec& model) {
  std::set<const TensorEntry*> known;
  for (const BlockSpec& block : model.blocks) {
    for (const ParamSpec& param : block.params) known.insert(&weight_of(checkpoint, model, param));
  }
  if (model.tied) known.insert(checkpoint.find(head_name(model)));
  std::vector<const TensorEntry*> unknown;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (!known.contains(&entry) && !is_buffer(entry.name)) unknown.push_back(&entry);
  }
  return unknown;
}

/// The layer that a tensor is of, or nothing.
std::optional<std::int64_t> layer_of(const ModelSpec& model, std::string_view name) {
  name = bare(model, name);
  if (!name.starts_with(model.names.layers)) return std::nullopt;
  name.remove_prefix(model.names.layers.size());
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return whole ? std::optional(layer) : std::nullopt;
}

/// True for the bias of a weight that has none in this model.
bool is_left_out_bias(const ModelSpec& model, std::string_view name) {
  name = bare(model, name);
  if (!name.ends_with(".bias")) return false;
  const std::string weight = std::string(name.substr(0, name.size() - 5)) + ".weight";
  return std::ranges::any_of(model.blocks, [&](const BlockSpec& block) {
    return std::ranges::any_of(
        block.params, [&](const ParamSpec& param) { return bare(model, param.name) == weight; });
  });
}

/// Throws UserError for a tensor that a model of another configuration would compute with.
void require_configured(const Checkpoint& checkpoint, const ModelSpec& model) {
  for (const TensorEntry* entry : unknown_tensors(checkpoint, model)) {
    const std::string found =
        checkpoint.path_of(*entry).string() + ": tensor " + in_quotes(entry->name) + " is ";
    const auto layer = layer_of(model, entry->name);
    if (layer && *layer >= model.layers) {
      throw UserError(
          found + "of layer " + std::to_string(*layer) + ", counted from 0; " + "config.json has " +
          std::to_string(model.layers) +
          " layers\n  try: num_hidden_layers (n_layer of GPT-2) as the weights have it");
    }
    if (is_left_out_bias(model, entry->name)) {
      throw UserError(found +
                      "a bias; the model of config.json has none there\n  try: the "
                      "config.json of these weights, which says attention_bias or mlp_bias "
                      "where a model may have them");
    }
  }
}

}  // namespace

const TensorEntry& weight_of(const Checkpoint& checkpoint, const ModelSpec& model,
                             const ParamSpec& param) {
  const TensorEntry* entry = checkpoint.find(param.name);
  if (entry == nullptr) entry = checkpoint.find(bare(model, param.name));
  if (entry == nullptr && model.tied && param == embedding_weight(model)) {
    entry = checkpoint.find(head_name(model));  // the one of the two that was stored
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
  require_configured(checkpoint, model);
  require_tied_head(checkpoint, model, kPiece);
}

void require_tied_head(const Checkpoint& checkpoint, const ModelSpec& model,
                       std::int64_t elements) {
  const TensorEntry* const head = checkpoint.find(head_name(model));
  if (!model.tied || head == nullptr) return;
  const TensorEntry& tokens = weight_of(checkpoint, model, embedding_weight(model));
  if (head == &tokens) return;  // it stands for both
  if (head->shape == tokens.shape &&
      same_numbers(checkpoint, tokens, *head, std::min(elements, tokens.numel()))) {
    return;
  }
  throw UserError(checkpoint.path_of(*head).string() + ": tensor '" + head->name +
                  "' differs from '" + tokens.name +
                  "', but config.json ties the two: one of them would be lost\n  try: "
                  "\"tie_word_embeddings\": false in config.json");
}

void tell_unknown_tensors(const Checkpoint& checkpoint, const ModelSpec& model,
                          PhaseListener& listener) {
  constexpr std::size_t kNamed = 3;
  const std::vector<const TensorEntry*> unknown = unknown_tensors(checkpoint, model);
  if (unknown.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamed, unknown.size()); ++i) {
    names += (i > 0 ? ", " : "") + in_quotes(unknown[i]->name);
  }
  if (unknown.size() > kNamed) names += ", ...";
  listener.phase("warning: " + checkpoint.path_of(*unknown.front()).string() +
                 ": no weights of the model, left out: " + std::to_string(unknown.size()) +
                 (unknown.size() > 1 ? " tensors, " : " tensor, ") + names);
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
