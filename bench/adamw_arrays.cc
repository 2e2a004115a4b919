#include "adamw_arrays.h"

#include <bit>
#include <random>

#include "optim/split.h"

namespace ferry {
namespace {

constexpr Bytes kBytesPerParameter = 22_B;  // four fp32 arrays, three of 16 bits

}  // namespace

AdamWArrays::AdamWArrays(std::size_t count, WorkerTeam& team)
    : slab_(kBytesPerParameter * static_cast<std::int64_t>(count)) {
  slab_.touch(team.threads());
  Bytes offset;
  const auto take = [&]<class T>(std::span<T>& array) {
    const Bytes size{static_cast<std::int64_t>(count * sizeof(T))};
    array = {reinterpret_cast<T*>(slab_.at(offset, size).data()), count};
    offset += size;
  };
  for (auto* array : {&weight, &m, &v, &gradient}) take(*array);
  for (auto* array : {&hi, &lo, &gradient_bf16}) take(*array);
  team.for_each(count / 4096, [&](std::size_t page) {
    std::minstd_rand random(static_cast<unsigned>(page + 1));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::size_t i = page * 4096; i < (page + 1) * 4096; ++i) {
      weight[i] = uniform(random);
      gradient[i] = 1e-3F * uniform(random);
      m[i] = 1e-3F * uniform(random);
      v[i] = 1e-6F * (1.5F + uniform(random));
      const auto bits = std::bit_cast<std::uint32_t>(weight[i]);
      hi[i] = split_hi(bits);
      lo[i] = split_lo(bits);
      gradient_bf16[i] = split_hi(std::bit_cast<std::uint32_t>(gradient[i]));
    }
  });
}

}  // namespace ferry
