// What other trainers call the keys of a job: LLaMA-Factory, axolotl, torchtune, TRL and Hugging
// Face's Trainer. One table gives messages and the reference in docs/formats/job.md.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferry {

struct FamiliarKey {
  std::string_view name;  // there: "learning_rate"
  std::string_view key;   // here: "optim.lr"; empty: a job has no such key
  std::string_view note;  // how to convert the value where it means something else, or what ferry
                          // does instead; empty: the value stays as it is
};

std::span<const FamiliarKey> familiar_keys();

/// The entry of `name`; null when no other trainer is known to have it.
const FamiliarKey* find_familiar_key(std::string_view name);

/// "ferry calls it 'optim.lr'", and the note.
std::string to_string(const FamiliarKey& known);

/// The table of docs/formats/job.md: there, here, note.
std::string familiar_reference();

}  // namespace ferry
