// Ratel's measurements (ICDE 2025) beside the event program of papers/ratel/fuyou_program.h on the
// fitted server of ratel_servers.h: one fit over the rows with one GPU. With several GPUs a wait
// per model is fitted too, from the rows that say so (Fig 11) or over all five (Fig 13).
#pragma once

#include <string>
#include <vector>

#include "papers/published/paper_rows.h"
#include "papers/ratel/fuyou_program.h"

namespace ferry {

struct FuyouExperiment {
  std::string figure;  // "5a"
  std::string name;    // "13B b=8"
  FuyouProblem question;
  double published = 0;  // seconds per step
  double tokens = 0;     // per step, all GPUs: tokens per second are tokens / seconds
  Provenance provenance = Provenance::printed;
  bool is_input = false;  // the wait of its model's other rows comes from this one
};

/// Figures 5a, 5b, 7a, 7b, 9a, 10a, 11 and 13, unsolved.
std::vector<FuyouExperiment> fuyou_experiment_questions();

struct FuyouExperimentRow {
  std::string figure;
  std::string name;
  double ours = 0;       // seconds per step, simulated
  double published = 0;  // seconds per step
  double tokens = 0;     // per step
  Provenance provenance = Provenance::printed;
  bool is_input = false;

  double error() const { return ours / published - 1; }
};

/// All of them, simulated; about 60 programs.
std::vector<FuyouExperimentRow> fuyou_experiments();

}  // namespace ferry
