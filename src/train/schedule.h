// The learning rate of each step, by the formulas of Hugging Face's Trainer.
#pragma once

#include "spec/job.h"

namespace ferry {

/// The learning rate of optimizer step `step`, counted from 0, of `steps` in all.
///   s < warm-up:  lr * s / warmup_steps                 (the first step of a warm-up has rate 0)
///   constant:     lr
///   linear:       lr * (steps - s) / (steps - warmup_steps)
///   cosine:       lr * (1 + cos(pi * (s - warmup_steps) / (steps - warmup_steps))) / 2
/// Requires: 0 <= step < steps.
double learning_rate(const OptimJob& optim, int step, int steps);

}  // namespace ferry
