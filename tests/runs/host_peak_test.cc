// The host's measured peak is what the process held, whatever the plan says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <thread>
#include <vector>

#include "data/export_model.h"
#include "data/scratch_folder.h"
#include "small_run.h"
#include "store/mapping.h"
#include "store/own_memory.h"
#include "train/checkpoints.h"
#include "train/devices.h"
#include "train/home_states.h"
#include "train/measure.h"
#include "train/places.h"
#include "train/trainer.h"

namespace ferry {
namespace {

constexpr Bytes kSlack = 8_MiB;  // between two runs: caches of kernels, stacks of threads

/// Holds some memory more while a phase of the run lasts.
class Hoarder final : public TrainObserver {
 public:
  Hoarder(std::string phase, Bytes size) : phase_(std::move(phase)), size_(size) {}

  void progress(const Progress& progress) override {
    if (progress.what == what_) return;
    what_ = progress.what;
    hoard_.reset();
    if (!what_.starts_with(phase_)) return;
    hoard_.emplace(size_);
    hoard_->touch(1);
    std::this_thread::sleep_for(10 * PeakWatch::kInterval);  // the phase may be shorter than one
  }
  void step(const StepReport& /*report*/) override { hoard_.reset(); }
  void saved(int /*step*/, const std::filesystem::path& /*folder*/) override { hoard_.reset(); }

 private:
  const std::string phase_;
  const Bytes size_;
  std::string what_;  // the phase that is under way
  std::optional<Mapping> hoard_;
};

/// The most that the process takes beyond what it has when loading or saving begins.
class PieceWatch final : public TrainObserver {
 public:
  void progress(const Progress& progress) override {
    if (!progress.what.starts_with("loading") && !progress.what.starts_with("saving")) return;
    if (progress.done == 0) {
      before_ = own_memory(getpid());
      watch_.emplace([] { return own_memory(getpid()); });
    }
    if (progress.done < progress.total) return;
    most_ = std::max(most_, watch_->peak() - before_);
    watch_.reset();
    ++phases_;
  }

  Bytes most() const { return most_; }
  int phases() const { return phases_; }

