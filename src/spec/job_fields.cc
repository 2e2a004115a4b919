#include "spec/job_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "spec/nearest.h"
#include "spec/pass_names.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

constexpr double kManyEpochs = 1e4;
constexpr double kManySequences = 1e6;
constexpr double kLongestSequence = 1 << 20;
constexpr double kLeastWeight = 1e-3;
constexpr double kMostWeight = 1e3;
constexpr double kMostSeed = 9007199254740991.0;  // 2^53 - 1: exact in JSON logs

std::vector<Field> data_fields(DataJob& data) {
  return {
      {.name = "data.train",
       .member = &data.train,
       .least = kLeastWeight,
       .most = kMostWeight,
       .may_be_empty = true,
       .meaning = "files to learn from (data.md); `ferry train` needs them. `{a.jsonl: 2, "
                  "b.jsonl: 0.5}`: rows of a come twice in an epoch, half of b's once"},
      {.name = "data.eval",
       .member = &data.eval,
       .least = 1,
       .most = 1,
       .may_be_empty = true,
       .meaning = "files to evaluate on; null: see `data.eval_fraction`"},
      {.name = "data.eval_fraction",
       .member = Real{&data.eval_fraction},
       .most = 1,
       .below_most = true,
       .meaning = "without `data.eval`: this part of the rows, the last ones, is held out"},
      {.name = "data.sequence",
       .member = &data.sequence,
       .unit = "tokens",
       .least = 2,
       .most = kLongestSequence,
       .null_is_zero = true,
       .default_text = "1024, or as many as the model takes",
       .meaning = "length of a sequence; longer rows are cut, shorter ones padded"},
      {.name = "data.packing",
       .member = &data.packing,
       .meaning = "several rows in one sequence, one after the other"},
      {.name = "data.shuffle",
       .member = &data.shuffle,
       .meaning = "a new order of rows each epoch, drawn from `train.seed`"},
      {.name = "data.text_key",
       .member = &data.text_key,
       .meaning = "the key of a row that holds its text; null: found from the first row"},
      {.name = "data.chat_template",
       .member = &data.chat_template,
       .meaning = "how conversations become text: chatml, llama2, llama3, mistral, zephyr or a "
                  "file; null: the tokenizer's own, ChatML where it has none"},
      {.name = "data.on_error",
       .member = choice(data.on_error, {RowErrors::stop, RowErrors::skip}),
       .meaning = "a row that cannot be used: stop and name it, or skip it and count"},
  };
}

// "auto" stands for none.
Choice precision_choice(std::optional<Precision>& precision) {
  static constexpr std::array kKnown = {Precision::bf16, Precision::fp32};
  Choice result{
      .words = {"auto"},
      .get = [&precision]() -> std::size_t {
        if (!precision) return 0;
        return 1 + static_cast<std::size_t>(std::ranges::find(kKnown, *precision) - kKnown.begin());
      },
      .set =
          [&precision](std::size_t index) {
            precision.reset();
            if (index > 0) precision = kKnown.at(index - 1);
          }};
  for (const Precision one : kKnown) result.words.push_back(to_string(one));
  return result;
}

