#include "papers/ftpipe/periodic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "planner/cuts/mapping.h"

namespace ferry {
namespace {

// "244: F0 B0 B8 F8" for every device: offset and order.
PeriodicOrder order_from(const std::vector<std::string>& lines) {
  PeriodicOrder order;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    order.offset.push_back(std::stod(word));
    order.tasks.emplace_back();
    while (words >> word) order.tasks.back().push_back({word[0] == 'B', std::stoi(word.substr(1))});
  }
  return order;
}

// T5's chain at r = 0.35: 8 encoder stages of 60 + 180, 8 decoder stages of 21 + 63.
Pipeline mixed(std::vector<int> map, int micro_batches) {
  Pipeline pipeline;
  pipeline.devices = 8;
  pipeline.micro_batches = micro_batches;
  pipeline.device = std::move(map);
  for (int s = 0; s < 16; ++s) {
    pipeline.forward.push_back(s < 8 ? 60 : 21);
    pipeline.backward.push_back(s < 8 ? 180 : 63);
  }
  return pipeline;
}

// The periodic times as lists: the same order, which earliest_times() runs as early as possible,
// warm-up and drain included.
DeviceOrders periodic_orders(const Pipeline& pipeline, const PeriodicResult& result) {
  struct Start {
    double time;
    PipelineTask task;
  };
  std::vector<std::vector<Start>> starts(pipeline.devices);
  for (int s = 0; s < pipeline.stages(); ++s) {
    auto& device = starts[pipeline.device[s]];
    for (int m = 0; m < pipeline.micro_batches; ++m) {
      device.push_back({result.forward[s] + m * result.period, {false, s, m}});
      device.push_back({result.backward[s] + m * result.period, {true, s, m}});
    }
  }
  DeviceOrders orders(starts.size());
  for (std::size_t d = 0; d < starts.size(); ++d) {
    std::stable_sort(starts[d].begin(), starts[d].end(),
                     [](const Start& a, const Start& b) { return a.time < b.time; });
    for (const Start& start : starts[d]) orders[d].push_back(start.task);
  }
  return orders;
}

const std::vector<std::string> kCyclic = {
    "244: F0 B0 B8 F8",   "124: B1 F1 F9 B9",  "121: F10 B2 B10 F2", "209: B11 B3 F3 F11",
    "282: B4 B12 F4 F12", "97: B5 F5 F13 B13", "115: B6 B14 F6 F14", "194: B15 B7 F7 F15"};
const std::vector<std::string> kV = {
    "253: B15 F0 B0 F15", "147: B1 B14 F1 F14", "186: B13 B2 F13 F2", "48: F12 B3 B12 F3",
    "39: B11 F4 B4 F11",  "102: B10 F5 F10 B5", "179: B9 F6 B6 F9",   "67: F8 B7 B8 F7"};
const std::vector<int> kHeld = {12, 11, 10, 9, 8, 7, 6, 5, 4, 4, 3, 3, 2, 2, 1, 1};

TEST(Periodic, TheTwoTabulatedOrdersAreReproduced) {
  struct Row {
    const std::vector<std::string>& lines;
    std::vector<int> map;
    std::vector<int> device_in_flight;
    double early_60, early_200, efficiency_200;
  };
  for (const Row& row :
       {Row{kCyclic, cyclic_map(16, 8), {16, 15, 13, 12, 10, 9, 7, 6}, 22092, 67452, 0.961},
        Row{kV, v_map(16, 8), {13, 12, 12, 11, 11, 10, 10, 9}, 21585, 66945, 0.968}}) {
    const Pipeline sixty = mixed(row.map, 60);
    const PeriodicResult result = evaluate_periodic(sixty, order_from(row.lines));
    EXPECT_EQ(result.period, 324);
    EXPECT_EQ(result.latency, 3804);
    EXPECT_EQ(result.stage_in_flight, kHeld);
    EXPECT_EQ(result.device_in_flight, row.device_in_flight);
    EXPECT_EQ(periodic_makespan(sixty, result), 22920);
    EXPECT_EQ(earliest_times(sixty, periodic_orders(sixty, result)).makespan, row.early_60);
    const Pipeline two_hundred = mixed(row.map, 200);
    EXPECT_EQ(periodic_makespan(two_hundred, result), 68280);
    const DeviceOrders orders = periodic_orders(two_hundred, result);
    const double makespan = earliest_times(two_hundred, orders).makespan;
    EXPECT_EQ(makespan, row.early_200);
    EXPECT_NEAR(efficiency(two_hundred, makespan), row.efficiency_200, 5e-4);
    EXPECT_EQ(stages_in_flight(two_hundred, orders), kHeld);
  }
}

TEST(Periodic, TheSearchIsNoWorseThanTheTabulatedOrders) {
  for (const auto& map : {cyclic_map(16, 8), v_map(16, 8)}) {
    const Pipeline pipeline = mixed(map, 60);
    const PeriodicResult result = evaluate_periodic(pipeline, search_periodic(pipeline));
    const auto& held = result.stage_in_flight;
    EXPECT_LE(std::accumulate(held.begin(), held.end(), 0), 88);
    EXPECT_LE(result.latency, 3804);
  }
}

TEST(Periodic, EqualSeedsGiveEqualOrders) {
  const Pipeline pipeline = mixed(v_map(16, 8), 60);
  const PeriodicSearch search{.input_bytes = {}, .seed = 3, .rounds = 500};
  const PeriodicOrder a = search_periodic(pipeline, search);
  const PeriodicOrder b = search_periodic(pipeline, search);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.tasks, b.tasks);
}

// Any back-to-back packing repeats with the fullest device's load: tasks never overlap, and the
// peak in flight is the one that counting its tasks gives.
TEST(Periodic, AnyOrderIsFeasibleWithThePeriodOfTheFullestDevice) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 100; ++round) {
    Pipeline pipeline;
    pipeline.devices = 1 + static_cast<int>(random() % 4);
    pipeline.micro_batches = 25;
    const int stages = 1 + static_cast<int>(random() % 8);
    for (int s = 0; s < stages; ++s) {
      pipeline.device.push_back(
          static_cast<int>(random() % static_cast<unsigned>(pipeline.devices)));
      pipeline.forward.push_back(1 + static_cast<double>(random() % 9));
      pipeline.backward.push_back(1 + static_cast<double>(random() % 20));
    }
    const PeriodicOrder order =
        search_periodic(pipeline, {.input_bytes = {}, .seed = random(), .rounds = 20});
    const PeriodicResult result = evaluate_periodic(pipeline, order);
    const DeviceOrders orders = periodic_orders(pipeline, result);
    const double makespan = earliest_times(pipeline, orders).makespan;
    EXPECT_LE(makespan, periodic_makespan(pipeline, result) + 1e-9);
    EXPECT_GE(makespan, pipeline.micro_batches * result.period - 1e-9);
    EXPECT_EQ(stages_in_flight(pipeline, orders), result.stage_in_flight);
  }
}

}  // namespace
}  // namespace ferry
