// The manifest of a saved checkpoint: which files it has and their checksums, and where the run
// stood. It is written last, so a folder without one is not a checkpoint.
// Format: docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/units.h"

namespace ferry {

struct ManifestFile {
  std::string name;  // relative to the checkpoint's folder
  Bytes size;
  std::uint64_t xxh64 = 0;
};

struct Manifest {
  std::int64_t step = 0;       // steps done
  std::int64_t sequences = 0;  // sequences consumed so far: the position in the data
  std::map<std::string, std::string> question;  // what the numbers depend on: "optim.lr" -> "1e-4"
  std::map<std::string, std::string> versions;  // of programs and formats: "ferry" -> "0.1.0"
  std::vector<ManifestFile> files;              // by name; without the manifest itself
};

/// The folder inside a checkpoint of what only a resumed run reads: the optimizer's state and the
/// manifest. Loaders of models take every *.safetensors beside config.json for weights.
inline constexpr const char* kStateFolder = "ferry";

/// The manifest, from the checkpoint's folder.
inline constexpr const char* kManifestName = "ferry/manifest.json";

/// Where ferry 0.1 had it. Those checkpoints are models like any other, and are not resumed.
inline constexpr const char* kEarlierManifestName = "manifest.json";

/// Makes every file in `folder` durable, fills in `manifest.files` with sizes and checksums, and
/// writes the manifest. The listener hears of the bytes that are read for that. Throws
/// ResourceError.
void write_manifest(const std::filesystem::path& folder, Manifest manifest,
                    PhaseListener& listener = nobody());

/// Reads the manifest and checks that its files are there with the right sizes, that weights,
/// optimizer and configuration are among them, and that no other weights are there.
/// Throws UserError naming file and what is wrong.
Manifest read_manifest(const std::filesystem::path& folder);

/// Checks every file's checksum; reads them all, and the listener hears of the bytes. Throws
/// UserError naming the first damaged file.
void verify_checksums(const std::filesystem::path& folder, const Manifest& manifest,
                      PhaseListener& listener = nobody());

}  // namespace ferry
