// A model's folder as the field's loaders expect it: what stands beside the weights.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"
#include "data/element_type.h"

namespace ferry {

/// The files of the weights.
inline constexpr const char* kWeightsStem = "model";

/// The files of the optimizer's state in a checkpoint's kStateFolder (manifest.h), and how a
/// parameter's exact value is called there when the weights are bf16.
inline constexpr const char* kOptimizerStem = "optimizer";
inline constexpr const char* kMasterSuffix = ".master";

/// What makes weights loadable, of a model's folder: config.json, generation settings, tokenizer
/// files and chat template; what the folder lacks is not made up. Read once, so that it is written
/// as it was then, whatever becomes of the folder.
class ModelFiles {
 public:
  /// `chat_template` is a file that stands in place of the folder's. Throws UserError when
  /// config.json is missing or no JSON object, or a file is larger than 1 GiB; ResourceError when
  /// one cannot be read.
  explicit ModelFiles(const std::filesystem::path& folder,
                      const std::optional<std::filesystem::path>& chat_template = std::nullopt);

  /// Writes it to another folder, with `dtype` as the weights are stored there. config.json is
  /// last: without it a folder is not a model. Requires: `weights` is f32, bf16 or f16. Throws
  /// ResourceError.
  void write(const std::filesystem::path& to, ElementType weights) const;

 private:
  std::map<std::string, std::string> files_;  // their texts, but for config.json
  std::string config_;                        // its text
};

/// What ModelFiles of the folder take on a drive.
Bytes model_files_size(const std::filesystem::path& folder);

/// Throws UserError when the folder has no tokenizer, or Git LFS pointers in its place.
void require_tokenizer(const std::filesystem::path& folder);

}  // namespace ferry
