#include "planner/costs/step_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "planner/costs/queues.h"

namespace ferry {
namespace {

// Bytes per second of the fastest links that any device has.
struct FastestLinks {
  double up = 0;
  double down = 0;
  double between = 0;  // straight from device to device; 0: nothing goes straight
};

FastestLinks fastest_links(const PlanQuestion& question) {
  FastestLinks links;
  const bool straight = may_send(question);
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    links.up = std::max(links.up, upload_rate(question, d));
    links.down = std::max(links.down, download_rate(question, d));
    const Rate p2p = question.machine.devices[static_cast<std::size_t>(d)].p2p;
    if (straight) links.between = std::max(links.between, p2p.bytes_per_second);
  }
  return links;
}

// Seconds per byte of a value's way from one device to another.
double passing_per_byte(const FastestLinks& links) {
  const double through_host = 1 / links.down + 1 / links.up;
  return links.between > 0 ? std::min(through_host, 1 / links.between) : through_host;
}

// A block whose sum takes one micro-batch after the other. In seconds.
struct OrderedBlock {
  double backward;
  double passing;  // of the sum, to another device
};

// Some of these blocks, each of which has all its backwards on one device.
struct UndividedBlocks {
  double backward = 0;  // of one micro-batch, of all of them
  double others = 0;    // of all other blocks
};

// The delay where they are in any number of stages, each on one device: the longest runs for all
// micro-batches there, and a gradient passes between two.
double delay_of_stages(const UndividedBlocks& blocks, double later, double longest,
                       double crossing) {
  const double all = later * blocks.backward;  // in one stage
  const double least = later * longest;
  const double stages =
      std::max(1.0, std::min(std::sqrt(all / crossing), all / (least + blocks.others)));
  return std::max(least, all / stages - blocks.others) + (stages - 1) * crossing;
}

}  // namespace

Micros backward_with_sums(const Chain& chain) {
  Micros backward;
  bool counts = false;  // from the first trainable block on
  for (const ChainBlock& block : chain.blocks) {
    counts = counts || block.trainable;
    if (counts) backward += least_backward(block);
  }
  return backward;
}

Micros sum_order_delay(const PlanQuestion& question, const Chain& chain) {
  const double per_byte = passing_per_byte(fastest_links(question));
  std::vector<OrderedBlock> ordered;
  UndividedBlocks undivided;
  double longest = 0;
  for (const ChainBlock& block : chain.blocks) {
    const double backward = least_backward(block).seconds();
    undivided.others += backward;
    if (block.gradients == Bytes{}) continue;
    ordered.push_back({backward, as_double(block.gradients) * per_byte});
    longest = std::max(longest, backward);
  }
  const double later = question.micro_batches - 1;  // micro-batches, behind the first
  double delay = later * longest;
  if (delay <= 0 || question.machine.devices.size() < 2) return from_seconds(delay);

  // Either one of the blocks with the largest sums is on several devices, or none of them is.
  std::ranges::stable_sort(ordered, std::greater(), &OrderedBlock::passing);
  const double crossing = as_double(chain.activation) * per_byte;
  double divided = std::numeric_limits<double>::infinity();
  for (const OrderedBlock& block : ordered) {
    undivided.backward += block.backward;
    undivided.others -= block.backward;
    divided = std::min(divided, later * block.backward + block.passing);
    delay =
        std::max(delay, std::min(divided, delay_of_stages(undivided, later, longest, crossing)));
  }
  return from_seconds(delay);
}

Micros renewal_of_first(const PlanQuestion& question, const Chain& chain) {
  const ChainBlock& first = chain.blocks.front();
  if (!first.trainable) return {};
  const FastestLinks links = fastest_links(question);
  const Micros by_host = from_seconds(as_double(landing_sum(first)) / links.down) +
                         first.host_update + from_seconds(as_double(first.weights) / links.up);
  return std::min(by_host, first.device_update);
}

}  // namespace ferry
