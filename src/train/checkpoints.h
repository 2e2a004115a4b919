// Checkpoints of a run: a Hugging Face directory with the optimizer's state beside the weights.
// They know nothing of places or devices, so a run resumes under any plan. Loading and saving hold
// kPieceMemory of DRAM beside the plan. Format: docs/formats/checkpoint.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/progress.h"
#include "data/manifest.h"
#include "data/model_folder.h"
#include "data/saved_steps.h"
#include "spec/model_spec.h"
#include "spec/precision.h"
#include "spec/shared_memory.h"
#include "train/home_states.h"

namespace ferry {

/// Fills the master weights from a Hugging Face directory; moments become zero. Throws UserError
/// for a tensor that is missing, has another shape, or a value that is not finite, and for a tied
/// head that is not the embedding. `threads` read and convert, here and below. The listener hears
/// of bytes, here and below, and here of tensors that are left out.
void load_pretrained(const ModelSpec& model, const std::filesystem::path& folder, int threads,
                     HomeStates& states, PhaseListener& listener);

/// Fills master weights and moments from one of save_checkpoint()'s folders, after checking every
/// checksum. Returns its manifest. Throws UserError.
Manifest load_checkpoint(const ModelSpec& model, const std::filesystem::path& folder, int threads,
                         HomeStates& states, PhaseListener& listener);

struct CheckpointContents {
  const ModelSpec& model;
  const HomeStates& states;
  Precision precision = Precision::fp32;
  const ModelFiles& model_files;
  Manifest manifest;                                     // without files
  std::optional<std::int64_t> last_good = std::nullopt;  // as SavedSteps::commit() has it
};

/// Writes a checkpoint through `saved`; it appears complete or not at all. Returns its folder.
/// Throws ResourceError; the checkpoints before it stay as they are.
std::filesystem::path save_checkpoint(const CheckpointContents& contents, const SavedSteps& saved,
                                      PhaseListener& listener);

}  // namespace ferry
