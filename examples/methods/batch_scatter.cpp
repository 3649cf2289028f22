#include "methods/batch_scatter.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <istream>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/tensor.hpp"
#include "methods/sample_reader.hpp"

namespace kolo::methods {
namespace {

std::int64_t first_row(std::int64_t samples, int rank, int ranks) {
  return samples * rank / ranks;
}

/// Throws InvalidArgumentError for what cannot be scattered; else the same in one piece.
Batch require_batch(const Batch& batch) {
  samples_of(batch);
  Batch result;
  for (const at::Tensor& tensor : batch) {
    result.push_back(tensor.detach().contiguous());
    require_collective(result.back());
  }
  return result;
}

}  // namespace

class BatchScatter::Thread {
 public:
  Thread(Communicator communicator, Source source)
      : communicator_(std::move(communicator)), source_(std::move(source)), thread_([this] { run(); }) {}

  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::optional<Batch> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return batch_.has_value() || is_over_; });
    if (batch_) {
      std::optional<Batch> batch = std::exchange(batch_, std::nullopt);
      changed_.notify_all();
      return batch;
    }
    if (error_) std::rethrow_exception(error_);
    return {};
  }

 private:
  void run() {
    try {
      while (true) {
        bool is_last = false;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return is_stopped_ || !batch_; });
          is_last = is_stopped_;
        }
        if (!agree_to_go_on(is_last)) break;
        std::optional<Batch> batch = scatter_next();
        if (!batch) break;
        const std::lock_guard lock(mutex_);
        batch_ = std::move(batch);
        changed_.notify_all();
      }
    } catch (const Error&) {  // which all ranks get
      fail();
    } catch (const std::exception& error) {
      const std::string reason = error.what();
      static_cast<void>(problem_of([&] { communicator_.abort(reason); }));
      fail();
    }
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

  /// In a handler of exceptions.
  void fail() {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }

  /// A rank that ends is not missed in the middle of a batch. Throws Error where another one does.
  bool agree_to_go_on(bool is_last) {
    int ended = is_last ? communicator_.rank() : communicator_.size();
    communicator_.all_reduce(Buffer(&ended, 1, DType::int32), ReduceOp::min);
    if (is_last) return false;
    if (ended == communicator_.size()) return true;
    throw Error("rank " + std::to_string(ended) + " has ended its BatchScatter",
                {.peer = ended, .collective = "BatchScatter"});
  }

  std::optional<Batch> scatter_next() {
    const c10::NoGradGuard no_grad;
    Batch whole;
    std::string problem;
    std::vector<std::int64_t> numbers;  // type, dimensions and sizes of each tensor; none: the end
    broadcast_object(
        [&](std::ostream& to) {
          problem = problem_of([&] {
            if (const auto batch = source_()) whole = require_batch(*batch);
          });
          for (const at::Tensor& tensor : whole) {
            numbers.insert(numbers.end(), {static_cast<std::int64_t>(tensor.scalar_type()), tensor.dim()});
            numbers.insert(numbers.end(), tensor.sizes().begin(), tensor.sizes().end());
          }
          to << problem << '\0';
          for (const std::int64_t number : numbers) to << number << ' ';
        },
        [&](std::istream& from) {
          std::getline(from, problem, '\0');
          for (std::int64_t number; from >> number;) numbers.push_back(number);
        },
        communicator_);
    if (!problem.empty()) {
      throw Error("rank 0 has no batch to scatter: " + problem, {.peer = 0, .collective = "BatchScatter"});
    }
    if (numbers.empty()) return {};
    Batch mine;
    std::vector<TensorWork> works;
    for (std::size_t at = 0; at < numbers.size(); at += 2 + static_cast<std::size_t>(numbers[at + 1])) {
      const at::IntArrayRef sizes(numbers.data() + at + 2, static_cast<std::size_t>(numbers[at + 1]));
      works.push_back(scatter(whole, sizes, static_cast<at::ScalarType>(numbers[at]), mine));
    }
    wait_all(works);
    return mine;
  }

  /// Appends this rank's part of the next tensor to `mine`.
  TensorWork scatter(const Batch& whole, at::IntArrayRef sizes, at::ScalarType type, Batch& mine) {
    const int ranks = communicator_.size();
    std::vector<std::int64_t> part = sizes.vec();
    const auto rows_of = [&](int rank) {
      return first_row(sizes[0], rank + 1, ranks) - first_row(sizes[0], rank, ranks);
    };
    std::int64_t row = 1;
    for (std::size_t i = 1; i < sizes.size(); ++i) row *= sizes[i];
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < ranks; ++rank) counts.push_back(rows_of(rank) * row);
    part[0] = rows_of(communicator_.rank());
    const at::Tensor from = communicator_.rank() == 0 ? whole[mine.size()] : at::Tensor();
    mine.push_back(at::empty(part, type));
    return scatter_async(from, mine.back(), 0, communicator_, counts);
  }

  Communicator communicator_;
  Source source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Batch> batch_;  ///< the one ahead
  bool is_stopped_ = false;
  bool is_over_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

BatchScatter::BatchScatter(Communicator communicator, Source source) {
  agree(communicator, "BatchScatter", "", [&] {
    if (communicator.rank() == 0 && !source) throw InvalidArgumentError("there is no source of batches", {});
  });
  thread_ = std::make_unique<Thread>(communicator.split(0), std::move(source));
}

BatchScatter::~BatchScatter() = default;

std::optional<Batch> BatchScatter::next() {
  return thread_->take();
}

}  // namespace kolo::methods
