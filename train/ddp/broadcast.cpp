#include "kolo/train/broadcast.hpp"

#include <torch/serialize/archive.h>

#include <sstream>
#include <string>

#include "ddp/agreement.hpp"
#include "ddp/model.hpp"
#include "ddp/replicas.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace {

constexpr const char* kOptions = "kolo_options/";

std::string saved(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  // load() leaves the options as they are.
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(kOptions + std::to_string(i), options);
  }
  std::ostringstream text;
  archive.save_to(text);
  return text.str();
}

void load(torch::optim::Optimizer& optimizer, const std::string& text) {
  std::istringstream stream(text);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.state().clear();  // load() leaves the state of parameters of which the archive has none
  optimizer.load(archive);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(kOptions + std::to_string(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace

void broadcast(const torch::nn::Module& module, Communicator& communicator, int root) {
  const train::NamedTensors tensors = train::tensors_of(module);
  train::require_same_layout(communicator, tensors, "broadcast of a model");
  train::Replicator(tensors).run(communicator, root);
}

void broadcast(torch::optim::Optimizer& optimizer, Communicator& communicator, int root) {
  const bool is_root = communicator.rank() == root;
  std::string text, problem;
  const auto attempt = [&](auto action) {
    try {
      action();
    } catch (const c10::Error& error) {
      problem = error.what_without_backtrace();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  };
  if (is_root) attempt([&] { text = saved(optimizer); });
  text = train::text_from(communicator, std::move(text), root);
  if (!is_root && !text.empty()) attempt([&] { load(optimizer, text); });
  const auto complaint = train::first_complaint(communicator, problem);
  if (!complaint) return;
  throw Error("rank " + std::to_string(complaint->rank) + " cannot " +
                  (complaint->rank == root ? "save" : "load") + " the optimizer: " + complaint->text,
              {.peer = complaint->rank, .collective = "broadcast"});
}

}  // namespace kolo
