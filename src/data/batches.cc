#include "data/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

/// The output function of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Where each row begins, in samples. Packing fills rows with consecutive samples: a sample that
/// does not fit what is left of a row starts the next one.
std::vector<std::int64_t> row_starts(const TokenFile& file, const BatchRules& rules) {
  const std::int64_t end = rules.samples > 0 ? rules.first_sample + rules.samples : file.size();
  FERRY_CHECK(rules.first_sample >= 0 && rules.first_sample < end && end <= file.size(),
              "the samples seen lie within the file");
  std::vector<std::int64_t> starts;
  std::int64_t left = 0;
  for (std::int64_t i = rules.first_sample; i < end; ++i) {
    const std::int64_t length = std::min(std::ssize(file.sample(i).ids), rules.sequence);
    if (!rules.packing || length > left) {
      starts.push_back(i);
      left = rules.sequence;
    }
    left -= length;
  }
  starts.push_back(end);
  return starts;
}

}  // namespace

std::vector<std::int32_t> epoch_order(std::int64_t rows, std::uint64_t seed, std::int64_t epoch) {
  FERRY_CHECK(rows >= 0 && rows <= std::numeric_limits<std::int32_t>::max(), "too many rows");
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::uint64_t state = mix(mix(seed + kGolden) + static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i) {
    state += kGolden;
    std::swap(order[i - 1], order[mix(state) % i]);
  }
  return order;
}

Batches::Batches(const TokenFile& file, const BatchRules& rules) : file_(file), rules_(rules) {
  FERRY_CHECK(rules.sequence >= 2 && rules.micro_batches >= 1 && rules.micro_batch_size >= 1,
              "batch rules out of bounds");
  FERRY_CHECK(file.size() <= std::numeric_limits<std::int32_t>::max(), "too many samples");
  first_sample_ = row_starts(file, rules);
  learned_.assign(first_sample_.size() - 1, 0);
  for (std::size_t row = 0; row < learned_.size(); ++row) {
    for (std::int64_t i = first_sample_[row]; i < first_sample_[row + 1]; ++i) {
      const Sample sample = file.sample(i);
      const auto kept = std::min(sample.ids.size(), static_cast<std::size_t>(rules.sequence));
      const auto flags = sample.learned.first(kept).subspan(1);
      learned_[row] += static_cast<std::int32_t>(std::ranges::count(flags, std::uint8_t{1}));
      cut_samples_ += kept < sample.ids.size() ? 1 : 0;
      epoch_tokens_ += static_cast<std::int64_t>(kept);
    }
    epoch_learned_ += learned_[row];
  }
  if (epoch_learned_ == 0) {
    throw UserError(file.source() + ": nothing to learn: no sample has a learned token " +
                    "among its tokens 2 to " + std::to_string(rules.sequence) +
                    "; try a larger data.sequence");
  }
}

std::int64_t Batches::row_of(std::int64_t number) {
  const std::int64_t epoch = number / rows();
  const std::int64_t place = number % rows();
  if (!rules_.shuffle) return place;
  if (shuffled_epoch_ != epoch) {
    order_ = epoch_order(rows(), rules_.seed, epoch);
    shuffled_epoch_ = epoch;
  }
  return order_[static_cast<std::size_t>(place)];
}

void Batches::go_on(std::int64_t step, std::int64_t sequence) {
  FERRY_CHECK(step >= 0 && sequence >= 0, "a run goes on from where it was");
  first_step_ = step;
  first_sequence_ = sequence;
}

std::int64_t Batches::first_sequence(std::int64_t step) const {
  FERRY_CHECK(step >= first_step_, "a step before the run goes on");
  return first_sequence_ + (step - first_step_) * rules_.micro_batches * rules_.micro_batch_size;
}

std::int64_t Batches::first_sequence(std::int64_t step, std::int64_t micro_batch) const {
  FERRY_CHECK(micro_batch >= 0 && micro_batch < rules_.micro_batches,
              "a micro-batch outside the step");
  return first_sequence(step) + micro_batch * rules_.micro_batch_size;
}

std::vector<std::int64_t> Batches::samples(std::int64_t step, std::int64_t micro_batch) {
  const std::int64_t first = first_sequence(step, micro_batch);
  std::vector<std::int64_t> samples;
  for (std::int64_t j = 0; j < rules_.micro_batch_size; ++j) {
    const auto row = static_cast<std::size_t>(row_of(first + j));
    for (std::int64_t i = first_sample_[row]; i < first_sample_[row + 1]; ++i) samples.push_back(i);
  }
  return samples;
}

Batch Batches::batch(std::int64_t step, std::int64_t micro_batch) {
  Batch batch;
  const std::int64_t first = first_sequence(step, micro_batch);
  for (std::int64_t j = 0; j < rules_.micro_batch_size; ++j) append_row(row_of(first + j), batch);
  return batch;
}

std::int64_t Batches::learned_in_step(std::int64_t step) {
  const std::int64_t first = first_sequence(step), end = first_sequence(step + 1);
  std::int64_t learned = 0;
  for (std::int64_t number = first; number < end; ++number) {
    learned += learned_[static_cast<std::size_t>(row_of(number))];
  }
  return learned;
}

Batch Batches::consecutive(std::int64_t first_row, std::int64_t count) const {
  FERRY_CHECK(first_row >= 0 && count >= 0, "a negative row");
  Batch batch;
  for (std::int64_t row = first_row; row < first_row + count; ++row) {
    if (row < rows()) {
      append_row(row, batch);
    } else {
      if (rules_.packing) batch.documents.push_back(0);
      append_padding(rules_.sequence, batch);
    }
  }
  return batch;
}

void Batches::append_row(std::int64_t row, Batch& batch) const {
  const auto r = static_cast<std::size_t>(row);
  std::int64_t filled = 0;
  for (std::int64_t i = first_sample_[r]; i < first_sample_[r + 1]; ++i) {
    const Sample sample = file_.sample(i);
    const std::int64_t kept = std::min(std::ssize(sample.ids), rules_.sequence);
    for (std::size_t t = 0; t < static_cast<std::size_t>(kept); ++t) {
      const bool taught = t + 1 < static_cast<std::size_t>(kept) && sample.learned[t + 1] != 0;
      batch.ids.push_back(sample.ids[t]);
      batch.labels.push_back(taught ? sample.ids[t + 1] : Batch::kIgnored);
      batch.learned += taught ? 1 : 0;
      if (rules_.packing) batch.positions.push_back(static_cast<std::int64_t>(t));
    }
    if (rules_.packing) batch.documents.push_back(kept);
    filled += kept;
  }
  batch.tokens += filled;
  append_padding(rules_.sequence - filled, batch);
}

void Batches::append_padding(std::int64_t count, Batch& batch) const {
  const auto n = static_cast<std::size_t>(count);
  batch.ids.insert(batch.ids.end(), n, file_.end_token().value_or(0));
  batch.labels.insert(batch.labels.end(), n, Batch::kIgnored);
  if (!rules_.packing) return;
  batch.documents.back() += count;
  batch.positions.insert(batch.positions.end(), n, 0);
}

}  // namespace ferry
