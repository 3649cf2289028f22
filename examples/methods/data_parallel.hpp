// DataParallel: trains one model by several replicas in one process, each in a thread of its own.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::methods {

/// How many replicas a DataParallel has, and what each of them may use.
struct DataParallelOptions {
  int replicas = 2;  ///< copies of the model, a thread each; 1 or more
  /// How many threads libtorch's operators use in each replica's thread, as at::set_num_threads() sets it
  /// there; 0: the constructing thread's number, shared out, at least one.
  int threads_per_replica = 0;
};

/// A replica's forward or backward threw. The message holds what it said, and std::rethrow_if_nested() gives
/// the exception itself. Where several threw, the first replica's is told.
class ReplicaError : public Error {
 public:
  /// For the library.
  ReplicaError(const std::string& what, int replica) : Error(what, {}), replica_(replica) {}
  /// Number of the replica that threw, from 0.
  int replica() const noexcept { return replica_; }

 private:
  int replica_;
};

/// What DataParallel<Model> does whatever the model's type.
class DataParallelBase {
 public:
  DataParallelBase(const DataParallelBase&) = delete;
  DataParallelBase& operator=(const DataParallelBase&) = delete;

  /// DataParallelOptions::replicas.
  int replicas() const noexcept;
  /// The model's, each once, also one that is registered under several names (tied weights), where libtorch's
  /// parameters() lists it several times.
  std::vector<at::Tensor> parameters() const;

 protected:
  /// Makes another model like the wrapped one.
  using MakeReplica = std::function<std::shared_ptr<torch::nn::Module>()>;
  /// Runs one replica's forward on its part of each tensor; returns the tensors in what that returned.
  using ForwardReplica =
      std::function<std::vector<at::Tensor>(std::size_t replica, const std::vector<at::Tensor>& inputs)>;

  /// Without `make`, by the model's clone().
  DataParallelBase(std::shared_ptr<torch::nn::Module> model, const MakeReplica& make,
                   const DataParallelOptions& options);
  ~DataParallelBase();

  /// The module of replica `index`, below replicas().
  const std::shared_ptr<torch::nn::Module>& replica(std::size_t index) const;
  /// Shares `inputs` out, runs the replicas, and gathers the tensors that each returns.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const ForwardReplica& forward);

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< also held by graphs that have not been through backward()
};

namespace tensors {

template <typename T>
concept Container = requires(T& value) {
  value.end();
  requires std::is_lvalue_reference_v<decltype(*value.begin())>;
};
template <typename T>
concept Optional = requires(T& value) {
  value.has_value(), *value;
};
template <typename T>
concept Tuple = requires {
  std::tuple_size<T>::value;
};

/// Whether T is a tensor, or containers, pairs, tuples and optionals of such, numbers and strings.
template <typename T>
consteval bool is_seen_through() {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                std::is_convertible_v<T, std::string_view>) {
    return true;
  } else if constexpr (Tuple<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (is_seen_through<std::remove_cv_t<std::tuple_element_t<I, T>>>() && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (Container<T>) {
    return is_seen_through<std::remove_cvref_t<decltype(*std::declval<T&>().begin())>>();
  } else if constexpr (Optional<T>) {
    return is_seen_through<std::remove_cvref_t<decltype(*std::declval<T&>())>>();
  } else {
    return false;
  }
}

/// Calls `action` with each tensor in `value`, in order; passes over what it cannot see into.
template <typename T, typename Action>
void for_each_tensor(T& value, const Action& action) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    action(value);
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    return;
  } else if constexpr (Tuple<T>) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, action), ...); }, value);
  } else if constexpr (Container<T>) {
    using Part = std::remove_reference_t<decltype(*value.begin())>;
    static_assert(!std::is_same_v<Part, const at::Tensor>, "pass a std::vector of tensors, not a view");
    for (auto& part : value) for_each_tensor(part, action);
  } else if constexpr (Optional<T>) {
    if (value.has_value()) for_each_tensor(*value, action);
  }
}

}  // namespace tensors

