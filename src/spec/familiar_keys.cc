#include "spec/familiar_keys.h"

#include <algorithm>
#include <array>

namespace ferry {
namespace {

constexpr std::string_view kAllParameters =
    "ferry trains all parameters, without LoRA; leave it out";
constexpr std::string_view kPlanned =
    "the planner decides what lies in DRAM; leave it out, or set "
    "how much of a device's memory is taken";
constexpr std::string_view kNoFetch = "a path; nothing is downloaded";
constexpr std::string_view kInSteps = "a number of steps";
constexpr std::string_view kPart = "a part of the rows; divide a number of rows by all";

constexpr auto kKeys = std::to_array<FamiliarKey>({
    // model and data
    {"base_model", "model", kNoFetch},
    {"model_name_or_path", "model", kNoFetch},
    {"model_name", "model", kNoFetch},
    {"pretrained_model_name_or_path", "model", kNoFetch},
    {"dataset", "data.train", kNoFetch},
    {"datasets", "data.train", kNoFetch},
    {"dataset_name", "data.train", kNoFetch},
    {"train_file", "data.train", kNoFetch},
    {"train_dataset", "data.train", kNoFetch},
    {"eval_dataset", "data.eval", kNoFetch},
    {"test_datasets", "data.eval", kNoFetch},
    {"validation_file", "data.eval", kNoFetch},
    {"val_set_size", "data.eval_fraction", kPart},
    {"val_size", "data.eval_fraction", kPart},
    {"cutoff_len", "data.sequence", ""},
    {"max_seq_length", "data.sequence", ""},
    {"max_seq_len", "data.sequence", ""},
    {"max_length", "data.sequence", ""},
    {"sequence_len", "data.sequence", ""},
    {"model_max_length", "data.sequence", ""},
    {"block_size", "data.sequence", ""},
    {"sample_packing", "data.packing", ""},
    {"neat_packing", "data.packing", ""},
    {"dataset_text_field", "data.text_key", ""},
    {"text_column", "data.text_key", ""},
    {"template", "data.chat_template", "the tokenizer's own where it is left out"},
    // length and batch
    {"num_train_epochs", "train.epochs", ""},
    {"num_epochs", "train.epochs", ""},
    {"max_steps", "train.steps", "leave out -1"},
    {"max_steps_per_epoch", "train.steps", "of the whole run"},
    {"per_device_train_batch_size", "train.micro_batch_size", ""},
    {"per_device_eval_batch_size", "train.micro_batch_size", "the same for both"},
    {"batch_size", "train.micro_batch_size", ""},
    {"gradient_accumulation_steps", "train.micro_batches",
     "of all devices together: multiply by the number of devices"},
    {"bf16", "train.precision", "write bf16 for true, fp32 for false"},
    {"fp16", "train.precision", "there is bf16 and fp32"},
    {"dtype", "train.precision", ""},
    {"torch_dtype", "train.precision", ""},
    {"data_seed", "train.seed", ""},
    // optimizer
    {"learning_rate", "optim.lr", ""},
    {"optimizer", "optim.name", "there is adamw"},
    {"lr_scheduler_type", "optim.schedule", "constant_with_warmup is constant"},
    {"lr_scheduler", "optim.schedule", ""},
    {"num_warmup_steps", "optim.warmup_steps", ""},
    {"max_grad_norm", "optim.clip", ""},
    {"clip_grad_norm", "optim.clip", ""},
    {"gradient_clipping", "optim.clip", ""},
    {"adam_beta1", "optim.betas", "a list of both: [beta1, beta2]"},
    {"adam_beta2", "optim.betas", "a list of both: [beta1, beta2]"},
    {"adam_epsilon", "optim.eps", ""},
    // what a run writes
    {"output_dir", "out", ""},
    {"save_total_limit", "train.keep", ""},
    {"save_steps", "train.save_every", kInSteps},
    {"save_strategy", "train.save_every", kInSteps},
    {"saves_per_epoch", "train.save_every", kInSteps},
    {"eval_steps", "train.eval_every", kInSteps},
    {"eval_strategy", "train.eval_every", kInSteps},
    {"evaluation_strategy", "train.eval_every", kInSteps},
    {"evals_per_epoch", "train.eval_every", kInSteps},
    {"logging_steps", "train.log_every", kInSteps},
    {"log_every_n_steps", "train.log_every", ""},
    {"resume_from_checkpoint", "", "go on with `ferry train JOB --resume`"},
    {"overwrite_output_dir", "",
     "what an earlier run saved is never overwritten; go on with --resume, or name another `out`"},
    // where states lie, and what is trained
    {"deepspeed", "budget.device", kPlanned},
    {"fsdp", "budget.device", kPlanned},
    {"fsdp_config", "budget.device", kPlanned},
    {"cpu_offload", "budget.device", kPlanned},
    {"gradient_checkpointing", "plan.activations", "the planner chooses; leave it out"},
    {"activation_checkpointing", "plan.activations", "the planner chooses; leave it out"},
    {"enable_activation_checkpointing", "plan.activations", "the planner chooses; leave it out"},
    {"flash_attention", "", "ferry chooses the kernels; leave it out"},
    {"attn_implementation", "", "ferry chooses the kernels; leave it out"},
    {"trust_remote_code", "", "code of a model's folder is never run; leave it out"},
    {"adapter", "", kAllParameters},
    {"finetuning_type", "", kAllParameters},
    {"lora_r", "", kAllParameters},
    {"lora_rank", "", kAllParameters},
    {"lora_alpha", "", kAllParameters},
    {"lora_target", "", kAllParameters},
    {"load_in_4bit", "", kAllParameters},
    {"load_in_8bit", "", kAllParameters},
});

}  // namespace

std::span<const FamiliarKey> familiar_keys() { return kKeys; }

const FamiliarKey* find_familiar_key(std::string_view name) {
  const auto known = std::ranges::find(kKeys, name, &FamiliarKey::name);
  return known == kKeys.end() ? nullptr : &*known;
}

std::string to_string(const FamiliarKey& known) {
  const std::string note(known.note);
  if (known.key.empty()) return note;
  const std::string text = "ferry calls it '" + std::string(known.key) + "'";
  return note.empty() ? text : text + ": " + note;
}

std::string familiar_reference() {
  std::string text = "| there | here | value |\n|---|---|---|\n";
  for (auto known = kKeys.begin(); known != kKeys.end();) {
    const FamiliarKey& first = *known;
    std::string names;
    for (; known != kKeys.end() && known->key == first.key && known->note == first.note; ++known) {
      names += (names.empty() ? "`" : ", `") + std::string(known->name) + "`";
    }
    text += "| " + names + " | " + (first.key.empty() ? "" : "`" + std::string(first.key) + "`") +
            " | " + std::string(first.note) + " |\n";
  }
  return text;
}

}  // namespace ferry
