// Seeded changes of the files in corpus/: whatever a file holds, its reader ends in a value or in a
// UserError, in bounded time and memory.
//
//   fuzz_readers CORPUS [--seed S] [--inputs N] [--reader NAME]
//   fuzz_readers CORPUS --reader NAME --repeat FILE
//
// FERRY_FUZZ_SEED and FERRY_FUZZ_INPUTS stand for the first two where they are not given.
// Inputs are read in child processes, so that one that crashes or hangs is known and kept: it is
// written to fuzz-NAME.input in the current folder.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/mutation.h"
#include "cli/cache_folder.h"
#include "cli/measurements.h"
#include "cli/plan_cache.h"
#include "cli/run_records.h"
#include "data/manifest.h"
#include "data/safetensors.h"
#include "data/safetensors_header.h"
#include "data/tokens.h"
#include "exec/simulator.h"
#include "plan/plan.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "report/run_page.h"
#include "spec/harmony_profile.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "spec/profile.h"
#include "train/earlier_lines.h"

namespace {

using namespace ferry;
namespace fs = std::filesystem;

constexpr unsigned kLongestSeconds = 60;         // for one input, on a busy box
constexpr rlim_t kMostMemory = rlim_t{4} << 30;  // for one input
constexpr int kInputsPerChild = 500;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder of this process's own, for readers of files.
class ScratchFolder {
 public:
  ScratchFolder() : path_(fs::temp_directory_path() / ("ferry-fuzz-" + std::to_string(getpid()))) {}
  ~ScratchFolder() { fs::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  fs::path put(const std::string& name, const std::string& bytes) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void read_plan_text(const std::string& text) {
  const Plan plan = parse_plan(text, "plan");
  (void)to_text(plan);
  if (!verify(plan)) (void)simulate(plan);
}

void read_header(const std::string& text) { (void)parse_safetensors_header(text, "header", 20_B); }

void read_tensors(const Checkpoint& checkpoint) {
  for (const TensorEntry& entry : checkpoint.tensors()) {
    std::vector<std::byte> tensor(static_cast<std::size_t>(entry.size.count));
    checkpoint.read(entry, tensor);
  }
}

void read_weights(const std::string& bytes) {
  const ScratchFolder folder;
  folder.put("model.safetensors", bytes);
  read_tensors(open_checkpoint(folder.path()));
}

void read_index(const std::string& text) {
  const ScratchFolder folder;
  folder.put("model.safetensors.index.json", text);
  folder.put("x.safetensors", safetensors_header({{"a", ElementType::u8, {1}, 0_B, 1_B}}) + "x");
  read_tensors(open_checkpoint(folder.path()));
}

void read_tokens(const std::string& bytes) {
  const ScratchFolder folder;
  const TokenFile tokens(folder.put("x.tokens", bytes));
  for (std::int64_t i = 0; i < tokens.size(); ++i) (void)tokens.sample(i);
}

void read_manifest_text(const std::string& text) {
  const ScratchFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "ferry/optimizer.safetensors"}) {
    folder.put(name, "abc");
  }
  folder.put(kManifestName, text);
  verify_checksums(folder.path(), read_manifest(folder.path()));
}

/// A file of a run's folder, beside a log that is whole.
void read_run_file(const std::string& name, const std::string& text) {
  const ScratchFolder folder;
  folder.put("log.jsonl", "");
  folder.put(name, text);
  (void)to_html(read_run(folder.path()));
}

void read_measurement(const std::string& text) {
  const ScratchFolder folder;
  setenv("FERRY_CACHE", folder.path().c_str(), /*overwrite=*/1);
  const fs::path file = cache_file("measured", "key");
  folder.put(fs::relative(file, folder.path()), text);
  if (!find_measurement("key", {"forward"})) throw UserError("measured again");
}

/// Each line an argument behind a job.
void read_overrides(const std::string& text) {
  std::vector<std::string> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  (void)to_yaml(parse_job("model: m", "job", overrides));
}

/// The log of an earlier run, for one that goes on from it.
void read_log_to_go_on(const std::string& text) {
  const ScratchFolder folder;
  const EarlierLines lines = read_earlier_lines(folder.put("log.jsonl", text), 2);
  if (lines.learned.empty()) throw UserError("no step is known");
}

PlanQuestion small_question(const Machine& machine) {
  PlanQuestion question;
  question.machine = machine;
  question.model = parse_model_spec(
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 16})",
      "model");
  question.micro_batches = 2;
  question.micro_batch_size = 1;
  question.sequence = 4;
  question.host_budget = question.machine.host.memory;
  return question;
}

