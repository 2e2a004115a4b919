#include "train/checkpoints.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/float_formats.h"
#include "data/model_folder.h"
#include "data/safetensors.h"
#include "data/safetensors_writer.h"
#include "optim/worker_team.h"
#include "train/weight_tensors.h"

namespace ferry {
namespace {

/// How the optimizer's file names a part of a parameter.
std::string part_name(const std::string& param, StatePart part) {
  switch (part) {
    case StatePart::master:
      return param + kMasterSuffix;
    case StatePart::exp_avg:
      return param + ".exp_avg";
    case StatePart::exp_avg_sq:
      return param + ".exp_avg_sq";
  }
  return param;
}

ElementType type_of_weights(Precision precision) {
  return precision == Precision::bf16 ? ElementType::bf16 : ElementType::f32;
}

/// The parts kept in the optimizer's file; in fp32 the weights themselves are the master.
std::vector<StatePart> parts_kept(Precision precision) {
  if (precision == Precision::fp32) return {StatePart::exp_avg, StatePart::exp_avg_sq};
  return {StatePart::master, StatePart::exp_avg, StatePart::exp_avg_sq};
}

template <typename Visit>
void for_each_param(const ModelSpec& model, const Visit& visit) {
  for (const BlockId b : model.blocks.ids()) {
    const auto& params = model.blocks[b].params;
    for (std::size_t i = 0; i < params.size(); ++i) visit(ParamPosition{b, i}, params[i]);
  }
}

/// "[12, 7]": where element `element` of a tensor is.
std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t element) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = index.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return shape_text(index);
}

/// A value that no run can begin with: it is not finite, or its bf16 half would not be.
UserError unusable(const Checkpoint& from, const TensorEntry& entry, std::int64_t element,
                   float value) {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%g", value);
  const std::string found = from.path_of(entry).string() + ": tensor '" + entry.name + "' is " +
                            number.data() + " at " + index_text(entry.shape, element);
  return UserError(std::isfinite(value)
                       ? found +
                             ", an infinity in bf16; expected numbers below 3.396e38\n  try: "
                             "train.precision: fp32"
                       : found + "; expected finite numbers\n  try: a sound copy of the file");
}

/// Moves parameters between files and their homes, piece by piece.
class Pieces {
 public:
  /// `count` counts bytes in files and must outlive it. `threads`: for reading.
  Pieces(const ModelSpec& model, int threads, ProgressCount& count)
      : count_(count), team_(std::clamp(threads, 1, kMostThreads)) {
    std::int64_t longest = 0;
    for_each_param(model, [&](const ParamPosition&, const ParamSpec& param) {
      longest = std::max(longest, param.numel());
    });
    values_.resize(static_cast<std::size_t>(std::min(longest, kElements)));
  }

  /// Reads one part of a parameter. Throws UserError for another shape, or a value that is not
  /// finite, or not in bf16 where the run computes in it.
  void read(const Checkpoint& from, const TensorEntry& entry, const ParamSpec& param,
            StatePart part, ParamPosition at, HomeStates& to) {
    require_shape(from, entry, param);
    const bool has_half = to.are_split() && part == StatePart::master;
    const bool in_dram = to.in_dram(at.block);
    for_each(param.numel(), [&](std::int64_t first, std::size_t count) {
      const auto values = std::span(values_).first(count);
      std::vector<std::optional<std::size_t>> bad((count + kOfAThread - 1) / kOfAThread);
      team_.for_each(bad.size(), [&](std::size_t i) {
        const std::size_t begin = i * kOfAThread;
        const auto here = values.subspan(begin, std::min(kOfAThread, count - begin));
        const std::int64_t element = first + static_cast<std::int64_t>(begin);
        from.read_as_f32(entry, element, here);
        bad[i] = has_half ? first_beyond_bf16(here) : first_not_finite(here);
        if (in_dram && !bad[i]) to.write(part, {at.block, at.param, element}, here);
      });
      for (std::size_t i = 0; i < bad.size(); ++i) {
        if (!bad[i]) continue;
        const std::size_t found = i * kOfAThread + *bad[i];
        throw unusable(from, entry, first + static_cast<std::int64_t>(found), values[found]);
      }
      at.element = first;
      if (!in_dram) to.write(part, at, values);
      count_.advance(element_size(entry.type).count * std::ssize(values));
    });
  }

