// The NUMA nodes of this box: next to which of them its GPUs hang, and where memory lies best that
// GPUs copy from and to. A copy from a node further away passes the link between processors.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// The node that a PCI function hangs next to, from ROOT/sys/bus/pci/devices/ADDRESS/numa_node;
/// `root` is "/" except in tests. Nothing where the kernel does not know it, or the address is
/// empty.
std::optional<int> node_of_pci(const std::filesystem::path& root, const std::string& address);

/// The nodes for memory that the functions at these addresses copy from and to: those that they
/// hang next to, ascending, without nodes that have no memory. Empty where it makes no difference,
/// since the box has memory on one node only, and where none of their nodes is known.
std::vector<int> nodes_near(const std::filesystem::path& root,
                            std::span<const std::string> pci_addresses);

}  // namespace ferry
