#include "model/saved_tensors.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

// torch asks its engine for hooks, without saying for whom: so the answer is the thread's.
thread_local std::shared_ptr<SavedTensors> recording;

class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(std::shared_ptr<SavedTensors> tensors) : tensors_(std::move(tensors)) {}
  void call_pack_hook(const at::Tensor& tensor) override { kept_ = tensors_->keep(tensor); }
  at::Tensor call_unpack_hook() override { return tensors_->restore(kept_); }

 private:
  const std::shared_ptr<SavedTensors> tensors_;
  SavedTensors::Kept kept_;
};

/// torch's engine, but for threads that record: Python's saved-tensor hooks come this way too.
class SavingEngine final : public torch::autograd::Engine {
 public:
  static void install() { torch::autograd::set_default_engine_stub(&SavingEngine::only); }

  ~SavingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return recording ? std::make_unique<Hooks>(recording) : nullptr;
  }

 private:
  static torch::autograd::Engine& only() {
    static SavingEngine engine;
    return engine;
  }
};

/// Elements from the input's first to the tensor's first, if the tensor lies in the input.
std::optional<std::int64_t> place_in(const at::Tensor& input, const at::Tensor& tensor) {
  const auto* begin = static_cast<const char*>(input.const_data_ptr());
  const auto* first = static_cast<const char*>(tensor.const_data_ptr());
  if (first < begin || first >= begin + input.nbytes()) return std::nullopt;
  FERRY_CHECK(tensor.scalar_type() == input.scalar_type(), "an input is viewed as another type");
  return (first - begin) / static_cast<std::int64_t>(input.element_size());
}

}  // namespace

SavedTensors::SavedTensors(at::Tensor slot, std::vector<at::Tensor> inputs) {
  bind(std::move(slot), std::move(inputs));
}

void SavedTensors::bind(at::Tensor slot, std::vector<at::Tensor> inputs) {
  for (const at::Tensor& input : inputs) {
    FERRY_CHECK(input.is_contiguous(), "inputs of a recorded forward are contiguous");
  }
  slot_ = std::move(slot);
  inputs_ = std::move(inputs);
}

void SavedTensors::seal() {
  slot_ = at::Tensor();
  inputs_.clear();
  stores_.clear();
}

SavedTensors::Kept SavedTensors::keep(const at::Tensor& tensor) {
  Kept kept{.sizes = tensor.sizes().vec(),
            .strides = tensor.strides().vec(),
            .type = tensor.scalar_type(),
            .itself = {}};
  // Attention keeps a random state, on the host or empty, even without dropout.
  if (tensor.device() != inputs_.front().device() || tensor.numel() == 0) {
    kept.itself = tensor;
    return kept;
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (const auto first = place_in(inputs_[i], tensor)) {
      kept.input = static_cast<int>(i);
      kept.first = *first;
      return kept;
    }
  }
  const Store& there = store(tensor);
  kept.begin = there.begin;
  kept.size = there.size;
  kept.first = tensor.storage_offset();
  return kept;
}

const SavedTensors::Store& SavedTensors::store(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const auto known = std::ranges::find_if(stores_, [&](const Store& store) {
    return store.storage._unsafe_get_target() == storage.unsafeGetStorageImpl();
  });
  if (known != stores_.end()) return *known;

  const Bytes begin = round_up(end_, kAlignment);
  const Bytes size{static_cast<std::int64_t>(storage.nbytes())};
  end_ = begin + size;
  stores_.push_back({storage.getWeakStorageImpl(), begin, size});
  if (!slot_.defined()) return stores_.back();

  if (end_.count > slot_.numel()) {
    throw ResourceError("what forward keeps for backward takes more than the " +
                        to_string(Bytes{slot_.numel()}) +
                        " of its slot: the plan's profile is of another torch, model or batch");
  }
  const at::NoGradGuard no_graph;
  const auto elements = size.count / static_cast<std::int64_t>(tensor.element_size());
  // As bytes: not every type that kernels keep can be copied as itself.
  slot_.narrow(0, begin.count, size.count)
      .copy_(tensor.detach().as_strided({elements}, {1}, 0).view(at::kByte));
  return stores_.back();
}

at::Tensor SavedTensors::restore(const Kept& kept) const {
  if (kept.itself.defined()) return kept.itself;
  const at::NoGradGuard no_graph;
  const at::Tensor base = kept.input >= 0
                              ? inputs_[static_cast<std::size_t>(kept.input)]
                              : slot_.narrow(0, kept.begin.count, kept.size.count).view(kept.type);
  return base.as_strided(kept.sizes, kept.strides, base.storage_offset() + kept.first);
}

SavingInto::SavingInto(std::shared_ptr<SavedTensors> tensors) {
  FERRY_CHECK(!recording, "one recording per thread at a time");
  SavingEngine::install();
  recording = std::move(tensors);
}

SavingInto::~SavingInto() { recording.reset(); }

}  // namespace ferry