  /// Both moments of a parameter become zero.
  void clear_moments(const ParamPosition& at, std::int64_t elements, HomeStates& to) {
    const auto clear = [&](std::int64_t first, std::int64_t count) {
      for (const StatePart part : {StatePart::exp_avg, StatePart::exp_avg_sq}) {
        to.clear_moment(part, {at.block, at.param, first}, count);
      }
    };
    if (!to.in_dram(at.block)) return clear(0, elements);
    const auto parts = static_cast<std::size_t>((elements + kElements - 1) / kElements);
    team_.for_each(parts, [&](std::size_t i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * kElements;
      clear(first, std::min(kElements, elements - first));
    });
  }

  /// Writes one part of a parameter as the F32 tensor `name`.
  void write(const HomeStates& from, StatePart part, ParamPosition at, const ParamSpec& param,
             const std::string& name, SafetensorsWriter& to) {
    for_each(param.numel(), [&](std::int64_t first, std::size_t count) {
      const auto values = std::span(values_).first(count);
      at.element = first;
      from.read(part, at, values);
      to.write_part(name, {4 * first}, std::as_bytes(values));
      count_.advance(4 * std::ssize(values));
    });
  }

  /// Writes a parameter's bf16 halves as a BF16 tensor.
  void write_hi(const HomeStates& from, ParamPosition at, const ParamSpec& param,
                SafetensorsWriter& to) {
    halves_.resize(values_.size());
    for_each(param.numel(), [&](std::int64_t first, std::size_t count) {
      const auto halves = std::span(halves_).first(count);
      at.element = first;
      from.read_hi(at, halves);
      to.write_part(param.name, {2 * first}, std::as_bytes(halves));
      count_.advance(2 * std::ssize(halves));
    });
  }

 private:
  // A value, and as much again for its halves or for what comes from a device.
  static constexpr std::int64_t kElements = kPieceMemory.count / 8;
  static constexpr int kMostThreads = 8;
  static constexpr std::size_t kOfAThread = kElements / kMostThreads;

  template <typename Visit>
  void for_each(std::int64_t elements, const Visit& visit) {
    for (std::int64_t first = 0; first < elements; first += std::ssize(values_)) {
      const auto count = std::min(elements - first, std::ssize(values_));
      visit(first, static_cast<std::size_t>(count));
    }
  }

  ProgressCount& count_;
  WorkerTeam team_;
  std::vector<float> values_;
  std::vector<std::uint16_t> halves_;
};

/// Where a run's master weight of a parameter is: in the optimizer's file, or the weight itself.
struct MasterPlace {
  const Checkpoint* checkpoint;
  const TensorEntry* entry;
};

MasterPlace master_of(const Checkpoint& weights, const Checkpoint& optimizer,
                      const ModelSpec& model, const ParamSpec& param) {
  const TensorEntry& weight = weight_of(weights, model, param);
  const TensorEntry* master = optimizer.find(part_name(param.name, StatePart::master));
  if (master != nullptr) return {&optimizer, master};
  return {&weights, &weight};
}

void write_model(const CheckpointContents& contents, const std::filesystem::path& folder,
                 Pieces& pieces) {
  const bool split = contents.precision == Precision::bf16;
  std::vector<TensorDeclaration> declared;
  for_each_param(contents.model, [&](const ParamPosition&, const ParamSpec& param) {
    declared.push_back({param.name, type_of_weights(contents.precision), param.shape});
  });
  SafetensorsWriter writer(folder, "model", declared, kShardSize);
  for_each_param(contents.model, [&](const ParamPosition& at, const ParamSpec& param) {
    if (split) {
      pieces.write_hi(contents.states, at, param, writer);
    } else {
      pieces.write(contents.states, StatePart::master, at, param, param.name, writer);
    }
  });
  writer.commit();
}

