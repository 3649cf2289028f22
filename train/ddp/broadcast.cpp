#include "kolo/train/broadcast.hpp"

#include <torch/serialize/archive.h>

#include <sstream>
#include <string>

#include "ddp/agreement.hpp"
#include "ddp/model.hpp"
#include "ddp/replicas.hpp"
#include "kolo/error.hpp"
#include "libtorch/optimizer_archive.hpp"
#include "libtorch/problem.hpp"

namespace kolo {
namespace {

std::string saved(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  train::save_whole(optimizer, archive);
  std::ostringstream text;
  archive.save_to(text);
  return text.str();
}

void load(torch::optim::Optimizer& optimizer, const std::string& text) {
  std::istringstream stream(text);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  train::load_whole(optimizer, archive);
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
  if (is_root) problem = train::problem_of([&] { text = saved(optimizer); });
  text = train::text_from(communicator, std::move(text), root);
  if (!is_root && !text.empty()) problem = train::problem_of([&] { load(optimizer, text); });
  const auto complaint = train::first_complaint(communicator, problem);
  if (!complaint) return;
  throw Error("rank " + std::to_string(complaint->rank) + " cannot " +
                  (complaint->rank == root ? "save" : "load") + " the optimizer: " + complaint->text,
              {.peer = complaint->rank, .collective = "broadcast"});
}

}  // namespace kolo
