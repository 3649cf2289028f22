// bench_kernels: bytes per second of the kernels, next to memcpy and to plain loops of the same shape.
//
// Bandwidth counts every byte that an operation reads and writes, as STREAM does: two loads and a store for a
// reduction, one of each for a copy or a fold in place. The plain loop and memcpy of the same size show the
// machine's limit at this moment. For a busy machine: `--benchmark_min_time=0.5 --benchmark_repetitions=5
// --benchmark_report_aggregates_only`.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/targets.hpp"
#include "plain_add.hpp"

namespace kolo::kernels {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kSizes[] = {16 * kKiB, 256 * kKiB, 16 * 1024 * kKiB};

/// `bytes` bytes, `offset` after a page boundary. Each is written, because untouched pages are the zero page.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t offset)
      : memory_(static_cast<std::uint8_t*>(::operator new(bytes + offset, kAlignment))), offset_(offset) {
    std::memset(memory_.get(), 1, bytes + offset);
  }
  void* data() { return memory_.get() + offset_; }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::uint8_t* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t offset_;
};

/// Three arrays of state.range(0) bytes, which start 192 bytes apart modulo a page. With equal offsets each
/// load would wait for an unrelated earlier store (4 KiB aliasing).
struct Arrays {
  explicit Arrays(const benchmark::State& state, std::size_t offset = 0)
      : bytes(static_cast<std::size_t>(state.range(0))),
        out(bytes, offset),
        left(bytes, offset + 192),
        right(bytes, offset + 384) {}
  std::size_t bytes;
  Buffer out, left, right;
};

/// Repeats `call`, which loads or stores `streams` arrays.
template <typename Call>
void repeat(benchmark::State& state, std::size_t streams, Call call) {
  for (auto _ : state) {
    call();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) *
                          static_cast<std::int64_t>(streams));
}

void memcpy_bytes(benchmark::State& state) {
  Arrays arrays(state);
  repeat(state, 2, [&] { std::memcpy(arrays.out.data(), arrays.left.data(), arrays.bytes); });
}

void copy_bytes(benchmark::State& state) {
  Arrays arrays(state);
  repeat(state, 2, [&] { copy(arrays.out.data(), arrays.left.data(), arrays.bytes); });
}

void plain_loop_float32(benchmark::State& state) {
  Arrays arrays(state);
  repeat(state, 3, [&] {
    plain_add(static_cast<float*>(arrays.out.data()), static_cast<const float*>(arrays.left.data()),
              static_cast<const float*>(arrays.right.data()), arrays.bytes / sizeof(float));
  });
}

void reduce_arrays(benchmark::State& state, DType dtype, ReduceOp op, bool in_place, std::size_t offset) {
  Arrays arrays(state, offset);
  void* out = in_place ? arrays.left.data() : arrays.out.data();
  const ReduceFn reduce = reduce_function(dtype, op);
  repeat(state, 3,
         [&] { reduce(out, arrays.left.data(), arrays.right.data(), arrays.bytes / size_of(dtype)); });
}

void average_arrays(benchmark::State& state, DType dtype) {
  Arrays arrays(state);
  const AverageFn average = average_function(dtype);
  repeat(state, 3, [&] {
    average(arrays.out.data(), arrays.left.data(), arrays.right.data(), arrays.bytes / size_of(dtype), 4);
  });
}

/// `many` arrays of state.range(0) bytes that are folded in place.
class Folded {
 public:
  Folded(const benchmark::State& state, std::size_t many) : bytes_(static_cast<std::size_t>(state.range(0))) {
    for (std::size_t k = 0; k < many; ++k) buffers_.push_back(std::make_unique<Buffer>(bytes_, 192 * k));
    for (const auto& buffer : buffers_) pointers_.push_back(buffer->data());
  }
  std::size_t bytes() const { return bytes_; }
  const std::vector<void*>& all() const { return pointers_; }
  float* floats(std::size_t k) const { return static_cast<float*>(pointers_[k]); }

 private:
  std::size_t bytes_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<void*> pointers_;
};

