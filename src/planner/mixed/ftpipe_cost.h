// FTPipe's own cost of a partition (FTPipe page, section 4), by which its published predictions are
// made. Ferry plans by link occupancy instead (mixed_load.h); section 5 of the page lists why.
//
// Times in milliseconds, volumes in bytes, bandwidths in GB/s; the results carry the scale K = 1e4.
#pragma once

#include <cstdint>
#include <vector>

namespace ferry::ftpipe {

inline constexpr double kScale = 1e4;           // K
inline constexpr double kGpuBandwidth = 12;     // between GPUs
inline constexpr double kLocalBandwidth = 550;  // both ends on one GPU
inline constexpr double kLeastEdgeWeight = 1e-3;

struct Node {
  double forward_ms = 0;
  double backward_ms = 0;
};

/// One fine edge: a tensor with k consumers is k edges here.
struct Edge {
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;
  bool gradients = true;  // both ends need gradients
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

struct Partition {
  std::vector<int> stage_of;  // of each node
  std::vector<int> gpu_of;    // of each stage
};

/// K (fwd + rho bwd); a negative rho stands for bwd alone, 0 for fwd alone.
double node_weight(const Node& node, double rho);

/// The preset `gpipe`: K (f^2 + b^2) / (f + b); 0 for a node without time.
double gpipe_node_weight(const Node& node);

/// K bytes / (1e6 bandwidth), at least kLeastEdgeWeight.
double edge_weight(std::int64_t bytes, double bandwidth);

/// C(g): K (fwd + bwd) of all nodes on the GPU.
std::vector<double> gpu_compute(const Graph& graph, const Partition& partition, int gpus);

/// cost(s) = C + max(0, Cf - C) + max(0, Cb - C) with C of the stage's GPU, Cf the activations that
/// leave the stage and Cb the gradients that leave it. FTPipe minimises the largest of these.
std::vector<double> stage_costs(const Graph& graph, const Partition& partition, int gpus);

}  // namespace ferry::ftpipe
