#include "spec/model_spec.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

ModelSpec parse(const std::string& json) { return parse_model_spec(json, "config.json"); }

/// A small Llama with `more` added to its configuration.
ModelSpec tiny_llama(const std::string& more = "") {
  return parse(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
                   "vocab_size": 1000, "max_position_embeddings": 512)" +
               more + "}");
}

std::string refusal(const std::string& json) {
  try {
    parse(json);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ModelSpec, LlamaIsAChainOfBlocks) {
  const ModelSpec model = tiny_llama();

  ASSERT_EQ(model.blocks.size(), 9u);
  EXPECT_EQ(model.blocks[0].kind, BlockKind::embedding);
  EXPECT_EQ(model.blocks[3].kind, BlockKind::attention);
  EXPECT_EQ(model.blocks[3].layer, 1);
  EXPECT_EQ(model.blocks[6].kind, BlockKind::mlp);
  EXPECT_EQ(model.blocks[7].kind, BlockKind::norm);
  EXPECT_EQ(model.blocks[8].kind, BlockKind::head);
  EXPECT_EQ(model.blocks[8].layer, -1);
  ASSERT_EQ(model.edges.size(), 8u);
  EXPECT_EQ(model.edges[4].from, 4);
  EXPECT_EQ(model.edges[4].to, 5);
}

TEST(ModelSpec, ParametersHaveTheNamesAndShapesOfTheCheckpoint) {
  const ModelSpec model = tiny_llama(R"(, "attention_bias": true)");

  const std::vector<ParamSpec> expected = {
      {"model.layers.1.input_layernorm.weight", {64}},
      {"model.layers.1.self_attn.q_proj.weight", {64, 64}},
      {"model.layers.1.self_attn.q_proj.bias", {64}},
      {"model.layers.1.self_attn.k_proj.weight", {32, 64}},
      {"model.layers.1.self_attn.k_proj.bias", {32}},
      {"model.layers.1.self_attn.v_proj.weight", {32, 64}},
      {"model.layers.1.self_attn.v_proj.bias", {32}},
      {"model.layers.1.self_attn.o_proj.weight", {64, 64}},
      {"model.layers.1.self_attn.o_proj.bias", {64}},
  };
  EXPECT_EQ(model.blocks[3].params, expected);
}

TEST(ModelSpec, SmallestGpt2HasItsKnownSize) {
  const ModelSpec model = parse(R"({"model_type": "gpt2"})");

  EXPECT_EQ(parameters(model), 124439808);
  EXPECT_EQ(model.blocks[1].params[2].name, "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(model.blocks[1].params[2].shape, (std::vector<std::int64_t>{768, 2304}));
}

TEST(ModelSpec, Llama2OfSevenBillionHasItsKnownSize) {
  EXPECT_EQ(parameters(parse(R"({"model_type": "llama"})")), 6738415616);
}

TEST(ModelSpec, TiedHeadReadsTheEmbedding) {
  const ModelSpec tied = tiny_llama(R"(, "tie_word_embeddings": true)");
  const ModelSpec untied = tiny_llama();

  EXPECT_EQ(head_weight_owner(tied), 0u);
  EXPECT_TRUE(tied.blocks.back().params.empty());
  EXPECT_EQ(head_weight_owner(untied), untied.blocks.size() - 1);
  EXPECT_EQ(untied.blocks.back().params[0].name, "lm_head.weight");
  EXPECT_EQ(parameters(untied) - parameters(tied), 64 * 1000);
}

TEST(ModelSpec, PaddingIsReadAsTorchCountsIt) {
  EXPECT_EQ(tiny_llama().padding, std::nullopt);
  EXPECT_EQ(tiny_llama(R"(, "pad_token_id": null)").padding, std::nullopt);
  EXPECT_EQ(tiny_llama(R"(, "pad_token_id": 0)").padding, 0);
  EXPECT_EQ(tiny_llama(R"(, "pad_token_id": 999)").padding, 999);
  EXPECT_EQ(tiny_llama(R"(, "pad_token_id": -1)").padding, 999);
  EXPECT_EQ(parse(R"({"model_type": "gpt2", "pad_token_id": 3})").padding, std::nullopt);
}

TEST(ModelSpec, DecayLeavesBiasesAndNormsAlone) {
  const ModelSpec model = parse(R"({"model_type": "gpt2"})");

  EXPECT_FALSE(model.blocks[1].params[0].decays());  // ln_1.weight
  EXPECT_TRUE(model.blocks[1].params[2].decays());   // attn.c_attn.weight
  EXPECT_FALSE(model.blocks[1].params[3].decays());  // attn.c_attn.bias
}

TEST(ModelSpec, BothStylesOfRopeAreRead) {
  const ModelSpec v4 = tiny_llama(R"(, "rope_theta": 500000.0, "rope_scaling": {
      "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 128}, "torch_dtype": "bfloat16")");
  const ModelSpec v5 = tiny_llama(R"(, "rope_parameters": {"rope_theta": 500000.0,
      "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 128}, "dtype": "bfloat16")");

  for (const ModelSpec& model : {v4, v5}) {
    EXPECT_EQ(model.rope.theta, 500000.0);
    EXPECT_EQ(model.rope.scaling, Rope::Scaling::llama3);
    EXPECT_EQ(model.rope.factor, 32.0);
    EXPECT_EQ(model.rope.original_positions, 128);
  }
  EXPECT_EQ(tiny_llama(R"(, "rope_scaling": {"type": "linear", "factor": 2})").rope.factor, 2.0);
  EXPECT_EQ(tiny_llama(R"(, "rope_scaling": null)").rope.theta, 10000.0);
  EXPECT_EQ(
      tiny_llama(R"(, "rope_scaling": {}, "rope_parameters": {"rope_theta": 500})").rope.theta,
      500.0);
}

TEST(ModelSpec, AnEpsilonMayBeZero) {
  EXPECT_EQ(tiny_llama(R"(, "rms_norm_eps": 0.0)").norm_epsilon, 0.0);
  EXPECT_EQ(parse(R"({"model_type": "gpt2", "layer_norm_epsilon": 0})").norm_epsilon, 0.0);
  EXPECT_EQ(refusal(R"({"model_type": "llama", "rms_norm_eps": -1e-6})"),
            "config.json: 'rms_norm_eps' must be a number of at least 0; found -1e-06");
}

TEST(ModelSpec, DynamicRopeIsPlainWithinThePositions) {
  const ModelSpec model = tiny_llama(R"(, "rope_scaling": {"type": "dynamic", "factor": 2.0})");

  EXPECT_EQ(model.rope.scaling, Rope::Scaling::none);
  EXPECT_EQ(longest_sequence(model), 512);
}

TEST(ModelSpec, HeadsMayBeWiderThanTheirShareOfTheHiddenSize) {
  const ModelSpec model = parse(R"({"model_type": "qwen3", "hidden_size": 1024,
      "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 8})");

  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.blocks[1].params[1].shape, (std::vector<std::int64_t>{2048, 1024}));
  EXPECT_EQ(model.blocks[1].params[4].name, "model.layers.0.self_attn.q_norm.weight");
}

TEST(ModelSpec, SlidingWindowBoundsTheSequence) {
  const std::string mistral = R"({"model_type": "mistral", "num_hidden_layers": 1)";
  EXPECT_EQ(longest_sequence(parse(mistral + "}")), 4096);
  EXPECT_EQ(longest_sequence(parse(mistral + R"(, "sliding_window": null})")), 131072);

  const std::string qwen2 = R"({"model_type": "qwen2", "num_hidden_layers": 30)";
  EXPECT_EQ(longest_sequence(parse(qwen2 + R"(, "sliding_window": 4096})")), 32768);
  EXPECT_EQ(longest_sequence(parse(qwen2 + R"(, "use_sliding_window": true})")), 4096);
  EXPECT_EQ(longest_sequence(parse(qwen2 + R"(, "use_sliding_window": true,
                                               "max_window_layers": 30})")),
            32768);
  EXPECT_EQ(longest_sequence(parse(qwen2 + R"(, "max_window_layers": 0})")), 32768);

  EXPECT_NO_THROW(check_sequence(parse(mistral + "}"), 4096));
  EXPECT_THROW(check_sequence(parse(mistral + "}"), 4097), UserError);
}

TEST(ModelSpec, OtherFamiliesAreRefusedWithTheListOfThoseThatFerryHas) {
  const std::string list = joined(family_names());
  EXPECT_TRUE(list.starts_with("gpt2, llama, mistral, qwen2, qwen3")) << list;
  EXPECT_EQ(refusal(R"({"model_type": "mamba"})"),
            "config.json: model_type 'mamba' is not supported; ferry has " + list);
  EXPECT_EQ(refusal(R"({"hidden_size": 4})"),
            "config.json: 'model_type' is missing; expected one of " + list);
}

TEST(ModelSpec, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(refusal(R"({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 2}})"),
            "config.json: rope_scaling: rope scaling 'yarn' is not supported; ferry has default, "
            "linear, dynamic, llama3");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "hidden_act": "mish"})"),
            "config.json: 'hidden_act' must be one of gelu_new, gelu_pytorch_tanh, gelu, relu, "
            "silu, swish; found \"mish\"");
  EXPECT_EQ(refusal(R"({"model_type": "gpt2", "add_cross_attention": true})"),
            "config.json: 'add_cross_attention' is not supported");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "is_causal": false})"),
            "config.json: 'is_causal' false is not supported; ferry trains causal language models");
  EXPECT_EQ(refusal(R"({"model_type": "gpt2", "per_layer_config": {"1": {"n_inner": 8}}})"),
            "config.json: 'per_layer_config' is not supported; ferry's layers are alike");
  EXPECT_EQ(refusal(R"({"model_type": "llama",
                        "rope_parameters": {"full_attention": {"rope_type": "yarn"}}})"),
            "config.json: rope_parameters: 'full_attention' has a section of its own; ferry has "
            "one rope for all layers");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "architectures": ["LlamaForTokenClassification"]})"),
            "config.json: architecture 'LlamaForTokenClassification' is not supported; expected a "
            "causal language model");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}})"),
            "config.json: weights quantized with 'gptq' are not supported\n"
            "  try: a checkpoint in bf16, fp16 or fp32");
}

