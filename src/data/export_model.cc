#include "data/export_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/float_formats.h"
#include "data/manifest.h"
#include "data/model_folder.h"
#include "data/safetensors.h"
#include "data/safetensors_writer.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = 1 << 17;  // elements: 512 KiB wide and 256 KiB narrow

/// A folder that was empty or not there. Destroyed before keep(), it is so again.
class FreshFolder {
 public:
  explicit FreshFolder(fs::path path) : path_(std::move(path)) {
    try {
      made_ = fs::create_directories(path_);
      if (!made_ && !fs::is_empty(path_)) {
        throw UserError(path_.string() + ": is not empty; name another folder or remove it");
      }
    } catch (const fs::filesystem_error& error) {
      throw ResourceError(std::string("cannot make a folder for the model: ") + error.what());
    }
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  ~FreshFolder() {
    std::error_code ignored;  // the error that led here is the one to tell
    if (kept_) return;
    for (const auto& item : fs::directory_iterator(path_, ignored)) {
      fs::remove_all(item.path(), ignored);
    }
    if (made_) fs::remove(path_, ignored);
  }

  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool made_ = false, kept_ = false;
};

/// A checkpoint's weights, and their exact values where those are kept apart and asked for.
struct Weights {
  Checkpoint stored;
  std::optional<Checkpoint> state;
  ElementType type = ElementType::f32;  // of `stored`

  /// Where the exact values of a stored tensor are, and their entry there.
  std::pair<const Checkpoint*, const TensorEntry*> exact(const TensorEntry& entry) const {
    const TensorEntry* master = state ? state->find(entry.name + kMasterSuffix) : nullptr;
    if (master == nullptr) return {&stored, &entry};
    if (master->shape != entry.shape) {
      throw UserError(state->path_of(*master).string() + ": tensor " + in_quotes(master->name) +
                      " has another shape than the weight");
    }
    return {&*state, master};
  }
};

/// Opens what is read for weights of `type`, and checks it against the manifest.
Weights open_weights(const fs::path& checkpoint, std::optional<ElementType> type) {
  Manifest manifest = read_manifest(checkpoint);
  Weights weights{open_checkpoint(checkpoint), std::nullopt};
  if (!weights.stored.tensors().empty()) weights.type = weights.stored.tensors().front().type;
  if (weights.type == ElementType::bf16 && type.value_or(weights.type) != weights.type) {
    weights.state = open_checkpoint(checkpoint / kStateFolder, kOptimizerStem);
  } else {
    std::erase_if(manifest.files, [](const ManifestFile& file) {
      return file.name.starts_with(std::string(kStateFolder) + "/");
    });
  }
  verify_checksums(checkpoint, manifest);
  return weights;
}

/// Rounds to `type`, which has 16 bits. Throws UserError for a value beyond it.
void narrow(ElementType type, std::span<const float> wide, std::span<std::uint16_t> bits,
            const TensorEntry& entry, std::int64_t first) {
  const bool half = type == ElementType::f16;
  half ? narrow_f16(wide, bits) : narrow_bf16(wide, bits);
  const std::uint16_t infinity = half ? 0x7C00 : 0x7F80;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if ((bits[i] & 0x7FFF) != infinity || std::isinf(wide[i])) continue;
    throw UserError("tensor " + in_quotes(entry.name) + ", element " +
                    std::to_string(first + static_cast<std::int64_t>(i)) + ": " +
                    std::to_string(wide[i]) + " is beyond the largest " +
                    std::string(name_of(type)) + "; export as " + (half ? "bf16 or fp32" : "fp32"));
  }
}

/// Writes a tensor as it is stored.
void copy_tensor(const Checkpoint& from, const TensorEntry& entry, SafetensorsWriter& to) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(entry.size.count, 4 * kPiece)));
  for (Bytes at; at < entry.size; at += Bytes{std::ssize(bytes)}) {
    bytes.resize(static_cast<std::size_t>(std::min(std::ssize(bytes), (entry.size - at).count)));
    from.read_part(entry, at, bytes);
    to.write_part(entry.name, at, bytes);
  }
}

/// Writes a tensor as `type`, from its exact values.
void convert_tensor(const Weights& weights, const TensorEntry& entry, ElementType type,
                    SafetensorsWriter& to) {
  const auto [from, exact] = weights.exact(entry);
  std::vector<float> wide;
  std::vector<std::uint16_t> bits;
  for (std::int64_t first = 0; first < entry.numel(); first += kPiece) {
    wide.resize(static_cast<std::size_t>(std::min(kPiece, entry.numel() - first)));
    from->read_as_f32(*exact, first, wide);
    if (type == ElementType::f32) {
      to.write_part(entry.name, {4 * first}, std::as_bytes(std::span(wide)));
      continue;
    }
    bits.resize(wide.size());
    narrow(type, wide, bits, entry, first);
    to.write_part(entry.name, {2 * first}, std::as_bytes(std::span(bits)));
  }
}

}  // namespace

ExportedModel export_model(const fs::path& checkpoint, const fs::path& to,
                           std::optional<ElementType> type) {
  const Weights weights = open_weights(checkpoint, type);
  ExportedModel made;
  made.type = type.value_or(weights.type);
  std::vector<TensorDeclaration> declared;
  for (const TensorEntry& entry : weights.stored.tensors()) {
    declared.push_back({entry.name, made.type, entry.shape});
    made.size += entry.numel() * element_size(made.type);
  }
  made.tensors = declared.size();
  FreshFolder folder(to);
  SafetensorsWriter writer(to, "model", declared, kShardSize);
  for (const TensorEntry& entry : weights.stored.tensors()) {
    if (made.type == weights.type) {
      copy_tensor(weights.stored, entry, writer);
    } else {
      convert_tensor(weights, entry, made.type, writer);
    }
  }
  writer.commit();
  ModelFiles(checkpoint).write(to, made.type);
  folder.keep();
  return made;
}

}  // namespace ferry
