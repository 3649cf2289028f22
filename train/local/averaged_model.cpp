#include "kolo/train/local.hpp"

#include "kolo/error.hpp"
#include "local/plan.hpp"
#include "ranks/span.hpp"

namespace kolo {

struct AveragedModel::State {
  State(const torch::nn::Module& module, Communicator communicator)
      : model(train::agree_on_model("AveragedModel", module, communicator, "no options",
                                    [](const train::Model&) {})),
        tensors(train::averaged_of(model)),
        own(flats_by_type(tensors)) {
    const train::Span span(communicator, "average of models");
    const std::vector<FlatTensors> averages = flats_by_type(tensors);
    train::pack(model, tensors, own, communicator);
    train::pack(model, tensors, averages, communicator);
    // KOLO_WIRE is meant for gradients.
    std::vector<TensorWork> works = train::start_averages(averages, communicator, {.wire = Wire::native});
    wait_all(works);
    unpack(averages, tensors);
  }

  train::AgreedModel model;
  train::NamedTensors tensors;
  std::vector<FlatTensors> own;  ///< this rank's values
};

AveragedModel::AveragedModel(const torch::nn::Module& module, const Communicator& communicator) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator);
}

AveragedModel::~AveragedModel() {
  unpack(state_->own, state_->tensors);
}

}  // namespace kolo
