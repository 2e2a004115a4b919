#include "planner/tiers/value_density.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ferry {
namespace {

enum class Content { hi, states, activation };

struct Item {
  Content content;
  std::size_t block;
  Bytes bytes;
  Bytes read;  // from the drives per step, when it is there
  Bytes written;
  double drive_seconds;  // what it costs per step on the drives
  double recompute;      // ... or computed again; infinity: it cannot be

  double saved() const { return std::min(drive_seconds, recompute); }
  double density() const { return saved() / static_cast<double>(bytes.count); }
  bool recomputed() const { return recompute <= drive_seconds; }
};

double seconds_of(Bytes bytes, double rate) { return static_cast<double>(bytes.count) / rate; }

std::vector<Item> items_of(const TierQuestion& question) {
  std::vector<Item> items;
  const auto add = [&](Content content, std::size_t block, Bytes bytes, int reads,
                       double recompute) {
    if (bytes.count == 0) return;
    const bool free_write = content == Content::activation && question.forward_writes_free;
    const double seconds = seconds_of(bytes * reads, question.read_rate) +
                           (free_write ? 0 : seconds_of(bytes, question.write_rate));
    items.push_back({content, block, bytes, bytes * reads, bytes, seconds, recompute});
  };
  for (std::size_t b = 0; b < question.blocks.size(); ++b) {
    const BlockDemand& block = question.blocks[b];
    add(Content::hi, b, block.hi, 2, INFINITY);
    add(Content::states, b, block.states, 1, INFINITY);
    add(Content::activation, b, block.activation, 1, block.recompute);
  }
  // States and activations that only drives could hold are worth the same per byte, but for the
  // last digit: what they contain decides before the digit does.
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    if (a.content != b.content) return a.content < b.content;
    if (a.content != Content::activation) return false;  // shallow first
    if (a.recomputed() != b.recomputed()) return b.recomputed();
    return a.recomputed() && a.density() > b.density();
  });
  return items;
}

// Fractional knapsack over both memories: items in order of density, the last one in part.
double best_saving(const std::vector<Item>& items, Bytes memory) {
  double left = static_cast<double>(memory.count);
  double saved = 0;
  for (const Item& item : items) {
    const double share = std::min(1.0, left / static_cast<double>(item.bytes.count));
    saved += share * item.saved();
    left -= share * static_cast<double>(item.bytes.count);
  }
  return saved;
}

void note(BlockPlacement& block, Content content, std::optional<PlaceKind> place) {
  if (content == Content::hi) block.hi = *place;
  if (content == Content::states) block.states = *place;
  if (content == Content::activation) block.activation = place;
}

}  // namespace

TierPlacement place_by_value(const TierQuestion& question) {
  FERRY_CHECK(question.read_rate > 0 && question.write_rate > 0, "drives have rates");
  TierPlacement result;
  result.blocks.resize(question.blocks.size());
  const std::vector<Item> items = items_of(question);
  double everything = 0;
  for (const Item& item : items) {
    BlockPlacement& block = result.blocks[item.block];
    everything += item.saved();
    if (result.device_used + item.bytes <= question.device_spare) {
      result.device_used += item.bytes;
      note(block, item.content, PlaceKind::device);
    } else if (result.host_used + item.bytes <= question.host) {
      result.host_used += item.bytes;
      note(block, item.content, PlaceKind::host);
    } else if (item.recomputed()) {
      result.seconds += item.recompute;
      note(block, item.content, std::nullopt);
    } else {
      result.seconds += item.drive_seconds;
      result.drive_used += item.bytes;
      result.drive_read += item.read;
      result.drive_written += item.written;
      note(block, item.content, PlaceKind::drive);
    }
  }
  result.seconds_bound =
      std::max(0.0, everything - best_saving(items, question.device_spare + question.host));
  return result;
}

}  // namespace ferry
