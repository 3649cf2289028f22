#include "kolo/train/averages.hpp"

#include <torch/serialize/archive.h>

#include <sstream>
#include <string>

#include "kolo/error.hpp"
#include "libtorch/gradient_listener.hpp"
#include "libtorch/optimizer_archive.hpp"
#include "ranks/agreement.hpp"
#include "ranks/model.hpp"
#include "ranks/replicas.hpp"

namespace kolo {
namespace {

using Save = std::function<void(std::ostream&)>;
using Load = std::function<void(std::istream&)>;

/// `what` names the object in errors.
void copy_object(const std::string& what, const Save& save, const Load& load, Communicator& communicator,
                 int root) {
  const bool is_root = communicator.rank() == root;
  std::string text, problem;
  if (is_root) {
    problem = problem_of([&] {
      std::ostringstream stream;
      save(stream);
      text = stream.str();
    });
  }
  bool is_saved = problem.empty();
  communicator.broadcast(Buffer(&is_saved, 1, DType::uint8), root);
  if (is_saved) text = train::text_from(communicator, std::move(text), root);
  if (is_saved && !is_root) {
    problem = problem_of([&] {
      std::istringstream stream(text);
      load(stream);
    });
  }
  const auto complaint = train::first_complaint(communicator, problem);
  if (!complaint) return;
  throw Error("rank " + std::to_string(complaint->rank) + " cannot " +
                  (complaint->rank == root ? "save " : "load ") + what + ": " + complaint->text,
              {.peer = complaint->rank, .collective = "broadcast"});
}

}  // namespace

void broadcast(const torch::nn::Module& module, Communicator& communicator, int root) {
  const train::WholeParameters whole(module.parameters());
  train::NamedTensors tensors;
  std::string lines;
  agree(communicator, "broadcast", lines, [&] {
    tensors = train::tensors_of(module);
    lines = train::text_of_layout(tensors);
  });
  train::Replicator(tensors).run(communicator, root);
}

void broadcast(torch::optim::Optimizer& optimizer, Communicator& communicator, int root) {
  const auto save = [&](std::ostream& to) {
    torch::serialize::OutputArchive archive;
    train::save_whole(optimizer, archive);
    archive.save_to(to);
  };
  const auto load = [&](std::istream& from) {
    torch::serialize::InputArchive archive;
    archive.load_from(from);
    train::load_whole(optimizer, archive);
  };
  copy_object("the optimizer", save, load, communicator, root);
}

void broadcast_object(const Save& save, const Load& load, Communicator& communicator, int root) {
  copy_object("the object", save, load, communicator, root);
}

}  // namespace kolo
