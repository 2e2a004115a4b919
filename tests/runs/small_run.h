// A whole run of a small model, for tests that call train().
#pragma once

#include <string>

#include "base/units.h"
#include "data/scratch_folder.h"
#include "train/trainer.h"

namespace ferry {

inline constexpr const char* kSmallConfig = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 64,
  "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false})";

inline constexpr const char* kLargeTensor = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 131072, "max_position_embeddings": 64,
  "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": true})";

struct SmallRun {
  const char* config = kSmallConfig;
  std::uint32_t vocabulary = 96;
  Precision precision = Precision::fp32;
  Bytes device_budget = 64_MiB;
  const char* strategy = "mobius";
  bool evaluates = false;  // on what it trains on, where train.eval_every says when
};

/// Two steps of a model on one simulated device, its states in DRAM unless the strategy is
/// resident. The model lies in the folder, and below it what the run writes: `out`.
TrainSetup small_run(const ScratchFolder& folder, const std::string& out,
                     const SmallRun& asked = {});

}  // namespace ferry