std::vector<Field> train_fields(TrainJob& train) {
  return {
      {.name = "train.steps",
       .member = &train.steps,
       .unit = "steps",
       .most = kManySteps,
       .meaning = "optimizer steps; 0: by `train.epochs`, of which `ferry train` needs one"},
      {.name = "train.epochs",
       .member = Real{&train.epochs},
       .most = kManyEpochs,
       .null_is_zero = true,
       .meaning = "how often every row is seen, parts of an epoch too (`0.5`); 0 or null: by "
                  "`train.steps`"},
      {.name = "train.micro_batches",
       .member = &train.micro_batches,
       .unit = "micro-batches",
       .least = 1,
       .most = kManySequences,
       .meaning = "micro-batches of a step; their gradients are summed"},
      {.name = "train.micro_batch_size",
       .member = &train.micro_batch_size,
       .unit = "sequences",
       .least = 1,
       .most = kManySequences,
       .meaning = "sequences that go through a block at once"},
      {.name = "train.precision",
       .member = precision_choice(train.precision),
       .meaning =
           "bf16: compute in bf16, exact fp32 master; fp32: everything in fp32; auto: the one "
           "whose products are faster on the first device, bf16 when it is not here; a "
           "resumed run's stays"},
      {.name = "train.gradients",
       .member = choice(train.gradients, {Precision::bf16, Precision::fp32}),
       .meaning =
           "a step's gradient sums, which are made in fp32: bf16 rounds each once, when it is "
           "whole, before it leaves its device or updates weights there; half the bytes, "
           "other numbers (training.md)"},
      {.name = "train.seed",
       .member = &train.seed,
       .most = kMostSeed,
       .meaning = "of everything random: equal seeds give equal runs"},
      {.name = "train.eval_every",
       .member = &train.eval_every,
       .unit = "steps",
       .most = kManySteps,
       .meaning = "evaluate after every so many steps; 0: never"},
      {.name = "train.save_every",
       .member = &train.save_every,
       .unit = "steps",
       .most = kManySteps,
       .meaning = "write a checkpoint after every so many steps; 0: not by steps"},
      {.name = "train.save_minutes",
       .member = Real{&train.save_minutes},
       .most = 1e6,
       .meaning = "write a checkpoint when the last one is so many minutes old; 0: not by time"},
      {.name = "train.save_last",
       .member = &train.save_last,
       .meaning =
           "write a checkpoint at the end of the run; false: what was learned since the last "
           "one is lost, for runs whose times alone matter"},
      {.name = "train.keep",
       .member = &train.keep,
       .unit = "checkpoints",
       .least = 1,
       .most = kManySequences,
       .meaning = "how many checkpoints stay; older ones are deleted, the last that is known to be "
                  "good once a step has learned from a newer one"},
      {.name = "train.log_every",
       .member = &train.log_every,
       .unit = "steps",
       .least = 1,
       .most = kManySteps,
       .meaning = "print a line after every so many steps; `log.jsonl` holds every step"},
      {.name = "train.report_to",
       .member = choice(train.report_to, {ReportTo::none, ReportTo::tensorboard}),
       .meaning = "tensorboard: event files in OUT/tensorboard, written while the run goes on"},
  };
}

std::vector<Field> optim_fields(OptimJob& optim) {
  return {
      {.name = "optim.name",
       .member = Choice{{"adamw"}, [] { return std::size_t{0}; }, [](std::size_t) {}},
       .meaning = "the optimizer"},
      {.name = "optim.lr",
       .member = Real{&optim.lr},
       .most = 1e3,
       .meaning = "learning rate, at the end of the warm-up"},
      {.name = "optim.betas",
       .member = &optim.betas,
       .most = 1,
       .below_most = true,
       .meaning = "decay of the first and second moments"},
      {.name = "optim.eps",
       .member = Real{&optim.eps},
       .least = 1e-30,
       .most = 1,
       .meaning = "added to the root of the second moment"},
      {.name = "optim.weight_decay",
       .member = Real{&optim.weight_decay},
       .most = 1e3,
       .meaning = "decoupled; acts on weights of two or more dimensions only"},
      {.name = "optim.clip",
       .member = Real{&optim.clip},
       .null_is_zero = true,
       .meaning = "largest global norm of the gradient; 0 or null: no clipping"},
      {.name = "optim.schedule",
       .member = choice(optim.schedule, {Schedule::constant, Schedule::linear, Schedule::cosine}),
       .meaning = "learning rate after the warm-up: as it is, or down to 0 at the last step"},
      {.name = "optim.warmup_steps",
       .member = &optim.warmup_steps,
       .unit = "steps",
       .most = kManySteps,
       .meaning = "the learning rate rises linearly from 0 over these; null: by "
                  "`optim.warmup_ratio`"},
      {.name = "optim.warmup_ratio",
       .member = Real{&optim.warmup_ratio},
       .most = 1,
       .null_is_zero = true,
       .meaning = "or over this part of all steps, rounded up; 0 or null: over none"},
  };
}

std::vector<Field> run_fields(Job& job) {
  return {
      {.name = "machine",
       .member = &job.machine,
       .meaning = "machine file (machine.md); null: this box"},
      {.name = "budget.device",
       .member = &job.budget.device,
       .least = 1,
       .meaning =
           "most memory ferry takes on each device: one size, a list in the machine's order, "
           "or sizes by device name; null: what the machine has"},
      {.name = "budget.host",
       .member = &job.budget.host,
       .least = 1,
       .meaning = "most memory ferry takes on the host; null: what the machine has"},
      {.name = "budget.drive",
       .member = &job.budget.drive,
       .least = 1,
       .may_be_empty = true,
       .meaning = "drives for what does not fit in DRAM, and most that ferry takes on each "
                  "([below](#drives)); null: what the machine file has"},
      {.name = "strategy",
       .member = &job.strategy,
       .meaning = "auto (the fastest that fits), or one of " + joined(known_strategies())},
      {.name = "threads",
       .member = &job.threads,
       .unit = "threads",
       .most = 4096,
       .meaning = "of each simulated device's kernels; 0: as the machine says"},
      {.name = "out",
       .member = &job.out,
       .default_text = "`runs/` and the job file's name",
       .meaning = "folder for everything the run writes"},
  };
}

