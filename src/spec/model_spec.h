// What a model is, read from a Hugging Face config.json without its weights: a chain of blocks with
// their parameters, sizes and costs. Parameter names and shapes are those of the checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/block_id.h"

namespace ferry {

/// The kinds of block. A block's pre-norm and its residual addition belong to it; `norm` is the
/// final one, before the head.
enum class BlockKind { embedding, attention, mlp, norm, head };

enum class Activation { gelu_tanh, gelu, relu, silu };

/// RMSNorm, or LayerNorm, which has a bias.
enum class NormKind { rms, layer };

/// How a token learns where it stands: queries and keys turn, or the embedding adds a learned row.
enum class PositionKind { rotary, learned };

/// One tensor of the checkpoint.
struct ParamSpec {
  std::string name;                 // as in the checkpoint: "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // as in the checkpoint

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

/// Rotary position embedding; of PositionKind::rotary only.
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

/// What a checkpoint calls the parameters, each without its ".weight" or ".bias". Parts that a
/// model lacks have no name.
struct ParamNames {
  /// Starts every name except the head's. Checkpoints of the bare model leave it out
  /// ("wte.weight" for "transformer.wte.weight").
  std::string body = {};
  /// Follows in a layer: "layers." for "model.layers.0.mlp.up_proj.weight".
  std::string layers = {};
  std::string tokens = {};
  std::string positions = {};
  std::string attention_norm = {};
  std::string qkv = {};
  std::string query = {};
  std::string key = {};
  std::string value = {};
  std::string query_norm = {};
  std::string key_norm = {};
  std::string output = {};
  std::string mlp_norm = {};
  std::string gate = {};
  std::string up = {};
  std::string down = {};
  std::string final_norm = {};
  std::string head = "lm_head";
};

/// A model's shape and the parts that its blocks are made of: whoever builds, moves or costs blocks
/// asks these, never which family it is (families/). Dropout rates of a configuration are not read:
/// ferry trains without dropout.
struct ModelSpec {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;  // heads * head_dim need not be hidden
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  std::int64_t window = 0;  // of sliding attention; 0: none
  NormKind norm = NormKind::rms;
  double norm_epsilon = 1e-5;
  PositionKind positions = PositionKind::rotary;
  Rope rope;
  Activation activation = Activation::silu;
  bool input_first = false;  // products' weights are [in, out] in the checkpoint, else [out, in]
  bool fused_qkv = false;    // queries, keys and values are one product
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool qk_norm = false;      // an RMSNorm over head_dim on queries and keys
  bool gated_mlp = true;     // activation(gate(x)) * up(x), else activation(up(x))
  bool mlp_bias = false;
  bool tied = false;  // the head reads the embedding's weight
  /// The token whose row gets no gradient as an embedding, below vocab; a tied head's part stays.
  std::optional<std::int64_t> padding = {};
  ParamNames names;

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

/// The families of models that can be read: config.json's "model_type".
std::vector<std::string> family_names();

/// Reads DIRECTORY/config.json, or the file itself; as transformers 4 and 5 write it, with
/// transformers' defaults for missing keys. Throws UserError that names file, key, what was
/// expected and found; models, activations and rope scalings that ferry lacks are refused by name.
ModelSpec read_model_spec(const std::filesystem::path& directory_or_file);

/// The same from text; `source` stands for the file in messages.
ModelSpec parse_model_spec(const std::string& json, const std::string& source);

/// Fills blocks and edges from the other fields, replacing what is there. This is the one place
/// that says which parameters a part has, in which order and of which shape.
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

/// Cosines and sines of all angles of `time` positions, which a run keeps on every device (two
/// tables [time, head_dim / 2] in whole memory blocks); 0 for a model without rotary positions.
Bytes rotary_bytes(const ModelSpec& model, std::int64_t time, Bytes element);

/// Equal for blocks that cost the same in the same precision and batch: one profile entry serves
/// them all. Readable and stable, since profile files hold it.
std::string similarity_key(const ModelSpec& model, const BlockSpec& block);

/// "attention": as written in files and messages.
std::string to_string(BlockKind kind);

}  // namespace ferry
