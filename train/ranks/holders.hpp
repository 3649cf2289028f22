// Which tensors are this rank's part of a model, or are moved by an object of their own: lists of them are
// refused.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::train {

/// What an object has a tensor for.
struct Holding {
  const void* holder = nullptr;  ///< set by Held
  std::string what;              ///< "part 1 of 4 of a PipelineParallel"
  std::string instead;           ///< what to do for a norm over all parts; empty: there is none
  bool is_part = false;          ///< other ranks have other parts
  bool is_divided = false;       ///< the parameter itself is cut
  std::shared_ptr<const PlacedParameter> shard =
      {};  ///< of a whole parameter, which has no gradient: this rank's part
};

/// This rank's part among those of a group, of which none is whole; nothing in a group of one rank.
std::optional<Holding> part_of_group(const Communicator& group, const std::string& of,
                                     const std::string& instead, bool is_divided);

/// Enters a tensor into a table of the process, for as long as it is there. Thread-safe, as all functions
/// here are.
void hold(const at::Tensor& tensor, Holding holding);
/// The same, for as long as the object lives.
class Held {
 public:
  Held() = default;
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void add(const at::Tensor& tensor, Holding holding);

 private:
  std::vector<at::Tensor> tensors_;
};

/// "part 1 of 4 of a PipelineParallel"; empty for a tensor that is whole.
std::string part_text_of(const at::Tensor& tensor);
/// Of a model's parameter that a ShardedDataParallel has in shards: this rank's one.
std::shared_ptr<const PlacedParameter> shard_of(const at::Tensor& tensor);

/// Each throws InvalidArgumentError that begins with `name` and says what to do instead: where no norm of the
/// tensor's gradient can be taken; where one would be that of a part, alone or with others of its rank; where
/// it is that of a part of a parameter.
void require_norm(const at::Tensor& tensor, const std::string& name);
void require_no_part(const at::Tensor& tensor, const std::string& name);
void require_undivided(const at::Tensor& tensor, const std::string& name);

}  // namespace kolo::train
