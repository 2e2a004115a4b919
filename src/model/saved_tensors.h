// What autograd keeps between a forward and its backward, laid into memory of the caller's instead
// of torch's. What lies in an input is not copied: the caller has it again in backward, perhaps
// elsewhere.
//
// One thread records and takes gradients; streams order the copies, nothing waits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"

namespace ferry {

class SavedTensors {
 public:
  /// Every store begins at a multiple of it.
  static constexpr Bytes kAlignment{64};

  /// Where a tensor is found again.
  struct Kept {
    int input = -1;          // the input it lies in; -1: the slot
    Bytes begin = {};        // slot: of its store
    Bytes size = {};         // slot: of its store
    std::int64_t first = 0;  // elements from there
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    at::ScalarType type = at::kFloat;
    at::Tensor itself;  // what has no bytes on the device
  };

  /// `slot` is a byte tensor; an undefined one only counts what it would have to hold.
  /// Requires: inputs are contiguous.
  SavedTensors(at::Tensor slot, std::vector<at::Tensor> inputs);

  /// Enqueues the copy of a tensor's storage to the slot, once per storage, strides and all. The
  /// tensor is not held. Throws ResourceError when the slot is too small.
  Kept keep(const at::Tensor& tensor);

  /// What the slot must hold for all that was kept.
  Bytes size() const { return end_; }

  /// Forgets slot and inputs: nothing more is kept.
  void seal();

  /// Slot and inputs as they are now, for restore().
  void bind(at::Tensor slot, std::vector<at::Tensor> inputs);
  at::Tensor restore(const Kept& kept) const;

 private:
  struct Store {
    // Weak: the storage's memory is free for others at once, its address is not taken for
    // another's.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    Bytes begin;
    Bytes size;
  };

  const Store& store(const at::Tensor& tensor);

  at::Tensor slot_;
  std::vector<at::Tensor> inputs_;
  std::vector<Store> stores_;
  Bytes end_;
};

/// While it lives, what autograd keeps on this thread goes to `tensors`.
class SavingInto {
 public:
  explicit SavingInto(std::shared_ptr<SavedTensors> tensors);
  ~SavingInto();
  SavingInto(const SavingInto&) = delete;
  SavingInto& operator=(const SavingInto&) = delete;
};

}  // namespace ferry
