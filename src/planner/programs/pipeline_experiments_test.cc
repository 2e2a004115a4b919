#include "planner/programs/pipeline_experiments.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ferry {
namespace {

TEST(PipelineExperiments, PrintedTablesHaveNoErrorBeyondTheirDigits) {
  for (const ExperimentRow& row : roundpipe_experiments()) {
    if (row.published.find_first_of("-<>") == std::string::npos) {
      EXPECT_NEAR(row.error * std::abs(row.ours), 0, 5e-4) << row.what;
    }
    if (row.published.front() == '<') {
      EXPECT_EQ(row.error, 0) << row.what;
    }
  }
}

TEST(PipelineExperiments, ZZZ) {
  for (const GptShape& shape :
       {GptShape{"3b", 32, 2816}, GptShape{"15b", 48, 5120}, GptShape{"51b", 50, 9216}})
    for (const Machine& machine : commodity_servers()) {
      const auto m = measure_mobius(machine, shape);
      std::printf("%s %s mobius %.2f seq %.2f zero %.2f S=%d fast %.3f\n", shape.name.c_str(),
                  machine.name.c_str(), m.mobius_step, m.sequential_step, m.zero_step, m.stages,
                  m.fast_bytes);
    }
  for (const auto& rows : {roundpipe_experiments(), mobius_experiments(commodity_servers())}) {
    for (const ExperimentRow& row : rows) {
      if (row.what.find("pipe") == 0) continue;
      std::printf("%-70s %8.4f %12s %8.4f\n", row.what.c_str(), row.ours, row.published.c_str(),
                  row.error);
    }
  }
}

}  // namespace
}  // namespace ferry
