// A family of models: its name in config.json, and how that file is read.
//
// A family is one file of this folder and its line in the list of src/spec/CMakeLists.txt. The file
// says the config's keys, the names of the parameters and the parts that blocks are made of; the
// rest of ferry sees the parts alone.
#pragma once

#include <span>
#include <string_view>

#include "spec/families/config.h"
#include "spec/model_spec.h"

namespace ferry {

struct Family {
  std::string_view name;  // config.json's "model_type"
  /// Fills all of the model but blocks and edges, with transformers' defaults for missing keys.
  /// Throws UserError for what the family's blocks do not have.
  void (*read)(const Config& config, ModelSpec& model);
};

/// Every family, in the order of the list.
std::span<const Family> families();

}  // namespace ferry
