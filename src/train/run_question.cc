#include "train/run_question.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

/// Who knows a value: the job file, or only the run, which has opened the data and asked the box.
enum class Source { job, run };

struct Entry {
  std::string_view name;
  WhenChanged when;
  Source source = Source::job;
  std::string_view unrecorded = {};  // what it was in runs that did not record it; empty: unknown
};

using enum WhenChanged;

// Every key of a job (spec/job.cc) stands here once; a test says so.
constexpr std::array kTable = {
    Entry{"model", nothing},  // resumed weights are the checkpoint's; model.* below is their shape
    Entry{"data.train", named, Source::run},  // by the tokens that were made of it
    Entry{"data.eval", named, Source::run},
    Entry{"data.eval_fraction", named, Source::run},
    Entry{"data.sequence", named},
    Entry{"data.packing", named},
    Entry{"data.shuffle", named},
    Entry{"data.text_key", named},
    Entry{"data.chat_template", named},
    Entry{"data.on_error", nothing},  // what it leaves out shows in the tokens
    Entry{"train.steps", said},
    Entry{"train.epochs", nothing},  // has become train.steps
    Entry{"train.micro_batches", named},
    Entry{"train.micro_batch_size", named},
    Entry{"train.precision", named, Source::run},
    Entry{"train.gradients", named, Source::job, "fp32"},
    Entry{"train.seed", named},
    Entry{"train.eval_every", nothing},
    Entry{"train.save_every", nothing},
    Entry{"train.save_minutes", nothing},
    Entry{"train.save_last", nothing},
    Entry{"train.keep", nothing},
    Entry{"train.log_every", nothing},
    Entry{"train.report_to", nothing},
    Entry{"optim.name", named},
    Entry{"optim.lr", said},
    Entry{"optim.betas", said},
    Entry{"optim.eps", said},
    Entry{"optim.weight_decay", said},
    Entry{"optim.clip", said},
    Entry{"optim.schedule", said},
    Entry{"optim.warmup_steps", said},
    Entry{"optim.warmup_ratio", said},
    Entry{"machine", nothing},
    Entry{"budget.device", nothing},
    Entry{"budget.host", nothing},
    Entry{"budget.drive", nothing},
    Entry{"strategy", nothing},
    Entry{"threads", said, Source::run},  // as they are: the machine may say
    Entry{"out", nothing},
    // What a job does not say.
    Entry{"model.pad_token_id", named, Source::run, "none"},  // a row's gradient: the network stays
    Entry{"processor", said, Source::run},
    Entry{"torch", said, Source::run},
    Entry{"ferry", said, Source::run},
};

// Sections of a job that move no number, and the shape of the model.
constexpr std::string_view kPlan = "plan.", kPapers = "papers.", kModel = "model.";

const Entry* find(std::string_view name) {
  const auto* const found = std::ranges::find(kTable, name, &Entry::name);
  return found == kTable.end() ? nullptr : found;
}

std::string unrecorded(const std::string& name) {
  const Entry* const entry = find(name);
  const bool known = entry != nullptr && !entry->unrecorded.empty();
  return known ? std::string(entry->unrecorded) : "not recorded";
}

std::string flag(bool value) { return value ? "true" : "false"; }

std::string to_text(const Rope& rope) {
  std::string text = "rotary, theta " + real_text(rope.theta);
  if (rope.scaling == Rope::Scaling::none) return text;
  text += ", scaled by " + real_text(rope.factor);
  if (rope.scaling == Rope::Scaling::linear) return text;
  return text + " from " + real_text(rope.low_frequency_factor) + " to " +
         real_text(rope.high_frequency_factor) + " of " + std::to_string(rope.original_positions);
}

std::string to_text(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu:
      return "gelu";
    case Activation::relu:
      return "relu";
    case Activation::silu:
      return "silu";
  }
  FERRY_UNREACHABLE("unknown activation");
}

RunQuestion model_question(const ModelSpec& model) {
  const std::string norm = model.norm == NormKind::rms ? "rms" : "layer";
  return {
      {"model.hidden", std::to_string(model.hidden)},
      {"model.layers", std::to_string(model.layers)},
      {"model.heads", std::to_string(model.heads)},
      {"model.kv_heads", std::to_string(model.kv_heads)},
      {"model.head_dim", std::to_string(model.head_dim)},
      {"model.intermediate", std::to_string(model.intermediate)},
      {"model.vocab", std::to_string(model.vocab)},
      {"model.norm", norm + ", epsilon " + real_text(model.norm_epsilon)},
      {"model.positions", model.positions == PositionKind::rotary
                              ? to_text(model.rope)
                              : "learned, " + std::to_string(model.max_positions)},
      {"model.activation", to_text(model.activation)},
      {"model.input_first", flag(model.input_first)},
      {"model.fused_qkv", flag(model.fused_qkv)},
      {"model.qkv_bias", flag(model.qkv_bias)},
      {"model.output_bias", flag(model.output_bias)},
      {"model.qk_norm", flag(model.qk_norm)},
      {"model.gated_mlp", flag(model.gated_mlp)},
      {"model.mlp_bias", flag(model.mlp_bias)},
      {"model.tied", flag(model.tied)},
      {"model.pad_token_id", model.padding ? std::to_string(*model.padding) : "none"},
  };
}

