#include "spec/kernel_file.h"

#include <fstream>

namespace ferry {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace ferry
