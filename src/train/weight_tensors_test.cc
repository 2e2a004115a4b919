#include "train/weight_tensors.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "data/safetensors_writer.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

/// One layer, with `more` added to the configuration.
ModelSpec tiny_model(const std::string& more = "", const std::string& family = "llama",
                     int vocab = 5) {
  return parse_model_spec(R"({"model_type": ")" + family +
                              R"(", "hidden_size": 4, "num_hidden_layers": 1,
                                 "num_attention_heads": 2, "num_key_value_heads": 2,
                                 "intermediate_size": 6, "max_position_embeddings": 8,
                                 "vocab_size": )" +
                              std::to_string(vocab) + more + "}",
                          "config.json");
}

const std::string kTied = R"(, "tie_word_embeddings": true)";

/// A model's weights: number i of tensor n is 10 n + i.
struct Weights {
  explicit Weights(const ModelSpec& model) {
    for (const BlockSpec& block : model.blocks) {
      for (const ParamSpec& param : block.params) add(param.name, param.shape);
    }
  }

  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::int64_t numel = ParamSpec{name, shape}.numel();
    std::vector<float>& numbers = values.emplace_back();
    for (std::int64_t i = 0; i < numel; ++i) {
      numbers.push_back(static_cast<float>(10 * std::ssize(declared) + i));
    }
    declared.push_back({name, ElementType::f32, shape});
  }

  void add_copy(const std::string& name, std::size_t of) {
    declared.push_back({name, declared[of].type, declared[of].shape});
    values.push_back(std::vector(values[of]));
  }

  const std::filesystem::path& write(const ScratchFolder& folder) const {
    SafetensorsWriter writer(folder.path(), "model", declared);
    for (std::size_t i = 0; i < declared.size(); ++i) {
      writer.write(declared[i].name, std::as_bytes(std::span(values[i])));
    }
    writer.commit();
    return folder.path();
  }

  std::vector<TensorDeclaration> declared;
  std::vector<std::vector<float>> values;
};

/// What the check of a model's weights refuses with, without the file's path.
std::string refusal(const ModelSpec& model, const Weights& weights) {
  const ScratchFolder folder;
  const std::string said = user_error([&] { require_weights(weights.write(folder), model); });
  return said.substr(said.find(": ") + 1);
}

TEST(WeightTensors, TheModelsOwnWeightsAreAccepted) {
  for (const std::string& more : {std::string(), kTied}) {
    const ModelSpec model = tiny_model(more);
    EXPECT_EQ(refusal(model, Weights(model)), "");
  }
}

TEST(WeightTensors, ATiedHeadMayBeTheEmbeddingOnceMore) {
  const ModelSpec model = tiny_model(kTied);
  Weights weights(model);
  weights.add_copy("lm_head.weight", 0);
  EXPECT_EQ(refusal(model, weights), "");

  weights.values[0][7] = weights.values.back()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(model, weights), "");  // loading says that it is not finite
}

TEST(WeightTensors, ATiedHeadOfItsOwnIsRefused) {
  const ModelSpec model = tiny_model(kTied);
  Weights weights(model);
  weights.add_copy("lm_head.weight", 0);
  weights.values.back().back() += 1;
  EXPECT_EQ(refusal(model, weights),
            " tensor 'lm_head.weight' differs from 'model.embed_tokens.weight', but config.json "
            "ties the two: one of them would be lost\n  try: \"tie_word_embeddings\": false in "
            "config.json");
  EXPECT_EQ(refusal(tiny_model(), weights), "");

  Weights another(model);
  another.add("lm_head.weight", {6, 4});
  EXPECT_NE(refusal(model, another).find("'lm_head.weight' differs"), std::string::npos);
}

// GPT-2 is tied where config.json says nothing.
TEST(WeightTensors, AGpt2HeadOfItsOwnIsRefused) {
  const ModelSpec model = tiny_model("", "gpt2");
  Weights weights(model);
  weights.add("lm_head.weight", {5, 4});
  EXPECT_NE(refusal(model, weights).find("differs from 'transformer.wte.weight'"),
            std::string::npos);
}

