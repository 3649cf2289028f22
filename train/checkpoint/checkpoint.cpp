#include "kolo/train/checkpoint.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "checkpoint/file.hpp"
#include "gradients/reducer.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/one_bit_adam.hpp"
#include "libtorch/first_use.hpp"
#include "libtorch/gradient_listener.hpp"
#include "libtorch/hook_archive.hpp"
#include "libtorch/optimizer_archive.hpp"
#include "libtorch/random_state.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

namespace kolo {
namespace {

constexpr const char* kRandom = "random numbers";

void touch_parameters(const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) train::FirstUse::touch(parameter);
}

/// Those that average the module's gradients.
std::vector<train::Reducer*> reducers_of(const torch::nn::Module& module) {
  std::vector<train::Reducer*> reducers;
  for (const at::Tensor& parameter : module.parameters()) {
    train::Reducer* const one = train::Reducer::of(parameter);
    if (one != nullptr && std::ranges::find(reducers, one) == reducers.end()) reducers.push_back(one);
  }
  return reducers;
}

std::string layout_name(std::size_t reducer) {
  return "layout of gradients " + std::to_string(reducer);
}

/// Without an operation that would wait for averages under way.
void save_module(const torch::nn::Module& module, torch::serialize::OutputArchive& archive) {
  touch_parameters(module);
  module.save(archive);
  const auto reducers = reducers_of(module);
  for (std::size_t r = 0; r < reducers.size(); ++r) {
    const auto [is_rebuilt, order, ends] = reducers[r]->layout();
    std::vector<std::int64_t> words{is_rebuilt ? 1 : 0, static_cast<std::int64_t>(order.size())};
    words.insert(words.end(), order.begin(), order.end());
    words.insert(words.end(), ends.begin(), ends.end());
    archive.write(layout_name(r), at::tensor(words, at::kLong));
  }
}

/// Leaves those as they are that the archive does not tell of: the model was not wrapped, or kolo was older.
void restore_layouts(std::span<train::Reducer* const> reducers, torch::serialize::InputArchive& archive) {
  at::Tensor words;
  for (std::size_t r = 0; r < reducers.size() && archive.try_read(layout_name(r), words); ++r) {
    const auto* const word = words.data_ptr<std::int64_t>();
    const std::int64_t* const ends = word + 2 + word[1];
    reducers[r]->restore({word[0] != 0, {word + 2, ends}, {ends, word + words.numel()}});
    words = at::Tensor();
  }
}

/// libtorch takes a tensor of any shape for one that it loads.
void load_module(torch::nn::Module& module, torch::serialize::InputArchive& archive) {
  const auto shapes = [&] {
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> result;
    for (const auto& item : module.named_parameters())
      result.emplace_back(item.key(), item.value().sizes().vec());
    for (const auto& item : module.named_buffers())
      result.emplace_back(item.key(), item.value().sizes().vec());
    return result;
  };
  const auto before = shapes();
  const auto reducers = reducers_of(module);  // loaded parameters may have other accumulators
  touch_parameters(module);
  module.load(archive);
  const auto after = shapes();
  const auto [was, is] = std::ranges::mismatch(before, after);
  if (was == before.end()) {
    restore_layouts(reducers, archive);
    return;
  }
  std::ostringstream text;
  text << "'" << is->first << "' is " << at::IntArrayRef(is->second) << " there, and "
       << at::IntArrayRef(was->second) << " in the model";
  throw std::runtime_error(text.str());
}

/// Collective: what `action` throws on any rank, all ranks throw.
template <typename Action>
void on_all_ranks(Communicator& communicator, const char* what, const Action& action) {
  if (const auto complaint = train::first_complaint(communicator, problem_of(action))) {
    throw Error(
        "rank " + std::to_string(complaint->rank) + " cannot " + what + " the checkpoint: " + complaint->text,
        {.peer = complaint->rank, .collective = "Checkpoint"});
  }
}

}  // namespace

Checkpoint& Checkpoint::add(Entry entry) {
  const auto is_equal = [&](const Entry& other) { return other.name == entry.name; };
  if (entry.name == kRandom || std::ranges::any_of(entries_, is_equal))
    throw InvalidArgumentError("the checkpoint has a '" + entry.name + "' already", {});
  entries_.push_back(std::move(entry));
  return *this;
}

Checkpoint& Checkpoint::add(std::string name, torch::nn::Module& module) {
  add({name, false, [&module](auto& archive) { save_module(module, archive); },
       [&module](auto& archive) { load_module(module, archive); }, &module});
  shared_[std::move(name)] = module.parameters();
  return *this;
}

Checkpoint& Checkpoint::add(std::string name, torch::optim::Optimizer& optimizer) {
  if (auto* const one_bit = dynamic_cast<OneBitAdam*>(&optimizer)) add(name + ", left out", one_bit->hook());
  add({name, false, [&optimizer](auto& archive) { train::save_whole(optimizer, archive); },
       [&optimizer](auto& archive) { train::load_whole(optimizer, archive); }, nullptr});
  for (const auto& group : optimizer.param_groups())
    shared_[name].insert(shared_[name].end(), group.params().begin(), group.params().end());
  return *this;
}

Checkpoint& Checkpoint::add_own(std::string name, torch::nn::Module& module) {
  add(name, module);
  shared_.erase(name);
  entries_.back().is_of_rank = true;
  return *this;
}

Checkpoint& Checkpoint::add_own(std::string name, torch::optim::Optimizer& optimizer) {
  add(name, optimizer);
  shared_.erase(name);
  entries_.back().is_of_rank = true;
  return *this;
}

