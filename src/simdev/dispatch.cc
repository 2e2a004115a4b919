#include "simdev/dispatch.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/kernel_team.h"
#include "simdev/backend.h"
#include "simdev/shapes.h"
#include "simdev/sim_machine.h"
#include "simdev/tensors.h"

namespace ferry {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// One call of an operator on a sim device.
struct Call {
  const c10::OperatorHandle& op;
  const c10::FunctionSchema& schema;
  std::vector<c10::IValue> inputs;
  int device;
  SimStream& stream;
};

std::string full_name(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// The device of the sim tensors among the inputs, or the one asked for. Tensors of other devices
/// are refused as CUDA does; numbers may be on the host.
int find_device(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& inputs) {
  int device = -1, asked_for = -1;
  for (const c10::IValue& input : inputs) {
    if (input.isDevice() && input.toDevice().type() == kSim) {
      asked_for = input.toDevice().has_index() ? input.toDevice().index() : current_device();
    }
    for_each_tensor(input, [&](const Tensor& tensor) {
      if (!is_sim(tensor)) {
        TORCH_CHECK(tensor.dim() == 0, full_name(schema), ": a tensor of sizes ", tensor.sizes(),
                    " is on ", tensor.device(), ", others are on a sim device");
        return;
      }
      const int index = tensor.device().index();
      TORCH_CHECK(device < 0 || device == index, full_name(schema), ": tensors are on sim:", device,
                  " and on sim:", index);
      device = index;
    });
  }
  if (device >= 0) return device;
  return asked_for >= 0 ? asked_for : current_device();
}

void run_cpu_kernel(const c10::OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

/// On a stream's thread. Whoever launches is on a core that kernels want, too. If each launch woke
/// kernels that take that core at once, none would ever be ahead of them.
void run_kernel_of_stream(const c10::OperatorHandle& op, Stack& stack) {
  thread_local bool waits_its_turn = false;
  if (!std::exchange(waits_its_turn, true)) wake_behind_others();
  run_cpu_kernel(op, stack);
}

Stack cpu_inputs(const Call& call) {
  Stack stack;
  for (const c10::IValue& input : call.inputs) {
    stack.push_back(map_tensors(input, c10::kCPU, cpu_alias));
  }
  return stack;
}

SimMachine::Ranges input_ranges(const Call& call) {
  SimMachine::Ranges ranges;
  if (!sim_machine().options().hazards) return ranges;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool write = is_written(call.schema.arguments()[i]);
    for_each_tensor(call.inputs[i], [&](const Tensor& tensor) {
      if (is_sim(tensor)) ranges.push_back(range_of(tensor, write));
    });
  }
  return ranges;
}

/// The output shapes, from the Meta kernel or the table of shapes.cc; nothing when there are
/// none, or when they depend on values. `why` then says so.
std::optional<std::vector<Tensor>> infer_outputs(const Call& call, std::string& why) {
  if (auto known = output_shapes(full_name(call.schema), call.inputs)) return known;
  Stack stack;
  for (const c10::IValue& input : call.inputs) {
    stack.push_back(map_tensors(input, c10::kMeta, meta_twin));
  }
  try {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const c10::NotImplementedError&) {
    why = "its output shapes are not known in advance";
    return std::nullopt;
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
    return std::nullopt;
  }
  std::vector<Tensor> outputs;
  for (const c10::IValue& value : stack) outputs.push_back(value.toTensor());
  return outputs;
}

// --- operators that write to their arguments -----------------------------------------------------

bool is_empty_output(const Call& call, std::size_t i) {
  return call.schema.arguments()[i].is_out() && call.inputs[i].isTensor() &&
         call.inputs[i].toTensor().numel() == 0;
}

/// out= calls may start from empty tensors that the operator gives their shape: does it in
/// advance. Returns false when the shape is not known in advance; `why` then says so.
bool shape_empty_outputs(const Call& call, std::string& why) {
  bool any_empty = false;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) any_empty |= is_empty_output(call, i);
  if (!any_empty) return true;
  const auto shapes = infer_outputs(call, why);
  if (!shapes) return false;
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.inputs.size() && next < shapes->size(); ++i) {
    if (!call.schema.arguments()[i].is_out()) continue;
    const Tensor& shape = (*shapes)[next++];
    if (is_empty_output(call, i)) call.inputs[i].toTensor().resize_(shape.sizes());
  }
  return true;
}

/// The input that a return aliases, e.g. self of an in-place operator.
c10::IValue aliased_input(const Call& call, const c10::Argument& returned) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const c10::AliasInfo* alias = call.schema.arguments()[i].alias_info();
    if (alias && alias->beforeSets() == returned.alias_info()->beforeSets()) return call.inputs[i];
  }
  TORCH_CHECK(false, full_name(call.schema), ": a return aliases no argument");
}

void run_in_place(const Call& call, Stack& results) {
  auto stack = std::make_shared<Stack>(cpu_inputs(call));
  SimMachine& machine = sim_machine();
  machine.count_async(call.device);
  machine.enqueue(call.stream, full_name(call.schema), input_ranges(call),
                  [op = call.op, stack] { run_kernel_of_stream(op, *stack); });
  for (const c10::Argument& returned : call.schema.returns()) {
    results.push_back(aliased_input(call, returned));
  }
}

// --- operators that return new tensors -----------------------------------------------------------
// Most operators are not among them: torch itself turns a structured operator into an allocation
// and its out= form, which comes here as one that writes to its arguments.

