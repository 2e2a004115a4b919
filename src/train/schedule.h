// The learning rate of each step, by the formulas of Hugging Face's Trainer.
#pragma once

#include "spec/job.h"

namespace ferry {

/// The learning rate of optimizer step `step`, counted from 0, of `steps` in all; the first
/// `warmup` are warmup_steps(optim, steps).
///   s < warmup:   lr * s / warmup                 (the first step of a warm-up has rate 0)
///   constant:     lr
///   linear:       lr * (steps - s) / (steps - warmup)
///   cosine:       lr * (1 + cos(pi * (s - warmup) / (steps - warmup))) / 2
/// Requires: 0 <= step < steps.
double learning_rate(const OptimJob& optim, int step, int steps);

}  // namespace ferry
