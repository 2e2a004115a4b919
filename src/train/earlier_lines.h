// The log of an earlier run, for one that goes on from it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

struct EarlierLines {
  struct Step {
    int step = 0;
    double loss = 0;
    double grad_norm = 0;
  };
  std::string text;           // the lines of steps up to the one that the run goes on from
  std::vector<Step> learned;  // the steps that learned something, in order
  int evaluated = 0;          // the step after which it was evaluated last; 0: never
};

/// Of steps up to `keep_until`. Lines that a crash or somebody else wrote are left out; a file that
/// is not there has none. Throws UserError for what is no regular file, ResourceError for one that
/// cannot be read: taken for empty, its lines would be lost when the log is written anew.
EarlierLines read_earlier_lines(const std::filesystem::path& log, int keep_until);

/// The share of the last hundred steps whose gradients' norm was above `clip`, in twentieths, so
/// that a few steps more ask for no other plan. Nothing of fewer than ten.
std::optional<double> clipped_share(const EarlierLines& lines, double clip);

}  // namespace ferry
