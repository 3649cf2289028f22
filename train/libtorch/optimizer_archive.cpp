#include "libtorch/optimizer_archive.hpp"

#include <string>

#include "libtorch/first_use.hpp"

namespace kolo::train {
namespace {

constexpr const char* kOptions = "kolo_options/";

/// A step that waits for the first use of its parameters is part of the state.
void touch_parameters(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) FirstUse::touch(parameter);
  }
}

}  // namespace

void save_whole(const torch::optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive) {
  touch_parameters(optimizer);
  optimizer.save(archive);
  // load() leaves the options as they are.
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(kOptions + std::to_string(i), options);
  }
}

void load_whole(torch::optim::Optimizer& optimizer, torch::serialize::InputArchive& archive) {
  touch_parameters(optimizer);
  optimizer.state().clear();  // load() leaves the state of parameters of which the archive has none
  optimizer.load(archive);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(kOptions + std::to_string(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace kolo::train