void fold_in_place(benchmark::State& state, DType dtype, ReduceOp op, std::size_t many) {
  const Folded arrays(state, many);
  const FoldFn fold = fold_function(dtype, op);
  const std::vector<const void*> ins(arrays.all().begin(), arrays.all().end());
  repeat(state, 2 * many,
         [&] { fold(arrays.all().data(), many, ins.data(), many, arrays.bytes() / size_of(dtype), many); });
}

/// The limit of a fold in place if arithmetic cost nothing: each array is read and written once.
void read_and_write(benchmark::State& state, std::size_t many) {
  const Folded arrays(state, many);
  repeat(state, 2 * many, [&] {
    for (std::size_t k = 0; k < many; ++k) plain_increment(arrays.floats(k), arrays.bytes() / sizeof(float));
  });
}

void plain_fold(benchmark::State& state, std::size_t many) {
  const Folded arrays(state, many);
  const std::size_t count = arrays.bytes() / sizeof(float);
  repeat(state, 2 * many, [&] {
    if (many == 2) {
      plain_fold2(arrays.floats(0), arrays.floats(1), count);
    } else {
      plain_fold4(arrays.floats(0), arrays.floats(1), arrays.floats(2), arrays.floats(3), count);
    }
  });
}

template <typename... Arguments>
benchmark::internal::Benchmark* add(const std::string& name, Arguments... arguments) {
  auto* made = benchmark::RegisterBenchmark(name.c_str(), arguments...);
  for (const std::int64_t size : kSizes) made->Arg(size);
  return made;
}

void register_folds() {
  for (const std::size_t many : {2, 4}) {
    const std::string number = std::to_string(many);
    add("limit/read_and_write/" + number, read_and_write, many);
    add("limit/plain_fold/float32/" + number, plain_fold, many)->Arg(64)->Arg(kKiB);
    add("fold/sum/float32/" + number, fold_in_place, DType::float32, ReduceOp::sum, many)->Arg(64)->Arg(kKiB);
    for (const DType dtype : {DType::bfloat16, DType::float16, DType::int8}) {
      add("fold/sum/" + std::string(name_of(dtype)) + "/" + number, fold_in_place, dtype, ReduceOp::sum,
          many);
    }
    add("fold/average/float32/" + number, fold_in_place, DType::float32, ReduceOp::average, many);
    add("fold/max/float32/" + number, fold_in_place, DType::float32, ReduceOp::max, many);
  }
  add("fold/sum/float32/8", fold_in_place, DType::float32, ReduceOp::sum, 8);
}

void register_all() {
  add("memcpy", memcpy_bytes)->Arg(64 * 1024 * kKiB);
  add("copy", copy_bytes)->Arg(64 * 1024 * kKiB);  // beyond the last cache, where copy() streams
  add("plain_loop/float32", plain_loop_float32);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int8}) {
    const std::string name = "sum/" + std::string(name_of(dtype));
    add(name, reduce_arrays, dtype, ReduceOp::sum, false, 0);
    add(name + "/in_place", reduce_arrays, dtype, ReduceOp::sum, true, 0);
  }
  add("sum/float32/misaligned", reduce_arrays, DType::float32, ReduceOp::sum, false, 4);
  for (const DType dtype :
       {DType::float16, DType::float8_e4m3fn, DType::float8_e5m2, DType::boolean, DType::complex64}) {
    add("sum/" + std::string(name_of(dtype)), reduce_arrays, dtype, ReduceOp::sum, false, 0);
  }
  add("product/complex64", reduce_arrays, DType::complex64, ReduceOp::product, false, 0);
  add("bit_xor/int32", reduce_arrays, DType::int32, ReduceOp::bit_xor, false, 0);
  add("max/float32", reduce_arrays, DType::float32, ReduceOp::max, false, 0);
  add("product/int8", reduce_arrays, DType::int8, ReduceOp::product, false, 0);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    add("average/" + std::string(name_of(dtype)), average_arrays, dtype);
  }
  register_folds();
}

}  // namespace
}  // namespace kolo::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("kernels", kolo::kernels::target_name());
  kolo::kernels::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
