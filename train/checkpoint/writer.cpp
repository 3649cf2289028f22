#include "checkpoint/writer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <system_error>

#include "kolo/error.hpp"
#include "kolo/trouble.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"

namespace kolo::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStep = "step-";
constexpr const char* kPart = ".part";  // of folders that are written or removed

/// Leaves each part to one of the ranks that have it, so that all write about as many bytes.
void deal(StoredTensors& tensors, std::size_t ranks) {
  std::vector<std::pair<std::uint64_t, HeldRegion*>> parts;
  for (auto& [name, tensor] : tensors)
    for (HeldRegion& part : tensor.parts) parts.emplace_back(bytes_of(tensor, part.region), &part);
  std::ranges::stable_sort(parts, std::greater(), &std::pair<std::uint64_t, HeldRegion*>::first);
  std::vector<std::uint64_t> sums(ranks);
  const auto sum_of = [&](int rank) -> std::uint64_t& { return sums[static_cast<std::size_t>(rank)]; };
  for (const auto& [bytes, part] : parts) {
    const int rank = *std::ranges::min_element(part->ranks, {}, sum_of);
    sum_of(rank) += bytes;
    part->ranks = {rank};
  }
}

/// A folder under `folder` that is no checkpoint.
fs::path hidden(const std::string& folder, std::uint64_t step, const char* note = "") {
  return fs::path(folder) / ('.' + std::string(kStep) + std::to_string(step) + note + kPart);
}

/// Makes a file that is on the disk.
void write_file(const fs::path& path, const void* data, std::uint64_t bytes) try {
  DiskFile file(path, O_WRONLY | O_CREAT | O_EXCL);
  file.write(data, bytes);
  file.sync();
} catch (const std::exception& error) {
  throw Error(path.string() + ": " + error.what(), {});
}

void sync_folder(const fs::path& path) {
  DiskFile(path.string(), O_RDONLY | O_DIRECTORY).sync();
}

void remove_hidden(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.' + std::string(kStep)) && name.ends_with(kPart)) fs::remove_all(entry.path());
  }
}

void remove_step(const std::string& folder, std::uint64_t step) {
  const fs::path away = hidden(folder, step);
  fs::rename(step_folder(folder, step), away);  // so that half of it is never taken for a checkpoint
  fs::remove_all(away);
}

/// Gives what was written its name.
void publish(const std::string& folder, std::uint64_t step) {
  const fs::path from = hidden(folder, step), to = step_folder(folder, step);
  if (!fs::exists(to)) {
    fs::rename(from, to);
  } else if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(from);
  } else {  // a file system without such exchanges
    const fs::path old = hidden(folder, step, "-old");
    fs::rename(to, old);
    fs::rename(from, to);
    fs::remove_all(old);
  }
  sync_folder(folder);
}

}  // namespace

std::vector<std::uint64_t> steps_in(const std::string& folder) {
  std::vector<std::uint64_t> steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kStep)) continue;
    std::uint64_t step = 0;
    const char *begin = name.data() + std::strlen(kStep), *end = name.data() + name.size();
    if (const auto [at, error] = std::from_chars(begin, end, step); error == std::errc() && at == end)
      steps.push_back(step);
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

std::string step_folder(const std::string& folder, std::uint64_t step) {
  return folder + '/' + kStep + std::to_string(step);
}

/// Collective: tells the ranks what this one has, and finds what it is to write.
void CheckpointCopy::plan(const std::string& mine, Communicator& communicator) {
  index_ = {};
  header_ = {};
  copies_.clear();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (std::size_t r = 0; r < ranks; ++r)
    index_.files.push_back({.name = "rank-" + std::to_string(r) + ".safetensors"});
  for (auto& [name, type, sizes, order, is_trained, pieces] :
       place(texts_of_all(communicator, mine), "Checkpoint")) {
    if (pieces.empty()) pieces.push_back({{}, {0}});  // without elements
    for (HeldRegion& piece : pieces)
      if (!is_trained) piece.ranks.resize(1);
    index_.tensors[name] = {dtype_name(type), sizes, order, std::move(pieces)};
  }
  deal(index_.tensors, ranks);
  for (const auto& [name, tensor] : index_.tensors) {
    for (const auto& [region, files] : tensor.parts) {
      if (files.front() != communicator.rank()) continue;
      const std::string key = key_of(name, region);
      header_.entries[key] = {
          .dtype = tensor.dtype,
          .shape = region.range ? Sizes{region.range->length} : cut_sizes(tensor.shape, region)};
      copies_.emplace_back(name, key);
    }
  }
}

