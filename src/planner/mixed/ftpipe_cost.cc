#include "planner/mixed/ftpipe_cost.h"

#include <algorithm>
#include <cstddef>

namespace ferry::ftpipe {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

double node_weight(const Node& node, double rho) {
  if (rho < 0) return kScale * node.backward_ms;
  return kScale * (node.forward_ms + rho * node.backward_ms);
}

double gpipe_node_weight(const Node& node) {
  const double f = node.forward_ms;
  const double b = node.backward_ms;
  return f + b > 0 ? kScale * (f * f + b * b) / (f + b) : 0;
}

double edge_weight(std::int64_t bytes, double bandwidth) {
  return std::max(kLeastEdgeWeight, kScale * static_cast<double>(bytes) / (1e6 * bandwidth));
}

std::vector<double> gpu_compute(const Graph& graph, const Partition& partition, int gpus) {
  std::vector<double> compute(at(gpus), 0.0);
  for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
    compute[at(partition.gpu_of[at(partition.stage_of[v])])] += node_weight(graph.nodes[v], 1);
  }
  return compute;
}

std::vector<double> stage_costs(const Graph& graph, const Partition& partition, int gpus) {
  const std::vector<double> compute = gpu_compute(graph, partition, gpus);
  std::vector<double> activations(partition.gpu_of.size(), 0.0);  // Cf
  std::vector<double> gradients(partition.gpu_of.size(), 0.0);    // Cb
  for (const Edge& edge : graph.edges) {
    const int from = partition.stage_of[at(edge.from)];
    const int to = partition.stage_of[at(edge.to)];
    if (from == to) continue;
    const bool local = partition.gpu_of[at(from)] == partition.gpu_of[at(to)];
    const double weight = edge_weight(edge.bytes, local ? kLocalBandwidth : kGpuBandwidth);
    activations[at(from)] += weight;
    if (edge.gradients) gradients[at(to)] += weight;
  }
  std::vector<double> costs;
  for (std::size_t s = 0; s < partition.gpu_of.size(); ++s) {
    const double c = compute[at(partition.gpu_of[s])];
    costs.push_back(c + std::max(0.0, activations[s] - c) + std::max(0.0, gradients[s] - c));
  }
  return costs;
}

}  // namespace ferry::ftpipe
