// How close the fused AdamW comes to what memory allows: its bytes per second against a stream that
// reads, changes by one addition and writes as many arrays of the same element sizes in place.
//
// Usage: adamw_bench [parameters in units of 2^20 = 100] [threads = 2] [repeats = 15]
#include <cstdio>
#include <cstdlib>

#include "adamw_arrays.h"
#include "measure.h"
#include "optim/adamw.h"

namespace ferry {
namespace {

constexpr std::size_t kPiece = std::size_t{1}
                               << 16;  // as many elements as adamw_step takes at once

template <class T>
void add_one(std::span<T> values, std::size_t begin) {
  T* const x = values.data() + begin;
#pragma omp simd
  for (std::size_t i = 0; i < kPiece; ++i) x[i] = static_cast<T>(x[i] + T{1});
}

// Reads without writing; the sum keeps the compiler from dropping the loop.
template <class T>
float sum(std::span<const T> values, std::size_t begin) {
  const T* const x = values.data() + begin;
  T total{};
#pragma omp simd reduction(+ : total)
  for (std::size_t i = 0; i < kPiece; ++i) total = static_cast<T>(total + x[i]);
  return static_cast<float>(total);
}

// One loop over all arrays at once, as the update makes it.
template <class T>
float stream_together(const AdamWArrays& a, std::span<const T> gradient, std::size_t begin) {
  std::uint16_t* const hi = a.hi.data() + begin;
  std::uint16_t* const lo = a.lo.data() + begin;
  float* const m = a.m.data() + begin;
  float* const v = a.v.data() + begin;
  const T* const g = gradient.data() + begin;
  T total{};
#pragma omp simd reduction(+ : total)
  for (std::size_t i = 0; i < kPiece; ++i) {
    hi[i] = static_cast<std::uint16_t>(hi[i] + 1);
    lo[i] = static_cast<std::uint16_t>(lo[i] + 1);
    m[i] += 1;
    v[i] += 1;
    total = static_cast<T>(total + g[i]);
  }
  return static_cast<float>(total);
}

// One array after the other, piece by piece.
template <class T>
float stream_apart(const AdamWArrays& a, std::span<const T> gradient, std::size_t begin) {
  add_one(a.hi, begin);
  add_one(a.lo, begin);
  add_one(a.m, begin);
  add_one(a.v, begin);
  return sum(gradient, begin);
}

class Bench {
 public:
  Bench(std::size_t count, int threads) : team_(threads), arrays_(count, team_) {}

  std::vector<Subject> subjects() {
    const std::span<const float> fp32 = arrays_.gradient;
    const std::span<const std::uint16_t> bf16 = arrays_.gradient_bf16;
    return {
        {"adamw hi/lo, fp32 gradient",
         [=, this] {
           step({arrays_.split(), fp32});
         }},
        {"adamw hi/lo, bf16 gradient",
         [=, this] {
           step({arrays_.split(), bf16});
         }},
        {"adamw fp32, fp32 gradient",
         [=, this] {
           step({arrays_.full(), fp32});
         }},
        {"stream together, fp32 gradient", [=, this] { stream(stream_together<float>, fp32); }},
        {"stream apart, fp32 gradient", [=, this] { stream(stream_apart<float>, fp32); }},
        {"stream together, bf16 gradient",
         [=, this] { stream(stream_together<std::uint16_t>, bf16); }},
        {"stream apart, bf16 gradient", [=, this] { stream(stream_apart<std::uint16_t>, bf16); }}};
  }

 private:
  void step(const Update& update) {
    const AdamW adamw{.lr = 1e-5, .weight_decay = 0.01, .step = 100};
    if (adamw_step(adamw, {&update, 1}, 1.0F, team_)) std::abort();
  }

  template <class T>
  void stream(float (*piece)(const AdamWArrays&, std::span<const T>, std::size_t),
              std::span<const T> gradient) {
    std::vector<float> sums(gradient.size() / kPiece);
    team_.for_each(sums.size(),
                   [&](std::size_t i) { sums[i] = piece(arrays_, gradient, i * kPiece); });
    kept_ = sums.back();
  }

  WorkerTeam team_;
  AdamWArrays arrays_;
  volatile float kept_ = 0;
};

void run(std::size_t count, int threads, int repeats) {
  Bench bench(count, threads);
  const auto subjects = bench.subjects();
  const auto seconds = median_seconds(subjects, repeats);
  // Bytes per parameter: what is read and written of gradient, hi, lo, m and v (or weight, m, v).
  const std::vector<double> bytes = {28, 26, 28, 28, 28, 26, 26};
  const auto parameters = static_cast<double>(count);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    print_figure(subjects[i].name, bytes[i] * parameters / seconds[i].wall * 1e-9, "GB/s");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    print_figure(subjects[i].name, parameters / seconds[i].wall * 1e-9, "G parameters/s");
  }
  const auto ratio = [&](std::size_t update, std::size_t stream, double Seconds::*clock) {
    return std::min(seconds[stream].*clock, seconds[stream + 1].*clock) / (seconds[update].*clock);
  };
  print_figure("ratio to the faster stream, fp32 gradient", ratio(0, 3, &Seconds::wall),
               "(bar 0.90)");
  print_figure("  by processor time", ratio(0, 3, &Seconds::cpu), "");
  print_figure("ratio to the faster stream, bf16 gradient", ratio(1, 5, &Seconds::wall),
               "(bar 0.90)");
  print_figure("  by processor time", ratio(1, 5, &Seconds::cpu), "");
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  const auto argument = [&](int i, int fallback) {
    return argc > i ? std::atoi(argv[i]) : fallback;
  };
  const int millions = argument(1, 100), threads = argument(2, 2), repeats = argument(3, 15);
  if (millions < 1 || threads < 1 || repeats < 1) {
    std::fprintf(stderr, "usage: adamw_bench [parameters/2^20] [threads] [repeats]\n");
    return 2;
  }
  ferry::run(static_cast<std::size_t>(millions) << 20, threads, repeats);
  return 0;
}
