#include "spec/job.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "spec/model_spec.h"

namespace ferry {
namespace {

constexpr const char* kSmallest = R"(model: out/base
data: {train: data.jsonl}
train: {steps: 200}
)";

constexpr const char* kFull = R"(model: out/base                 # HF directory
data: {train: data.jsonl, eval: null, sequence: 256, packing: false, shuffle: true, text_key: null}
train: {steps: 200, micro_batches: 4, micro_batch_size: 2, precision: fp32, seed: 7, eval_every: 0, save_every: 0, keep: 2}
optim: {name: adamw, lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.0, clip: 1.0, schedule: cosine, warmup_steps: 3}
machine: machines/cpu2.yaml
budget:
  device: 64 MiB
  host: 4 GiB
strategy: mobius
out: runs/gsm8k
)";

Job parse(const std::string& text, std::vector<std::string> overrides = {}) {
  return parse_job(text, "jobs/7b.yaml", overrides);
}

std::string error_of(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    parse(text, std::move(overrides));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string with(const std::string& line) { return kSmallest + line + "\n"; }

TEST(Job, APassThatIsNotThereIsRefusedWithTheList) {
  const std::string job = "model: gpt2\nplan: {without: \"rings, ring\"}\n";
  try {
    parse_job(job, "job.yaml");
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("job.yaml:2: unknown pass 'ring' in 'plan.without'; did you mean"))
        << text;
    EXPECT_NE(text.find("expected any of activations, homes, rings, updates"), std::string::npos)
        << text;
  }
  EXPECT_EQ(listed_names("rings,  activations,"),
            (std::vector<std::string>{"rings", "activations"}));
}

TEST(Job, EveryKeyOfTheFileArrives) {
  const Job job = parse(kFull);
  EXPECT_EQ(job.model, "out/base");
  EXPECT_EQ(job.data.train, (DataFiles{{"data.jsonl"}}));
  EXPECT_EQ(job.data.eval, DataFiles{});
  EXPECT_EQ(job.train.micro_batches, 4);
  EXPECT_EQ(job.train.precision, Precision::fp32);
  EXPECT_EQ(job.train.seed, 7);
  EXPECT_EQ(job.optim.lr, 1e-4);
  EXPECT_EQ(job.optim.betas, (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(job.optim.schedule, Schedule::cosine);
  EXPECT_EQ(job.optim.warmup_steps, 3);
  EXPECT_EQ(job.optim.warmup_ratio, 0);
  EXPECT_EQ(job.machine, "machines/cpu2.yaml");
  EXPECT_EQ(job.budget.device, Sizes{.each = 64_MiB});
  EXPECT_EQ(job.budget.host, 4_GiB);
  EXPECT_EQ(job.strategy, "mobius");
  EXPECT_EQ(job.out, "runs/gsm8k");
}

TEST(Job, WhatTheFileLeavesOutHasItsDefault) {
  const Job job = parse(kSmallest);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.precision, std::nullopt);
  EXPECT_EQ(job.train.gradients, Precision::fp32);
  EXPECT_EQ(job.optim.clip, 1);
  EXPECT_EQ(job.optim.lr, 2e-5);
  EXPECT_EQ(job.optim.schedule, Schedule::cosine);
  EXPECT_EQ(warmup_steps(job.optim, 200), 6);
  EXPECT_EQ(job.machine, std::nullopt);
  EXPECT_EQ(job.budget.device, std::nullopt);
  EXPECT_EQ(job.strategy, "auto");
  EXPECT_EQ(job.out, "runs/7b");
}

TEST(Job, OverridesWinOverTheFileAndLaterOnesOverEarlier) {
  const Job job = parse(kFull, {"train.steps=5", "optim.betas=[0.8, 0.99]", "data.eval=a=b#c: d",
                                "budget.device=1.5 GiB", "machine=null", "train.steps=6"});
  EXPECT_EQ(job.train.steps, 6);
  EXPECT_EQ(job.optim.betas, (std::array<double, 2>{0.8, 0.99}));
  EXPECT_EQ(job.data.eval, (DataFiles{{"a=b#c: d"}}));
  EXPECT_EQ(job.budget.device, Sizes{.each = 1536_MiB});
  EXPECT_EQ(job.machine, std::nullopt);
  EXPECT_EQ(origin(job, "train.steps"), "command line");
  EXPECT_EQ(origin(job, "budget.host"), "jobs/7b.yaml:8");
  EXPECT_EQ(origin(job, "threads"), "default");
}

TEST(Job, ARequiredKeyMayComeFromTheCommandLine) {
  EXPECT_EQ(parse("data: {train: x}\nmodel: m", {"train.steps=3"}).train.steps, 3);
  EXPECT_EQ(error_of("data: {train: x}"),
            "jobs/7b.yaml: 'model' is missing; expected a Hugging Face directory, as key in the "
            "file or model=... on the command line (without a model plan.profile has to be a file "
            "with the blocks)");
}

TEST(Job, OnlyTrainingNeedsDataAndSteps) {
  const Job job = parse("model: m");
  try {
    require_trainable(job);
    ADD_FAILURE() << "a job without data may train";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'data.train' is missing; training needs a file to learn from, as key in the job "
              "file or data.train=... on the command line");
  }
  EXPECT_EQ(parse("plan: {profile: p.yaml}\npapers: {pure: true}").model, "");
  require_trainable(parse(kSmallest));
}

