// A chain like T5-3B, FTPipe's show-case, by which planners are measured: encoder layers with
// much compute and fewer weights, then decoder layers with little compute and more weights.
#pragma once

#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/orders/pipeline.h"

namespace ferry {

/// 24 encoder layers of compute 1 and 50,333,696 parameters, 24 decoder layers of
/// compute 0.35 and 67,111,936. A weight counts one byte per parameter. A chain of hidden states of
/// `hidden` bytes; the last encoder layer's output goes to every decoder layer.
BlockGraph t5_fixture(int gpus, Bytes hidden);

/// 24 encoder blocks of 20 + 60, 24 decoder blocks of `decoder` and three
/// times that, on 8 devices; `blocks` of each stage, `map` the device of each.
Pipeline t5_pipeline(const std::vector<int>& blocks, std::vector<int> map, double decoder,
                     int micro_batches);

}  // namespace ferry
