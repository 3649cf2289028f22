#include "tensor/attention.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/span.hpp"
#include "tensor/construction.hpp"
#include "tensor/group_collectives.hpp"

namespace kolo {
namespace {

/// The factor of scores where `scale` is 0: the inverse root of the elements of a head.
double scale_of_scores(double scale, std::int64_t elements) {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(elements));
}

/// Throws InvalidArgumentError unless all three have one shape [samples, heads, this rank's places,
/// elements].
void require_attention_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Communicator& group, std::int64_t whole_sequence) {
  if (q.dim() != 4 || q.sizes() != k.sizes() || q.sizes() != v.sizes() || q.size(3) == 0) {
    throw InvalidArgumentError("q, k and v are of one shape [samples, heads, places, elements], not " +
                                   c10::str(q.sizes()) + ", " + c10::str(k.sizes()) + ", " +
                                   c10::str(v.sizes()),
                               {});
  }
  const std::int64_t own =
      whole_sequence > 0 ? slice_of(whole_sequence, group.rank(), group.size()).length : q.size(2);
  if (q.size(2) == own) return;
  throw InvalidArgumentError("this rank has " + std::to_string(q.size(2)) + " places of a sequence of " +
                                 std::to_string(whole_sequence) + ", and its slice " + std::to_string(own),
                             {});
}

/// bool [queries, keys]: keys that come after the query, and so are not seen. The first query is number
/// `first_query` of the sequence, likewise the first key.
at::Tensor later_keys(std::int64_t queries, std::int64_t first_query, std::int64_t keys,
                      std::int64_t first_key) {
  const at::Tensor query = at::arange(first_query, first_query + queries, at::kLong).unsqueeze(1);
  return at::arange(first_key, first_key + keys, at::kLong) > query;
}

// Two things travel at a time in backward. Numbers that no program is likely to have as tags of its own.
constexpr int kBlockTag = 0x6B6F6C01, kGradientTag = 0x6B6F6C02;

/// What all steps of a call have in common.
struct RingCall : torch::CustomClassHolder {
  RingCall(Communicator group_, bool causal_, double scale_, std::int64_t whole_)
      : group(std::move(group_)), causal(causal_), scale(scale_), whole(whole_) {}

  Slice slice_of_rank(int rank) const { return slice_of(whole, rank, group.size()); }
  /// Whose block is here in this step, and in the next one.
  int owner(int step) const { return (group.rank() + 2 * group.size() - step) % group.size(); }

  Communicator group;
  bool causal;
  double scale;
  std::int64_t whole;  ///< places of the sequence
};

/// Of what keys and values, or their gradients, are for one rank's places: [2, samples, heads, places,
/// elements].
at::Tensor empty_block(const at::Tensor& like, std::int64_t places) {
  auto sizes = like.sizes().vec();
  sizes[3] = places;
  return at::empty(sizes, like.options());
}

/// q k^T scale for the block of `owner`, [samples, heads, places, places of the block]; keys that come later
/// have minus infinity. Nothing where no key is seen.
std::optional<at::Tensor> scores_of(const RingCall& call, const at::Tensor& scaled_q, const at::Tensor& keys,
                                    int owner) {
  const Slice queries = call.slice_of_rank(call.group.rank()), block = call.slice_of_rank(owner);
  if (queries.length == 0 || block.length == 0) return {};
  if (call.causal && block.begin >= queries.end()) return {};
  at::Tensor scores = at::matmul(scaled_q, keys.transpose(-2, -1));
  if (call.causal && block.end() > queries.begin) {
    const at::Tensor later = later_keys(queries.length, queries.begin, block.length, block.begin);
    scores.masked_fill_(later.to(scores.device()), -std::numeric_limits<double>::infinity());
  }
  return scores;
}

/// M. Milakov, N. Gimelshein: "Online normalizer calculation for softmax", 2018, algorithm 3, with the sums
/// of values beside. The own block comes first, so that every place has seen a key.
class OnlineSoftmax {
 public:
  explicit OnlineSoftmax(const at::Tensor& scaled_q)
      : sums_(at::zeros_like(scaled_q)),
        most_(at::full_like(scaled_q.select(-1, 0), -std::numeric_limits<double>::infinity()).unsqueeze(-1)),
        total_(at::zeros_like(most_)) {}

  void add(const at::Tensor& scores, const at::Tensor& values) {
    const at::Tensor most = at::maximum(most_, at::amax(scores, {-1}, true));
    const at::Tensor weights = (scores - most).exp_();
    const at::Tensor shrunk = (most_ - most).exp_();
    total_ = total_ * shrunk + weights.sum(-1, true);
    sums_ = sums_ * shrunk + at::matmul(weights, values);
    most_ = most;
  }
  at::Tensor output() const { return sums_ / total_; }
  /// The logarithm of the sum of the exponentials of all scores of a place.
  at::Tensor log_sum() const { return most_ + total_.log(); }

 private:
  at::Tensor sums_, most_, total_;
};