TEST(Job, TrainingNeedsStepsOrEpochs) {
  require_trainable(parse("model: m\ndata: {train: d.jsonl}\ntrain: {epochs: 3}"));
  try {
    require_trainable(parse("model: m\ndata: {train: d.jsonl}"));
    ADD_FAILURE() << "a job without a length may train";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'train.steps' is missing; training needs at least one step, or train.epochs, as key "
              "in the job file or train.steps=... on the command line");
  }
}

TEST(Job, EpochsAreAsManyStepsAsReachTheEndOfTheLastOne) {
  const auto steps = [](const std::string& epochs, std::int64_t rows, StepsDone done = {}) {
    Job job =
        parse("model: m\ntrain: {micro_batches: 3, micro_batch_size: 2, epochs: " + epochs + "}\n");
    resolve_steps(job, rows, done);
    EXPECT_EQ(job.train.epochs, 0);
    EXPECT_EQ(parse(to_yaml(job)), job);
    return job.train.steps;
  };
  EXPECT_EQ(steps("3", 37), 19);  // 111 rows, 6 per step
  EXPECT_EQ(steps("1", 36), 6);
  EXPECT_EQ(steps("0.5", 36), 3);
  EXPECT_EQ(steps("1e-3", 5), 1);
  EXPECT_EQ(steps("3", 37, {.steps = 7, .sequences = 42}), 19);
  EXPECT_EQ(steps("2", 40, {.steps = 10, .sequences = 40}), 17);  // 10 steps of 4 rows before
  EXPECT_EQ(steps("1", 40, {.steps = 10, .sequences = 60}), 10);
  EXPECT_EQ(parse(kSmallest, {"train.epochs=2", "train.steps=0"}).train.epochs, 2);
  try {
    Job job = parse("model: m\ntrain: {epochs: 1e4}\n");
    resolve_steps(job, 1'000'000);
    ADD_FAILURE() << "1e10 steps are counted";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "jobs/7b.yaml:2: 10000 epochs of 1000000 rows are 1.0e+10 steps; expected at most "
              "1.0e+09");
  }
  EXPECT_NE(error_of(with("  epochs: -1")), "no error");
}