Field whole(std::string name, int& value, std::string unit, std::string meaning) {
  return {.name = std::move(name),
          .member = &value,
          .unit = std::move(unit),
          .most = kManySequences,
          .meaning = std::move(meaning)};
}

std::vector<Field> plan_fields(PlanJob& plan) {
  return {
      {.name = "plan.profile",
       .member = &plan.profile,
       .meaning = "what blocks cost: auto (measured where the job runs, else estimated), estimate, "
                  "a profile file (profile.md), or one of Harmony's"},
      {.name = "plan.stages",
       .member = &plan.stages,
       .unit = "blocks",
       .least = 1,
       .meaning = "blocks of each stage, in order; null: searched"},
      {.name = "plan.backward_stages",
       .member = &plan.backward_stages,
       .unit = "blocks",
       .least = 1,
       .meaning = "likewise for backward, where a strategy cuts it differently; null: searched"},
      {.name = "plan.devices",
       .member = &plan.devices,
       .unit = "devices",
       .meaning = "device of each stage, or of each slot that stages take in turn; null: by "
                  "`plan.map`"},
      {.name = "plan.map",
       .member =
           choice(plan.map, {MapRule::automatic, MapRule::cross, MapRule::sequential, MapRule::v}),
       .meaning = "how stages come to devices: the strategy's way, Mobius's cross mapping, in "
                  "order, or there and back"},
      {.name = "plan.partition",
       .member =
           choice(plan.partition, {Partitioner::automatic, Partitioner::search, Partitioner::mip}),
       .meaning = "how blocks are cut into stages: the strategy's way, by search, or by Mobius's "
                  "mixed-integer program"},
      whole("plan.chunks", plan.chunks, "stages", "interleaved: stages per device; 0: two"),
      whole("plan.round", plan.round, "micro-batches", "roundpipe: of a round; 0: chosen"),
      {.name = "plan.activations",
       .member = choice(plan.activations,
                        {ActivationRule::automatic, ActivationRule::recompute, ActivationRule::keep,
                         ActivationRule::swap, ActivationRule::swap_to_drive}),
       .meaning = "what backward needs of forward: chosen by time, computed again, kept on the "
                  "device, in DRAM or on the drives meanwhile, by every block that can; fuyou, "
                  "pure: what is swapped: chosen by cost, blocks' inputs only, or (swap, "
                  "swap-to-drive) everything"},
      {.name = "plan.clipped",
       .member = &plan.clipped,
       .most = 1,
       .default_text = "0.2, or that of the last steps of a run that goes on",
       .meaning =
           "with `optim.clip`: the share of the steps that are expected to be clipped; updates "
           "ahead of the norm pay off where it is small"},
      {.name = "plan.without",
       .member = &plan.without,
       .may_be_empty = true,
       .meaning = "passes of the search that do not run, of " + joined(known_passes())},
  };
}

std::vector<Field> schedule_fields(PapersJob& papers) {
  return {
      {.name = "papers.order",
       .member = &papers.order,
       .meaning = "pipelines: per device what it runs in turn, F and B with stage and micro-batch "
                  "(`F0.0 F0.1 B0.0 B0.1`); async-1f1b: of a period, by stage (`F0 B0`)"},
      {.name = "papers.offsets",
       .member = &papers.offsets,
       .unit = "microseconds",
       .meaning = "async-1f1b with `papers.order`: per device where in the period it begins; "
                  "null: at 0"},
      {.name = "papers.shared_links",
       .member = &papers.shared_links,
       .meaning = "mobius: copies on the machine's links, shared fairly, with first loads, "
                  "gradients and updates"},
      {.name = "papers.states",
       .member = choice(papers.states, {StatesRule::host, StatesRule::drives}),
       .meaning = "zero: weights and optimizer states rest in DRAM (ZeRO-3 with offload) or on "
                  "the drives (ZeRO-Infinity)"},
  };
}

