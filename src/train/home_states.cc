#include "train/home_states.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "optim/split.h"

namespace ferry {
namespace {

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

/// The bf16 halves of fp32 values, which travel as patterns of bits: nothing converts them.
struct Halves {
  explicit Halves(std::size_t count) : high(count), low(count) {}
  std::vector<std::uint16_t> high, low;
};

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

HomeStates::Range HomeStates::range(InstanceId id, Bytes params, const ParamPosition& begin,
                                    std::size_t count, Bytes size) const {
  FERRY_CHECK(id.valid(), "a trainable block has its weights and states at home");
  const ParamSpec& param = model_.blocks[begin.block].params[begin.param];
  const auto length = static_cast<std::int64_t>(count);
  FERRY_CHECK(begin.element >= 0 && begin.element + length <= param.numel(),
              param.name + ": a range outside the parameter");
  return {id, params + (layouts_[begin.block].offsets[begin.param] + begin.element) * size};
}

HomeStates::Range HomeStates::moment(StatePart part, const ParamPosition& begin,
                                     std::size_t count) const {
  const std::int64_t elements = layouts_[begin.block].elements;
  const Bytes first{plan_.precision == Precision::bf16 ? elements * 2 : 0};
  const Bytes params = part == StatePart::exp_avg ? first : first + Bytes{elements * 4};
  return range(homes_[begin.block].state, params, begin, count, 4_B);
}

HomeStates::Range HomeStates::low(const ParamPosition& begin, std::size_t count) const {
  return range(homes_[begin.block].state, {}, begin, count, 2_B);
}

HomeStates::Range HomeStates::weight(const ParamPosition& begin, std::size_t count) const {
  return range(homes_[begin.block].weight, {}, begin, count,
               plan_.precision == Precision::bf16 ? 2_B : 4_B);
}

void HomeStates::write(StatePart part, const ParamPosition& begin, std::span<const float> values) {
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            write_halves(at, values.subspan(first, count));
                          });
  }
  const Range home =
      part == StatePart::master ? weight(begin, values.size()) : moment(part, begin, values.size());
  binding_.write(home.instance, home.offset, std::as_bytes(values));
}

void HomeStates::clear_moment(StatePart part, const ParamPosition& begin, std::int64_t count) {
  const Range home = moment(part, begin, static_cast<std::size_t>(count));
  binding_.clear(home.instance, home.offset, Bytes{count * 4});
}

void HomeStates::write_halves(const ParamPosition& begin, std::span<const float> values) {
  Halves halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    halves.high[i] = split_hi(bits);
    halves.low[i] = split_lo(bits);
  }
  const Range high = weight(begin, values.size()), bottom = low(begin, values.size());
  binding_.write(high.instance, high.offset, std::as_bytes(std::span(halves.high)));
  binding_.write(bottom.instance, bottom.offset, std::as_bytes(std::span(halves.low)));
}

void HomeStates::read(StatePart part, const ParamPosition& begin, std::span<float> values) const {
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            read_halves(at, values.subspan(first, count));
                          });
  }
  const Range home =
      part == StatePart::master ? weight(begin, values.size()) : moment(part, begin, values.size());
  binding_.read(home.instance, home.offset, std::as_writable_bytes(values));
}

void HomeStates::read_halves(const ParamPosition& begin, std::span<float> values) const {
  Halves halves(values.size());
  const Range high = weight(begin, values.size()), bottom = low(begin, values.size());
  binding_.read(high.instance, high.offset, std::as_writable_bytes(std::span(halves.high)));
  binding_.read(bottom.instance, bottom.offset, std::as_writable_bytes(std::span(halves.low)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(join(halves.high[i], halves.low[i]));
  }
}

void HomeStates::read_hi(const ParamPosition& begin, std::span<std::uint16_t> values) const {
  FERRY_CHECK(plan_.precision == Precision::bf16, "only bf16 weights have halves");
  const Range home = weight(begin, values.size());
  binding_.read(home.instance, home.offset, std::as_writable_bytes(values));
}

}  // namespace ferry
