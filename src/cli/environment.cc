#include "cli/environment.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "base/version.h"
#include "cli/print.h"
#include "data/checksum.h"
#include "spec/host_limits.h"
#include "train/run_folder.h"

namespace ferry {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

/// XXH64, as `xxhsum -H64` prints it.
std::string hash_of(const std::string& text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return print("%016jx", static_cast<std::uintmax_t>(hash.value()));
}

nlohmann::ordered_json gpus_json(const std::vector<FoundGpu>& gpus) {
  auto listed = nlohmann::ordered_json::array();
  for (const FoundGpu& gpu : gpus) {
    listed.push_back(
        {{"index", gpu.index}, {"name", gpu_name(gpu)}, {"memory_bytes", gpu.memory.count}});
  }
  return listed;
}

}  // namespace

std::string environment_json(const Job& job, const TorchFacts& torch) {
  const HostTotals box = host_totals("/");
  const nlohmann::ordered_json object{{"ferry", std::string(version())},
                                      {"torch", torch.version},
                                      {"compiler", kCompiler},
                                      {"cpu", processor_name("/")},
                                      {"cores", box.cores},
                                      {"memory_bytes", box.memory.count},
                                      {"cpu_capability", torch.cpu_capability},
                                      {"gpus", gpus_json(torch.gpus)},
                                      {"job_xxh64", hash_of(kRunsJob + to_yaml(job))}};
  return json_text(object, 2) + "\n";
}

}  // namespace ferry
