#include "papers/ratel/tiered_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "papers/bounds_experiments.h"

namespace ferry {
namespace {

// 2 %, or half a unit of the last printed digit.
void expect_printed(double value, double printed, double unit, const std::string& what) {
  EXPECT_NEAR(value, printed, std::max(0.02 * printed, 0.5001 * unit)) << what;
}

double digit(double printed) { return printed < 10 ? 0.1 : 1; }

// One 24 GB consumer GPU: 160 TFLOPS, 21 GB/s, drives of 6.5 / 3.0 GB/s, 20 GB of DRAM reserved.
TieredProblem desktop(double parameters, double dram, int drives) {
  TieredProblem problem;
  problem.parameters = parameters;
  problem.flops = 160e12;
  const CacheShares shares = cache_shares(parameters, dram - 20e9);
  problem.traffic = state_traffic(shares.hi, shares.states);
  problem.read_rate = 6.5e9 * drives;
  problem.write_rate = 3.0e9 * drives;
  problem.up_rate = problem.down_rate = 21e9;
  return problem;
}

// Tokens per step at which compute takes `seconds`: N* where `seconds` is the longest of what does
// not grow with N.
double tokens_to_hide(TieredProblem problem, double seconds) {
  problem.tokens = 1;
  return seconds / tiered_lower_bound(problem).compute;
}

// N*: tokens per step that hide the drives' state traffic behind compute, whatever P is.
double tokens_to_hide_drives(const TieredProblem& problem) {
  return tokens_to_hide(problem, tiered_lower_bound(problem).drives);
}

TEST(TieredBounds, DesktopTableComesOut) {
  struct Cell {
    double billions, dram;
    double read, written;
    double seconds[3];
    double kilotokens[3];
    double gigabytes;
  };
  const Cell cells[] = {
      {8, 64, 6.5, 6.5, {25, 13, 6.3}, {63, 32, 16}, 52},
      {13, 64, 8.6, 8.6, {55, 27, 14}, {84, 42, 21}, 112},
      {13, 128, 3.7, 3.7, {23, 12, 5.8}, {36, 18, 9}, 48},
      {32, 64, 11.2, 10.6, {169, 84, 42}, {105, 53, 26}, 340},
      {32, 128, 8.6, 8.6, {135, 67, 34}, {84, 42, 21}, 276},
      {32, 256, 4.6, 4.6, {72, 36, 18}, {45, 23, 11}, 148},
      {70, 64, 12.7, 11.4, {403, 201, 101}, {115, 58, 29}, 796},
      {70, 128, 10.9, 10.5, {362, 181, 90}, {103, 52, 26}, 732},
      {70, 256, 8.6, 8.6, {294, 147, 74}, {84, 42, 21}, 604},
      {175, 64, 13.5, 11.7, {1049, 524, 262}, {120, 60, 30}, 2056},
      {175, 128, 12.8, 11.4, {1008, 504, 252}, {115, 58, 29}, 1992},
      {175, 256, 11.3, 10.7, {926, 463, 231}, {106, 53, 26}, 1864},
  };
  for (const Cell& cell : cells) {
    for (int i = 0; i < 3; ++i) {
      const TieredProblem problem = desktop(cell.billions * 1e9, cell.dram * 1e9, 1 << i);
      const std::string name =
          std::to_string(cell.billions) + "B, " + std::to_string(cell.dram) + " GB";
      expect_printed(problem.traffic.read, cell.read, 0.1, name + " B_R");
      expect_printed(problem.traffic.written, cell.written, 0.1, name + " B_W");
      expect_printed(tiered_lower_bound(problem).drives, cell.seconds[i], digit(cell.seconds[i]),
                     name + " seconds");
      expect_printed(tokens_to_hide_drives(problem) / 1e3, cell.kilotokens[i], 1, name + " N*");
      expect_printed(problem.traffic.written * problem.parameters / 1e9, cell.gigabytes, 1,
                     name + " written");
    }
  }
}

TEST(TieredBounds, TheSplitMasterSavesFourBytesPerParameter) {
  const StateTraffic split = state_traffic(0, 0);
  EXPECT_EQ((split.read + split.written) * 13, 338);  // GB per step of 13B
  EXPECT_EQ((kRatelTraffic.read + kRatelTraffic.written) * 13, 390);
}

TEST(TieredBounds, StatesOfSmallModelsFitIntoDram) {
  for (const auto& [billions, dram] : {std::pair{8.0, 128.0}, {8.0, 256.0}, {13.0, 256.0}}) {
    const TieredProblem problem = desktop(billions * 1e9, dram * 1e9, 1);
    EXPECT_EQ(problem.traffic.read, 0);
    EXPECT_EQ(problem.traffic.written, 0);
    EXPECT_EQ(tiered_lower_bound(problem).drives, 0);
  }
}

TEST(TieredBounds, OneDriveMovesABillionParametersInAboutSixSeconds) {
  TieredProblem problem = desktop(1e9, 20e9, 1);  // nothing cached
  EXPECT_NEAR(tiered_lower_bound(problem).drives, 6.15, 0.01);
  problem.traffic = kRatelTraffic;
  EXPECT_NEAR(tiered_lower_bound(problem).drives, 7.13, 0.01);
  EXPECT_NEAR(tokens_to_hide_drives(problem) / 1e3, 143, 1);
  problem.tokens = 32e3;
  EXPECT_NEAR(tiered_lower_bound(problem).compute, 1.6, 0.01);
}

TEST(TieredBounds, BoundsOfRatelsServerComeOut) {
  struct Row {
    double billions, hidden, layers;
    int batch, drives;
    double bound;
    const char* binding;
  };
  for (const Row& row : {Row{13, 5120, 40, 8, 12, 5.3, "compute"},
                         {13, 5120, 40, 16, 12, 10.6, "compute"},
                         {13, 5120, 40, 32, 12, 21.3, "compute"},
                         {13, 5120, 40, 64, 12, 42.6, "compute"},
                         {70, 8192, 80, 32, 12, 115, "compute"},
                         {175, 12288, 96, 8, 12, 72, "drives"},
                         {175, 12288, 96, 16, 12, 143, "compute"},
                         {135, 11264, 88, 24, 1, 654, "drives"},
                         {135, 11264, 88, 24, 2, 327, "drives"},
                         {135, 11264, 88, 24, 3, 218, "drives"},
                         {135, 11264, 88, 24, 6, 166, "compute"},
                         {135, 11264, 88, 24, 12, 166, "compute"}}) {
    const TieredBound bound = tiered_lower_bound(
        ratel_bound(row.billions * 1e9, row.hidden, row.layers, row.batch, row.drives));
    const std::string name = std::to_string(row.billions) + "B b=" + std::to_string(row.batch) +
                             " drives " + std::to_string(row.drives);
    expect_printed(bound.seconds(), row.bound, row.bound < 100 ? 0.1 : 1, name);
    EXPECT_EQ(bound.binding(), row.binding) << name;
  }
}

// Four such GPUs; `links` that work at once, each at 21 GB/s.
TieredProblem four_gpus(double parameters, int links) {
  TieredProblem problem = desktop(parameters, 256e9, 4);
  problem.gpus = 4;
  problem.up_rate = problem.down_rate = 21e9 * links;
  return problem;
}

TEST(TieredBounds, DispatchMovesAQuarterOfDataParallelism) {
  struct Row {
    double billions;
    int links;
    double dispatch, data_parallel;
  };
  for (const Row& row : {Row{70, 4, 3.3, 13.3},
                         {70, 2, 6.7, 26.7},
                         {32, 4, 1.5, 6.1},
                         {32, 2, 3.0, 12.2},
                         {13, 4, 0.6, 2.5},
                         {13, 2, 1.2, 5.0}}) {
    TieredProblem problem = four_gpus(row.billions * 1e9, row.links);
    expect_printed(tiered_lower_bound(problem).up, row.dispatch, 0.1, "dispatch");
    problem.data_parallel = true;
    expect_printed(tiered_lower_bound(problem).up, row.data_parallel, 0.1, "data parallel");
    EXPECT_DOUBLE_EQ(2 * tiered_lower_bound(problem).down, tiered_lower_bound(problem).up);
  }
  // 70B on four GPUs: bytes up and down, papers' unit GB.
  TieredProblem problem = four_gpus(70e9, 1);
  problem.up_rate = problem.down_rate = 1e9;
  EXPECT_DOUBLE_EQ(tiered_lower_bound(problem).up, 280);
  EXPECT_DOUBLE_EQ(tiered_lower_bound(problem).down, 140);
  problem.data_parallel = true;
  EXPECT_DOUBLE_EQ(tiered_lower_bound(problem).up, 1120);
  EXPECT_DOUBLE_EQ(tiered_lower_bound(problem).down, 560);
}

TEST(TieredBounds, FourGpusNeedFourTimesTheTokens) {
  expect_printed(tokens_to_hide_drives(four_gpus(70e9, 4)) / 1e3, 84, 1, "70B, 4 drives");
  expect_printed(tokens_to_hide_drives(four_gpus(32e9, 4)) / 1e3, 45, 1, "32B, 4 drives");
  TieredProblem two = four_gpus(70e9, 4);
  two.read_rate /= 2;
  two.write_rate /= 2;
  expect_printed(tokens_to_hide_drives(two) / 1e3, 168, 1, "70B, 2 drives");
  two.parameters = 32e9;
  const CacheShares shares = cache_shares(32e9, 236e9);
  two.traffic = state_traffic(shares.hi, shares.states);
  expect_printed(tokens_to_hide_drives(two) / 1e3, 90, 1, "32B, 2 drives");

  TieredProblem small = four_gpus(13e9, 4);  // bound by DRAM alone
  for (const auto& [rate, seconds, kilotokens] :
       {std::tuple{70e9, 6.3, 39.0}, {250e9, 1.8, 11.0}}) {
    small.dram_rate = rate;
    const TieredBound bound = tiered_lower_bound(small);
    expect_printed(bound.dram, seconds, 0.1, "13B");
    expect_printed(tokens_to_hide(small, bound.dram) / 1e3, kilotokens, 1, "13B N*");
  }
}

// One GPU with 149 GB of memory, 25 of them for activations; 128 GB of DRAM, 16 reserved.
TEST(TieredBounds, LargeGpuTableComesOut) {
  constexpr double kGpu = 149e9 - 25e9;
  constexpr double kDram = 128e9 - 16e9;
  TieredProblem problem;
  problem.flops = 600e12;
  problem.dram_per_param = 26;  // the fused update alone; hi16 stays on the GPU
  problem.uploads_per_param = 2;
  problem.up_rate = problem.down_rate = 50e9;
  problem.dram_rate = 100e9;
  problem.traffic = {0, 0};
  EXPECT_NEAR((kGpu + kDram) / 12, 19.7e9, 0.05e9);
  struct Row {
    double billions, updated_on_gpu, seconds, kilotokens;
  };
  for (const Row& row : {Row{14, 0.69, 1.1, 6}, {18, 0.49, 2.4, 10}}) {
    problem.parameters = row.billions * 1e9;
    const CacheShares shares = cache_shares(problem.parameters, kGpu);
    EXPECT_EQ(shares.hi, 1);
    expect_printed(shares.states, row.updated_on_gpu, 0.01, "x_g");
    problem.updated_on_gpu = shares.states;
    const TieredBound bound = tiered_lower_bound(problem);
    EXPECT_EQ(bound.binding(), "dram");
    expect_printed(bound.seconds(), row.seconds, 0.1, "seconds");
    expect_printed(tokens_to_hide(problem, bound.seconds()) / 1e3, row.kilotokens, 1, "N");
  }
  EXPECT_EQ(cache_shares(8e9, kGpu).states, 1);  // all in GPU memory

  problem.parameters = 32e9;
  const CacheShares gpu = cache_shares(32e9, kGpu);
  const CacheShares both = cache_shares(32e9, kGpu + kDram);
  expect_printed(gpu.states, 0.19, 0.01, "32B on the GPU");
  expect_printed(both.states - gpu.states, 0.35, 0.01, "32B in DRAM");
  expect_printed(1 - both.states, 0.46, 0.01, "32B on drives");
  problem.updated_on_gpu = gpu.states;
  problem.traffic = state_traffic(both.hi, both.states);
  problem.read_rate = 27e9;
  problem.write_rate = 11e9;
  expect_printed(problem.traffic.read * 32, 148, 1, "32B read");
  expect_printed(problem.traffic.written * 32, 148, 1, "32B written");
  expect_printed(tiered_lower_bound(problem).drives, 19, 1, "32B");
  expect_printed(tokens_to_hide_drives(problem) / 1e3, 45, 1, "32B N");

  // 70B: whole layers of hi16 and states alike lie above the drives.
  problem.parameters = 70e9;
  const double held = (kGpu + kDram) / (12 * 70e9);
  expect_printed(kGpu / (12 * 70e9), 0.15, 0.01, "70B on the GPU");
  expect_printed(kDram / (12 * 70e9), 0.13, 0.01, "70B in DRAM");
  expect_printed(1 - held, 0.72, 0.01, "70B on drives");
  problem.traffic = state_traffic(held, held);
  problem.updated_on_gpu = 0;
  expect_printed(problem.traffic.read * 70, 705, 1, "70B read");
  expect_printed(problem.traffic.written * 70, 604, 1, "70B written");
  expect_printed(tiered_lower_bound(problem).drives, 81, 1, "70B");
  expect_printed(tokens_to_hide_drives(problem) / 1e3, 87, 1, "70B N");
}

TEST(TieredBounds, DuplexDrivesTakeTheLongerOfBothDirections) {
  TieredProblem problem = desktop(70e9, 64e9, 2);
  const double simplex = tiered_lower_bound(problem).drives;
  problem.duplex = true;
  const double duplex = tiered_lower_bound(problem).drives;
  EXPECT_DOUBLE_EQ(duplex, problem.traffic.written * 70e9 / 6e9);
  EXPECT_LT(duplex, simplex);
}

TEST(TieredBounds, MoreMemoryNeverRaisesTheBound) {
  for (double dram = 20e9; dram < 1100e9; dram += 7e9) {
    TieredProblem less = desktop(70e9, dram, 3);
    TieredProblem more = desktop(70e9, dram + 7e9, 3);
    EXPECT_LE(tiered_lower_bound(more).seconds(), tiered_lower_bound(less).seconds());
  }
}

}  // namespace
}  // namespace ferry
