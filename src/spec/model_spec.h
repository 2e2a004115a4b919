// What a model is, read from a Hugging Face config.json without its weights: a chain of blocks with
// their parameters, sizes and costs. Parameter names and shapes are those of the checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/block_id.h"

namespace ferry {

enum class Family { gpt2, llama, mistral, qwen2, qwen3 };

/// The kinds of block. A block's pre-norm and its residual addition belong to it; `norm` is the
/// final one, before the head.
enum class BlockKind { embedding, attention, mlp, norm, head };

enum class Activation { gelu_tanh, gelu, relu, silu };

/// One tensor of the checkpoint.
struct ParamSpec {
  std::string name;                 // as in the checkpoint: "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // as in the checkpoint; GPT-2's projections are [in, out]

  std::int64_t numel() const;
  /// True when weight decay acts on it: two or more dimensions, so neither biases nor norms.
  bool decays() const { return shape.size() >= 2; }

  bool operator==(const ParamSpec&) const = default;
};

/// The smallest unit that the planner moves.
struct BlockSpec {
  BlockKind kind = BlockKind::embedding;
  int layer = -1;                 // -1 outside the layers
  std::vector<ParamSpec> params;  // in the order in which model/ takes the weights

  std::int64_t numel() const;
};

/// Block `to` reads the output of block `from`; both index ModelSpec::blocks.
struct Edge {
  int from = 0;
  int to = 0;
};

/// Rotary position embedding. Unused by GPT-2, which learns its positions.
struct Rope {
  /// `dynamic` scaling is read as `none`: the two differ only beyond max_positions.
  enum class Scaling { none, linear, llama3 };

  double theta = 10000.0;
  Scaling scaling = Scaling::none;
  double factor = 1.0;                  // linear, llama3
  double low_frequency_factor = 1.0;    // llama3
  double high_frequency_factor = 4.0;   // llama3
  std::int64_t original_positions = 0;  // llama3
};

/// A model's shape. Dropout rates of a configuration are not read: ferry trains without dropout.
struct ModelSpec {
  Family family = Family::llama;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;  // heads * head_dim need not be hidden
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  std::int64_t window = 0;  // of sliding attention; 0: none
  double norm_epsilon = 1e-5;
  Rope rope;
  Activation activation = Activation::silu;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;  // a norm over head_dim on queries and keys
  bool tied = false;     // the head reads the embedding's weight
  /// Starts every name except the head's. Checkpoints of the bare model leave it out
  /// ("wte.weight" for "transformer.wte.weight").
  std::string body_prefix;

  /// embedding, (attention, mlp) x layers, norm, head.
  IdVector<BlockId, BlockSpec> blocks;
  std::vector<Edge> edges;  // the chain
};

/// The tokens that go through a block at once.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t time = 1;

  std::int64_t tokens() const { return batch * time; }
};

/// Reads DIRECTORY/config.json, or the file itself; as transformers 4 and 5 write it, with
/// transformers' defaults for missing keys. Throws UserError that names file, key, what was
/// expected and found; models, activations and rope scalings that ferry lacks are refused by name.
ModelSpec read_model_spec(const std::filesystem::path& directory_or_file);

/// The same from text; `source` stands for the file in messages.
ModelSpec parse_model_spec(const std::string& json, const std::string& source);

/// Fills blocks and edges from the other fields, replacing what is there.
void build_blocks(ModelSpec& model);

/// The index of the block whose params[0] is the head's weight [vocab, hidden]: the embedding when
/// tied, and then the head has no params of its own; else the head.
std::size_t head_weight_owner(const ModelSpec& model);

/// The longest sequence for which ferry computes what the model means: its positions, or its
/// sliding window where that is shorter, since ferry attends to everything before a token.
std::int64_t longest_sequence(const ModelSpec& model);

/// Throws UserError when `time` exceeds longest_sequence(), saying which limit it is.
void check_sequence(const ModelSpec& model, std::int64_t time);

/// Parameters of all blocks; a tied weight counts once.
std::int64_t parameters(const ModelSpec& model);

/// Floating-point operations of one forward pass: 2 m k n per product, and 4 D per head for each of
/// the B T (T + 1) / 2 pairs of a query and a key that causal attention keeps. Norms, activations
/// and the embedding's look-up count as nothing.
double forward_flops(const ModelSpec& model, const BlockSpec& block, BatchShape shape);

/// The size of what passes between two blocks, [batch, time, hidden].
Bytes activation_bytes(const ModelSpec& model, BatchShape shape, Bytes element);

/// Equal for blocks that cost the same in the same precision and batch: one profile entry serves
/// them all. Readable and stable, since profile files hold it.
std::string similarity_key(const ModelSpec& model, const BlockSpec& block);

/// "gpt2", "attention": as written in files and messages.
std::string to_string(Family family);
std::string to_string(BlockKind kind);

}  // namespace ferry
