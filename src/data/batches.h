// Which tokens a micro-batch holds: a pure function of (token file, rules, step, micro-batch), so
// that a run can be resumed anywhere and repeated outside ferry. docs/formats/data.md states the
// rules with an implementation in Python.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens.h"

namespace ferry {

struct BatchRules {
  std::int64_t sequence = 0;  // tokens per row
  std::int64_t micro_batches = 1;
  std::int64_t micro_batch_size = 1;  // rows per micro-batch
  bool shuffle = false;
  bool packing = false;
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;  // the first one seen
  std::int64_t samples = 0;       // how many are seen from there on; 0: all
};

/// One micro-batch, [rows, sequence] row-major. Labels are shifted already: labels[t] is the id
/// that follows ids[t] where that id is learned, else kIgnored; rows are padded on the right.
struct Batch {
  static constexpr std::int64_t kIgnored = -100;

  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> labels;
  std::int64_t learned = 0;  // labels that are not kIgnored
  std::int64_t tokens = 0;   // positions that are not padding

  // With packing only, else empty. A position attends to earlier positions of its own document.
  std::vector<std::int64_t> documents;  // their lengths, row by row; each row's padding belongs to
                                        // its last one, or is one where there is nothing else
  std::vector<std::int64_t> positions;  // from 0 in each document, 0 in padding
};

/// The micro-batches of a run. Not safe to use from two threads at once.
class Batches {
 public:
  /// Requires: sequence >= 2, micro_batches and micro_batch_size >= 1, fewer than 2^31 samples,
  /// the samples seen lie within the file; `file` outlives this object.
  /// Throws UserError when no row holds anything to learn.
  Batches(const TokenFile& file, const BatchRules& rules);

  /// Rows per epoch: samples, or packed rows.
  std::int64_t rows() const { return static_cast<std::int64_t>(learned_.size()); }
  std::int64_t micro_batches() const { return rules_.micro_batches; }  // of a step
  /// Samples longer than `sequence`, whose tail is never seen.
  std::int64_t cut_samples() const { return cut_samples_; }
  /// Positions per epoch that hold a token, after cutting, and those whose prediction is learned.
  std::int64_t epoch_tokens() const { return epoch_tokens_; }
  std::int64_t epoch_learned() const { return epoch_learned_; }

  /// Of a run that goes on: step `step` begins with the `sequence`-th sequence of the run, where
  /// the steps before it ended, be it with other batches. Only for steps from there on.
  void go_on(std::int64_t step, std::int64_t sequence);
  /// The first sequence of the step, and so how many the steps before it had.
  std::int64_t first_sequence(std::int64_t step) const;

  /// Micro-batch `micro_batch` of step `step`, both from 0.
  Batch batch(std::int64_t step, std::int64_t micro_batch);

  /// The samples of a micro-batch, by their number in the file, from 0.
  std::vector<std::int64_t> samples(std::int64_t step, std::int64_t micro_batch);

  /// Learned labels of the whole step: what its loss is divided by. May be 0.
  std::int64_t learned_in_step(std::int64_t step);

  /// Rows first_row ... first_row + count - 1 in file order, each once, for evaluation: rows
  /// beyond the last are padding and teach nothing. Requires: first_row, count >= 0.
  Batch consecutive(std::int64_t first_row, std::int64_t count) const;

 private:
  /// The row of the `number`-th sequence of the run.
  std::int64_t row_of(std::int64_t number);
  /// Of a micro-batch.
  std::int64_t first_sequence(std::int64_t step, std::int64_t micro_batch) const;
  void append_row(std::int64_t row, Batch& batch) const;
  void append_padding(std::int64_t count, Batch& batch) const;

  const TokenFile& file_;
  const BatchRules rules_;
  std::int64_t first_step_ = 0, first_sequence_ = 0;  // as go_on() has them
  std::vector<std::int64_t> first_sample_;  // of each row, and one more: row r holds samples
                                            // first_sample_[r] ... first_sample_[r + 1] - 1
  std::vector<std::int32_t> learned_;       // labels that are learned, per row
  std::int64_t cut_samples_ = 0;
  std::int64_t epoch_tokens_ = 0, epoch_learned_ = 0;
  std::int64_t shuffled_epoch_ = -1;  // whose order is in order_
  std::vector<std::int32_t> order_;
};

/// The order in which epoch `epoch` visits `rows` rows: splitmix64 and Fisher-Yates as
/// docs/formats/data.md writes them out. Requires: 0 <= rows < 2^31.
std::vector<std::int32_t> epoch_order(std::int64_t rows, std::uint64_t seed, std::int64_t epoch);

}  // namespace ferry
