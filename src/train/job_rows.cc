#include "train/job_rows.h"

namespace ferry {

BatchRules training_rows(const Job& job, const TokenFile& file, std::int64_t held_out) {
  return {.sequence = job.data.sequence,
          .micro_batches = job.train.micro_batches,
          .micro_batch_size = job.train.micro_batch_size,
          .shuffle = job.data.shuffle,
          .packing = job.data.packing,
          .seed = static_cast<std::uint64_t>(job.train.seed),
          .first_sample = 0,
          .samples = file.size() - held_out};
}

BatchRules evaluation_rows(const Job& job, const TokenFile& file, std::int64_t held_out) {
  BatchRules rules = training_rows(job, file, held_out);
  rules.shuffle = false;
  rules.first_sample = rules.samples;
  rules.samples = held_out;
  return rules;
}

EpochFigures epoch_figures(const Batches& batches) {
  return {.rows = batches.rows(),
          .tokens = batches.epoch_tokens(),
          .learned = batches.epoch_learned(),
          .cut = batches.cut_samples()};
}

}  // namespace ferry
