#include "planner/mixed/mixed_load.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace ferry {

LoadModel::LoadModel(const BlockGraph& graph, const MixedMachine& machine, Items items,
                     const LoadRules& rules, const std::vector<char>& rematerialised)
    : graph_(&graph),
      machine_(&machine),
      items_(std::move(items)),
      micro_batches_(rules.micro_batches),
      item_of_(graph.blocks.size()),
      seconds_(items_.size(), IdVector<GpuId, double>(machine.gpus.size(), 0.0)),
      resident_(items_.size()),
      peak_(items_.size()),
      step_up_(items_.size()),
      step_down_(items_.size()),
      produces_(items_.size()),
      consumes_(items_.size()) {
  for (const ItemId i : items_.ids()) {
    for (const BlockId b : items_[i]) {
      FERRY_CHECK(!item_of_[b].valid(), "a block is in two items");
      item_of_[b] = i;
      const GraphBlock& block = graph.blocks[b];
      for (const GpuId g : machine.gpus.ids()) seconds_[i][g] += block.seconds[g];
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
  FERRY_CHECK(std::ranges::all_of(item_of_, &ItemId::valid), "a block is in no item");

  const std::int64_t m = rules.micro_batches;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const GraphTensor& tensor = graph.tensors[t];
    if (!rematerialised.empty() && rematerialised[t] != 0) {
      const std::int64_t weight = tensor.recompute_weight.count;
      add_edge(tensor.producer, tensor.consumers, {{}, {}, weight, weight, 2 * weight, false});
    } else {
      add_edge(tensor.producer, tensor.consumers,
               {{}, {}, m * tensor.forward.count, m * tensor.gradient.count, 0, true});
    }
  }
  for (const TiedWeight& tied : graph.tied) {
    const std::int64_t replica = rules.streamed_weights ? 0 : (tied.weight + tied.gradient).count;
    add_edge(tied.owner, tied.readers,
             {{}, {}, tied.weight.count, tied.gradient.count, replica, false});
  }
}

void LoadModel::add_edge(BlockId producer, const std::vector<BlockId>& consumers, Edge edge) {
  edge.producer = item_of_[producer];
  for (const BlockId consumer : consumers) edge.consumers.push_back(item_of_[consumer]);
  std::ranges::sort(edge.consumers);
  const auto rest = std::ranges::unique(edge.consumers);
  edge.consumers.erase(rest.begin(), rest.end());
  std::erase(edge.consumers, edge.producer);
  if (edge.consumers.empty()) return;
  const EdgeId id = edges_.add(std::move(edge));
  produces_[edges_[id].producer].push_back(id);
  for (const ItemId consumer : edges_[id].consumers) consumes_[consumer].push_back(id);
}

double LoadModel::least_seconds(ItemId item) const { return std::ranges::min(seconds_[item]); }

IdVector<BlockId, GpuId> LoadModel::gpu_of_block(const ItemGpus& gpu_of_item) const {
  IdVector<BlockId, GpuId> gpu_of(item_of_.size());
  for (const BlockId b : item_of_.ids()) gpu_of[b] = gpu_of_item[item_of_[b]];
  return gpu_of;
}

LoadTracker::LoadTracker(const LoadModel& model) : model_(&model) { clear(); }

void LoadTracker::clear() {
  const std::size_t edges = model_->edges_.size();
  const std::size_t gpus = model_->machine().gpus.size();
  gpu_of_.assign(model_->items_.size(), GpuId());
  readers_.assign(edges * gpus, 0);
  destinations_.assign(edges, 0);
  compute_.assign(gpus, 0.0);
  resident_.assign(gpus, 0);
  peak_.assign(gpus, 0);
  in_.assign(gpus, 0);
  out_.assign(gpus, 0);
  inside_.assign(model_->machine().links.size(), 0);
  placed_.clear();
}

// The tensor comes to `to` once, its gradient goes back once.
void LoadTracker::cross(const LoadModel::Edge& edge, GpuId from, GpuId to, int sign) {
  const std::int64_t forward = sign * edge.forward;
  const std::int64_t gradient = sign * edge.gradient;
  in_[to] += forward;
  out_[to] += gradient;
  resident_[to] += sign * edge.replica;
  if (!edge.leaves || !model_->machine().peer_to_peer) return;
  // Without staging the producer serves each destination, and the host takes no part.
  out_[from] += forward;
  in_[from] += gradient;
  for (std::size_t l = 0; l < inside_.size(); ++l) {
    const std::vector<GpuId>& below = model_->machine().links[l].gpus;
    if (std::ranges::binary_search(below, from) && std::ranges::binary_search(below, to)) {
      inside_[l] += forward + gradient;
    }
  }
}

// With host staging the tensor leaves once, and the summed gradient is read once.
void LoadTracker::leave(const LoadModel::Edge& edge, GpuId from, int sign) {
  if (!edge.leaves || model_->machine().peer_to_peer) return;
  out_[from] += sign * edge.forward;
  in_[from] += sign * edge.gradient;
}

// Counts (sign 1) or forgets (-1) the edges between `item`, on `gpu`, and the other placed items.
void LoadTracker::link(ItemId item, GpuId gpu, int sign) {
  for (const EdgeId e : model_->produces_[item]) {
    const LoadModel::Edge& edge = model_->edges_[e];
    int destinations = 0;
    for (const GpuId g : compute_.ids()) {
      if (g == gpu || readers(e, g) == 0) continue;
      cross(edge, gpu, g, sign);
      ++destinations;
    }
    if (destinations > 0) leave(edge, gpu, sign);
    destinations_[e] = sign > 0 ? destinations : 0;
  }
  for (const EdgeId e : model_->consumes_[item]) {
    const LoadModel::Edge& edge = model_->edges_[e];
    int& here = readers(e, gpu);
    if (sign < 0) --here;
    const GpuId producer = gpu_of_[edge.producer];
    if (here == 0 && producer.valid() && producer != gpu) {
      int& destinations = destinations_[e];
      if (sign < 0) --destinations;
      cross(edge, producer, gpu, sign);
      if (destinations == 0) leave(edge, producer, sign);
      if (sign > 0) ++destinations;
    }
    if (sign > 0) ++here;
  }
}

void LoadTracker::place(ItemId item, GpuId gpu) {
  placed_.push_back({item, gpu, compute_[gpu], peak_[gpu]});
  gpu_of_[item] = gpu;
  compute_[gpu] += model_->seconds(item, gpu);
  peak_[gpu] = std::max(peak_[gpu], model_->peak_[item]);
  resident_[gpu] += model_->resident_[item];
  in_[gpu] += model_->step_up_[item];
  out_[gpu] += model_->step_down_[item];
  link(item, gpu, 1);
}

void LoadTracker::undo() {
  const Placed last = placed_.back();
  placed_.pop_back();
  link(last.item, last.gpu, -1);
  gpu_of_[last.item] = {};
  compute_[last.gpu] = last.compute;
  peak_[last.gpu] = last.peak;
  resident_[last.gpu] -= model_->resident_[last.item];
  in_[last.gpu] -= model_->step_up_[last.item];
  out_[last.gpu] -= model_->step_down_[last.item];
}

Bytes LoadTracker::memory(GpuId gpu) const {
  return model_->machine().gpus[gpu].context + Bytes{resident_[gpu] + peak_[gpu]};
}

bool LoadTracker::within(const GpuBytes& budgets) const {
  return std::ranges::all_of(budgets.ids(), [&](GpuId g) { return memory(g) <= budgets[g]; });
}

double LoadTracker::traffic_seconds() const {
  const MixedMachine& machine = model_->machine();
  double longest = 0;
  for (const GpuId g : machine.gpus.ids()) {
    const MixedGpu& gpu = machine.gpus[g];
    longest = std::max({longest, static_cast<double>(in_[g]) / gpu.in_rate,
                        static_cast<double>(out_[g]) / gpu.out_rate});
  }
  for (std::size_t l = 0; l < machine.links.size(); ++l) {
    std::int64_t in = -inside_[l];
    std::int64_t out = -inside_[l];
    for (const GpuId g : machine.links[l].gpus) {
      in += in_[g];
      out += out_[g];
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
  for (const GpuId g : in_.ids()) total += Bytes{in_[g] + out_[g]};
  return total;
}

LoadTracker load_of(const LoadModel& model, const ItemGpus& gpu_of_item) {
  LoadTracker tracker(model);
  for (const ItemId item : gpu_of_item.ids()) tracker.place(item, gpu_of_item[item]);
  return tracker;
}

}  // namespace ferry
