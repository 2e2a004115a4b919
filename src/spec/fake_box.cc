#include "spec/fake_box.h"

#include <fstream>

namespace ferry {

namespace fs = std::filesystem;

FakeBox::FakeBox(const std::string& name) : path_(fs::temp_directory_path() / name) {
  fs::remove_all(path_);
  write("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8000000 kB");
}

FakeBox::~FakeBox() { fs::remove_all(path_); }

void FakeBox::write(const std::string& file, const std::string& text) const {
  fs::create_directories((path_ / file).parent_path());
  std::ofstream(path_ / file) << text << "\n";
}

void FakeBox::link(const std::string& from, const std::string& to) const {
  const fs::path folder = (path_ / from).parent_path();
  fs::create_directories(folder);
  fs::create_directories(path_ / to);
  fs::create_directory_symlink(fs::relative(path_ / to, folder), path_ / from);
}

void FakeBox::pci(const std::string& place, const PciFunction& function) const {
  const std::string folder = "sys/devices/" + place;
  link("sys/bus/pci/devices/" + fs::path(place).filename().string(), folder);
  write(folder + "/class", function.class_code);
  write(folder + "/vendor", function.vendor);
  write(folder + "/current_link_speed", function.speed);
  write(folder + "/current_link_width", function.lanes);
  write(folder + "/max_link_speed", "16.0 GT/s PCIe");
  write(folder + "/max_link_width", function.class_code == nvme().class_code ? "4" : "16");
}

void FakeBox::drive(const std::string& place, const std::string& name,
                    const std::string& number) const {
  link("sys/dev/block/" + number, "sys/devices/" + place + "/nvme/" + name);
}

}  // namespace ferry
