#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "data/export_model.h"
#include "data/saved_steps.h"

namespace ferry {
namespace {

/// The type that --dtype names; nothing: as stored.
std::optional<ElementType> type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "bf16") return ElementType::bf16;
  if (name == "fp32") return ElementType::f32;
  if (name == "fp16") return ElementType::f16;
  throw UserError("--dtype: expected bf16, fp32 or fp16, found '" + name + "'");
}

}  // namespace

int run_export(const ExportCommand& command) {
  const std::optional<ElementType> type = type_named(command.dtype);
  const std::filesystem::path checkpoint = checkpoint_at(command.source);
  const ExportedModel made = export_model(checkpoint, command.folder, type);
  std::printf("%s written to %s: %zu tensors, %s of %s\n", checkpoint.c_str(),
              command.folder.c_str(), made.tensors, to_string(made.size).c_str(),
              std::string(name_of(made.type)).c_str());
  return kDone;
}

}  // namespace ferry