/// PyTorch's DataParallel, TensorFlow's in-graph replication, on the cores of one machine: one process, one
/// program.
///
///     kolo::methods::DataParallel model(Net(), {.replicas = 4});
///     torch::optim::SGD optimizer(model.parameters(), 0.1);
///     loss(model(images), labels).backward();       // of the whole batch, as without
///     optimizer.step();
///
/// forward() cuts every tensor among its arguments (in containers, pairs, tuples and optionals too) along
/// dimension 0 into as many parts as there are replicas, alike to one sample, and gives each replica its
/// parts; a batch of fewer samples takes fewer replicas, an empty one goes to the first. Other arguments go
/// to every replica, as copies. It returns the outputs one behind the other along dimension 0; from outputs
/// without dimensions (a loss) it makes a vector of one for each replica. What else a forward() returns is
/// the first replica's.
///
/// Each replica runs forward and backward in a thread of its own, the same one in every step. backward()
/// called on what depends on the outputs adds to the model's gradients what one process with the whole batch
/// would, summed over the replicas in their order: the same bits in every run where the operators have them.
///
/// Replicas are clones, made at construction, that compute with the very memory of the model's parameters,
/// so nothing is copied to them, and that follow the model's training mode, frozen parameters and buffers in
/// each forward(). The first replica's buffers are the model's own, so what it makes of them stays, as in
/// PyTorch; the other replicas' changes are lost. Other members stay as they were cloned. A forward() must
/// not change parameters, nor what replicas share beside parameters (pointers to something). Random numbers
/// (dropout) differ between replicas; as all threads draw from libtorch's one generator, they also differ
/// from run to run.
///
/// Several forward() may come before one backward(), and retain_graph works; a second derivative
/// (create_graph) is refused with InvalidArgumentError. A replica that throws ends forward() or backward()
/// with ReplicaError once all replicas are done; no gradient has changed then, and the object stays usable.
/// Not thread-safe.
///
/// Matrix products must come from a BLAS that is safe among threads: not Debian's libopenblas0-serial.
template <std::derived_from<torch::nn::Module> Model>
class DataParallel : public DataParallelBase {
 public:
  /// `make` makes the replicas of a model that has no clone(), that is, does not derive from
  /// torch::nn::Cloneable: another model with the same parameters and buffers, of any values.
  ///
  /// Throws InvalidArgumentError where there is no model, replicas < 1, threads_per_replica < 0, or a replica
  /// cannot be made or is not like the model. Afterwards at::get_num_threads() is what it was, in this
  /// thread and for new ones.
  DataParallel(std::shared_ptr<Model> model, DataParallelOptions options = {},
               std::type_identity_t<std::function<std::shared_ptr<Model>()>> make = {})
      : DataParallelBase(model, make ? MakeReplica(std::move(make)) : MakeReplica(), options),
        model_(std::move(model)) {
    for (int i = 0; i < replicas(); ++i) {
      replicas_.push_back(std::dynamic_pointer_cast<Model>(replica(static_cast<std::size_t>(i))));
      if (!replicas_.back())
        throw InvalidArgumentError("DataParallel: the model's clone is of another type", {});
    }
  }
  DataParallel(const torch::nn::ModuleHolder<Model>& model, DataParallelOptions options = {},
               std::type_identity_t<std::function<std::shared_ptr<Model>()>> make = {})
      : DataParallel(model.ptr(), options, std::move(make)) {}

  /// Runs the model's forward() on all replicas, and returns what it returns of the whole batch: see above.
  /// Throws InvalidArgumentError, before anything runs, where no argument is a tensor, tensors have no
  /// dimension 0 of one length, or parameters, buffers or modules were registered since construction.
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    using Parts = std::tuple<std::decay_t<Arguments>...>;
    const auto call = [](Model& model, Parts& parts) {
      return std::apply([&](auto&... part) { return model.forward(part...); }, parts);
    };
    using Output = std::invoke_result_t<decltype(call), Model&, Parts&>;
    static_assert(tensors::is_seen_through<Output>(),
                  "forward() has to return tensors, or containers, pairs, tuples and optionals of them");

    Parts whole(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> inputs;
    tensors::for_each_tensor(whole, [&](const at::Tensor& tensor) { inputs.push_back(tensor); });
    std::vector<std::optional<Output>> outputs(replicas_.size());
    auto gathered = run(inputs, [&](std::size_t index, const std::vector<at::Tensor>& own) {
      Parts parts(std::as_const(whole));
      auto input = own.begin();
      tensors::for_each_tensor(parts, [&](at::Tensor& tensor) { tensor = *input++; });
      outputs[index].emplace(call(*replicas_[index], parts));
      std::vector<at::Tensor> tensors;
      tensors::for_each_tensor(*outputs[index], [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
      return tensors;
    });
    auto output = gathered.begin();
    tensors::for_each_tensor(*outputs[0], [&](at::Tensor& tensor) { tensor = std::move(*output++); });
    return *std::move(outputs[0]);
  }
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// The model itself, for saving, modes and so on.
  Model& model() noexcept { return *model_; }
  Model* operator->() noexcept { return model_.get(); }

 private:
  std::shared_ptr<Model> model_;
  std::vector<std::shared_ptr<Model>> replicas_;
};

}  // namespace kolo::methods
