#include "train/home_states.h"

#include <algorithm>
#include <bit>
#include <utility>

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
    : model_(model),
      plan_(plan),
      binding_(binding),
      homes_(plan.blocks.size()),
      state_elements_(state_elements(plan)) {
  for (const BlockSpec& block : model.blocks) layouts_.push_back(layout_of(block));
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    if (!instance.home) continue;
    const Value& value = plan.values[instance.value];
    Home& home = homes_[value.block];
    if (value.kind == ValueKind::weight) {
      home.weight = id;
    } else {
      home.states.push_back(id);
    }
  }
  for (Home& home : homes_) {
    std::ranges::sort(home.states, {}, [&](InstanceId id) {
      return state_elements_[plan.instances[id].value].first;
    });
  }
}

bool HomeStates::in_dram(BlockId block) const {
  const Home& home = homes_[block];
  return binding_.on_host(home.weight) &&
         std::ranges::all_of(home.states, [&](InstanceId id) { return binding_.on_host(id); });
}

ElementRange HomeStates::elements(const ParamPosition& begin, std::size_t count) const {
  const Home& home = homes_[begin.block];
  FERRY_CHECK(home.weight.valid() && !home.states.empty(),
              "a trainable block has its weights and states at home");
  const ParamSpec& param = model_.blocks[begin.block].params[begin.param];
  const auto length = static_cast<std::int64_t>(count);
  FERRY_CHECK(begin.element >= 0 && begin.element + length <= param.numel(),
              param.name + ": a range outside the parameter");
  return {layouts_[begin.block].offsets[begin.param] + begin.element, length};
}

HomeStates::Range HomeStates::weight(const ParamPosition& begin, std::size_t count) const {
  const Bytes size{weight_element_bytes(plan_.precision)};
  return {homes_[begin.block].weight, size * elements(begin, count).first};
}

HomeStates::StateArray HomeStates::array_of(StatePart moment) {
  return moment == StatePart::exp_avg ? StateArray::exp_avg : StateArray::exp_avg_sq;
}

template <typename Visit>
void HomeStates::for_each_state(StateArray array, const ParamPosition& begin, std::size_t count,
                                const Visit& visit) const {
  const ElementRange wanted = elements(begin, count);
  for (const InstanceId id : homes_[begin.block].states) {
    const ElementRange piece = state_elements_[plan_.instances[id].value];
    const ElementRange here = common(wanted, piece);
    if (here.count == 0) continue;
    const std::int64_t at = here.first - piece.first;
    const MomentOffsets moments = moment_offsets(piece.count, plan_.precision);
    Bytes offset{at * 2};
    if (array == StateArray::exp_avg) offset = moments.exp_avg + Bytes{at * 4};
    if (array == StateArray::exp_avg_sq) offset = moments.exp_avg_sq + Bytes{at * 4};
    visit(Range{id, offset}, static_cast<std::size_t>(here.first - wanted.first),
          static_cast<std::size_t>(here.count));
  }
}

template <typename T>
void HomeStates::write_states(StateArray array, const ParamPosition& begin,
                              std::span<const T> values) {
  for_each_state(
      array, begin, values.size(), [&](const Range& home, std::size_t first, std::size_t count) {
        binding_.write(home.instance, home.offset, std::as_bytes(values.subspan(first, count)));
      });
}

template <typename T>
void HomeStates::read_states(StateArray array, const ParamPosition& begin,
                             std::span<T> values) const {
  for_each_state(array, begin, values.size(),
                 [&](const Range& home, std::size_t first, std::size_t count) {
                   binding_.read(home.instance, home.offset,
                                 std::as_writable_bytes(values.subspan(first, count)));
                 });
}

void HomeStates::write(StatePart part, const ParamPosition& begin, std::span<const float> values) {
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            write_halves(at, values.subspan(first, count));
                          });
  }
  if (part == StatePart::master) {
    const Range home = weight(begin, values.size());
    return binding_.write(home.instance, home.offset, std::as_bytes(values));
  }
  write_states(array_of(part), begin, values);
}

void HomeStates::clear_moment(StatePart part, const ParamPosition& begin, std::int64_t count) {
  for_each_state(array_of(part), begin, static_cast<std::size_t>(count),
                 [&](const Range& home, std::size_t, std::size_t here) {
                   binding_.clear(home.instance, home.offset,
                                  Bytes{4} * static_cast<std::int64_t>(here));
                 });
}

void HomeStates::write_halves(const ParamPosition& begin, std::span<const float> values) {
  Halves halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    halves.high[i] = split_hi(bits);
    halves.low[i] = split_lo(bits);
  }
  const Range high = weight(begin, values.size());
  binding_.write(high.instance, high.offset, std::as_bytes(std::span(halves.high)));
  write_states(StateArray::low, begin, std::span(std::as_const(halves.low)));
}

void HomeStates::read(StatePart part, const ParamPosition& begin, std::span<float> values) const {
  if (part == StatePart::master && plan_.precision == Precision::bf16) {
    return for_each_piece(begin, values.size(),
                          [&](const ParamPosition& at, std::size_t first, std::size_t count) {
                            read_halves(at, values.subspan(first, count));
                          });
  }
  if (part == StatePart::master) {
    const Range home = weight(begin, values.size());
    return binding_.read(home.instance, home.offset, std::as_writable_bytes(values));
  }
  read_states(array_of(part), begin, values);
}

void HomeStates::read_halves(const ParamPosition& begin, std::span<float> values) const {
  Halves halves(values.size());
  const Range high = weight(begin, values.size());
  binding_.read(high.instance, high.offset, std::as_writable_bytes(std::span(halves.high)));
  read_states(StateArray::low, begin, std::span(halves.low));
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
