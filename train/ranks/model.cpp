#include "ranks/model.hpp"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "libtorch/device.hpp"
#include "libtorch/first_use.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

namespace kolo {

ParallelModel::ParallelModel(Communicator communicator) : communicator_(std::move(communicator)) {
  if (!communicator_.valid()) throw InvalidArgumentError("the communicator is not valid", {});
}

ParallelModel::NoSync::NoSync(ParallelModel& model) : model_(model) {
  if (model_.no_sync_depth_ == 0) model_.set_local(true);
  ++model_.no_sync_depth_;
}

ParallelModel::NoSync::~NoSync() {
  if (--model_.no_sync_depth_ == 0) model_.set_local(false);
}

void ParallelModel::require_scale(float scale) {
  if (scale > 0 && std::isfinite(scale)) return;
  throw InvalidArgumentError("a loss scale of " + std::to_string(scale) + " is not positive and finite", {});
}

namespace train {
namespace {

constexpr std::size_t kDirectBytes = 1u << 20;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kFirstBytes = 4096;

std::string describe(const NamedTensor& named) {
  std::ostringstream text;
  text << '\'' << named.name << "' " << c10::toString(named.tensor.scalar_type()) << ' '
       << named.tensor.sizes();
  if (!named.tensor.is_contiguous()) text << " strides " << named.tensor.strides();
  if (named.tensor.is_cuda()) text << " on a GPU";
  if (!named.note.empty()) text << ", " << named.note;
  if (const std::string part = part_text_of(named.tensor); !part.empty()) text << ", " << part;
  return text.str();
}

/// Throws InvalidArgumentError, with its name, for a tensor whose values cannot be copied from rank to rank.
void require_served(const char* kind, const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  const std::string which = std::string(kind) + " '" + named.name + '\'';
  if (!is_served(tensor.device())) {
    throw InvalidArgumentError(
        which + " is on " + tensor.device().str() + ": only tensors on the CPU or a CUDA device are served",
        {});
  }
  if (tensor.layout() != at::kStrided)
    throw InvalidArgumentError(which + " is sparse: only dense ones are served", {});
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw InvalidArgumentError(which + " has several elements at one place in memory: register its clone()",
                               {});
  }
  if (!tensor.requires_grad()) return;
  if (!tensor.is_leaf()) {
    throw InvalidArgumentError(which + " is computed from others: register what it is computed from", {});
  }
  try {
    buffer_of(tensor);
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(which + ": " + error.what(), {});
  }
}

void require_one_device(const NamedTensors& tensors) {
  for (const auto& [name, tensor, note] : tensors) {
    const auto& [first_name, first, _] = tensors.front();
    if (tensor.device() == first.device()) continue;
    throw InvalidArgumentError('\'' + first_name + "' is on " + first.device().str() + " and '" + name +
                                   "' on " + tensor.device().str() +
                                   ": the tensors of a model are on one device",
                               {});
  }
}

using TensorSet = std::unordered_set<const c10::TensorImpl*>;

/// The table of an embedding with sparse gradients; undefined for any other module.
at::Tensor sparse_table_of(const torch::nn::Module& module) {
  if (const auto* one = module.as<torch::nn::Embedding>(); one != nullptr && one->options.sparse())
    return one->weight;
  if (const auto* bag = module.as<torch::nn::EmbeddingBag>(); bag != nullptr && bag->options.sparse())
    return bag->weight;
  return {};
}

TensorSet find_ignored(const torch::nn::Module& module, std::span<const std::string> names) {
  TensorSet tensors;
  const auto parameters = module.named_parameters(), buffers = module.named_buffers();
  for (const std::string& name : names) {
    const at::Tensor* const found = parameters.contains(name) ? parameters.find(name) : buffers.find(name);
    if (found == nullptr)
      throw InvalidArgumentError("`ignored` names '" + name + "', which the model does not have", {});
    tensors.insert(found->unsafeGetTensorImpl());
  }
  return tensors;
}

/// The parameters whose gradients are expected to be sparse.
TensorSet find_sparse(const torch::nn::Module& module, std::span<const std::string> names) {
  TensorSet named, tables;
  const auto parameters = module.named_parameters();
  for (const std::string& name : names) {
    const at::Tensor* const found = parameters.find(name);
    if (found == nullptr)
      throw InvalidArgumentError("sparse_parameters names '" + name + "', which is no parameter of the model",
                                 {});
    named.insert(found->unsafeGetTensorImpl());
  }
  const auto modules = module.named_modules("", false);
  const auto visit_all = [&](const auto& visit) {
    visit("", module);
    for (const auto& item : modules) visit(item.key(), *item.value());
  };
  visit_all([&](const std::string&, const torch::nn::Module& one) {
    if (const at::Tensor table = sparse_table_of(one); table.defined())
      tables.insert(table.unsafeGetTensorImpl());
  });
  // A layer that uses a whole table gives it a dense gradient, and dense and sparse add up to dense.
  visit_all([&](const std::string& where, const torch::nn::Module& one) {
    const at::Tensor own = sparse_table_of(one);
    for (const auto& item : one.named_parameters(false)) {
      const auto* const tensor = item.value().unsafeGetTensorImpl();
      const bool is_own = own.defined() && item.value().is_same(own);
      if (!tables.contains(tensor) || named.contains(tensor) || is_own) continue;
      throw InvalidArgumentError(
          "parameter '" + (where.empty() ? "" : where + '.') + item.key() +
              "' is the table of an embedding with sparse gradients too: make the embedding with "
              "sparse(false), or name it in sparse_parameters if only rows of it are used here as well",
          {});
    }
  });
  tables.merge(named);
  return tables;
}

/// Throws InvalidArgumentError where a table has no rows to be named by an index.
void require_rows(const NamedTensor& table) {
  if (table.tensor.dim() > 0 && table.tensor.numel() > 0) return;
  throw InvalidArgumentError("parameter '" + table.name + "' has no rows, so that it has no sparse gradients",
                             {});
}

/// What decides how libtorch rounds on this rank, a line each: its version and build, the instruction set
/// that it uses, and the number of threads.
std::string machine() {
  const int threads = at::get_num_threads();
  std::string text = std::to_string(threads) + (threads == 1 ? " thread\n" : " threads\n");
  // One of its lines lists the settings of the build, the version among them.
  for (const char c : at::show_config()) text += c == ',' ? '\n' : c;
  return text;
}

/// Collective: where the ranks' machines differ, rank 0 warns, or with `require_equal` all ranks throw
/// MismatchError.
void compare_machines(Communicator& communicator, const char* who, bool require_equal) {
  try {
    agree(communicator, "the ranks' machines differ", machine());
  } catch (const MismatchError& error) {
    const std::string text = std::string(
                                 "what optimizers make of the same gradients may differ in the last bits "
                                 "(see DistributedDataParallelOptions::check_parameters_every): ") +
                             error.what();
    if (require_equal) throw MismatchError(text, {.peer = error.context().peer, .collective = who});
    if (communicator.rank() == 0) TORCH_WARN(text);
  }
}

}  // namespace

std::string text_of_layout(std::span<const NamedTensor> tensors) {
  std::string text;
  for (const NamedTensor& named : tensors) text += describe(named) + '\n';
  return text;
}

Replicator::Replicator(const std::vector<NamedTensor>& tensors) {
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const NamedTensor& named : tensors) {
    const at::Tensor& tensor = named.tensor;
    if (tensor.nbytes() >= kDirectBytes && tensor.is_non_overlapping_and_dense()) {
      direct_.push_back(tensor);
    } else if (tensor.numel() > 0) {
      offsets.push_back(bytes);
      bytes += (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
      packed_.push_back(tensor);
    }
    members_.push_back({named, tensor.scalar_type(), tensor.sizes().vec(), tensor.device()});
  }
  if (packed_.empty()) return;
  staging_.emplace(bytes);
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    const at::Tensor& tensor = packed_[i];
    staged_.push_back(at::from_blob(staging_->data() + offsets[i], tensor.sizes(), tensor.scalar_type()));
  }
}