TEST(ModelSpec, WhatIsWrittenOutAsTheDefaultIsAccepted) {
  EXPECT_EQ(tiny_llama(R"(, "is_causal": true, "per_layer_config": {})").layers, 3);
  EXPECT_EQ(tiny_llama(R"(, "is_causal": null, "per_layer_config": null)").layers, 3);
}

TEST(ModelSpec, BadValuesAreRefusedWithWhatWasFound) {
  EXPECT_EQ(refusal(R"({"model_type": "llama", "hidden_size": "big"})"),
            "config.json: 'hidden_size' must be a positive integer; found \"big\"");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "num_hidden_layers": 0})"),
            "config.json: 'num_hidden_layers' must be a positive integer; found 0");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "num_key_value_heads": 5})"),
            "config.json: 'num_key_value_heads' must divide the heads, 32; found 5");
  EXPECT_EQ(refusal(R"({"model_type": "gpt2", "n_embd": 100})"),
            "config.json: the hidden size 100 is not a multiple of the heads, 12");
  // GPT-2 has no such key: it does not excuse heads that do not divide the hidden size.
  EXPECT_EQ(refusal(R"({"model_type": "gpt2", "n_embd": 100, "head_dim": 8})"),
            "config.json: the hidden size 100 is not a multiple of the heads, 12");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "pad_token_id": 32000})"),
            "config.json: 'pad_token_id' must be a token below 'vocab_size', 32000; found 32000");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})"),
            "config.json: rope_scaling: 'factor' is missing; expected a positive number");
  EXPECT_NE(refusal("{").find("config.json: not JSON"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "llama", "rms_norm_eps": 1e999})").find("number overflow"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"model_type": "llama", "model_type": "gpt2"})"),
            "config.json: key \"model_type\" appears twice");
  EXPECT_EQ(refusal("{\"model_type\": \"llama\", \"hidden_size\": " + std::string(100'000, '[')),
            "config.json: more than 64 levels of lists and objects");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "num_hidden_layers": 1001})"),
            "config.json: 1001 layers are beyond what ferry takes, 1000");
  EXPECT_EQ(refusal("[]"), "config.json: expected a JSON object");
}

