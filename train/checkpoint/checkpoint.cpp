#include "kolo/train/checkpoint.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/old_file.hpp"
#include "checkpoint/parts.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/transfer.hpp"
#include "checkpoint/writer.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/trouble.hpp"
#include "libtorch/archives.hpp"
#include "libtorch/first_use.hpp"
#include "libtorch/gradient_listener.hpp"
#include "libtorch/thread_state.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

namespace kolo {
namespace {

using train::of_rank;
using train::Transfer;

constexpr const char* kRandom = "random numbers";

}  // namespace

struct Checkpoint::State {
  struct Entry {
    std::string name;
    bool is_own = false;
    torch::nn::Module* module = nullptr;
    std::optional<PlacedModel> placed = {};
    torch::optim::Optimizer* optimizer = nullptr;
    GradientHook* hook = nullptr;
    Save save = {};  ///< of anything else, and of an optimizer of an unknown type
    Load load = {};  ///< also an archive of the file before 0.2
    Mark mark = {};

    /// Of the tensors in a checkpoint.
    std::string prefix(int rank) const {
      return (is_own ? of_rank(rank) : "") + (is_model() ? local_prefix() : name);
    }
    std::string local_prefix() const { return name == "model" ? "" : name + '/'; }
    bool is_model() const { return module != nullptr || placed; }
    std::vector<PlacedParameter> parameters() const {
      return placed ? placed->parameters() : placed_parameters(*module);
    }
  };

  Checkpoint& add(Checkpoint& whole, Entry entry) {
    const auto is_equal = [&](const Entry& other) { return other.name == entry.name; };
    if (entry.name == kRandom || std::ranges::any_of(entries, is_equal))
      throw InvalidArgumentError("the checkpoint has a '" + entry.name + "' already", {});
    entries.push_back(std::move(entry));
    return whole;
  }

  /// A name and a region for each parameter of the optimizer.
  train::PlacedParameters names_for(const torch::optim::Optimizer& optimizer) const;
  void require_same_parts(Communicator& communicator) const;
  /// Steps that wait for the first use of their parameters are part of the state.
  void touch() const;
  void transfer(Transfer& transfer);
  void transfer_all(Transfer& transfer);  ///< with layouts of gradients and random numbers
  void transfer(Entry& entry, Transfer& transfer);
  void require_no_more(const Transfer& transfer, Communicator& communicator) const;
  std::uint64_t load(const std::string& path, bool is_required, Communicator& communicator);
  void load(train::CheckpointReader& reader, const std::string& folder, Communicator& communicator);
  std::uint64_t load_old(const std::string& path, Communicator& communicator);
  void wait();

  CheckpointOptions options;
  std::vector<Entry> entries;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers;  ///< and copies, of the last mark()
  std::vector<std::function<void()>> positions;
  train::CheckpointCopy copy;
  Communicator of, own;  ///< what save() was called with, and one of the thread's own
  std::thread thread;    ///< writes the copy
  std::exception_ptr error;
};

train::PlacedParameters Checkpoint::State::names_for(const torch::optim::Optimizer& optimizer) const {
  train::PlacedParameters names;
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto& parameters = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      names[parameters[i].unsafeGetTensorImpl()] =
          train::whole_tensor("parameter " + std::to_string(g) + '.' + std::to_string(i), parameters[i]);
  }
  for (const Entry& entry : entries) {
    if (!entry.is_model()) continue;
    for (PlacedParameter& one : entry.parameters()) {
      one.name = entry.local_prefix() + one.name;
      one.is_trained = true;
      names[one.tensor.unsafeGetTensorImpl()] = one;
    }
  }
  return names;
}

