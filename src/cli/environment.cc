#include "cli/environment.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "base/version.h"
#include "cli/print.h"
#include "data/checksum.h"
#include "spec/host_limits.h"

namespace ferry {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

/// The value of the first line "KEY : VALUE" of a file of the kernel's; empty when it has none.
std::string entry_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// XXH64, as `xxhsum -H64` prints it.
std::string hash_of(const std::string& text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return print("%016jx", static_cast<std::uintmax_t>(hash.value()));
}

nlohmann::ordered_json gpus_json(const std::vector<FoundGpu>& gpus) {
  auto listed = nlohmann::ordered_json::array();
  for (const FoundGpu& gpu : gpus) {
    const std::string told = "/proc/driver/nvidia/gpus/" + gpu.pci_address + "/information";
    listed.push_back({{"index", gpu.index},
                      {"name", entry_of(told, "Model")},
                      {"memory_bytes", gpu.memory.count}});
  }
  return listed;
}

}  // namespace

std::string environment_json(const Job& job, const TorchFacts& torch) {
  const HostTotals box = host_totals("/");
  const nlohmann::ordered_json object{{"ferry", std::string(version())},
                                      {"torch", torch.version},
                                      {"compiler", kCompiler},
                                      {"cpu", entry_of("/proc/cpuinfo", "model name")},
                                      {"cores", box.cores},
                                      {"memory_bytes", box.memory.count},
                                      {"cpu_capability", torch.cpu_capability},
                                      {"gpus", gpus_json(torch.gpus)},
                                      {"job_xxh64", hash_of(to_yaml(job))}};
  return object.dump(2) + "\n";
}

}  // namespace ferry
