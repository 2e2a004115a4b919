// Small models and their random weights for the tests of this folder, and what calls they make.
#pragma once

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// A model of one layer: hidden 32, 4 heads, vocabulary 50, 64 positions and, in the families that
/// know these keys, 2 heads for keys and an MLP of 48. `more` is added to its config.json.
ModelSpec small_model(const std::string& family, const std::string& more = "");

/// Random weights for a block, norms near one and biases away from zero.
std::vector<at::Tensor> random_weights(const BlockSpec& block, at::ScalarType type = at::kFloat);

/// norm(a - b) / norm(b), in double.
double relative_error(const at::Tensor& a, const at::Tensor& b);

/// One operator that was called.
struct Call {
  std::string name;                              // "aten::mm"
  std::vector<std::vector<std::int64_t>> sizes;  // of its tensor arguments
};

/// Records the operators that this thread calls during its life.
class CallRecorder {
 public:
  CallRecorder();
  ~CallRecorder();
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  std::vector<Call> calls() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace ferry