TEST(Job, OfTwoKeysThatSayOneThingTheCommandLinesWins) {
  const std::string epochs = "model: m\ntrain: {epochs: 3}\n";
  EXPECT_EQ(parse(epochs, {"train.steps=10"}).train.epochs, 0);
  EXPECT_EQ(parse(kSmallest, {"train.epochs=3"}).train.steps, 0);
  EXPECT_EQ(error_of("model: m\ntrain:\n  steps: 5\n  epochs: 3\n"),
            "jobs/7b.yaml:4: 'train.epochs' and 'train.steps' exclude each other; expected one of "
            "them");
  EXPECT_EQ(error_of(kSmallest, {"train.epochs=3", "train.steps=10"}),
            "command line: 'train.epochs' and 'train.steps' exclude each other; expected one of "
            "them");

  EXPECT_EQ(warmup_steps(parse(with("optim: {warmup_steps: 0}")).optim, 100), 0);
  EXPECT_EQ(warmup_steps(parse(with("optim: {warmup_ratio: null}")).optim, 100), 0);
  EXPECT_EQ(warmup_steps(parse(kFull, {"optim.warmup_ratio=0.1"}).optim, 100), 10);
  EXPECT_EQ(warmup_steps(parse(kSmallest, {"optim.warmup_steps=4"}).optim, 100), 4);
  EXPECT_EQ(error_of(with("optim: {warmup_steps: 5, warmup_ratio: 0.1}")),
            "jobs/7b.yaml:4: 'optim.warmup_ratio' and 'optim.warmup_steps' exclude each other; "
            "expected one of them");
}

TEST(Job, ASequenceLeftOutIsTheUsualOneOrTheModels) {
  ModelSpec model;
  model.max_positions = 4096;
  Job job = parse(kSmallest);
  EXPECT_EQ(parse(to_yaml(job)), job);
  resolve_sequence(job, model);
  EXPECT_EQ(job.data.sequence, 1024);

  model.max_positions = 512;
  job = parse(kSmallest, {"data.sequence=null"});
  resolve_sequence(job, model);
  EXPECT_EQ(job.data.sequence, 512);

  job = parse(kSmallest, {"data.sequence=513"});
  EXPECT_THROW(resolve_sequence(job, model), UserError);
  EXPECT_NE(error_of(kSmallest, {"data.sequence=0"}), "no error");
}

TEST(Job, AKeyThatMovedIsRefusedWithItsPresentName) {
  EXPECT_EQ(error_of(with("plan: {pure: true}")),
            "jobs/7b.yaml:4: unknown key 'pure'; it is 'papers.pure' now");
  try {
    parse(kSmallest, {"plan.flush=false"});
    ADD_FAILURE() << "the key is still known";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "command line: 'plan.flush=false': unknown key 'plan.flush'; it is 'papers.flush' "
              "now");
  }
}

TEST(Job, APapersProgramCannotTrain) {
  EXPECT_THROW(require_trainable(parse(kSmallest, {"papers.pure=true"})), UserError);
}