/// What is added whole must be so.
void Checkpoint::State::require_same_parts(Communicator& communicator) const {
  std::set<const c10::TensorImpl*> known;
  std::string parts;
  const auto look_at = [&](const std::string& name, const at::Tensor& tensor) {
    const std::string part = train::part_text_of(tensor);
    if (!part.empty() && !known.contains(tensor.unsafeGetTensorImpl()))
      parts += '\'' + name + "' with " + part + '\n';
  };
  for (const Entry& entry : entries) {
    if (!entry.is_model() || entry.is_own) continue;
    for (const PlacedParameter& one : entry.parameters()) {
      if (entry.placed || one.region != Region()) known.insert(one.tensor.unsafeGetTensorImpl());
      look_at(entry.name, one.tensor);
    }
  }
  for (const Entry& entry : entries) {
    if (entry.optimizer == nullptr || entry.is_own) continue;
    if (!train::has_known_states(*entry.optimizer)) known.clear();
    for (const auto& group : entry.optimizer->param_groups())
      for (const at::Tensor& parameter : group.params()) look_at(entry.name, parameter);
  }
  try {
    agree(communicator, "Checkpoint", parts);
  } catch (const MismatchError& error) {
    throw MismatchError(std::string(error.what()) +
                            ", and one of these parts alone would be saved: add the wrapper of the model, or "
                            "what is each rank's own with add_own()",
                        error.context());
  }
}

void Checkpoint::State::touch() const {
  for (const Entry& entry : entries) {
    if (entry.is_model())
      for (const PlacedParameter& one : entry.parameters()) train::FirstUse::touch(one.tensor);
    if (entry.optimizer == nullptr) continue;
    for (const auto& group : entry.optimizer->param_groups())
      for (const at::Tensor& parameter : group.params()) train::FirstUse::touch(parameter);
  }
}

void Checkpoint::State::transfer(Entry& entry, Transfer& transfer) {
  const std::string prefix = entry.prefix(transfer.rank());
  if (entry.is_own && entry.hook == nullptr) transfer.require_as_many(entry.name);
  if (entry.is_model()) {
    for (PlacedParameter one : entry.parameters()) {
      one.name = prefix + one.name;
      // Ranks may have other values of buffers; what is of one normalization comes from one rank.
      one.is_trained = one.is_trained || one.whole.size() > 1;
      transfer.tensor(std::move(one));
    }
  } else if (entry.hook != nullptr) {
    train::transfer_hook(entry.name, *entry.hook, transfer);
  } else if (entry.optimizer != nullptr && train::has_known_states(*entry.optimizer)) {
    train::transfer_optimizer(prefix, entry.is_own, *entry.optimizer, names_for(*entry.optimizer), transfer);
  } else {
    const auto get = [&] {
      torch::serialize::OutputArchive archive;
      entry.save(archive);
      std::ostringstream bytes;
      archive.save_to(bytes);
      return bytes.str();
    };
    transfer.text(prefix + "/archive", entry.is_own, get, [&entry](const std::string& text) {
      auto archive = train::archive_of(text);
      entry.load(archive);
    });
  }
}

void Checkpoint::State::transfer(Transfer& transfer) {
  touch();
  for (Entry& entry : entries) this->transfer(entry, transfer);
}

void Checkpoint::State::transfer_all(Transfer& transfer) {
  this->transfer(transfer);
  for (const Entry& entry : entries)
    if (entry.is_model()) train::transfer_layouts(entry.name, entry.parameters(), transfer);
  const std::string random = of_rank(transfer.rank()) + kRandom;
  if (!transfer.wants(random)) return;
  const at::Tensor state = train::RandomState::of({}).state;
  transfer.tensor(train::whole_tensor(random, state));
  transfer.then([state] { train::RandomState{train::generator_or_default({}), state}.apply(); });
}

/// Collective: a model there has no tensor that no rank wants.
void Checkpoint::State::require_no_more(const Transfer& transfer, Communicator& communicator) const {
  std::vector<std::uint8_t> wanted;  // of the index, which all ranks have alike
  for (const auto& [name, tensor] : transfer.tensors())
    wanted.push_back(transfer.wanted.contains(name) ? 1 : 0);
  communicator.all_reduce(Buffer(wanted), ReduceOp::max);
  auto is_wanted = wanted.begin();
  for (const auto& [name, tensor] : transfer.tensors()) {
    if (*is_wanted++ != 0) continue;
    for (const Entry& entry : entries) {
      const std::string prefix = entry.local_prefix();
      if (entry.is_model() && !entry.is_own && name.starts_with(prefix) &&
          name.find('/', prefix.size()) == std::string::npos)
        throw Error("the checkpoint has '" + name + "', which no rank's '" + entry.name + "' has",
                    {.collective = "Checkpoint"});
    }
  }
}

