// Random changes of valid files: whatever a file holds, reading it ends in a value or in a
// UserError that names the file.
#include "base/mutation.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "base/error.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/profile.h"

namespace ferry {
namespace {

// `read_again` reads `text` and demands that what was read can be written and read back.
void expect_value_or_user_error(const std::string& text, unsigned seed,
                                const std::function<void(const std::string&)>& read_again) {
  std::mt19937 random(seed);
  int refused = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const std::string changed = mutated(text, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ":\n" +
                 changed);
    try {
      read_again(changed);
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("file.yaml:", 0), 0u) << error.what();
      ++refused;
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, kRounds / 10);  // else the changes do not reach the readers
  EXPECT_LT(refused, kRounds);
}

// Reads `text`; a value must survive writing. An error in the second reading is ours.
template <typename Parse>
void read_write_read(const std::string& text, const Parse& parse) {
  const auto first = parse(text, "file.yaml");
  try {
    EXPECT_EQ(parse(to_yaml(first), "again.yaml"), first);
  } catch (const UserError& error) {
    ADD_FAILURE() << "written text is refused: " << error.what() << "\n" << to_yaml(first);
  }
}

TEST(Mutation, AChangedJobIsReadOrRefused) {
  const std::string text =
      "model: out/base\n"
      "data: {train: data.jsonl, eval: null, sequence: 256, packing: false, text_key: null}\n"
      "train: {steps: 200, micro_batches: 4, precision: bf16, seed: 1}\n"
      "optim:\n  lr: 1e-4\n  betas: [0.9, 0.999]\n  clip: 1.0\n  schedule: constant\n"
      "machine: machines/cpu2.yaml\n"
      "budget: {device: 64 MiB, host: 4 GiB, drive: [{path: /a, capacity: 1 TB, read: 2 GB/s}]}\n"
      "strategy: auto\nout: runs/gsm8k\n";
  expect_value_or_user_error(text, 1, [](const std::string& changed) {
    read_write_read(changed, [](const std::string& file, const std::string& source) {
      return parse_job(file, source);
    });
  });
}

TEST(Mutation, AChangedMachineIsReadOrRefused) {
  const std::string text =
      "name: box\nhost: {cores: 2, memory: 16 GiB, update_rate: 2.5 G parameters/s}\n"
      "roots:\n  - {name: root0, up: 300 MB/s}\n"
      "devices:\n  - {count: 2, kind: sim, memory: 1 GiB, latency: 20 us, root: root0}\n"
      "  - kind: cuda\n    memory: 24 GiB\n    bf16: 80 TFLOP/s\n    p2p: 1 GB/s\n"
      "drives:\n  - {name: ssd0, capacity: 2 TB, read: 7 GB/s, duplex: true}\n"
      "  - {count: 2, capacity: 1 TB, path: null}\n";
  expect_value_or_user_error(
      text, 2, [](const std::string& changed) { read_write_read(changed, parse_machine); });
}

TEST(Mutation, AChangedProfileIsReadOrRefused) {
  const std::string text =
      "name: p\nmicro_batch_size: 2\nsequence: 256\nupdate_rate: 2 G parameters/s\n"
      "task_overhead: 20 us\nblocks:\n"
      "  - {key: a, forward: 12.5 ms, backward: 1 s, weights: 3 MiB, parameters: 12}\n"
      "  - key: b\n    forward: 1 ns\n    backward: 1e3 us\n    activation: 0.5 KB\n"
      "chain: [a, b, b]\n";
  expect_value_or_user_error(
      text, 3, [](const std::string& changed) { read_write_read(changed, parse_profile); });
}

}  // namespace
}  // namespace ferry