void CheckpointCopy::take(const std::function<std::vector<PlacedParameter>()>& collect, std::uint64_t step,
                          Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  std::vector<PlacedParameter> held;
  std::string mine;
  std::map<std::string, const at::Tensor*> values;
  on_all_ranks(communicator, "save", [&] {
    held = collect();
    for (const PlacedParameter& one : held)
      if (!values.emplace(one.name, &one.tensor).second)
        throw std::runtime_error("two tensors have the name '" + one.name + "'");
    mine = describe(held);
  });
  if (communicator.all_reduce(std::uint8_t{mine == mine_}, ReduceOp::min) == 0) {
    mine_.clear();
    plan(mine, communicator);
    mine_ = std::move(mine);
  }
  header_.step = index_.step = step;
  const std::string start = lay_out(header_);
  problem_ = problem_of([&] {
    if (capacity_ < header_.bytes) {
      memory_.reset();
      memory_.reset(new std::byte[header_.bytes]);  // of any values: pages come with the first copy
      capacity_ = header_.bytes;
    }
    std::memcpy(memory_.get(), start.data(), start.size());
    for (const auto& [name, key] : copies_) {
      const FileEntry& entry = header_.entries.at(key);
      if (entry.begin == entry.end) continue;
      const at::Tensor& from = *values.at(name);
      at::from_blob(memory_.get() + entry.begin, from.sizes(), scalar_type(entry.dtype)).copy_(from);
    }
  });
}

void CheckpointCopy::write(const std::string& folder, std::uint64_t keep, Communicator& communicator) try {
  const std::uint64_t step = index_.step;
  const bool is_first = communicator.rank() == 0;
  const fs::path part = hidden(folder, step);
  on_all_ranks(communicator, "save", [&] {
    if (!problem_.empty()) throw std::runtime_error(problem_);
    if (!is_first) return;
    fs::create_directories(folder);
    remove_hidden(folder);
    fs::create_directory(part);
  });
  try {
    StoredFile& own = index_.files[static_cast<std::size_t>(communicator.rank())];
    on_all_ranks(communicator, "save", [&] {
      write_file(part / own.name, memory_.get(), header_.bytes);
      own.bytes = header_.bytes;
      own.crc = crc32_of(memory_.get(), header_.bytes);
    });
    std::vector<std::uint64_t> all(2 * index_.files.size());
    const std::vector<std::uint64_t> mine{own.bytes, own.crc};
    communicator.all_gather(ConstBuffer(mine), Buffer(all));
    on_all_ranks(communicator, "save", [&] {
      if (!is_first) return;
      for (std::size_t r = 0; r < index_.files.size(); ++r) {
        index_.files[r].bytes = all[2 * r];
        index_.files[r].crc = static_cast<std::uint32_t>(all[2 * r + 1]);
      }
      const std::string text = text_of(index_);
      write_file(part / "index.json", text.data(), text.size());
      sync_folder(part);
      publish(folder, step);
      std::uint64_t kept = 0;
      for (const std::uint64_t other : steps_in(folder)) {
        if (other > step || ++kept <= keep) continue;
        const std::string problem = problem_of([&] { remove_step(folder, other); });
        if (!problem.empty())
          TORCH_WARN(with_code("a checkpoint that is not wanted any more stays: " + problem));
      }
    });
  } catch (...) {
    std::error_code ignored;
    if (is_first) fs::remove_all(part, ignored);
    throw;
  }
} catch (const fs::filesystem_error& error) {
  throw Error(error.what(), {});
}

}  // namespace kolo::train