Checkpoint& Checkpoint::add(std::string name, GradientHook& hook) {
  return add({std::move(name), true, [&hook](auto& archive) { train::save_hook(hook, archive); },
              [&hook](auto& archive) { train::load_hook(hook, archive); }, nullptr});
}

std::vector<at::Tensor> Checkpoint::parameters() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) {
    if (entry.model == nullptr) continue;
    for (at::Tensor& parameter : entry.model->parameters()) result.push_back(std::move(parameter));
  }
  return result;
}

/// Rank 0's part is not that of the other ranks.
void Checkpoint::require_same_parts(Communicator& communicator) const {
  std::string parts;
  for (const auto& [name, tensors] : shared_) {
    for (const at::Tensor& tensor : tensors) {
      if (const std::string part = train::part_text_of(tensor); !part.empty())
        parts += '\'' + name + "' with " + part + '\n';
    }
  }
  try {
    agree(communicator, "Checkpoint", parts);
  } catch (const MismatchError& error) {
    throw MismatchError(std::string(error.what()) +
                            ", and it saves rank 0's part alone: add it with add_own(), or the optimizer of "
                            "shards as a ShardedOptimizerState",
                        error.context());
  }
}

std::string Checkpoint::saved(bool of_rank) const {
  torch::serialize::OutputArchive archive;
  for (const Entry& entry : entries_) {
    if (entry.is_of_rank != of_rank) continue;
    torch::serialize::OutputArchive inner(archive.compilation_unit());
    entry.save(inner);
    archive.write(entry.name, inner);
  }
  if (of_rank) archive.write(kRandom, train::RandomState::of({}).state);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

void Checkpoint::load(bool of_rank, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  for (const Entry& entry : entries_) {
    if (entry.is_of_rank != of_rank) continue;
    torch::serialize::InputArchive inner;
    if (!archive.try_read(entry.name, inner)) throw std::runtime_error("it has no '" + entry.name + "'");
    entry.load(inner);
  }
  if (!of_rank) return;
  at::Tensor state;
  archive.read(kRandom, state);
  train::RandomState{train::generator_or_default({}), state}.apply();
}

void Checkpoint::save(const std::string& path, std::uint64_t step, Communicator& communicator) const {
  require_same_parts(communicator);
  const int rank = communicator.rank();
  const train::WholeParameters whole(parameters());
  train::CheckpointFile file;
  file.step = step;
  std::string own;
  on_all_ranks(communicator, "save", [&] {
    if (rank == 0) file.shared = saved(false);
    own = saved(true);
  });
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::uint64_t> sizes(ranks);
  const std::uint64_t size = own.size();
  communicator.all_gather(ConstBuffer(&size, 1, DType::uint64), Buffer(sizes));
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : sizes) sum += bytes;
  std::string all;
  on_all_ranks(communicator, "save", [&] { all.resize(rank == 0 ? sum : 0); });
  communicator.gather(ConstBuffer(own.data(), own.size(), DType::uint8),
                      Buffer(all.data(), all.size(), DType::uint8), 0, sizes);
  on_all_ranks(communicator, "save", [&] {
    if (rank != 0) return;
    std::size_t at = 0;
    for (const std::uint64_t bytes : sizes)
      file.ranks.push_back(all.substr(std::exchange(at, at + bytes), bytes));
    train::write_checkpoint(path, file);
  });
}

std::uint64_t Checkpoint::load(const std::string& path, Communicator& communicator) {
  require_same_parts(communicator);
  const int rank = communicator.rank();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const bool has_own = std::ranges::any_of(entries_, &Entry::is_of_rank);
  const train::WholeParameters whole(parameters());
  train::CheckpointFile file;
  on_all_ranks(communicator, "load", [&] {
    if (rank != 0) return;
    file = train::read_checkpoint(path);
    if (has_own && file.ranks.size() != ranks) {
      throw std::runtime_error(path + ": it holds ranks' own states of " + std::to_string(file.ranks.size()) +
                               " ranks, and there are " + std::to_string(ranks));
    }
  });
  const std::string shared = train::text_from(communicator, std::move(file.shared), 0);
  // The step, and the sizes of what each rank gets: none where there are other ranks now.
  std::vector<std::uint64_t> sizes(1 + ranks);
  sizes[0] = file.step;
  std::string all;
  for (std::size_t r = 0; file.ranks.size() == ranks && r < ranks; ++r) {
    sizes[1 + r] = file.ranks[r].size();
    all += file.ranks[r];
  }
  communicator.broadcast(Buffer(sizes), 0);
  const std::uint64_t step = std::exchange(sizes[0], 0);
  sizes.erase(sizes.begin());
  std::string own(sizes[static_cast<std::size_t>(rank)], '\0');
  communicator.scatter(ConstBuffer(all.data(), all.size(), DType::uint8),
                       Buffer(own.data(), own.size(), DType::uint8), 0, sizes);
  on_all_ranks(communicator, "load", [&] {
    load(false, shared);
    if (!own.empty()) load(true, own);
  });
  return step;
}

std::uint64_t Checkpoint::resume(const std::string& path, Communicator& communicator) {
  std::uint8_t is_there = 0;
  on_all_ranks(communicator, "look for", [&] {
    if (communicator.rank() == 0 && std::filesystem::exists(path)) is_there = 1;
  });
  communicator.broadcast(Buffer(&is_there, 1, DType::uint8), 0);
  return is_there != 0 ? load(path, communicator) : 0;
}

}  // namespace kolo