/// Runs the kernel and copies what it returns into `outputs`.
void run_and_copy(const c10::OperatorHandle& op, Stack& stack, const std::vector<Tensor>& outputs) {
  run_kernel_of_stream(op, stack);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    const Tensor& result = stack[i].toTensor();
    TORCH_CHECK(result.defined() && result.sizes() == outputs[i].sizes() &&
                    result.scalar_type() == outputs[i].scalar_type(),
                "the kernel returned another shape or dtype than was inferred");
    outputs[i].copy_(result);
  }
}

void run_fresh(const Call& call, const std::vector<Tensor>& shapes, Stack& results) {
  SimMachine& machine = sim_machine();
  SimMachine::Ranges ranges = input_ranges(call);
  std::vector<Tensor> outputs;
  for (const Tensor& shape : shapes) {
    Tensor output = shape.defined() ? empty_sim_like(shape, call.device) : Tensor();
    if (output.defined() && machine.options().hazards) ranges.push_back(range_of(output, true));
    outputs.push_back(cpu_alias(output));
    results.push_back(std::move(output));
  }
  auto stack = std::make_shared<Stack>(cpu_inputs(call));
  machine.count_async(call.device);
  machine.enqueue(call.stream, full_name(call.schema), ranges,
                  [op = call.op, stack, outputs] { run_and_copy(op, *stack, outputs); });
}

// --- operators that need their result now --------------------------------------------------------

/// Copies a host result to the device, in the order of its stream.
void copy_result(const Call& call, const Tensor& result, const Tensor& output) {
  sim_machine().enqueue(call.stream, full_name(call.schema), {range_of(output, true)},
                        [to = cpu_alias(output), result] {
                          const at::AutoDispatchBelowADInplaceOrView below_autograd;
                          to.copy_(result);
                        });
}

Tensor to_device(const Call& call, const Tensor& result) {
  if (!result.defined()) return result;
  const Tensor output = empty_sim_like(result, call.device);
  copy_result(call, result, output);
  return output;
}

/// Gives the i-th input, an empty output, the shape and the bytes of a host result.
void fill_output(const Call& call, const Tensor& result, std::size_t i) {
  const Tensor& output = call.inputs[i].toTensor();
  output.resize_(result.sizes());
  copy_result(call, result, output);
}

void run_drained(const Call& call, const std::string& why, Stack& results) {
  SimMachine& machine = sim_machine();
  machine.count_drain(call.device, full_name(call.schema), why);
  if (machine.options().hazards) {
    machine.detector().access(call.stream.actor, full_name(call.schema), "", input_ranges(call),
                              host_actor());
  }
  machine.wait_stream(call.stream);
  Stack stack = cpu_inputs(call);
  Stack shaped;  // what the kernel gives its shape: host tensors that can grow
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!is_empty_output(call, i)) continue;
    stack[i] = at::empty({0}, stack[i].toTensor().options());
    shaped.push_back(stack[i]);
  }
  run_cpu_kernel(call.op, stack);
  for (std::size_t i = 0, next = 0; i < call.inputs.size(); ++i) {
    if (is_empty_output(call, i)) fill_output(call, shaped[next++].toTensor(), i);
  }
  for (std::size_t i = 0; i < call.schema.returns().size(); ++i) {
    const c10::Argument& returned = call.schema.returns()[i];
    if (returned.alias_info()) {
      results.push_back(aliased_input(call, returned));
    } else {
      results.push_back(map_tensors(stack[i], c10::kCPU,
                                    [&](const Tensor& result) { return to_device(call, result); }));
    }
  }
}

// --- the fallback --------------------------------------------------------------------------------

enum class Form { kInPlace, kFresh, kOther };

Form form_of(const c10::FunctionSchema& schema) {
  bool all_alias = true, all_fresh_tensors = true, writes = false;
  for (const c10::Argument& argument : schema.arguments()) writes = writes || is_written(argument);
  for (const c10::Argument& returned : schema.returns()) {
    if (returned.alias_info()) {
      TORCH_CHECK(returned.alias_info()->isWrite(), "a sim device has no view operator ",
                  full_name(schema));
      all_fresh_tensors = false;
    } else {
      all_alias = false;
      if (returned.type()->kind() != c10::TypeKind::TensorType) all_fresh_tensors = false;
    }
  }
  if (writes && all_alias) return Form::kInPlace;
  if (!writes && all_fresh_tensors && !schema.returns().empty()) return Form::kFresh;
  return Form::kOther;
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  std::vector<c10::IValue> inputs(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const int device = find_device(schema, inputs);
  const Call call{op, schema, std::move(inputs), device, current_stream(device)};

  Stack results;
  std::string why = "it returns values to the host";
  switch (form_of(schema)) {
    case Form::kInPlace:
      if (shape_empty_outputs(call, why)) {
        run_in_place(call, results);
      } else {
        run_drained(call, why, results);
      }
      break;
    case Form::kFresh:
      if (const auto shapes = infer_outputs(call, why)) {
        run_fresh(call, *shapes, results);
      } else {
        run_drained(call, why, results);
      }
      break;
    case Form::kOther:
      run_drained(call, why, results);
  }
  torch::jit::drop(*stack, count);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace

void register_fallback() {
  static torch::Library everything(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1,
                                   __FILE__, __LINE__);
  everything.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  // A composite kernel of these would win over the fallback and give other numbers than the CPU's.
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                             __LINE__);
  for (const char* name : {"native_layer_norm", "silu_backward", "embedding"}) {
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

}  // namespace ferry