/// "lr" of "optim.lr".
std::string last_word(const std::string& name) { return name.substr(name.rfind('.') + 1); }

UserError not_allowed(const std::string& word, std::vector<std::string> known) {
  const std::string refusal = "--allow " + word + ": ";
  if (word.starts_with(kModel)) {
    return UserError(refusal + "a checkpoint's weights cannot go on as another model");
  }
  const std::string names = joined(known);
  for (const std::string& name : std::vector(known)) known.push_back(last_word(name));
  const std::string near = nearest(word, known);
  return UserError(refusal + "no run depends on that; " +
                   (near.empty() ? "expected any of " + names : "did you mean '" + near + "'?"));
}

/// How a refusal goes on: what the user can do about `changes`, all of them refused.
std::string way_out(const std::vector<Change>& changes, const std::filesystem::path& checkpoint) {
  std::string names;
  bool possible = true;
  for (const Change& change : changes) {
    names += (names.empty() ? "" : ",") + change.name;
    possible = possible && when_changed(change.name) == named;
  }
  return "\n  try: as it was, " +
         (possible ? "--allow " + names + " to go on all the same, " : std::string()) +
         "or a new run with model: " + checkpoint.string();
}

}  // namespace

RunQuestion job_question(const Job& job, const ModelSpec& model) {
  RunQuestion question = model_question(model);
  for (const Entry& entry : kTable) {
    const std::string name(entry.name);
    if (entry.when == nothing || entry.source == Source::run) continue;
    question[name] = value_of(job, name);
  }
  return question;
}

RunQuestion run_question(const Job& job, const ModelSpec& model, const RunFacts& facts) {
  RunQuestion question = job_question(job, model);
  question["data.train"] = facts.train_rows;
  question["data.eval"] = facts.eval_rows;
  question["data.eval_fraction"] = facts.held_out;
  question["train.precision"] = facts.precision;
  question["threads"] = facts.threads;
  question["processor"] = facts.processor;
  question["torch"] = facts.torch;
  question["ferry"] = facts.ferry;
  return question;
}

std::vector<Change> changes_since(const RunQuestion& then, const RunQuestion& now,
                                  const std::vector<std::string>& allowed,
                                  const std::filesystem::path& checkpoint) {
  std::vector<Change> changes, refusals;
  for (const auto& [name, value] : now) {
    const auto before = then.find(name);
    const std::string was = before == then.end() ? unrecorded(name) : before->second;
    if (was == value) continue;
    const Change change{name, was, value};
    const WhenChanged when = when_changed(name);
    const bool goes_on = when == said || (when == named && std::ranges::count(allowed, name) > 0);
    (goes_on ? changes : refusals).push_back(change);
  }
  if (refusals.empty()) return changes;
  std::string message = checkpoint.string() +
                        ": it is of a run that asked otherwise, whose rows and numbers would not "
                        "go on";
  for (const Change& change : refusals) message += "\n  " + to_text(change);
  throw UserError(message + way_out(refusals, checkpoint));
}

std::vector<std::string> allowed_names(const std::vector<std::string>& words) {
  std::vector<std::string> known, allowed;
  for (const Entry& entry : kTable) {
    if (entry.when != nothing) known.emplace_back(entry.name);
  }
  for (const std::string& word : words) {
    const auto found = std::ranges::find_if(
        known, [&](const std::string& name) { return name == word || last_word(name) == word; });
    if (found == known.end()) throw not_allowed(word, known);
    allowed.push_back(*found);
  }
  return allowed;
}

WhenChanged when_changed(const std::string& name) {
  if (const Entry* entry = find(name)) return entry->when;
  if (name.starts_with(kModel)) return refused;
  if (name.starts_with(kPlan) || name.starts_with(kPapers)) return nothing;
  return named;
}

std::string to_text(const Change& change) {
  return change.name + ": then " + change.then + ", now " + change.now;
}

}  // namespace ferry
