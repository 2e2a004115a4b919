// What the driver counts of GPUs' memory: by NVML, which comes with it. torch counts its own
// tensors alone; contexts and kernels' code are beside them.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace ferry {

/// Functions of NVML as its manual has them; all return 0 for success. Tests give their own.
struct DriverMemory {
  /// As the library lays it out, in bytes.
  struct Counts {
    unsigned long long total, free, used;
  };

  int (*init)();
  int (*device_by_address)(const char* pci_address, void** device);
  int (*memory_info)(void* device, Counts* counts);

  /// The installed driver's, ready to be asked; nothing where there is none.
  static std::optional<DriverMemory> open();

  /// What all programs together use of the GPU at a PCI address, "0000:3b:00.0"; nothing where the
  /// driver does not say. Makes no context.
  std::optional<Bytes> used(const std::string& pci_address) const;

  /// The same with what is free, and all there is.
  std::optional<Counts> counts(const std::string& pci_address) const;
};

}  // namespace ferry