void Replicator::require_unchanged() const {
  for (const Member& member : members_) {
    const at::Tensor& tensor = member.named.tensor;
    if (tensor.scalar_type() == member.type && tensor.sizes() == member.sizes &&
        tensor.device() == member.device)
      continue;
    std::ostringstream text;
    text << describe(member.named) << " was " << c10::toString(member.type) << ' '
         << at::IntArrayRef(member.sizes) << " on " << member.device
         << " when DistributedDataParallel was made: after to() and the like make a new one";
    throw InvalidArgumentError(text.str(), {});
  }
}

void Replicator::start(Communicator& communicator, int root) {
  const c10::NoGradGuard no_grad;
  for (const Member& member : members_) FirstUse::touch(member.named.tensor);
  is_root_ = communicator.rank() == root;
  for (const at::Tensor& tensor : direct_) {
    // In the order in which elements lie, on which the ranks have agreed.
    works_.push_back(broadcast_async(tensor.as_strided({tensor.numel()}, {1}), root, communicator));
  }
  if (!staging_) return;
  for (std::size_t i = 0; is_root_ && i < packed_.size(); ++i) staged_[i].copy_(packed_[i]);
  const Buffer all = staging_->buffer(staging_->size(), DType::uint8);
  works_.emplace_back(communicator.broadcast_async(all, root));
}

