#include "device/allocator_settings.h"

#include <c10/core/AllocatorConfig.h>

#include <cstdlib>
#include <map>

namespace ferry {
namespace {

std::string settings_of_user() {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "";
}

}  // namespace

// torch takes all settings at once, and sets those that are not named to their defaults.
void set_allocator(const std::string& name, const std::string& value) {
  static std::map<std::string, std::string> ours;
  std::string all = settings_of_user();
  if (all.find(name) != std::string::npos) return;
  std::map<std::string, std::string> wanted = ours;
  wanted[name] = value;
  for (const auto& [key, setting] : wanted) {
    all += (all.empty() ? "" : ",") + key + ":" + setting;
  }
  c10::CachingAllocator::setAllocatorSettings(all);
  ours = std::move(wanted);
}

}  // namespace ferry
