// Calls of a Group that are several calls with one Work.
#include <stdexcept>
#include <string>
#include <utility>

#include "group.hpp"
#include "kolo/call_batch.hpp"
#include "kolo/trouble.hpp"
#include "tensors.hpp"

namespace kolo::pytorch {

/// A batch of one call for each pair of tensors. It checks all of them before the first starts.
template <typename Add>
Group::Started Group::together(c10d::OpType type, const char* name, const Tensors& out, const Tensors& in,
                               const Add& add) {
  if (in.empty() || in.size() != out.size())
    throw std::invalid_argument(
        with_code(std::string(name) + ": there must be as many outputs as inputs, and at least one"));
  const auto call = make_call(name);
  call->is_batch = true;
  call->takes_devices = false;
  return start(type, call, [&](Communicator& communicator) {
    CallBatch batch(communicator);
    for (std::size_t i = 0; i < in.size(); ++i) add(batch, *call, out[i], in[i]);
    call->record();
    return batch.start();
  });
}

Group::Started Group::allreduce_coalesced(Tensors& data, const c10d::AllreduceCoalescedOptions& options) {
  return together(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", data, data,
                  [&](CallBatch& batch, Call& call, const at::Tensor& tensor, const at::Tensor&) {
                    const bool divides = averages_integers(options.reduceOp, tensor);
                    batch.all_reduce(divides ? call.in_out_divided(tensor, size_) : call.in_out(tensor),
                                     reduction_of(options.reduceOp, tensor),
                                     all_reduce_options(options, tensor));
                  });
}

Group::Started Group::allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::AllgatherOptions& options) {
  return together(c10d::OpType::ALLGATHER_COALESCED, "all_gather_into_tensor_coalesced", out, in,
                  [&](CallBatch& batch, Call& call, const at::Tensor& whole, const at::Tensor& part) {
                    const auto from = call.input(part);
                    batch.all_gather(from, call.output(whole), {}, options_of(options));
                  });
}

Group::Started Group::reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::ReduceScatterOptions& options) {
  return together(c10d::OpType::REDUCE_SCATTER, "reduce_scatter_tensor_coalesced", out, in,
                  [&](CallBatch& batch, Call& call, const at::Tensor& part, const at::Tensor& whole) {
                    const bool divides = averages_integers(options.reduceOp, part);
                    const auto from = call.input(divides ? whole.to(at::kLong) : whole);
                    batch.reduce_scatter(from, divides ? call.in_out_divided(part, size_) : call.output(part),
                                         reduction_of(options.reduceOp, part), {}, options_of(options));
                  });
}

/// out[r] holds rank r's tensors: one call for each of them.
Group::Started Group::allgather_coalesced(Lists& out, Tensors& in, const c10d::AllgatherOptions& options) {
  const auto call = make_call("all_gather_coalesced");
  std::vector<Tensors> parts(in.size());
  for (const Tensors& list : out) {
    bool fits = list.size() == in.size();
    for (std::size_t i = 0; fits && i < in.size(); ++i) {
      fits = list[i].numel() == in[i].numel() && list[i].scalar_type() == in[i].scalar_type();
      parts[i].push_back(list[i]);
    }
    if (!fits)
      throw std::invalid_argument(
          with_code("all_gather_coalesced: a rank's outputs are not like the inputs"));
  }
  if (std::ssize(out) != size_ || in.empty())
    throw std::invalid_argument(
        with_code("all_gather_coalesced: there must be tensors, and outputs for each rank"));
  const auto from = call->inputs(in);
  return start(c10d::OpType::ALLGATHER_COALESCED, call, [&](Communicator& communicator) {
    for (std::size_t i = 0; i < in.size(); ++i)
      call->add(communicator.all_gather_async(from[i], call->outputs(parts[i]),
                                              options_of(options, call->stream())));
    return std::vector<kolo::Work>();
  });
}

void Group::startCoalescing() {
  const std::lock_guard lock(mutex_);
  coalesced_ = make_call("coalesced calls");
  coalesced_->is_message = true;  // a barrier waits for each of them, as far as it does
}

Group::Started Group::endCoalescing() {
  const std::lock_guard lock(mutex_);
  if (coalesced_ == nullptr)
    throw std::runtime_error(with_code("kolo: coalescing has not begun on this group"));
  return c10::make_intrusive<Work>(rank_, c10d::OpType::UNKNOWN, std::exchange(coalesced_, nullptr));
}

}  // namespace kolo::pytorch