 private:
  Bytes before_, most_;
  int phases_ = 0;
  std::optional<PeakWatch> watch_;
};

TEST(HostPeak, MemoryTakenWhileLoadingOrSavingShowsInTheMeasuredPeak) {
  const ScratchFolder folder;
  TrainObserver nobody;
  train(small_run(folder, "first"), nobody);  // what kernels keep for ever is there from here on
  const TrainSummary plain = train(small_run(folder, "plain"), nobody);
  EXPECT_GE(plain.measured_peak.at("host"), plain.predicted_peak.at("host"));
  EXPECT_LE(plain.beside_plan, 64_MiB);

  for (const char* phase : {"loading", "saving"}) {
    Hoarder hoarder(phase, 96_MiB);
    const TrainSummary more = train(small_run(folder, phase), hoarder);
    EXPECT_EQ(more.predicted_peak, plain.predicted_peak);
    EXPECT_EQ(more.measured_peak.at("gpu0"), plain.measured_peak.at("gpu0"));
    const Bytes beyond = more.measured_peak.at("host") - plain.measured_peak.at("host");
    EXPECT_GE(beyond, 96_MiB - kSlack) << phase;
    EXPECT_LE(beyond, 96_MiB + kSlack) << phase;
    EXPECT_EQ(more.beside_plan, more.measured_peak.at("host") - more.predicted_peak.at("host"));
  }
}

// A tensor of 32 MiB in fp32: whole, it once lay beside the plan twice while loading.
TEST(HostPeak, LoadingAndSavingALargeTensorHoldAPieceOfItBesideThePlan) {
  const ScratchFolder folder;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SCOPED_TRACE(to_string(precision));
    const SmallRun large{.config = kLargeTensor,
                         .vocabulary = 131072,
                         .precision = precision,
                         .device_budget = 512_MiB};
    PieceWatch watch;
    TrainSetup asked = small_run(folder, "large " + to_string(precision), large);
    asked.job.train.steps = 1;
    asked.checkpoint = train(asked, watch).checkpoint;
    asked.job.train.steps = 2;
    train(asked, watch);
    EXPECT_EQ(watch.phases(), 4) << "each of two runs loads and saves";
    EXPECT_LE(watch.most(), kPieceMemory + kSlack);
    EXPECT_GE(watch.most(), Bytes{kPieceMemory.count / 4}) << "the watch sees pieces";
  }
}

/// The most that the process takes beside what it has, while `act` runs.
template <typename Act>
Bytes taken_by(const Act& act) {
  const Bytes before = own_memory(getpid());
  PeakWatch watch([] { return own_memory(getpid()); });
  act();
  return watch.peak() - before;
}

TEST(HostPeak, ExportingAndLoadingAnotherDtypeHoldPieces) {
  const ScratchFolder folder;
  const SmallRun large{.config = kLargeTensor, .vocabulary = 131072, .device_budget = 512_MiB};
  TrainSetup asked = small_run(folder, "first", large);
  asked.job.train.steps = 1;
  TrainObserver nobody;
  const auto checkpoint = train(asked, nobody).checkpoint;
  const auto exported = folder / "bf16";
  EXPECT_LE(taken_by([&] { export_model(checkpoint, exported, ElementType::bf16); }), 2_MiB);

  asked.job.model = exported;
  asked.job.out = folder / "second";
  std::filesystem::create_directories(asked.job.out);
  PieceWatch watch;
  train(asked, watch);
  EXPECT_EQ(watch.phases(), 2);
  EXPECT_LE(watch.most(), kPieceMemory + kSlack);
}

// A large vocabulary is measured in part, and its time is that of a few rounds.
TEST(HostPeak, MeasuringHoldsWhatItMayAndEndsInTheTimeThatItIsGiven) {
  const ModelSpec model = parse_model_spec(kLargeTensor, "config");
  Machine machine;
  machine.host.cores = 1;
  machine.devices.push_back({.name = "gpu0", .memory = 1_GiB, .threads = 1});
  const OpenDevices devices(machine, {});
  const std::vector<BlockId> blocks = {BlockId(0), BlockId(1), BlockId(2),
                                       BlockId(static_cast<int>(model.blocks.size()) - 1)};
  const auto measure = [&](Bytes memory) {
    PhaseListener nobody;
    const MeasureRequest request{.model = model,
                                 .micro_batch_size = 1,
                                 .sequence = 16,
                                 .device = "sim:0",
                                 .memory = memory,
                                 .time = Micros{100'000}};
    return measure_blocks(request, blocks, nobody);
  };
  measure(1_GiB);  // what kernels keep for ever is there from here on
  std::vector<MeasuredBlock> found;
  const std::clock_t start = std::clock();  // of this process: the box may be busy
  EXPECT_LE(taken_by([&] { found = measure(24_MiB); }), 24_MiB + kSlack);
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
  EXPECT_TRUE(found[1].measured) << found[1].remark;
  EXPECT_FALSE(found[3].measured);
  EXPECT_NE(found[3].remark.find("and there are 24.0 MiB"), std::string::npos) << found[3].remark;
}

// Every value of a tensor of 32 MiB at once: it once lay in DRAM a second time.
TEST(HostPeak, ValuesPassToAHomeOnADeviceAndBackThroughLittleOfDRAM) {
  const ScratchFolder folder;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SCOPED_TRACE(to_string(precision));
    const TrainSetup asked = small_run(folder, "home " + to_string(precision),
                                       {.config = kLargeTensor,
                                        .vocabulary = 131072,
                                        .precision = precision,
                                        .device_budget = 512_MiB,
                                        .strategy = "resident"});
    const OpenDevices devices(asked.machine, {});
    const Plan* const plan = &asked.plan;
    Places places({&plan, 1}, devices.names(), asked.machine);
    const Binding binding(asked.plan, places);
    HomeStates states(asked.model, asked.plan, binding);
    std::vector<float> values(131072 * 64, 0.25F);
    const ParamPosition embedding{BlockId(0), 0, 0};
    for (const StatePart part : {StatePart::master, StatePart::exp_avg}) {
      states.write(part, embedding, values);  // the device's pages are there from here on
      values.back() = 3;
      const Bytes before = own_memory(getpid());
      PeakWatch watch([] { return own_memory(getpid()); });
      states.write(part, embedding, values);
      std::ranges::fill(values, 0.0F);
      states.read(part, embedding, values);
      EXPECT_LE(watch.peak() - before, kSlack);
      EXPECT_EQ(values.front(), 0.25F);
      EXPECT_EQ(values.back(), 3);
    }
  }
}

TEST(HostPeak, AProcessThatTokenisedAndHeldMoreIsThePeak) {
  const ScratchFolder folder;
  TrainSetup asked = small_run(folder, "tokenised");
  asked.tokenising_peak = 3_GiB;
  TrainObserver nobody;
  const TrainSummary summary = train(asked, nobody);
  EXPECT_EQ(summary.measured_peak.at("host"), 3_GiB);
  EXPECT_EQ(summary.tokenising_peak, 3_GiB);
  EXPECT_LE(summary.beside_plan, 64_MiB);
}

}  // namespace
}  // namespace ferry
