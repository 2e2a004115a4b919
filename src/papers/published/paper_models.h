// The models that the papers measured, by name: geometry only, no weights.
#pragma once

#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// A GPT-2 style decoder: 12 hidden^2 weights per layer beside biases and norms, learned positions
/// for sequences of up to 1024 tokens, the head tied to the embedding. Throws UserError for a shape
/// that no model can have.
ModelSpec gpt_geometry(int layers, int heads, int hidden, int vocab);

struct PaperModel {
  std::string name;    // "ratel-13b"
  std::string source;  // where its geometry comes from
  ModelSpec spec;
};

/// All of them, in ascending size per paper.
const std::vector<PaperModel>& paper_models();

/// The model of that name. Throws UserError that suggests the nearest name.
const ModelSpec& paper_model(const std::string& name);

}  // namespace ferry
