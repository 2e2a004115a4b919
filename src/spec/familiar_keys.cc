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
constexpr std::string_view kOffload =
    "DRAM is always used; for drives too, a size or {path: FOLDER, capacity: SIZE}";
constexpr std::string_view kNoFetch = "a path; nothing is downloaded";
constexpr std::string_view kInSteps = "a number of steps";
constexpr std::string_view kPart = "a part of the rows; divide a number of rows by all";
constexpr std::string_view kOfFolder = "read from the model's folder; leave it out";
constexpr std::string_view kTokenised =
    "tokens are made on all cores and kept in the cache; leave it out";
constexpr std::string_view kAnswers = "answers are learned, prompts are not; leave it out";
constexpr std::string_view kPadded = "rows are padded to data.sequence; leave it out";
constexpr std::string_view kSameForBoth = "the same for both";
constexpr std::string_view kTwoPrecisions = "there is bf16 and fp32";
constexpr std::string_view kShape = "constant, linear, or cosine down to 0";
constexpr std::string_view kKernels = "ferry chooses the kernels; leave it out";
constexpr std::string_view kActivations = "the planner chooses; leave it out";
constexpr std::string_view kResume = "go on with `ferry train JOB --resume`";
constexpr std::string_view kNoUpload = "nothing is uploaded; leave it out";
constexpr std::string_view kWhole = "checkpoints hold model and optimizer; leave it out";
constexpr std::string_view kTensorBoard = "there is tensorboard, which writes to OUT/tensorboard";
constexpr std::string_view kToTheEnd =
    "a run goes to its end; `ferry report OUT` shows its evaluations";
constexpr std::string_view kTrains = "`ferry train` fine-tunes; leave it out";
constexpr std::string_view kOneProcess = "one process drives all devices; leave it out";

