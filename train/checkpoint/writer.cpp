#include "checkpoint/writer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
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
#include "ranks/agreement.hpp"

namespace kolo::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStep = "step-";
constexpr const char* kPart = ".part";     // of folders that are written or removed
constexpr const char* kOfFirst = "first";  // in what ranks tell each other: the first one writes it

std::string file_of(std::size_t rank) {
  return "rank-" + std::to_string(rank) + ".safetensors";
}

/// Gives each part of the ranks' tensors to one rank that has it.
StoredTensors deal(const std::vector<StoredTensors>& ranks) {
  StoredTensors result;
  struct Holders {
    std::string name;
    StoredPart part;
    std::uint64_t bytes;
    std::vector<std::size_t> ranks;
  };
  std::map<std::pair<std::string, StoredPart>, Holders> parts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const auto& [name, tensor] : ranks[r]) {
      StoredTensor& whole = result.try_emplace(name, tensor).first->second;
      if (tensor.dtype != whole.dtype || tensor.shape != whole.shape || tensor.dimension != whole.dimension ||
          tensor.order != whole.order) {
        throw MismatchError("rank " + std::to_string(r) + " has another '" + name +
                                "' for a checkpoint than a rank before it",
                            {.peer = static_cast<int>(r), .collective = "Checkpoint"});
      }
      whole.parts.clear();
      for (const StoredPart& part : tensor.parts) {
        const auto bytes =
            static_cast<std::uint64_t>(tensor.range_of(part).count()) * element_bytes(tensor.dtype);
        Holders& holders = parts.try_emplace({name, part}, Holders{name, part, bytes, {}}).first->second;
        if (part.file != kOfFirst || holders.ranks.empty()) holders.ranks.push_back(r);
      }
    }
  }
  std::vector<const Holders*> order;
  for (const auto& [key, holders] : parts) order.push_back(&holders);
  std::ranges::stable_sort(order, std::greater(), &Holders::bytes);
  std::vector<std::uint64_t> sums(ranks.size());
  for (const Holders* one : order) {
    const std::size_t rank =
        *std::ranges::min_element(one->ranks, {}, [&](std::size_t r) { return sums[r]; });
    sums[rank] += one->bytes;
    StoredTensor& tensor = result[one->name];
    tensor.parts.push_back(
        {one->part.slice, one->part.range, file_of(rank), key_of(one->name, tensor, one->part)});
  }
  try {
    for (auto& [name, tensor] : result) tensor.require_whole(name);
  } catch (const std::runtime_error& error) {
    throw Error(std::string("a checkpoint: ") + error.what(), {.collective = "Checkpoint"});
  }
  return result;
}

/// A folder under `folder` that is no checkpoint.
fs::path hidden(const std::string& folder, std::uint64_t step, const char* note = "") {
  return fs::path(folder) / ('.' + std::string(kStep) + std::to_string(step) + note + kPart);
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
void CheckpointCopy::plan(const StoredTensors& mine, Communicator& communicator) {
  std::vector<StoredTensors> ranks;
  for (const std::string& text : texts_of_all(communicator, text_of(mine)))
    ranks.push_back(parse_tensors(text));
  index_.tensors = deal(ranks);
  index_.files.clear();
  for (std::size_t r = 0; r < ranks.size(); ++r) index_.files[file_of(r)] = {};
  header_ = {};
  copies_.clear();
  const std::string own = file_of(static_cast<std::size_t>(communicator.rank()));
  for (const auto& [name, tensor] : index_.tensors) {
    for (const StoredPart& part : tensor.parts) {
      if (part.file != own) continue;
      std::vector<std::int64_t> shape = tensor.shape;
      if (part.range != Extent()) {
        shape = {part.range.count()};
      } else if (part.slice != Extent()) {
        shape[static_cast<std::size_t>(tensor.dimension)] = part.slice.count();
      }
      header_.entries[part.key] = {.dtype = tensor.dtype, .shape = std::move(shape)};
      copies_.emplace_back(name, part.key);
    }
  }
}

void CheckpointCopy::take(const std::function<std::vector<HeldTensor>()>& collect, std::uint64_t step,
                          Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  std::vector<HeldTensor> held;
  StoredTensors mine;
  std::map<std::string, const at::Tensor*> values;
  on_all_ranks(communicator, "save", [&] {
    held = collect();
    for (const HeldTensor& one : held) {
      if (one.whole.parts.empty()) continue;
      if (!values.emplace(one.name, &one.values).second)
        throw std::runtime_error("two tensors have the name '" + one.name + "'");
      StoredTensor& tensor = mine[one.name] = one.whole;
      if (!one.is_dealt) tensor.parts[0].file = kOfFirst;
    }
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
      const at::Tensor& from = *values.at(name);
      if (from.numel() > 0)
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
    StoredFile own{header_.bytes, 0};
    on_all_ranks(communicator, "save", [&] {
      const std::string path = part / file_of(static_cast<std::size_t>(communicator.rank()));
      try {
        DiskFile file(path, O_WRONLY | O_CREAT | O_EXCL);
        file.write(memory_.get(), header_.bytes);
        own.crc = crc32(memory_.get(), header_.bytes);
        file.sync();
      } catch (const std::exception& error) {
        throw Error(path + ": " + error.what(), {});
      }
    });
    std::vector<std::uint64_t> all(2 * index_.files.size());
    const std::vector<std::uint64_t> mine{own.bytes, own.crc};
    communicator.all_gather(ConstBuffer(mine), Buffer(all));
    on_all_ranks(communicator, "save", [&] {
      if (!is_first) return;
      for (std::size_t r = 0; r < index_.files.size(); ++r)
        index_.files[file_of(r)] = {all[2 * r], static_cast<std::uint32_t>(all[2 * r + 1])};
      const std::string text = text_of(index_);
      {
        DiskFile file(part / "index.json", O_WRONLY | O_CREAT | O_EXCL);
        file.write(text.data(), text.size());
        file.sync();
      }
      sync_folder(part);
      publish(folder, step);
      std::uint64_t kept = 0;
      for (const std::uint64_t other : steps_in(folder))
        if (other <= step && ++kept > keep) remove_step(folder, other);
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