at::Tensor for_sums(const at::Tensor& tensor) {
  return tensor.to(tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

/// A tensor goes to the next rank while one comes from the rank before. Both are perhaps empty; the tags of
/// what travels at a time differ.
class RingShift {
 public:
  RingShift(Communicator& group, const at::Tensor& sent, const at::Tensor& received, int tag)
      : group_(group), received_(received) {
    const int size = group.size(), next = (group.rank() + 1) % size,
              before = (group.rank() + size - 1) % size;
    if (received.numel() > 0) receive_ = recv_async(received, before, group, tag);
    if (sent.numel() > 0) send_ = send_async(sent, next, group, tag);
  }
  /// What has come.
  at::Tensor wait() {
    const train::Span span(group_, "wait for ring");
    receive_.wait();
    send_.wait();
    return received_;
  }

 private:
  Communicator group_;
  at::Tensor received_;
  TensorWork receive_, send_;
};

class RingAttention : public torch::autograd::Function<RingAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const c10::intrusive_ptr<RingCall>& call) {
    const at::Tensor scaled_q = for_sums(q) * call->scale;
    OnlineSoftmax softmax(scaled_q);
    at::Tensor block = at::stack({k, v});
    for (int step = 0; step < call->group.size(); ++step) {
      std::optional<RingShift> shift = start_next(*call, block, step);
      if (const auto scores = scores_of(*call, scaled_q, for_sums(block[0]), call->owner(step)))
        softmax.add(*scores, for_sums(block[1]));
      if (shift) block = shift->wait();
    }
    const at::Tensor output = softmax.output();
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->save_for_backward({q, k, v, output, softmax.log_sum()});
    return output.to(q.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    train::refuse_second_derivative("ring_attention()");
    const auto capsule = context->saved_data["call"].toCapsule();
    auto& call = static_cast<RingCall&>(*capsule);
    const auto saved = context->get_saved_variables();
    const at::Tensor scaled_q = for_sums(saved[0]) * call.scale, above = for_sums(gradients[0]);
    const at::Tensor &output = saved[3], &log_sum = saved[4];
    // What the sum over a place's weights takes from each of their gradients.
    const at::Tensor common = (above * output).sum(-1, true);

    at::Tensor block = at::stack({saved[1], saved[2]});
    at::Tensor q_gradient = at::zeros_like(scaled_q);
    at::Tensor block_gradient = at::zeros_like(for_sums(block));
    const int size = call.group.size();
    std::optional<RingShift> gradient_shift;
    for (int step = 0; step < size; ++step) {
      const int owner = call.owner(step);
      std::optional<RingShift> shift = start_next(call, block, step);
      at::Tensor own_part;
      const at::Tensor keys = for_sums(block[0]), values = for_sums(block[1]);
      if (const auto scores = scores_of(call, scaled_q, keys, owner)) {
        const at::Tensor weights = (*scores - log_sum).exp_();
        const at::Tensor score_gradient =
            (at::matmul(above, values.transpose(-2, -1)) - common).mul_(weights);
        q_gradient += at::matmul(score_gradient, keys);
        own_part = at::stack({at::matmul(score_gradient.transpose(-2, -1), scaled_q),
                              at::matmul(weights.transpose(-2, -1), above)});
      }
      // The gradient of this block so far comes from the rank before, which has had the block before.
      if (gradient_shift) block_gradient = gradient_shift->wait();
      if (own_part.defined()) block_gradient += own_part;
      if (shift) block = shift->wait();
      if (size > 1) {
        gradient_shift.emplace(call.group, block_gradient,
                               empty_block(block_gradient, call.slice_of_rank(call.owner(step + 1)).length),
                               kGradientTag);
      }
    }
    if (gradient_shift) block_gradient = gradient_shift->wait();
    const at::ScalarType type = saved[0].scalar_type();
    return {(q_gradient * call.scale).to(type), block_gradient[0].to(type), block_gradient[1].to(type), {}};
  }

 private:
  /// Sends the block on, but for the last step, while it is worked on.
  static std::optional<RingShift> start_next(RingCall& call, const at::Tensor& block, int step) {
    if (step + 1 == call.group.size()) return {};
    return std::optional<RingShift>(std::in_place, call.group, block,
                                    empty_block(block, call.slice_of_rank(call.owner(step + 1)).length),
                                    kBlockTag);
  }
};

}  // namespace

namespace train {

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale,
                     const std::function<at::Tensor(const at::Tensor&)>& drop) {
  at::Tensor scores = at::matmul(q * scale_of_scores(scale, q.size(-1)), k.transpose(-2, -1));
  if (causal) {
    scores = scores.masked_fill(later_keys(q.size(2), 0, k.size(2), 0).to(q.device()),
                                -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, -1);
  return at::matmul(drop ? drop(weights) : weights, v);
}

}  // namespace train

at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const Communicator& group, const SequenceAttentionOptions& options) {
  require_attention_shapes(q, k, v, group, options.whole_sequence);
  const std::int64_t heads = q.size(1);
  train::require_enough(heads, "heads", group.size());
  const at::Tensor of_heads = all_to_all(at::stack({q, k, v}), 2, 3, group, options.whole_sequence);
  const at::Tensor seen =
      train::attention(of_heads[0], of_heads[1], of_heads[2], options.causal, options.scale);
  return all_to_all(seen, 2, 1, group, heads);
}

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const Communicator& group, const SequenceAttentionOptions& options) {
  require_attention_shapes(q, k, v, group, options.whole_sequence);
  const std::int64_t whole = options.whole_sequence > 0 ? options.whole_sequence : group.size() * q.size(2);
  return RingAttention::apply(q, k, v,
                              c10::make_intrusive<RingCall>(
                                  group, options.causal, scale_of_scores(options.scale, q.size(-1)), whole));
}

}  // namespace kolo
