#include "kolo/train/local.hpp"

#include "kolo/error.hpp"
#include "local/flat_tensors.hpp"
#include "local/plan.hpp"

namespace kolo {

struct AveragedModel::State {
  State(const torch::nn::Module& module, Communicator communicator)
      : model(train::agree_on_model("AveragedModel", module, communicator, "no options",
                                    [](const train::Model&) {})),
        parameters(model.parameters),
        buffers(model.buffers) {
    train::FlatTensors averages(model.parameters), averaged_buffers(model.buffers);
    train::pack(model.parameters, parameters, communicator);
    train::pack(model.parameters, averages, communicator);
    train::pack(model.buffers, buffers, communicator);
    train::pack(model.buffers, averaged_buffers, communicator);
    const CallOptions as_it_is{.wire = Wire::native};  // KOLO_WIRE is meant for gradients
    averages.average(communicator, as_it_is);
    averaged_buffers.average(communicator, as_it_is);
    train::unpack(averages, model.parameters);
    train::unpack(averaged_buffers, model.buffers);
  }

  train::AgreedModel model;
  train::FlatTensors parameters;  ///< this rank's own
  train::FlatTensors buffers;
};

AveragedModel::AveragedModel(const torch::nn::Module& module, const Communicator& communicator) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator);
}

AveragedModel::~AveragedModel() {
  train::unpack(state_->parameters, state_->model.parameters);
  train::unpack(state_->buffers, state_->model.buffers);
}

}  // namespace kolo