void Checkpoint::State::load(train::CheckpointReader& reader, const std::string& folder,
                             Communicator& communicator) {
  Transfer transfer(communicator.rank(), communicator.size(), &reader);
  train::on_all_ranks(communicator, "load", [&] {
    const std::string problem = problem_of([&] { transfer_all(transfer); });
    if (!problem.empty()) throw std::runtime_error(folder + ": " + problem);
  });
  require_no_more(transfer, communicator);
  train::on_all_ranks(communicator, "load", [&] { transfer.run(); });
}

std::uint64_t Checkpoint::State::load(const std::string& path, bool is_required, Communicator& communicator) {
  namespace fs = std::filesystem;
  wait();
  require_same_parts(communicator);
  const int rank = communicator.rank();
  std::string found;  // folders, the newest first
  train::on_all_ranks(communicator, "look for", [&] {
    if (rank != 0) return;
    if (fs::is_regular_file(path) || fs::exists(path + "/index.json")) {
      found = path + '\n';
    } else if (fs::is_directory(path)) {
      for (const std::uint64_t step : train::steps_in(path)) found += train::step_folder(path, step) + '\n';
    }
    if (found.empty() && is_required) throw std::runtime_error(path + ": there is no checkpoint");
  });
  std::istringstream folders(train::text_from(communicator, found, 0));
  std::string folder, next;
  std::getline(folders, folder);
  if (folder.empty()) return 0;
  if (communicator.all_reduce(std::uint8_t{rank == 0 && fs::is_regular_file(folder)}, ReduceOp::max) != 0)
    return load_old(path, communicator);
  for (;; folder = next) {
    std::unique_ptr<train::CheckpointReader> reader;
    auto complaint =
        train::first_complaint(communicator, problem_of([&] {
                                 reader = std::make_unique<train::CheckpointReader>(folder);
                                 reader->check_files(static_cast<std::uint64_t>(rank),
                                                     static_cast<std::uint64_t>(communicator.size()));
                               }));
    if (!complaint) {
      if (const auto odd = train::find_odd(communicator, reader->index_crc()))
        complaint = {odd->rank, folder + ": its index is not that of rank " + std::to_string(odd->usual)};
    }
    if (!complaint) {
      load(*reader, folder, communicator);
      return reader->index().step;
    }
    const std::string text =
        "rank " + std::to_string(complaint->rank) + " cannot load the checkpoint: " + complaint->text;
    if (!std::getline(folders, next))
      throw Error(text, {.peer = complaint->rank, .collective = "Checkpoint"});
    if (rank == 0) TORCH_WARN(with_code(text + "; " + next + " is loaded in its place"));
  }
}

std::uint64_t Checkpoint::State::load_old(const std::string& path, Communicator& communicator) {
  std::vector<at::Tensor> parameters;
  for (const Entry& entry : entries) {
    if (entry.module == nullptr) continue;
    for (at::Tensor& parameter : entry.module->parameters()) parameters.push_back(std::move(parameter));
  }
  const train::WholeParameters whole(parameters);
  std::uint64_t step = 0;
  train::on_all_ranks(communicator, "load", [&] {
    train::OldFile file = train::read_old_file(path, communicator.rank(), communicator.size());
    step = file.step;
    for (const Entry& entry : entries) {
      if (entry.is_own && !file.own) {
        throw std::runtime_error(path + ": it holds ranks' own states of " + std::to_string(file.ranks) +
                                 " ranks, and there are " + std::to_string(communicator.size()));
      }
      torch::serialize::InputArchive inner, &all = entry.is_own ? *file.own : file.shared;
      if (!entry.load || !all.try_read(entry.name, inner))
        throw std::runtime_error(path + ": it has no '" + entry.name + "'");
      entry.load(inner);
    }
    if (!file.own) return;
    at::Tensor state;
    file.own->read(kRandom, state);
    train::RandomState{train::generator_or_default({}), state}.apply();
  });
  return step;
}

void Checkpoint::State::wait() {
  if (thread.joinable()) thread.join();
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
}

Checkpoint::Checkpoint(CheckpointOptions options) : state_(std::make_unique<State>()) {
  if (options.keep == 0) throw InvalidArgumentError("a Checkpoint keeps 1 checkpoint or more", {});
  state_->options = options;
}

