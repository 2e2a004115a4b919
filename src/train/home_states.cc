#include "train/home_states.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "optim/split.h"

namespace ferry {
namespace {

template <typename T>
std::span<T> elements(const at::Tensor& cpu) {
  return {static_cast<T*>(cpu.data_ptr()), static_cast<std::size_t>(cpu.numel())};
}

/// `home` itself in DRAM; for one on a device a tensor in DRAM, to be copied there.
at::Tensor writable_here(const at::Tensor& home) {
  return home.is_cpu() ? home : at::empty(home.sizes(), home.options().device(at::kCPU));
}

}  // namespace

HomeStates::HomeStates(const ModelSpec& model, const Plan& plan, const Binding& binding)
    : model_(model), plan_(plan), binding_(binding), homes_(plan.blocks.size()) {
  for (const BlockSpec& block : model.blocks) layouts_.push_back(layout_of(block));
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    if (!instance.home) continue;
    const Value& value = plan.values[instance.value];
    Home& home = homes_[value.block];
    (value.kind == ValueKind::weight ? home.weight : home.state) = id;
  }
}

at::Tensor HomeStates::flat(InstanceId id, Bytes params, const ParamPosition& begin,
                            std::size_t count, at::ScalarType type) const {
  FERRY_CHECK(id.valid(), "a trainable block has its weights and states at home");
  const ParamSpec& param = model_.blocks[begin.block].params[begin.param];
  const auto length = static_cast<std::int64_t>(count);
  FERRY_CHECK(begin.element >= 0 && begin.element + length <= param.numel(),
              param.name + ": a range outside the parameter");
  const std::int64_t offset = layouts_[begin.block].offsets[begin.param] + begin.element;
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  return binding_.view(id, params + Bytes{offset * element}, {length}, type);
}

at::Tensor HomeStates::moment(StatePart part, const ParamPosition& begin, std::size_t count) const {
  const std::int64_t elements = layouts_[begin.block].elements;
  const Bytes first{plan_.precision == Precision::bf16 ? elements * 2 : 0};
  const Bytes params = part == StatePart::exp_avg ? first : first + Bytes{elements * 4};
  return flat(homes_[begin.block].state, params, begin, count, at::kFloat);
}

at::Tensor HomeStates::lo(const ParamPosition& begin, std::size_t count) const {
  return flat(homes_[begin.block].state, {}, begin, count, at::kShort);
}

at::Tensor HomeStates::weight(const ParamPosition& begin, std::size_t count) const {
  // bf16 halves travel as 16-bit integers: no conversion may touch their patterns.
  return flat(homes_[begin.block].weight, {}, begin, count,
              plan_.precision == Precision::bf16 ? at::kShort : at::kFloat);
}

void HomeStates::write(StatePart part, const ParamPosition& begin, std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const at::Tensor source =
      at::from_blob(const_cast<float*>(values.data()), {count}, at::TensorOptions(at::kFloat));
  if (part != StatePart::master) {
    moment(part, begin, values.size()).copy_(source);
    return;
  }
  if (plan_.precision == Precision::fp32) {
    weight(begin, values.size()).copy_(source);
    return;
  }
  const at::Tensor high_home = weight(begin, values.size()), low_home = lo(begin, values.size());
  const at::Tensor high = writable_here(high_home), low = writable_here(low_home);
  const auto hi = elements<std::uint16_t>(high), bottom = elements<std::uint16_t>(low);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    hi[i] = split_hi(bits);
    bottom[i] = split_lo(bits);
  }
  if (!high.is_same(high_home)) high_home.copy_(high);
  if (!low.is_same(low_home)) low_home.copy_(low);
}

void HomeStates::read(StatePart part, const ParamPosition& begin, std::span<float> values) const {
  const std::size_t count = values.size();
  if (part != StatePart::master || plan_.precision == Precision::fp32) {
    const at::Tensor cpu =
        (part == StatePart::master ? weight(begin, count) : moment(part, begin, count)).cpu();
    std::ranges::copy(elements<const float>(cpu), values.begin());
    return;
  }
  const at::Tensor high = weight(begin, count).cpu(), low = lo(begin, count).cpu();
  const auto hi = elements<const std::uint16_t>(high), bottom = elements<const std::uint16_t>(low);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::bit_cast<float>(join(hi[i], bottom[i]));
  }
}

void HomeStates::read_hi(const ParamPosition& begin, std::span<std::uint16_t> values) const {
  FERRY_CHECK(plan_.precision == Precision::bf16, "only bf16 weights have halves");
  const at::Tensor high = weight(begin, values.size()).cpu();
  std::ranges::copy(elements<const std::uint16_t>(high), values.begin());
}

}  // namespace ferry
