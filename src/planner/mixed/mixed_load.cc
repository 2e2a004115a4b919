#include "planner/mixed/mixed_load.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

LoadModel::LoadModel(const BlockGraph& graph, const MixedMachine& machine, Items items,
                     const LoadRules& rules, const std::vector<char>& rematerialised)
    : graph_(&graph),
      machine_(&machine),
      items_(std::move(items)),
      micro_batches_(rules.micro_batches),
      item_of_(graph.blocks.size(), -1),
      seconds_(items_.size(), std::vector<double>(machine.gpus.size(), 0.0)),
      resident_(items_.size()),
      peak_(items_.size()),
      step_up_(items_.size()),
      step_down_(items_.size()),
      produces_(items_.size()),
      consumes_(items_.size()) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    for (const int b : items_[i]) {
      FERRY_CHECK(item_of_[at(b)] == -1, "a block is in two items");
      item_of_[at(b)] = static_cast<int>(i);
      const GraphBlock& block = graph.blocks[at(b)];
      for (std::size_t g = 0; g < machine.gpus.size(); ++g) seconds_[i][g] += block.seconds[g];
      Bytes peak = block.peak + block.saved;
      if (rules.streamed_weights) {
        peak += block.weight + block.gradient;
      } else {
        resident_[i] += (block.weight + block.gradient).count;
      }
      if (rules.states_on_gpu) resident_[i] += block.state.count;
      peak_[i] = std::max(peak_[i], peak.count);
      step_up_[i] += block.step_up.count;
      step_down_[i] += block.step_down.count;
    }
  }
  FERRY_CHECK(std::ranges::find(item_of_, -1) == item_of_.end(), "a block is in no item");

  const std::int64_t m = rules.micro_batches;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const GraphTensor& tensor = graph.tensors[t];
    if (!rematerialised.empty() && rematerialised[t] != 0) {
      const std::int64_t weight = tensor.recompute_weight.count;
      add_edge({tensor.producer, tensor.consumers, weight, weight, 2 * weight, false});
    } else {
      add_edge({tensor.producer, tensor.consumers, m * tensor.forward.count,
                m * tensor.gradient.count, 0, true});
    }
  }
  for (const TiedWeight& tied : graph.tied) {
    const std::int64_t replica = rules.streamed_weights ? 0 : (tied.weight + tied.gradient).count;
    add_edge({tied.owner, tied.readers, tied.weight.count, tied.gradient.count, replica, false});
  }
}

// Turns an edge between blocks into one between items; an edge inside one item is dropped.
void LoadModel::add_edge(const Edge& edge) {
  Edge among_items = edge;
  among_items.producer = item_of_[at(edge.producer)];
  for (int& consumer : among_items.consumers) consumer = item_of_[at(consumer)];
  std::ranges::sort(among_items.consumers);
  const auto rest = std::ranges::unique(among_items.consumers);
  among_items.consumers.erase(rest.begin(), rest.end());
  std::erase(among_items.consumers, among_items.producer);
  if (among_items.consumers.empty()) return;
  const int id = static_cast<int>(edges_.size());
  produces_[at(among_items.producer)].push_back(id);
  for (const int consumer : among_items.consumers) consumes_[at(consumer)].push_back(id);
  edges_.push_back(std::move(among_items));
}

double LoadModel::least_seconds(int item) const { return std::ranges::min(seconds_[at(item)]); }

std::vector<int> LoadModel::gpu_of_block(const std::vector<int>& gpu_of_item) const {
  std::vector<int> gpu_of(item_of_.size());
  for (std::size_t b = 0; b < item_of_.size(); ++b) gpu_of[b] = gpu_of_item[at(item_of_[b])];
  return gpu_of;
}

LoadTracker::LoadTracker(const LoadModel& model)
    : model_(&model), gpus_(model.machine().gpus.size()) {
  clear();
}

void LoadTracker::clear() {
  const std::size_t edges = model_->edges_.size();
  gpu_of_.assign(model_->items_.size(), -1);
  readers_.assign(edges * gpus_, 0);
  destinations_.assign(edges, 0);
  compute_.assign(gpus_, 0.0);
  resident_.assign(gpus_, 0);
  peak_.assign(gpus_, 0);
  in_.assign(gpus_, 0);
  out_.assign(gpus_, 0);
  inside_.assign(model_->machine().links.size(), 0);
  placed_.clear();
}

// The tensor comes to `to` once, its gradient goes back once.
void LoadTracker::cross(const LoadModel::Edge& edge, int from, int to, int sign) {
  const std::int64_t forward = sign * edge.forward;
  const std::int64_t gradient = sign * edge.gradient;
  in_[at(to)] += forward;
  out_[at(to)] += gradient;
  resident_[at(to)] += sign * edge.replica;
  if (!edge.leaves || !model_->machine().peer_to_peer) return;
  // Without staging the producer serves each destination, and the host takes no part.
  out_[at(from)] += forward;
  in_[at(from)] += gradient;
  for (std::size_t l = 0; l < inside_.size(); ++l) {
    const std::vector<int>& below = model_->machine().links[l].gpus;
    if (std::ranges::binary_search(below, from) && std::ranges::binary_search(below, to)) {
      inside_[l] += forward + gradient;
    }
  }
}

