// The model of a checkpoint as a folder of its own, without what only a resumed run reads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "base/units.h"
#include "data/element_type.h"

namespace ferry {

struct ExportedModel {
  ElementType type = ElementType::f32;  // of its weights
  std::size_t tensors = 0;
  Bytes size;  // of the weights
};

/// Writes the weights of `checkpoint` as `type` (nothing: as they are stored), with configuration
/// and tokenizer, into `to`. A narrower type is rounded to nearest, ties to even; f32 of a
/// checkpoint in bf16 is its exact master. Checks the checksum of what it reads. Needs less than
/// 1 MiB of memory besides the headers. When it throws, `to` is as it was.
/// Requires: `type` is f32, bf16 or f16. Throws UserError when `to` is not empty, the checkpoint is
/// damaged or a weight is beyond `type`; ResourceError when the drive lacks room.
ExportedModel export_model(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                           std::optional<ElementType> type);

}  // namespace ferry
