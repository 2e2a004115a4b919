#include "spec/memory_nodes.h"

#include <algorithm>

#include "spec/kernel_file.h"
#include "spec/quantity.h"

namespace ferry {

std::optional<int> node_of_pci(const std::filesystem::path& root, const std::string& address) {
  if (address.empty()) return std::nullopt;
  const auto node = parse_whole(first_line(root / "sys/bus/pci/devices" / address / "numa_node"));
  if (!node || *node < 0) return std::nullopt;  // the kernel writes -1 for what it does not know
  return static_cast<int>(*node);
}

std::vector<int> nodes_near(const std::filesystem::path& root,
                            std::span<const std::string> pci_addresses) {
  std::vector<int> near = number_list(root / "sys/devices/system/node/has_memory");
  if (near.size() < 2) return {};
  std::erase_if(near, [&](int node) {
    return std::ranges::none_of(pci_addresses, [&](const std::string& address) {
      return node_of_pci(root, address) == node;
    });
  });
  return near;
}

}  // namespace ferry
