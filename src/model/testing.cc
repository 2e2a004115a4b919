#include "model/testing.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace ferry {
namespace {

// torch's callbacks carry no state of ours into their start, so the list is the thread's.
thread_local std::vector<Call> recorded_calls;

std::unique_ptr<at::ObserverContext> record(const at::RecordFunction& function) {
  Call call{.name = function.name(), .sizes = {}};
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor() && value.toTensor().defined()) {
      call.sizes.push_back(value.toTensor().sizes().vec());
    }
  }
  recorded_calls.push_back(std::move(call));
  return nullptr;
}

/// These tensors are too small for two threads to help, and waiting threads hinder other tests.
struct OneThread : testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace

ModelSpec small_model(const std::string& family, const std::string& more) {
  return parse_model_spec(R"({"model_type": ")" + family + R"(", "vocab_size": 50,
      "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64)" +
                              more + "}",
                          "test");
}

std::vector<at::Tensor> random_weights(const BlockSpec& block, at::ScalarType type) {
  std::vector<at::Tensor> weights;
  for (const ParamSpec& param : block.params) {
    const bool matrix = param.shape.size() == 2;
    const bool bias = param.name.ends_with("bias");
    const double spread = matrix ? 0.2 : 0.3;
    weights.push_back((at::randn(param.shape) * spread + (matrix || bias ? 0.0 : 1.0)).to(type));
  }
  return weights;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor reference = b.to(at::kDouble);
  return ((a.to(at::kDouble) - reference).norm() / reference.norm()).item<double>();
}

CallRecorder::CallRecorder() {
  recorded_calls.clear();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&record).needsInputs(true));
}

CallRecorder::~CallRecorder() { at::removeCallback(handle_); }

std::vector<Call> CallRecorder::calls() const { return recorded_calls; }

}  // namespace ferry
