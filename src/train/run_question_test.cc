#include "train/run_question.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ferry {
namespace {

Job example_job(const std::vector<std::string>& overrides = {}) {
  return parse_job("model: m\ndata: {train: t.jsonl, sequence: 16}\ntrain: {steps: 9}\n",
                   "job.yaml", overrides);
}

RunQuestion question(const std::vector<std::string>& overrides = {}, const ModelSpec& model = {},
                     const std::string& rows = "a1b2, 7 rows") {
  return run_question(example_job(overrides), model,
                      {.train_rows = rows,
                       .eval_rows = "none",
                       .held_out = "0 rows",
                       .precision = "fp32",
                       .threads = "1",
                       .processor = "p",
                       .torch = "2",
                       .ferry = "0"});
}

std::string refusal(const RunQuestion& now, const std::vector<std::string>& allowed = {}) {
  try {
    changes_since(question(), now, allowed, "out/step-000004");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// A key that is added to the job needs a decision: what does a resumed run do when it changes?
TEST(RunQuestion, EveryKeyOfAJobHasItsPlaceInTheTable) {
  const RunQuestion whole = question();
  for (const std::string& key : job_keys()) {
    const bool decided = when_changed(key) == WhenChanged::nothing || whole.contains(key);
    EXPECT_TRUE(decided) << "say in src/train/run_question.cc what a resumed run does when '" << key
                         << "' has changed";
  }
}

TEST(RunQuestion, PlacesBudgetsAndStrategyMayChangeUnseen) {
  EXPECT_EQ(question(), question({"budget.device=1 MiB", "strategy=mobius", "out=elsewhere",
                                  "train.save_every=3", "plan.stages=[1,1]", "machine=m.yaml"}));
}

TEST(RunQuestion, AnotherRoundingOfSumsIsRefusedUnlessNamed) {
  const RunQuestion rounded = question({"train.gradients=bf16"});
  EXPECT_NE(refusal(rounded).find("train.gradients: then fp32, now bf16"), std::string::npos);
  EXPECT_EQ(refusal(rounded, allowed_names({"gradients"})), "");
}

// Runs that did not record it rounded nothing.
TEST(RunQuestion, ACheckpointOfBeforeTheKeyGoesOnInFp32) {
  RunQuestion before = question();
  before.erase("train.gradients");
  EXPECT_TRUE(changes_since(before, question(), {}, "c").empty());
  EXPECT_THROW(changes_since(before, question({"train.gradients=bf16"}), {}, "c"), UserError);
}

TEST(RunQuestion, ScheduleAndRoundingAreSaid) {
  RunQuestion now = question({"optim.lr=0.5", "optim.schedule=linear", "optim.warmup_steps=3",
                              "optim.weight_decay=0.5", "train.steps=20"});
  now["processor"] = "another";
  std::vector<std::string> said;
  for (const Change& change : changes_since(question(), now, {}, "c")) {
    said.push_back(to_text(change));
  }
  EXPECT_EQ(said, (std::vector<std::string>{
                      "optim.lr: then 2.0e-05, now 0.5", "optim.schedule: then cosine, now linear",
                      "optim.warmup_ratio: then 0.03, now 0",
                      "optim.warmup_steps: then null, now 3", "optim.weight_decay: then 0, now 0.5",
                      "processor: then p, now another", "train.steps: then 9, now 20"}));
}

TEST(RunQuestion, OtherRowsAreRefusedUnlessNamed) {
  for (const std::string change :
       {"data.sequence=8", "data.packing=true", "data.shuffle=false", "data.text_key=body",
        "train.micro_batches=2", "train.micro_batch_size=2", "train.seed=5"}) {
    const std::string key = change.substr(0, change.find('='));
    EXPECT_NE(refusal(question({change})).find("\n  " + key + ": then "), std::string::npos) << key;
    EXPECT_EQ(refusal(question({change}), {key}), "") << key;
  }
  EXPECT_EQ(
      refusal(question({}, {}, "c3d4, 7 rows")),
      "out/step-000004: it is of a run that asked otherwise, whose rows and numbers would not "
      "go on\n  data.train: then a1b2, 7 rows, now c3d4, 7 rows\n  try: as it was, --allow "
      "data.train to go on all the same, or a new run with model: out/step-000004");
}

TEST(RunQuestion, OtherHeldOutRowsAreRefusedUnlessNamed) {
  for (const auto& [key, then, now] : std::vector<std::array<std::string, 3>>{
           {"data.eval", "none", "c3d4, 5 rows"}, {"data.eval_fraction", "0 rows", "2 rows"}}) {
    RunQuestion changed = question();
    changed[key] = now;
    EXPECT_NE(refusal(changed).find("\n  " + key + ": then " + then + ", now " + now + "\n"),
              std::string::npos)
        << refusal(changed);
    EXPECT_EQ(refusal(changed, {key}), "");
  }
}

TEST(RunQuestion, AnotherNetworkIsRefusedWhateverIsAllowed) {
  ModelSpec model;
  const auto said = [&] { return refusal(question({"data.sequence=8"}, model)); };
  model.heads = 8;
  EXPECT_NE(said().find("model.heads: then 0, now 8"), std::string::npos) << said();
  EXPECT_EQ(said().find("--allow"), std::string::npos) << said();
  model = {};
  model.rope.theta = 5e5;
  EXPECT_NE(said().find("model.positions: then rotary"), std::string::npos) << said();
  model = {};
  model.tied = true;
  EXPECT_NE(said().find("model.tied: then false, now true"), std::string::npos) << said();
}

// Runs that did not record it gave every token's row its gradient.
TEST(RunQuestion, AnotherPaddingIsRefusedUnlessNamed) {
  ModelSpec model;
  RunQuestion before = question();
  before.erase("model.pad_token_id");
  EXPECT_TRUE(changes_since(before, question({}, model), {}, "c").empty());
  model.padding = 7;
  const RunQuestion now = question({}, model);
  EXPECT_NE(refusal(now).find("model.pad_token_id: then none, now 7"), std::string::npos);
  EXPECT_THROW(changes_since(before, now, {}, "c"), UserError);
  EXPECT_EQ(refusal(now, allowed_names({"model.pad_token_id"})), "");
}

TEST(RunQuestion, WhatIsAllowedGoesByItsLastWordToo) {
  EXPECT_EQ(allowed_names({"sequence", "train.seed"}),
            (std::vector<std::string>{"data.sequence", "train.seed"}));
  for (const std::string word : {"sequense", "model.heads", "out"}) {
    EXPECT_THROW(allowed_names({word}), UserError) << word;
  }
}

}  // namespace
}  // namespace ferry