// The start looks at the beginning, loading at everything.
TEST(WeightTensors, ATiedHeadThatDiffersAtItsEndIsFoundByAWholeComparison) {
  const ModelSpec model = tiny_model(kTied, "llama", 70000);
  Weights weights(model);
  weights.add_copy("lm_head.weight", 0);
  weights.values.back().back() += 1;
  const ScratchFolder folder;
  const Checkpoint checkpoint = open_checkpoint(weights.write(folder));

  require_tied_head(checkpoint, model, 1);
  EXPECT_THROW(require_tied_head(checkpoint, model), UserError);
}

TEST(WeightTensors, ATiedModelMayHaveItsHeadAlone) {
  const ModelSpec model = tiny_model(kTied);
  Weights weights(model);
  weights.declared[0].name = "lm_head.weight";
  EXPECT_EQ(refusal(model, weights), "");
  EXPECT_NE(refusal(tiny_model(), weights).find("\"model.embed_tokens.weight\" is missing"),
            std::string::npos);
}

TEST(WeightTensors, ALayerBeyondTheConfigurationsIsRefused) {
  const ModelSpec model = tiny_model();
  for (const std::string body : {"model.", ""}) {
    Weights weights(model);
    weights.add(body + "layers.1.mlp.up_proj.weight", {6, 4});
    EXPECT_EQ(refusal(model, weights),
              " tensor \"" + body +
                  "layers.1.mlp.up_proj.weight\" is of layer 1, counted from 0; config.json has 1 "
                  "layers\n  try: num_hidden_layers (n_layer of GPT-2) as the weights have it");
  }
}

TEST(WeightTensors, ABiasThatTheConfigurationLeavesOutIsRefused) {
  const ModelSpec model = tiny_model();
  for (const std::string part : {"self_attn.q_proj", "mlp.down_proj", "input_layernorm"}) {
    Weights weights(model);
    weights.add("model.layers.0." + part + ".bias", {4});
    EXPECT_NE(refusal(model, weights).find(part + ".bias\" is a bias; the model of config.json"),
              std::string::npos);
  }
  const ModelSpec biased = tiny_model(R"(, "attention_bias": true, "mlp_bias": true)");
  EXPECT_EQ(refusal(biased, Weights(biased)), "");
}

/// What is said of a model's weights when they are loaded.
std::string warning(const ModelSpec& model, const Weights& weights) {
  struct Words : PhaseListener {
    void phase(const std::string& what) override { said += what; }
    std::string said;
  } words;
  const ScratchFolder folder;
  tell_unknown_tensors(open_checkpoint(weights.write(folder)), model, words);
  return words.said.substr(0, words.said.find(": ")) +
         words.said.substr(words.said.rfind(": ") + 1);
}

TEST(WeightTensors, OtherTensorsAreLeftOutWithAWarning) {
  const ModelSpec model = tiny_model();
  Weights weights(model);
  weights.add("value_head.weight", {1, 4});
  EXPECT_EQ(refusal(model, weights), "");
  EXPECT_EQ(warning(model, weights), "warning 1 tensor, \"value_head.weight\"");

  for (const std::string name : {"a", "b", "c"}) weights.add(name, {1});
  EXPECT_EQ(warning(model, weights), R"(warning 4 tensors, "a", "b", "c", ...)");
}

TEST(WeightTensors, KnownBuffersGoWithoutSaying) {
  const ModelSpec llama = tiny_model();
  Weights of_llama(llama);
  of_llama.add("model.layers.0.self_attn.rotary_emb.inv_freq", {1});
  EXPECT_EQ(refusal(llama, of_llama), "");
  EXPECT_EQ(warning(llama, of_llama), "");

  const ModelSpec gpt2 = tiny_model("", "gpt2");
  Weights of_gpt2(gpt2);
  of_gpt2.add("h.0.attn.bias", {1, 1, 8, 8});
  of_gpt2.add("h.0.attn.masked_bias", {});
  of_gpt2.add_copy("lm_head.weight", 0);
  EXPECT_EQ(refusal(gpt2, of_gpt2), "");
  EXPECT_EQ(warning(gpt2, of_gpt2), "");
}

}  // namespace
}  // namespace ferry
