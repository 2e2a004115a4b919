#include "papers/ratel/ratel_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "papers/ratel/ratel_servers.h"

namespace ferry {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Layers and widths of Ratel's table, P by name.
RatelCase ratel_case(const std::string& model, int batch) {
  RatelCase c;
  c.tokens = 1024.0 * batch;
  if (model == "13B") c.parameters = 13e9, c.layers = 40, c.hidden = 5120;
  if (model == "70B") c.parameters = 70e9, c.layers = 80, c.hidden = 8192;
  if (model == "135B") c.parameters = 135e9, c.layers = 88, c.hidden = 11264;
  if (model == "175B") c.parameters = 175e9, c.layers = 96, c.hidden = 12288;
  return c;
}

// Printed figures have two or one decimals: 0.5 %, or half a unit of the last digit.
void expect_printed(double value, double printed, double unit, const std::string& what) {
  EXPECT_NEAR(value, printed, std::max(0.005 * printed, 0.5001 * unit)) << what;
}

// The fit to Ratel, Fig 5a, 7, 9a: T_f, T_b and T in seconds.
TEST(RatelCalibration, TheModelColumnComesOut) {
  struct Row {
    const char* model;
    int batch;
    double forward, backward, step;
  };
  for (const Row& row : {Row{"13B", 8, 1.60, 18.57, 20.2},
                         {"13B", 16, 3.19, 18.57, 21.8},
                         {"13B", 32, 6.39, 18.57, 25.0},
                         {"13B", 64, 12.92, 29.38, 42.3},
                         {"13B", 128, 25.84, 58.77, 84.6},
                         {"70B", 32, 31.07, 100.02, 131.1},
                         {"175B", 16, 37.14, 250.04, 287.2},
                         {"175B", 8, 18.72, 250.04, 268.8}}) {
    const CalibratedStep step =
        calibrated_step(ratel_server_4090(12), ratel_case(row.model, row.batch));
    const std::string name = row.model + std::string(" b=") + std::to_string(row.batch);
    expect_printed(step.forward, row.forward, 0.01, name + " T_f");
    expect_printed(step.backward, row.backward, 0.01, name + " T_b");
    expect_printed(step.step, row.step, 0.1, name + " T");
  }
}

TEST(RatelCalibration, TheOtherGpuComesOut) {
  const double printed[] = {22.5, 26.4, 46.8, 93.6};
  int batch = 8;
  for (const double step : printed) {
    expect_printed(calibrated_step(ratel_server_3090(12), ratel_case("13B", batch)).step, step, 0.1,
                   "b=" + std::to_string(batch));
    batch *= 2;
  }
}

TEST(RatelCalibration, FewerDrivesComeOut) {
  const double printed[] = {903, 539, 418, 297, 236};
  const int drives[] = {1, 2, 3, 6, 12};
  for (std::size_t i = 0; i < 5; ++i) {
    const CalibratedStep step =
        calibrated_step(ratel_server_4090(drives[i]), ratel_case("135B", 24));
    expect_printed(step.step, printed[i], 1, std::to_string(drives[i]) + " drives");
  }
}

TEST(RatelCalibration, TheTrueSizeAndG10sPolicyComeOut) {
  RatelCase c = ratel_case("70B", 32);
  c.parameters = 64.8e9;
  expect_printed(calibrated_step(ratel_server_4090(12), c).step, 121.7, 0.1, "70B, 64.8e9");

  RatelCase g10 = ratel_case("70B", 32);
  g10.host_available = (512 - 60) * 1e9;
  const CalibratedStep all = calibrated_at(ratel_server_4090(12), g10, 17);
  EXPECT_NEAR(all.swapped / kGiB, 680, 0.01);
  expect_printed(all.step, 142, 1, "G10");
}

// The ablations, with the same activations swapped: all handlers after backward, and each handler
// inside backward without overlap of its own parts.
double serial_step(const RatelConstants& constants, const RatelCase& c) {
  const CalibratedStep step = calibrated_step(constants, c);
  return step.forward + step.gpu_backward + optimizer_stage(constants, c.parameters) +
         c.parallel_wait;
}

double naive_step(const RatelConstants& constants, const RatelCase& c) {
  const CalibratedStep step = calibrated_step(constants, c);
  const double handlers = optimizer_stage(constants, c.parameters);
  return step.forward +
         std::max(step.gpu_backward + constants.launch_stall * handlers,
                  constants.overlap_stretch * handlers) +
         c.parallel_wait;
}

TEST(RatelCalibration, TheAblationTableComesOut) {
  const RatelConstants server = ratel_server_4090(12);
  EXPECT_NEAR(optimizer_stage(server, 13e9), 14.8, 0.05);
  struct Row {
    const char* model;
    int batch;
    double serial, naive, unit;
  };
  for (const Row& row : {Row{"13B", 8, 21.2, 22.3, 0.1},
                         {"13B", 16, 27.6, 23.9, 0.1},
                         {"13B", 32, 39.5, 33.6, 0.1},
                         {"13B", 64, 57.1, 51.2, 0.1},
                         {"175B", 8, 274, 298, 1},
                         {"175B", 16, 348, 316, 1}}) {
    const RatelCase c = ratel_case(row.model, row.batch);
    const std::string name = row.model + std::string(" b=") + std::to_string(row.batch);
    expect_printed(serial_step(server, c), row.serial, row.unit, name + " serial");
    expect_printed(naive_step(server, c), row.naive, row.unit, name + " naive");
  }
}

// Ratel gives 12.5 and about 213 "GB" for 13B at batch 32.
TEST(RatelCalibration, InterblockAndAllActivationsAreThePrintedBytes) {
  struct Row {
    const char* model;
    int batch;
    double interblock, all;  // GiB
  };
  for (const Row& row : {Row{"13B", 32, 12.5, 212.5},
                         {"70B", 32, 40, 680},
                         {"175B", 16, 36, 612},
                         {"135B", 24, 45.4, 771.4}}) {
    const double interblock = interblock_bytes(ratel_case(row.model, row.batch)) / kGiB;
    EXPECT_NEAR(interblock, row.interblock, 0.05) << row.model;
    EXPECT_NEAR(17 * interblock, row.all, 0.05) << row.model;
  }
}

// Fig 11: the step at the same batch per GPU plus one constant per model, 2 or 4 GPUs alike.
TEST(RatelCalibration, SeveralGpusAddAConstantPerStep) {
  RatelCase c = ratel_case("13B", 8);
  const double alone = calibrated_step(ratel_server_4090(12), c).step;
  c.parallel_wait = 10.8;
  EXPECT_DOUBLE_EQ(calibrated_step(ratel_server_4090(12), c).step, alone + 10.8);
  EXPECT_NEAR(alone + 10.8, 31.0, 0.08 * 31.0);
}

}  // namespace
}  // namespace ferry
