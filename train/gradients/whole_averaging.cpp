#include "gradients/whole_averaging.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gradients/bucket_borders.hpp"
#include "gradients/slice_thread.hpp"
#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

WholeAveraging::WholeAveraging(std::vector<NamedTensor> parameters, std::vector<std::size_t> own,
                               Communicator communicator, const DistributedDataParallelOptions& options)
    : Averaging(communicator),
      parameters_(std::move(parameters)),
      is_own_(parameters_.size(), false),
      // What travels in slices is not to be waited for in larger units.
      bytes_(options.overlap_forward ? std::min(options.bucket_bytes, kSliceBytes) : options.bucket_bytes),
      first_bytes_(std::min(options.first_bucket_bytes, bytes_)),
      wire_(options.wire),
      hook_(options.hook) {
  if (hook_) thread_.emplace(communicator.split(0));
  for (const std::size_t i : own) is_own_[i] = true;
  if (options.bucket_borders == BucketBorders::measured && communicator_.size() > 1)
    search_ = std::make_unique<BucketSearch>(parameters_.size(), options);
  std::ranges::reverse(own);
  WholeAveraging::lay_out(own, {});
}

void WholeAveraging::lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) {
  std::vector<ReadyGradient> sizes;
  for (const NamedTensor& parameter : parameters_)
    sizes.push_back({parameter.tensor.nbytes(), dtype_of_tensor(parameter.tensor.scalar_type())});
  std::vector<std::size_t> own;
  std::ranges::copy_if(order, std::back_inserter(own), [&](std::size_t i) { return is_own_[i]; });
  if (search_ && !ends.empty() && ends.back() == own.size()) {
    fill(assign_buckets(sizes, own, ends));
    search_->stop();
  } else {
    fill(assign_buckets(sizes, own, first_bytes_, bytes_));
  }
}

void WholeAveraging::fill(std::vector<std::vector<std::size_t>> members) {
  const std::vector<Bucket> old = std::exchange(buckets_, {});  // keeps the gradients readable
  for (const auto& one : members) {
    Bucket& bucket = buckets_.emplace_back(one, parameters_);
    for (std::size_t s = 0; s < one.size() && !old.empty(); ++s)
      bucket.collect(s, parameters_[one[s]].tensor);
  }
  set_members(std::move(members));
}

bool WholeAveraging::improve(std::span<const std::size_t> order, int root) {
  if (!search_ || search_->is_over()) return false;
  const auto better = search_->end_step(communicator_, members(), buckets_, order, root);
  if (better) fill(*better);
  return better.has_value();
}

std::vector<std::size_t> WholeAveraging::ends() const {
  std::vector<std::size_t> ends;
  if (!search_ || !search_->is_over()) return ends;
  for (const auto& bucket : members()) ends.push_back((ends.empty() ? 0 : ends.back()) + bucket.size());
  return ends;
}

void WholeAveraging::prepare() {
  if (search_) search_->begin();
  if (thread_) thread_->communicator().set_label(kLabel, step_);
}

void WholeAveraging::take(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) {
  const std::size_t index = members()[bucket][slot];
  if (const at::Tensor& gradient = parameter.grad();
      gradient.defined() && gradient.layout() != at::kStrided) {
    throw InvalidArgumentError("the gradient of '" + parameters_[index].name +
                                   "' is sparse and a dense one was expected: name it in sparse_parameters",
                               {});
  }
  if (search_) search_->note(index);
  buckets_[bucket].collect(slot, parameter);
}

void WholeAveraging::scale(std::size_t bucket) {
  if (share_.factor != 1) buckets_[bucket].scale(share_.factor);
}

void WholeAveraging::start(std::size_t bucket) {
  const bool is_hooked_one = is_hooked(buckets_[bucket]);
  if (!is_hooked_one || hook_->is_mean()) scale(bucket);
  if (is_hooked_one) {
    buckets_[bucket].start(*thread_, *hook_,
                           {.index = bucket, .loss_scale = loss_scale_, .contributes = share_.contributes});
  } else {
    buckets_[bucket].start(communicator_, wire_);
  }
}

void WholeAveraging::wait() {
  if (thread_) are_finite_ = thread_->wait();
  for (Bucket& bucket : buckets_) bucket.wait();
  // What did not go through the hook counts as well: a step is skipped as a whole.
  for (const Bucket& bucket : buckets_) {
    if (thread_ && !is_hooked(bucket)) are_finite_ = are_finite_ && bucket.is_finite();
  }
}

void WholeAveraging::settle() noexcept {
  if (thread_) thread_->settle();
  for (Bucket& bucket : buckets_) bucket.settle();
}

bool WholeAveraging::are_finite() const {
  return thread_ ? are_finite_ : std::ranges::all_of(buckets_, &Bucket::is_finite);
}

}  // namespace kolo::train
