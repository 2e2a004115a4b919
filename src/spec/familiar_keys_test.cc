#include "spec/familiar_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "spec/job.h"

namespace ferry {
namespace {

std::string refusal(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    parse_job(text, "job.yaml", overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FamiliarKeys, EveryOneStandsForAKeyThatJobsHave) {
  const std::string keys = job_reference();
  std::set<std::string_view> names;
  for (const FamiliarKey& known : familiar_keys()) {
    EXPECT_TRUE(names.insert(known.name).second) << known.name << " stands there twice";
    EXPECT_EQ(keys.find("\n| `" + std::string(known.name) + "` |"), std::string::npos)
        << known.name << " is a key of ferry's";
    EXPECT_FALSE(known.key.empty() && known.note.empty()) << known.name;
    if (known.key.empty()) continue;
    EXPECT_NE(keys.find("| `" + std::string(known.key) + "` |"), std::string::npos) << known.key;
  }
}

TEST(FamiliarKeys, AKeyOfAnotherTrainerIsAnsweredWithFerrys) {
  EXPECT_EQ(refusal("model: m\nlearning_rate: 1e-5\n"),
            "job.yaml:2: unknown key 'learning_rate'; ferry calls it 'optim.lr'");
  EXPECT_EQ(refusal("model: m\ntrain:\n  gradient_accumulation_steps: 8\n"),
            "job.yaml:3: unknown key 'gradient_accumulation_steps'; ferry calls it "
            "'train.micro_batches': of all devices together: multiply by the number of devices");
  EXPECT_EQ(refusal("model: m\nlora_r: 8\n"),
            "job.yaml:2: unknown key 'lora_r'; ferry trains all parameters, without LoRA; leave it "
            "out");
  EXPECT_EQ(refusal("model: m", {"output_dir=runs/x"}),
            "command line: 'output_dir=runs/x': unknown key 'output_dir'; ferry calls it 'out'");
  EXPECT_EQ(refusal("model: m", {"optim.learning_rate=1"}),
            "command line: 'optim.learning_rate=1': unknown key 'optim.learning_rate'; ferry calls "
            "it 'optim.lr'");
  EXPECT_EQ(refusal("model: m", {"training.max_steps=1"}),
            "command line: 'training.max_steps=1': unknown key 'training.max_steps'; ferry calls "
            "it 'train.steps': leave out -1");
}

TEST(FamiliarKeys, AJobOfAnotherTrainerIsAnsweredInOneGo) {
  EXPECT_EQ(refusal("model: m\ntrain:\n  warmup_ratio: 0.1\nlearning_rate: 1e-5\nlora_r: 8\n"),
            "job.yaml:3: unknown key 'warmup_ratio'; did you mean 'optim.warmup_ratio'?\n"
            "job.yaml:4: unknown key 'learning_rate'; ferry calls it 'optim.lr'\n"
            "job.yaml:5: unknown key 'lora_r'; ferry trains all parameters, without LoRA; leave it "
            "out");
}

TEST(FamiliarKeys, OfManyInOneLineTwentyAreTold) {
  std::string job = "{model: m";
  for (int i = 0; i < 100; ++i) job += ", unheard" + std::to_string(i) + ": 1";
  const std::string said = refusal(job + "}", {});
  EXPECT_EQ(std::ranges::count(said, '\n'), 19) << said;
}

TEST(FamiliarKeys, AKeyWithoutItsSectionIsAnsweredWithTheWholeName) {
  for (const auto& [name, key] : std::vector<std::pair<std::string, std::string>>{
           {"lr", "optim.lr"}, {"seed", "train.seed"}, {"packing", "data.packing"}}) {
    EXPECT_EQ(refusal("model: m", {name + "=1"}), "command line: '" + name + "=1': unknown key '" +
                                                      name + "'; did you mean '" + key + "'?");
    EXPECT_EQ(meant_key(name), key);
  }
  EXPECT_EQ(meant_key("max_grad_norm"), "optim.clip");
  EXPECT_EQ(meant_key("per_device_train_batch_size"), "train.micro_batch_size");
  EXPECT_EQ(meant_key("cutoff_len"), "data.sequence");
  EXPECT_EQ(meant_key("save_total_limit"), "train.keep");
  EXPECT_EQ(meant_key("base_model"), "model");
  EXPECT_EQ(meant_key("optim.lrr"), "optim.lr");
  EXPECT_EQ(meant_key("xyzzyxyzzy"), "");
}

// Of their own examples of full fine-tuning, all but what ferry has under the same name and place.
TEST(FamiliarKeys, EveryKeyOfTheOthersExamplesIsAnswered) {
  const std::string llama_factory =
      "model_name_or_path trust_remote_code stage do_train finetuning_type deepspeed dataset "
      "template cutoff_len max_samples overwrite_cache preprocessing_num_workers "
      "dataloader_num_workers output_dir logging_steps save_steps plot_loss overwrite_output_dir "
      "save_only_model report_to per_device_train_batch_size gradient_accumulation_steps "
      "learning_rate num_train_epochs lr_scheduler_type warmup_ratio bf16 ddp_timeout "
      "resume_from_checkpoint eval_dataset val_size per_device_eval_batch_size eval_strategy "
      "eval_steps flash_attn packing neat_packing mask_history ";
  const std::string axolotl =
      "base_model model_type tokenizer_type load_in_8bit load_in_4bit datasets "
      "dataset_prepared_path val_set_size output_dir sequence_len sample_packing "
      "eval_sample_packing pad_to_sequence_len wandb_project wandb_entity wandb_watch wandb_name "
      "wandb_log_model gradient_accumulation_steps micro_batch_size num_epochs optimizer "
      "lr_scheduler learning_rate train_on_inputs group_by_length bf16 fp16 tf32 "
      "gradient_checkpointing gradient_checkpointing_kwargs early_stopping_patience "
      "resume_from_checkpoint logging_steps xformers_attention flash_attention warmup_steps "
      "evals_per_epoch saves_per_epoch deepspeed weight_decay fsdp fsdp_config special_tokens "
      "adam_beta1 adam_beta2 adam_epsilon max_grad_norm chat_template seed shuffle_merged_datasets "
      "save_total_limit ";
  const std::string trl =
      "model_name_or_path model_revision torch_dtype attn_implementation trust_remote_code "
      "chat_template_path dataset_mixture dataset_name dataset_num_proc dataset_text_field "
      "eos_token assistant_only_loss completion_only_loss bf16 do_eval eval_strategy "
      "gradient_accumulation_steps gradient_checkpointing hub_model_id hub_strategy push_to_hub "
      "learning_rate log_level logging_dir logging_steps logging_strategy lr_scheduler_type "
      "lr_scheduler_kwargs packing packing_strategy max_grad_norm max_length max_seq_length "
      "max_steps num_train_epochs overwrite_output_dir per_device_train_batch_size "
      "per_device_eval_batch_size remove_unused_columns report_to save_strategy save_steps "
      "save_total_limit seed data_seed use_liger_kernel warmup_ratio warmup_steps weight_decay "
      "run_name average_tokens_across_devices load_best_model_at_end torch_compile ";
  const std::string torchtune =
      "output_dir tokenizer dataset seed shuffle checkpointer resume_from_checkpoint "
      "save_every_n_steps batch_size epochs optimizer loss max_steps_per_epoch "
      "gradient_accumulation_steps optimizer_in_bwd clip_grad_norm compile device "
      "enable_activation_checkpointing enable_activation_offloading dtype metric_logger "
      "log_every_n_steps";
  std::istringstream keys(llama_factory + axolotl + trl + torchtune);
  for (std::string key; keys >> key;) {
    const FamiliarKey* known = find_familiar_key(key);
    const std::string answer =
        known == nullptr ? "did you mean '" + meant_key(key) + "'?" : to_string(*known);
    EXPECT_EQ(refusal("model: m\n" + key + ": x\n"),
              "job.yaml:2: unknown key '" + key + "'; " + answer);
    if (known == nullptr) {
      EXPECT_TRUE(meant_key(key).ends_with("." + key)) << key << " is not known";
    }
  }
}

TEST(FamiliarKeys, TheDocumentedOnesAreTheOnesThatAreAnswered) {
  std::ifstream file(FERRY_SOURCE_DIR "/docs/formats/job.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(familiar_reference()), std::string::npos)
      << "docs/formats/job.md must hold this table:\n"
      << familiar_reference();
}

}  // namespace
}  // namespace ferry