// With host staging the tensor leaves once, and the summed gradient is read once.
void LoadTracker::leave(const LoadModel::Edge& edge, int from, int sign) {
  if (!edge.leaves || model_->machine().peer_to_peer) return;
  out_[at(from)] += sign * edge.forward;
  in_[at(from)] += sign * edge.gradient;
}

// Counts (sign 1) or forgets (-1) the edges between `item`, on `gpu`, and the other placed items.
void LoadTracker::link(int item, int gpu, int sign) {
  for (const int e : model_->produces_[at(item)]) {
    const LoadModel::Edge& edge = model_->edges_[at(e)];
    int destinations = 0;
    for (int g = 0; g < static_cast<int>(gpus_); ++g) {
      if (g == gpu || readers(e, g) == 0) continue;
      cross(edge, gpu, g, sign);
      ++destinations;
    }
    if (destinations > 0) leave(edge, gpu, sign);
    destinations_[at(e)] = sign > 0 ? destinations : 0;
  }
  for (const int e : model_->consumes_[at(item)]) {
    const LoadModel::Edge& edge = model_->edges_[at(e)];
    int& here = readers(e, gpu);
    if (sign < 0) --here;
    const int producer = gpu_of_[at(edge.producer)];
    if (here == 0 && producer >= 0 && producer != gpu) {
      int& destinations = destinations_[at(e)];
      if (sign < 0) --destinations;
      cross(edge, producer, gpu, sign);
      if (destinations == 0) leave(edge, producer, sign);
      if (sign > 0) ++destinations;
    }
    if (sign > 0) ++here;
  }
}

void LoadTracker::place(int item, int gpu) {
  placed_.push_back({item, gpu, compute_[at(gpu)], peak_[at(gpu)]});
  gpu_of_[at(item)] = gpu;
  compute_[at(gpu)] += model_->seconds(item, gpu);
  peak_[at(gpu)] = std::max(peak_[at(gpu)], model_->peak_[at(item)]);
  resident_[at(gpu)] += model_->resident_[at(item)];
  in_[at(gpu)] += model_->step_up_[at(item)];
  out_[at(gpu)] += model_->step_down_[at(item)];
  link(item, gpu, 1);
}

void LoadTracker::undo() {
  const Placed last = placed_.back();
  placed_.pop_back();
  link(last.item, last.gpu, -1);
  gpu_of_[at(last.item)] = -1;
  compute_[at(last.gpu)] = last.compute;
  peak_[at(last.gpu)] = last.peak;
  resident_[at(last.gpu)] -= model_->resident_[at(last.item)];
  in_[at(last.gpu)] -= model_->step_up_[at(last.item)];
  out_[at(last.gpu)] -= model_->step_down_[at(last.item)];
}

Bytes LoadTracker::memory(int gpu) const {
  return model_->machine().gpus[at(gpu)].context + Bytes{resident_[at(gpu)] + peak_[at(gpu)]};
}

bool LoadTracker::within(const std::vector<Bytes>& budgets) const {
  for (int g = 0; g < static_cast<int>(gpus_); ++g) {
    if (memory(g) > budgets[at(g)]) return false;
  }
  return true;
}

double LoadTracker::traffic_seconds() const {
  const MixedMachine& machine = model_->machine();
  double longest = 0;
  for (std::size_t g = 0; g < gpus_; ++g) {
    const MixedGpu& gpu = machine.gpus[g];
    longest = std::max({longest, static_cast<double>(in_[g]) / gpu.in_rate,
                        static_cast<double>(out_[g]) / gpu.out_rate});
  }
  for (std::size_t l = 0; l < machine.links.size(); ++l) {
    std::int64_t in = -inside_[l];
    std::int64_t out = -inside_[l];
    for (const int g : machine.links[l].gpus) {
      in += in_[at(g)];
      out += out_[at(g)];
    }
    longest = std::max({longest, static_cast<double>(in) / machine.links[l].in_rate,
                        static_cast<double>(out) / machine.links[l].out_rate});
  }
  return longest / model_->micro_batches();
}

double LoadTracker::period() const {
  return std::max(std::ranges::max(compute_), traffic_seconds());
}

Bytes LoadTracker::step_bytes() const {
  Bytes total;
  for (std::size_t g = 0; g < gpus_; ++g) total += Bytes{in_[g] + out_[g]};
  return total;
}

LoadTracker load_of(const LoadModel& model, const std::vector<int>& gpu_of_item) {
  LoadTracker tracker(model);
  for (int item = 0; item < model.size(); ++item) tracker.place(item, gpu_of_item[at(item)]);
  return tracker;
}

}  // namespace ferry
