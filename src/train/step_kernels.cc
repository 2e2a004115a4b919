#include "train/step_kernels.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "train/operator_count.h"
#include "train/step_kernel_source.h"

namespace ferry {
namespace {

using Half = unsigned short;

template <typename T>
T* data(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

/// The data of a tensor of that type; null when it is of another.
template <typename T>
T* data_if(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() && tensor.scalar_type() == type ? data<T>(tensor) : nullptr;
}

std::unique_ptr<KernelLibrary> load_kernels(int index, const KernelFile& file) {
  const CudaDriver driver = CudaDriver::load();
  const Nvrtc compiler = Nvrtc::of_torch();
  const std::string architecture = architecture_of(driver, index);
  const KernelSource source{kStepKernels, step_kernel_options()};
  const KernelCode code = kernel_code(source, architecture, compiler, file);
  try {
    return std::make_unique<KernelLibrary>(driver, index, code.cubin);
  } catch (const ResourceError&) {
    if (code.file.empty()) throw;
  }
  // What was kept is of no use: compiled anew.
  return std::make_unique<KernelLibrary>(driver, index,
                                         kernel_code(source, architecture, compiler, {}).cubin);
}

}  // namespace

std::unique_ptr<StepKernels> StepKernels::open(const Device& device, const KernelFile& file,
                                               PhaseListener& listener) {
  if (device.simulated()) return nullptr;
  const c10::Device where = device.torch_device();
  try {
    return std::make_unique<StepKernels>(load_kernels(where.index(), file), [where] {
      return c10::impl::VirtualGuardImpl(where.type()).getStream(where).native_handle();
    });
  } catch (const ResourceError& error) {
    listener.phase(device.name() +
                   ": updates and sums by torch's operations, slower than kernels of our own: " +
                   error.what());
    return nullptr;
  }
}

StepKernels::StepKernels(std::unique_ptr<KernelLibrary> library, CurrentStream stream)
    : library_(std::move(library)), stream_(std::move(stream)) {}

template <typename... Parameters>
void StepKernels::launch(const char* kernel, std::int64_t threads, Parameters... parameters) const {
  OperatorCount::note_launch();
  library_->launch(stream_(), kernel, threads, parameters...);
}

void StepKernels::adamw(const AdamWFactors& f, const DeviceState& s,
                        const at::Tensor& scale) const {
  const bool split = s.lo.defined();
  const std::int64_t numel = s.m.numel();
  FERRY_CHECK(s.weight.numel() == numel && s.v.numel() == numel && s.gradient.numel() == numel,
              "the parts of a state have one length");
  launch("adamw", numel, split ? data<Half>(s.weight) : nullptr, data<Half>(s.lo),
         split ? nullptr : data<float>(s.weight), data<float>(s.m), data<float>(s.v),
         data_if<const float>(s.gradient, at::kFloat),
         data_if<const Half>(s.gradient, at::kBFloat16), static_cast<int>(s.rounds),
         data<const float>(scale), f.keep, f.beta1, f.one_minus_beta1, f.beta2, f.one_minus_beta2,
         f.inverse_root_bias2, f.eps, f.step_size, static_cast<long long>(numel));
}

at::Tensor StepKernels::add_gradient(const at::Tensor& sum, const at::Tensor& gradient, bool adds,
                                     bool squares) const {
  FERRY_CHECK(sum.scalar_type() == at::kFloat && sum.is_contiguous(), "a sum is fp32, contiguous");
  FERRY_CHECK(!gradient.defined() || (gradient.numel() == sum.numel() && gradient.is_contiguous() &&
                                      (gradient.scalar_type() == at::kFloat ||
                                       gradient.scalar_type() == at::kBFloat16)),
              "a gradient is as its sum, in fp32 or bf16");
  const std::int64_t columns = (sum.numel() + kSquaresPerSum - 1) / kSquaresPerSum;
  const at::Tensor parts =
      squares ? at::empty({columns}, sum.options().dtype(at::kDouble)) : at::Tensor();
  const std::int64_t eights = (sum.numel() + kFusedGroup - 1) / kFusedGroup;
  launch("add_gradient", squares ? columns : eights, data<float>(sum),
         data_if<const float>(gradient, at::kFloat), data_if<const Half>(gradient, at::kBFloat16),
         static_cast<int>(adds), data<double>(parts), static_cast<long long>(sum.numel()));
  return parts;
}

void StepKernels::add_squares(at::Tensor parts, const at::Tensor& total) const {
  FERRY_CHECK(total.scalar_type() == at::kDouble && total.numel() == 1, "a total is one fp64");
  for (bool last = parts.numel() <= kSquaresPerSum;; last = parts.numel() <= kSquaresPerSum) {
    const std::int64_t groups = (parts.numel() + kSquaresPerSum - 1) / kSquaresPerSum;
    const at::Tensor sums = last ? total : at::empty({groups}, parts.options());
    launch("add_squares", groups, data<const double>(parts), data<double>(sums),
           static_cast<int>(last), static_cast<long long>(parts.numel()));
    if (last) return;
    parts = sums;
  }
}

at::Tensor StepKernels::swiglu(const at::Tensor& gate, const at::Tensor& up) const {
  FERRY_CHECK(up.numel() == gate.numel(), "gate and up have one size");
  const at::Tensor y = at::empty_like(gate);
  const std::int64_t eights = gate.numel() / kFusedGroup;
  launch("swiglu", eights, data<const Half>(gate), data<const Half>(up), data<Half>(y),
         static_cast<long long>(eights));
  return y;
}

std::pair<at::Tensor, at::Tensor> StepKernels::swiglu_backward(const at::Tensor& dy,
                                                               const at::Tensor& gate,
                                                               const at::Tensor& up) const {
  FERRY_CHECK(dy.numel() == gate.numel() && up.numel() == gate.numel(),
              "gate, up and their product's gradient have one size");
  std::pair<at::Tensor, at::Tensor> found{at::empty_like(gate), at::empty_like(up)};
  const std::int64_t eights = gate.numel() / kFusedGroup;
  launch("swiglu_backward", eights, data<const Half>(dy), data<const Half>(gate),
         data<const Half>(up), data<Half>(found.first), data<Half>(found.second),
         static_cast<long long>(eights));
  return found;
}

at::Tensor StepKernels::rotate(const at::Tensor& x, const at::Tensor& cosine,
                               const at::Tensor& sine, int sign) const {
  const std::int64_t length = x.size(1), heads = x.size(2), half = x.size(3) / 2;
  const std::int64_t groups = half / kFusedGroup, count = x.numel() / (2 * kFusedGroup);
  FERRY_CHECK(cosine.numel() == length * half && sine.numel() == length * half,
              "a row of the table for every token of a row");
  FERRY_CHECK(count <= std::numeric_limits<std::int32_t>::max(),
              "rotate() counts groups of 16 elements in 32 bits");
  const at::Tensor y = at::empty_like(x);
  launch("rotate", count, data<const Half>(x), data<const Half>(cosine), data<const Half>(sine),
         data<Half>(y), static_cast<unsigned>(heads), static_cast<unsigned>(groups),
         static_cast<unsigned>(length), static_cast<float>(sign), static_cast<long long>(count));
  return y;
}

at::Tensor StepKernels::cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                      std::optional<double> scale) const {
  const std::int64_t rows = logits.size(0), eights = logits.size(1) / kFusedGroup;
  FERRY_CHECK(logits.is_contiguous() && logits.size(1) % kFusedGroup == 0,
              "rows of logits are whole groups");
  FERRY_CHECK(labels.is_contiguous() && labels.scalar_type() == at::kLong && labels.numel() == rows,
              "one label per row");
  const at::Tensor losses = at::empty({rows}, logits.options().dtype(at::kFloat));
  launch("cross_entropy", rows * KernelLibrary::kBlockThreads, data<Half>(logits),
         data<const long long>(labels), static_cast<int>(scale.has_value()),
         static_cast<float>(scale.value_or(0)), data<float>(losses), static_cast<long long>(eights),
         static_cast<long long>(rows));
  return losses;
}

}  // namespace ferry