TEST(ModelSpec, DirectoryOrFileIsRead) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "model_spec_test";
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << R"({"model_type": "gpt2", "n_layer": 2})";

  EXPECT_EQ(read_model_spec(directory).layers, 2);
  EXPECT_EQ(read_model_spec(directory / "config.json").layers, 2);
  EXPECT_THROW(read_model_spec(directory / "absent"), UserError);
}

// By hand: B 2, T 8, hidden 64, 4 heads of 16 with 2 for keys, intermediate 96.
TEST(ModelSpec, FlopsCountProductsAndTheCausalHalfOfAttention) {
  const ModelSpec model = tiny_llama();
  const BatchShape shape{.batch = 2, .time = 8};

  const double projections = 2.0 * 16 * (64 * 64 + 2 * 32 * 64 + 64 * 64);
  const double attention = 4.0 * (2 * 4 * 36) * 16;  // 36 = 8 * 9 / 2 pairs per head
  EXPECT_EQ(forward_flops(model, model.blocks[0], shape), 0);
  EXPECT_EQ(forward_flops(model, model.blocks[1], shape), projections + attention);
  EXPECT_EQ(forward_flops(model, model.blocks[2], shape), 2.0 * 16 * 3 * 64 * 96);
  EXPECT_EQ(forward_flops(model, model.blocks.back(), shape), 2.0 * 16 * 64 * 1000);
  EXPECT_EQ(activation_bytes(model, shape, 2_B), Bytes{16 * 64 * 2});
}

TEST(ModelSpec, RotaryTablesTakeWholeBlocksOfADevicesMemory) {
  const ModelSpec model = tiny_llama();
  EXPECT_EQ(rotary_bytes(model, 64, 4_B), Bytes{2 * 64 * 8 * 4});
  EXPECT_EQ(rotary_bytes(model, 200, 4_B), Bytes{2 * 13 * 512});  // of 6400 bytes each
}

TEST(ModelSpec, LayersOfOneShapeShareAKey) {
  const ModelSpec model = tiny_llama();
  const ModelSpec biased = tiny_llama(R"(, "mlp_bias": true)");

  EXPECT_EQ(similarity_key(model, model.blocks[1]), similarity_key(model, model.blocks[3]));
  EXPECT_NE(similarity_key(model, model.blocks[1]), similarity_key(model, model.blocks[2]));
  EXPECT_NE(similarity_key(model, model.blocks[2]), similarity_key(biased, biased.blocks[2]));
  EXPECT_EQ(similarity_key(model, model.blocks[1]),
            "attention heads 4/2x16 64 64x64 32x64 32x64 64x64");
}

}  // namespace
}  // namespace ferry