constexpr auto kKeys = std::to_array<FamiliarKey>({
    // model and data
    {"base_model", "model", kNoFetch},
    {"model_name_or_path", "model", kNoFetch},
    {"model_name", "model", kNoFetch},
    {"pretrained_model_name_or_path", "model", kNoFetch},
    {"model_revision", "", kOfFolder},
    {"model_type", "", kOfFolder},
    {"tokenizer", "", kOfFolder},
    {"tokenizer_name", "", kOfFolder},
    {"tokenizer_type", "", kOfFolder},
    {"special_tokens", "", kOfFolder},
    {"eos_token", "", kOfFolder},
    {"checkpointer", "model", "the folder alone"},
    {"dataset", "data.train", kNoFetch},
    {"datasets", "data.train", kNoFetch},
    {"dataset_name", "data.train", kNoFetch},
    {"dataset_mixture", "data.train", kNoFetch},
    {"train_file", "data.train", kNoFetch},
    {"train_dataset", "data.train", kNoFetch},
    {"eval_dataset", "data.eval", kNoFetch},
    {"test_datasets", "data.eval", kNoFetch},
    {"validation_file", "data.eval", kNoFetch},
    {"val_set_size", "data.eval_fraction", kPart},
    {"val_size", "data.eval_fraction", kPart},
    {"max_samples", "train.epochs", "below 1, such a part of the rows"},
    {"streaming", "", kTokenised},
    {"dataset_prepared_path", "", kTokenised},
    {"overwrite_cache", "", kTokenised},
    {"preprocessing_num_workers", "", kTokenised},
    {"dataset_processes", "", kTokenised},
    {"dataset_num_proc", "", kTokenised},
    {"dataloader_num_workers", "", kTokenised},
    {"remove_unused_columns", "", "other keys of a row are ignored; leave it out"},
    {"train_on_inputs", "", kAnswers},
    {"train_on_prompt", "", kAnswers},
    {"mask_history", "", kAnswers},
    {"assistant_only_loss", "", kAnswers},
    {"completion_only_loss", "", kAnswers},
    {"roles_to_train", "", kAnswers},
    {"cutoff_len", "data.sequence", ""},
    {"max_seq_length", "data.sequence", ""},
    {"max_seq_len", "data.sequence", ""},
    {"max_length", "data.sequence", ""},
    {"sequence_len", "data.sequence", ""},
    {"model_max_length", "data.sequence", ""},
    {"seq_len", "data.sequence", ""},
    {"block_size", "data.sequence", ""},
    {"sample_packing", "data.packing", ""},
    {"neat_packing", "data.packing", ""},
    {"packed", "data.packing", ""},
    {"eval_sample_packing", "data.packing", kSameForBoth},
    {"packing_strategy", "data.packing", "true or false"},
    {"pad_to_sequence_len", "", kPadded},
    {"group_by_length", "", kPadded},
    {"shuffle_merged_datasets", "data.shuffle", ""},
    {"dataset_text_field", "data.text_key", ""},
    {"text_column", "data.text_key", ""},
    {"template", "data.chat_template", "the tokenizer's own where it is left out"},
    {"chat_template_path", "data.chat_template", "a file"},
    {"chat_template_jinja", "data.chat_template", "a file"},
    // length and batch
    {"num_train_epochs", "train.epochs", ""},
    {"num_epochs", "train.epochs", ""},
    {"max_steps", "train.steps", "leave out -1"},
    {"max_train_steps", "train.steps", ""},
    {"max_steps_per_epoch", "train.steps", "of the whole run"},
    {"per_device_train_batch_size", "train.micro_batch_size", ""},
    {"per_device_eval_batch_size", "train.micro_batch_size", kSameForBoth},
    {"eval_batch_size", "train.micro_batch_size", kSameForBoth},
    {"batch_size", "train.micro_batch_size", ""},
    {"gradient_accumulation_steps", "train.micro_batches",
     "of all devices together: multiply by the number of devices"},
    {"bf16", "train.precision", "write bf16 for true, fp32 for false"},
    {"pure_bf16", "train.precision", "bf16 has an exact fp32 master here"},
    {"fp16", "train.precision", kTwoPrecisions},
    {"tf32", "train.precision", kTwoPrecisions},
    {"mixed_precision", "train.precision", kTwoPrecisions},
    {"dtype", "train.precision", ""},
    {"torch_dtype", "train.precision", ""},
    {"data_seed", "train.seed", ""},
    // optimizer
    {"learning_rate", "optim.lr", ""},
    {"optimizer", "optim.name", "there is adamw"},
    {"lr_scheduler_type", "optim.schedule", "constant_with_warmup is constant"},
    {"lr_scheduler", "optim.schedule", ""},
    {"lr_scheduler_kwargs", "optim.schedule", kShape},
    {"cosine_min_lr_ratio", "optim.schedule", kShape},
    {"num_warmup_steps", "optim.warmup_steps", ""},
    {"max_grad_norm", "optim.clip", ""},
    {"clip_grad_norm", "optim.clip", ""},
    {"gradient_clipping", "optim.clip", ""},
    {"grad_clip", "optim.clip", ""},
    {"adam_beta1", "optim.betas", "a list of both: [beta1, beta2]"},
    {"adam_beta2", "optim.betas", "a list of both: [beta1, beta2]"},
    {"adam_epsilon", "optim.eps", ""},
    // what a run writes
    {"output_dir", "out", ""},
    {"run_name", "out", "its folder names a run"},
    {"save_total_limit", "train.keep", ""},
    {"save_steps", "train.save_every", kInSteps},
    {"save_strategy", "train.save_every", kInSteps},
    {"saves_per_epoch", "train.save_every", kInSteps},
    {"save_every_n_steps", "train.save_every", ""},
    {"save_only_model", "", kWhole},
    {"save_safetensors", "", kWhole},
    {"eval_steps", "train.eval_every", kInSteps},
    {"eval_strategy", "train.eval_every", kInSteps},
    {"evaluation_strategy", "train.eval_every", kInSteps},
    {"evals_per_epoch", "train.eval_every", kInSteps},
    {"do_eval", "train.eval_every", kInSteps},
    {"early_stopping_patience", "", kToTheEnd},
    {"load_best_model_at_end", "", kToTheEnd},
    {"plot_loss", "", "`ferry report OUT` draws it; leave it out"},
    {"logging_steps", "train.log_every", kInSteps},
    {"logging_strategy", "train.log_every", kInSteps},
    {"log_every_n_steps", "train.log_every", ""},
    {"log_level", "", "there is one; leave it out"},
    {"logging_dir", "train.report_to", kTensorBoard},
    {"use_tensorboard", "train.report_to", kTensorBoard},
    {"metric_logger", "train.report_to", kTensorBoard},
    {"use_wandb", "train.report_to", kTensorBoard},
    {"wandb_project", "train.report_to", kTensorBoard},
    {"wandb_entity", "train.report_to", kTensorBoard},
    {"wandb_watch", "train.report_to", kTensorBoard},
    {"wandb_name", "train.report_to", kTensorBoard},
    {"wandb_log_model", "train.report_to", kTensorBoard},
    {"push_to_hub", "", kNoUpload},
    {"hub_model_id", "", kNoUpload},
    {"hub_strategy", "", kNoUpload},
    {"resume_from_checkpoint", "", kResume},
    {"auto_resume_from_checkpoints", "", kResume},
    {"overwrite_output_dir", "",
     "what an earlier run saved is never overwritten; go on with --resume, or name another `out`"},
    // where states lie, and what is trained
    {"deepspeed", "budget.device", kPlanned},
    {"fsdp", "budget.device", kPlanned},
    {"fsdp_config", "budget.device", kPlanned},
    {"cpu_offload", "budget.device", kPlanned},
    {"offload_optimizer", "budget.drive", kOffload},
    {"offload_param", "budget.drive", kOffload},
    {"offload_optimizer_device", "budget.drive", kOffload},
    {"offload_param_device", "budget.drive", kOffload},
    {"nvme_path", "budget.drive", kOffload},
    {"offload_optimizer_nvme_path", "budget.drive", kOffload},
    {"offload_param_nvme_path", "budget.drive", kOffload},
    {"gradient_checkpointing", "plan.activations", kActivations},
    {"gradient_checkpointing_kwargs", "plan.activations", kActivations},
    {"activation_checkpointing", "plan.activations", kActivations},
    {"enable_activation_checkpointing", "plan.activations", kActivations},
    {"activation_offloading", "plan.activations", kActivations},
    {"enable_activation_offloading", "plan.activations", kActivations},
    {"optimizer_in_bwd", "", "the planner decides when updates run; leave it out"},
    {"ddp_timeout", "", kOneProcess},
    {"average_tokens_across_devices", "", kOneProcess},
    {"flash_attention", "", kKernels},
    {"flash_attn", "", kKernels},
    {"xformers_attention", "", kKernels},
    {"sdp_attention", "", kKernels},
    {"attn_implementation", "", kKernels},
    {"use_liger_kernel", "", kKernels},
    {"enable_liger_kernel", "", kKernels},
    {"compile", "", kKernels},
    {"torch_compile", "", kKernels},
    {"loss", "", "cross-entropy of the next token; leave it out"},
    {"stage", "", kTrains},
    {"do_train", "", kTrains},
    {"trust_remote_code", "", "code of a model's folder is never run; leave it out"},
    {"adapter", "", kAllParameters},
    {"finetuning_type", "", kAllParameters},
    {"lora_r", "", kAllParameters},
    {"lora_rank", "", kAllParameters},
    {"lora_alpha", "", kAllParameters},
    {"lora_target", "", kAllParameters},
    {"lora_dropout", "", kAllParameters},
    {"lora_target_modules", "", kAllParameters},
    {"lora_target_linear", "", kAllParameters},
    {"use_peft", "", kAllParameters},
    {"quantization_bit", "", kAllParameters},
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
