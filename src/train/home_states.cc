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

/// `data` in DRAM as a tensor like `home`. Requires: it has as many elements.
at::Tensor over(void* data, const at::Tensor& home) {
  return at::from_blob(data, home.sizes(), home.options().device(at::kCPU));
}

/// Calls `visit(position, first, count)` for pieces of `count` elements from `begin` on.
template <typename Visit>
void for_each_piece(const ParamPosition& begin, std::size_t count, const Visit& visit) {
  constexpr std::size_t kMost = std::size_t{1} << 18;  // so that halves take 1 MiB in DRAM
  ParamPosition at = begin;
  for (std::size_t first = 0; first < count; first += kMost) {
    at.element = begin.element + static_cast<std::int64_t>(first);
    visit(at, first, std::min(kMost, count - first));
  }
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
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            write_halves(at, values.subspan(first, count));
                          });
  }
  const at::Tensor home = part == StatePart::master ? weight(begin, values.size())
                                                    : moment(part, begin, values.size());
  home.copy_(over(const_cast<float*>(values.data()), home));
}

void HomeStates::write_halves(const ParamPosition& begin, std::span<const float> values) {
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
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            read_halves(at, values.subspan(first, count));
                          });
  }
  const at::Tensor home = part == StatePart::master ? weight(begin, values.size())
                                                    : moment(part, begin, values.size());
  over(values.data(), home).copy_(home);
}

void HomeStates::read_halves(const ParamPosition& begin, std::span<float> values) const {
  const at::Tensor high = weight(begin, values.size()).cpu(), low = lo(begin, values.size()).cpu();
  const auto hi = elements<const std::uint16_t>(high), bottom = elements<const std::uint16_t>(low);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(join(hi[i], bottom[i]));
  }
}

void HomeStates::read_hi(const ParamPosition& begin, std::span<std::uint16_t> values) const {
  FERRY_CHECK(plan_.precision == Precision::bf16, "only bf16 weights have halves");
  const at::Tensor home = weight(begin, values.size());
  over(values.data(), home).copy_(home);
}

}  // namespace ferry
