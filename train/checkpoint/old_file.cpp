#include "checkpoint/old_file.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "libtorch/archives.hpp"
#include "placement/regions.hpp"

namespace kolo::train {
namespace {

using torch::serialize::InputArchive;

std::int64_t number_in(InputArchive& archive, const std::string& name) {
  c10::IValue number;
  archive.read(name, number);
  return number.toInt();
}

std::string text_in(InputArchive& archive, const std::string& name) {
  at::Tensor tensor;
  archive.read(name, tensor);
  tensor = tensor.to(at::kByte).contiguous();
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

/// Names and sizes of parameters and buffers.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes_of(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> result;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()})
    for (const auto& item : tensors) result.emplace_back(item.key(), item.value().sizes().vec());
  return result;
}

}  // namespace

OldFile read_old_file(const std::string& path, int rank, int ranks) {
  OldFile file;
  const std::string problem = problem_of([&] {
    InputArchive archive;
    archive.load_from(path);
    if (const std::int64_t format = number_in(archive, "kolo_checkpoint"); format != 1)
      throw std::runtime_error("it is of format " + std::to_string(format) + ", not 1");
    file.step = static_cast<std::uint64_t>(number_in(archive, "step"));
    file.ranks = number_in(archive, "ranks");
    file.shared = archive_of(text_in(archive, "shared"));
    if (file.ranks == ranks) file.own = archive_of(text_in(archive, "rank" + std::to_string(rank)));
  });
  if (!problem.empty()) throw std::runtime_error(path + ": " + problem);
  return file;
}

InputArchive archive_of(const std::string& text) {
  std::istringstream stream(text);
  InputArchive archive;
  archive.load_from(stream);
  return archive;
}

/// libtorch takes a tensor of any shape for one that it loads.
void load_old(torch::nn::Module& module, InputArchive& archive) {
  const auto before = shapes_of(module);
  module.load(archive);
  const auto after = shapes_of(module);
  if (const auto [was, is] = std::ranges::mismatch(before, after); was != before.end()) {
    throw std::runtime_error('\'' + is->first + "' is " + c10::str(at::IntArrayRef(is->second)) +
                             " there, and " + c10::str(at::IntArrayRef(was->second)) + " here");
  }
}

void load_old(torch::optim::Optimizer& optimizer, const PlacedParameters& placed, InputArchive& archive) {
  InputArchive options;
  if (!archive.try_read("options of group 0", options)) {
    load_whole(optimizer, archive);
    return;
  }
  optimizer.state().clear();
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      const PlacedParameter named = placed.at(tensor.unsafeGetTensorImpl());
      const Slice range = range_of(named.whole, named.region);
      InputArchive inner;
      archive.read(named.name, inner);
      const auto state = make_state(group.options());
      bool is_there = false;
      visit_state(*state, [&](const std::string& field, auto& value) {
        c10::IValue there;
        if (!inner.try_read(field, there)) return;
        is_there = true;
        if constexpr (std::is_same_v<decltype(value), std::int64_t&>) {
          value = there.toInt();
        } else {
          value = there.toTensor().view({-1}).slice(0, range.begin, range.end()).clone().view(tensor.sizes());
        }
      });
      if (is_there) state_of(optimizer, tensor) = state->clone();
    }
  }
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    archive.read("options of group " + std::to_string(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

void load_old(GradientHook& hook, InputArchive& archive) {
  HookState state;
  for (std::int64_t i = 0; i < number_in(archive, "size"); ++i) {
    c10::IValue name;
    at::Tensor values;
    archive.read("name" + std::to_string(i), name);
    archive.read("values" + std::to_string(i), values);
    const auto* const begin = static_cast<const float*>(values.data_ptr());
    state.emplace(name.toStringRef(), std::vector<float>(begin, begin + values.numel()));
  }
  hook.set_state(state);
}

}  // namespace kolo::train
