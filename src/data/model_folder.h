// A model's folder as the field's loaders expect it: what stands beside the weights.
#pragma once

#include <filesystem>
#include <optional>

#include "base/units.h"
#include "data/element_type.h"

namespace ferry {

/// The files of the weights.
inline constexpr const char* kWeightsStem = "model";

/// The files of the optimizer's state in a checkpoint's kStateFolder (manifest.h), and how a
/// parameter's exact value is called there when the weights are bf16.
inline constexpr const char* kOptimizerStem = "optimizer";
inline constexpr const char* kMasterSuffix = ".master";

/// Copies what makes weights loadable from one model's folder to another: config.json, with `dtype`
/// as the weights are stored there, generation settings, tokenizer files and chat template. What
/// `from` lacks is not made up. `chat_template` is a file that stands in place of the folder's.
/// config.json is last: without it a folder is not a model.
/// Requires: `weights` is f32, bf16 or f16. Throws UserError when config.json is missing or no
/// JSON, ResourceError when a file cannot be copied.
void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to,
                      ElementType weights,
                      const std::optional<std::filesystem::path>& chat_template = std::nullopt);

/// What copy_model_files() takes on a drive.
Bytes model_files_size(const std::filesystem::path& folder);

/// Throws UserError when the folder has no tokenizer, or Git LFS pointers in its place.
void require_tokenizer(const std::filesystem::path& folder);

}  // namespace ferry