/// Of weights and optimizer together.
Bytes tensor_bytes(const ModelSpec& model, Precision precision) {
  const Bytes element = element_size(type_of_weights(precision)) +
                        std::ssize(parts_kept(precision)) * element_size(ElementType::f32);
  return parameters(model) * element;
}

void write_optimizer(const CheckpointContents& contents, const std::filesystem::path& folder,
                     Pieces& pieces) {
  const auto parts = parts_kept(contents.precision);
  std::vector<TensorDeclaration> declared;
  for_each_param(contents.model, [&](const ParamPosition&, const ParamSpec& param) {
    for (const StatePart part : parts) {
      declared.push_back({part_name(param.name, part), ElementType::f32, param.shape});
    }
  });
  SafetensorsWriter writer(folder, kOptimizerStem, declared, kShardSize);
  for_each_param(contents.model, [&](const ParamPosition& at, const ParamSpec& param) {
    for (const StatePart part : parts) {
      pieces.write(contents.states, part, at, param, part_name(param.name, part), writer);
    }
  });
  writer.commit();
}

}  // namespace

void load_pretrained(const ModelSpec& model, const std::filesystem::path& folder, int threads,
                     HomeStates& states, PhaseListener& listener) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  require_tied_head(checkpoint, model);
  tell_unknown_tensors(checkpoint, model, listener);
  Bytes total;
  for_each_param(model, [&](const ParamPosition&, const ParamSpec& param) {
    total += weight_of(checkpoint, model, param).size;
  });
  ProgressCount count(listener, "loading " + folder.string(), total.count);
  Pieces pieces(model, threads, count);
  for_each_param(model, [&](const ParamPosition& at, const ParamSpec& param) {
    pieces.read(checkpoint, weight_of(checkpoint, model, param), param, StatePart::master, at,
                states);
    pieces.clear_moments(at, param.numel(), states);
  });
}

Manifest load_checkpoint(const ModelSpec& model, const std::filesystem::path& folder, int threads,
                         HomeStates& states, PhaseListener& listener) {
  Manifest manifest = read_manifest(folder);
  verify_checksums(folder, manifest, listener);
  const Checkpoint weights = open_checkpoint(folder);
  const Checkpoint optimizer = open_checkpoint(folder / kStateFolder, kOptimizerStem);
  Bytes total;
  for_each_param(model, [&](const ParamPosition&, const ParamSpec& param) {
    total += master_of(weights, optimizer, model, param).entry->size;
    for (const StatePart part : {StatePart::exp_avg, StatePart::exp_avg_sq}) {
      total += optimizer.at(part_name(param.name, part)).size;
    }
  });
  ProgressCount count(listener, "loading " + folder.string(), total.count);
  Pieces pieces(model, threads, count);
  for_each_param(model, [&](const ParamPosition& at, const ParamSpec& param) {
    const MasterPlace master = master_of(weights, optimizer, model, param);
    pieces.read(*master.checkpoint, *master.entry, param, StatePart::master, at, states);
    for (const StatePart part : {StatePart::exp_avg, StatePart::exp_avg_sq}) {
      pieces.read(optimizer, optimizer.at(part_name(param.name, part)), param, part, at, states);
    }
  });
  return manifest;
}

std::filesystem::path save_checkpoint(const CheckpointContents& contents, const SavedSteps& saved,
                                      PhaseListener& listener) {
  UnsavedStep step = saved.begin(contents.manifest.step);
  const std::filesystem::path state = step.folder() / kStateFolder;
  ProgressCount count(listener, "saving a checkpoint",
                      tensor_bytes(contents.model, contents.precision).count);
  Pieces pieces(contents.model, /*threads=*/1, count);
  write_model(contents, step.folder(), pieces);
  write_optimizer(contents, state, pieces);
  contents.model_files.write(step.folder(), type_of_weights(contents.precision));
  return saved.commit(std::move(step), contents.manifest, contents.last_good, listener);
}

}  // namespace ferry