/// A whole answer of the planner for a machine that may be anything a file can say.
void plan_for_machine(const std::string& text) {
  (void)make_plan(small_question(parse_machine(text, "machine")));
}

/// A plan that was kept, in a folder of this process's own.
class KeptPlan {
 public:
  KeptPlan()
      : question_(small_question(parse_machine(
            "{name: one, host: {cores: 2, memory: 1 GiB, update_rate: 1 G parameters/s},"
            " devices: [{kind: sim, memory: 100 MiB, fp32: 40 GFLOP/s, bf16: 80 GFLOP/s}]}",
            "machine"))) {
    use_cache();
    cache_plan(question_, std::get<Planned>(make_plan(question_)));
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) file_ = entry.path();
    }
  }

  std::string text() const { return contents(file_); }

  void read(const std::string& text) const {
    use_cache();
    std::ofstream(file_, std::ios::binary) << text;
    if (!find_cached_plan(question_)) throw UserError("planned again");
  }

 private:
  void use_cache() const { setenv("FERRY_CACHE", folder_.path().c_str(), /*overwrite=*/1); }

  ScratchFolder folder_;
  PlanQuestion question_;
  fs::path file_;
};

const KeptPlan& kept_plan() {
  static const KeptPlan kept;
  return kept;
}

struct Reader {
  int share;  // of the inputs
  std::function<void(const std::string&)> read;
};

/// By the first word of the names of their files in the corpus.
const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all = {
      {"config", {13, [](const std::string& text) { (void)parse_model_spec(text, "config"); }}},
      {"environment", {1, [](auto& text) { read_run_file("environment.json", text); }}},
      {"harmony", {10, [](const std::string& text) { (void)parse_harmony_profile(text, "h"); }}},
      {"header", {12, read_header}},
      {"index", {5, read_index}},
      {"job", {10, [](const std::string& text) { (void)to_yaml(parse_job(text, "job")); }}},
      {"kept", {1, [](auto& text) { kept_plan().read(text); }}},
      {"log", {2, [](auto& text) { read_run_file("log.jsonl", text); }}},
      {"resumed", {1, read_log_to_go_on}},
      {"machine", {13, [](const std::string& text) { (void)to_yaml(parse_machine(text, "m")); }}},
      {"manifest", {5, read_manifest_text}},
      {"measured", {2, read_measurement}},
      {"overrides", {2, read_overrides}},
      {"plan", {5, read_plan_text}},
      {"planning", {1, plan_for_machine}},
      {"profile", {10, [](const std::string& text) { (void)to_yaml(parse_profile(text, "p")); }}},
      {"safetensors", {3, read_weights}},
      {"summary", {1, [](auto& text) { read_run_file("summary.json", text); }}},
      {"tokens", {3, read_tokens}},
  };
  return all;
}

using Corpus = std::map<std::string, std::vector<std::string>>;

Corpus read_corpus(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);  // the same inputs everywhere
  Corpus corpus;
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    corpus[name.substr(0, name.find('.'))].push_back(contents(file));
  }
  corpus["kept"].push_back(kept_plan().text());
  corpus["resumed"] = corpus.at("log");
  return corpus;
}

struct Campaign {
  std::string name;
  const Reader& reader;
  const std::vector<std::string>& originals;
  unsigned seed;

  std::string input(int number) const {
    std::seed_seq sequence{seed, static_cast<unsigned>(number)};
    std::mt19937 random(sequence);
    return mutated(originals[random() % originals.size()], random);
  }
};