Checkpoint::~Checkpoint() {
  const std::string problem = problem_of([this] { wait(); });
  if (!problem.empty()) TORCH_WARN(with_code(problem));
}

Checkpoint& Checkpoint::add(std::string name, bool is_own, torch::nn::Module& module) {
  return state_->add(
      *this, {.name = std::move(name), .is_own = is_own, .module = &module, .load = [&](auto& archive) {
                train::load_old(module, archive);
              }});
}

Checkpoint& Checkpoint::add(std::string name, const PlacedModel& model) {
  return state_->add(*this, {.name = std::move(name), .placed = model});
}

Checkpoint& Checkpoint::add(std::string name, bool is_own, torch::optim::Optimizer& optimizer) {
  return state_->add(*this, {.name = std::move(name),
                             .is_own = is_own,
                             .optimizer = &optimizer,
                             .save = [&optimizer](auto& archive) { train::save_whole(optimizer, archive); },
                             .load =
                                 [this, &optimizer](auto& archive) {
                                   train::load_old(optimizer, state_->names_for(optimizer), archive);
                                 }});
}

Checkpoint& Checkpoint::add(std::string name, GradientHook& hook) {
  return state_->add(*this,
                     {.name = std::move(name), .is_own = true, .hook = &hook, .load = [&](auto& archive) {
                        train::load_old(hook, archive);
                      }});
}

Checkpoint& Checkpoint::add(std::string name, bool is_own, Save save, Load load, Mark mark) {
  return state_->add(*this, {.name = std::move(name),
                             .is_own = is_own,
                             .save = std::move(save),
                             .load = std::move(load),
                             .mark = std::move(mark)});
}

std::vector<PlacedParameter> Checkpoint::collect() {
  Transfer transfer(0, 1);
  state_->transfer(transfer);
  return std::move(transfer.held);
}

std::vector<PlacedParameter> Checkpoint::placed() const {
  std::vector<PlacedParameter> all;
  for (const State::Entry& entry : state_->entries) {
    if (!entry.is_model() || entry.is_own) continue;
    for (PlacedParameter& one : entry.parameters()) {
      one.name = entry.local_prefix() + one.name;
      all.push_back(std::move(one));
    }
  }
  return all;
}

void Checkpoint::load(train::StateReader& there) {
  Transfer transfer(0, 1, &there);
  state_->transfer(transfer);
  there.fetch(transfer.wanted);
  transfer.run();
}

void Checkpoint::mark() {
  const c10::NoGradGuard no_grad;
  if (state_->buffers.empty()) {
    for (const State::Entry& entry : state_->entries) {
      if (entry.module == nullptr) continue;
      for (const at::Tensor& buffer : entry.module->buffers())
        state_->buffers.emplace_back(buffer, at::empty_like(buffer));
    }
  }
  for (auto& [buffer, copy] : state_->buffers) copy.copy_(buffer);
  state_->positions.clear();
  for (const State::Entry& entry : state_->entries)
    if (entry.mark) state_->positions.push_back(entry.mark());
}

void Checkpoint::set_back() {
  const c10::NoGradGuard no_grad;
  for (auto& [buffer, copy] : state_->buffers) buffer.copy_(copy);
  for (const auto& go_back : state_->positions) go_back();
}

void Checkpoint::save(const std::string& folder, std::uint64_t step, Communicator& communicator) {
  State& state = *state_;
  state.wait();
  state.require_same_parts(communicator);
  if (!(state.of == communicator)) {
    state.of = communicator;
    state.own = communicator.split(0);
    state.copy = {};
  }
  state.copy.take(
      [&] {
        Transfer transfer(communicator.rank(), communicator.size());
        state.transfer_all(transfer);
        return std::move(transfer.held);
      },
      step, communicator);
  state.thread = std::thread([&state, folder] {
    try {
      state.copy.write(folder, state.options.keep, state.own);
    } catch (...) {
      state.error = std::current_exception();
    }
  });
}

void Checkpoint::wait() {
  state_->wait();
}

std::uint64_t Checkpoint::load(const std::string& folder, Communicator& communicator) {
  return state_->load(folder, true, communicator);
}

std::uint64_t Checkpoint::resume(const std::string& folder, Communicator& communicator) {
  return state_->load(folder, false, communicator);
}

}  // namespace kolo
