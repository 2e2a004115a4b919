#include "spec/named_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace ferry {
namespace {

template <typename Read>
std::string refusal(const Read& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(NamedFiles, WhatIsNotThereIsSaidWithItsLineInTheJob) {
  const Job job =
      parse_job("machine: typo.yaml\nmodel: nan\nplan:\n  profile: no/such.yaml\n", "job.yaml");
  EXPECT_EQ(refusal([&] { named_machine(job); }),
            "job.yaml:1: machine: typo.yaml: cannot be read: No such file or directory");
  EXPECT_EQ(refusal([&] { named_model(job); }),
            "job.yaml:2: model: nan: cannot be read; expected a Hugging Face config.json or its "
            "directory");
  EXPECT_EQ(refusal([&] { named_profile(job); }),
            "job.yaml:4: plan.profile: no/such.yaml: cannot be read: No such file or directory");
}

TEST(NamedFiles, AnOverrideIsOnTheCommandLine) {
  const std::string overrides[] = {"machine=" + testing::TempDir()};
  const Job job = parse_job("model: m", "job.yaml", overrides);
  EXPECT_EQ(refusal([&] { named_machine(job); }), "command line: machine: " + testing::TempDir() +
                                                      ": is a directory; expected a regular file");
}

TEST(NamedFiles, WhatIsWrongInOneIsSaidWithItsOwnLine) {
  const std::string file = testing::TempDir() + "named_files_test.yaml";
  std::ofstream(file) << "nmae: mine\n";
  const Job job = parse_job("model: m\nmachine: " + file, "job.yaml");
  EXPECT_EQ(refusal([&] { named_machine(job); }).rfind(file + ":1: unknown key 'nmae'", 0), 0u);
}

}  // namespace
}  // namespace ferry