void Replicator::finish() {
  const c10::NoGradGuard no_grad;
  wait_all(works_);
  // Under another version counter: between a forward and its backward another forward may have come, which
  // keeps statistics of batch normalization that no gradient depends on.
  for (std::size_t i = 0; !is_root_ && i < packed_.size(); ++i) packed_[i].variable_data().copy_(staged_[i]);
}

void Replicator::run(Communicator& communicator, int root) {
  if (are_equal(communicator)) return;
  start(communicator, root);
  finish();
}

/// Models that differ mostly do so in their first values, so all bytes are only read where these are equal.
bool Replicator::are_equal(Communicator& communicator) const {
  for (const Member& member : members_) FirstUse::touch(member.named.tensor);
  for (const std::size_t most : {kFirstBytes, ~std::size_t{0}}) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [named, type, sizes, device] : members_) {
      const at::Tensor& tensor = named.tensor;
      const bool can_read = device.is_cpu() && tensor.is_non_overlapping_and_dense();
      hashes.push_back(can_read ? hash_of(tensor.data_ptr(), std::min(tensor.nbytes(), most))
                                : static_cast<std::uint64_t>(communicator.rank()));
    }
    if (find_odd(communicator, hash_of(hashes.data(), hashes.size() * sizeof hashes[0]))) return false;
  }
  return true;
}

NamedTensors once(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  NamedTensors result;
  std::unordered_set<const c10::TensorImpl*> met;
  for (const auto& item : tensors) {
    if (met.insert(item.value().unsafeGetTensorImpl()).second) result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<at::Tensor> values_of(const NamedTensors& tensors) {
  std::vector<at::Tensor> result;
  for (const NamedTensor& named : tensors) result.push_back(named.tensor);
  return result;
}

std::vector<GradientPart> parts_of(const NamedTensors& parameters) {
  std::vector<GradientPart> parts;
  for (const NamedTensor& parameter : parameters) parts.push_back(FlatTensors::part_of(parameter));
  return parts;
}

NamedTensors tensors_of(const torch::nn::Module& module) {
  NamedTensors all = once(module.named_parameters());
  for (const NamedTensor& parameter : all) require_served("parameter", parameter);
  for (NamedTensor& buffer : once(module.named_buffers())) {
    require_served("buffer", buffer);
    all.push_back(std::move(buffer));
  }
  return all;
}

Model::Model(const torch::nn::Module& module, const DistributedDataParallelOptions& options) {
  const TensorSet left_out = find_ignored(module, options.ignored);
  for (NamedTensor& buffer : once(module.named_buffers())) {
    if (!left_out.contains(buffer.tensor.unsafeGetTensorImpl())) buffers.push_back(std::move(buffer));
  }
  for (NamedTensor& parameter : once(module.named_parameters())) {
    if (left_out.contains(parameter.tensor.unsafeGetTensorImpl())) {
      ignored.push_back(std::move(parameter));
      continue;
    }
    require_served("parameter", parameter);
    (parameter.tensor.requires_grad() ? trainable : frozen).push_back(std::move(parameter));
  }
  for (const NamedTensor& buffer : buffers) require_served("buffer", buffer);
  if (trainable.empty()) throw InvalidArgumentError("the model has no parameter that wants a gradient", {});
  require_one_device(all());
  for (NamedTensor& parameter : frozen) parameter.note = "frozen";
  const auto sparse = find_sparse(module, options.sparse_parameters);
  for (std::size_t i = 0; i < trainable.size(); ++i) {
    if (!sparse.contains(trainable[i].tensor.unsafeGetTensorImpl())) continue;
    require_rows(trainable[i]);
    trainable[i].note = "with sparse gradients";
    tables.push_back(i);
  }
}

NamedTensors Model::parameters() const {
  NamedTensors result = trainable;
  result.insert(result.end(), frozen.begin(), frozen.end());
  return result;
}

NamedTensors Model::dense() const {
  NamedTensors result;
  for (std::size_t i = 0; i < trainable.size(); ++i) {
    if (!std::ranges::binary_search(tables, i)) result.push_back(trainable[i]);
  }
  return result;
}

NamedTensors Model::all() const {
  NamedTensors result = parameters();
  result.insert(result.end(), buffers.begin(), buffers.end());
  return result;
}

Model make_alike(Communicator& communicator, const char* who, const std::string& settings,
                 const std::function<Model()>& make, bool require_equal_machines) {
  std::optional<Model> model;
  NamedTensors all;
  std::string lines;
  agree(communicator, who, lines, [&] {
    model.emplace(make());
    all = model->all();
    lines = settings + '\n' + text_of_layout(all);
  });
  compare_machines(communicator, who, require_equal_machines);
  Replicator(all).run(communicator, 0);
  return std::move(*model);
}

}  // namespace train
}  // namespace kolo
