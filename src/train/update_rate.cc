#include "train/update_rate.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "device/tensor_views.h"
#include "optim/adamw.h"
#include "optim/worker_team.h"
#include "train/device_update.h"
#include "train/stopwatch.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRounds = 9;

/// States of so many parameters in one slab, as a plan's are. Requires: parameters are a multiple
/// of 256.
DeviceState make_state(Device& device, Precision precision, std::int64_t parameters) {
  const bool halves = precision == Precision::bf16;
  const at::Tensor slab = device.slab(Bytes{parameters * 16});  // weight, lo, m, v, gradient
  slab.zero_();
  Bytes end;
  const auto take = [&](at::ScalarType type) {
    const at::Tensor taken = view(slab, end, {parameters}, type);
    end += Bytes{static_cast<std::int64_t>(taken.nbytes())};
    return taken;
  };
  return {.weight = take(halves ? at::kBFloat16 : at::kFloat),
          .lo = halves ? take(at::kShort) : at::Tensor(),
          .m = take(at::kFloat),
          .v = take(at::kFloat),
          .gradient = take(at::kFloat)};
}

double device_update_rate(Device& device, Precision precision, std::int64_t parameters,
                          const StepKernels* kernels) {
  const c10::Stream stream = device.stream("compute");
  const c10::StreamGuard current(stream);
  const DeviceState state = make_state(device, precision, parameters);
  const AdamWFactors factors = adamw_factors({.lr = 1e-4}, 1.0F, true);
  const auto update = [&] { device_adamw_step(factors, state, {}, kernels); };
  const Micros taken = Stopwatch(device, stream).time({update}).front().device;
  return static_cast<double>(parameters) / (taken.count * 1e-6);
}

}  // namespace

double measure_update_rate(Precision precision, int threads, std::int64_t parameters) {
  FERRY_CHECK(parameters > 0, "an update needs parameters");
  const std::size_t count = parameters;
  std::vector<float> weight, m(count), v(count), gradient(count);
  std::vector<std::uint16_t> hi, lo;
  Update update{.state = FullState{}, .gradient = std::span<const float>(gradient)};
  if (precision == Precision::bf16) {
    hi.resize(count);
    lo.resize(count);
    update.state = SplitState{hi, lo, m, v};
  } else {
    weight.resize(count);
    update.state = FullState{weight, m, v};
  }
  WorkerTeam team(threads);
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUps + kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    adamw_step({.lr = 1e-4}, {&update, 1}, 1.0F, team);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return static_cast<double>(parameters) / median(std::move(seconds));
}

double measure_device_update_rate(Device& device, Precision precision, std::int64_t most,
                                  const StepKernels* kernels) {
  constexpr std::int64_t kFewest = 1 << 14;
  for (std::int64_t parameters = most; parameters >= kFewest; parameters /= 2) {
    try {
      return device_update_rate(device, precision, parameters, kernels);
    } catch (const c10::OutOfMemoryError&) {
      continue;  // with half of them
    }
  }
  return 0;
}

}  // namespace ferry
