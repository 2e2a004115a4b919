// A made-up /proc and /sys in a temporary folder, for tests of what looks at a box.
#pragma once

#include <filesystem>
#include <string>

namespace ferry {

/// Has /proc/meminfo with 9000000 kB, of which 8000000 kB are available. Gone on destruction.
class FakeBox {
 public:
  /// `name` is the folder's: one per test, since tests may run at the same time.
  explicit FakeBox(const std::string& name);
  ~FakeBox();
  FakeBox(const FakeBox&) = delete;
  FakeBox& operator=(const FakeBox&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes `text` and a line end into a file; its folders are made.
  void write(const std::string& file, const std::string& text) const;

  /// Makes the folder `to` and a link to it.
  void link(const std::string& from, const std::string& to) const;

  struct PciFunction {
    std::string class_code;
    std::string vendor;
    std::string speed = "16.0 GT/s PCIe";
    std::string lanes = "16";
  };
  static PciFunction gpu() { return {"0x030200", "0x10de"}; }
  static PciFunction nvme() { return {"0x010802", "0x144d", "16.0 GT/s PCIe", "4"}; }

  /// A function at `place`, the path below /sys/devices, that could do 16 GT/s on 16 lanes.
  void pci(const std::string& place, const PciFunction& function) const;

  /// The drive `name` of the NVMe function at `place`, as the block device MAJOR:MINOR `number`.
  void drive(const std::string& place, const std::string& name, const std::string& number) const;

 private:
  const std::filesystem::path path_;
};

}  // namespace ferry
