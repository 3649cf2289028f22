#include "checkpoint/old_file.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "libtorch/archives.hpp"

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

OldFile read_old_file(const std::string& path) {
  OldFile file;
  const std::string problem = problem_of([&] {
    InputArchive archive;
    archive.load_from(path);
    if (const std::int64_t format = number_in(archive, "kolo_checkpoint"); format != 1)
      throw std::runtime_error("it is of format " + std::to_string(format) + ", not 1");
    file.step = static_cast<std::uint64_t>(number_in(archive, "step"));
    file.shared = text_in(archive, "shared");
    for (std::int64_t r = 0; r < number_in(archive, "ranks"); ++r)
      file.ranks.push_back(text_in(archive, "rank" + std::to_string(r)));
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
void load_old_module(torch::nn::Module& module, InputArchive& archive) {
  const auto before = shapes_of(module);
  module.load(archive);
  const auto after = shapes_of(module);
  if (const auto [was, is] = std::ranges::mismatch(before, after); was != before.end()) {
    throw std::runtime_error('\'' + is->first + "' is " + c10::str(at::IntArrayRef(is->second)) +
                             " there, and " + c10::str(at::IntArrayRef(was->second)) + " here");
  }
  at::Tensor words;
  for (std::size_t r = 0; archive.try_read("layout of gradients " + std::to_string(r), words); ++r)
    restore_layout(placed_parameters(module), r,
                   {words.data_ptr<std::int64_t>(), static_cast<std::size_t>(words.numel())});
}

void load_old_optimizer(torch::optim::Optimizer& optimizer, const NameParameter& parameter,
                        InputArchive& archive) {
  InputArchive options;
  if (!archive.try_read("options of group 0", options)) {
    load_whole(optimizer, archive);
    return;
  }
  optimizer.state().clear();
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      const HeldTensor named = parameter(tensor);
      const std::vector<StoredPart>& parts = named.whole.parts;
      const Extent range = parts.empty() ? Extent{} : named.whole.range_of(parts[0]);
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
          value = there.toTensor().view({-1}).slice(0, range.begin, range.end).clone().view(tensor.sizes());
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

}  // namespace kolo::train