TEST(Job, AListOfWholeNumbersComesFromTheFileOrTheCommandLine) {
  EXPECT_EQ(parse(with("plan: {stages: [1, 2, 3]}")).plan.stages, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(parse(kSmallest, {"plan.devices=[1,0]"}).plan.devices, (std::vector<int>{1, 0}));
  EXPECT_EQ(error_of(with("plan: {stages: [1, 0]}")),
            "jobs/7b.yaml:4: 'plan.stages' must be a list of whole numbers of blocks of at least "
            "1, or null; found [1, 0]");
}

TEST(Job, AListOfTextsComesFromTheFileOrTheCommandLine) {
  const std::vector<std::string> order = {"F0 B0", "B1 F1"};
  EXPECT_EQ(parse(with("papers: {order: [F0 B0, B1 F1]}")).papers.order, order);
  const Job job = parse(kSmallest, {"papers.order=[F0 B0, B1 F1]"});
  EXPECT_EQ(job.papers.order, order);
  EXPECT_EQ(parse(to_yaml(job)).papers.order, order);
  EXPECT_EQ(parse(kSmallest, {"papers.order=null"}).papers.order, std::nullopt);
  EXPECT_EQ(error_of(with("papers: {order: F0 B0}")),
            "jobs/7b.yaml:4: 'papers.order' must be a list of texts, or null; found 'F0 B0'");
}

TEST(Job, SumsAreRoundedToBf16OrNotAtAll) {
  EXPECT_EQ(parse(kSmallest, {"train.gradients=bf16"}).train.gradients, Precision::bf16);
  EXPECT_EQ(parse(kSmallest, {"train.gradients=fp32"}).train.gradients, Precision::fp32);
  EXPECT_EQ(value_of(parse(kSmallest), "train.gradients"), "fp32");
  EXPECT_EQ(error_of(kSmallest, {"train.gradients=fp16"}),
            "command line: 'train.gradients=fp16': 'train.gradients' must be one of bf16, fp32; "
            "found 'fp16'");
}

TEST(Job, TheResolvedJobReadsBackEqual) {
  for (const auto& job :
       {parse(kSmallest), parse(kFull),
        parse(kFull, {"data.eval=\"x\": #\\\t{y", "model=null ", "optim.lr=3.3333333333333335e-05",
                      "budget.host=1000001 B", "optim.clip=null", "out=yes", "data.train=1e5"}),
        parse(kFull, {"data.train={a: 2.5, b c#.txt: 1}", "data.chat_template=llama3",
                      "data.on_error=skip"}),
        parse(kFull, {"data.train=[a, b]", "data.eval=[c, d]"}),
        parse(kSmallest, {"train.gradients=bf16"})}) {
    const std::string text = to_yaml(job);
    EXPECT_EQ(parse(text), job) << text;
    EXPECT_EQ(to_yaml(parse(text)), text);
  }
}

// Python's YAML 1.1 reads "1e-05" as a text and "1.0e-05" as a number.
TEST(Job, ResolvedFloatsHaveAPoint) {
  EXPECT_NE(to_yaml(parse(kSmallest)).find("eps: 1.0e-08\n"), std::string::npos);
}

TEST(Job, AnUnknownKeyIsRefusedWithItsLineAndTheNearestKnownOne) {
  EXPECT_EQ(error_of("model: m\ntrain:\n  mirco_batches: 4\n"),
            "jobs/7b.yaml:3: unknown key 'mirco_batches'; did you mean 'micro_batches'?");
  EXPECT_EQ(error_of("model: m\nmodle: n\n"),
            "jobs/7b.yaml:2: unknown key 'modle'; did you mean 'model'?");
  EXPECT_EQ(error_of("model: m\nbudget: {xyzzy: 3}\n"),
            "jobs/7b.yaml:2: unknown key 'xyzzy'; expected one of device, host, drive");
  EXPECT_EQ(error_of("model: m\nsteps: 4\n"),
            "jobs/7b.yaml:2: unknown key 'steps'; did you mean 'train.steps'?");
  EXPECT_EQ(error_of("model: m\nplan:\n  strategy: mobius\n"),
            "jobs/7b.yaml:3: unknown key 'strategy'; it stands by itself, not under 'plan'");
}

TEST(Job, AKeyGivenTwiceIsRefusedWithBothLines) {
  EXPECT_EQ(error_of("model: a\nout: b\nmodel: c\n"),
            "jobs/7b.yaml:3: 'model' is given twice; it stands on line 1 already");
}

TEST(Job, ABadValueIsRefusedWithLineExpectationAndFinding) {
  EXPECT_EQ(error_of("train:\n  steps: abc\n"),
            "jobs/7b.yaml:2: 'train.steps' must be a whole number of steps from 0 to 1000000000; "
            "found 'abc'");
  EXPECT_EQ(error_of(with("budget: {device: 64}")),
            "jobs/7b.yaml:4: 'budget.device' must be a size of at least 1 B with a unit (B, KiB, "
            "MiB, GiB, TiB, KB, MB, GB, TB; G is GiB), a list of such sizes or sizes by name, or "
            "null; found '64'");
  EXPECT_EQ(error_of(with("optim: {betas: [0.9, 1.0]}")),
            "jobs/7b.yaml:4: 'optim.betas' must be a list of two numbers from 0 to below 1; found "
            "[0.9, 1.0]");
  EXPECT_EQ(error_of(with("optim: 3")),
            "jobs/7b.yaml:4: 'optim': expected keys (name, lr, betas, eps, weight_decay, clip, "
            "schedule, warmup_steps, warmup_ratio); found '3'");
  EXPECT_EQ(error_of("- a\n- b\n").substr(0, 30), "jobs/7b.yaml:1: expected keys ");
  EXPECT_EQ(error_of(with("optim: {name: sgd}")),
            "jobs/7b.yaml:4: 'optim.name' must be adamw; found 'sgd'");
}

// 010 is 8 to yaml-cpp, and `no` is false; here neither is a number or a truth value.
TEST(Job, NumbersAreDecimalAndNothingElse) {
  EXPECT_EQ(parse(with("threads: 8")).threads, 8);
  for (const char* text : {"010", "0x8", "8.0", "1_000", "+8", "8e0", "-1", "", "null", "8 8"}) {
    EXPECT_NE(error_of(with("threads: " + std::string(text))), "no error") << text;
  }
  EXPECT_EQ(parse(with("optim: {lr: 1e-4}")).optim.lr, 1e-4);
  for (const char* text : {"1_0e-4", "nan", ".inf", "inf", "1e999", "01e-4", "-1e-4", "1e-4x"}) {
    EXPECT_NE(error_of(with("optim: {lr: " + std::string(text) + "}")), "no error") << text;
  }
  EXPECT_NE(error_of(with("data: {shuffle: no}")), "no error");
}

TEST(Job, ABadOverrideIsReportedAsTheCommandLine) {
  EXPECT_EQ(error_of(kSmallest, {"train.steps=abc"}),
            "command line: 'train.steps=abc': 'train.steps' must be a whole number of steps from "
            "0 to 1000000000; found 'abc'");
  EXPECT_EQ(
      error_of(kSmallest, {"train.stesp=3"}),
      "command line: 'train.stesp=3': unknown key 'train.stesp'; did you mean 'train.steps'?");
  EXPECT_EQ(error_of(kSmallest, {"budget=3"}),
            "command line: 'budget=3': 'budget' is a section; set one of its keys: device, host, "
            "drive");
  EXPECT_EQ(error_of(kSmallest, {"fast"}),
            "command line: 'fast': expected key=value, for example train.steps=10");
  EXPECT_NE(error_of(kSmallest, {"optim.betas=[0.9]"}), "no error");
  EXPECT_NE(error_of("data: {train: x}", {"model="}), "no error");
}

TEST(Job, AnUnknownStrategyIsRefusedWithItsNearestName) {
  EXPECT_EQ(error_of(with("strategy: mobios")),
            "jobs/7b.yaml:4: unknown strategy 'mobios'; did you mean 'mobius'? expected one of "
            "auto, resident, mobius, harmony-dp, harmony-pp, roundpipe, zero, gpipe, 1f1b, "
            "interleaved, mixed-pipe, async-1f1b, fuyou-serial, fuyou-naive, fuyou");
}

TEST(Job, DataIsAFileAListOfFilesOrWeightsByFile) {
  const DataFiles weighted = {{"a.jsonl", 2}, {"b.jsonl", 0.5}};
  EXPECT_EQ(parse("model: m\ndata: {train: {a.jsonl: 2, b.jsonl: 0.5}}").data.train, weighted);
  EXPECT_EQ(parse("model: m", {"data.train={a.jsonl: 2, b.jsonl: 0.5}"}).data.train, weighted);
  const DataFiles listed = {{"a.jsonl"}, {"-b.jsonl"}};
  EXPECT_EQ(parse("model: m\ndata: {train: [a.jsonl, -b.jsonl]}").data.train, listed);
  EXPECT_EQ(parse("model: m", {"data.train=[a.jsonl, -b.jsonl]"}).data.train, listed);
  EXPECT_EQ(parse("model: m", {"data.train=null"}).data.train, DataFiles{});
}

TEST(Job, AWeightOutOfBoundsIsRefused) {
  EXPECT_EQ(error_of("model: m\ndata: {train: {a: 0}}"),
            "jobs/7b.yaml:2: 'data.train' must be a file, a list of files, or weights from 0.001 "
            "to 1000 by file, or null; found {a: 0}");
  for (const char* value : {"{a: 1001}", "{a: -1}", "{a: nan}", "{a}", "{a: }", "[a, ]", "{}"}) {
    EXPECT_NE(error_of(kFull, {"data.train=" + std::string(value)}), "no error") << value;
  }
  EXPECT_NE(error_of(kFull, {"data.eval={a: 2}"}), "no error");
}

TEST(Job, EvaluationNeedsDataOfOneKind) {
  EXPECT_NE(error_of(kFull, {"train.eval_every=5"}).find("set 'data.eval'"), std::string::npos);
  EXPECT_EQ(parse(kFull, {"train.eval_every=5", "data.eval_fraction=0.1"}).data.eval_fraction, 0.1);
  EXPECT_NE(error_of(kFull, {"data.eval=e", "data.eval_fraction=0.1"}), "no error");
}

TEST(Job, AClipOfNullOrZeroIsOff) {
  EXPECT_EQ(parse(with("optim: {clip: null}")).optim.clip, 0);
  EXPECT_EQ(parse(with("optim: {clip: 0}")).optim.clip, 0);
}

TEST(Job, WhatYamlAllowsBeyondPlainKeysIsRefusedWithItsLine) {
  for (const char* text :
       {"model: &a m\nout: *a", "model: !!str m", "model: m\n---\nmodel: n", "model: m\n  x: [",
        "? [a]\n: b",
        "model: {a: {b: {c: {d: {e: {f: {g: {h: {i: {j: {k: {l: {m: {n: {o: {p: {}}}}"
        "}}}}}}}}}}}}}"}) {
    EXPECT_EQ(error_of(text).substr(0, 13), "jobs/7b.yaml:") << text;
  }
  EXPECT_EQ(error_of(std::string(200000, '[')).substr(0, 15), "jobs/7b.yaml:1:");
}

TEST(Job, AFileThatIsNotThereIsNamed) {
  EXPECT_THROW(
      {
        try {
          read_job("no/such.yaml");
        } catch (const UserError& error) {
          EXPECT_STREQ(error.what(), "no/such.yaml: cannot be read: No such file or directory");
          throw;
        }
      },
      UserError);
}

TEST(Job, TheDocumentedKeysAreTheOnesThatAreRead) {
  std::ifstream file(FERRY_SOURCE_DIR "/docs/formats/job.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(job_reference()), std::string::npos)
      << "docs/formats/job.md must hold this table:\n"
      << job_reference();
}

TEST(Job, ABudgetOfDevicesIsOneSizeOrOneOfEach) {
  const Sizes in_order = {.in_order = {24_GiB, 11_GiB}};
  const Sizes by_name = {.by_name = {{"gpu0", 24_GiB}, {"gpu1", 11_GiB}}};
  EXPECT_EQ(parse(with("budget: {device: [24 GiB, 11 GiB]}")).budget.device, in_order);
  EXPECT_EQ(parse(kSmallest, {"budget.device=[24 GiB, 11 GiB]"}).budget.device, in_order);
  EXPECT_EQ(parse(with("budget: {device: {gpu0: 24 GiB, gpu1: 11 GiB}}")).budget.device, by_name);
  EXPECT_EQ(parse(kSmallest, {"budget.device={gpu0: 24 GiB, gpu1: 11 GiB}"}).budget.device,
            by_name);
  for (const Sizes& sizes : {in_order, by_name}) {
    Job job = parse(kSmallest);
    job.budget.device = sizes;
    EXPECT_EQ(parse(to_yaml(job)), job);
  }
  for (const char* bad : {"[24 GiB, 11]", "[]", "{}", "{gpu0: 3}", "{24 GiB}", "[[1 GiB]]"}) {
    EXPECT_NE(error_of(with(std::string("budget: {device: ") + bad + "}")), "no error") << bad;
    EXPECT_NE(error_of(kSmallest, {std::string("budget.device=") + bad}), "no error") << bad;
  }
}

TEST(Job, AnErrorAboutAKeyNamesWhereTheKeyWasGiven) {
  const JobKeyError error("plan.devices", "expected devices from 0 to 1, found 7");
  const Job in_file = parse(with("plan: {devices: [7]}"));
  EXPECT_STREQ(with_origin(in_file, error).what(),
               "jobs/7b.yaml:4: plan.devices: expected devices from 0 to 1, found 7");
  const Job overridden = parse(kSmallest, {"plan.devices=[7]"});
  EXPECT_STREQ(with_origin(overridden, error).what(),
               "command line: plan.devices: expected devices from 0 to 1, found 7");
  EXPECT_STREQ(with_origin(parse(kSmallest), error).what(),
               "plan.devices: expected devices from 0 to 1, found 7");
}

}  // namespace
}  // namespace ferry