/// Whether `input` was refused. Prints what is thrown beside UserError and ends the process.
bool refused(const Reader& reader, const std::string& input) {
  try {
    reader.read(input);
    return false;
  } catch (const UserError&) {
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "neither a value nor a UserError: %s\n", error.what());
    std::_Exit(1);
  }
}

/// What children tell; in memory that they share with their parent.
struct Shared {
  int number;  // the input being read
  int refused;
};

[[noreturn]] void read_inputs(const Campaign& campaign, int begin, int end, Shared& shared) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
#endif
  for (shared.number = begin; shared.number < end; ++shared.number) {
    alarm(kLongestSeconds);
    if (refused(campaign.reader, campaign.input(shared.number))) ++shared.refused;
  }
  std::_Exit(0);
}

/// Reads all inputs of one reader. Returns whether every one ended well.
bool run(const Campaign& campaign, int inputs) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw system_error("mmap", errno);
  auto& shared = *static_cast<Shared*>(memory);
  for (int begin = 0; begin < inputs; begin += kInputsPerChild) {
    const pid_t child = fork();
    if (child < 0) throw system_error("fork", errno);
    if (child == 0) read_inputs(campaign, begin, std::min(begin + kInputsPerChild, inputs), shared);
    int status = 0;
    if (waitpid(child, &status, 0) != child) throw system_error("waitpid", errno);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const std::string kept = "fuzz-" + campaign.name + ".input";
    std::ofstream(kept, std::ios::binary) << campaign.input(shared.number);
    const std::string how = !WIFSIGNALED(status) ? "failed"
                            : WTERMSIG(status) == SIGALRM
                                ? "took more than " + std::to_string(kLongestSeconds) + " s"
                                : "was ended by signal " + std::to_string(WTERMSIG(status));
    std::printf("%s: seed %u, input %d %s; kept as %s\n", campaign.name.c_str(), campaign.seed,
                shared.number, how.c_str(), kept.c_str());
    return false;
  }
  std::printf("%-12s %6d inputs, %d refused\n", campaign.name.c_str(), inputs, shared.refused);
  // Else the changes do not reach the reader, or it refuses everything.
  return shared.refused > inputs / 20 && shared.refused < inputs;
}

struct Arguments {
  fs::path corpus;
  std::string reader, repeat;
  unsigned seed = 1;
  int inputs = 100'000;
};

Arguments read_arguments(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) {
    throw UserError("expected CORPUS [--seed S] [--inputs N] [--reader NAME] [--repeat FILE]");
  }
  Arguments result;
  result.corpus = argv[1];
  if (const char* seed = std::getenv("FERRY_FUZZ_SEED")) {
    result.seed = static_cast<unsigned>(std::stoul(seed));
  }
  if (const char* inputs = std::getenv("FERRY_FUZZ_INPUTS")) result.inputs = std::stoi(inputs);
  for (int i = 2; i < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--seed") result.seed = static_cast<unsigned>(std::stoul(value));
    if (key == "--inputs") result.inputs = std::stoi(value);
    if (key == "--reader") result.reader = value;
    if (key == "--repeat") result.repeat = value;
  }
  return result;
}

int fuzz(const Arguments& arguments) {
  if (!arguments.repeat.empty()) {
    const bool no = refused(readers().at(arguments.reader), contents(arguments.repeat));
    std::puts(no ? "refused" : "read");
    return 0;
  }
  const Corpus corpus = read_corpus(arguments.corpus);
  bool good = true;
  for (const auto& [name, reader] : readers()) {
    if (!arguments.reader.empty() && name != arguments.reader) continue;
    const int inputs =
        arguments.reader.empty() ? arguments.inputs / 100 * reader.share : arguments.inputs;
    good = run({name, reader, corpus.at(name), arguments.seed}, inputs) && good;
    std::fflush(stdout);
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return fuzz(read_arguments(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_readers: %s\n", error.what());
    return 2;
  }
}