std::vector<Field> fuyou_fields(PapersJob& papers) {
  return {
      {.name = "papers.elementwise",
       .member = Real{&papers.elementwise.count, Dimension::time},
       .meaning = "fuyou: of a layer's forward of one micro-batch, the time beside its matrix "
                  "products, which are the profile's"},
      {.name = "papers.swapped",
       .member = &papers.swapped,
       .least = 1,
       .meaning = "fuyou: activations of a step that leave the GPU; null: by `plan.activations`"},
      {.name = "papers.update_on_drives",
       .member = &papers.update_on_drives,
       .meaning = "fuyou: the host's update keeps the drives from reading and writing, as in "
                  "Ratel's artifact"},
      {.name = "papers.launch_stall",
       .member = Real{&papers.launch_stall},
       .most = 1,
       .meaning = "fuyou-naive: the part of a handler's time for which the GPU waits"},
      {.name = "papers.overlap_stretch",
       .member = Real{&papers.overlap_stretch},
       .least = 1,
       .most = 100,
       .meaning = "fuyou-naive: a handler's time beside backward over its time alone"},
  };
}

// The names that the first of these keys had under `plan` are refused with the present ones.
std::vector<Field> papers_fields(PapersJob& papers) {
  std::vector<Field> fields = {
      {.name = "papers.pure",
       .member = &papers.pure,
       .meaning = "the paper's program and cost model alone: the plan only tells time"},
      {.name = "papers.flush",
       .member = &papers.flush,
       .meaning = "roundpipe: false lets the next step follow without a flush"},
      whole("papers.window", papers.window, "micro-batches",
            "async-1f1b: in flight at once; 0: as the pipeline is deep"),
      whole("papers.forward_batch", papers.forward_batch, "samples",
            "harmony: of a forward micro-batch; 0: searched"),
      whole("papers.backward_batch", papers.backward_batch, "samples",
            "harmony: of a backward micro-batch; 0: searched"),
      {.name = "papers.packing",
       .member = &papers.packing,
       .meaning = "harmony: packing methods of the search, of time, memory, greedy, reuse"},
      {.name = "papers.prefetch",
       .member = &papers.prefetch,
       .meaning = "harmony: whether the estimator prefetches"},
  };
  for (Field& field : fields) {
    field.formerly = "plan" + field.name.substr(field.name.find('.'));
  }
  for (auto&& part : {schedule_fields(papers), fuyou_fields(papers)}) {
    fields.insert(fields.end(), part.begin(), part.end());
  }
  return fields;
}

}  // namespace

std::vector<std::string> known_strategies() {
  return {strategy_name::kAll.begin(), strategy_name::kAll.end()};
}

std::vector<std::string> known_passes() { return {pass_name::kAll.begin(), pass_name::kAll.end()}; }

std::vector<Field> job_fields(Job& job) {
  std::vector<Field> all = {{.name = "model",
                             .member = &job.model,
                             .may_be_empty = true,
                             .meaning = "directory of the Hugging Face model, or its config.json; "
                                        "without it `plan.profile` is a file that has the blocks"}};
  for (auto&& part : {data_fields(job.data), train_fields(job.train), optim_fields(job.optim),
                      run_fields(job), plan_fields(job.plan), papers_fields(job.papers)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::string to_string(RowErrors choice) {
  switch (choice) {
    case RowErrors::stop:
      return "stop";
    case RowErrors::skip:
      return "skip";
  }
  FERRY_UNREACHABLE("unknown choice for rows");
}

std::string to_string(ReportTo report_to) {
  return report_to == ReportTo::tensorboard ? "tensorboard" : "none";
}

std::string to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::constant:
      return "constant";
    case Schedule::linear:
      return "linear";
    case Schedule::cosine:
      return "cosine";
  }
  FERRY_UNREACHABLE("unknown schedule");
}

std::string to_string(Partitioner partitioner) {
  switch (partitioner) {
    case Partitioner::automatic:
      return "auto";
    case Partitioner::search:
      return "search";
    case Partitioner::mip:
      return "mip";
  }
  FERRY_UNREACHABLE("unknown partitioner");
}

std::string to_string(MapRule rule) {
  switch (rule) {
    case MapRule::automatic:
      return "auto";
    case MapRule::cross:
      return "cross";
    case MapRule::sequential:
      return "sequential";
    case MapRule::v:
      return "v";
  }
  FERRY_UNREACHABLE("unknown rule of mapping");
}

std::string to_string(ActivationRule rule) {
  switch (rule) {
    case ActivationRule::automatic:
      return "auto";
    case ActivationRule::recompute:
      return "recompute";
    case ActivationRule::keep:
      return "keep";
    case ActivationRule::swap:
      return "swap";
    case ActivationRule::swap_to_drive:
      return "swap-to-drive";
  }
  FERRY_UNREACHABLE("unknown rule of activations");
}

std::string to_string(StatesRule rule) {
  switch (rule) {
    case StatesRule::host:
      return "host";
    case StatesRule::drives:
      return "drives";
  }
  FERRY_UNREACHABLE("unknown rule of states");
}

}  // namespace ferry
